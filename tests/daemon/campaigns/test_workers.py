"""Workers, the lease holder and the database are killed at random moments, and no pair is lost or counted twice."""

import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest
from tests.daemon.campaigns.daemon import TIMEOUT, assert_consistent, wait_until
from tests.daemon.campaigns.processes import all_ended, descendants, worker_processes
from tests.daemon.learning.stores import QUICK, contents, fill, some_pairs
from tests.storage.building import query

from hierogram.storage.store import open_store

PAIRS, SWEEPS = 400, 60
ABANDONED = 0.1
"""Share of the killed runs that are not continued, so that alignment is also interrupted often."""
WORKER, DRIVER, DATABASE = "worker", "driver", "database"

LEARNING = """
import sys
from hierogram.daemon.learning import learner
learner.SECONDS_PER_COMMIT = 0.5
from hierogram.daemon.cli.main import main
sys.argv = ["hierogram", "--store", sys.argv[1], "learn", "--blocks", "3x8", *sys.argv[2:]]
main()
"""
"""`hierogram learn` for pairs without links. It commits often."""
BY_WORKERS = ("--workers", "3")


def learn_command(url: str, *arguments: str) -> list[str]:
    """Return the command that aligns the pairs and completes their sweeps."""
    return [sys.executable, "-c", LEARNING, url, "--sweeps", str(SWEEPS), *arguments]


def create_unaligned_store(url: str) -> None:
    with open_store(url, create=True, settings=QUICK) as store:
        fill(store, [pair._replace(alignment=None) for pair in some_pairs(PAIRS)])


def kill(what: str, process: subprocess.Popen[bytes], server: Any, random: Random) -> bool:
    """Kill a worker or the driver, or restart the database server. Returns False if no worker is running."""
    if what == WORKER:
        workers = worker_processes(process)
        if not workers:
            return False
        random.choice(workers).kill()
    elif what == DRIVER:
        process.kill()
    else:
        server.stop()
        wait_until(lambda: start_server(server), "the server starts")
    return True


def start_server(server: Any) -> bool:
    """Start the server. Returns False if this takes longer than pg_ctl waits."""
    try:
        server.ensure_postgres_running()
    except subprocess.SubprocessError:
        return False
    return True


def kill_again_and_again(server: Any, folder: Path, kills: int, targets: tuple[str, ...]) -> None:
    random = Random(24)
    url = server.get_uri()
    alone = f"sqlite:///{folder}/expected.db"
    create_unaligned_store(alone)
    subprocess.run(learn_command(alone, "--threads", "1"), check=True)
    with open_store(alone) as store:
        expected = contents(store)
    create_unaligned_store(url)
    killed = dict.fromkeys(targets, 0)
    finished = while_aligning = 0
    started: set[psutil.Process] = set()
    while sum(killed.values()) < kills or not finished:
        command = learn_command(url, *BY_WORKERS)
        with (folder / "log").open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
            wait_until(lambda p=process: p.poll() is not None or worker_processes(p), "workers start")
            workers: set[psutil.Process] = set()
            while process.poll() is None:
                time.sleep(random.uniform(0.0, 1.5))
                workers.update(worker_processes(process))
                started.update(descendants(process))
                what = random.choice(targets)
                if sum(killed.values()) < kills and process.poll() is None:
                    [(unaligned,)] = query(url, "SELECT count(*) FROM sentence_pairs WHERE state = 'unaligned'")
                    was_killed = kill(what, process, server, random)
                    killed[what] += was_killed
                    while_aligning += was_killed and unaligned > 0
            process.wait(TIMEOUT)
            wait_until(lambda workers=workers: all_ended(workers), "its workers end")
        assert_consistent(url)
        if process.returncode == 0:
            finished += 1
            with open_store(url) as store:
                assert contents(store) == expected
        if sum(killed.values()) < kills and (process.returncode == 0 or random.random() < ABANDONED):
            recreate_store(url)
    assert all(killed.values()), killed
    assert while_aligning
    # Ray's helper processes take about a minute to notice that the driver has ended.
    wait_until(lambda: all_ended(started), "all processes of the drivers end")


def recreate_store(url: str) -> None:
    from sqlalchemy import create_engine, text

    from hierogram.storage.database.connection import parse_url

    engine = create_engine(parse_url(url), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
    create_unaligned_store(url)


@pytest.mark.campaign
@pytest.mark.timeout(14_400)
def test_learning_with_workers_recovers_from_two_hundred_kills(own_server: Any, tmp_path: Path) -> None:
    """HIEROGRAM_TEST_KILLS overrides the number of kills."""
    kills = int(os.environ.get("HIEROGRAM_TEST_KILLS", "200"))
    kill_again_and_again(own_server, tmp_path, kills, (WORKER, DRIVER, DATABASE))
