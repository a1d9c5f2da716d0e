"""Conversion of rules to text in batches: rendering from count deltas, comparison, and sorting.

Entries are indices into `CountDeltas.entry`. Phrase rules have the notation of `hierogram.samplers.grammar.rules`, and
tree fragments bracket notation. Rules are sorted by text, so that rules that are looked up together are stored next to
each other.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_allocating
from hierogram.samplers.counts.deltas import CountDeltas
from hierogram.samplers.counts.occurrences import SIDE_BITS, RuleLinks, select_ranges
from hierogram.samplers.forests.derivations import same_slices
from hierogram.samplers.grammar.columns import Blobs, Texts, join_blobs
from hierogram.samplers.grammar.numbers import LABEL_STEP, OPEN_LABEL
from hierogram.samplers.grammar.rules import escape_terminal

_SPACE, _NEWLINE, _MINUS = 32, 10, 45
_BEGINS, _ENDS = tuple(b"[X,"), 93
_MAX_NONTERMINAL_LENGTH = 9


def spellings(words: Sequence[str]) -> Blobs:
    """Return the words of a vocabulary as symbols of rule texts in UTF-8, in the order of word numbers."""
    return join_blobs([escape_terminal(word).encode() for word in words])


@njit
def put_decimal(buffer, position, number):
    """Write a nonnegative integer in decimal. Returns the position after it."""
    digits = 1
    bound = 10
    while number >= bound:
        digits += 1
        bound *= 10
    for k in range(digits):
        buffer[position + digits - 1 - k] = 48 + number % 10
        number //= 10
    return position + digits


@njit
def put_nonterminal(buffer, position, number):
    """Write nonterminal `number` in rule notation. Returns the position after it."""
    for byte in _BEGINS:
        buffer[position] = byte
        position += 1
    position = put_decimal(buffer, position, number)
    buffer[position] = _ENDS
    return position + 1


@njit
def _put_sides(deltas, chosen, target, spelling, buffer, offsets):
    position = 0
    for k in range(len(chosen)):
        entry = deltas.entry[chosen[k]]
        start = entry["start"]
        size = np.int64(entry["source_size"])
        if target:
            start += size
            size = np.int64(entry["target_size"])
        for index in range(start, start + size):
            if index > start:
                buffer[position] = _SPACE
                position += 1
            symbol = np.int64(deltas.symbols[index])
            if symbol >= 0:
                for c in range(spelling.offsets[symbol], spelling.offsets[symbol + 1]):
                    buffer[position] = spelling.content[c]
                    position += 1
            else:
                position = put_nonterminal(buffer, position, -symbol)
        buffer[position] = _NEWLINE
        position += 1
        offsets[k + 1] = position
    return position


def _sides(deltas: CountDeltas, chosen: NDArray[np.int64], target: bool, spelling: Blobs) -> Texts:
    sizes = deltas.entry["target_size" if target else "source_size"]
    longest = int(np.diff(spelling.offsets).max(initial=1))
    room = int(sizes[chosen].sum(dtype=np.int64)) * (1 + max(longest, _MAX_NONTERMINAL_LENGTH)) + len(chosen)
    buffer = np.empty(room, np.uint8)
    offsets = np.zeros(len(chosen) + 1, np.int64)
    size = _put_sides(deltas, chosen, target, spelling, buffer, offsets)
    return Texts(buffer[:size].copy(), offsets)


def render_rules(deltas: CountDeltas, chosen: NDArray[np.int64], source: Blobs, target: Blobs) -> tuple[Texts, Texts]:
    """Return both sides of chosen phrase rules int64[n], given the `spellings` of both vocabularies."""
    return _sides(deltas, chosen, False, source), _sides(deltas, chosen, True, target)


_MAX_LINK_LENGTH = 12
_TARGET_BITS = np.uint32((1 << SIDE_BITS) - 1)


@njit
def _put_links(uses, buffer, offsets):
    position = 0
    for k in range(len(uses.entries)):
        for row in range(uses.offset[k], uses.offset[k + 1]):
            if row > uses.offset[k]:
                buffer[position] = _SPACE
                position += 1
            link = uses.links[row]
            position = put_decimal(buffer, position, np.int64(link >> np.uint32(SIDE_BITS)))
            buffer[position] = _MINUS
            position = put_decimal(buffer, position + 1, np.int64(link & _TARGET_BITS))
        buffer[position] = _NEWLINE
        position += 1
        offsets[k + 1] = position
    return position


def link_texts(uses: RuleLinks) -> Texts:
    """Return the links within each rule use as texts such as `0-0 1-2`, which are empty without links."""
    buffer = np.empty(_MAX_LINK_LENGTH * len(uses.links) + len(uses.entries), np.uint8)
    offsets = np.zeros(len(uses.entries) + 1, np.int64)
    return Texts(buffer[: _put_links(uses, buffer, offsets)].copy(), offsets)


@njit_allocating
def same_texts(
    first_texts: Texts, rows: NDArray[np.int64], second_texts: Texts, other_rows: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Check for each k if text `rows[k]` of `first_texts` equals text `other_rows[k]` of `second_texts`."""
    equal = np.empty(len(rows), np.bool_)
    for k in range(len(rows)):
        a, a_end = first_texts.offsets[rows[k]], first_texts.offsets[rows[k] + 1]
        b, b_end = second_texts.offsets[other_rows[k]], second_texts.offsets[other_rows[k] + 1]
        equal[k] = same_slices(first_texts.content, a, a_end, second_texts.content, b, b_end)
    return equal


_CHUNK = 7
"""Number of bytes whose digits in base 257 fit in 64 bits."""


@njit
def _read_chunks(texts, rows, start, chunks):
    """Write `_CHUNK` bytes of each text, from byte `start` of the text on, as a number in base 257."""
    for k in range(len(rows)):
        first, end = texts.offsets[rows[k]] + start, texts.offsets[rows[k] + 1] - 1
        number = np.uint64(0)
        for position in range(first, first + _CHUNK):
            number *= np.uint64(257)
            if position < end:
                number += np.uint64(texts.content[position]) + np.uint64(1)
        chunks[k] = number


def text_order(texts: Texts, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return row numbers, sorted by the bytes of the text, then by key. Key words compare as int64."""
    high, low = np.ascontiguousarray(keys).view(np.int64).T
    rows = np.lexsort((low, high))
    # Sort by the first chunk of bytes, then each group of rows with equal chunks by the next chunk, and so on.
    # `unsorted` are the indices of the rows in such groups.
    unsorted, groups = np.arange(len(rows)), np.zeros(len(rows), np.int64)
    start = 0
    while len(unsorted):
        chunks = np.empty(len(unsorted), np.uint64)
        _read_chunks(texts, rows[unsorted], start, chunks)
        order = np.lexsort((chunks, groups))
        rows[unsorted] = rows[unsorted[order]]
        groups, chunks = groups[order], chunks[order]
        begins = np.ones(len(unsorted) + 1, np.bool_)
        begins[1:-1] = (groups[1:] != groups[:-1]) | (chunks[1:] != chunks[:-1])
        continues = ~(begins[:-1] & begins[1:]) & (chunks % np.uint64(257) != 0)
        unsorted, groups = unsorted[continues], np.cumsum(begins[:-1])[continues]
        start += _CHUNK
    return rows


def select_texts(texts: Texts, rows: NDArray[np.int64]) -> Texts:
    """Return the texts with these indices, in this order. An index may be repeated."""
    return Texts(*select_ranges(texts.content, texts.offsets, rows))


def render_fragments(
    deltas: CountDeltas, chosen: NDArray[np.int64], labels: Sequence[str], words: Sequence[str]
) -> tuple[list[str], list[str], list[int]]:
    """Return root labels, texts such as `(NP (DT the) (NN))`, and numbers of expanded nodes of fragments."""
    roots: list[str] = []
    texts: list[str] = []
    expansions: list[int] = []
    for start, size in deltas.entry[["start", "source_size"]][chosen].tolist():
        symbols = deltas.symbols[start : start + size].tolist()
        pieces: list[str] = []
        expanded = 0
        for symbol in symbols:
            if symbol >= 0:
                pieces.append(" " + words[symbol])
            elif symbol <= OPEN_LABEL:
                label, closing = divmod(OPEN_LABEL - symbol, 2)
                pieces.append(")" if closing else f" ({labels[label]}")
                expanded += not closing
            else:
                pieces.append(f" ({labels[-symbol // LABEL_STEP]})")
        roots.append(labels[(OPEN_LABEL - symbols[0]) // 2])
        texts.append("".join(pieces)[1:])
        expansions.append(expanded)
    return roots, texts, expansions
