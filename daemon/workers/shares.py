"""Shares of a batch: each shard has some blocks of every round, so that all have work in each, and as much."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.forests.batch import Batch
from hierogram.samplers.forests.forest import Bitext
from hierogram.samplers.grammar.columns import Blobs
from hierogram.samplers.grammar.keys import BASE
from hierogram.samplers.synchronous.sweeps import Blocks

TAILS_A_NODE = 11
"""To sample a node takes as long as to weigh n tails of edges, apart from weighing its own;
then times of rounds differ by some %."""


class Share(NamedTuple):
    """The pairs of one shard: `pairs` int64[p] their numbers in the batch, ascending; those of round r are
    `pairs[rounds[r] : rounds[r + 1]]`, whole blocks of the batch (`rounds` int64[R + 1]).
    """

    pairs: NDArray[np.int64]
    rounds: NDArray[np.int64]


def share_out(work: NDArray[np.int64], blocks: Blocks, shards: int) -> list[Share]:
    """Return the shares of n shards, which together have each pair once; the blocks are those that threads take.

    Pair p is as much work as `work[p + 1] - work[p]` says (int64[P + 1]): in every round each shard has blocks of about
    the same work.
    """
    pairs = len(work) - 1
    size = blocks.pairs_a_block
    a_round = size * blocks.blocks_a_round
    bounds = np.zeros((len(range(0, pairs, a_round)), shards + 1), np.int64)
    for number, start in enumerate(range(0, pairs, a_round)):
        end = min(start + a_round, pairs)
        edges = np.append(np.arange(start, end, size), end)
        done = work[edges]
        wanted = done[0] + (done[-1] - done[0]) * np.arange(shards + 1) / shards
        # The edge that is closest to where the work is divided.
        bounds[number] = edges[np.searchsorted((done[1:] + done[:-1]) / 2, wanted)]
    shares = []
    for shard in range(shards):
        first, last = bounds[:, shard], bounds[:, shard + 1]
        rounds = np.concatenate(([0], np.cumsum(last - first)))
        shares.append(Share(_ranges(first, last - first), rounds))
    return shares


def deal_out(work: NDArray[np.int64], blocks: Blocks, shards: int) -> list[Share]:
    """Return shares as `share_out` does, where the work of each pair, int64[P], is guessed: the blocks of a round are
    dealt out to and fro, those with most work first, so that what the guesses miss evens out.
    """
    pairs = len(work)
    size = blocks.pairs_a_block
    a_round = size * blocks.blocks_a_round
    found: list[list[NDArray[np.int64]]] = [[] for _ in range(shards)]
    for start in range(0, pairs, a_round):
        firsts = np.arange(start, min(start + a_round, pairs), size)
        place = np.empty(len(firsts), np.int64)
        place[np.argsort(-np.add.reduceat(work[: start + a_round], firsts), kind="stable")] = np.arange(len(firsts))
        turn, seat = np.divmod(place, shards)
        owner = np.where(turn % 2, shards - 1 - seat, seat)
        lasts = np.minimum(firsts + size, pairs)
        for shard in range(shards):
            own = np.flatnonzero(owner == shard)
            found[shard].append(_ranges(firsts[own], lasts[own] - firsts[own]))
    return [
        Share(np.concatenate(parts), np.concatenate(([0], np.cumsum([len(part) for part in parts])))) for parts in found
    ]


def _ranges(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return n numbers from each start on, one range after the other."""
    ends = np.cumsum(sizes)
    shifts = starts - (ends - sizes)
    return np.repeat(shifts, sizes) + np.arange(int(ends[-1]) if len(ends) else 0)


def places_of(offsets: NDArray[np.int64], pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where that lies which the pairs have, in arrays in which pair p has `offsets[p]` to `offsets[p + 1]`."""
    return _ranges(offsets[pairs], offsets[pairs + 1] - offsets[pairs])


class Texts(NamedTuple):
    """Words and links of pairs, as a batch can be made from them: the pairs' numbers for their random streams (int64),
    the bitext, and the hash of each of its words (uint64)."""

    pairs: NDArray[np.int64]
    bitext: Bitext
    source_hashes: NDArray[np.uint64]
    target_hashes: NDArray[np.uint64]


def texts_of(batch: Batch, pairs: NDArray[np.int64]) -> Texts:
    """Return those of some pairs of a batch."""
    bitext, words = batch.bitext, batch.words
    source, target = places_of(bitext.source_offset, pairs), places_of(bitext.target_offset, pairs)
    links = places_of(bitext.link_offset, pairs)
    chosen = Bitext(
        bitext.source[source],
        _offsets(bitext.source_offset, pairs),
        bitext.target[target],
        _offsets(bitext.target_offset, pairs),
        bitext.link_source[links],
        bitext.link_target[links],
        _offsets(bitext.link_offset, pairs),
    )
    return Texts(batch.pairs[pairs], chosen, _hashes(words.source, source), _hashes(words.target, target))


def _hashes(added_up: NDArray[np.uint64], places: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the hashes of some words, from those of all words added up, see `Words`."""
    hashes: NDArray[np.uint64] = added_up[places + 1] - added_up[places] * BASE
    return hashes


def _offsets(offsets: NDArray[np.int64], pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each of some pairs' things begin when they lie one after the other, and where the last ones end."""
    return np.concatenate(([0], np.cumsum(offsets[pairs + 1] - offsets[pairs])))


def blobs_at(blobs: Blobs, pairs: NDArray[np.int64]) -> Blobs:
    """Return the byte strings of some pairs."""
    sizes = np.diff(blobs.offsets)[pairs]
    return Blobs(blobs.content[places_of(blobs.offsets, pairs)], np.concatenate(([0], np.cumsum(sizes))))


def blobs_of_all(parts: list[tuple[Share, Blobs]]) -> Blobs:
    """Return the byte strings of all pairs in their order, from those of shards that have each pair once."""
    sizes = np.zeros(sum(len(share.pairs) for share, _ in parts), np.int64)
    for share, blobs in parts:
        sizes[share.pairs] = np.diff(blobs.offsets)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    content = np.empty(int(offsets[-1]), np.uint8)
    for share, blobs in parts:
        content[places_of(offsets, share.pairs)] = blobs.content
    return Blobs(content, offsets)
