"""The parent process of a learning run ends like its child, and reports committed work if Ray ends the child."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.daemon.campaigns.daemon import PATIENCE, wait_until
from tests.daemon.campaigns.processes import all_ended, below, is_running
from tests.daemon.learning.stores import QUICK, contents, fill, some_pairs

from hierogram.daemon.learning.learner import LearnOptions
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.verifying import verify
from hierogram.samplers.synchronous.sweeps import Blocks
from hierogram.storage.store import open_store

WATCHED = """
import os, signal, sys, time
from hierogram.daemon.cli import main
from hierogram.daemon.workers.parent_process import run_watched
def run():
    with run_watched(sys.argv[1]):
        print("within", os.getppid(), flush=True)
        exec(sys.argv[2])
    print("after", flush=True)
    exec(sys.argv[3])
main.main(run)
"""


def watching(url: str, within: str, after: str = "pass") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WATCHED, url, within, after]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    with open_store(f"sqlite:///{tmp_path_factory.mktemp('watched')}/s.db", create=True, settings=QUICK) as store:
        fill(store, some_pairs(7))
        store.begin_run(9)
        return store.url


@pytest.mark.slow
@pytest.mark.parametrize(
    ("within", "after", "code"),
    [("pass", "pass", 0), ("sys.exit(130)", "pass", 130), ("pass", "sys.exit(3)", 3), ("pass", "os._exit(1)", 1)],
)
def test_it_ends_like_the_child(url: str, within: str, after: str, code: int) -> None:
    with watching(url, within, after) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (code, "")
    assert out.startswith(f"within {process.pid}\n")
    assert out.count("\n") == (1 if "130" in within else 2)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["os._exit(1)", "os.abort()"])
def test_it_reports_committed_work_if_the_child_is_killed(url: str, end: str) -> None:
    with watching(url, end) as process:
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 3
    assert "hierogram: lost the cluster: Ray has stopped on this machine; committed so far: burn-in of 0 of 7" in err
    assert "and 0 of the 9 sweeps after it" in err


def test_it_reports_the_end_even_if_the_store_is_gone(tmp_path: Path) -> None:
    with watching(f"sqlite:///{tmp_path}/none.db", "os._exit(1)") as process:
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 3
    assert "lost the cluster" in err
    assert "it is unknown what was committed" in err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_child_receives_signals(url: str, number: signal.Signals) -> None:
    said = f"signal.signal({int(number)}, lambda *_: (print('heard', flush=True), sys.exit(77)))"
    with watching(url, f"{said}; print('ready', flush=True); time.sleep({PATIENCE})") as process:
        assert process.stdout is not None
        assert process.stdout.readline() + process.stdout.readline() == f"within {process.pid}\nready\n"
        process.send_signal(number)
        assert process.stdout.readline() == "heard\n"
        assert process.wait(PATIENCE) == 77


TWICE = """
ended = 1
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(9)
except KeyboardInterrupt:
    os.kill(os.getpid(), signal.SIGINT)
    ended = 7
time.sleep(0.3)
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(9)
except KeyboardInterrupt:
    ended += 1
sys.exit(ended)
"""


@pytest.mark.slow
def test_ctrl_c_received_twice_counts_once(url: str) -> None:
    with watching(url, TWICE) as process:
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 8


def test_both_end_by_a_signal_that_ends_the_child(url: str) -> None:
    with watching(url, "os.kill(os.getpid(), signal.SIGTERM)") as process:
        process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGTERM


def test_the_child_ends_with_its_parent(url: str) -> None:
    with watching(url, f"time.sleep({PATIENCE})") as process:
        assert process.stdout is not None
        process.stdout.readline()
        [child] = below(process)
        process.kill()
        process.wait(PATIENCE)
    wait_until(lambda: not is_running(child), "the child ends")


LEARNING = """
import sys
from hierogram.daemon.learning import learner
learner.SECONDS_PER_COMMIT = 0.5
from hierogram.daemon.cli.main import main
sys.argv = ["hierogram", "--store", sys.argv[1], "learn", "--sweeps", "400", "--workers", "2", "--blocks", "3x8"]
main()
"""
"""`hierogram learn` with two workers and frequent commits."""


@pytest.mark.campaign
@pytest.mark.timeout(900)
@pytest.mark.parametrize("what", ["raylet", "ray::DashboardAgent"])
def test_learning_reports_a_killed_ray_and_continues_from_there(what: str, tmp_path: Path) -> None:
    found = []
    for name in ("threads", "workers"):
        with open_store(f"sqlite:///{tmp_path}/{name}.db", create=True, settings=QUICK) as store:
            fill(store, some_pairs(400))
            if name == "workers":
                with subprocess.Popen([sys.executable, "-c", LEARNING, store.url], stderr=subprocess.PIPE) as process:
                    wait_until(lambda s=store: s.status().sweeps > 20, "it commits")
                    started = below(process)
                    [one] = [child for child in started if child.name() == what]
                    one.kill()
                    _, err = process.communicate(timeout=PATIENCE)
                assert process.returncode == 3
                assert b"hierogram: lost the cluster" in err
                assert b"of the 400 sweeps after it" in err
                wait_until(lambda s=started: all_ended(set(s)), "all its processes end")
                run = store.unfinished_run()
                assert run is not None
                assert 0 < run.sweeps_done < 400
                assert f"and {run.sweeps_done} of the 400 sweeps" in err.decode()
            learn(store, sweeps=400, options=LearnOptions(1, blocks=Blocks(3, 8)))
            assert verify(store).problems == []
            found.append(contents(store))
    assert found[0] == found[1]
