"""Labeled bracketing scores by EVALB's conventions [Sekine & Collins 1997].

The parameters are EVALB's COLLINS.prm: TOP brackets are ignored. Words tagged -NONE-, `,`, `:`, quotes or `.` are
removed, together with brackets that contain no other words. ADVP equals PRT. Functional tags are stripped from labels.
Tags are not brackets. The gold tree determines the words to remove, whereas EVALB rejects a sentence if the parse tags
other words in this way. Sentence length is the number of words without traces.
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
CUTOFF_WORDS = 40


class Brackets(NamedTuple):
    """Labeled spans of a tree, (label, start, end), and its words except traces with their tags."""

    spans: Counter[tuple[str, int, int]]
    words: list[str]
    tags: list[str]

    def spans_among(self, counted: Sequence[bool]) -> Counter[tuple[str, int, int]]:
        """Return the spans with positions among the `counted` words only. Empty spans are dropped."""
        offsets = [0, *accumulate(map(int, counted))]
        spans: Counter[tuple[str, int, int]] = Counter()
        for (label, start, end), number in self.spans.items():
            if offsets[end] > offsets[start]:
                spans[label, offsets[start], offsets[end]] += number
        return spans


@dataclass(frozen=True, slots=True)
class BracketScore:
    """Number of sentences, and scores from 0 to 1: `exact` for whole sentences, `tagging` for tags."""

    sentences: int
    precision: float
    recall: float
    f1: float
    exact: float
    tagging: float


def collect_brackets(tree: Tree) -> Brackets:
    """Return the labeled spans, words and tags of a tree, as EVALB counts them.

    Functional tags and traces are removed, and preterminals and TOP have no span.
    """
    spans: Counter[tuple[str, int, int]] = Counter()
    words: list[str] = []
    tags: list[str] = []
    stack: list[tuple[Node, int]] = [(tree, -1)]
    while stack:
        node, start = stack.pop()
        if isinstance(node, str):
            # Count a word with siblings, although it has no tag, because the parse and the gold tree must have equal
            # numbers of words.
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


def evaluate(gold: Sequence[Tree], guesses: Sequence[Tree]) -> dict[str, BracketScore]:
    """Score all sentences (`all`), and sentences of up to `CUTOFF_WORDS` words (`up_to_cutoff`).

    Raises `InputError` if a parse has another number of words than its gold tree.
    """
    pairs = []
    for number, (gold_tree, guess) in enumerate(zip(gold, guesses, strict=True), 1):
        pair = collect_brackets(gold_tree), collect_brackets(guess)
        if len(pair[0].words) != len(pair[1].words):
            raise InputError(
                f"sentence {number}: the gold tree has {len(pair[0].words)} words, the parse "
                f"{len(pair[1].words)}: the files do not match"
            )
        pairs.append(pair)
    shorter = [pair for pair in pairs if len(pair[0].words) <= CUTOFF_WORDS]
    return {"all": _score(pairs), "up_to_cutoff": _score(shorter)}


def _score(pairs: Iterable[tuple[Brackets, Brackets]]) -> BracketScore:
    sentences = matched = in_gold = guessed = exact = tags = tagged = 0
    for gold, guess in pairs:
        counted = [tag not in DELETED_TAGS for tag in gold.tags]
        gold_spans, guess_spans = gold.spans_among(counted), guess.spans_among(counted)
        matching = (gold_spans & guess_spans).total()
        sentences += 1
        matched += matching
        in_gold += gold_spans.total()
        guessed += guess_spans.total()
        exact += matching == gold_spans.total() == guess_spans.total()
        tags += sum(counted)
        tagged += sum(compress(map(str.__eq__, gold.tags, guess.tags), counted))
    precision = matched / guessed if guessed else 1.0
    recall = matched / in_gold if in_gold else 1.0
    f1 = 2 * precision * recall / (precision + recall) if matched else 0.0
    return BracketScore(sentences, precision, recall, f1, exact / max(1, sentences), tagged / max(1, tags))
