"""The compiled type-based moves equal the twin's, and switch between modes that single cuts rarely leave."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.reference import examples
from tests.reference.forest import Forest, direct_forest
from tests.reference.models import Dirichlet, Model, RuleCounts
from tests.reference.moves.type_moves import TypeMoves
from tests.samplers.synchronous.kernel_chain import SALT, KernelChain

from hierogram.samplers.counts.table import fill_table
from hierogram.samplers.grammar.keys import pack_size, rule_key
from hierogram.samplers.grammar.rules import Rule
from hierogram.samplers.synchronous.type_moves import TypeSampler

MODELS: dict[str, Model] = {
    "DP": Dirichlet(strength=1.0, source_words=4, target_words=5),
    "balanced DP": Dirichlet(strength=5.0, source_words=2, target_words=2),
}
RANDOM = [direct_forest(*pair) for pair in examples.random_pairs(41, 8, 5, "ab")]
CORPORA: dict[str, Sequence[Forest]] = {
    "random pairs, each twice": RANDOM * 2,
    "equal pairs": [examples.THREE] * 4 + [examples.COUPLE] * 3,
    "ladders": [examples.ladder(n) for n in (9, 4, 5, 4)],
}


@pytest.mark.parametrize("span_limit", [0, 3])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", CORPORA)
def test_type_moves_between_sweeps_equal_the_type_moves_of_the_twin(name: str, model: str, span_limit: int) -> None:
    forests = CORPORA[name]
    kernel = KernelChain(forests, MODELS[model], seed=3, span_limit=span_limit)
    sampler = TypeSampler(kernel.model, kernel.batch)
    twin = TypeMoves(forests, MODELS[model], span_limit)
    changed = 0
    for number in range(1, 9):
        kernel.sweep()
        joint = twin.step(kernel.variables(), 3, number, 12)
        before = kernel.state.cut.copy()
        kernel.chain = sampler.step(3, kernel.chain, number, 12)
        changed += (kernel.state.cut != before).sum()
        assert kernel.variables() == joint
        expected = MODELS[model].log_likelihood(RuleCounts(twin.rules(joint)))
        assert kernel.log_likelihood() == pytest.approx(expected, rel=1e-9)
    assert changed > 0


PAIRS = 50
OUTSIDE = 1_500
"""Uses of the lower rule outside the pairs."""
PLANTED = Dirichlet(strength=0.2, source_words=2, target_words=2)


def planted_chain() -> KernelChain:
    """Return a chain of fifty equal pairs with two modes of similar weight: most cuts joined, or most split."""
    kernel = KernelChain([examples.ladder(2)] * PAIRS, PLANTED, seed=5)
    high, low = rule_key(Rule(("a",), ("A",)), SALT)
    one = np.ones(1, np.int64)
    table = fill_table(
        kernel.table, kernel.model, np.array([[high, low]], np.uint64), OUTSIDE * one, pack_size(2 * one, one, one)
    )
    kernel.chain = kernel.chain._replace(table=table)
    return kernel


def most_are_split(kernel: KernelChain) -> bool:
    return float(kernel.state.cut[kernel.batch.forests.node["free"] == 1].mean()) > 0.5


def weight_of_split() -> float:
    """Return the exact posterior probability that more than half of the pairs are split. Asserts that intermediate
    states are unlikely.
    """
    joined, upper, lower = (PLANTED.strength * 2.0**-words for words in (4, 2, 2))
    split = np.arange(PAIRS + 1)

    def rising(start: float, most: int = PAIRS) -> NDArray[np.float64]:
        return np.concatenate(([0.0], np.cumsum(np.log(start + np.arange(most)))))

    choices = rising(1.0)
    logs = choices[PAIRS] - choices[split] - choices[PAIRS - split] + rising(joined)[PAIRS - split]
    logs += rising(upper)[split] + rising(lower + OUTSIDE)[split]
    logs -= rising(PLANTED.strength + OUTSIDE, 2 * PAIRS)[PAIRS + split]
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    assert weights[8:43].sum() < 0.05
    return float(weights[PAIRS // 2 + 1 :].sum())


def test_type_moves_visit_two_planted_modes_with_the_correct_weights() -> None:
    kernel = planted_chain()
    sampler = TypeSampler(kernel.model, kernel.batch)
    modes = []
    for number in range(1, 401):
        kernel.sweep()
        kernel.chain = sampler.step(5, kernel.chain, number, 1)
        modes.append(most_are_split(kernel))
    switches = np.flatnonzero(np.diff(np.array(modes, np.int8)))
    assert len(switches) > 50
    assert np.diff(np.concatenate(([0], switches, [len(modes)]))).max() < 100
    assert np.mean(modes) == pytest.approx(weight_of_split(), abs=0.1)


def test_single_cuts_rarely_switch_between_modes() -> None:
    kernel = planted_chain()
    modes = []
    for _ in range(400):
        kernel.sweep()
        modes.append(most_are_split(kernel))
    assert np.abs(np.diff(np.array(modes, np.int8))).sum() < 5
