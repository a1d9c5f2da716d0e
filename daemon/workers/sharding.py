"""Division of a batch into shards. In each round, all shards have about equal work."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.forests.derivations import Batch
from hierogram.samplers.forests.forest import Bitext
from hierogram.samplers.grammar.columns import Blobs
from hierogram.samplers.grammar.keys import BASE
from hierogram.samplers.synchronous.sweeps import Blocks

NODE_COST = 11
"""Cost of sampling a node, in units of the cost of weighting one edge tail (measured)."""


class ShardPlan(NamedTuple):
    """Indices of a shard's pairs in the batch, ascending. Round r samples `pairs[rounds[r] : rounds[r + 1]]`."""

    pairs: NDArray[np.int64]
    rounds: NDArray[np.int64]


def plan_shards(cumulative_work: NDArray[np.int64], blocks: Blocks, shards: int) -> list[ShardPlan]:
    """Plan shards with about equal work in each round. `cumulative_work` int64[P + 1] is the work before each pair."""
    pairs = len(cumulative_work) - 1
    size = blocks.pairs_per_block
    round_size = size * blocks.blocks_per_round
    bounds = np.zeros((len(range(0, pairs, round_size)), shards + 1), np.int64)
    for round_number, start in enumerate(range(0, pairs, round_size)):
        end = min(start + round_size, pairs)
        block_edges = np.append(np.arange(start, end, size), end)
        work_before = cumulative_work[block_edges]
        targets = work_before[0] + (work_before[-1] - work_before[0]) * np.arange(shards + 1) / shards
        # Divide at the block edges nearest to equal work, because blocks are sampled as a whole.
        bounds[round_number] = block_edges[np.searchsorted((work_before[1:] + work_before[:-1]) / 2, targets)]
    plans = []
    for shard in range(shards):
        first, last = bounds[:, shard], bounds[:, shard + 1]
        pairs_by_round = [np.arange(start, stop) for start, stop in zip(first, last, strict=True)]
        plans.append(ShardPlan(np.concatenate(pairs_by_round), np.append(0, np.cumsum(last - first))))
    return plans


def entry_indices(offsets: NDArray[np.int64], pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of the pairs' entries in an array. Pair p has the entries `offsets[p]:offsets[p + 1]`."""
    sizes = offsets[pairs + 1] - offsets[pairs]
    ends = np.cumsum(sizes)
    return np.repeat(offsets[pairs] - ends + sizes, sizes) + np.arange(sizes.sum())


PairTexts = tuple[NDArray[np.int64], Bitext, NDArray[np.uint64], NDArray[np.uint64]]
"""Texts of pairs: permanent pair numbers, words with links, hashes of source words, and hashes of target words."""


def extract_texts(batch: Batch, pairs: NDArray[np.int64]) -> PairTexts:
    """Copy the texts of the given pairs of a batch, in this order. Offsets start at 0."""
    bitext, words = batch.bitext, batch.words
    source, target = entry_indices(bitext.source_offset, pairs), entry_indices(bitext.target_offset, pairs)
    links = entry_indices(bitext.link_offset, pairs)
    chosen = Bitext(
        bitext.source[source],
        _offsets(bitext.source_offset, pairs),
        bitext.target[target],
        _offsets(bitext.target_offset, pairs),
        bitext.link_source[links],
        bitext.link_target[links],
        _offsets(bitext.link_offset, pairs),
    )
    return batch.pairs[pairs], chosen, _hashes(words.source, source), _hashes(words.target, target)


def _hashes(prefix_hashes: NDArray[np.uint64], positions: NDArray[np.int64]) -> NDArray[np.uint64]:
    hashes: NDArray[np.uint64] = prefix_hashes[positions + 1] - prefix_hashes[positions] * BASE
    return hashes


def _offsets(offsets: NDArray[np.int64], pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.append(0, np.cumsum(offsets[pairs + 1] - offsets[pairs]))


def take_blobs(blobs: Blobs, pairs: NDArray[np.int64]) -> Blobs:
    """Return the byte strings of the chosen pairs."""
    return Blobs(blobs.content[entry_indices(blobs.offsets, pairs)], _offsets(blobs.offsets, pairs))
