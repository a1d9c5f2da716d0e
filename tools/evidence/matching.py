"""Matching of source sides in a sentence, and choice of pairs that together cover the sentence."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.grammar.rules import Span, escape_terminal, unescape_terminal
from hierogram.storage.browsing.similar_pairs import SimilarPair

MAX_MATCHES = 5


@dataclass(frozen=True, slots=True)
class SideMatch:
    """Match of a side in a sentence: the spans of its runs of words and of its gaps.

    A gap at the start or end of the side extends to the start or end of the sentence. Adjacent gaps share one span,
    which has at least one word for each gap.
    """

    words: tuple[Span, ...]
    gaps: tuple[Span, ...]

    @property
    def covered(self) -> list[int]:
        """Positions of the side's words."""
        return [position for first, last in self.words for position in range(first, last)]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Runs of words of a side, and the number of gaps before each run and after the last run."""

    chunks: tuple[tuple[str, ...], ...]
    gaps: tuple[int, ...]

    @property
    def length(self) -> int:
        """Number of words."""
        return sum(map(len, self.chunks))

    @property
    def is_contiguous(self) -> bool:
        """True if the side has no gap."""
        return not any(self.gaps)


class MatchedSentence:
    """Sentence in which the sides of rules are matched."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self._symbols = {escape_terminal(word): word for word in words}
        self._positions: dict[str, list[int]] = {}
        for position, word in enumerate(words):
            self._positions.setdefault(word, []).append(position)

    def pattern(self, side: str) -> Pattern | None:
        """Return the pattern of a side, or None if it has no word or has a word that is not in the sentence."""
        symbols = side.split(" ")
        words = [self._symbols.get(symbol) for symbol in symbols]
        if any(word is None and unescape_terminal(symbol) for word, symbol in zip(words, symbols, strict=True)):
            return None
        chunks: list[tuple[str, ...]] = []
        gaps = [0]
        for is_gap, group in groupby(words, lambda word: word is None):
            if is_gap:
                gaps[-1] = len(list(group))
            else:
                chunks.append(tuple(word for word in group if word is not None))
                gaps.append(0)
        return Pattern(tuple(chunks), tuple(gaps)) if chunks else None

    def matches(self, pattern: Pattern) -> list[SideMatch]:
        """Return up to `MAX_MATCHES` matches of a pattern, leftmost first."""
        starts = [
            [at for at in self._positions.get(chunk[0], ()) if self.words[at : at + len(chunk)] == chunk]
            for chunk in pattern.chunks
        ]
        placements = self._placements(pattern, starts, 0, 0) if all(starts) else ()
        found = []
        for chosen in islice(placements, MAX_MATCHES):
            words = [(start, start + len(chunk)) for start, chunk in zip(chosen, pattern.chunks, strict=True)]
            edges = [0, *(edge for span in words for edge in span), len(self.words)]
            gaps = [(edges[2 * n], edges[2 * n + 1]) for n, number in enumerate(pattern.gaps) if number]
            found.append(SideMatch(tuple(words), tuple(gaps)))
        return found

    def _placements(
        self, pattern: Pattern, starts: list[list[int]], number: int, after: int
    ) -> Iterator[tuple[int, ...]]:
        """Yield start positions for the chunks from index `number`, all from position `after`."""
        if number == len(starts):
            if len(self.words) - after >= pattern.gaps[-1]:
                yield ()
            return
        for start in starts[number]:
            if start >= after + pattern.gaps[number]:
                for later_starts in self._placements(pattern, starts, number + 1, start + len(pattern.chunks[number])):
                    yield (start, *later_starts)


_MAX_NGRAM = 4
_MAX_PATTERNS = 15
_SCALE = 1_000
"""Scale of integer weights, which make equal sums compare equal."""


@dataclass(frozen=True, slots=True)
class CoveringPair(SimilarPair):
    """Pair with the spans of the sentence that it covers. `new_spans` were uncovered when it was chosen."""

    covered_spans: tuple[Span, ...]
    new_spans: tuple[Span, ...]


class _CoverageUnits:
    """Units of a sentence that pairs cover: n-grams at each position, then patterns with inner gaps."""

    def __init__(self, words: Sequence[str], weights: Mapping[str, float], patterns: Sequence[Pattern]) -> None:
        self.spans = [
            (first, first + size) for size in range(1, _MAX_NGRAM + 1) for first in range(len(words) - size + 1)
        ]
        self._grams: dict[tuple[str, ...], list[int]] = {}
        for number, (first, last) in enumerate(self.spans):
            self._grams.setdefault(tuple(words[first:last]), []).append(number)
        inner = [pattern for pattern in patterns if len(pattern.chunks) > 1][:_MAX_PATTERNS]
        self._expressions = list(map(_compile_pattern, inner))
        self.size = len(self.spans) + len(inner)
        unit_words = [list(words[first:last]) for first, last in self.spans]
        unit_words += [[word for chunk in pattern.chunks for word in chunk] for pattern in inner]
        self.weights = np.array([sum(round(_SCALE * weights[word]) for word in unit) for unit in unit_words], np.int64)

    def find_units(self, source: str) -> list[int]:
        """Return the indices of the units that occur in a source side."""
        words = source.split(" ")
        unit_ids: set[int] = set()
        for first in range(len(words)):
            for last in range(first + 1, min(first + _MAX_NGRAM, len(words)) + 1):
                gram_units = self._grams.get(tuple(words[first:last]))
                if gram_units is None:
                    break
                unit_ids.update(gram_units)
        expressions = enumerate(self._expressions, len(self.spans))
        return [*unit_ids, *(number for number, expression in expressions if expression.search(f" {source} "))]

    def covered(self, units: Sequence[int]) -> tuple[Span, ...]:
        """Return the longest spans of these units' n-grams, from left to right."""
        reach: dict[int, int] = {}
        for number in units:
            if number < len(self.spans):
                first, last = self.spans[number]
                reach[first] = max(last, reach.get(first, 0))
        spans: list[Span] = []
        for first in sorted(reach):
            if spans and reach[first] <= spans[-1][1]:
                continue
            # Merge consecutive n-grams, which overlap in all words except one, into one span.
            if spans and first == spans[-1][1] - _MAX_NGRAM + 1:
                spans[-1] = (spans[-1][0], reach[first])
            else:
                spans.append((first, reach[first]))
        return tuple(spans)


def _compile_pattern(pattern: Pattern) -> re.Pattern[str]:
    """Return the regular expression of a pattern in a sentence with a space before and after each word."""
    pieces = [re.escape(" ".join(chunk)) for chunk in pattern.chunks]
    gaps = [rf" (?:[^ ]+ ){{{number},}}" for number in pattern.gaps[1:-1]]
    return re.compile(" " + "".join(piece + gap for piece, gap in zip(pieces, [*gaps, " "], strict=True)))


def choose_pairs(
    words: Sequence[str],
    weights: Mapping[str, float],
    patterns: Sequence[Pattern],
    candidates: Sequence[SimilarPair],
    limit: int,
) -> list[CoveringPair]:
    """Choose up to `limit` pairs greedily by the uncovered weight that they cover. Shorter pairs win ties.

    If no remaining pair covers anything new, coverage is reset. Equal pairs are chosen once. Pairs that share no word
    with the sentence are never chosen.
    """
    distinct = {(pair.source, pair.target): pair for pair in reversed(candidates)}
    ordered = sorted(distinct.values(), key=lambda pair: (pair.source.count(" "), pair.target.count(" "), -pair.id))
    units = _CoverageUnits(words, weights, patterns)
    coverage: NDArray[np.bool_] = np.zeros((len(ordered), units.size), np.bool_)
    for row, pair in enumerate(ordered):
        coverage[row, units.find_units(pair.source)] = True
    remaining: NDArray[np.bool_] = np.asarray(coverage.any(axis=1))
    covered: NDArray[np.bool_] = np.zeros(units.size, np.bool_)
    chosen_pairs: list[CoveringPair] = []
    while len(chosen_pairs) < limit and remaining.any():
        gains = np.where(remaining, (coverage & ~covered) @ units.weights, 0)
        best = int(gains.argmax())
        if gains[best] <= 0:
            if not covered.any():
                break
            covered = np.zeros_like(covered)
            continue
        pair = ordered[best]
        spans = (
            units.covered(np.flatnonzero(chosen).tolist()) for chosen in (coverage[best], coverage[best] & ~covered)
        )
        chosen_pairs.append(CoveringPair(pair.id, pair.corpus, pair.source, pair.target, *spans))
        covered = covered | coverage[best]
        remaining[best] = False
    return chosen_pairs
