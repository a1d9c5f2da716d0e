"""Stored posteriors: the largest probabilities of each pair, rounded."""

import numpy as np
import pytest
from tests.samplers.alignment.kernels import from_marginals, to_marginals

from hierogram.samplers.alignment.bitext import make_direction, read_side
from hierogram.samplers.alignment.marginals import WHOLE, add_marginals, empty_marginals


def random_means(random: np.random.Generator, concentration: float) -> tuple[list[tuple[int, int]], list[np.ndarray]]:
    lengths = [(0, 3), (2, 3), (12, 40), (3, 0), (9, 30)]
    means = [random.dirichlet(np.full(length + 1, concentration), words) for words, length in lengths]
    return lengths, [mean.astype(np.float32) for mean in means]


@pytest.mark.parametrize("concentration", [0.02, 0.2, 5.0])
@pytest.mark.parametrize("samples", [1, 7])
def test_the_largest_probabilities_of_a_pair_are_stored(concentration: float, samples: int) -> None:
    lengths, means = random_means(np.random.default_rng(1), concentration)
    bitext = make_direction(
        read_side(" ".join("a" * words) for words, _ in lengths), read_side(" ".join("b" * n) for _, n in lengths)
    ).bitext
    marginals = to_marginals(bitext, means, samples)
    dropped = 0
    for mean, found in zip(means, from_marginals(bitext, marginals), strict=True):
        is_kept = found > 0
        assert found[is_kept] == pytest.approx(mean[is_kept], abs=0.51 / WHOLE)
        # If not all probabilities of a pair fit, probabilities below 0.001 are dropped first.
        lost = mean[~is_kept & (mean > 0.001)]
        dropped += len(lost)
        if len(lost):
            assert lost.max() <= mean[is_kept].min()
            # Larger probabilities are dropped only if they do not fit.
            assert marginals.slots * len(mean) < (mean > 0.001).sum()
            assert is_kept.sum() <= marginals.slots * len(mean)
    assert (dropped > 0) == (concentration > 0.1)
    total = empty_marginals(bitext)
    for _ in range(2):
        add_marginals(bitext, total, marginals)
    assert total.samples[0] == 2 * samples
    assert all(map(np.array_equal, from_marginals(bitext, total), from_marginals(bitext, marginals)))


def test_cells_far_apart_in_a_long_pair_are_stored() -> None:
    bitext = make_direction(read_side([" ".join("a" * 300)]), read_side([" ".join("b" * 700)])).bitext
    mean = np.zeros((300, 701), np.float32)
    mean[0, 3], mean[299, 0], mean[299, 700] = 0.25, 0.5, 1
    [found] = from_marginals(bitext, to_marginals(bitext, [mean]))
    assert np.array_equal(found, mean)
