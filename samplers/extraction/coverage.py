"""Which n-grams of a text the source sides of a grammar hold, as words next to each other."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import capacity_for
from hierogram.samplers.compiled.streams import GOLDEN, mix
from hierogram.samplers.counts.table import KEY_HIGH, KEY_LOW, find

_ENTRY = 2
_STEP = np.uint64(0xA0761D6478BD642F)
_EMPTY = np.uint64(0)
_ONE = np.uint64(1)


class NGrams(NamedTuple):
    """The n-grams of a text up to some n, known by 128-bit hashes.

    `rows` uint64[capacity, 4] maps hashes to entries; `sizes` int32[e] is each entry's n, `counts` int64[e] how often
    it occurs; `longest` the largest n, `taken` int64[1] the number of entries.
    """

    rows: NDArray[np.uint64]
    sizes: NDArray[np.int32]
    counts: NDArray[np.int64]
    longest: int
    taken: NDArray[np.int64]


@njit_inline
def _extended(high, low, symbol):
    """The hash of an n-gram with one more word; (0, 0) is the empty one's."""
    high = mix(high + np.uint64(symbol) * GOLDEN + _ONE)
    low = mix(low * _STEP + high)
    return high, low


@njit
def _enter(symbols, starts, ngrams):
    for k in range(len(starts) - 1):
        for begin in range(starts[k], starts[k + 1]):
            high, low = _EMPTY, _EMPTY
            for n in range(min(ngrams.longest, starts[k + 1] - begin)):
                high, low = _extended(high, low, symbols[begin + n])
                row = find(ngrams.rows, high, low)
                if ngrams.rows[row, KEY_HIGH] == _EMPTY and ngrams.rows[row, KEY_LOW] == _EMPTY:
                    ngrams.rows[row, KEY_HIGH] = high
                    ngrams.rows[row, KEY_LOW] = low
                    ngrams.rows[row, _ENTRY] = np.uint64(ngrams.taken[0])
                    ngrams.sizes[ngrams.taken[0]] = n + 1
                    ngrams.taken[0] += 1
                ngrams.counts[np.int64(ngrams.rows[row, _ENTRY])] += 1


def count_ngrams(symbols: NDArray[np.int32], starts: NDArray[np.int64], longest: int) -> NGrams:
    """The n-grams, n up to `longest`, of sentences of word numbers that begin at `starts` int64[sentences + 1]."""
    most = len(symbols) * longest
    capacity = capacity_for(most, 1 << 4)
    ngrams = NGrams(
        np.zeros((capacity, 4), np.uint64),
        np.zeros(most, np.int32),
        np.zeros(most, np.int64),
        longest,
        np.zeros(1, np.int64),
    )
    _enter(symbols, starts, ngrams)
    taken = int(ngrams.taken[0])
    return ngrams._replace(sizes=ngrams.sizes[:taken], counts=ngrams.counts[:taken])


@njit
def _mark(symbols, starts, ngrams, covered):
    for k in range(len(starts) - 1):
        for begin in range(starts[k], starts[k + 1]):
            high, low = _EMPTY, _EMPTY
            for n in range(min(ngrams.longest, starts[k + 1] - begin)):
                if symbols[begin + n] < 0:
                    break
                high, low = _extended(high, low, symbols[begin + n])
                row = find(ngrams.rows, high, low)
                if ngrams.rows[row, KEY_HIGH] == _EMPTY and ngrams.rows[row, KEY_LOW] == _EMPTY:
                    # No longer one that begins so is among them either.
                    break
                covered[np.int64(ngrams.rows[row, _ENTRY])] = True


def mark_covered(
    symbols: NDArray[np.int32], starts: NDArray[np.int64], ngrams: NGrams, covered: NDArray[np.bool_]
) -> None:
    """Set `covered` bool[entries] for n-grams in source sides of `symbols`, in which nonterminals are below 0."""
    _mark(symbols, starts, ngrams, covered)


def coverage(ngrams: NGrams, covered: NDArray[np.bool_]) -> list[float]:
    """For n = 1, 2, … the share of the text's n-grams, repeats counted, that are covered; 0 where there are none."""
    shares = []
    for n in range(1, ngrams.longest + 1):
        chosen = ngrams.sizes == n
        total = int(ngrams.counts[chosen].sum())
        shares.append(float(ngrams.counts[chosen & covered].sum()) / total if total else 0.0)
    return shares
