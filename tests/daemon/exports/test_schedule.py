"""Exports on a schedule: missed runs happen once, none overlap, each is recorded."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.daemon.conftest import Run, make_store
from tests.storage.building import commit, delta, query

from hierogram.daemon.configuration import load_configuration
from hierogram.daemon.exceptions import DaemonError
from hierogram.daemon.exports import schedule as scheduling
from hierogram.daemon.exports.exporting import Published
from hierogram.daemon.exports.options import ExportJob, parse_span
from hierogram.daemon.exports.publication import versions
from hierogram.daemon.exports.schedule import ExportSchedule, add_job, find_job, list_jobs, remove_job
from hierogram.storage.options import from_plain
from hierogram.storage.store import Store, open_store

PATIENCE = 60.0


class Heard:
    """What a schedule tells, and a way to wait for it."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, Published | None, Exception | None]] = []
        self._changed = threading.Condition()

    def __call__(self, job: str, made: Published | None, error: Exception | None) -> None:
        with self._changed:
            self.runs.append((job, made, error))
            self._changed.notify_all()

    def wait(self, number: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.runs) >= number, PATIENCE)


@pytest.fixture
def running() -> Iterator[Callable[[ExportSchedule], ExportSchedule]]:
    """Starts schedules, and stops them in the end."""
    started: list[ExportSchedule] = []

    def start(schedule: ExportSchedule) -> ExportSchedule:
        started.append(schedule)
        schedule.start()
        return schedule

    yield start
    for schedule in started:
        schedule.stop()


@pytest.fixture
def store(store: Store) -> Store:
    """The empty store, with a rule."""
    commit(store, [], [delta("a", "x", 3)])
    return store


def job(folder: Path, name: str = "news", **options: object) -> ExportJob:
    return from_plain(ExportJob, {"name": name, "to": folder / name, "every": "1h", **options})


def make_due(url: str, name: str, missed: timedelta = timedelta(hours=5)) -> None:
    """As if the job should have run long ago, and again and again since."""
    query(
        url,
        "UPDATE scheduled_jobs SET next_run = :then WHERE id = :id",
        id=name,
        then=(datetime.now(UTC) - missed).timestamp(),
    )


def test_missed_runs_happen_once(
    store: Store, store_url: str, tmp_path: Path, running: Callable[[ExportSchedule], ExportSchedule]
) -> None:
    add_job(store, job(tmp_path))
    make_due(store_url, "news")
    heard = Heard()
    schedule = running(ExportSchedule(store, ended=heard))
    heard.wait(1)
    for _ in range(3):
        schedule.look()
    [(name, made, error)] = heard.runs
    assert (name, error) == ("news", None)
    assert made is not None
    assert (tmp_path / "news" / "latest").resolve() == made.folder
    [row] = store.exports()
    assert (row.job, row.state, row.position is not None) == ("news", "done", True)
    assert row.seconds is not None
    [scheduled] = list_jobs(store)
    assert scheduled.next_run is not None
    assert timedelta() < scheduled.next_run - datetime.now(UTC) <= timedelta(hours=1)


@pytest.mark.slow
def test_jobs_of_other_processes_are_noticed(
    store: Store, store_url: str, tmp_path: Path, running: Callable[[ExportSchedule], ExportSchedule]
) -> None:
    heard = Heard()
    schedule = running(ExportSchedule(store, ended=heard))
    with open_store(store_url) as other:
        add_job(other, job(tmp_path, every="1s"))
    until = time.monotonic() + PATIENCE
    while len(heard.runs) < 2 and time.monotonic() < until:
        schedule.look()
        threading.Event().wait(0.1)
    assert len(heard.runs) >= 2
    with open_store(store_url) as other:
        remove_job(other, "news")
        with pytest.raises(DaemonError, match="there is no job 'news'"):
            remove_job(other, "news")
    assert list_jobs(store) == []
    assert schedule.alive()


def test_a_failed_run_leaves_the_version_before(
    store: Store, store_url: str, tmp_path: Path, running: Callable[[ExportSchedule], ExportSchedule]
) -> None:
    made = scheduling.run_job(store, job(tmp_path))
    add_job(store, job(tmp_path, corpus="missing"))
    make_due(store_url, "news")
    heard = Heard()
    running(ExportSchedule(store, ended=heard))
    heard.wait(1)
    assert "there is no corpus 'missing'" in str(heard.runs[0][2])
    assert (tmp_path / "news" / "latest").resolve() == made.folder
    newest, _ = store.exports(job="news")
    assert (newest.state, newest.job) == ("failed", "news")
    assert "there is no corpus" in (newest.error or "")


def test_runs_never_overlap(
    store: Store,
    store_url: str,
    tmp_path: Path,
    running: Callable[[ExportSchedule], ExportSchedule],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inside = most = 0
    lock, go = threading.Lock(), threading.Event()
    publish = scheduling.run_job

    def slow(*arguments: Any) -> Published:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        go.wait(PATIENCE)
        with lock:
            inside -= 1
        return publish(*arguments)

    monkeypatch.setattr(scheduling, "run_job", slow)
    for name in ("a", "b"):
        add_job(store, job(tmp_path, name))
        make_due(store_url, name)
    heard = Heard()
    schedule = running(ExportSchedule(store, ended=heard))
    until = time.monotonic() + PATIENCE
    while not inside and time.monotonic() < until:
        threading.Event().wait(0.02)
    make_due(store_url, "a")
    schedule.look()
    go.set()
    heard.wait(2)
    assert most == 1


def test_what_is_due_when_a_schedule_ends_is_run_by_the_next(
    store: Store,
    store_url: str,
    tmp_path: Path,
    running: Callable[[ExportSchedule], ExportSchedule],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go = threading.Event(), threading.Event()
    publish = scheduling.run_job

    def slow(*arguments: Any) -> Published:
        begun.set()
        go.wait(PATIENCE)
        return publish(*arguments)

    monkeypatch.setattr(scheduling, "run_job", slow)
    for name in ("a", "b"):
        add_job(store, job(tmp_path, name))
        make_due(store_url, name)
    heard = Heard()
    schedule = running(ExportSchedule(store, ended=heard))
    assert begun.wait(PATIENCE)
    ending = threading.Thread(target=schedule.stop)
    ending.start()
    while not schedule._stopping.is_set():
        threading.Event().wait(0.01)
    go.set()
    ending.join(PATIENCE)
    [(first, _, _)] = heard.runs
    [other] = {"a", "b"} - {first}
    due = {scheduled.job.name for scheduled in list_jobs(store) if scheduled.next_run < datetime.now(UTC)}
    assert due == {other}
    again = Heard()
    running(ExportSchedule(store, ended=again))
    again.wait(1)
    assert [(name, error) for name, _, error in again.runs] == [(other, None)]


def test_a_schedule_that_looks_at_nothing_is_not_alive(store: Store, store_url: str, tmp_path: Path) -> None:
    add_job(store, job(tmp_path))
    make_due(store_url, "news")
    schedule = ExportSchedule(store)
    schedule.look()
    assert not schedule.alive()
    schedule.start()
    assert schedule.alive()
    schedule.stop()


def test_a_crashed_run_is_closed_at_the_next_start(
    store: Store, store_url: str, running: Callable[[ExportSchedule], ExportSchedule]
) -> None:
    own = store.record_export("own", "/tmp/x", "cdec")
    crashed = store.record_export("crashed", "/tmp/y", "cdec", "news")
    before = store.record_export("before", "/tmp/y", "cdec")
    query(store_url, "UPDATE exports SET process = :gone WHERE id = :id", gone=dead_process(), id=crashed)
    query(store_url, "UPDATE exports SET process = NULL WHERE id = :id", id=before)
    running(ExportSchedule(store))
    states = {row.id: (row.state, row.error) for row in store.exports()}
    assert states[own] == ("running", None)
    assert states[crashed] == states[before] == ("failed", "its process ended before it was done")


def dead_process() -> str:
    """A process of this machine that has ended, as the store names it."""
    import subprocess
    import sys

    script = "from hierogram.storage.database.claims import this_process; print(this_process())"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def test_jobs_of_the_configuration(
    store: Store, store_url: str, tmp_path: Path, running: Callable[[ExportSchedule], ExportSchedule]
) -> None:
    file = tmp_path / "hierogram.toml"
    file.write_text(
        f"""
        [[exports]]
        name = "nightly"
        to = "{tmp_path}/grammars"
        cron = "0 3 * * *"
        format = "moses"
        max_scope = 2
        keep = 7
        """
    )
    [configured] = load_configuration(file).exports
    assert (configured.format, configured.keep) == ("moses", 7)
    heard = Heard()
    running(ExportSchedule(store, [configured], heard)).stop()
    [scheduled] = list_jobs(store)
    assert scheduled.configured
    assert scheduled.job == configured
    with pytest.raises(DaemonError, match="stands in the configuration"):
        remove_job(store, "nightly")
    # What was missed while nothing ran is not forgotten when the same configuration is read again.
    make_due(store_url, "config:nightly", timedelta(days=3))
    running(ExportSchedule(store, [configured], heard))
    heard.wait(1)
    assert [path.parent for path in versions(tmp_path / "grammars", "nightly")] == [tmp_path / "grammars"]
    running(ExportSchedule(store, [], heard))
    assert list_jobs(store) == []


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"every": None}, "either cron or every"),
        ({"cron": "0 3 * * *"}, "either cron or every"),
        ({"every": "soon"}, "not a span of time"),
        ({"every": None, "cron": "at three"}, "Wrong number of fields"),
        ({"every": None, "cron": "0 0 30 2 *"}, "no year has such a day"),
        ({"name": "../up"}, "letters, digits"),
        ({"format": "word"}, "got 'word'"),
        ({"keeps": 3}, "Unexpected keyword"),
        ({"max_age": "0d"}, "not a span of time"),
    ],
)
def test_wrong_jobs_are_told(tmp_path: Path, wrong: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        job(tmp_path, **wrong)


def test_jobs_are_the_same_after_they_were_stored(store: Store, tmp_path: Path) -> None:
    given = job(tmp_path, features=("count",), min_count=0.5, max_scope=None)
    add_job(store, given)
    assert find_job(store, "news") == given
    assert given.options().max_scope is None
    assert parse_span("1.5h") == timedelta(minutes=90)


@pytest.mark.slow
def test_the_commands(hierogram: Run, corpus: Path, tmp_path: Path) -> None:
    make_store(schedule="paper", sweeps_per_level=2, levels=3, round_sweeps=2)
    hierogram("ingest", str(corpus))
    hierogram("learn", "--sweeps", "2")
    said = hierogram(
        "export", "--name", "nightly", "--every", "1d", "--to", "grammars", "--format", "tsv", "--keep", "1"
    )
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("nightly: runs next at ")
    [listed] = json.loads(hierogram("schedule", "--json").out)
    assert listed["last"] is None
    assert listed["job"] == {
        "name": "nightly",
        "to": str(tmp_path / "grammars"),
        "every": "1d",
        "format": "tsv",
        "keep": 1,
    }
    made = json.loads(hierogram("schedule", "nightly", "--run", "--json").out)
    assert made["rules"] > 0
    assert Path(made["folder"]) == (tmp_path / "grammars" / "latest").resolve()
    assert hierogram("schedule").out.splitlines()[1].split("\t")[-1] == "done"
    assert hierogram("schedule", "nightly", "--remove").code == 0
    gone = hierogram("schedule", "nightly", "--run")
    assert (gone.code, gone.err) == (
        3,
        "hierogram: there is no job 'nightly': `hierogram schedule` shows all\n",
    )
    wrong = hierogram("export", "--to", "grammars", "--every", "1h", "--cron", "0 3 * * *")
    assert (wrong.code, wrong.err) == (2, "hierogram: a job has either cron or every\n")
    for arguments in (
        ("--every", "1h"),
        ("--to", "grammars", "--every", "often"),
        ("--to", "g", "--max-age", "1d"),
    ):
        assert hierogram("export", *arguments).code == 2
    for arguments in (("nightly",), ("--run",), ("nightly", "--run", "--remove")):
        assert hierogram("schedule", *arguments).code == 2
