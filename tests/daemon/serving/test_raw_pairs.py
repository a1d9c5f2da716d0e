"""The daemon on an ITG store: new raw pairs are sampled given all other pairs, and resampled when idle."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.daemon.learning.raw_pairs import MORE, QUICK, RAW, put
from tests.daemon.serving.conftest import Daemon, drop, until
from tests.daemon.serving.turns import SHORT, ManualTurns
from tests.storage.building import read_counts

from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.verifying import verify
from hierogram.storage.store import Store, open_store


@pytest.fixture
def raw(store_url: str) -> Iterator[Store]:
    """A store with a small corpus without links. Parametrized by database."""
    with open_store(store_url, create=True, settings=QUICK) as store:
        put(store, RAW)
        yield store


def test_new_pairs_settle_and_all_are_resampled(raw: Store) -> None:
    with ManualTurns(raw, idle_share=1.0) as turns:
        turns.settle()
        assert {row.sweep for row in raw.pairs()} == {QUICK.burn_in}
        turns.turns.run_turn()
        assert {row.sweep for row in raw.pairs()} == {QUICK.burn_in + QUICK.round_sweeps}
        put(raw, MORE, first=100)
        turns.settle()
    assert {row.sweep for row in raw.pairs()} == {QUICK.burn_in + QUICK.round_sweeps, QUICK.burn_in}
    assert verify(raw).problems == []


@pytest.mark.database("sqlite")
def test_the_daemon_and_learn_give_the_same_dictionary(raw: Store, tmp_path: Path) -> None:
    with ManualTurns(raw, **SHORT) as turns:
        turns.settle()
    with open_store(f"sqlite:///{tmp_path}/other.db", create=True, settings=QUICK) as other:
        put(other, RAW)
        learn(other, sweeps=0)
        assert read_counts(other) == read_counts(raw)
        assert other.labels() == raw.labels()


def test_pairs_are_withdrawn_between_turns(raw: Store) -> None:
    with ManualTurns(raw, **SHORT) as turns:
        turns.turns.run_turn()
        raw.request_withdrawals([2, 7])
        turns.settle()
        assert raw.count_pairs(["settled"]) == len(RAW) - 2
        assert turns.learner.chain.rule_tokens == raw.status().rule_tokens
        raw.request_withdrawals([row.id for row in raw.pairs()])
        turns.turns.run_turn()
        turns.turns.run_turn()
    assert raw.status().rules_in_use == 0
    assert verify(raw).problems == []


@pytest.mark.slow
@pytest.mark.database("postgres")
def test_a_killed_daemon_continues_to_ingest_after_a_restart(
    raw: Store, store_url: str, serve: Callable[..., Daemon], tmp_path: Path
) -> None:
    spool = tmp_path / "spool"
    daemon = serve("--store", store_url, "--spool", str(spool))
    daemon.until("daemon started")
    until(lambda: raw.status().sweeps > 2)
    daemon.kill()
    assert verify(raw).problems == []
    daemon = serve("--store", store_url, "--spool", str(spool))
    daemon.until("daemon started")
    drop(spool / "news", "one.unaligned", "")
    for ending, side in (("source", 0), ("target", 1)):
        drop(spool / "news", f"one.{ending}", "".join(pair[side] + "\n" for pair in MORE))
    assert daemon.until("file ingested")["accepted"] == len(MORE)
    until(lambda: raw.count_pairs(["settled"]) == len(RAW) + len(MORE))
    [found] = raw.request_withdrawals([1])
    until(lambda: raw.pairs_by_id([found]) == [])
    assert daemon.end() == 0
    report = verify(raw)
    assert (report.problems, report.pairs) == ([], len(RAW) + len(MORE) - 1)
