"""100,000 mutations of derivations and of averages, for each kind of grammar, crash no kernel."""

import pytest
from tests.daemon.campaigns.damaged_pairs import run
from tests.daemon.learning.every_kind import CASES

pytestmark = pytest.mark.campaign


@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("kind", CASES)
def test_no_mutation_ends_a_kernel(kind: str) -> None:
    done, _ = run(kind, 100_000, seed=1)
    assert done.derivations >= 100_000
    assert 0 < done.derivations_that_fit < done.derivations
    assert 0 < done.averages_that_fit < done.averages
