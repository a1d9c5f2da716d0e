"""Measurements of a stream of rules: rules by scope, and covered n-grams."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import capacity_for
from hierogram.samplers.compiled.streams import GOLDEN, mix
from hierogram.samplers.counts.table import KEY_HIGH, KEY_LOW, find

_ENTRY = 2
"""Column of the hash table with the entry number."""
_STEP = np.uint64(0xA0761D6478BD642F)
_EMPTY = np.uint64(0)
_ONE = np.uint64(1)


class TextNgrams(NamedTuple):
    """Counts of the distinct n-grams (*entries*) of a text, n = 1 to `longest`, by 128-bit hashes."""

    # uint64[capacity, 4]: hash table from the hashes of n-grams to their entry numbers.
    rows: NDArray[np.uint64]
    # int32[entries], int64[entries]: n and number of occurrences of each n-gram.
    lengths: NDArray[np.int32]
    counts: NDArray[np.int64]
    longest: int
    # int64[1]: number of entries.
    entries: NDArray[np.int64]


@njit_inline
def _extend_hash(high, low, symbol):
    """Return the hash (high, low) of an n-gram extended by a word. The hash of the empty n-gram is (0, 0)."""
    high = mix(high + np.uint64(symbol) * GOLDEN + _ONE)
    low = mix(low * _STEP + high)
    return high, low


@njit
def _add_ngrams(symbols, starts, ngrams):
    for k in range(len(starts) - 1):
        for begin in range(starts[k], starts[k + 1]):
            high, low = _EMPTY, _EMPTY
            for n in range(min(ngrams.longest, starts[k + 1] - begin)):
                high, low = _extend_hash(high, low, symbols[begin + n])
                row = find(ngrams.rows, high, low)
                if ngrams.rows[row, KEY_HIGH] == _EMPTY and ngrams.rows[row, KEY_LOW] == _EMPTY:
                    ngrams.rows[row, KEY_HIGH] = high
                    ngrams.rows[row, KEY_LOW] = low
                    ngrams.rows[row, _ENTRY] = np.uint64(ngrams.entries[0])
                    ngrams.lengths[ngrams.entries[0]] = n + 1
                    ngrams.entries[0] += 1
                ngrams.counts[np.int64(ngrams.rows[row, _ENTRY])] += 1


def count_ngrams(symbols: NDArray[np.int32], starts: NDArray[np.int64], longest: int) -> TextNgrams:
    """Count the n-grams of up to `longest` words. Sentence k is `symbols[starts[k] : starts[k + 1]]`."""
    max_ngrams = len(symbols) * longest
    capacity = capacity_for(max_ngrams, 1 << 4)
    ngrams = TextNgrams(
        np.zeros((capacity, 4), np.uint64),
        np.zeros(max_ngrams, np.int32),
        np.zeros(max_ngrams, np.int64),
        longest,
        np.zeros(1, np.int64),
    )
    _add_ngrams(symbols, starts, ngrams)
    count = int(ngrams.entries[0])
    return ngrams._replace(lengths=ngrams.lengths[:count], counts=ngrams.counts[:count])


@njit
def mark_covered(symbols, starts, ngrams, covered):
    """Set `covered` bool[entries] to True for n-grams of source sides, which nonterminals (< 0) divide."""
    for k in range(len(starts) - 1):
        for begin in range(starts[k], starts[k + 1]):
            high, low = _EMPTY, _EMPTY
            for n in range(min(ngrams.longest, starts[k + 1] - begin)):
                if symbols[begin + n] < 0:
                    break
                high, low = _extend_hash(high, low, symbols[begin + n])
                row = find(ngrams.rows, high, low)
                if ngrams.rows[row, KEY_HIGH] == _EMPTY and ngrams.rows[row, KEY_LOW] == _EMPTY:
                    # Longer n-grams with this prefix are also missing from the table.
                    break
                covered[np.int64(ngrams.rows[row, _ENTRY])] = True


def coverage(ngrams: TextNgrams, covered: NDArray[np.bool_]) -> list[float]:
    """Return the covered share of the text's n-grams, including repeats, for n = 1, 2, …; 0 for none."""
    shares = []
    for n in range(1, ngrams.longest + 1):
        chosen = ngrams.lengths == n
        total = int(ngrams.counts[chosen].sum())
        shares.append(float(ngrams.counts[chosen & covered].sum()) / total if total else 0.0)
    return shares


@dataclass(frozen=True, slots=True)
class GrammarFigures:
    """Figures of a grammar."""

    name: str
    # Numbers of rules of scope 0, 1, … up to the maximum, and their sum.
    rules_by_scope: list[int]
    rules: int
    # `rules` divided by `rules` of the first grammar.
    ratio: float
    # Share of the held-out source n-grams, n = 1, 2, …, that occur in source sides; empty without held-out text.
    covered: list[float]


class GrammarMeasure:
    """Accumulator of the figures of a grammar. For each block of rules, call `count`, then `cover`."""

    def __init__(self, name: str, max_scope: int, ngrams: TextNgrams | None) -> None:
        """`ngrams` are the n-grams of the held-out text, or None without held-out text."""
        self._name = name
        self._max_scope = max_scope
        self._ngrams = ngrams
        self._covered = np.zeros(len(ngrams.lengths) if ngrams else 0, np.bool_)
        self._by_scope = np.zeros(max_scope + 1, np.int64)

    def count(self, scopes: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Count rules up to the maximum scope. Returns a mask of these rules, bool[n]."""
        within: NDArray[np.bool_] = scopes <= self._max_scope
        self._by_scope += np.bincount(scopes[within], minlength=self._max_scope + 1)
        return within

    def cover(self, symbols: NDArray[np.int32], starts: NDArray[np.int64]) -> None:
        """Mark the n-grams of source sides as covered."""
        if self._ngrams is not None:
            mark_covered(symbols, starts, self._ngrams, self._covered)

    def figures(self, first_rules: int | None = None) -> GrammarFigures:
        """Return the figures. `first_rules` is the first grammar's number of rules, or None for this grammar."""
        rules = int(self._by_scope.sum())
        covered = coverage(self._ngrams, self._covered) if self._ngrams else []
        denominator = rules if first_rules is None else first_rules
        return GrammarFigures(self._name, self._by_scope.tolist(), rules, rules / max(denominator, 1), covered)
