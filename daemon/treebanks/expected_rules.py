"""The tree with the most expected productions: maximum expected recall of context-free rules.

[CGB09 §5; Goodman 2003; the MAX-RULE-SUM of Petrov & Klein 2007]
"""

from collections import defaultdict
from dataclasses import dataclass, field

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.treebanks.grammars import Production
from hierogram.daemon.treebanks.trees import Node, Tree

_Pair = tuple[str, str, str, int]


@dataclass(slots=True)
class _Cell:
    """What covers a span: expected counts of productions with one label, a word, or two labels and a split."""

    single: defaultdict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    word: defaultdict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    pair: defaultdict[_Pair, float] = field(default_factory=lambda: defaultdict(float))


class Spans:
    """Expected counts of productions by the words that they cover."""

    def __init__(self) -> None:
        self.cells: defaultdict[tuple[int, int], _Cell] = defaultdict(_Cell)

    def add(self, start: int, end: int, split: int, production: Production, count: float) -> None:
        """A production over words start to end is expected `count` times more; `split` for two labels."""
        label, right, lexical = production
        cell = self.cells[start, end]
        if lexical:
            cell.word[label, right[0]] += count
        elif len(right) == 1:
            cell.single[label, right[0]] += count
        else:
            cell.pair[label, right[0], right[1], split] += count


@dataclass(slots=True)
class _Best:
    """The best way to put a label over a span: chain of labels from it down, and what the last one is made of."""

    score: float
    chain: tuple[str, ...]
    made: str | _Pair


def best_expected_tree(spans: Spans, root: str, words: int) -> Tree:
    """The tree over all words whose productions have the largest sum of expected counts; no label comes twice in a
    chain of single labels, which otherwise could go round for ever.

    Raises `InputError` where the productions make no tree.
    """
    best: dict[tuple[int, int], dict[str, _Best]] = {}
    for (start, end), cell in sorted(spans.cells.items(), key=lambda entry: (entry[0][1] - entry[0][0], entry[0])):
        best[start, end] = _best_of(cell, best, start, end)
    if root not in best.get((0, words), {}):
        raise InputError(f"no tree with {root} on top can be made of the expected productions")
    return _assembled(best, root, words)


def _best_of(cell: _Cell, best: dict[tuple[int, int], dict[str, _Best]], start: int, end: int) -> dict[str, _Best]:
    here: dict[str, _Best] = {}
    for (label, word), count in cell.word.items():
        if label not in here or count > here[label].score:
            here[label] = _Best(count, (label,), word)
    for (label, left, right, split), count in cell.pair.items():
        one, other = best.get((start, split), {}).get(left), best.get((split, end), {}).get(right)
        if one and other:
            score = count + one.score + other.score
            if label not in here or score > here[label].score:
                here[label] = _Best(score, (label,), (label, left, right, split))
    changed = bool(cell.single)
    while changed:
        changed = False
        for (label, child), count in cell.single.items():
            below = here.get(child)
            if below is None or label in below.chain:
                continue
            if label not in here or count + below.score > here[label].score:
                here[label] = _Best(count + below.score, (label, *below.chain), below.made)
                changed = True
    return here


def _assembled(best: dict[tuple[int, int], dict[str, _Best]], root: str, words: int) -> Tree:
    stack: list[tuple[str, int, int] | tuple[tuple[str, ...], str, bool]] = [(root, 0, words)]
    done: list[Node] = []
    while stack:
        entry = stack.pop()
        if isinstance(entry[0], tuple):
            chain, word, _ = entry
            children: tuple[Node, ...] = (word,) if word else (done.pop(-2), done.pop())
            for label in reversed(chain):
                children = (Tree(label, children),)
            done.append(children[0])
            continue
        label, start, end = entry
        found = best[start, end][label]
        if isinstance(found.made, str):
            stack.append((found.chain, found.made, True))
            continue
        _, left, right, split = found.made
        stack += [(found.chain, "", False), (right, split, end), (left, start, split)]
    [tree] = done
    assert isinstance(tree, Tree)
    return tree
