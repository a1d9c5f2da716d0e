"""Initial derivations, Model 1, derivations as bytes, and links of the ITG samplers."""

from collections import defaultdict
from functools import cache
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.itg.samplers import Tree, derivations, find_links, list_uses, phrase, to_string, tree_size
from tests.samplers.itg.corpora import Pairs, make_kernel, to_batch, to_derivations, to_trees

from hierogram.samplers.alignment.symmetrization import LinkList, one_to_one
from hierogram.samplers.exceptions import AlignmentInputError, DerivationError
from hierogram.samplers.grammar.columns import join_blobs, split_blobs
from hierogram.samplers.grammar.numbers import MAX_ITG_SIDE_LENGTH
from hierogram.samplers.grammar.settings import BETA
from hierogram.samplers.itg.derivations import PAIR, SOURCE_NULL, TARGET_NULL, decode, encode
from hierogram.samplers.itg.model import ITERATIONS, SMOOTHING, ItgSettings, train_model1
from hierogram.samplers.itg.sampler import ItgKernel
from hierogram.samplers.itg.starts import LEFT_BRANCHING, MODEL1
from hierogram.samplers.itg.summaries import add_links
from hierogram.tools.lab.baselines.itg import EXHAUSTIVE, GIBBS, SLICE, make_plan

PAIRS: Pairs = (((0, 1, 2, 3), (1, 0)), ((2,), (0, 1, 2)), ((), (1, 1)), ((1, 0), ()), ((0, 1), (0, 1)), ((), ()))


def depth_of_right_children(tree: Tree) -> int:
    return 0 if tree[0] >= PAIR else max(depth_of_right_children(tree[1]), 1 + depth_of_right_children(tree[2]))


def assert_sizes(kernel_trees: list[Tree], pairs: Pairs) -> None:
    for tree, (source, target) in zip(kernel_trees, pairs, strict=True):
        assert tree_size(tree) == (len(source), len(target))


def test_the_left_branching_start_has_nulls_on_the_longer_side() -> None:
    pairs = PAIRS[:-1]
    kernel = make_kernel(pairs)
    where = set()
    for seed in range(20):
        trees = to_trees(kernel.init(seed, LEFT_BRANCHING))
        assert_sizes(list(trees), pairs)
        for tree, (source, target) in zip(trees, pairs, strict=True):
            rules = to_string(tree)
            assert depth_of_right_children(tree) <= 1
            assert rules.count(SOURCE_NULL) == max(len(source) - len(target), 0)
            assert rules.count(TARGET_NULL) == max(len(target) - len(source), 0)
        where.add(to_string(trees[0]))
    assert len(where) == 6, "two nulls among four words have six orders"


def test_the_model1_start_finds_most_inverted_links() -> None:
    pairs: Pairs = (*(((k, (k + 1) % 5), ((k + 1) % 5, k)) for k in range(5)), ((0, 1, 2), (0, 1)))
    batch = to_batch(pairs)
    kernel = ItgKernel(batch, ItgSettings(), BETA)
    inverted = 0
    for seed in range(10):
        trees = to_trees(kernel.init(seed, MODEL1))
        assert_sizes(list(trees), pairs)
        assert to_string(trees[-1]).count(TARGET_NULL) == 0
        inverted += sum(find_links(tree) == {(0, 1), (1, 0)} for tree in trees[:-1])
    assert inverted > 40


@given(st.permutations(range(7)), st.integers(0, 127))
def test_the_start_from_links_keeps_all_links_that_an_itg_allows(permutation: list[int], kept: int) -> None:
    links = np.array([target if kept >> k & 1 else -1 for k, target in enumerate(permutation)], np.int32)
    kernel = _seven()
    [tree] = to_trees(kernel.init(1, links))
    assert tree_size(tree) == (7, 7)
    found = find_links(tree)
    wanted = {(k, int(target)) for k, target in enumerate(links) if target >= 0}
    if wanted:
        assert found <= wanted
        order = [target for _, target in sorted(wanted)]
        if is_binarizable(order):
            assert found == wanted
        else:
            assert len(found) >= 3


@cache
def _seven() -> ItgKernel:
    return make_kernel(((tuple(range(7)), tuple(range(7))),))


def is_binarizable(order: list[int]) -> bool:
    """Check if an order splits into two blocks of adjacent targets, both binarizable, by brute force."""
    ranks = [sorted(order).index(target) for target in order]
    if len(ranks) == 1:
        return True
    return any(
        (max(ranks[:k]) < min(ranks[k:]) or min(ranks[:k]) > max(ranks[k:]))
        and is_binarizable(ranks[:k])
        and is_binarizable(ranks[k:])
        for k in range(1, len(ranks))
    )


def test_the_best_links_are_one_to_one() -> None:
    """The three pairs have 3, 1 and 2 source words. The second pair has no links."""
    source, target = np.array([0, 0, 1, 2, 0, 1], np.int16), np.array([0, 1, 1, 1, 2, 0], np.int16)
    score = np.array([0.5, 0.9, 0.8, 0.95, 0.6, 0.7])
    chosen = one_to_one(LinkList(source, target, np.array([0, 4, 4, 6])), score, np.array([0, 3, 4, 6]))
    assert chosen.tolist() == [0, -1, 1, -1, 2, 0]


def test_model1_follows_the_equations() -> None:
    random = Random(2)

    def side() -> tuple[int, ...]:
        return tuple(random.randrange(4) for _ in range(random.randint(1, 4)))

    pairs: Pairs = tuple((side(), side()) for _ in range(5))
    batch = to_batch(pairs)
    found = train_model1(batch)
    for direction in (0, 1):
        words = batch.target_words if direction == 0 else batch.source_words
        p: dict[tuple[int, int], float] = {(g, e): 1 / words for g in range(-1, 4) for e in range(words)}
        for _ in range(ITERATIONS):
            expected: dict[tuple[int, int], float] = defaultdict(float)
            for pair in pairs:
                given, emitted = pair[direction], pair[1 - direction]
                for word in emitted:
                    mass = sum(p[g, word] for g in (-1, *given))
                    for g in (-1, *given):
                        expected[g, word] += p[g, word] / mass
            totals: dict[int, float] = defaultdict(float)
            for (g, _), share in expected.items():
                totals[g] += share
            p = {key: share / totals[key[0]] for key, share in expected.items()}
        for number, (f, e) in enumerate(zip(batch.type_source.tolist(), batch.type_target.tolist(), strict=True)):
            smooth = (1 - SMOOTHING) * p[(f, e) if direction == 0 else (e, f)] + SMOOTHING / words
            assert (found.target if direction == 0 else found.source)[number] == pytest.approx(smooth)
        nulls = found.null_target if direction == 0 else found.null_source
        for word in range(words):
            assert nulls[word] == pytest.approx((1 - SMOOTHING) * p.get((-1, word), 0.0) + SMOOTHING / words)


def test_derivations_survive_a_round_trip_through_bytes() -> None:
    batch = to_batch(PAIRS)
    random = Random(1)
    trees = [random.choice(derivations(len(f), len(e))) for f, e in PAIRS[:-1] if len(f) < 4]
    small = to_batch(tuple(pair for pair in PAIRS[:-1] if len(pair[0]) < 4))
    stored = encode(to_derivations(small, trees))
    assert split_blobs(stored) == [bytes(to_string(tree)) for tree in trees]
    again = decode(small, stored)
    assert encode(again).content.tolist() == stored.content.tolist()
    for wrong in (b"", b"\x02", b"\x00\x02", b"\x00\x02\x02\x02", b"\x09", b"\x00\x03\x04\x03"):
        with pytest.raises(DerivationError, match="pair number 0"):
            decode(small, join_blobs([wrong, *split_blobs(stored)[1:]]))
    assert batch.size == len(PAIRS)


def test_pairs_without_any_word_have_no_derivation() -> None:
    for method in (SLICE, GIBBS, EXHAUSTIVE):
        kernel = make_kernel((((), ()), ((0,), (0,))), method)
        state = kernel.init(1, LEFT_BRANCHING)
        state, _ = kernel.step(1, state, make_plan(kernel.batch, 1))
        assert state.derivations.length[0] == 0
        assert state.derivations.length[1] > 0


def counted_links(tree: Tree, longest: int = 1) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Return the links and the implied links that `add_links` counts for a pair of four words per side."""
    batch = to_batch((((0, 1, 2, 3), (0, 1, 2, 0)),), longest)
    sums = np.zeros((2, 16), np.float32)
    add_links(batch, to_derivations(batch, [tree]), sums[0], sums[1])
    assert sums.max(axis=1).tolist() == [1, 1]
    linked, implied = ({divmod(int(cell), 4) for cell in np.flatnonzero(cells)} for cells in sums)
    return linked, implied


def test_links_of_pairs_and_chunks_are_counted() -> None:
    # In [[f0/e0 f1/ε] ⟨f2/e3 [ε/e1 f3/e2]⟩], f1 is in a chunk with e0, and e1 is in a chunk with f3.
    tree = (0, (0, (PAIR,), (SOURCE_NULL,)), (1, (PAIR,), (0, (TARGET_NULL,), (PAIR,))))
    linked, implied = counted_links(tree)
    assert linked == find_links(tree) == {(use.i, use.x) for use in list_uses(tree) if use.rule == PAIR}
    assert implied == {(1, 0), (3, 1)}


def test_a_pair_of_phrases_links_all_its_words() -> None:
    # In [[f0f1/e0 f2/ε] [f3/e1e2 ε/e3]], f2 is in a chunk with e0, and e3 is in a chunk with f3.
    tree = (0, (0, (phrase(2, 1),), (SOURCE_NULL,)), (0, (phrase(1, 2),), (TARGET_NULL,)))
    linked, implied = counted_links(tree, 2)
    assert linked == find_links(tree) == {(0, 0), (1, 0), (3, 1), (3, 2)}
    assert implied == {(2, 0), (3, 3)}


def test_an_oversized_side_is_refused_with_its_pair_number() -> None:
    with pytest.raises(AlignmentInputError, match=r"sentence pair 2: 251 words on the target side"):
        to_batch((((0,), (0,)), ((0,), (0,) * (MAX_ITG_SIDE_LENGTH + 1))))


def test_unknown_samplers_are_refused() -> None:
    with pytest.raises(AlignmentInputError, match="unknown ITG sampler 'best'"):
        make_kernel((((0,), (0,)),), "best")
