"""The sampler of tree fragments is exact: the twin by enumeration, the kernels draw for draw."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import exp, log

import numpy as np
import pytest
from scipy.special import kolmogorov
from tests.reference.enumeration import total_variation
from tests.reference.tree_grammar import (
    MUTANTS,
    NO_STOPS,
    Grammar,
    Joint,
    Treebank,
    base_of_treebank,
    list_fragments,
    write,
)
from tests.samplers.trees.chains import EXPANDED, STRENGTH, chain, set_priors, step, to_joint

from hierogram.daemon.learning.kinds.trees import Prior, TreeChain
from hierogram.samplers.compiled.streams import draw_tables, stream
from hierogram.samplers.counts.chain import CountsError
from hierogram.samplers.counts.table import empty_table
from hierogram.samplers.grammar.brackets import read_parse
from hierogram.samplers.grammar.settings import STARTS
from hierogram.samplers.trees.models import label_processes
from hierogram.samplers.trees.sampler import TreePlan
from hierogram.tools.lab.measures.treebanks import count_fragments

PAIR = ["(S (A a) (A a))", "(S (A a) (B (A a) b))"]
NESTED = ["(A (A (A a) (A a)) (A a))"]
FOREST = ["(S (| #1=(A a) #2=(A (A b) (B a))) (| (B (#1) (A b)) (B a)) (| (#1) b (A a)))", "(S (A a) (A b))"]
SMALL = {"two trees": PAIR, "a repeated fragment": NESTED, "a forest and a tree": FOREST}
BASES = ("uniform", "pcfg")

TREES = [
    "(S (A a) (B (A b) (A a)))",
    "(S (A (A a) (B b)) (B (A b) (A a)))",
    "(S (| #1=(A a) #2=(A (A b) (B a))) (| (B (#1) (A b)) (B a)) (| (#1) b (A a)))",
    "(S (B (S (A a) (B (A b) (A a)))) (A b))",
    "(S (| (A (A a) b)) (| (A a) (B b)))",
    "(A (A (A (A a))))",
]


def treebank(texts: Sequence[str], base: str, mutant: str | None = None) -> Treebank:
    parses = [read_parse(text) for text in texts]
    return Treebank(parses, Grammar(base_of_treebank(base, parses), STRENGTH, EXPANDED, mutant), mutant)


def ks_p_value(drawn: Sequence[float], cdf: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return the asymptotic p-value of a Kolmogorov-Smirnov test. Importing scipy.stats would take a second."""
    expected, steps = cdf(np.sort(drawn)), np.arange(len(drawn) + 1) / len(drawn)
    distance = max((steps[1:] - expected).max(), (expected - steps[:-1]).max())
    return float(kolmogorov(distance * np.sqrt(len(drawn))))


def moves(twin: Treebank, exact: dict[Joint, float]) -> Iterator[float]:
    """Yield, for each node, the total variation between the distributions before and after its draws."""
    for p, parse in enumerate(twin.parses):
        for v in range(len(parse.nodes)):
            yield total_variation(exact, twin.push(exact, p, v))


@cache
def exact_posterior(texts: tuple[str, ...]) -> dict[Joint, float]:
    return treebank(texts, "pcfg").posterior()


@pytest.mark.slow
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("name", SMALL)
def test_every_draw_leaves_the_posterior_invariant(name: str, base: str) -> None:
    twin = treebank(SMALL[name], base)
    assert max(moves(twin, twin.posterior())) < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_changes_the_posterior(mutant: str) -> None:
    assert any(
        distance > 0.005
        for texts in SMALL.values()
        for distance in moves(treebank(texts, "pcfg", mutant), exact_posterior(tuple(texts)))
    )


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("start", STARTS)
def test_kernels_and_twin_draw_the_same_states(start: str, base: str) -> None:
    walk_together(chain(TREES, base, start, seed=4), treebank(TREES, base), 40)


def sweep_trees(kernels: TreeChain, key: int, plan: TreePlan) -> None:
    """Sweep with constant label parameters."""
    before = [values.copy() for values in kernels.state.labels]
    kernels.state, _ = kernels.kernel.step(key, kernels.state, plan)
    for values, constant in zip(kernels.state.labels, before, strict=True):
        values[:] = constant


def walk_together(kernels: TreeChain, twin: Treebank, sweeps: int) -> None:
    """Sweep kernels and twin from one state while cooling. States, final log-likelihood and fragments must be equal."""
    joint = to_joint(kernels)
    size = len(joint)
    names = list(range(1, size + 1))
    seen = {joint}
    for number in range(1, sweeps + 1):
        temperature = max(1.0, 3.0 - number / 10)
        plan = TreePlan(number, np.full(size, number), np.full(size, temperature))
        sweep_trees(kernels, 4, plan)
        joint = twin.sweep(joint, 4, names, number, temperature)
        assert to_joint(kernels) == joint, number
        seen.add(joint)
    assert len(seen) > 15
    counts = Counter(f for parse, v in zip(twin.parses, joint, strict=True) for f in list_fragments(parse, v))
    assert kernels.log_likelihood() == pytest.approx(twin.grammar.log_joint(counts), rel=1e-9)
    assert {f.fragment: f.uses for f in count_fragments(kernels)} == {write(f): n for f, n in counts.items()}


CHAINS = ["(A (A (A (A a))))"] * 4
"""In these trees, both parts of a cut fragment are often the same fragment."""


@pytest.mark.parametrize("base", BASES)
def test_kernels_and_twin_agree_if_two_parts_are_the_same_fragment(base: str) -> None:
    kernels = chain(CHAINS, base, "random", seed=8)
    twin = treebank(CHAINS, base)
    joint = to_joint(kernels)
    alike = 0
    for number in range(1, 301):
        plan = TreePlan(number, np.full(len(CHAINS), number), np.ones(len(CHAINS)))
        sweep_trees(kernels, 8, plan)
        joint = twin.sweep(joint, 8, range(1, len(CHAINS) + 1), number, 1.0)
        assert to_joint(kernels) == joint, number
        alike += any(max(Counter(list_fragments(p, v)).values()) > 1 for p, v in zip(twin.parses, joint, strict=True))
    assert alike > 10


def test_starts_cut_no_node_all_nodes_or_some() -> None:
    joined, cut, by_coin = (chain(TREES[:2], "pcfg", start, seed=1) for start in ("joined", "cut", "random"))
    assert [f.fragment for f in count_fragments(joined)] == sorted(TREES[:2], key=lambda text: text)
    assert all(f.fragment.count("(") == 1 + len(re.findall(r" \(\w+\)", f.fragment)) for f in count_fragments(cut))
    assert 0 < by_coin.state.derivations.cut.mean() < 1


def test_an_unknown_start_is_refused() -> None:
    with pytest.raises(ValueError, match="joined, cut, random"):
        chain(TREES, "pcfg", "whole", seed=1)


@pytest.mark.parametrize("parameters", [(0.0, 0.5), (1.0, 0.0), (1.0, 1.0)])
def test_label_parameters_out_of_range_are_refused(parameters: Prior) -> None:
    known = zip((1.0, 0.5), parameters, strict=True)
    with pytest.raises(ValueError, match=f"label 1 must have .* got {parameters[0]} and {parameters[1]}"):
        label_processes(*(np.array(column) for column in known))


def test_trees_without_counts_are_reported() -> None:
    kernels = chain(TREES, "pcfg", "random", seed=1)
    state = kernels.state._replace(table=empty_table(len(kernels.loaded.labels)))
    plan = TreePlan(1, np.ones(len(TREES), np.int64), np.ones(len(TREES)))
    with pytest.raises(CountsError, match=f"in trees 0 to {len(TREES) - 1} of the batch"):
        kernels.kernel.step(1, state, plan)


GROWN = ["(S (A a) (A (A a) (A b)))", "(S (A (A a) (A b)) (A b))", "(S (A (A (A a) (A b)) (A b)) (A a))"] * 3


def distribution(log_density: Callable[[float], float], low: float, high: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return the cumulative distribution of an unnormalized log density, by the trapezoidal rule."""
    grid = np.linspace(low, high, 4001)
    logs = np.array([log_density(float(x)) for x in grid])
    density = np.exp(logs - logs.max())
    cumulated = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2)))
    return lambda x: np.interp(x, grid, cumulated / cumulated[-1])


@pytest.fixture(scope="module")
def grown() -> TreeChain:
    return grown_under("uniform")


def grown_under(base: str) -> TreeChain:
    kernels = chain(GROWN, base, "random", seed=3)
    for number in range(1, 4):
        step(kernels, 3, number)
    set_priors(kernels, {label: (STRENGTH[label], EXPANDED[label]) for label in STRENGTH})
    return kernels


def to_twin(kernels: TreeChain, base: str = "uniform") -> tuple[Treebank, Counter[tuple[object, ...]]]:
    twin = treebank(GROWN, base)
    joint = to_joint(kernels)
    counts = Counter(f for parse, v in zip(twin.parses, joint, strict=True) for f in list_fragments(parse, v))
    assert max(counts.values()) > 3
    return twin, counts


def log_joint(twin: Treebank, counts: Counter[tuple[object, ...]], strength: float, expanded: float) -> float:
    grammar = Grammar(
        twin.grammar.expansion, {**STRENGTH, "A": strength}, {**EXPANDED, "A": expanded}, twin.grammar.mutant
    )
    return grammar.log_joint(counts)


@pytest.mark.slow
def test_strengths_are_drawn_from_their_conditional(grown: TreeChain) -> None:
    twin, counts = to_twin(grown)
    label = grown.loaded.labels.index("A")
    drawn = []
    for number in range(1, 15_001):
        grown.kernel.move_strengths(5, number, grown.state, grown.kernel.list_fragments(grown.state))
        if number % 30 == 0:
            drawn.append(float(grown.state.labels.log_strength[label]))

    def log_density(x: float) -> float:
        return 0.001 * x - exp(x) / 1000 + log_joint(twin, counts, exp(x), EXPANDED["A"])

    assert ks_p_value(drawn, distribution(log_density, -12, 12)) > 1e-3
    # A mutant walks in α instead of ln α.
    without_jacobian = distribution(lambda x: log_density(x) - x, -12, 12)
    assert ks_p_value(drawn, without_jacobian) < 1e-6


def test_expansions_are_drawn_from_their_conditional(grown: TreeChain) -> None:
    set_priors(grown, {label: (STRENGTH[label], EXPANDED[label]) for label in STRENGTH})
    twin, counts = to_twin(grown)
    label = grown.loaded.labels.index("A")
    drawn = []
    for number in range(1, 6001):
        grown.kernel.move_expansions(6, number, grown.state, grown.kernel.list_fragments(grown.state))
        if number % 5 == 0:
            drawn.append(float(grown.state.labels.expansion_probability[label]))

    def log_density(beta: float) -> float:
        return log_joint(twin, counts, STRENGTH["A"], beta)

    assert ks_p_value(drawn, distribution(log_density, 1e-6, 1 - 1e-6)) > 1e-3
    # A mutant assumes that every use of a fragment, instead of every table, was drawn from the base.
    decisions: Counter[str] = Counter()
    for fragment, n in counts.items():
        text = write(fragment)
        stops = text.count("(A)")
        decisions["stop"] += n * stops
        decisions["expand"] += n * (text.count("(") - 1 - stops)

    def of_tokens(beta: float) -> float:
        return decisions["expand"] * log(beta) + decisions["stop"] * log(1 - beta)

    assert ks_p_value(drawn, distribution(of_tokens, 1e-6, 1 - 1e-6)) < 1e-6


def test_expansions_depend_on_the_number_of_tables_of_a_fragment() -> None:
    """With P_C and large strengths, α P0 of a fragment is near 1. The base then yields several uses of the fragment."""
    kernels = grown_under("pcfg")
    twin, counts = to_twin(kernels, "pcfg")
    assert max(exp(twin.grammar.log_base(f)) * STRENGTH[str(f[0])] for f, n in counts.items() if n > 3) > 0.02
    label = kernels.loaded.labels.index("A")
    strength = {"S": 30.0, "A": 60.0, "B": 20.0}
    set_priors(kernels, {name: (strength[name], EXPANDED[name]) for name in strength})
    drawn = []
    for number in range(1, 6001):
        kernels.kernel.move_expansions(7, number, kernels.state, kernels.kernel.list_fragments(kernels.state))
        if number % 5 == 0:
            drawn.append(float(kernels.state.labels.expansion_probability[label]))

    def log_density(beta: float) -> float:
        grammar = Grammar(twin.grammar.expansion, strength, {**EXPANDED, "A": beta})
        return grammar.log_joint(counts)

    assert ks_p_value(drawn, distribution(log_density, 1e-6, 1 - 1e-6)) > 1e-3

    # A mutant assumes that each fragment was drawn from the base once.
    decisions: Counter[str] = Counter()
    for text in map(write, counts):
        stops = text.count("(A)")
        decisions["stop"] += stops
        decisions["expand"] += text.count("(") - 1 - stops

    def of_types(beta: float) -> float:
        return decisions["expand"] * log(beta) + decisions["stop"] * log(1 - beta)

    assert ks_p_value(drawn, distribution(of_types, 1e-6, 1 - 1e-6)) < 1e-6


@pytest.mark.parametrize(("count", "fresh"), [(1, 0.5), (2, 0.5), (4, 2.0), (6, 0.1)])
def test_tables_have_the_distribution_of_a_chinese_restaurant(count: int, fresh: float) -> None:
    exact = np.array([1.0])
    for customers in range(1, count):
        new = fresh / (customers + fresh)
        exact = np.convolve(exact, [1 - new, new])
    draws = 20_000
    found = np.zeros(count)
    state = np.uint64(stream(5, count, 1))
    for _ in range(draws):
        tables, state = draw_tables(count, fresh, np.uint64(state))
        found[tables - 1] += 1
    assert np.abs(found / draws - exact).max() < 5 * 0.5 / draws**0.5
    assert found.sum() == draws


def test_the_mutant_without_stops_has_a_larger_base_probability() -> None:
    assert NO_STOPS in MUTANTS
    grammar = treebank(PAIR, "pcfg").grammar
    free = treebank(PAIR, "pcfg", NO_STOPS).grammar
    fragment = ("S", ("A",), ("A", "a"))
    assert grammar.log_base(fragment) < free.log_base(fragment)
