"""Expectation maximization: exact steps raise the likelihood, and steps with many masks gain nearly as much."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.tools.lab.programs import run_lab

from hierogram.tools.lab.papers.pruning.learning import ItgPairs, LearnableItg, SoftCounts, count_exactly, run_em


def itg() -> LearnableItg:
    """Return an ITG over pairs that share words and have one-to-one links."""
    random = np.random.default_rng(5)
    source = [random.integers(0, 3, size).astype(np.int32) for size in (2, 3, 3, 4, 3)]
    target = [random.integers(0, 3, size).astype(np.int32) for size in (3, 3, 2, 4, 3)]
    data = ItgPairs(
        source,
        target,
        [f[:, None] * 3 + e[None, :] for f, e in zip(source, target, strict=True)],
        [np.array([(k, k) for k in range(min(len(f), len(e)))], np.int32) for f, e in zip(source, target, strict=True)],
    )
    pairs = random.random(9)
    return LearnableItg(
        data, np.array([0.3, 0.2, 0.2, 0.2, 0.1]), pairs / pairs.sum(), np.full(3, 1 / 3), np.full(3, 1 / 3)
    )


def likelihood(grammar: LearnableItg) -> float:
    return count_exactly(grammar)[1]


def test_each_exact_step_raises_the_likelihood() -> None:
    likelihoods = [likelihood(grammar) for grammar in run_em(itg(), 15)]
    assert all(after >= before - 1e-9 for before, after in pairwise(likelihoods))
    assert likelihoods[-1] > likelihoods[0] + 1


@pytest.mark.slow
def test_soft_counts_of_many_masks_are_close_to_exact_counts() -> None:
    grammar = itg()
    exact, _ = count_exactly(grammar)
    soft = SoftCounts(grammar, 1500, key=2).count(grammar)
    for one, other in zip(exact, soft, strict=True):
        np.testing.assert_allclose(other, one, atol=0.1)


@pytest.mark.slow
def test_learning_with_many_masks_gains_nearly_as_much_as_exact_learning() -> None:
    start = itg()
    *_, exact = run_em(start, 10)
    few, many = (likelihood(list(run_em(start, 10, SoftCounts(start, masks, key=3)))[-1]) for masks in (1, 60))
    begun, best = likelihood(start), likelihood(exact)
    assert few > begun
    assert many > begun + 0.9 * (best - begun)
    assert abs(best - many) < abs(best - few) + 0.05


def test_the_command_learns_with_exact_and_soft_counts(tmp_path: Path) -> None:
    nouns, files = ("chat", "chien", "pain", "mur"), []
    for name, line in (("f", "le {0} a le {1}"), ("e", "the {0} has the {1}"), ("links", "0-0 1-1 2-2 3-3 4-4")):
        lines = [line.format(nouns[k % 4], nouns[(k + 1 + k // 4) % 4]) for k in range(24)]
        (tmp_path / name).write_text("".join(f"{one}\n" for one in lines))
        files.append(str(tmp_path / name))
    output = run_lab("papers.pruning.learning", *files, "--pairs", "8", "--iterations", "4", "--masks", "1,20")
    rows = [line.split("\t") for line in output.splitlines()[1:]]
    likelihoods = {step: [float(row[2]) for row in rows if row[0] == step] for step in ("exact", "1 mask", "20 masks")}
    assert [row[1] for row in rows] == [str(k) for _ in likelihoods for k in range(5)]
    assert len({values[0] for values in likelihoods.values()}) == 1
    assert all(after >= before for before, after in pairwise(likelihoods["exact"]))
    exact = likelihoods["exact"]
    assert abs(likelihoods["20 masks"][-1] - exact[-1]) < 0.1 * (exact[-1] - exact[0])
