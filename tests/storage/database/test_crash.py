"""A killed process loses only the commit in progress, and commits are atomic."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from tests.storage.building import commit, ingest, integrity, make_pairs, pair, read_counts
from tests.storage.database.committer import CHUNK, LINES, PAIRS, derivation_deltas

from hierogram.storage.store import Store

ROOT = Path(__file__).parents[3]
KILLS = 3


def run_and_kill(url: str, work: str, seconds: float) -> int:
    """Run a process for some time after its first report, kill it, and return its last report."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.storage.database.committer", url, work],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        reported = int(process.stdout.readline())
        time.sleep(seconds)
        process.kill()
        for line in process.stdout:
            if line.endswith("\n"):
                reported = int(line)
    assert process.returncode == -signal.SIGKILL
    return reported


def settle(store: Store) -> None:
    """Wait for the store's lock, so that a commit that the server was still executing has ended."""
    commit(store, [], [])


@pytest.mark.slow
def test_a_process_killed_while_it_commits_keeps_whole_commits(store: Store, store_url: str) -> None:
    random = Random(2014)
    ingest(store, [pair(f"s{n}", f"t{n}") for n in range(PAIRS)])
    for _ in range(KILLS):
        reported = run_and_kill(store_url, "commit", random.uniform(0.0, 0.12))
        settle(store)
        (derivation,) = {int(row.current or b"-1") for row in store.pairs()}
        # A commit may be complete but not yet reported.
        assert derivation in (reported, reported + 1)
        expected = {(d.source, d.target): (d.count, d.expected_uses) for d in derivation_deltas(derivation, 1)}
        assert read_counts(store) == expected
        assert {row.sweep for row in store.pairs()} == {derivation}
        assert integrity(store) == []


@pytest.mark.slow
def test_a_process_killed_while_it_ingests_keeps_whole_chunks(store: Store, store_url: str) -> None:
    random = Random(10)
    last = 0
    for _ in range(KILLS):
        reported = run_and_kill(store_url, "ingest", random.uniform(0.0, 0.15))
        settle(store)
        stored = store.count_pairs()
        assert stored in (max(last, reported), max(last, reported + CHUNK))
        assert [row.source for row in store.pairs()] == [line.source for line in LINES[:stored]]
        assert integrity(store) == []
        last = stored
    rest = store.begin_ingest("corpus", "lines", "bars")
    totals = store.add_pairs(rest, make_pairs(LINES[: last + 100]))[0]
    assert (totals.duplicates, totals.accepted) == (last, 100)
