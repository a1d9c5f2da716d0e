"""Derivations of a sentence by a context-free grammar in binary form, enumerated from the definition.

Derivations are grouped by the set of spans that are constituents, because masks depend on nothing else.
"""

from dataclasses import dataclass

import numpy as np

Spans = frozenset


@dataclass(frozen=True)
class Grammar:
    """Rules (parent, left, right, weight), (parent, word, weight) and (parent, child, weight).

    Unary rules lead only to labels of higher numbers, so chains end.
    """

    labels: int
    symbols: int
    binary: list[tuple[int, int, int, float]]
    lexical: list[tuple[int, int, float]]
    unary: list[tuple[int, int, float]]


@dataclass
class Class:
    """All derivations with the same constituents.

    Sums of the weights, and of weights times uses of each lexical and each binary rule.
    """

    weight: float
    uses: np.ndarray


def classes(grammar: Grammar, symbol: int, words: list[int], i: int, j: int, known: dict) -> dict[Spans, Class]:
    """Return the derivations of words [i, j) from a symbol, by class; `known` is a cache."""
    if (symbol, i, j) in known:
        return known[symbol, i, j]
    found: dict[Spans, Class] = {}

    def add(spans: Spans, weight: float, uses: np.ndarray) -> None:
        old = found.setdefault(spans, Class(0.0, np.zeros(len(uses))))
        old.weight += weight
        old.uses = old.uses + weight * uses

    rules = len(grammar.lexical) + len(grammar.binary)
    for number, (parent, word, weight) in enumerate(grammar.lexical):
        if parent == symbol and j == i + 1 and words[i] == word:
            add(frozenset({(i, j)}), weight, np.eye(rules)[number])
    for number, (parent, left, right, weight) in enumerate(grammar.binary):
        if parent == symbol:
            own = np.eye(rules)[len(grammar.lexical) + number]
            for k in range(i + 1, j):
                for first, one in classes(grammar, left, words, i, k, known).items():
                    for second, two in classes(grammar, right, words, k, j, known).items():
                        uses = own + one.uses / one.weight + two.uses / two.weight
                        add(first | second | {(i, j)}, weight * one.weight * two.weight, uses)
    for parent, child, weight in grammar.unary:
        if parent == symbol:
            for spans, one in classes(grammar, child, words, i, j, known).items():
                add(spans, weight * one.weight, one.uses / one.weight)
    known[symbol, i, j] = found
    return found


def agrees(spans: Spans, positive: set, negative: set) -> bool:
    """Return whether all required spans are constituents and no forbidden span is."""
    return positive <= spans and not negative & spans


def expectations(words: int, kept: dict[Spans, Class]) -> np.ndarray:
    """Return the expected features, in the order of `SentenceSystem`."""
    covered = np.zeros(words * (words + 1) // 2)
    for spans, one in kept.items():
        for i, j in spans:
            covered[j * (j - 1) // 2 + i] += one.weight
    uses = sum(one.uses for one in kept.values())
    return np.concatenate([covered, uses]) / sum(one.weight for one in kept.values())
