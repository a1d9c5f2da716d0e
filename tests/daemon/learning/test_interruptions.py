"""A run of learning that is interrupted and continued ends in the same state as an uninterrupted one."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.daemon.conftest import Run
from tests.daemon.learning.every_kind import CASES, Case
from tests.daemon.learning.stores import QUICK, contents, fill, some_pairs

import hierogram as hg
from hierogram.daemon.learning import learner as learners
from hierogram.daemon.learning.learner import LearnOptions
from hierogram.daemon.learning.learning import find_interrupted_run, learn
from hierogram.daemon.learning.verifying import verify
from hierogram.samplers.grammar import keys
from hierogram.samplers.grammar.columns import Blobs
from hierogram.storage.store import Store, open_store

SWEEPS = 7


ONE_DATABASE = pytest.mark.database("sqlite")


@pytest.fixture(
    params=[
        pytest.param(("phrases", 4_000_000), id="phrases", marks=ONE_DATABASE),
        pytest.param(("phrases", 100), id="phrases in batches"),
        pytest.param(("trees", 100), id="trees", marks=ONE_DATABASE),
        pytest.param(("itg", 100), id="itg", marks=ONE_DATABASE),
    ]
)
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Case:
    """A kind of grammar, learned in batches with a limited number of words."""
    kind, words = request.param
    monkeypatch.setattr(learners, "_WORDS_PER_BATCH", words)
    return CASES[kind]


def all_contents(store: Store) -> tuple[object, ...]:
    return (*contents(store), store.labels())


def stopped_after(sweeps: int) -> LearnOptions:
    calls = iter(range(10_000))
    return LearnOptions(1, stop=lambda: next(calls) >= sweeps)


@pytest.fixture(scope="module")
def whole() -> dict[object, tuple[object, ...]]:
    """Cache for the results of uninterrupted runs."""
    return {}


@pytest.fixture
def expected(
    case: Case, request: pytest.FixtureRequest, whole: dict[object, tuple[object, ...]], tmp_path: Path
) -> tuple[object, ...]:
    """The result of an uninterrupted run."""
    of_case = request.node.callspec.params["case"]
    if of_case not in whole:
        with open_store(f"sqlite:///{tmp_path}/whole.db", create=True, settings=case.settings) as store:
            case.fill(store)
            assert learn(store, sweeps=SWEEPS, options=LearnOptions(1)).finished
            whole[of_case] = all_contents(store)
    return whole[of_case]


@pytest.mark.slow
def test_stopped_runs_continue_to_the_result_of_an_uninterrupted_run(
    case: Case, expected: tuple[object, ...], tmp_path: Path
) -> None:
    for steps in ((1, 2, 4), (0, 17)):
        with open_store(f"sqlite:///{tmp_path}/{steps}.db", create=True, settings=case.settings) as store:
            case.fill(store)
            numbers = cycle(steps)
            runs = 1
            while not learn(store, sweeps=SWEEPS, options=stopped_after(next(numbers))).finished:
                assert verify(store).problems == []
                runs += 1
            assert runs > 1
            assert all_contents(store) == expected
            assert store.unfinished_run() is None


class KilledError(Exception):
    pass


@pytest.mark.slow
def test_failed_commits_keep_the_store_consistent_and_the_result_equal(
    case: Case, expected: tuple[object, ...], store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learners, "_PAIRS_PER_COMMIT", 3)
    with open_store(store_url, create=True, settings=case.settings) as store:
        case.fill(store)
        parts = learners.ResidentBatch._parts
        for commits in (0, 1, 3):
            turns = count()

            def broken(
                batch: learners.ResidentBatch, averages: Blobs, commits: int = commits, turns: Iterator[int] = turns
            ) -> Iterator[Any]:
                breaks = next(turns) >= commits
                for number, part in enumerate(parts(batch, averages)):
                    if breaks and number == 2:
                        raise KilledError
                    yield part

            with monkeypatch.context() as patched:
                patched.setattr(learners.ResidentBatch, "_parts", broken)
                patched.setattr("hierogram.daemon.learning.learner.SECONDS_PER_COMMIT", 0.0)
                patched.setattr("hierogram.daemon.learning.learner._MIN_INTERVAL_PER_COMMIT", 0)
                with pytest.raises(KilledError):
                    learn(store, sweeps=SWEEPS, options=LearnOptions(1))
            assert verify(store).problems == []
        assert learn(store, options=LearnOptions(1)).finished
        assert all_contents(store) == expected


def test_the_number_of_sweeps_determines_whether_a_run_is_continued(store_url: str) -> None:
    with open_store(store_url, create=True, settings=QUICK) as store:
        CASES["phrases"].fill(store)
        learn(store, sweeps=5, options=stopped_after(8))
        run = store.unfinished_run()
        assert run is not None
        assert (run.sweeps, run.sweeps_done) == (5, 1)
        # Another number of sweeps starts a new run, and the previous run can no longer be resumed.
        learn(store, sweeps=1)
        assert {row.sweep for row in store.pairs()} == {8}
        assert store.unfinished_run() is None
        learn(store, sweeps=5, options=stopped_after(3))
        learn(store)
        assert {row.sweep for row in store.pairs()} == {13}


def test_colliding_keys_do_not_restart_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "ALL_BITS", np.uint64(0x1FF))
    with open_store(f"sqlite:///{tmp_path}/s.db", create=True, settings=replace(QUICK, key_salt=0)) as store:
        fill(store, some_pairs(120))
        monkeypatch.setattr("hierogram.daemon.learning.learner.SECONDS_PER_COMMIT", 0.0)
        learn(store, sweeps=9)
        assert store.settings().key_salt > 0
        assert {row.sweep for row in store.pairs()} == {6 + 9}


COMMITTING = """
import sys
from hierogram.daemon.learning import learner
learner.SECONDS_PER_COMMIT = 0.0
learner._MIN_INTERVAL_PER_COMMIT = 0
learner._PAIRS_PER_COMMIT = 7
from hierogram.daemon.cli.main import main
from hierogram.samplers.grammar.columns import Blobs
sys.argv = ["hierogram", "--store", sys.argv[1], "learn", "--sweeps", sys.argv[2], "--threads", "1"]
main()
"""
"""`hierogram learn` with a commit after each sweep, a few pairs at a time."""


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[object, ...]]:
    """Results of uninterrupted runs, by kind."""
    found = {}
    for kind in ("phrases", "trees", "itg"):
        case = CASES[kind]
        file = tmp_path_factory.mktemp(kind) / "s.db"
        with open_store(f"sqlite:///{file}", create=True, settings=case.settings) as store:
            case.fill(store)
            learn(store, sweeps=30, options=LearnOptions(1))
            found[kind] = all_contents(store)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("store_url", "kind", "number", "moments"),
    [
        # Interrupt the schedule and the sweeps after it.
        ("sqlite", "phrases", signal.SIGINT, (3, 15)),
        ("sqlite", "trees", signal.SIGTERM, (15,)),
        ("sqlite", "itg", signal.SIGKILL, (3,)),
        ("postgres", "phrases", signal.SIGKILL, (3, 15)),
    ],
    indirect=["store_url"],
)
def test_learning_interrupted_by_signals_and_continued_has_the_same_result(
    store_url: str,
    uninterrupted: dict[str, tuple[object, ...]],
    kind: str,
    number: signal.Signals,
    moments: tuple[int, ...],
    hierogram: Run,
) -> None:
    case = CASES[kind]
    with open_store(store_url, create=True, settings=case.settings) as store:
        case.fill(store)
        command = [sys.executable, "-c", COMMITTING, store_url, "30"]
        done = 0
        for until in moments:
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                end = time.monotonic() + 120
                while store.status().sweeps < until:
                    assert process.poll() is None, process.communicate()
                    assert time.monotonic() < end
                    time.sleep(0.002)
                os.kill(process.pid, number)
                _, output = process.communicate(timeout=120)
            assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number]
            assert ("completed sweeps are kept" in output) == (number != signal.SIGKILL)
            assert store.status().sweeps > done
            done = store.status().sweeps
            assert verify(store).problems == []
        ran = hierogram("--store", store_url, "learn", "--sweeps", "30", "--threads", "1")
        assert ran.code == 0
        assert "continuing an interrupted run" in ran.err
        assert all_contents(store) == uninterrupted[kind]


ENDING = """
import atexit, os, sys
from hierogram.daemon.cli import learning
from hierogram.daemon.learning.learner import ResidentBatch
from hierogram.daemon.cli.main import main

number, point = int(sys.argv[3]), sys.argv[4]
sys.argv = ["hierogram", "--store", sys.argv[1], "learn", "--sweeps", sys.argv[2], "--threads", "1"]

def strike(*_):
    os.kill(os.getpid(), number)

commit, report = ResidentBatch.commit, learning.print_learned

def committing(batch, store, records, labels, run):
    commit(batch, store, records, labels, run)
    if run is not None and run.sweeps_done == run.sweeps:
        strike()

if point == "commit":
    ResidentBatch.commit = committing
elif point == "report":
    learning.print_learned = lambda *done: (strike(), report(*done))
elif point == "exit":
    atexit.register(strike)
main()
"""
"""`hierogram learn` that sends itself a signal after its last commit, before its report, or at its exit."""


@pytest.mark.slow
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_finished_run_is_not_sampled_again(store_url: str, hierogram: Run) -> None:
    """A run exits with 0 if terminated after its last commit. If it is killed then, the next run reports it."""

    def run(number: int, point: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", ENDING, store_url, "5", str(int(number)), point]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    with open_store(store_url, create=True, settings=QUICK) as store:
        CASES["phrases"].fill(store)
        expected = 6
        for point in ("commit", "exit"):
            ended = run(signal.SIGTERM, point)
            assert (ended.returncode, "log-likelihood" in ended.stdout) == (0, True), (point, ended)
            expected += 5
            assert store.status().sweeps == expected
            assert store.unfinished_run() is None
        for point in ("commit", "report"):
            killed = run(signal.SIGKILL, point)
            assert (killed.returncode, killed.stdout) == (-9, "")
            expected += 5
            before = all_contents(store)
            again = hierogram("--store", store_url, "learn", "--sweeps", "5", "--threads", "1")
            assert (again.code, "the interrupted run had completed" in again.err) == (0, True), again
            assert "log-likelihood" in again.out
            assert store.status().sweeps == expected
            assert all_contents(store) == before


@pytest.mark.slow
def test_an_unreported_run_is_reported_and_not_sampled_again(case: Case, store_url: str) -> None:
    with open_store(store_url, create=True, settings=case.settings) as store:
        case.fill(store)
        done = learn(store, sweeps=SWEEPS, options=LearnOptions(1), leave_unfinished=True)
        before = all_contents(store)
        for sweeps in (SWEEPS, None):
            again = learn(store, sweeps=sweeps, options=LearnOptions(1), leave_unfinished=True)
            assert (again.finished, again.sweeps, again.pairs) == (True, 0, done.pairs)
            assert (again.rules_in_use_after, again.tokens_after) == (done.rules_in_use_after, done.tokens_after)
            assert again.log_likelihood_after == pytest.approx(done.log_likelihood_after)
            assert all_contents(store) == before
        # After the report is recorded, the same call starts another run.
        store.finish_run()
        assert learn(store, sweeps=SWEEPS, options=LearnOptions(1)).pair_sweeps == done.pairs * SWEEPS


def test_new_pairs_start_a_new_run_after_a_finished_run(store_url: str) -> None:
    with open_store(store_url, create=True, settings=QUICK) as store:
        fill(store, some_pairs(40))
        learn(store, sweeps=SWEEPS, options=LearnOptions(1), leave_unfinished=True)
        fill(store, some_pairs(41)[-1:])
        assert find_interrupted_run(store, SWEEPS) is None
        learn(store, sweeps=SWEEPS, options=LearnOptions(1))
        assert [row.sweep for row in store.pairs()] == [6 + 2 * SWEEPS] * 40 + [6 + SWEEPS]


@pytest.mark.parametrize("sweeps", [0, 3])
def test_a_run_interrupted_while_aligning_keeps_its_number_of_sweeps(
    store_url: str, monkeypatch: pytest.MonkeyPatch, sweeps: int
) -> None:
    def killed(*_: object, **_options: object) -> None:
        raise KilledError

    open_store(store_url, create=True, settings=QUICK).close()
    with hg.open(store_url) as store:
        store.add([(pair.source, pair.target) for pair in some_pairs(20)])
        with monkeypatch.context() as patched:
            patched.setattr("hierogram.daemon.library.learning.align_pending", killed)
            for _ in range(2):
                with pytest.raises(KilledError):
                    store.learn(sweeps).run()
        again = store.learn()
        assert again.align().pairs == 20
        run = again.resumed
        assert run is not None
        assert (run.sweeps, run.sweeps_done) == (sweeps, 0)
        assert again.run().finished
        assert {row.sweep for row in store.store.pairs()} == {6 + sweeps}
        # This is a new run that continues nothing.
        another = store.learn(1)
        another.align()
        assert another.resumed is None
        another.run()
        assert {row.sweep for row in store.store.pairs()} == {7 + sweeps}


@pytest.mark.campaign
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_terminated_or_killed_after_its_last_commit_loses_no_sweep_and_no_report(
    store_url: str, number: signal.Signals
) -> None:
    sweeps = 2
    command = [sys.executable, "-m", "hierogram", "--store", store_url, "learn", "--sweeps", str(sweeps)]
    at_end = 0
    killed_as_reported = False
    with open_store(store_url, create=True, settings=QUICK) as store:
        CASES["phrases"].fill(store)
        subprocess.run(command, capture_output=True, check=True)
        for attempt in range(30):
            before = store.status().sweeps
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                while store.status().sweeps < before + sweeps and process.poll() is None:
                    time.sleep(0.001)
                time.sleep(attempt * 0.002)
                if process.poll() is None:
                    at_end += 1
                    os.kill(process.pid, number)
                output, notes = process.communicate(timeout=120)
            if killed_as_reported and "the interrupted run had completed" in notes:
                # The process was killed after the report and before it was recorded.
                killed_as_reported = False
                assert (process.returncode, store.status().sweeps) == (0, before)
                continue
            assert store.status().sweeps == before + sweeps
            reported = "log-likelihood" in output
            killed_as_reported = reported and process.returncode == -signal.SIGKILL
            if number == signal.SIGTERM:
                assert (process.returncode, reported) == (0, True)
            elif not reported:
                assert process.returncode == -signal.SIGKILL
                again = subprocess.run(command, capture_output=True, text=True, check=True)
                assert "the interrupted run had completed" in again.stderr
                assert store.status().sweeps == before + sweeps
    assert at_end >= 10
