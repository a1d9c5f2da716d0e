"""Kernels and twin walk the same trajectory from the same seeds: equal states after every sweep.

The proofs about the twin in `test_exact_invariance` thereby hold for the kernels.
"""

from collections.abc import Sequence

import numpy as np
import pytest
from tests.reference import corpus, examples
from tests.reference.corpus import Corpus, Joint
from tests.reference.forest import Forest, direct_forest
from tests.reference.gibbs import NO_DENSITY
from tests.reference.models import Dirichlet, Model, PitmanYor, RuleCounts
from tests.reference.streams import Stream
from tests.samplers.synchronous.kernel_chain import KernelChain

from hierogram.samplers.compiled.streams import advance, stream, uniform
from hierogram.samplers.grammar.schedules import EVERY_LEVEL
from hierogram.samplers.synchronous.sweeps import Blocks, sweep_pairs
from hierogram.tools.lab.baselines.metropolis import propose_pairs

PAPER = PitmanYor(discount=0.5, strength=5.0, rate=2.0)
MODELS: dict[str, Model] = {
    "PY": PAPER,
    "PY, high discount": PitmanYor(discount=0.9, strength=0.5, rate=4.0),
    "PY without discount": PitmanYor(discount=0.0, strength=5.0, rate=2.0),
    "DP": Dirichlet(strength=100.0, source_words=30, target_words=40),
    "weak DP": Dirichlet(strength=0.5, source_words=7, target_words=2),
}


def random_forests(seed: int, count: int = 10, longest: int = 8, words: str = "abc") -> list[Forest]:
    """Return forests of random pairs over so few words that the pairs share rules."""
    return [direct_forest(*pair) for pair in examples.random_pairs(seed, count, longest, words)]


class Walk:
    """The kernels' chain and the twin's, side by side."""

    def __init__(self, kernel: KernelChain, model: Model) -> None:
        self.kernel = kernel
        self.model = model
        self.twin = Corpus(kernel.forests)
        self.seen: set[Joint] = set()
        self.state = self.twin.start(kernel.seed)
        self.compare(self.state)

    def compare(self, state: Joint) -> None:
        """Store the twin's new state and check that the kernels have the same."""
        assert self.kernel.variables() == state, f"after {self.kernel.sweeps} sweeps"
        self.state = state
        self.seen.add(state)

    def compare_likelihoods(self) -> None:
        expected = self.model.log_likelihood(RuleCounts(self.twin.rules(self.state)))
        assert self.kernel.log_likelihood() == pytest.approx(expected, rel=1e-9)

    def gibbs(self, stages: Sequence[int], span_limit: int) -> None:
        """Run one Gibbs sweep at each stage with the kernels and the twin, and compare their states."""
        for number, stage in enumerate(stages, start=1):
            mover = corpus.gibbs(
                self.model, stage=stage, span_limit=span_limit, avoid_current=self.kernel.avoid_current
            )
            self.kernel.sweep(stage)
            self.compare(self.twin.sweep(self.state, mover, self.kernel.seed, number))
            if number % 10 == 0:
                self.compare_likelihoods()


@pytest.mark.slow
@pytest.mark.parametrize("avoid_current", [False, True])
@pytest.mark.parametrize("span_limit", [0, 3])
@pytest.mark.parametrize("model", MODELS)
def test_gibbs_sweeps_equal_sweeps_of_the_twin(model: str, span_limit: int, avoid_current: bool) -> None:
    forests = random_forests(seed=21 + span_limit)
    walk = Walk(
        KernelChain(forests, MODELS[model], seed=7, span_limit=span_limit, avoid_current=avoid_current), MODELS[model]
    )
    walk.gibbs([EVERY_LEVEL] * 50, span_limit)
    assert len(walk.seen) > 40


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("model", MODELS)
def test_gibbs_sweeps_over_pairs_of_up_to_14_words_equal_sweeps_of_the_twin(model: str, seed: int) -> None:
    forests = random_forests(seed=100 + seed, count=12, longest=14, words="abcd")
    walk = Walk(KernelChain(forests, MODELS[model], seed=seed, span_limit=7), MODELS[model])
    walk.gibbs([EVERY_LEVEL] * 100, span_limit=7)


@pytest.mark.parametrize("avoid_current", [False, True])
def test_gibbs_sweeps_through_every_stage_equal_sweeps_of_the_twin(avoid_current: bool) -> None:
    forests = random_forests(seed=23, longest=7)
    assert max(f.nodes[-1].level for f in forests) > 7
    walk = Walk(KernelChain(forests, PAPER, seed=8, span_limit=4, avoid_current=avoid_current), PAPER)
    walk.gibbs([1 + s // 10 for s in range(70)] + [EVERY_LEVEL] * 30, span_limit=4)


def test_gibbs_sweeps_with_pairs_at_different_stages_equal_sweeps_of_the_twin() -> None:
    forests = random_forests(seed=27, count=6)
    kernel = KernelChain(forests, PAPER, seed=3)
    walk = Walk(kernel, PAPER)
    for number in range(1, 121):
        # Pair p joins after 10 p sweeps and pauses sometimes.
        stages = [0 if number <= 10 * p or (number + p) % 7 == 0 else 1 + number // 10 for p in range(6)]
        kernel.sweep_at(np.array(stages, np.int16))
        state = walk.state
        for p, stage in enumerate(stages):
            if stage > 0:
                own_number = int(kernel.sweeps[p])
                state = walk.twin.resample(state, p, corpus.gibbs(PAPER, stage=stage), 3, own_number)
        walk.compare(state)
    walk.compare_likelihoods()
    assert kernel.sweeps[5] < kernel.sweeps[0] < 120


@pytest.mark.slow
@pytest.mark.parametrize("avoid_current", [False, True])
@pytest.mark.parametrize("blocks", [None, Blocks(1, 1)])
@pytest.mark.parametrize("model", MODELS)
def test_gibbs_sweeps_at_different_temperatures_equal_sweeps_of_the_twin(
    model: str, blocks: Blocks | None, avoid_current: bool
) -> None:
    forests = random_forests(seed=33, count=6)
    kernel = KernelChain(forests, MODELS[model], seed=5, span_limit=3, blocks=blocks, avoid_current=avoid_current)
    walk = Walk(kernel, MODELS[model])
    stages = np.full(6, EVERY_LEVEL, np.int16)
    for number in range(1, 46):
        # Pair 0 stays at T = 1. The other pairs cool down, each more slowly than the previous one. Only the last pair
        # ends below T = 1.
        temperatures = [1.0, *(max(0.5 if p == 5 else 1.0, 6.0 - number / (1.6 * p)) for p in range(1, 6))]
        kernel.sweep_at(stages, 1.0 / np.array(temperatures))
        state = walk.state
        for p, temperature in enumerate(temperatures):
            mover = corpus.gibbs(MODELS[model], span_limit=3, temperature=temperature, avoid_current=avoid_current)
            state = walk.twin.resample(state, p, mover, 5, number)
        walk.compare(state)
    assert temperatures[5] == 0.5
    assert len(walk.seen) > 35


def test_gibbs_sweeps_without_the_density_factor_equal_sweeps_of_the_twin() -> None:
    forests = random_forests(seed=35)
    walk = Walk(KernelChain(forests, PAPER, seed=2, span_limit=3), PAPER)
    every = np.full(len(forests), EVERY_LEVEL, np.int16)
    for number in range(1, 41):
        walk.kernel.sweep_at(every, density=False)
        mover = corpus.gibbs(PAPER, span_limit=3, mutant=NO_DENSITY)
        walk.compare(walk.twin.sweep(walk.state, mover, 2, number))
    assert len(walk.seen) > 30


@pytest.mark.parametrize("span_limit", [0, 3])
@pytest.mark.parametrize("model", MODELS)
def test_metropolis_sweeps_equal_sweeps_of_the_twin(model: str, span_limit: int) -> None:
    forests = random_forests(seed=25, longest=6)
    kernel = KernelChain(forests, MODELS[model], seed=9, span_limit=span_limit, resample=propose_pairs)
    walk = Walk(kernel, MODELS[model])
    accepted = 0
    for number in range(1, 51):
        info = kernel.sweep()
        mover = corpus.metropolis(MODELS[model], span_limit=span_limit)
        walk.compare(walk.twin.sweep(walk.state, mover, 9, number))
        assert info.edges_sampled == len(forests)
        accepted += info.edges_changed
    walk.compare_likelihoods()
    assert 0.05 < accepted / (50 * len(forests)) < 0.95


@pytest.mark.slow
@pytest.mark.parametrize("model", ["PY", "DP", "weak DP"])
@pytest.mark.parametrize("method", ["gibbs", "metropolis"])
@pytest.mark.parametrize(("pairs_per_block", "blocks_per_round"), [(1, 3), (3, 2), (4, 8)])
def test_sweeps_in_blocks_equal_sweeps_of_the_twin(
    pairs_per_block: int, blocks_per_round: int, method: str, model: str
) -> None:
    forests = random_forests(seed=29)
    blocks = Blocks(pairs_per_block, blocks_per_round)
    if method == "gibbs":
        kernel = KernelChain(forests, MODELS[model], seed=4, blocks=blocks)
        mover = corpus.gibbs(MODELS[model])
    else:
        kernel = KernelChain(forests, MODELS[model], seed=4, blocks=blocks, resample=propose_pairs)
        mover = corpus.metropolis(MODELS[model])
    walk = Walk(kernel, MODELS[model])
    for number in range(1, 61):
        kernel.sweep()
        walk.compare(
            walk.twin.sweep_in_blocks(
                walk.state, mover, 4, number, pairs_per_block=pairs_per_block, blocks_per_round=blocks_per_round
            )
        )
    walk.compare_likelihoods()


@pytest.mark.parametrize("blocks", [Blocks(pairs_per_block=10, blocks_per_round=1), Blocks(1, 1)])
def test_rounds_of_one_block_equal_sequential_sweeps(blocks: Blocks) -> None:
    forests = random_forests(seed=31)
    sequential = KernelChain(forests, PAPER, seed=5)
    in_blocks = KernelChain(forests, PAPER, seed=5, blocks=blocks)
    for _ in range(50):
        sequential.sweep()
        in_blocks.sweep()
        assert in_blocks.variables() == sequential.variables()
    assert in_blocks.log_likelihood() == sequential.log_likelihood()


def long_rules(words: int) -> list[Forest]:
    """Return pairs with `words` unlinked words. Each word occurs twice, and every rule with these words is long."""
    unlinked = " ".join(f"u{k}" for k in range(words // 2))
    return [
        examples.pair(f"a {unlinked} b {unlinked} c", "A B C", f"0-0 {words // 2 + 1}-1 {2 * (words // 2) + 2}-2"),
        examples.pair(f"a {unlinked} b {unlinked} d", "A B D", f"0-0 {words // 2 + 1}-1 {2 * (words // 2) + 2}-2"),
    ] * 3


@pytest.mark.parametrize("method", ["gibbs", "metropolis"])
@pytest.mark.parametrize("model", ["PY", "PY, high discount", "DP"])
def test_sweeps_over_long_rules_equal_sweeps_of_the_twin(model: str, method: str) -> None:
    forests = long_rules(160)
    resample = sweep_pairs if method == "gibbs" else propose_pairs
    walk = Walk(KernelChain(forests, MODELS[model], seed=6, resample=resample), MODELS[model])
    assert walk.kernel.model.long < 160
    mover = corpus.gibbs(MODELS[model]) if method == "gibbs" else corpus.metropolis(MODELS[model])
    for number in range(1, 61):
        walk.kernel.sweep()
        walk.compare(walk.twin.sweep(walk.state, mover, 6, number))
    walk.compare_likelihoods()
    assert len(walk.seen) > 5


@pytest.mark.slow
@pytest.mark.parametrize("avoid_current", [False, True])
def test_a_sweep_over_a_huge_forest_equals_the_sweep_of_the_twin(avoid_current: bool) -> None:
    """Density factors and products of options exceed the range of one float."""
    monotone = examples.pair(" ".join(f"f{k % 7}" for k in range(80)), " ".join(f"e{k % 7}" for k in range(80)))
    walk = Walk(KernelChain([monotone], PAPER, seed=2, span_limit=0, avoid_current=avoid_current), PAPER)
    walk.gibbs([EVERY_LEVEL], 0)
    assert len(walk.seen) == 2
    exponents = walk.kernel.kernel.workers[0].summary["options_exponent"]
    assert exponents.max() > 0


@pytest.mark.parametrize("key", [(0, 0, 0), (1, 0, 1), (1, 1, 0), (2**40, 12345678901, 7), (2**63 - 1, 3, 2**33)])
def test_random_streams_equal_the_streams_of_the_twin(key: tuple[int, int, int]) -> None:
    twin = Stream(*key)
    state = np.uint64(stream(*key))
    assert int(state) == twin.state
    for _ in range(100):
        state = np.uint64(advance(state))
        assert uniform(state) == twin.uniform()
