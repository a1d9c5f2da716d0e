"""Samples of the ITG samplers compared with exact enumeration: derivations, tables, and strengths."""

import math
from collections import Counter, defaultdict
from functools import cache
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.reference.goodness import draws, p_value
from tests.reference.itg.samplers import (
    PAIR,
    SOURCE_NULL,
    TARGET_NULL,
    Corpus,
    Counts,
    Dish,
    Tree,
    count,
    derivations,
    find_links,
    find_type,
    lexical_base,
    phrase,
    posterior,
    predictive,
    stirling,
    to_string,
)
from tests.samplers.itg.corpora import PHRASE_END, Pairs, make_kernel, make_model1, to_corpus, to_derivations, to_trees

from hierogram.samplers.itg.batch import BINARY_TYPES, ItgBatch
from hierogram.samplers.itg.model import (
    SOURCE_STRENGTH,
    STRENGTH_RATE,
    STRENGTH_SHAPE,
    Tables,
    draw_strengths,
    draw_words,
)
from hierogram.samplers.itg.model import STRENGTHS as STRENGTH_NAMES
from hierogram.samplers.itg.sampler import ItgKernel, ItgState
from hierogram.samplers.itg.slices import LIMIT
from hierogram.samplers.itg.starts import LEFT_BRANCHING, MODEL1
from hierogram.tools.lab.baselines.itg import EXHAUSTIVE, FLAT, GIBBS, METHODS, SLICE, make_plan

ALPHA = 1e-5
SAMPLES = 2_000
MANY_SAMPLES = 60_000

ONE: Pairs = (((0, 0), (0, 1)),)
TWO: Pairs = (((0, 1), (0,)), ((0,), (0, 1)))
THREE: Pairs = (((0,), (0,)), ((0,), (0, 0)), ((), (0,)))
LARGE: Pairs = (((0, 1, 0), (0, 0, 1)),)
CORPORA = {"one": ONE, "two": TWO, "three": THREE}
PHRASES: Pairs = (((0, 1), (0, 1)), ((0, 1), (0,)))
"""One phrase pair of the first pair also occurs in the second pair."""
SHAPES = [
    *((SLICE, 0.1, None), (SLICE, 0.15, None), (SLICE, 0.25, None), (SLICE, 1.0, None)),
    *((GIBBS, 1.0, None), (EXHAUSTIVE, 1.0, None)),
    *((FLAT, 0.1, None), (FLAT, 0.25, None), (FLAT, 1.0, None), (FLAT, 0.1, 0.25)),
]
"""Methods, their shapes, and their shapes for long pairs."""


@cache
def exact_posterior(pairs: Pairs, strength: float, longest: int = 1) -> dict[tuple[Tree, ...], float]:
    """Return the exact posterior of the derivations, which does not depend on the method."""
    kernel = make_kernel(pairs, EXHAUSTIVE, strength=strength, longest=longest)
    return posterior(to_corpus(pairs, kernel, kernel.init(1, LEFT_BRANCHING)))


def signature(trees: tuple[Tree, ...]) -> tuple[object, ...]:
    """Return the links of derivations, and their uses of the straight and the inverted rule."""
    return tuple((find_links(tree), to_string(tree).count(0), to_string(tree).count(1)) for tree in trees)


def frequencies(kernel: ItgKernel, state: ItgState, samples: int, thinning: int, seed: int) -> list[tuple[Tree, ...]]:
    """Return the derivations after every `thinning` sweeps, with fixed base distributions."""
    fixed = state.base._replace(source=state.base.source.copy(), target=state.base.target.copy())
    found = []
    for number in range(1, samples * thinning + 1):
        state, _ = kernel.step(seed, state, make_plan(kernel.batch, number))
        state.base.source[:], state.base.target[:] = fixed.source, fixed.target
        if number % thinning == 0:
            found.append(to_trees(state))
    return found


def after_sweeps(kernel: ItgKernel, starts: list[tuple[Tree, ...]], seed: int) -> list[tuple[Tree, ...]]:
    """Return the derivations after one sweep from each start, with fixed base distributions and a stream per start."""
    found = []
    for number, trees in enumerate(starts, 1):
        state = kernel.resume(to_derivations(kernel.batch, trees))
        state, _ = kernel.step(seed, state, make_plan(kernel.batch, number))
        found.append(to_trees(state))
    return found


def sweep_leaves_the_posterior(
    pairs: Pairs, method: str, shape: float, of_long: float | None, samples: int, seed: int, longest: int = 1
) -> bool:
    """Check if independent draws from the posterior follow it after one sweep. Slow mixing cannot hide a fault."""
    kernel = make_kernel(pairs, method, shape, strength=0.7, of_long=of_long, longest=longest)
    exact = exact_posterior(pairs, 0.7, longest)
    return p_value(after_sweeps(kernel, draws(exact, samples, seed=seed), seed=7), exact) > ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize(("method", "shape", "of_long"), SHAPES)
def test_a_sweep_leaves_the_posterior_invariant(corpus: str, method: str, shape: float, of_long: float | None) -> None:
    assert sweep_leaves_the_posterior(CORPORA[corpus], method, shape, of_long, SAMPLES, seed=3)


@pytest.mark.campaign
@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize(("method", "shape", "of_long"), SHAPES)
def test_a_sweep_leaves_the_posterior_invariant_in_many_samples(
    corpus: str, method: str, shape: float, of_long: float | None
) -> None:
    assert sweep_leaves_the_posterior(CORPORA[corpus], method, shape, of_long, MANY_SAMPLES, seed=11)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "shape", "of_long"), SHAPES)
def test_a_sweep_leaves_the_posterior_of_phrases_invariant(method: str, shape: float, of_long: float | None) -> None:
    assert sweep_leaves_the_posterior(PHRASES, method, shape, of_long, 4_000, seed=3, longest=2)


@pytest.mark.campaign
@pytest.mark.parametrize(("method", "shape", "of_long"), SHAPES)
def test_a_sweep_leaves_the_posterior_of_phrases_invariant_in_many_samples(
    method: str, shape: float, of_long: float | None
) -> None:
    assert sweep_leaves_the_posterior(PHRASES, method, shape, of_long, MANY_SAMPLES, seed=12, longest=2)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_chain_started_with_words_has_the_posterior_of_phrases(method: str) -> None:
    kernel = make_kernel(PHRASES, method, 0.15, strength=0.7, longest=2)
    samples = frequencies(kernel, kernel.init(2, LEFT_BRANCHING), 1_500, 1 if method == EXHAUSTIVE else 20, seed=4)
    assert p_value(samples, exact_posterior(PHRASES, 0.7, 2)) > ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("start", [LEFT_BRANCHING, MODEL1, "m4"])
@pytest.mark.parametrize("method", METHODS)
def test_each_start_leads_to_the_posterior(method: str, start: str) -> None:
    kernel = make_kernel(ONE, method, 0.15, strength=2.0)
    state = kernel.init(2, np.array([1, -1], np.int32) if start == "m4" else start)
    exact = posterior(to_corpus(ONE, kernel, state))
    samples = frequencies(kernel, state, 500, 1 if method == EXHAUSTIVE else 20, seed=4)
    assert p_value(samples, exact) > ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_sweep_leaves_the_posterior_of_three_by_three_words_invariant(method: str) -> None:
    kernel = make_kernel(LARGE, method, 0.15, strength=2.0)
    exact = exact_posterior(LARGE, 2.0)
    expected: defaultdict[tuple[object, ...], float] = defaultdict(float)
    for trees, p in exact.items():
        expected[signature(trees)] += p
    samples = after_sweeps(kernel, draws(exact, SAMPLES, seed=5), seed=2)
    assert p_value(map(signature, samples), expected) > ALPHA


@pytest.mark.slow
@pytest.mark.parametrize(("method", "most"), [(SLICE, 1), (FLAT, 2)])
def test_a_sweep_that_gives_up_oversized_charts_leaves_the_posterior_invariant(method: str, most: int) -> None:
    """Whether a chart is too large depends on the derivation, so the fallback must not introduce a bias."""
    kernel = make_kernel(ONE, method, 0.25, strength=0.7)
    kernel._scratch.chart.registers[LIMIT] = most
    exact = exact_posterior(ONE, 0.7)
    samples, given_up = [], 0
    for number, trees in enumerate(draws(exact, 10_000, seed=3), 1):
        state = kernel.resume(to_derivations(kernel.batch, trees))
        state, info = kernel.step(7, state, make_plan(kernel.batch, number))
        given_up += info.given_up
        samples.append(to_trees(state))
    assert 1_000 < given_up < 9_000
    assert p_value(samples, exact) > ALPHA


def with_tables(kernel: ItgKernel, pairs: Pairs, state: ItgState) -> dict[tuple[object, ...], float]:
    """Return the joint probability of derivations (by signature) and tables, with P_f and P_e integrated out.

    Each dish with n customers at t tables contributes the number of seatings, α^t, and the lexical part of the base
    to the power of t. Each word contributes half a draw from P per table: a moment of a Dirichlet.
    """
    batch, base = kernel.batch, state.base
    longest = batch.phrases.longest
    strengths = base.strengths
    types = {(int(f), int(e)): k for k, (f, e) in enumerate(zip(batch.type_source, batch.type_target, strict=True))}
    model1 = make_model1(batch)
    both = (lambda f, e: float(model1.target[types[f, e]]), lambda f, e: float(model1.source[types[f, e]]))
    lexical = {PAIR: lambda f, e: lexical_base(words_in(f), words_in(e), both, PHRASE_END, longest),
               SOURCE_NULL: lambda f, e: base.lexical[BINARY_TYPES + f],
               TARGET_NULL: lambda f, e: base.lexical[BINARY_TYPES + batch.source_words + e]}  # fmt: skip
    corpus = Corpus(pairs, lambda f, e: 0.0, lambda f: 0.0, lambda e: 0.0)

    def words(draws: Counter[int], strength: float, size: int) -> float:
        log = math.lgamma(strength) - math.lgamma(strength + draws.total() / 2)
        for number in draws.values():
            log += math.lgamma(strength / size + number / 2) - math.lgamma(strength / size)
        return log

    weights: defaultdict[tuple[object, ...], float] = defaultdict(float)
    for trees in product(*(derivations(len(f), len(e), longest) for f, e in pairs)):
        counts = Counts()
        for pair, tree in enumerate(trees):
            count(corpus, counts, pair, tree, 1)
        total = sum(counts.rules.values())
        log = math.lgamma(5.0) - math.lgamma(5.0 + total)
        for rule in range(5):
            log += math.lgamma(1.0 + counts.rules[rule])
            if rule >= PAIR:
                strength = strengths[rule - PAIR]
                log += math.lgamma(strength) - math.lgamma(strength + counts.rules[rule])
        dishes = [dish for dish, n in counts.dishes.items() if n and dish[0] >= PAIR]
        for tables in product(*(range(1, counts.dishes[dish] + 1) for dish in dishes)):
            at = log
            source: Counter[int] = Counter()
            target: Counter[int] = Counter()
            for (rule, f, e), t in zip(dishes, tables, strict=True):
                n = counts.dishes[rule, f, e]
                of = find_type(rule)
                at += math.log(stirling(n, t)) + t * math.log(strengths[of - PAIR] * lexical[of](f, e))
                source.update(words_in(f) * t)
                target.update(words_in(e) * t)
            at += words(source, strengths[3], batch.source_words) + words(target, strengths[4], batch.target_words)
            weights[signature(trees), tuple(sorted(zip(dishes, tables, strict=True)))] += math.exp(at)
    scale = sum(weights.values())
    return {key: weight / scale for key, weight in weights.items()}


def by_type(batch: ItgBatch, numbers: NDArray[np.int32]) -> list[list[int]]:
    """Return the numbers of source nulls, target nulls, word pairs and phrase pairs."""
    ends = np.cumsum([BINARY_TYPES, batch.source_words, batch.target_words, len(batch.type_source)])
    return [part.tolist() for part in np.split(numbers, ends)[1:]]


def current_tables(kernel: ItgKernel) -> tuple[object, ...]:
    """Return the tables drawn in the last sweep."""
    batch = kernel.batch
    source_nulls, target_nulls, words, phrases = by_type(batch, kernel._tables.numbers)
    found: list[tuple[Dish, int]] = [
        ((PAIR, int(f), int(e)), int(t))
        for f, e, t in zip(batch.type_source, batch.type_target, words, strict=True) if t
    ]  # fmt: skip
    for (s, z), first, t in zip(batch.phrases.sizes, batch.phrases.first, phrases, strict=True):
        if t:
            f, e = batch.source[first[0] : first[0] + s], batch.target[first[1] : first[1] + z]
            found.append(((phrase(int(s), int(z)), tuple(f.tolist()), tuple(e.tolist())), t))
    found += [((SOURCE_NULL, f, -1), t) for f, t in enumerate(source_nulls) if t]
    found += [((TARGET_NULL, -1, e), t) for e, t in enumerate(target_nulls) if t]
    return tuple(sorted(found))


def words_in(side: int | tuple[int, ...]) -> tuple[int, ...]:
    """Return the words of one side of a dish."""
    return side if isinstance(side, tuple) else (side,) * (side >= 0)


def chain_has_the_posterior_of_tables(
    pairs: Pairs, method: str, samples: int, seed: int, thinning: int = 5, longest: int = 1
) -> bool:
    """Check if derivations and tables, sampled every `thinning` sweeps, match their enumeration."""
    kernel = make_kernel(pairs, method, 0.25, strength=1.3, longest=longest)
    state = kernel.init(5, LEFT_BRANCHING)
    exact = with_tables(kernel, pairs, state)
    found = []
    for number in range(1, thinning * samples + 1):
        state, _ = kernel.step(seed, state, make_plan(kernel.batch, number))
        if number % thinning == 0:
            found.append((signature(to_trees(state)), current_tables(kernel)))
    return p_value(found, exact) > ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("corpus", CORPORA)
def test_derivations_and_tables_have_their_posterior(corpus: str, method: str) -> None:
    assert chain_has_the_posterior_of_tables(CORPORA[corpus], method, 1_200, seed=21)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_derivations_with_phrases_and_tables_have_their_posterior(method: str) -> None:
    assert chain_has_the_posterior_of_tables(TWO, method, 2_000, seed=23, thinning=25, longest=2)


@pytest.mark.campaign
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("corpus", CORPORA)
def test_derivations_and_tables_have_their_posterior_in_long_chains(corpus: str, method: str) -> None:
    assert chain_has_the_posterior_of_tables(CORPORA[corpus], method, 40_000, seed=22)


@pytest.mark.parametrize("longest", [1, 2])
def test_a_table_counts_as_half_a_draw_of_each_of_its_words(longest: int) -> None:
    """P_f is drawn from the Dirichlet distribution given these draws, and its square root is stored."""
    kernel = make_kernel(TWO, EXHAUSTIVE, strength=1.3, longest=longest)
    state = kernel.init(3, LEFT_BRANCHING)
    batch = kernel.batch
    phrases = 0
    for number in range(1, 6):
        state, _ = kernel.step(8, state, make_plan(batch, number))
        tables = kernel._tables
        source, target, words, phrase_numbers = map(np.array, by_type(batch, tables.numbers / 2))
        np.add.at(source, batch.type_source, words)
        np.add.at(target, batch.type_target, words)
        for (s, t), (f, e, *_), number_of in zip(
            batch.phrases.sizes.tolist(), batch.phrases.first.tolist(), phrase_numbers.tolist(), strict=True
        ):
            np.add.at(source, batch.source[f : f + s], number_of)
            np.add.at(target, batch.target[e : e + t], number_of)
            phrases += number_of
        assert tables.source.tolist() == source.tolist()
        assert tables.target.tolist() == target.tolist()
        assert sum(tables.source) > 0
    assert (phrases > 0) == (longest > 1)
    mean = np.zeros(batch.source_words)
    for number in range(4_000):
        draw_words(state.base, tables, np.uint64(2), number)
        mean += state.base.source**2 / 4_000
    strength = state.base.strengths[SOURCE_STRENGTH]
    expected = (strength / batch.source_words + source) / (strength + source.sum())
    assert mean == pytest.approx(expected, abs=0.03)


def strength_density(which: int, alpha: NDArray[np.float64], state: ItgState, tables: Tables) -> NDArray[np.float64]:
    """Return the unnormalized density of a strength α or γ at some values, given tables and customers.

    Gamma(α; 1, 1/1000) times the probability of the seating: α^t Γ(α) / Γ(α + n) of a process with t tables of n
    customers; Γ(γ) / Γ(γ + d) Π_w Γ(γ/V + d_w) / Γ(γ/V) of a Dirichlet distribution over V words with d_w draws.
    """
    gamma = np.vectorize(math.lgamma)
    if which < 3:
        number = int(tables.totals[which])
        customers = int(state.counts.rules[PAIR + which])
        log = number * np.log(alpha) + gamma(alpha) - gamma(alpha + customers)
    else:
        draws_of = (tables.source, tables.target)[which - 3]
        log = gamma(alpha) - gamma(alpha + draws_of.sum())
        for number in draws_of.tolist():
            log += gamma(alpha / len(draws_of) + number) - gamma(alpha / len(draws_of))
    log += (STRENGTH_SHAPE - 1) * np.log(alpha) - STRENGTH_RATE * alpha
    return np.asarray(np.exp(log - log.max()))


@pytest.mark.slow
def test_sampled_strengths_follow_their_density_computed_by_quadrature() -> None:
    """Each strength is drawn given its own tables. No two processes have equal numbers of tables or customers here.

    A single draw from each of many exact draws must again follow the exact density.
    """
    kernel = make_kernel(TWO)
    state = kernel.init(3, LEFT_BRANCHING)
    state.counts.rules[PAIR:] = 40, 25, 90
    tables = Tables(np.zeros_like(state.counts.uses), np.array([7, 14, 3]), np.zeros(2), np.zeros(2))
    tables.source[:] = 6.5, 4.0
    tables.target[:] = 15.0, 0.5
    edges = np.exp(np.linspace(math.log(1e-6), math.log(5e4), 100_001))
    middles = (edges[1:] + edges[:-1]) / 2
    starts, bounds = [], []
    for which in range(5):
        below = np.cumsum(strength_density(which, middles, state, tables) * np.diff(edges))
        below /= below[-1]
        starts.append(np.interp(np.random.default_rng(which).random(8_000), below, middles))
        bounds.append(np.interp(np.arange(1, 10) / 10, below, middles))
    samples: list[list[int]] = [[] for _ in range(5)]
    for number, alphas in enumerate(zip(*starts, strict=True), 1):
        state.base.strengths[:] = alphas
        draw_strengths(state.base, state.counts, tables, np.uint64(4), number)
        for which, alpha in enumerate(state.base.strengths.tolist()):
            samples[which].append(int(np.searchsorted(bounds[which], alpha)))
    for which in range(5):
        assert p_value(samples[which], dict.fromkeys(range(10), 0.1)) > ALPHA, STRENGTH_NAMES[which]


@pytest.mark.slow
@pytest.mark.parametrize("method", [SLICE, FLAT])
@pytest.mark.parametrize("shape", [0.1, 0.15, 0.25, 1.0])
def test_an_unused_rule_survives_with_its_probability_to_the_power_of_the_shape(shape: float, method: str) -> None:
    """Checks a null and a word pair that the derivation does not emit."""
    pairs: Pairs = (((0, 1), (0, 1)),)
    kernel = make_kernel(pairs, method, shape, strength=0.1)
    derivation = to_derivations(kernel.batch, [(0, (PAIR,), (PAIR,))])
    corpus = to_corpus(pairs, kernel, kernel.resume(derivation))
    emissions = kernel._scratch.chart.emissions
    nulls = others = 0
    sweeps = 3_000
    for number in range(1, sweeps + 1):
        kernel.step(
            9, kernel.resume(to_derivations(kernel.batch, [(0, (PAIR,), (PAIR,))])), make_plan(kernel.batch, number)
        )
        nulls += emissions.source_nulls[0] > 0
        others += emissions.pairs[0, 1, 0] > 0
    for lives, dish in ((nulls, (SOURCE_NULL, 0, -1)), (others, (PAIR, 0, 1))):
        expected = predictive(corpus, Counts(), dish) ** shape
        assert lives / sweeps == pytest.approx(expected, abs=5 * math.sqrt(expected * (1 - expected) / sweeps))
