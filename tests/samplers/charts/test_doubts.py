"""Doubts of links by message passing between words, compared with the twin and with all one-to-one links."""

import numpy as np
import pytest
from tests.reference.charts.doubts import doubts_by_enumeration, doubts_by_passing
from tests.samplers.charts.chains import charts

from hierogram.samplers.charts.pruning.pair_charts import unlinked_probabilities

SIZES = ((1, 1), (2, 3), (4, 4), (5, 3))


def weights(size: tuple[int, int], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    n, m = size
    return random.random((n, m)) ** 4, 0.1 * random.random(n), 0.1 * random.random(m)


@pytest.mark.parametrize("size", SIZES)
def test_unlinked_probabilities_equal_message_passing_by_definition(size: tuple[int, int]) -> None:
    given = weights(size, 3)
    np.testing.assert_allclose(unlinked_probabilities(*given), doubts_by_passing(*given, rounds=20), rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_unlinked_probabilities_are_exact_if_emissions_form_a_tree(seed: int) -> None:
    pairs, source_nulls, target_nulls = weights((4, 4), seed)
    tree = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 1, 1]])
    given = pairs * tree, source_nulls, target_nulls
    np.testing.assert_allclose(unlinked_probabilities(*given), doubts_by_enumeration(*given), rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_unlinked_probabilities_are_approximate_if_emissions_form_cycles(seed: int) -> None:
    given = weights((4, 5), seed)
    assert np.abs(unlinked_probabilities(*given) - doubts_by_enumeration(*given)).max() < 0.15


def test_a_link_is_doubtful_if_another_word_needs_its_partner() -> None:
    """The first words prefer each other in isolation, but then the second source word has no partner."""
    pairs = np.array([[0.5, 0.01], [0.1, 0.0]])
    nulls = np.full(2, 1e-5)
    assert unlinked_probabilities(pairs, nulls, nulls)[0, 0] > 0.9


def test_words_without_another_choice_have_finite_unlinked_probabilities() -> None:
    found = unlinked_probabilities(np.array([[0.3, 0.0], [0.0, 0.2]]), np.zeros(2), np.zeros(2))
    np.testing.assert_allclose(found, [[0, 1], [1, 0]], atol=1e-12)
    assert unlinked_probabilities(np.zeros((1, 1)), np.zeros(1), np.zeros(1)) == 1


def test_the_doubt_of_a_link_is_its_unlinked_probability_plus_0_005() -> None:
    for known in charts()[:3]:
        words, (i, x) = known.chart.words, known.chart.links.T
        expected = doubts_by_passing(words.pairs, words.source_nulls, words.target_nulls, rounds=20)[i, x]
        np.testing.assert_allclose(known.chart.doubts(), expected + 0.005)


def test_absent_links_change_the_doubts_of_other_links() -> None:
    changed = 0
    for known in charts()[:3]:
        words, (i, x) = known.chart.words, known.chart.links.T
        for variable in range(known.chart.variables):
            without = np.arange(known.chart.variables) == variable
            pairs = words.pairs.copy()
            pairs[i[variable], x[variable]] = 0
            expected = doubts_by_passing(pairs, words.source_nulls, words.target_nulls, rounds=20)[i, x]
            found = known.chart.doubts(without)
            np.testing.assert_allclose(found, expected + 0.005)
            assert found[variable] == 1.005
            changed += (np.abs(found - known.chart.doubts())[~without] > 0.01).sum()
    assert changed > 3
