"""A run killed during alignment leaves a consistent store with either aligner, and the next run continues."""

import subprocess
import sys
import time
from dataclasses import replace

import pytest
from tests.daemon.conftest import QUICK
from tests.daemon.learning.alignment.arrivals import error_rate, put
from tests.storage.building import aligner_counts

from hierogram.daemon.learning.alignment import incremental
from hierogram.daemon.learning.learner import withdraw_all
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.verifying import verify
from hierogram.samplers.grammar.settings import FERTILITIES, ITG_ALIGNER
from hierogram.storage.records.aligner import AlignerCounts
from hierogram.storage.records.pairs import UNALIGNED
from hierogram.storage.store import Store, open_store

ALIGNING = """
import sys
from hierogram.daemon.learning.alignment import incremental
incremental._CELLS_PER_BATCH = 1_000
incremental._PAIRS_PER_COMMIT = 3
from hierogram.daemon.cli.main import main
sys.argv = ["hierogram", "--store", sys.argv[1], "learn", "--sweeps", "1", "--threads", "1"]
main()
"""
"""`hierogram learn` that aligns about 25 pairs per batch and commits three at a time."""

PAIRS = 120
TIMEOUT = 300.0


def kill_when_fewer_wait(store: Store, url: str, waiting: int) -> None:
    """Run the command, and kill it once fewer than `waiting` pairs are unaligned. Fails if it ends before."""
    with subprocess.Popen([sys.executable, "-c", ALIGNING, url], stderr=subprocess.PIPE, text=True) as process:
        end = time.monotonic() + TIMEOUT
        while store.count_pairs([UNALIGNED]) >= waiting:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.002)
        process.kill()
        process.communicate(timeout=TIMEOUT)
    assert process.returncode == -9


@pytest.mark.slow
@pytest.mark.parametrize("aligner", [FERTILITIES, pytest.param(ITG_ALIGNER, marks=pytest.mark.database("sqlite"))])
def test_a_process_killed_during_alignment_keeps_committed_links(
    store_url: str, aligner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(store_url, create=True, settings=replace(QUICK, aligner=aligner)) as store:
        put(store, 0, PAIRS)
        kill_when_fewer_wait(store, store_url, PAIRS)
        left = store.count_pairs([UNALIGNED])
        assert 0 < left < PAIRS
        assert verify(store).problems == []
        aligned = [row for row in store.pairs() if row.alignment]
        assert len(aligned) == PAIRS - left
        assert {row.aligned_by for row in aligned} == {"aligner"}
        # Every pair that is sent again is a duplicate, whether it is aligned or not.
        put(store, 0, PAIRS)
        assert (store.count_pairs(), store.count_pairs([UNALIGNED])) == (PAIRS, left)
        monkeypatch.setattr(incremental, "_CELLS_PER_BATCH", 1_000)
        monkeypatch.setattr(incremental, "_PAIRS_PER_COMMIT", 3)
        incremental.align_pending(store, threads=1)
        learn(store, sweeps=1)
        assert (store.count_pairs(), store.count_pairs([UNALIGNED])) == (PAIRS, 0)
        assert verify(store).problems == []
        assert error_rate(store, 0, PAIRS) < 0.2
        withdraw_all(store, [row.id for row in store.pairs()], lambda _done: None)
        assert verify(store).problems == []
        assert aligner_counts(store) == AlignerCounts([], [], [])
