"""The ITG kernels compared with their twins draw for draw."""

from random import Random

import numpy as np
import pytest
from tests.reference.itg.samplers import (
    TARGET_NULL,
    Corpus,
    Counts,
    Tree,
    count,
    derivations,
    exhaustive_visit,
    flat_visit,
    joint,
    local_visit,
    slice_visit,
    to_string,
)
from tests.samplers.itg.corpora import Pairs, make_kernel, to_corpus, to_derivations, to_trees

from hierogram.samplers.itg.sampler import ItgPlan
from hierogram.tools.lab.baselines.itg import EXHAUSTIVE, FLAT, GIBBS, METHODS, SLICE


def random_pairs(random: Random, pairs: int = 3, longest: int = 3) -> Pairs:
    """Return short pairs of few words. Some sides are empty."""

    def side() -> tuple[int, ...]:
        return tuple(random.randrange(3) for _ in range(random.choice(range(longest + 1))))

    found = []
    while len(found) < pairs:
        pair = side(), side()
        if any(pair):
            found.append(pair)
    return tuple(found)


def sweep_of_twin(
    corpus: Corpus, trees: tuple[Tree, ...], method: str, shape: float, key: tuple[int, int]
) -> tuple[tuple[Tree, ...], int]:
    counts = Counts()
    for pair, tree in enumerate(trees):
        count(corpus, counts, pair, tree, 1)
    now = list(trees)
    accepted = 0
    for pair in range(len(now)):
        if method == GIBBS:
            now[pair], moves = local_visit(corpus, counts, pair, now[pair], key)
            accepted += moves
            continue
        count(corpus, counts, pair, now[pair], -1)
        if method == SLICE:
            now[pair] = slice_visit(corpus, counts, pair, now[pair], shape, key)
        elif method == FLAT:
            now[pair] = flat_visit(corpus, counts, pair, now[pair], shape, key)
        else:
            now[pair] = exhaustive_visit(corpus, counts, pair, now[pair], key)
        count(corpus, counts, pair, now[pair], 1)
    return tuple(now), accepted


@pytest.mark.slow
@pytest.mark.parametrize("longest", [1, 2, 3])
@pytest.mark.parametrize("method", METHODS)
def test_the_kernels_and_their_twins_draw_the_same_derivations(method: str, longest: int) -> None:
    changes = phrases = 0
    for trial in range(40 if longest == 1 else 20):
        random = Random(trial)
        pairs = random_pairs(random)
        if trial % 2:
            # Random pairs are often too short for many links. Half of the trials have three words on each side.
            pairs = tuple(((0, 1, 2), tuple(random.sample(range(3), 3))) for _ in range(3))
        shape = random.choice([0.1, 0.15, 0.25, 1.0])
        trees = tuple(random.choice(derivations(len(f), len(e), longest)) for f, e in pairs)
        kernel = make_kernel(pairs, method, shape, strength=random.choice([0.01, 0.3, 1.0, 5.0]), longest=longest)
        state = kernel.resume(to_derivations(kernel.batch, trees))
        for number in range(1, 7):
            corpus = to_corpus(pairs, kernel, state)
            assert kernel.log_likelihood(state) == pytest.approx(joint(corpus, trees))
            expected, accepted = sweep_of_twin(corpus, trees, method, shape, (trial, number))
            state, info = kernel.step(trial, state, ItgPlan(number, np.full(len(pairs), number)))
            assert to_trees(state) == expected
            if method == GIBBS:
                assert info.accepted == accepted
            changes += trees != expected
            trees = expected
            phrases += sum(rule > TARGET_NULL for tree in trees for rule in to_string(tree))
    assert changes > (30 if longest == 1 else 15)
    assert (phrases > 30) == (longest > 1)


def test_pairs_outside_the_sweep_are_unchanged_and_counted() -> None:
    pairs = (((0, 1), (1, 0)), ((0, 1), (1, 0)))
    kernel = make_kernel(pairs, EXHAUSTIVE, strength=50.0)
    state = kernel.init(3, "lb")
    before = to_trees(state)
    seen = set()
    for number in range(1, 20):
        state, _ = kernel.step(1, state, ItgPlan(number, np.array([number, 0])))
        assert to_trees(state)[1] == before[1]
        seen.add(to_trees(state)[0])
    assert len(seen) > 1
    assert state.counts.rules.sum() == sum(state.derivations.length)
