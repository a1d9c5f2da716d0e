"""Derivations of a sentence pair by a synchronous grammar, enumerated from the definition.

A side is a list of symbols: a word's number, `ANY`, or -1-k for nonterminal k. Derivations are grouped by the set of
word pairs that their rules emit together, because masks depend on nothing else.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

ANY = -10_000
Bispan = tuple[int, int, int, int]
Links = frozenset


@dataclass(frozen=True)
class Pair:
    """A pair with its rules (source side, target side, weight) and the weights of `ANY`."""

    source: list[int]
    target: list[int]
    rules: list[tuple[list[int], list[int], float]]
    pairs: np.ndarray
    source_nulls: np.ndarray
    target_nulls: np.ndarray
    empty_sides: bool = True

    @property
    def whole(self) -> Bispan:
        return 0, len(self.source), 0, len(self.target)


@dataclass(frozen=True)
class Use:
    """A rule applied to a bispan: bispans of its nonterminals, positions of the words it emits, its weight there."""

    rule: int
    head: Bispan
    tails: tuple[Bispan, ...]
    source: tuple[int, ...]
    target: tuple[int, ...]
    weight: float

    @property
    def links(self) -> Links:
        return frozenset(product(self.source, self.target))


def match(symbols: list[int], words: list[int], start: int, end: int) -> Iterator[tuple[dict, tuple[int, ...], int]]:
    """Yield ways to match a side with words [start, end): nonterminal spans, word positions, place of `ANY` or -1."""
    if not symbols:
        if start == end:
            yield {}, (), -1
        return
    first, rest = symbols[0], symbols[1:]
    if first >= 0 or first == ANY:
        if start < end and first in (ANY, words[start]):
            for spans, positions, wild in match(rest, words, start + 1, end):
                yield spans, (start, *positions), start if first == ANY else wild
    else:
        for middle in range(start, end + 1):
            for spans, positions, wild in match(rest, words, middle, end):
                yield {-1 - first: (start, middle), **spans}, positions, wild


def uses(pair: Pair, head: Bispan) -> Iterator[Use]:
    """Yield all applications of rules to a bispan."""
    i, j, x, y = head
    for number, (source, target, weight) in enumerate(pair.rules):
        for spans, positions, wild in match(source, pair.source, i, j):
            for others, targets, other in match(target, pair.target, x, y):
                tails = tuple((*spans[k], *others[k]) for k in range(len(spans)))
                if any(sum(sides(tail)) == 0 or (0 in sides(tail) and not pair.empty_sides) for tail in tails):
                    continue
                emission = 1.0
                if wild >= 0 and other >= 0:
                    emission = pair.pairs[wild, other]
                elif wild >= 0:
                    emission = pair.source_nulls[wild]
                elif other >= 0:
                    emission = pair.target_nulls[other]
                if emission > 0:
                    yield Use(number, head, tails, positions, targets, weight * emission)


def sides(bispan: Bispan) -> tuple[int, int]:
    """Return the number of words of a bispan on each side."""
    return bispan[1] - bispan[0], bispan[3] - bispan[2]


def derivations(pair: Pair, head: Bispan) -> Iterator[tuple[Use, ...]]:
    """Yield all derivations of a bispan, each as its uses, parents first."""
    for use in uses(pair, head):
        for below in product(*(list(derivations(pair, tail)) for tail in use.tails)):
            yield (use, *(other for part in below for other in part))


@dataclass
class Class:
    """All derivations that emit the same word pairs.

    The fields are sums over these derivations: of weights, and of weight times uses of each rule or times unpaired
    words.
    """

    weight: float
    uses: np.ndarray
    source_nulls: np.ndarray
    target_nulls: np.ndarray


def classes(pair: Pair) -> dict[Bispan, dict[Links, Class]]:
    """Return the derivations of every bispan, by class."""
    n, m = len(pair.source), len(pair.target)
    found: dict[Bispan, dict[Links, Class]] = {}
    bispans = [(i, j, x, y) for j in range(n + 1) for i in range(j + 1) for y in range(m + 1) for x in range(y + 1)]
    for head in sorted(bispans, key=lambda b: (b[1] - b[0], b[3] - b[2])):
        if sum(sides(head)) == 0 or (0 in sides(head) and not pair.empty_sides):
            continue
        here: dict[Links, Class] = {}
        for use in uses(pair, head):
            for parts in product(*(found[tail].items() for tail in use.tails)):
                one = _together(pair, use, [part for _, part in parts])
                links = use.links.union(*(links for links, _ in parts))
                if links in here:
                    old = here[links]
                    here[links] = Class(*(getattr(old, name) + getattr(one, name) for name in vars(old)))
                else:
                    here[links] = one
        found[head] = here
    return found


def _together(pair: Pair, use: Use, parts: list[Class]) -> Class:
    weight = use.weight * float(np.prod([part.weight for part in parts]))
    counts = np.zeros(len(pair.rules))
    counts[use.rule] = 1
    source, target = np.zeros(len(pair.source)), np.zeros(len(pair.target))
    if not use.target:
        source[list(use.source)] = 1
    if not use.source:
        target[list(use.target)] = 1
    for part in parts:
        counts = counts + part.uses / part.weight
        source = source + part.source_nulls / part.weight
        target = target + part.target_nulls / part.weight
    return Class(weight, weight * counts, weight * source, weight * target)


def agreeing(found: dict[Links, Class], fixed: np.ndarray, bispan: Bispan) -> dict[Links, Class]:
    """Return the classes of a bispan that agree with a mask: 1 for required word pairs, -1 for forbidden word pairs."""
    i, j, x, y = bispan
    required = {(a, b) for a, b in np.argwhere(fixed > 0).tolist() if i <= a < j or x <= b < y}
    forbidden = set(map(tuple, np.argwhere(fixed < 0).tolist()))
    return {links: one for links, one in found.items() if required <= links and not forbidden & links}


def expectations(pair: Pair, kept: dict[Links, Class]) -> np.ndarray:
    """Return the expected features, in the order of `PairChart`."""
    total = sum(one.weight for one in kept.values())
    links = np.zeros((len(pair.source), len(pair.target)))
    for emitted, one in kept.items():
        for i, x in emitted:
            links[i, x] += one.weight
    parts = [links.ravel()]
    for name in ("source_nulls", "target_nulls", "uses"):
        parts.append(sum(getattr(one, name) for one in kept.values()))
    return np.concatenate(parts) / total
