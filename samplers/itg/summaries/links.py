"""Links that sampled derivations say: of word pairs that they emit, and of nulls in a chunk around one word pair."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.itg.batch import ItgBatch
from hierogram.samplers.itg.derivations import NODE, PAIR, Derivations, lay_out, longest_derivation

LONGEST_CHUNK = 3
"""Words of a chunk's longer side."""


class LinkSums(NamedTuple):
    """How many samples have a link at each (source, target) position, float32[C]: `pairs` of word pairs that are
    emitted, `chunks` of words without a link with the only word that their chunk has on the other side. `samples`
    int64[1].
    """

    pairs: NDArray[np.float32]
    chunks: NDArray[np.float32]
    samples: NDArray[np.int64]


def empty_links(batch: ItgBatch) -> LinkSums:
    """No sample."""
    return LinkSums(
        np.zeros(len(batch.types), np.float32), np.zeros(len(batch.types), np.float32), np.zeros(1, np.int64)
    )


@njit
def _add_chunk(nodes, at, cell, width, sums):
    """Count the nulls of a chunk: a subtree with one word on a side, and a word pair in it."""
    node = nodes[at]
    tall = node["y"] - node["x"] == 1
    place = at
    for below in range(at, at + node["size"]):
        if nodes[below]["rule"] == PAIR:
            place = below
    i, x = np.int64(nodes[place]["i"]), np.int64(nodes[place]["x"])
    if tall:
        for k in range(node["i"], node["j"]):
            if k != i:
                sums[cell + k * width + x] += np.float32(1.0)
    else:
        for z in range(node["x"], node["y"]):
            if z != x:
                sums[cell + i * width + z] += np.float32(1.0)


@njit
def _is_chunk(nodes, at):
    """Whether a node is a chunk of more than one rule."""
    node = nodes[at]
    height, width = node["j"] - node["i"], node["y"] - node["x"]
    if node["rule"] >= PAIR or min(height, width) != 1 or max(height, width) > LONGEST_CHUNK:
        return False
    linked = False
    for below in range(at, at + node["size"]):
        linked |= nodes[below]["rule"] == PAIR
    return linked


@njit
def _add_links(batch, derivations, nodes, sums):
    for pair in range(len(batch.pairs)):
        length = np.int64(derivations.length[pair])
        if length == 0:
            continue
        lay_out(derivations.rules[derivations.offset[pair] :], length, nodes)
        width = batch.target_offset[pair + 1] - batch.target_offset[pair]
        cell = batch.cell_offset[pair]
        at = 0
        while at < length:
            node = nodes[at]
            if node["rule"] == PAIR:
                sums.pairs[cell + node["i"] * width + node["x"]] += np.float32(1.0)
            elif _is_chunk(nodes, at):
                _add_chunk(nodes, at, cell, width, sums.chunks)
                for below in range(at, at + node["size"]):
                    if nodes[below]["rule"] == PAIR:
                        of_pair = cell + nodes[below]["i"] * width + nodes[below]["x"]
                        sums.pairs[of_pair] += np.float32(1.0)
                at += np.int64(node["size"]) - 1
            at += 1


def add_links(batch: ItgBatch, derivations: Derivations, sums: LinkSums) -> None:
    """Count the links of a sample."""
    _add_links(batch, derivations, np.zeros(longest_derivation(derivations), NODE), sums)
    sums.samples[0] += 1
