"""Many rules as text at once: symbols of rule-count deltas as `hierogram.samplers.grammar.rules` notates them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.counts.deltas import CountDeltas
from hierogram.samplers.grammar.columns import Texts
from hierogram.samplers.grammar.rules import NONTERMINAL_BEGINS, NONTERMINAL_ENDS, escape_terminal

_SPACE, _NEWLINE = 32, 10
_BEGINS, _ENDS = tuple(NONTERMINAL_BEGINS.encode()), tuple(NONTERMINAL_ENDS.encode())
_LONGEST_NONTERMINAL = 16


class Spellings(NamedTuple):
    """The words of a vocabulary as escaped UTF-8: word w is `letters[starts[w]:starts[w+1]]`."""

    letters: NDArray[np.uint8]
    starts: NDArray[np.int64]


def spellings(words: Sequence[str]) -> Spellings:
    """The spellings of words in the order of their numbers."""
    encoded = [escape_terminal(word).encode() for word in words]
    starts = np.cumsum([0, *[len(word) for word in encoded]], dtype=np.int64)
    return Spellings(np.frombuffer(b"".join(encoded), np.uint8), starts)


@njit
def put_number(buffer, position, number):
    """Write a whole number that is not negative; the position after it."""
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
    """Write a nonterminal in the notation of rules; the position after it."""
    for byte in _BEGINS:
        buffer[position] = byte
        position += 1
    position = put_number(buffer, position, number)
    for byte in _ENDS:
        buffer[position] = byte
        position += 1
    return position


@njit
def _put_side(buffer, position, symbols, start, size, letters, starts):
    for k in range(start, start + size):
        if k > start:
            buffer[position] = _SPACE
            position += 1
        symbol = np.int64(symbols[k])
        if symbol >= 0:
            for c in range(starts[symbol], starts[symbol + 1]):
                buffer[position] = letters[c]
                position += 1
        else:
            position = put_nonterminal(buffer, position, -symbol)
    buffer[position] = _NEWLINE
    return position + 1


@njit
def _put_sides(deltas, chosen, target, spelling, buffer, offsets):
    position = 0
    for k in range(len(chosen)):
        entry = chosen[k]
        start = deltas.starts[entry]
        size = deltas.source_sizes[entry]
        if target:
            start += size
            size = deltas.target_sizes[entry]
        position = _put_side(buffer, position, deltas.symbols, start, size, spelling.letters, spelling.starts)
        offsets[k + 1] = position
    return position


def _sides(deltas: CountDeltas, chosen: NDArray[np.int64], target: bool, spelling: Spellings) -> Texts:
    sizes = deltas.target_sizes if target else deltas.source_sizes
    longest = int(np.diff(spelling.starts).max(initial=1))
    room = int(sizes[chosen].sum(dtype=np.int64)) * (1 + max(longest, _LONGEST_NONTERMINAL)) + len(chosen)
    buffer = np.empty(room, np.uint8)
    offsets = np.zeros(len(chosen) + 1, np.int64)
    size = _put_sides(deltas, chosen, target, spelling, buffer, offsets)
    return Texts(buffer[:size].copy(), offsets)


def render_rules(
    deltas: CountDeltas, chosen: NDArray[np.int64], source: Spellings, target: Spellings
) -> tuple[Texts, Texts]:
    """Source and target sides of the chosen entries of rule-count deltas of phrase rules."""
    return _sides(deltas, chosen, False, source), _sides(deltas, chosen, True, target)


@njit
def _same_texts(ours, rows, theirs, other_rows, same):
    for k in range(len(rows)):
        a, a_end = ours.offsets[rows[k]], ours.offsets[rows[k] + 1]
        b, b_end = theirs.offsets[other_rows[k]], theirs.offsets[other_rows[k] + 1]
        same[k] = a_end - a == b_end - b
        while same[k] and a < a_end:
            same[k] = ours.content[a] == theirs.content[b]
            a += 1
            b += 1


def same_texts(ours: Texts, rows: NDArray[np.int64], theirs: Texts, other_rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether text `rows[k]` of ours is text `other_rows[k]` of theirs, for each k."""
    same = np.empty(len(rows), np.bool_)
    _same_texts(ours, rows, theirs, other_rows, same)
    return same
