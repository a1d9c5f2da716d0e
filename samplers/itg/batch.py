"""Sentence pairs as the ITG samplers take them: words, and the type of every word pair that occurs together."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit_allocating, njit_inline
from hierogram.samplers.compiled.probing import mask_of, probe
from hierogram.samplers.compiled.streams import mix
from hierogram.samplers.exceptions import AlignmentInputError
from hierogram.samplers.grammar.numbers import LONGEST_ITG_SIDE

_SMALLEST = 1 << 10
_FREE = np.uint64(0)
_ONE = np.uint64(1)
_SHIFT = np.uint64(32)


class ItgBatch(NamedTuple):
    """Sentence pairs that are sampled together.

    `source` int32[N] and `target` int32[M] are word numbers, `source_offset` and `target_offset` int64[P + 1] where
    each pair's begin. `types` int32[C] numbers the word pair of each (source, target) position, row by row, from
    `cell_offset` int64[P + 1] on; type t is the pair of `type_source[t]` and `type_target[t]`, int32[T]. `pairs`
    int64[P] names each pair for its random stream.
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

    @property
    def size(self) -> int:
        """Number of pairs."""
        return len(self.pairs)

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


def make_batch(
    source: NDArray[np.int32],
    source_offset: NDArray[np.int64],
    target: NDArray[np.int32],
    target_offset: NDArray[np.int64],
    pairs: NDArray[np.int64] | None = None,
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
    )  # fmt: skip
