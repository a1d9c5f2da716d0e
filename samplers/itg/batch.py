"""Sentence pairs as arrays: word numbers, and types of co-occurring word pairs and phrase pairs.

A type is a pair of words or phrases that occurs in the batch. A cell is an occurrence: a source word and a target word
of one sentence pair.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_allocating, njit_inline
from hierogram.samplers.compiled.probing import find_key
from hierogram.samplers.compiled.streams import mix
from hierogram.samplers.exceptions import AlignmentInputError
from hierogram.samplers.grammar.numbers import MAX_ITG_SIDE_LENGTH

BINARY_TYPES = 2
"""Number of rule types with children: X → [X X] and X → ⟨X X⟩, which have the first rule numbers."""
_SMALLEST = 1 << 10
_FREE = np.uint64(0)
_ONE = np.uint64(1)
_SHIFT = np.uint64(32)


class Phrases(NamedTuple):
    """Q types of phrase pairs with up to `longest` words per side, other than word pairs."""

    longest: int
    # int32[C (longest² - 1)]: type of the phrase pair of each size that begins at each cell, or -1 if it would cross
    # the end of a sentence. The sizes of a cell are ordered by `phrase_offset` - 1. Types of phrase pairs follow the
    # types of word pairs.
    types: NDArray[np.int32]
    # int8[Q, 2]: source and target length of each type.
    sizes: NDArray[np.int8]
    # int64[Q, 4]: one occurrence of each type. Columns: index of the first source word and of the first target word in
    # the batch, index of the first cell, and difference between the cells of adjacent source words.
    first: NDArray[np.int64]


class ItgBatch(NamedTuple):
    """P sentence pairs: N source words, M target words, C cells (word pairs), T types of word pairs."""

    # int32[N], int64[P + 1]: source word numbers, and index of the first source word of each pair.
    source: NDArray[np.int32]
    source_offset: NDArray[np.int64]
    # int32[M], int64[P + 1]: the same for target words.
    target: NDArray[np.int32]
    target_offset: NDArray[np.int64]
    # int64[P + 1], int32[C]: first cell of each sentence pair, and type of each cell. A sentence pair has a row of
    # cells for each source word.
    cell_offset: NDArray[np.int64]
    types: NDArray[np.int32]
    # int32[T]: source word and target word of each type.
    type_source: NDArray[np.int32]
    type_target: NDArray[np.int32]
    # int64[P]: key of the random stream of each pair.
    pairs: NDArray[np.int64]
    phrases: Phrases
    # Sizes of the vocabularies: the largest word number plus 1.
    source_words: int
    target_words: int

    @property
    def size(self) -> int:
        """Number of pairs."""
        return len(self.pairs)

    @property
    def emitted_types(self) -> int:
        """Number of types of word pairs and phrase pairs."""
        return len(self.type_source) + len(self.phrases.sizes)

    @property
    def longest_source(self) -> int:
        """Length of the longest source side, at least 1."""
        return int(np.diff(self.source_offset).max(initial=1))

    @property
    def longest_target(self) -> int:
        """Length of the longest target side, at least 1."""
        return int(np.diff(self.target_offset).max(initial=1))


@njit_allocating
def _enlarge(keys, numbers, capacity):
    more_keys, more_numbers = np.zeros(capacity, np.uint64), np.zeros(capacity, np.int32)
    for slot in range(len(keys)):
        if keys[slot] != _FREE:
            to = find_key(more_keys, mix(keys[slot]), keys[slot])
            more_keys[to], more_numbers[to] = keys[slot], numbers[slot]
    return more_keys, more_numbers


@njit_allocating
def _number_types(source, source_offset, target, target_offset, types):
    keys, numbers = np.zeros(_SMALLEST, np.uint64), np.zeros(_SMALLEST, np.int32)
    words = np.zeros((_SMALLEST, 2), np.int32)
    distinct = cell = 0
    for pair in range(len(source_offset) - 1):
        for i in range(source_offset[pair], source_offset[pair + 1]):
            for x in range(target_offset[pair], target_offset[pair + 1]):
                key = (np.uint64(source[i]) << _SHIFT | np.uint64(target[x])) + _ONE
                slot = find_key(keys, mix(key), key)
                if keys[slot] == _FREE:
                    if 2 * (distinct + 1) > len(keys):
                        keys, numbers = _enlarge(keys, numbers, 2 * len(keys))
                        larger = np.zeros((len(keys), 2), np.int32)
                        larger[:distinct] = words[:distinct]
                        words = larger
                        slot = find_key(keys, mix(key), key)
                    keys[slot], numbers[slot] = key, distinct
                    words[distinct, 0], words[distinct, 1] = source[i], target[x]
                    distinct += 1
                types[cell] = numbers[slot]
                cell += 1
    return words[:distinct].copy()


@njit_inline
def first_pair_rule(batch):
    """Return the rule number of the first type of word pairs."""
    return BINARY_TYPES + batch.source_words + batch.target_words


@njit_inline
def phrase_offset(longest, height, width):
    """Return the index of a size among all sizes of pairs that begin at one cell. Word pairs have 0."""
    return (height - 1) * longest + width - 1


@njit_inline
def phrase_type(batch, pair, i, x, height, width):
    """Return the type of the word or phrase pair of this size at (i, x), or -1 past the end of a sentence."""
    longest = batch.phrases.longest
    cell = batch.cell_offset[pair] + i * (batch.target_offset[pair + 1] - batch.target_offset[pair]) + x
    if height == 1 and width == 1:
        return batch.types[cell]
    return batch.phrases.types[cell * (longest * longest - 1) + phrase_offset(longest, height, width) - 1]


def _number_phrases(words: NDArray[np.int32], offset: NDArray[np.int64], longest: int) -> NDArray[np.int64]:
    """Return phrase numbers by first word and length, int64[N, longest], -1 past the end of a sentence."""
    numbers = np.full((len(words), longest), -1, np.int64)
    numbers[:, 0] = words
    words_left = np.repeat(offset[1:], np.diff(offset)) - np.arange(len(words))
    for size in range(1, longest):
        fitting = np.flatnonzero(words_left > size)
        last = words[fitting + size].astype(np.int64)
        numbers[fitting, size] = np.unique(numbers[fitting, size - 1] << 32 | last, return_inverse=True)[1]
    return numbers


@njit
def _write_keys(offsets, numbers, longest, keys):
    """Write the key of each phrase pair at each cell, except across the end of a sentence."""
    source_offset, target_offset = offsets
    position = 0
    for pair in range(len(source_offset) - 1):
        for i in range(source_offset[pair], source_offset[pair + 1]):
            for x in range(target_offset[pair], target_offset[pair + 1]):
                for s in range(longest):
                    for t in range(longest):
                        if s + t > 0:
                            f, e = numbers[0][i, s], numbers[1][x, t]
                            if f >= 0 and e >= 0:
                                size = np.uint64(1 + s * longest + t)
                                keys[position] = size << _SIZE_SHIFT | np.uint64(f) << _SIDE_SHIFT | np.uint64(e)
                            position += 1


_SIZE_SHIFT, _SIDE_SHIFT = np.uint64(58), np.uint64(29)
_MAX_NUMBERS = 1 << 29
"""Exclusive limit of words per side, since a key has 29 bits for each phrase number."""


_NO_PHRASES = Phrases(1, np.zeros(0, np.int32), np.zeros((0, 2), np.int8), np.zeros((0, 4), np.int64))


def _find_phrases(batch: ItgBatch, longest: int) -> Phrases:
    source_offset, target_offset, cell_offset = batch.source_offset, batch.target_offset, batch.cell_offset
    for side, count in (("source", len(batch.source)), ("target", len(batch.target))):
        if count >= _MAX_NUMBERS:
            raise AlignmentInputError(
                f"{count:,} words on the {side} side, the limit for phrase pairs is {_MAX_NUMBERS - 1:,}: "
                "align fewer pairs at once"
            )
    numbers = tuple(
        _number_phrases(*side, longest) for side in ((batch.source, source_offset), (batch.target, target_offset))
    )
    shapes = longest * longest - 1
    keys = np.zeros(int(cell_offset[-1]) * shapes, np.uint64)
    _write_keys((source_offset, target_offset), numbers, longest, keys)
    distinct, key_numbers = np.unique(keys, return_inverse=True)
    none = int(len(distinct) > 0 and distinct[0] == 0)
    types: NDArray[np.int32] = (key_numbers - none).astype(np.int32)
    present = np.flatnonzero(types >= 0)
    occurrence = np.zeros(len(distinct) - none, np.int64)
    occurrence[types[present]] = present
    cell, shape = np.divmod(occurrence, shapes)
    pair = np.searchsorted(cell_offset, cell, "right") - 1
    width = np.diff(target_offset)[pair]
    i, x = np.divmod(cell - cell_offset[pair], width)
    types[present] += len(batch.type_source)
    return Phrases(
        longest,
        types,
        np.stack(np.divmod(shape + 1, longest), axis=1).astype(np.int8) + np.int8(1),
        np.stack((source_offset[pair] + i, target_offset[pair] + x, cell, width), axis=1),
    )


def make_batch(
    source: NDArray[np.int32],
    source_offset: NDArray[np.int64],
    target: NDArray[np.int32],
    target_offset: NDArray[np.int64],
    pairs: NDArray[np.int64] | None = None,
    longest_phrase: int = 1,
) -> ItgBatch:
    """Return a batch of sentence pairs, given their word numbers and offsets as in `ItgBatch`.

    `pairs` int64[P] are keys of random streams, by default 0, 1, …. Phrases have up to `longest_phrase` words per side.
    Raises `AlignmentInputError` if a sentence is too long, or a batch with phrases has too many words.
    """
    lengths = np.diff(source_offset), np.diff(target_offset)
    for side, words in zip(("source", "target"), lengths, strict=True):
        if words.max(initial=0) > MAX_ITG_SIDE_LENGTH:
            line = int(np.argmax(words))
            raise AlignmentInputError(
                f"sentence pair {line + 1}: {int(words[line]):,} words on the {side} side, the limit of the ITG "
                f"sampler is {MAX_ITG_SIDE_LENGTH}: remove or split this pair"
            )
    cell_offset = np.zeros(len(source_offset), np.int64)
    np.cumsum(lengths[0] * lengths[1], out=cell_offset[1:])
    types = np.zeros(int(cell_offset[-1]), np.int32)
    words = _number_types(source, source_offset, target, target_offset, types)
    stream_keys = np.arange(len(source_offset) - 1, dtype=np.int64) if pairs is None else np.asarray(pairs, np.int64)
    batch = ItgBatch(
        source, source_offset, target, target_offset, cell_offset, types,
        np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1]), stream_keys, _NO_PHRASES,
        int(source.max(initial=-1)) + 1, int(target.max(initial=-1)) + 1,
    )  # fmt: skip
    return batch if longest_phrase == 1 else batch._replace(phrases=_find_phrases(batch, longest_phrase))
