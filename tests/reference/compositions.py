"""Frequencies of compositions in linked pairs, and the compositions that new text is likely to need."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from tests.reference.examples import parse_links
from tests.reference.forest import direct_forest
from tests.reference.rules import Side, compositions

_SPAN_LIMIT = 7
_SHORT = 3


def side(symbols: Side) -> str:
    return " ".join(f"[X,{symbol}]" if isinstance(symbol, int) else str(symbol) for symbol in symbols)


def occurrences(ngram: Sequence[str], sentences: Iterable[Sequence[str]]) -> int:
    n = len(ngram)
    return sum(tuple(s[k : k + n]) == tuple(ngram) for s in sentences for k in range(len(s) - n + 1))


def probability(words: Sequence[str], sentences: Sequence[Sequence[str]]) -> float:
    """Return P(last word | words before it), smoothed by counting each n-gram once less than it occurs."""
    if len(words) == 1:
        return (max(occurrences(words, sentences) - 1, 0) + 0.5) / sum(map(len, sentences))
    shorter = probability(words[1:], sentences)
    return (max(occurrences(words, sentences) - 1, 0) + shorter) / max(occurrences(words[:-1], sentences), 1)


def expected_occurrences(source: Side, sentences: Sequence[Sequence[str]]) -> float:
    """Return the expected number of occurrences of a source side in new text as long as `sentences`.

    The new text has at least 100,000 words.
    """
    expected = float(max(sum(map(len, sentences)), 100_000))
    for is_open, run in groupby(source, lambda symbol: isinstance(symbol, int)):
        words = [str(symbol) for symbol in run]
        for k in range(0 if is_open else len(words)):
            expected *= probability(words[max(0, k - 2) : k + 1], sentences)
    return expected


def exported_compositions(lines: Sequence[str], least: float) -> dict[tuple[str, str], int]:
    """Return the count of each exported composition of the lines `source ||| target ||| links`.

    A composition is exported if it occurs at least twice, or if it has more than three source symbols and at least
    `least` expected occurrences.
    """
    pairs = [line.split(" ||| ") for line in lines]
    sentences = [source.split() for source, *_ in pairs]
    found = Counter[tuple[Side, Side]]()
    for source, target, links in pairs:
        forest = direct_forest(tuple(source.split()), tuple(target.split()), parse_links(links))
        found.update((rule.source, rule.target) for rule in compositions(forest, _SPAN_LIMIT))
    return {
        (side(source), side(target)): uses
        for (source, target), uses in found.items()
        if uses >= 2 or (len(source) > _SHORT and expected_occurrences(source, sentences) >= least)
    }
