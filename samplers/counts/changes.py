"""Which trees change the counts of rules: those that come and those that go, each pair's equal ones taken together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.forests.derivations import Trees


@dataclass(frozen=True, slots=True)
class Change:
    """Trees, and by how much each of them changes the count and the sampled count of its rules, and the variance of
    the error of the latter.
    """

    trees: Trees
    count: int
    sampled: int
    variance: int = 0

    def of_pairs(self, first: int) -> "Change":
        """The same, where pair 0 of the trees is pair `first` of the batch."""
        return replace(self, trees=self.trees._replace(pairs=self.trees.pairs + first))


class WeightedTrees(NamedTuple):
    """Trees, and by how much each changes the count and the sampled count of its rules, and the variance of the error
    of the latter: int64[m].
    """

    trees: Trees
    counts: NDArray[np.int64]
    sampled: NDArray[np.int64]
    variances: NDArray[np.int64]


@njit
def _same(content, a, a_end, b, b_end):
    if a_end - a != b_end - b:
        return False
    while a < a_end and content[a] == content[b]:
        a += 1
        b += 1
    return a == a_end


@njit
def _merge_equal(weighted, kept):
    """Move the weights of a pair's equal trees to the first of them; mark those whose weights are not 0."""
    trees = weighted.trees
    first = 0
    for k in range(len(trees.pairs)):
        if trees.pairs[k] != trees.pairs[first]:
            first = k
        for earlier in range(first, k):
            if _same(trees.content, trees.starts[earlier], trees.ends[earlier], trees.starts[k], trees.ends[k]):
                weighted.counts[earlier] += weighted.counts[k]
                weighted.sampled[earlier] += weighted.sampled[k]
                weighted.variances[earlier] += weighted.variances[k]
                weighted.counts[k] = 0
                weighted.sampled[k] = 0
                weighted.variances[k] = 0
                break
    for k in range(len(kept)):
        kept[k] = weighted.counts[k] != 0 or weighted.sampled[k] != 0 or weighted.variances[k] != 0


def weigh_trees(changes: Sequence[Change]) -> WeightedTrees:
    """All trees of the changes, by pair; a pair's equal trees are one, and left out where their weights cancel out."""
    shifts = np.cumsum([0, *(len(change.trees.content) for change in changes)], dtype=np.int64)[:-1]
    sizes = [len(change.trees.pairs) for change in changes]
    pairs = np.concatenate([np.zeros(0, np.int64), *(change.trees.pairs for change in changes)])
    order = np.argsort(pairs, kind="stable")
    moved = zip(changes, shifts.tolist(), strict=True)
    bounds = [(change.trees.starts + shift, change.trees.ends + shift) for change, shift in moved]
    trees = Trees(
        np.concatenate([change.trees.content for change in changes]),
        pairs[order],
        np.concatenate([starts for starts, _ in bounds])[order],
        np.concatenate([ends for _, ends in bounds])[order],
    )
    weighted = WeightedTrees(
        trees,
        np.repeat(np.array([change.count for change in changes], np.int64), sizes)[order],
        np.repeat(np.array([change.sampled for change in changes], np.int64), sizes)[order],
        np.repeat(np.array([change.variance for change in changes], np.int64), sizes)[order],
    )
    kept = np.empty(len(pairs), np.bool_)
    _merge_equal(weighted, kept)
    return WeightedTrees(
        Trees(trees.content, trees.pairs[kept], trees.starts[kept], trees.ends[kept]),
        weighted.counts[kept],
        weighted.sampled[kept],
        weighted.variances[kept],
    )
