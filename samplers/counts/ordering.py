"""Rules in the order of their texts, so that those which are looked up together lie together in a store."""

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.grammar.columns import Texts

_PREFIX = 8


@njit
def _read_prefixes(texts, prefixes):
    """The first bytes of each text as a number, the first byte highest; zeros after its end."""
    for k in range(len(prefixes)):
        first = texts.offsets[k]
        end = texts.offsets[k + 1] - 1
        number = np.uint64(0)
        for place in range(first, first + _PREFIX):
            number = number << np.uint64(8)
            if place < end:
                number |= np.uint64(texts.content[place])
        prefixes[k] = number


@njit
def _precedes(texts, keys, a, b):
    """Whether text a comes before text b, by their bytes and then by the keys; neither differs in its prefix."""
    place, end = texts.offsets[a], texts.offsets[a + 1] - 1
    other, other_end = texts.offsets[b], texts.offsets[b + 1] - 1
    while place < end and other < other_end:
        if texts.content[place] != texts.content[other]:
            return texts.content[place] < texts.content[other]
        place += 1
        other += 1
    if place < end or other < other_end:
        return other < other_end
    if keys[a, 0] != keys[b, 0]:
        return keys[a, 0] < keys[b, 0]
    return keys[a, 1] < keys[b, 1]


@njit
def _merge(texts, keys, rows, scratch, first, middle, last):
    """Merge the sorted runs rows[first:middle] and rows[middle:last]."""
    for k in range(first, middle):
        scratch[k] = rows[k]
    ours, theirs, place = first, middle, first
    while ours < middle:
        if theirs < last and _precedes(texts, keys, rows[theirs], scratch[ours]):
            rows[place] = rows[theirs]
            theirs += 1
        else:
            rows[place] = scratch[ours]
            ours += 1
        place += 1


@njit
def _sort_run(texts, keys, rows, scratch, first, last):
    width = 1
    while width < last - first:
        begin = first
        while begin + width < last:
            _merge(texts, keys, rows, scratch, begin, begin + width, min(begin + 2 * width, last))
            begin += 2 * width
        width *= 2


@njit
def _sort_runs(texts, keys, prefixes, rows, scratch):
    """Sort each run of rows with one prefix."""
    first = 0
    while first < len(rows):
        last = first + 1
        while last < len(rows) and prefixes[rows[last]] == prefixes[rows[first]]:
            last += 1
        _sort_run(texts, keys, rows, scratch, first, last)
        first = last


def text_order(texts: Texts, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Row numbers in the order of the texts' bytes, those with the same text in the order of their keys, uint64[n, 2],
    as numbers with a sign.
    """
    prefixes = np.empty(texts.size, np.uint64)
    _read_prefixes(texts, prefixes)
    rows = np.argsort(prefixes)
    _sort_runs(texts, np.ascontiguousarray(keys).view(np.int64), prefixes, rows, np.empty(len(rows), np.int64))
    return rows


@njit
def _take(texts, rows, content, offsets):
    position = 0
    for k in range(len(rows)):
        for place in range(texts.offsets[rows[k]], texts.offsets[rows[k] + 1]):
            content[position] = texts.content[place]
            position += 1
        offsets[k + 1] = position


def taken(texts: Texts, rows: NDArray[np.int64]) -> Texts:
    """The texts of these rows."""
    sizes = texts.offsets[1:] - texts.offsets[:-1]
    content = np.empty(int(sizes[rows].sum()), np.uint8)
    offsets = np.zeros(len(rows) + 1, np.int64)
    _take(texts, rows, content, offsets)
    return Texts(content, offsets)
