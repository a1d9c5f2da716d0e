"""Retained samples: the last trees of each pair, as bytes one after the other."""

import random

import numpy as np
import pytest

from hierogram.samplers.exceptions import DerivationError
from hierogram.samplers.forests.batch import State
from hierogram.samplers.forests.derivations import encode_trees
from hierogram.samplers.forests.forest import Forests, Node, assemble
from hierogram.samplers.forests.samples import decode_trees, keep_samples, samples_of, trees_of
from hierogram.samplers.grammar.columns import join_blobs, no_blobs, part_of, split_blobs

PAIR = [
    Node((0, 1), (0, 1), [[]]),
    Node((1, 2), (1, 2), [[]]),
    Node((2, 3), (2, 3), [[]]),
    Node((0, 2), (0, 2), [[0, 1]]),
    Node((1, 3), (1, 3), [[1, 2]]),
    Node((0, 3), (0, 3), [[3, 2], [0, 4]]),
]
FORESTS: Forests = assemble([PAIR] * 4)


def drawn(random_: random.Random) -> State:
    edge = np.array([random_.randrange(2) if n % 6 == 5 else 0 for n in range(24)], np.uint16)
    cut = np.array([1 if n % 6 == 5 else random_.randrange(2) for n in range(24)], np.uint8)
    return State(edge, cut)


def unpacked(blob: bytes) -> list[bytes]:
    samples = []
    while blob:
        size = int.from_bytes(blob[:2], "little")
        samples.append(blob[2 : 2 + size])
        blob = blob[2 + size :]
    return samples


@pytest.mark.parametrize("most", [1, 3, 8])
def test_each_pair_keeps_its_own_last_samples(most: int) -> None:
    random_ = random.Random(most)
    kept = no_blobs(4)
    expected: list[list[bytes]] = [[] for _ in range(4)]
    for _ in range(30):
        state = drawn(random_)
        due = np.array([random_.random() < 0.6 for _ in range(4)])
        trees = split_blobs(encode_trees(FORESTS, state))
        kept = keep_samples(FORESTS, kept, state, due, most)
        for pair in np.flatnonzero(due).tolist():
            expected[pair] = [*expected[pair], trees[pair]][-most:]
        assert [unpacked(blob) for blob in split_blobs(kept)] == expected
    found = samples_of(kept)
    listed = [(pair, tree) for pair, trees in enumerate(expected) for tree in trees]
    bounds = zip(found.pairs.tolist(), found.starts.tolist(), found.ends.tolist(), strict=True)
    assert [(pair, found.content[start:end].tobytes()) for pair, start, end in bounds] == listed


def test_samples_of_one_rank_are_trees_of_the_pairs_that_have_so_many() -> None:
    random_ = random.Random(5)
    first, second = drawn(random_), drawn(random_)
    kept = keep_samples(FORESTS, no_blobs(4), first, np.array([True, True, False, True]), 8)
    kept = keep_samples(FORESTS, kept, second, np.array([False, True, True, True]), 8)
    samples = samples_of(kept)
    assert samples.of_rank(0).pairs.tolist() == [0, 1, 2, 3]
    later = samples.of_rank(1)
    assert later.pairs.tolist() == [1, 3]
    assert not len(samples.of_rank(2).pairs)
    again = split_blobs(encode_trees(FORESTS, decode_trees(FORESTS, later)))
    of_second = split_blobs(encode_trees(FORESTS, second))
    assert (again[1], again[3]) == (of_second[1], of_second[3])


def test_trees_come_back_as_they_were() -> None:
    state = drawn(random.Random(2))
    trees = encode_trees(FORESTS, state)
    back = decode_trees(FORESTS, trees_of(trees))
    assert split_blobs(encode_trees(FORESTS, back)) == split_blobs(trees)
    last_two = trees_of(part_of(trees, 2, 4))
    assert [last_two.content[a:b].tobytes() for a, b in zip(last_two.starts, last_two.ends, strict=True)] == (
        split_blobs(trees)[2:]
    )


@pytest.mark.parametrize("damaged", [b"\x05", b"\x05\0\1\1", b"\0\0", b"\1\0\1\3\0\1"])
def test_samples_that_are_cut_short_are_told(damaged: bytes) -> None:
    with pytest.raises(DerivationError, match="retained samples of pair number 1 of the batch are cut short"):
        samples_of(join_blobs([b"\1\0\1", damaged, b""]))


@pytest.mark.parametrize("damaged", [b"\x7f", b"\1", b"\1\1\1\1\1\1\1"])
def test_trees_that_do_not_fit_their_forest_are_told(damaged: bytes) -> None:
    good = split_blobs(encode_trees(FORESTS, drawn(random.Random(3))))
    with pytest.raises(DerivationError, match="pair number 2 of the batch does not fit its forest"):
        decode_trees(FORESTS, trees_of(join_blobs([*good[:2], damaged, good[3]])))
