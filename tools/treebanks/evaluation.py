"""Labeled brackets: precision, recall, F1 and exact matches, by the conventions of EVALB [Sekine & Collins 1997].

As with its parameter file COLLINS.prm: brackets labeled TOP are left out, and so are words tagged -NONE-, `,`, `:`,
opening and closing quotes, and `.`, together with brackets that hold nothing else; ADVP and PRT are one label; labels
lose their functional tags; tags are no brackets. The right tree says which words are left out: EVALB refuses a sentence
whose found tree gives another word such a tag. A sentence's length is the number of its words, traces left out.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, compress
from typing import NamedTuple

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.text.treebanks.trees import Node, Tree

TRACE = "-NONE-"
DELETED_TAGS = frozenset({",", ":", "``", "''", "."})
DELETED_LABELS = frozenset({"TOP", "", TRACE, *DELETED_TAGS})
EQUAL_LABELS = {"PRT": "ADVP"}
CUTOFF = 40


class Brackets(NamedTuple):
    """A tree's brackets, labelled spans over all words but traces, with repeats; those words, and their tags."""

    spans: Counter[tuple[str, int, int]]
    words: list[str]
    tags: list[str]

    def over(self, counted: Sequence[bool]) -> Counter[tuple[str, int, int]]:
        """Return the brackets over the words that count, by their new positions; those over none are left out."""
        place = [0, *accumulate(map(int, counted))]
        spans: Counter[tuple[str, int, int]] = Counter()
        for (label, start, end), number in self.spans.items():
            if place[end] > place[start]:
                spans[label, place[start], place[end]] += number
        return spans


@dataclass(frozen=True, slots=True)
class Score:
    """Agreement of found trees with right ones, over all sentences together; rates are 0 to 1.

    `tagging` is the share of right tags.
    """

    sentences: int
    precision: float
    recall: float
    f1: float
    exact: float
    tagging: float
    matched: int
    right: int
    found: int


def brackets_of(tree: Tree) -> Brackets:
    """Return the brackets of a tree."""
    spans: Counter[tuple[str, int, int]] = Counter()
    words: list[str] = []
    tags: list[str] = []
    stack: list[tuple[Node, int]] = [(tree, -1)]
    while stack:
        node, start = stack.pop()
        if isinstance(node, str):
            # A word beside other nodes has no tag; it counts.
            words.append(node)
            tags.append("")
            continue
        label = node.label
        if not label.startswith("-"):
            label = label.partition("-")[0].partition("=")[0] or label
        label = EQUAL_LABELS.get(label, label)
        if start >= 0:
            if len(words) > start:
                spans[label, start, len(words)] += 1
        elif node.is_preterminal:
            if label != TRACE:
                words.append(str(node.children[0]))
                tags.append(label)
        else:
            if label not in DELETED_LABELS:
                stack.append((node, len(words)))
            stack.extend((child, -1) for child in reversed(node.children))
    return Brackets(spans, words, tags)


def evaluate(gold: Sequence[Tree], found: Sequence[Tree]) -> dict[str, Score]:
    """Compare trees sentence by sentence; return the score of `all`, and that `up_to_cutoff`, `CUTOFF` words.

    Raises `InputError` where the sides differ in number, or a sentence in the words that count.
    """
    if len(gold) != len(found):
        raise InputError(f"there are {len(gold)} right trees and {len(found)} found ones: one is needed for each")
    pairs = []
    for number, (right, guess) in enumerate(zip(gold, found, strict=True), 1):
        pair = brackets_of(right), brackets_of(guess)
        if len(pair[0].words) != len(pair[1].words):
            raise InputError(
                f"sentence {number}: the right tree has {len(pair[0].words)} words, the found one "
                f"{len(pair[1].words)}: the files do not belong together"
            )
        pairs.append(pair)
    shorter = [pair for pair in pairs if len(pair[0].words) <= CUTOFF]
    return {"all": _score(pairs), "up_to_cutoff": _score(shorter)}


def _score(pairs: Iterable[tuple[Brackets, Brackets]]) -> Score:
    sentences = matched = right = found = exact = tags = tagged = 0
    for gold, guess in pairs:
        counted = [tag not in DELETED_TAGS for tag in gold.tags]
        gold_spans, guess_spans = gold.over(counted), guess.over(counted)
        same = (gold_spans & guess_spans).total()
        sentences += 1
        matched += same
        right += gold_spans.total()
        found += guess_spans.total()
        exact += same == gold_spans.total() == guess_spans.total()
        tags += sum(counted)
        tagged += sum(compress(map(str.__eq__, gold.tags, guess.tags), counted))
    precision = matched / found if found else 1.0
    recall = matched / right if right else 1.0
    f1 = 2 * precision * recall / (precision + recall) if matched else 0.0
    return Score(
        sentences, precision, recall, f1, exact / max(1, sentences), tagged / max(1, tags), matched, right, found
    )
