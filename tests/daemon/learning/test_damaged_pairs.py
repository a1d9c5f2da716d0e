"""Damaged bytes in a store are reported, crash no kernel, and their pairs are recomputed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.daemon.learning.every_kind import CASES
from tests.daemon.learning.mutations import Fuzz, damage_and_repair, learn_pairs, overwrite
from tests.daemon.learning.stores import fill, is_consistent, some_pairs
from tests.storage.building import query

from hierogram.daemon.learning.alignment.incremental import align_pending
from hierogram.daemon.learning.kinds.kind import DamagedPairsError, load_stored, load_undamaged
from hierogram.daemon.learning.learner import withdraw_requested
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.repairing import repair
from hierogram.daemon.learning.verifying import verify
from hierogram.samplers.counts.chain import CountsError
from hierogram.storage.records.pairs import DamagedPair, compute_checksum
from hierogram.storage.store import Store, open_store


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.database("sqlite")
def test_kernels_accept_the_same_derivations_as_the_reference(kind: str, tmp_path: Path) -> None:
    fuzz = Fuzz(*learn_pairs(kind, f"sqlite:///{tmp_path / 'some.db'}"), seed=3)
    for number in range(6):
        fuzz.round(sweep=number == 0)
    assert 0 < fuzz.outcome.derivations_that_fit < fuzz.outcome.derivations
    assert 0 < fuzz.outcome.averages_that_fit < fuzz.outcome.averages


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
@pytest.mark.database("sqlite")
def test_kernels_sample_all_valid_derivations(kind: str, tmp_path: Path) -> None:
    fuzz = Fuzz(*learn_pairs(kind, f"sqlite:///{tmp_path / 'some.db'}"), seed=4)
    for _ in range(40):
        fuzz.round()
        fuzz.show_mutated()
    assert fuzz.outcome.derivations_that_fit > 0


@pytest.mark.slow
@pytest.mark.parametrize("sealed", [False, True], ids=["with the old checksum", "with a checksum that fits"])
def test_zeroed_derivations_are_reported_and_resampled(filled: Store, sealed: bool) -> None:
    ids = [2, 7, 8, 30]
    for row in filled.pairs_by_id(ids):
        assert row.current is not None
        assert row.averages is not None
        zeros = bytes(len(row.current))
        own = compute_checksum(row.id, zeros, row.averages) if sealed else None
        overwrite(filled, row.id, zeros, row.averages, checksum=own)
    problems = verify(filled).problems
    for pair_id in ids:
        assert any(line.startswith(f"pair {pair_id}: its derivation") for line in problems)
    with pytest.raises(DamagedPairsError, match=r"pair 2: its derivation.*run `hierogram repair`") as caught:
        learn(filled, sweeps=1)
    assert [one.pair_id for one in caught.value.damaged] == ids
    done = repair(filled)
    assert (done.reset_pairs, done.remaining_problems) == (ids, [])
    assert is_consistent(filled)
    assert filled.count_pairs(["waiting"]) == len(ids)
    learn(filled, sweeps=1)
    assert is_consistent(filled)
    assert filled.count_pairs(["settled"]) == 30


def test_a_derivation_of_another_pair_is_reported(filled: Store) -> None:
    one, other = filled.pairs_by_id([3, 4])
    assert one.current is not None
    assert other.current is not None
    assert one.averages is not None
    assert other.averages is not None
    overwrite(filled, 3, other.current, other.averages, checksum=other.checksum)
    overwrite(filled, 4, one.current, one.averages, checksum=one.checksum)
    with pytest.raises(DamagedPairsError) as caught:
        load_stored(filled.pairs(), filled.settings())
    assert [one.pair_id for one in caught.value.damaged] == [3, 4]
    kept, pairs = load_undamaged(filled.pairs(), filled.settings())
    assert [row.id for row in kept] == [k for k in range(1, 31) if k not in (3, 4)]
    assert pairs.loaded.batch.size == 28


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_a_store_with_randomly_damaged_pairs_is_repaired(kind: str, store_url: str) -> None:
    case, random = CASES[kind], np.random.default_rng(11)
    with open_store(store_url, create=True, settings=replace(case.settings, span_limit=5)) as store:
        case.fill(store)
        learn(store, sweeps=4)
        for _ in range(3):
            damage_and_repair(store, random)


@pytest.mark.slow
def test_rule_counts_that_are_too_low_end_learning_with_an_error(filled: Store, store_url: str) -> None:
    query(store_url, "UPDATE rules SET count = 1 WHERE count > 1")
    with pytest.raises(CountsError, match="hierogram repair"):
        learn(filled, sweeps=3)
    assert repair(filled).remaining_problems == []
    learn(filled, sweeps=1)
    assert is_consistent(filled)


def test_rules_that_are_too_long_end_learning_with_an_error(filled: Store, store_url: str) -> None:
    query(store_url, "UPDATE rules SET length = 30000 WHERE count > 0")
    with pytest.raises(CountsError, match="hierogram repair"):
        learn(filled, sweeps=1)


@pytest.mark.slow
def test_aligner_links_that_do_not_fit_their_words_are_recomputed(filled: Store, store_url: str) -> None:
    # Given alignments restore the aligner's links; other pairs are re-aligned.
    query(store_url, "UPDATE pair_links SET forward = substr(forward, 3) WHERE pair_id = 4")
    query(store_url, "UPDATE pair_links SET backward = forward, forward = backward WHERE pair_id IN (5, 6)")
    query(store_url, "UPDATE sentence_pairs SET aligned_by = 'aligner' WHERE id = 5")
    query(store_url, "UPDATE pair_links SET backward = substr(backward, 3) WHERE pair_id = 5")
    problems = verify(filled).problems
    assert "pair 4: its links do not fit its words" in problems
    assert "pair 5: its links do not fit its words" in problems
    done = repair(filled)
    assert (done.unaligned_pairs, done.remaining_problems) == ([5], [])
    assert is_consistent(filled)
    assert filled.count_pairs(["unaligned"]) == 1
    align_pending(filled)
    learn(filled, sweeps=1)
    assert is_consistent(filled)


@pytest.mark.slow
@pytest.mark.parametrize("line", ["0-99", "0-0 x", "70000-0", "-1-0"])
@pytest.mark.parametrize("derived", [True, False], ids=["sampled", "waiting"])
def test_an_unreadable_alignment_is_reported_and_recomputed(
    filled: Store, store_url: str, line: str, derived: bool
) -> None:
    if not derived:
        fill(filled, some_pairs(32)[30:])
    damaged = 9 if derived else 31
    query(store_url, f"UPDATE sentence_pairs SET alignment = '{line}' WHERE id = {damaged}")
    assert any(
        message.startswith(f"pair {damaged}: its alignment cannot be read") for message in verify(filled).problems
    )
    with pytest.raises(DamagedPairsError, match=f"pair {damaged}: its alignment"):
        learn(filled, sweeps=1)
    done = repair(filled)
    assert (done.unaligned_pairs, done.remaining_problems) == ([damaged], [])
    assert is_consistent(filled)
    align_pending(filled)
    learn(filled, sweeps=1)
    assert is_consistent(filled)


def test_damaged_pairs_are_excluded_until_they_are_repaired(filled: Store, store_url: str) -> None:
    assert filled.record_damaged([DamagedPair(5, "torn"), DamagedPair(99, "gone")]) == [DamagedPair(5, "torn")]
    assert filled.record_damaged([DamagedPair(5, "torn again")]) == []
    assert filled.damaged_pairs() == [DamagedPair(5, "torn")]
    assert filled.status().damaged_pairs == 1
    assert filled.events(kinds=["pairs-damaged"]).events[0].detail == {"pair": 5, "reason": "torn"}
    assert 5 not in [row.id for row in filled.stalest_pairs(100)]
    assert 5 not in [row.id for row in filled.pairs(undamaged=True)]
    query(store_url, "UPDATE derivations SET current = averages WHERE pair_id = 5")
    filled.request_withdrawals([5, 6])
    withdraw_requested(filled)
    assert [row.id for row in filled.pairs_by_id([5, 6])] == [5]
    done = repair(filled)
    assert (done.released_pairs, done.reset_pairs) == (1, [5])
    withdraw_requested(filled)
    assert filled.pairs_by_id([5, 6]) == []
    assert is_consistent(filled)
