"""The daemon on a tree store: new trees are annealed given all other trees, and all trees are resampled when idle."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.daemon.learning.treebanks import QUICK, TREES, put
from tests.daemon.serving.conftest import Daemon, drop, until
from tests.daemon.serving.turns import LOG, SHORT, ManualTurns
from tests.storage.building import read_counts

from hierogram.daemon.configuration import Configuration
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.verifying import verify
from hierogram.daemon.serving.sampling import SamplingLoop
from hierogram.daemon.serving.supervision import HealthRegistry, Heartbeat
from hierogram.samplers.grammar import keys
from hierogram.storage.store import Store, open_store

LATER = ["(S (NP (PRP he)) (VP (VBD slept)))", "(S (NP (DT a) (NN dog)) (VP (VBD slept)))"]


@pytest.fixture
def treebank(store_url: str) -> Iterator[Store]:
    """A store with a small treebank. Parametrized by database."""
    with open_store(store_url, create=True, settings=QUICK) as store:
        put(store, TREES)
        yield store


def test_new_trees_are_annealed_and_all_are_resampled(treebank: Store) -> None:
    with ManualTurns(treebank, idle_share=1.0) as turns:
        turns.settle()
        assert {row.sweep for row in treebank.pairs()} == {QUICK.annealing}
        turns.turns.run_turn()
        assert {row.sweep for row in treebank.pairs()} == {QUICK.annealing + QUICK.round_sweeps}
        put(treebank, LATER, first=100)
        turns.settle()
    sweeps = {row.id: row.sweep for row in treebank.pairs()}
    assert set(sweeps.values()) == {QUICK.annealing + QUICK.round_sweeps, QUICK.annealing}
    assert verify(treebank).problems == []


@pytest.mark.database("sqlite")
def test_the_daemon_and_learn_give_the_same_trees(treebank: Store, tmp_path: Path) -> None:
    with ManualTurns(treebank, **SHORT) as turns:
        turns.settle()
    with open_store(f"sqlite:///{tmp_path}/other.db", create=True, settings=QUICK) as other:
        put(other, TREES)
        learn(other, sweeps=0)
        assert read_counts(other) == read_counts(treebank)
        assert other.labels() == treebank.labels()


def test_trees_are_withdrawn_between_turns(treebank: Store) -> None:
    with ManualTurns(treebank, **SHORT) as turns:
        turns.turns.run_turn()
        treebank.request_withdrawals([2, 7])
        turns.settle()
        assert treebank.count_pairs(["settled"]) == len(TREES) - 2
        assert turns.learner.chain.rule_tokens == treebank.status().rule_tokens
        treebank.request_withdrawals([row.id for row in treebank.pairs()])
        turns.turns.run_turn()
        turns.turns.run_turn()
    assert treebank.status().rules_in_use == 0
    assert verify(treebank).problems == []


def test_fragments_that_share_a_key_are_separated_without_a_restart(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "ALL_BITS", np.uint64(0x1F))
    configuration = Configuration.model_validate({"sampling": {"threads": 1, "commit_seconds": 0.05}})
    with open_store(store_url, create=True, settings=replace(QUICK, start="random", seed=2)) as store:
        put(store, TREES[:4])
        stop = threading.Event()
        loop = SamplingLoop(store, lambda: configuration, HealthRegistry(), LOG)
        thread = threading.Thread(target=lambda: loop.run(stop, Heartbeat()))
        thread.start()
        try:
            until(lambda: store.count_pairs(["settled"]) == 4)
        finally:
            stop.set()
            thread.join()
        assert store.settings().key_salt > 0
        assert verify(store).problems == []


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_daemon_learns_spooled_files_of_trees(
    treebank: Store, store_url: str, serve: Callable[..., Daemon], tmp_path: Path
) -> None:
    spool = tmp_path / "spool"
    daemon = serve("--store", store_url, "--spool", str(spool))
    daemon.until("daemon started")
    drop(spool / "news", "one.mrg", "".join(tree + "\n" for tree in LATER) + "(S (NP\n")
    taken = daemon.until("file ingested")
    assert (taken["corpus"], taken["accepted"], taken["rejected"]) == ("news", 2, 1)
    drop(spool, "lists.nbest", "".join(tree + "\n" for tree in LATER[:1]) + "\n")
    assert daemon.until("file ingested")["accepted"] == 1
    for ending in ("source", "target", "alignment"):
        drop(spool, f"two.{ending}", "a\n")
    assert "not bitexts" in str(daemon.until("file failed")["reason"])
    total = len(TREES) + len(LATER) + 1
    until(lambda: treebank.count_pairs(["settled"]) == total)
    [found] = treebank.request_withdrawals([1])
    until(lambda: treebank.pairs_by_id([found]) == [])
    assert daemon.end() == 0
    report = verify(treebank)
    assert (report.problems, report.pairs) == ([], total - 1)
