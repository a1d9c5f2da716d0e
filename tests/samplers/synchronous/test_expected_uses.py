"""Expected uses are unbiased, equal the twin's draw for draw, and vary less than counts of draws."""

from collections import Counter
from collections.abc import Hashable

import numpy as np
import pytest
from tests.reference import corpus, examples, gibbs
from tests.reference.averages import Average
from tests.reference.corpus import Corpus
from tests.reference.enumeration import conditional, posterior, spread, tree_rules
from tests.reference.forest import Forest, direct_forest
from tests.reference.gibbs import EVERY_LEVEL, Sweep
from tests.reference.models import Dirichlet, Model, PitmanYor, RuleCounts
from tests.reference.rules import Rule, list_rules
from tests.reference.streams import Stream
from tests.samplers.synchronous.averaged_chain import AveragedChain

from hierogram.samplers.forests.averages import SWEEPS_PER_PRUNING
from hierogram.samplers.forests.records import list_fragments, read_averages, write_averages
from hierogram.samplers.grammar.numbers import MAX_SWEEPS, ONE_USE, SHARED_PERIOD
from hierogram.tools.lab.baselines.metropolis import propose_pairs

EXACT = 1e-10
CLEAR = 0.01
"""Error in uses that the expectation of a mutant must exceed."""
UNPRUNED = SWEEPS_PER_PRUNING - 1
"""Maximum number of sweeps after which averages still have every credited rule."""
CASES: dict[str, tuple[list[Forest], int]] = {
    "bushy": ([examples.FOUR], 1),
    "some cuts forced": ([examples.WIDE], 2),
    "blocks": ([examples.BLOCKS], 2),
    "unaligned words": ([examples.UNALIGNED], 0),
    "repeats within and between": ([examples.TWICE_APART, examples.TWICE], 0),
    "three pairs, one ambiguous": ([examples.COUPLE, examples.THREE, examples.SINGLE], 0),
}
MODELS: dict[str, Model] = {
    "DP": Dirichlet(strength=1.0, source_words=4, target_words=5),
    "weak DP": Dirichlet(strength=0.1, source_words=2, target_words=2),
    "PY without discount": PitmanYor(discount=0.0, strength=1.5, rate=2.0),
}
DP = Dirichlet(strength=1.0, source_words=4, target_words=5)


def wrong_by(forests: list[Forest], model: Model, span_limit: int, mutant: str | None = None) -> float:
    """Return the largest error of the expected credits of a pair given the other pairs."""
    worst = 0.0
    joint = posterior(forests, model, span_limit)
    for p, forest in enumerate(forests):
        others = [*forests[:p], *forests[p + 1 :]]
        for given, trees in conditional(joint, p).items():
            exact: Counter[Rule] = Counter()
            for tree, probability in trees.items():
                for rule in tree_rules(forest, tree):
                    exact[rule] += probability
            rules = RuleCounts(r for f, t in zip(others, given, strict=True) for r in tree_rules(f, t))
            sweep = Sweep(forest, model, rules, EVERY_LEVEL, span_limit)
            found = gibbs.expected_credits(sweep, spread(forest, trees, span_limit), mutant)
            worst = max(worst, *(abs(found.get(rule, 0.0) - exact[rule]) for rule in found.keys() | exact.keys()))
    return worst


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", CASES)
def test_expected_credits_equal_the_exact_expected_uses(name: str, model: str) -> None:
    forests, limit = CASES[name]
    assert wrong_by(forests, MODELS[model], limit) < EXACT


@pytest.mark.parametrize("mutant", gibbs.CREDIT_MUTANTS)
def test_mutants_of_credits_have_wrong_expectations(mutant: str) -> None:
    assert any(wrong_by(forests, DP, limit, mutant) > CLEAR for forests, limit in CASES.values())


@pytest.mark.parametrize("avoid_current", [False, True])
@pytest.mark.parametrize("span_limit", [0, 3])
@pytest.mark.parametrize(
    "model", [PitmanYor(discount=0.5, strength=5.0, rate=2.0), Dirichlet(strength=5.0, source_words=7, target_words=9)]
)
def test_the_kernel_credits_the_same_uses_as_its_twin(model: Model, span_limit: int, avoid_current: bool) -> None:
    forests = [direct_forest(*pair) for pair in examples.random_pairs(40 + span_limit, 8, 5, "abc")]
    kernel = AveragedChain(forests, model, seed=5, span_limit=span_limit, avoid_current=avoid_current)
    twin = Corpus(forests)
    joint = twin.start(kernel.seed)
    mover = corpus.gibbs(model, span_limit=span_limit, avoid_current=avoid_current)
    credits: Counter[Rule] = Counter()
    for number in range(1, 9):
        kernel.average()
        for p, forest in enumerate(forests):
            sweep = mover(forest, RuleCounts(twin.rules(joint, without=p)))
            assert isinstance(sweep, Sweep)
            variables, found = gibbs.sample_credits(sweep, joint[p], Stream(kernel.seed, p, number))
            joint = corpus.with_variables(joint, p, variables)
            credits.update(found)
    assert kernel.variables() == joint
    assert kernel.uses() == Counter({rule: uses for rule, uses in credits.items() if uses})


@pytest.mark.parametrize("slots", [5, 9, 200])
def test_rules_kept_in_averages_match_the_twin(slots: int) -> None:
    model = PitmanYor(discount=0.5, strength=5.0, rate=2.0)
    forests = [direct_forest(*pair) for pair in examples.random_pairs(61, 4, 5, "abc")]
    kernel = AveragedChain(forests, model, seed=5)
    kernel.forget(np.full(len(forests), slots))
    # The same chain, restarted before it prunes, has an entry for each credited rule.
    every = AveragedChain(forests, model, seed=5)
    draws: list[Counter[Hashable]] = [Counter() for _ in forests]
    twins = [Average(slots, of_pair.__getitem__) for of_pair in draws]
    whole = Corpus(forests)
    joint = whole.start(kernel.seed)
    mover = corpus.gibbs(model)
    pruned = evicted = 0
    for number in range(1, 50):
        if number % (SWEEPS_PER_PRUNING - 1) == 0:
            every.forget()
        every.average()
        kernel.average()
        for p, forest in enumerate(forests):
            draws[p].update({rule: draw for rule, draw in every.marks(p, "draw").items() if rule not in draws[p]})
            sweep = mover(forest, RuleCounts(whole.rules(joint, without=p)))
            assert isinstance(sweep, Sweep)
            variables, found = gibbs.sample_credits(sweep, joint[p], Stream(kernel.seed, p, number))
            joint = corpus.with_variables(joint, p, variables)
            shared = {rule for rule, mark in kernel.marks(p, "shared").items() if mark}
            twins[p].sweep({rule: (uses, 1) for rule, uses in found.items()}, shared)
            assert twins[p].is_within_its_errors()
        for p, twin in enumerate(twins):
            assert kernel.kept(p) == {rule: (entry.uses, entry.missed) for rule, entry in twin.entries.items()}
            assert int(kernel.chain.averages.floor[p]) == twin.floor
            evicted += twin.floor > 0
            pruned += twin.floor == 0 and len(twin.entries) < len(twin.truth)
    assert pruned if slots > 100 else evicted


def test_rules_without_room_for_their_fragments_count_as_possibly_missed() -> None:
    forests = [direct_forest(*pair) for pair in examples.random_pairs(61, 4, 5, "abc")]
    whole, short = (AveragedChain(forests, DP, seed=5) for _ in range(2))
    for number in range(14):
        if number == 6:
            # From now on rules with an entry also lose uses.
            short.kernel.workers[0] = short.kernel.workers[0]._replace(fragments=np.zeros(4, np.uint8))
        whole.average()
        short.average()
    assert whole.variables() == short.variables()
    lost = of_entries = 0
    for p in range(len(forests)):
        kept, floor = short.kept(p), int(short.chain.averages.floor[p])
        for rule, (uses, missed) in whole.kept(p).items():
            assert missed == 0
            known, may_have_missed = kept.get(rule, (0, floor))
            assert known <= uses <= known + may_have_missed
            lost += known < uses
            of_entries += 0 < known < uses
    assert lost > of_entries > 0


def test_averages_count_all_uses_despite_random_rounding() -> None:
    forests = [direct_forest(*pair) for pair in examples.random_pairs(62, 60, 7, "abcdefgh")]
    kernel, every = (AveragedChain(forests, DP, seed=2) for _ in range(2))
    total = 0
    for number in range(1, 201):
        kernel.average()
        if number % (SWEEPS_PER_PRUNING - 1) == 0:
            every.forget()
        before = every.uses().total()
        every.average()
        total += every.uses().total() - before
    fragments = list_fragments(write_averages(kernel.chain.averages))
    rounded = fragments.weights < ONE_USE // 2
    assert rounded.mean() > 0.5
    assert fragments.weights.sum() == pytest.approx(total / 200, rel=0.04)


def exact_uses(forests: list[Forest], model: Model, span_limit: int) -> Counter[Rule]:
    """Return the expected uses of each rule in all pairs, by enumeration."""
    found: Counter[Rule] = Counter()
    for joint, p in posterior(forests, model, span_limit).items():
        for forest, tree in zip(forests, joint, strict=True):
            for rule in tree_rules(forest, tree):
                found[rule] += p
    return found


def check_long_averages(name: str, avoid_current: bool, rounds: int, noise: float) -> None:
    """Check that averages over several rounds of sweeps agree with the enumeration."""
    forests, limit = CASES[name]
    exact = exact_uses(forests, DP, limit)
    kernel = AveragedChain(forests, DP, seed=3, span_limit=limit, avoid_current=avoid_current)
    found: Counter[Rule] = Counter()
    sweeps = 0
    for _ in range(rounds):
        kernel.forget()
        for _ in range(MAX_SWEEPS - 1):
            kernel.average()
        sweeps += MAX_SWEEPS - 1
        found.update(kernel.uses())
    for rule in found.keys() | exact.keys():
        mean = found[rule] / ONE_USE / sweeps
        # A pair may have forgotten a rule with less than a quarter of a use.
        assert exact[rule] - len(forests) / 4 - noise < mean < exact[rule] + noise
        if len(forests) == 1 and exact[rule] > 0.3:
            assert mean == pytest.approx(exact[rule], abs=noise)
    assert max(exact.values()) > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("avoid_current", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_long_averages_match_the_exact_expectations(name: str, avoid_current: bool) -> None:
    check_long_averages(name, avoid_current, rounds=4, noise=0.06)


@pytest.mark.campaign
@pytest.mark.parametrize("avoid_current", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_averages_of_many_rounds_match_the_exact_expectations(name: str, avoid_current: bool) -> None:
    check_long_averages(name, avoid_current, rounds=36, noise=0.02)


def test_a_rule_stays_shared_if_it_was_used_twice_in_a_recent_sweep() -> None:
    kernel = AveragedChain([examples.THREE, examples.COUPLE, examples.COUPLE], DP, seed=3)
    entry = kernel.chain.averages.entry
    shared = np.zeros(len(entry), np.bool_)
    alone_again = 0
    for _ in range(15):
        kernel.average()
        now = entry["shared"] != 0
        assert (now | ~shared).all()
        twice = {rule for rule, uses in Counter(rules_in(kernel)).items() if uses > 1}
        alone_again += int(shared.sum()) > len(twice)
        shared |= now
    assert alone_again


def test_a_rule_without_other_users_is_no_longer_shared() -> None:
    # No rule of the pair is used twice. The rules are marked as shared, as if a removed pair had used them.
    kernel = AveragedChain([examples.COUPLE], DP, seed=3)
    kernel.average()
    averages = kernel.chain.averages
    known = slice(0, int(averages.entry_counts[0]))
    averages.entry["shared"][known] = 1
    for number in range(2, 2 * SHARED_PERIOD + 2):
        kernel.average()
        left = 1 if number < SHARED_PERIOD else 2 if number < 2 * SHARED_PERIOD else 0
        assert set(kernel.chain.averages.entry["shared"][known].tolist()) == {left}
        again = read_averages(kernel.batch, write_averages(kernel.chain.averages))
        assert set(again.entry["shared"][known].tolist()) == {left}


def rules_in(kernel: AveragedChain) -> list[Rule]:
    return [r for f, v in zip(kernel.forests, kernel.variables(), strict=True) for r in list_rules(f, v)]


def test_metropolis_hastings_counts_the_rules_of_its_derivations() -> None:
    kernel = AveragedChain([examples.THREE, examples.COUPLE], DP, seed=3, resample=propose_pairs)
    drawn: Counter[Rule] = Counter()
    for _ in range(15):
        kernel.average()
        drawn.update(rules_in(kernel))
    assert kernel.uses() == Counter({rule: uses * ONE_USE for rule, uses in drawn.items()})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bushy", "some cuts forced", "blocks"])
def test_avoiding_draws_reduce_the_errors_of_averages(name: str) -> None:
    forests, limit = CASES[name]
    exact = exact_uses(forests, DP, limit)
    mean = {}
    for avoid_current in (False, True):
        kernel = AveragedChain(forests, DP, seed=13, span_limit=limit, avoid_current=avoid_current)
        errors = []
        for _ in range(400):
            kernel.forget()
            for _ in range(UNPRUNED):
                kernel.average()
            errors.append(squared_error(kernel.uses(), 1 / (ONE_USE * UNPRUNED), exact))
        mean[avoid_current] = float(np.mean(errors))
    assert mean[True] < 0.8 * mean[False], mean


def squared_error(found: Counter[Rule], scale: float, exact: Counter[Rule]) -> float:
    return sum((found[rule] * scale - exact[rule]) ** 2 for rule in found.keys() | exact.keys())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bushy", "repeats within and between", "three pairs, one ambiguous"])
def test_averages_have_smaller_errors_than_counts_of_draws_at_equal_time(name: str) -> None:
    forests, limit = CASES[name]
    exact = exact_uses(forests, DP, limit)
    kernel = AveragedChain(forests, DP, seed=11, span_limit=limit)
    errors: dict[str, list[float]] = {"averaged": [], "every draw": [], "eight draws": []}
    averaged, more = UNPRUNED, 18
    for _ in range(300):
        kernel.forget()
        draws: list[Counter[Rule]] = []
        for number in range(more):
            kernel.average()
            draws.append(Counter(r for f, v in zip(forests, kernel.variables(), strict=True) for r in list_rules(f, v)))
            if number + 1 == averaged:
                errors["averaged"].append(squared_error(kernel.uses(), 1 / (ONE_USE * averaged), exact))
        everything: Counter[Rule] = sum(draws, Counter())
        thinned: Counter[Rule] = sum(draws[2::2][:8], Counter())
        errors["every draw"].append(squared_error(everything, 1 / more, exact))
        errors["eight draws"].append(squared_error(thinned, 1 / 8, exact))
    mean = {kind: float(np.mean(values)) for kind, values in errors.items()}
    # Averaging takes an eighth more time than sampling alone. Sampling alone gets a fifth more sweeps.
    assert mean["averaged"] < mean["eight draws"], mean
    # Three pairs that depend on each other mix so slowly that averaging hardly reduces the error.
    if len(forests) < 3:
        assert mean["averaged"] < 0.95 * mean["every draw"], mean
        assert mean["averaged"] < 0.5 * mean["eight draws"], mean
