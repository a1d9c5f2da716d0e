"""Lexical weights in plain Python, from the definition [Koehn, Och & Marcu 2003, §3.3]."""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from math import prod

NULL = None
Side = tuple[str | int, ...]
Links = Iterable[tuple[int, int]]


def link_counts(pairs: Iterable[tuple[list[str], list[str], Links]]) -> Counter[tuple[str | None, str | None]]:
    """Count links by their words, c(f, e). An unlinked word counts as linked to NULL."""
    counts: Counter[tuple[str | None, str | None]] = Counter()
    for source, target, links in pairs:
        linked = list(links)
        counts.update((source[i], target[j]) for i, j in linked)
        counts.update((word, NULL) for i, word in enumerate(source) if all(i != a for a, _ in linked))
        counts.update((NULL, word) for j, word in enumerate(target) if all(j != b for _, b in linked))
    return counts


def weights(
    counts: Counter[tuple[str | None, str | None]], source: Side, target: Side, links: Links
) -> tuple[Fraction, Fraction]:
    """Return lex(e|f) and lex(f|e) of a rule whose terminals are strings and whose nonterminals are integers."""
    linked = list(links)

    def mean(values: list[Fraction]) -> Fraction:
        return sum(values, Fraction()) / len(values)

    def given_source(f: str | None, e: str | None) -> Fraction:
        return Fraction(counts[f, e], sum(n for (a, _), n in counts.items() if a == f))

    def given_target(f: str | None, e: str | None) -> Fraction:
        return Fraction(counts[f, e], sum(n for (_, b), n in counts.items() if b == e))

    to_target = prod(
        (
            mean([given_source(source[i], e) for i, k in linked if k == j] or [given_source(NULL, e)])
            for j, e in enumerate(target)
            if isinstance(e, str)
        ),
        start=Fraction(1),
    )
    to_source = prod(
        (
            mean([given_target(f, target[j]) for k, j in linked if k == i] or [given_target(f, NULL)])
            for i, f in enumerate(source)
            if isinstance(f, str)
        ),
        start=Fraction(1),
    )
    return to_target, to_source
