"""Sentence pairs as the ITG samplers take them: words, and the type of every word pair that occurs together."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_allocating, njit_inline
from hierogram.samplers.compiled.probing import mask_of, probe
from hierogram.samplers.compiled.streams import mix
from hierogram.samplers.exceptions import AlignmentInputError
from hierogram.samplers.grammar.numbers import LONGEST_ITG_SIDE

_SMALLEST = 1 << 10
_FREE = np.uint64(0)
_ONE = np.uint64(1)
_SHIFT = np.uint64(32)


class Phrases(NamedTuple):
    """Pairs of phrases that can be emitted, beside pairs of words: of at most `longest` words a side.

    Of each (source, target) position there are longest² - 1 of them that begin there, s source and t target words at
    `place_in(longest, s, t)`: `types` int32[C (longest² - 1)] numbers these, in the place of a cell those of its
    position; -1 where a phrase would leave its pair. Their numbers follow those of word pairs. Of phrase pair q beyond
    these, `sizes` int8[Q, 2] are its numbers of words, `first` int64[Q, 4] says where one stands: its first source and
    target word in the batch, the cell of these, and how many cells the next source word is further on.
    """

    longest: int
    types: NDArray[np.int32]
    sizes: NDArray[np.int8]
    first: NDArray[np.int64]


class ItgBatch(NamedTuple):
    """Sentence pairs that are sampled together.

    `source` int32[N] and `target` int32[M] are word numbers, `source_offset` and `target_offset` int64[P + 1] where
    each pair's begin. `types` int32[C] numbers the word pair of each (source, target) position, row by row, from
    `cell_offset` int64[P + 1] on; type t is the pair of `type_source[t]` and `type_target[t]`, int32[T]. `pairs`
    int64[P] names each pair for its random stream. `phrases` are those of more than a word.
    """

    source: NDArray[np.int32]
    source_offset: NDArray[np.int64]
    target: NDArray[np.int32]
    target_offset: NDArray[np.int64]
    cell_offset: NDArray[np.int64]
    types: NDArray[np.int32]
    type_source: NDArray[np.int32]
    type_target: NDArray[np.int32]
    pairs: NDArray[np.int64]
    phrases: Phrases

    @property
    def size(self) -> int:
        """Number of pairs."""
        return len(self.pairs)

    @property
    def emitted_types(self) -> int:
        """Different pairs of words, and of phrases."""
        return len(self.type_source) + len(self.phrases.sizes)

    @property
    def longest_source(self) -> int:
        """Most words of a source side, 1 at least."""
        return int(np.diff(self.source_offset).max(initial=1))

    @property
    def longest_target(self) -> int:
        """Most words of a target side, 1 at least."""
        return int(np.diff(self.target_offset).max(initial=1))

    @property
    def source_words(self) -> int:
        """Different source words."""
        return int(self.source.max(initial=-1)) + 1

    @property
    def target_words(self) -> int:
        """Different target words."""
        return int(self.target.max(initial=-1)) + 1


@njit_inline
def _ends_at(keys, slot, key):
    return (keys[slot] == key) | (keys[slot] == _FREE)


@njit_allocating
def _grown(keys, numbers, capacity):
    more_keys, more_numbers = np.zeros(capacity, np.uint64), np.zeros(capacity, np.int32)
    mask = mask_of(more_keys)
    for slot in range(len(keys)):
        if keys[slot] != _FREE:
            to = probe(mix(keys[slot]) & mask, mask, _ends_at, more_keys, keys[slot])
            more_keys[to], more_numbers[to] = keys[slot], numbers[slot]
    return more_keys, more_numbers


@njit_allocating
def _number_types(source, source_offset, target, target_offset, types):
    """Number the word pairs that occur together, in the order of their first occurrence; the two words of each."""
    keys, numbers = np.zeros(_SMALLEST, np.uint64), np.zeros(_SMALLEST, np.int32)
    words = np.zeros((_SMALLEST, 2), np.int32)
    taken = at = 0
    for pair in range(len(source_offset) - 1):
        for i in range(source_offset[pair], source_offset[pair + 1]):
            for x in range(target_offset[pair], target_offset[pair + 1]):
                key = (np.uint64(source[i]) << _SHIFT | np.uint64(target[x])) + _ONE
                mask = mask_of(keys)
                slot = probe(mix(key) & mask, mask, _ends_at, keys, key)
                if keys[slot] == _FREE:
                    if 2 * (taken + 1) > len(keys):
                        keys, numbers = _grown(keys, numbers, 2 * len(keys))
                        larger = np.zeros((len(keys), 2), np.int32)
                        larger[:taken] = words[:taken]
                        words = larger
                        mask = mask_of(keys)
                        slot = probe(mix(key) & mask, mask, _ends_at, keys, key)
                    keys[slot], numbers[slot] = key, taken
                    words[taken, 0], words[taken, 1] = source[i], target[x]
                    taken += 1
                types[at] = numbers[slot]
                at += 1
    return words[:taken].copy()


@njit_inline
def place_in(longest, height, width):
    """The place of a phrase pair among those that begin at a position."""
    return (height - 1) * longest + width - 2


@njit_inline
def phrase_type(batch, pair, i, x, height, width):
    """The number of the phrase pair of so many words from source word i and target word x on, -1 for none."""
    longest = batch.phrases.longest
    cell = batch.cell_offset[pair] + i * (batch.target_offset[pair + 1] - batch.target_offset[pair]) + x
    return batch.phrases.types[cell * (longest * longest - 1) + place_in(longest, height, width)]


def _number_phrases(words: NDArray[np.int32], offset: NDArray[np.int64], longest: int) -> NDArray[np.int64]:
    """Number the phrases of a side, int64[N, longest], by the words that they begin with; -1 beyond a pair's end."""
    numbers = np.full((len(words), longest), -1, np.int64)
    numbers[:, 0] = words
    left = np.repeat(offset[1:], np.diff(offset)) - np.arange(len(words))
    for size in range(1, longest):
        fitting = np.flatnonzero(left > size)
        last = words[fitting + size].astype(np.int64)
        numbers[fitting, size] = np.unique(numbers[fitting, size - 1] << 32 | last, return_inverse=True)[1]
    return numbers


@njit
def _name_pairs(offsets, numbers, longest, keys):
    """Write what names each phrase pair of every position, 0 for none: both sides' sizes and numbers."""
    source_offset, target_offset = offsets
    at = 0
    for pair in range(len(source_offset) - 1):
        for i in range(source_offset[pair], source_offset[pair + 1]):
            for x in range(target_offset[pair], target_offset[pair + 1]):
                for s in range(longest):
                    for t in range(longest):
                        if s + t > 0:
                            f, e = numbers[0][i, s], numbers[1][x, t]
                            if f >= 0 and e >= 0:
                                size = np.uint64(1 + s * longest + t)
                                keys[at] = size << _SIZE_SHIFT | np.uint64(f) << _SIDE_SHIFT | np.uint64(e)
                            at += 1


@njit
def _find_first(offsets, longest, types, sizes, first):
    """Write the size of each phrase pair, and where one stands."""
    source_offset, target_offset = offsets
    at = cell = 0
    for pair in range(len(source_offset) - 1):
        width = target_offset[pair + 1] - target_offset[pair]
        for i in range(source_offset[pair], source_offset[pair + 1]):
            for x in range(target_offset[pair], target_offset[pair + 1]):
                for s in range(longest):
                    for t in range(longest):
                        if s + t > 0:
                            q = types[at]
                            if q >= 0:
                                sizes[q, 0], sizes[q, 1] = s + 1, t + 1
                                first[q, 0], first[q, 1], first[q, 2], first[q, 3] = i, x, cell, width
                            at += 1
                cell += 1


_SIZE_SHIFT, _SIDE_SHIFT = np.uint64(58), np.uint64(29)
_MOST_NUMBERS = 1 << 29
"""Phrases of one side and size; a batch has that many words at most."""


def _phrases_of(
    source: NDArray[np.int32],
    source_offset: NDArray[np.int64],
    target: NDArray[np.int32],
    target_offset: NDArray[np.int64],
    longest: int,
    words: int,
) -> Phrases:
    """The phrase pairs of at most so many words a side; `words` pairs of words have numbers already."""
    if longest == 1:
        return Phrases(1, np.zeros(0, np.int32), np.zeros((0, 2), np.int8), np.zeros((0, 4), np.int64))
    if max(len(source), len(target)) >= _MOST_NUMBERS:
        raise AlignmentInputError(f"phrases are taken from fewer than {_MOST_NUMBERS:,} words a side")
    offsets = source_offset, target_offset
    numbers = _number_phrases(source, source_offset, longest), _number_phrases(target, target_offset, longest)
    cells = int((np.diff(source_offset) * np.diff(target_offset)).sum())
    keys = np.zeros(cells * (longest * longest - 1), np.uint64)
    _name_pairs(offsets, numbers, longest, keys)
    names, places = np.unique(keys, return_inverse=True)
    none = int(len(names) > 0 and names[0] == 0)
    types: NDArray[np.int32] = (places - none).astype(np.int32)
    number = len(names) - none
    sizes, first = np.zeros((number, 2), np.int8), np.zeros((number, 4), np.int64)
    _find_first(offsets, longest, types, sizes, first)
    types[types >= 0] += words
    return Phrases(longest, types, sizes, first)


def make_batch(
    source: NDArray[np.int32],
    source_offset: NDArray[np.int64],
    target: NDArray[np.int32],
    target_offset: NDArray[np.int64],
    pairs: NDArray[np.int64] | None = None,
    longest_phrase: int = 1,
) -> ItgBatch:
    """A batch of sentence pairs, `pairs` their lasting numbers (from 0 if None).

    Raises `AlignmentInputError` where a side has more than `LONGEST_ITG_SIDE` words.
    """
    lengths = np.diff(source_offset), np.diff(target_offset)
    for side, words in zip(("source", "target"), lengths, strict=True):
        if words.max(initial=0) > LONGEST_ITG_SIDE:
            line = int(np.argmax(words))
            raise AlignmentInputError(
                f"sentence pair {line + 1} has {int(words[line]):,} words on its {side} side: the ITG sampler takes "
                f"{LONGEST_ITG_SIDE} at most; leave it out or split it"
            )
    cell_offset = np.zeros(len(source_offset), np.int64)
    np.cumsum(lengths[0] * lengths[1], out=cell_offset[1:])
    types = np.zeros(int(cell_offset[-1]), np.int32)
    words = _number_types(source, source_offset, target, target_offset, types)
    named = np.arange(len(source_offset) - 1, dtype=np.int64) if pairs is None else np.asarray(pairs, np.int64)
    return ItgBatch(
        source, source_offset, target, target_offset, cell_offset, types,
        np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1]), named,
        _phrases_of(source, source_offset, target, target_offset, longest_phrase, len(words)),
    )  # fmt: skip
