"""Plain Python implementation of the term definitions: slow, but easy to check."""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field

Phrase = tuple[str, ...]
Line = tuple[str, str, str]
"""Source, target and links of a pair."""


@dataclass
class Counts:
    """Number of sentence pairs with each phrase pair, source phrase and target phrase.

    `tight` also requires links at both ends of the source phrase, and a target phrase that may be a term.
    """

    both: Counter[tuple[Phrase, Phrase]] = field(default_factory=Counter)
    tight: Counter[tuple[Phrase, Phrase]] = field(default_factory=Counter)
    source: Counter[Phrase] = field(default_factory=Counter)
    target: Counter[Phrase] = field(default_factory=Counter)


def spans(words: list[str], longest: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(len(words)) for j in range(i + 1, min(i + longest, len(words)) + 1)]


def fits(words: list[str]) -> bool:
    """Check if the words may be a term, given that no word is common."""
    ends = any(map(str.isalpha, words[0])) and any(map(str.isalpha, words[-1]))
    return ends and all(any(map(str.isalnum, word)) for word in words)


def count(lines: list[Line], longest: int) -> Counts:
    counts = Counts()
    for line in lines:
        source, target = (side.lower().split() for side in line[:2])
        links = [tuple(map(int, link.split("-"))) for link in line[2].split()]
        both, tight, sources, targets = set(), set(), set(), set()
        targets = {tuple(target[i:j]) for i, j in spans(target, longest) if fits(target[i:j])}
        for i, j in spans(source, longest):
            if not fits(source[i:j]):
                continue
            sources.add(phrase := tuple(source[i:j]))
            others = [b for a, b in links if i <= a < j]
            if not others:
                continue
            low, high = min(others), max(others)
            if high - low >= longest or any(low <= b <= high and not i <= a < j for a, b in links):
                continue
            other = tuple(target[low : high + 1])
            both.add((phrase, other))
            if {i, j - 1} <= {a for a, _ in links} and fits(list(other)):
                tight.add((phrase, other))
        counts.both.update(both)
        counts.tight.update(tight)
        counts.source.update(sources)
        counts.target.update(targets)
    return counts


def ratio(both: int, first: int, second: int, pairs: int) -> float:
    """Return the log-likelihood ratio statistic of a 2 × 2 table, or 0 if the phrases do not co-occur above chance."""
    cells = [[both, first - both], [second - both, pairs - first - second + both]]
    rows, columns = (first, pairs - first), (second, pairs - second)
    total = 0.0
    for row, size in zip(cells, rows, strict=True):
        for cell, other in zip(row, columns, strict=True):
            if cell > 0:
                total += cell * math.log(cell * pairs / (size * other))
    return 2 * total if both * pairs > first * second else 0.0


def usual(counts: Counts, min_count: int, min_words: int) -> dict[Phrase, set[Phrase]]:
    """Return the most frequent renderings of each source phrase.

    Considers phrase pairs with at least `min_count` tight occurrences and `min_words` words on the longer side.
    """
    frequent = {
        pair: counts.both[pair]
        for pair, number in counts.tight.items()
        if number >= min_count and max(map(len, pair)) >= min_words
    }
    best: dict[Phrase, set[Phrase]] = defaultdict(set)
    for (source, target), number in frequent.items():
        if number == max(n for (s, _), n in frequent.items() if s == source):
            best[source].add(target)
    return best
