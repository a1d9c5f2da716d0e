"""New pairs are sampled first, then the least recently sampled ones. Interruptions do not affect the result."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.daemon.learning.stores import QUICK, contents, fill, some_pairs
from tests.daemon.serving.turns import LOG, SHORT, ManualTurns
from tests.storage.building import make_pairs

from hierogram.daemon.configuration import Configuration
from hierogram.daemon.learning.kinds.synchronous import SynchronousChain
from hierogram.daemon.learning.learner import Learner
from hierogram.daemon.learning.verifying import verify
from hierogram.daemon.serving.sampling import SamplingLoop
from hierogram.daemon.serving.supervision import HealthRegistry, Heartbeat
from hierogram.samplers.counts.models import Model
from hierogram.samplers.grammar import keys
from hierogram.storage.exceptions import StoreUnavailableError
from hierogram.storage.records.pairs import LagRow
from hierogram.storage.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/s.db", create=True, settings=QUICK) as opened:
        fill(opened, some_pairs(30))
        yield opened


def test_new_pairs_settle_and_settled_ones_are_resampled_in_turn(store: Store) -> None:
    with ManualTurns(store, idle_share=1.0) as turns:
        turns.settle()
        assert {row.sweep for row in store.pairs()} == {6}
        turns.turns.run_turn()
        assert {row.sweep for row in store.pairs()} == {8}
    assert verify(store).problems == []


def test_short_turns_take_one_sweep_each(store: Store) -> None:
    with ManualTurns(store, **SHORT) as turns:
        assert turns.settle() == 6
    assert verify(store).problems == []


def test_interruptions_do_not_change_the_result(tmp_path: Path) -> None:
    results = []
    for interrupted in (False, True):
        with open_store(f"sqlite:///{tmp_path}/{interrupted}.db", create=True, settings=QUICK) as store:
            fill(store, some_pairs(30))
            while store.lag().pairs:
                with ManualTurns(store) as turns:
                    if interrupted:
                        turns.stop.set()
                        turns.turns.run_turn()
                    else:
                        turns.settle()
            results.append(contents(store))
    assert results[0] == results[1]


def test_pairs_that_arrive_later_do_not_wait_for_earlier_ones(store: Store) -> None:
    with ManualTurns(store, **SHORT) as turns:
        turns.turns.run_turn()
        fill(store, some_pairs(35)[30:])
        turns.turns.run_turn()
        # Both the new and the earlier pairs have had a turn.
        assert sorted({(row.id > 30, row.sweep) for row in store.pairs()}) == [(False, 2), (True, 1)]
        turns.settle()
    assert verify(store).problems == []


def test_pairs_beyond_the_memory_limit_take_turns(store: Store) -> None:
    with ManualTurns(store, pairs_at_once=8) as turns:
        turns.turns.run_turn()
        assert store.count_pairs(["settled"]) == 8
        turns.settle()
    assert store.count_pairs(["settled"]) == 30
    assert verify(store).problems == []


def test_settled_pairs_are_also_sampled_while_there_are_new_pairs(store: Store) -> None:
    with ManualTurns(store, new_share=0.01, commit_seconds=1e-6) as turns:
        turns.settle()
        fill(store, some_pairs(40)[30:])
        before = sum(row.sweep for row in store.pairs(limit=30))
        turns.turns.run_turn()
        assert sum(row.sweep for row in store.pairs(limit=30)) > before


def test_withdrawn_pairs_are_removed_from_memory(store: Store) -> None:
    with ManualTurns(store, **SHORT) as turns:
        turns.turns.run_turn()
        store.request_withdrawals([3, 30])
        turns.settle()
        turns.turns.run_turn()
        assert store.count_pairs() == 28
        with Learner(store) as fresh:
            assert turns.learner.measure() == fresh.measure()
    assert verify(store).problems == []


def test_the_model_follows_changes_of_the_vocabulary(store: Store) -> None:
    with ManualTurns(store) as turns:
        turns.settle()
        batch = store.begin_ingest("more", "more", "pipes")
        store.add_pairs(
            batch, make_pairs([some_pairs(1)[0]._replace(source="never seen", target="jamais vu", alignment="0-0 1-1")])
        )
        turns.turns.run_turn()
        assert model(turns.learner).log_source == model(Learner(store)).log_source


def model(learner: Learner) -> Model:
    assert isinstance(learner.chain, SynchronousChain)
    return learner.chain.model


class Running:
    """Sampling loop with the settings of a daemon that commits often."""

    def __init__(self, store: Store) -> None:
        self.stop = threading.Event()
        self.failed: Exception | None = None
        configuration = Configuration.model_validate({"sampling": {"threads": 1, "commit_seconds": 0.05}})
        self.loop = SamplingLoop(store, lambda: configuration, HealthRegistry(), LOG)

    def run(self) -> None:
        self.loop.run(self.stop, Heartbeat())


def test_rules_that_share_a_key_are_separated_without_a_restart(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "ALL_BITS", np.uint64(0xFF))
    fill(store, some_pairs(60)[30:])
    running = Running(store)
    thread = threading.Thread(target=running.run)
    thread.start()
    for _ in range(2_000):
        if store.count_pairs(["settled"]) == 60:
            break
        thread.join(0.02)
    running.stop.set()
    thread.join()
    assert store.settings().key_salt > 0
    assert verify(store).problems == []


def test_sampling_restarts_with_correct_counts_after_a_failed_commit(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Running(store)

    def fail(*_: object) -> None:
        raise StoreUnavailableError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(Store, "commit", fail)
        with pytest.raises(StoreUnavailableError):
            running.run()
    with ManualTurns(store) as turns:
        turns.settle()
        with Learner(store) as fresh:
            assert turns.learner.measure() == fresh.measure()
    assert verify(store).problems == []


def test_lag_restarts_when_a_pair_is_behind_again() -> None:
    health = HealthRegistry()
    health.record_lag(LagRow(1, 1_000.0))
    assert (health.lag().oldest_seconds or 0.0) >= 1_000
    health.record_lag(LagRow(0, None))
    assert health.lag().oldest_seconds is None
    health.record_lag(LagRow(1, 1_000.0))
    assert 0 <= (health.lag().oldest_seconds or 0.0) < 1_000
