"""100,000 mutations of each kind of grammar crash no kernel, and 1,000 damaged pairs in a store are repaired."""

from dataclasses import replace

import numpy as np
import pytest
from tests.daemon.campaigns.damaged_pairs import run
from tests.daemon.learning.every_kind import CASES
from tests.daemon.learning.mutations import damage_and_repair

from hierogram.daemon.learning.learning import learn
from hierogram.storage.store import open_store

pytestmark = pytest.mark.campaign


@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("kind", CASES)
def test_no_mutation_crashes_a_kernel(kind: str) -> None:
    done, _ = run(kind, 100_000, seed=1)
    assert done.derivations >= 100_000
    assert 0 < done.derivations_that_fit < done.derivations
    assert 0 < done.averages_that_fit < done.averages


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", CASES)
def test_every_damaged_pair_of_a_store_is_repaired(kind: str, store_url: str) -> None:
    case, random = CASES[kind], np.random.default_rng(12)
    damaged = np.zeros(2, np.int64)
    with open_store(store_url, create=True, settings=replace(case.settings, span_limit=5)) as store:
        case.fill(store)
        case.add(store)
        learn(store, sweeps=4)
        while damaged[0] < 1_000:
            damaged += damage_and_repair(store, random)
    print(f"{kind}: {damaged[0]:,} pairs, {damaged[1]:,} of them with a valid checksum")
    assert 0 < damaged[1] < damaged[0]
