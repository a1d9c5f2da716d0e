"""Hiero's heuristic extraction, computed from its definition [Chiang 2007 §3.2, §3.3] without optimization."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, pairwise, product

from tests.reference.examples import RandomPair
from tests.reference.forest import Phrase, Span, disjoint, inside
from tests.reference.rules import Rule, Side


def spans(length: int, longest: int) -> Iterator[Span]:
    """Yield the spans [i, j) of up to `longest` of `length` words."""
    return ((i, j) for i in range(length) for j in range(i + 1, min(i + longest, length) + 1))


def within(position: int, span: Span) -> bool:
    return span[0] <= position < span[1]


def initial_phrases(pair: RandomPair, longest: int) -> list[Phrase]:
    """Return phrases of up to `longest` words on each side. Larger phrases with the same links are omitted."""
    source, target, links = pair
    smallest: dict[frozenset[tuple[int, int]], Phrase] = {}
    for phrase in product(spans(len(source), longest), spans(len(target), longest)):
        inner_links = frozenset(link for link in links if within(link[0], phrase[0]) and within(link[1], phrase[1]))
        if not inner_links or any(within(s, phrase[0]) != within(t, phrase[1]) for s, t in links):
            continue
        best = smallest.setdefault(inner_links, phrase)
        if inside(phrase[0], best[0]) and inside(phrase[1], best[1]):
            smallest[inner_links] = phrase
    return list(smallest.values())


def side(words: tuple[str, ...], whole: Span, gaps: list[Span]) -> Side:
    """Return one side of a rule: the words of a span, with nonterminals 1, 2, … in place of the gaps, in this order."""
    symbols: list[str | int] = []
    for position in range(*whole):
        for number, gap in enumerate(gaps, start=1):
            if position == gap[0]:
                symbols.append(number)
        if not any(within(position, gap) for gap in gaps):
            symbols.append(words[position])
    return tuple(symbols)


def rules_of_phrase(pair: RandomPair, phrase: Phrase, phrases: list[Phrase], max_symbols: int) -> list[Rule]:
    """Return the rules of an initial phrase, with up to two phrases subtracted, under Hiero's constraints."""
    source, target, links = pair
    smaller = [p for p in phrases if p != phrase and inside(p[0], phrase[0]) and inside(p[1], phrase[1])]
    rules = []
    for number in range(3):
        for gaps in combinations(sorted(smaller), number):
            if any(not disjoint(a[k], b[k]) for a, b in combinations(gaps, 2) for k in (0, 1)):
                continue
            rule = Rule(
                side(source, phrase[0], [gap[0] for gap in gaps]), side(target, phrase[1], [gap[1] for gap in gaps])
            )
            has_adjacent_gaps = any(isinstance(a, int) and isinstance(b, int) for a, b in pairwise(rule.source))
            has_links = any(
                within(s, phrase[0]) and not any(within(s, gap[0]) or within(t, gap[1]) for gap in gaps)
                for s, t in links
            )
            if has_links and not has_adjacent_gaps and len(rule.source) <= max_symbols:
                rules.append(rule)
    return rules


def extract(pairs: list[RandomPair], longest: int, max_symbols: int) -> tuple[Counter[Rule], dict[Rule, Fraction]]:
    """Return the count and the mass of each rule extracted from the pairs. Each initial phrase has a mass of 1."""
    occurrences: Counter[Rule] = Counter()
    masses: dict[Rule, Fraction] = defaultdict(Fraction)
    for pair in pairs:
        phrases = initial_phrases(pair, longest)
        for phrase in phrases:
            rules = rules_of_phrase(pair, phrase, phrases, max_symbols)
            for rule in rules:
                occurrences[rule] += 1
                masses[rule] += Fraction(1, len(rules))
    return occurrences, masses
