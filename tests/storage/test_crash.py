"""A process that is killed loses at most its last commit, and no commit is ever half there."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

from tests.storage.building import counts_of, ingest, pair
from tests.storage.committer import PAIRS, counted

from hierogram.storage.store import Store

ROOT = Path(__file__).parents[2]
KILLS = 5


def run_and_kill(url: str, seconds: float) -> int:
    """Lets a committer run for so long after its first commit, kills it, and returns the last one that it reported."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.storage.committer", url], cwd=ROOT, stdout=subprocess.PIPE, text=True
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


def test_killed_at_any_instant(store: Store, store_url: str) -> None:
    random = Random(2014)
    ingest(store, [pair(f"s{n}", f"t{n}") for n in range(PAIRS)])
    for _ in range(KILLS):
        reported = run_and_kill(store_url, random.uniform(0.0, 0.12))
        (derivation,) = {int(row.current or b"-1") for row in store.pairs()}
        # A commit may be done and not yet reported.
        assert derivation in (reported, reported + 1)
        expected = {(d.source, d.target): (d.count, d.sampled_count) for d in counted(derivation, 1)}
        assert counts_of(store) == expected
        assert {row.sweep for row in store.pairs()} == {derivation}
        assert store.integrity() == []
