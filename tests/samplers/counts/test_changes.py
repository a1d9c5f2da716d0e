"""Added and removed trees: a tree that occurs before and after changes no count."""

from collections import Counter

import numpy as np

from hierogram.samplers.counts.deltas import Change, weigh_trees
from hierogram.samplers.forests.derivations import Trees, select_trees
from hierogram.samplers.grammar.columns import join_blobs


def trees(*blobs: tuple[int, bytes]) -> Trees:
    joined = select_trees(join_blobs([blob for _, blob in blobs]))
    return joined._replace(pairs=np.array([pair for pair, _ in blobs], np.int64))


def test_equal_trees_of_a_pair_are_merged_and_opposite_ones_cancel() -> None:
    before = trees((0, b"a"), (1, b"b"), (3, b"d"))
    after = trees((0, b"a"), (1, b"c"), (2, b"c"))
    dropped = trees((0, b"xy"), (0, b"a"), (1, b"b"), (1, b"b"))
    kept = trees((0, b"a"), (0, b"xy"), (0, b"xy"), (1, b"c"), (2, b"x"))
    weighted = weigh_trees([Change(before, -1, 0), Change(after, 1, 0), Change(dropped, 0, -1), Change(kept, 0, 1)])
    found = weighted.trees
    assert found.pairs.tolist() == sorted(found.pairs.tolist())
    rows = zip(found.pairs.tolist(), found.starts.tolist(), found.ends.tolist(), strict=True)
    texts = [(pair, found.content[start:end].tobytes()) for pair, start, end in rows]
    assert len(set(texts)) == len(texts)
    assert dict(zip(texts, weighted.weights.tolist(), strict=True)) == {
        (0, b"xy"): [0, 1, 0],
        (1, b"b"): [-1, -2, 0],
        (1, b"c"): [1, 1, 0],
        (2, b"c"): [1, 0, 0],
        (2, b"x"): [0, 1, 0],
        (3, b"d"): [-1, 0, 0],
    }


def test_weights_of_equal_trees_add_up_over_changes() -> None:
    random = np.random.default_rng(3)
    expected: Counter[tuple[int, bytes]] = Counter()
    changes = []
    for weight in (1, -1, 2, 1):
        rows = sorted((int(pair), bytes([byte])) for pair, byte in random.integers(0, 5, (40, 2)))
        for row in rows:
            expected[row] += weight
        changes.append(Change(trees(*rows), 0, weight))
    weighted = weigh_trees(changes)
    expected_uses = weighted.weights[:, 1].tolist()
    found = zip(weighted.trees.pairs.tolist(), weighted.trees.starts.tolist(), expected_uses, strict=True)
    sums = {(pair, bytes([weighted.trees.content[start]])): sampled for pair, start, sampled in found}
    assert sums == {row: number for row, number in expected.items() if number}
