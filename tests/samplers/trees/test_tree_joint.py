"""The chain of derivations, strengths and probabilities of expansion together has the exact posterior.

The treebank has one label, with at least two different fragments in every derivation. If a label has only one, the
posterior of ln α has a tail of length 1000, since the prior is Gamma(0.001, 1000), and no chain crosses it.
"""

from collections import Counter
from math import exp

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.reference.tree_grammar import Fragment, Grammar, Joint, Treebank, base_of_treebank, list_fragments
from tests.samplers.trees.chains import chain, step, to_joint

from hierogram.samplers.grammar.brackets import read_parse

TEXTS = ["(A (A a) (A b))", "(A b)", "(A (A b) (A b))", "(A (A a) (A b))"]
PARSES = [read_parse(text) for text in TEXTS]
STEPS, BATCHES = 60_000, 60
LOGS = np.arange(-22.0, 14.0, 0.3)
"""Grid of ln α. Outside it the density is below 1e-9."""
OF_BETA, SHARES = np.polynomial.legendre.leggauss(24)

Counts = tuple[tuple[Fragment, int], ...]


def count_parts(joint: Joint) -> Counts:
    """Return the fragments of a derivation of the treebank with their counts, sorted."""
    counts = Counter(f for parse, v in zip(PARSES, joint, strict=True) for f in list_fragments(parse, v))
    return tuple(sorted(counts.items(), key=str))


def posterior(base: str, rate: float) -> tuple[dict[Counts, float], float, float]:
    """Return the probabilities of the counts of fragments, and the means of ln α and β, by quadrature.

    The prior of α is Gamma(0.001) with this rate, the prior of β is uniform.
    """
    expansion = base_of_treebank(base, PARSES)
    multiple = Counter(map(count_parts, Treebank(PARSES, Grammar(expansion, {"A": 1.0}, {"A": 0.5})).states()))
    prior = np.exp(0.001 * LOGS - rate * np.exp(LOGS))[:, None] * SHARES
    found: dict[Counts, NDArray[np.float64]] = {}
    for counts, times in multiple.items():
        grammars = [[Grammar(expansion, {"A": exp(x)}, {"A": (1 + b) / 2}) for b in OF_BETA] for x in LOGS]
        logs = np.array([[grammar.log_joint(Counter(dict(counts))) for grammar in row] for row in grammars])
        found[counts] = times * np.exp(logs) * prior
    density = np.sum(list(found.values()), axis=0)
    density /= density.sum()
    total = sum(float(one.sum()) for one in found.values())
    means = float(density.sum(axis=1) @ LOGS), float(density.sum(axis=0) @ ((1 + OF_BETA) / 2))
    return {counts: float(one.sum()) / total for counts, one in found.items()}, *means


def deviations(samples: NDArray[np.float64], means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the absolute deviation of each column's mean, in standard errors of batch means."""
    batches = samples.reshape(BATCHES, -1, samples.shape[1]).mean(axis=1)
    deviation: NDArray[np.float64] = (batches.mean(axis=0) - means) / (batches.std(axis=0, ddof=1) / BATCHES**0.5)
    return np.abs(deviation)


@pytest.mark.slow
@pytest.mark.parametrize("base", ["uniform", "pcfg"])
def test_derivations_strengths_and_expansions_have_their_joint_posterior(base: str) -> None:
    kernels = chain(TEXTS, base, "random", seed=11)
    exact, *means = posterior(base, rate=1 / 1000)
    numbers = {counts: k for k, counts in enumerate(exact)}
    label = kernels.loaded.labels.index("A")
    samples = np.zeros((STEPS, len(exact) + 2))
    for number in range(1, STEPS + 1):
        step(kernels, 11, number)
        row = samples[number - 1]
        row[numbers[count_parts(to_joint(kernels))]] = 1
        row[-2] = kernels.state.labels.log_strength[label]
        row[-1] = kernels.state.labels.expansion_probability[label]
    found = deviations(samples, np.array([*exact.values(), *means]))
    assert found.max() < 4
    # The chain is long enough to distinguish the posterior under another prior of α.
    others, *means = posterior(base, rate=1.0)
    assert deviations(samples, np.array([*others.values(), *means])).max() > 10
