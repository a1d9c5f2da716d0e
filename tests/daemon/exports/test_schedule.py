"""Scheduled exports: missed runs are made up once, in the order of their due times, and each export is recorded."""

import json
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.daemon.conftest import Run, make_store
from tests.storage.building import commit, delta, export_rows, query

from hierogram.daemon.configuration import load_configuration
from hierogram.daemon.exceptions import DaemonError, ExportError, UsageError
from hierogram.daemon.exports.exporting import Published, Report
from hierogram.daemon.exports.options import ExportJob, parse_span
from hierogram.daemon.exports.publication import list_versions
from hierogram.daemon.exports.schedule import (
    add_job,
    check_configured_jobs,
    configure_jobs,
    correct_next_runs,
    dry_run_job,
    find_job,
    list_jobs,
    remove_job,
    run_due,
    run_job,
)
from hierogram.daemon.serving.service import configured_jobs
from hierogram.storage.browsing.sql_runner import cookbook
from hierogram.storage.database.leases import process_identity
from hierogram.storage.exports.exports import JobRow
from hierogram.storage.options import OptionError, as_plain, from_plain
from hierogram.storage.store import Store, open_store


class Runs:
    """Runner of due jobs at simulated times that keeps the results."""

    def __init__(self, store: Store) -> None:
        self.results: list[tuple[str, Published | None, Exception | None]] = []
        self.stopping = False
        self.now: datetime | None = None
        self._store = store

    def __call__(self, report: Report = lambda *_: None) -> list[str]:
        """Run the due jobs, and return their names in order."""
        before = len(self.results)
        run_due(
            self._store, lambda *ended: self.results.append(ended), report, lambda: self.stopping,
            lambda: self.now or datetime.now(UTC),
        )  # fmt: skip
        return [name for name, *_ in self.results[before:]]


@pytest.fixture
def runs(store: Store) -> Runs:
    return Runs(store)


@pytest.fixture
def store(store: Store) -> Store:
    """A store with one rule and no pairs."""
    commit(store, [], [delta("a", "x", 3)])
    return store


def job(folder: Path, name: str = "news", **options: object) -> ExportJob:
    values = {"name": name, "to": str(folder / name), "every": "1h", "current_sample": True, **options}
    return from_plain(ExportJob, values)


def make_due(url: str, name: str, missed: timedelta = timedelta(hours=5)) -> None:
    """Set the next run to a time in the past."""
    query(
        url,
        "UPDATE scheduled_jobs SET next_run = :then WHERE name = :name",
        name=name,
        then=(datetime.now(UTC) - missed).timestamp(),
    )


def change(store: Store) -> None:
    commit(store, [], [delta("a", "x", 1)])


def test_several_missed_runs_are_made_up_by_one_run(store: Store, store_url: str, tmp_path: Path, runs: Runs) -> None:
    add_job(store, job(tmp_path))
    make_due(store_url, "news")
    assert runs() == ["news"]
    assert runs() == []
    [(_, made, error)] = runs.results
    assert error is None
    assert made is not None
    assert (tmp_path / "news" / "latest").resolve() == made.folder
    [row] = export_rows(store)
    assert (row.job, row.state, row.path) == ("news", "done", str(made.folder / made.manifest.file))
    [status] = list_jobs(store)
    assert timedelta() < status.next_runs[0] - datetime.now(UTC) <= timedelta(hours=1)


@pytest.mark.database("sqlite")
def test_jobs_in_two_time_zones_run_once_a_day_across_a_clock_change(store: Store, tmp_path: Path, runs: Runs) -> None:
    start = datetime(2026, 3, 28, 12, tzinfo=UTC)
    jobs = [
        job(tmp_path, "berlin", every=None, cron="30 2 * * *", timezone="Europe/Berlin"),
        job(tmp_path, "lisbon", every=None, cron="30 1 * * *", timezone="Europe/Lisbon"),
    ]
    configure_jobs(store, jobs, start)
    ran: list[str] = []
    for halves in range(2 * 40):
        runs.now = start + halves * timedelta(minutes=30)
        ran += [f"{name} {runs.now:%d %H:%M}" for name in runs()]
    # In both zones the clock skips the hour of the run at 01:00 UTC on the 29th. Later runs are in summer time.
    assert ran == ["berlin 29 01:00", "lisbon 29 01:00", "berlin 30 00:30", "lisbon 30 00:30"]


@pytest.mark.database("sqlite")
def test_job_that_ends_in_the_repeated_hour_does_not_run_again(store: Store, tmp_path: Path, runs: Runs) -> None:
    start = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    configure_jobs(
        store, [job(tmp_path, every=None, cron="30 2 * * *", timezone="Europe/Berlin")], start - timedelta(hours=5)
    )
    runs.now = start

    def work(*_: object) -> None:
        runs.now = start + timedelta(minutes=40)

    assert runs(work) == ["news"]
    runs.now = start + timedelta(hours=1)
    assert runs() == []


def test_jobs_added_and_removed_through_another_connection_are_detected(
    store: Store, store_url: str, tmp_path: Path, runs: Runs
) -> None:
    with open_store(store_url) as other:
        add_job(other, job(tmp_path))
        make_due(store_url, "news")
        assert runs() == ["news"]
        remove_job(other, "news")
        with pytest.raises(DaemonError, match="job 'news' not found"):
            remove_job(other, "news")
    assert list_jobs(store) == []


def test_a_failed_run_keeps_the_earlier_version(store: Store, store_url: str, tmp_path: Path, runs: Runs) -> None:
    made = run_job(store, job(tmp_path))
    add_job(store, job(tmp_path, corpus="missing"))
    make_due(store_url, "news")
    runs()
    assert "corpus 'missing' not found" in str(runs.results[0][2])
    assert (tmp_path / "news" / "latest").resolve() == made.folder
    newest, _ = export_rows(store, "news")
    assert (newest.state, newest.job) == ("failed", "news")
    [status] = list_jobs(store)
    assert (status.state, status.failures, status.rules) == ("failed", 1, 1)
    assert status.error
    assert "corpus 'missing' not found" in str(status.error)
    assert status.path == str(made.folder / made.manifest.file)


def test_an_error_of_the_callback_is_raised_after_one_call(store: Store, store_url: str, tmp_path: Path) -> None:
    add_job(store, job(tmp_path))
    make_due(store_url, "news")
    results: list[tuple[Published | None, Exception | None]] = []

    def fail(_name: str, published: Published | None, error: Exception | None) -> None:
        results.append((published, error))
        raise OSError("the log is full")

    with pytest.raises(OSError, match="the log is full"):
        run_due(store, fail)
    [(published, error)] = results
    assert published is not None
    assert error is None
    [status] = list_jobs(store)
    assert status.state == "done"
    assert status.next_runs[0] > datetime.now(UTC)


def test_run_that_becomes_due_during_the_last_run_is_skipped(store: Store, tmp_path: Path, runs: Runs) -> None:
    start = datetime.now(UTC)
    add_job(store, job(tmp_path, every="1m"))
    runs.now = start + timedelta(minutes=2)

    def work(*_: object) -> None:
        runs.now = start + timedelta(minutes=10)

    assert runs(work) == ["news"]
    [status] = list_jobs(store)
    assert timedelta(minutes=10) < status.next_runs[0] - start <= timedelta(minutes=11)


def test_job_postponed_by_another_scheduler_does_not_run(
    store: Store, store_url: str, tmp_path: Path, runs: Runs
) -> None:
    add_job(store, job(tmp_path))
    make_due(store_url, "news")
    [row] = store.jobs()
    assert store.set_next_run(row, row.next_run and row.next_run + 86_400)
    assert not store.set_next_run(row, None)
    assert runs() == []


def test_a_next_run_stored_by_a_fast_clock_is_corrected(store: Store, tmp_path: Path, runs: Runs) -> None:
    now = datetime(2026, 3, 28, 12, tzinfo=UTC)
    jobs = [
        job(tmp_path, "hourly"),
        job(tmp_path, "nightly", every=None, cron="30 2 * * *", timezone="Europe/Berlin"),
        job(tmp_path, "yearly", every=None, cron="0 0 1 1 *", timezone="UTC"),
    ]
    configure_jobs(store, jobs, now)
    before = {row.name: row.next_run for row in store.jobs()}
    runs.now = now + timedelta(days=800)
    assert sorted(runs()) == ["hourly", "nightly", "yearly"]
    # The clock that is ahead finds nothing to correct.
    assert correct_next_runs(store, runs.now) == []
    assert sorted(correct_next_runs(store, now)) == ["hourly", "nightly", "yearly"]
    assert {row.name: row.next_run for row in store.jobs()} == before
    assert correct_next_runs(store, now) == []


def test_a_clock_that_is_set_back_a_little_repeats_no_run(store: Store, tmp_path: Path, runs: Runs) -> None:
    due = datetime(2026, 3, 28, 2, 30, tzinfo=UTC)
    configure_jobs(store, [job(tmp_path, every=None, cron="30 2 * * *", timezone="UTC")], due - timedelta(hours=1))
    runs.now = due
    assert runs() == ["news"]
    assert correct_next_runs(store, due - timedelta(seconds=2)) == []
    runs.now = due
    assert runs() == []


@pytest.mark.database("sqlite")
def test_correcting_next_runs_ignores_unreadable_jobs_and_jobs_that_never_run(
    store: Store, store_url: str, tmp_path: Path
) -> None:
    add_job(store, job(tmp_path))
    query(store_url, "UPDATE scheduled_jobs SET job = '{', next_run = 1e11")
    assert correct_next_runs(store) == []
    query(store_url, "UPDATE scheduled_jobs SET next_run = NULL")
    assert correct_next_runs(store) == []


def test_interrupted_and_overdue_jobs_run_at_the_next_start(
    store: Store, store_url: str, tmp_path: Path, runs: Runs
) -> None:
    for name in ("a", "b"):
        add_job(store, job(tmp_path, name))
    make_due(store_url, "a", timedelta(hours=6))
    make_due(store_url, "b")

    def stop(*_: object) -> None:
        runs.stopping = True

    assert runs(stop) == ["a"]
    assert "interrupted" in str(runs.results[0][2])
    assert not (tmp_path / "a" / "latest").exists()
    runs.stopping = False
    assert runs() == ["a", "b"]
    assert [error for *_, error in runs.results[1:]] == [None, None]


def test_export_of_a_dead_process_is_recorded_as_failed(store: Store, store_url: str) -> None:
    own = store.record_export("own", "/tmp/x", "cdec")
    crashed = store.record_export("crashed", "/tmp/y", "cdec", "news")
    before = store.record_export("before", "/tmp/y", "cdec")
    query(store_url, "UPDATE exports SET process = :gone WHERE id = :id", gone=dead_process(), id=crashed)
    query(store_url, "UPDATE exports SET process = NULL WHERE id = :id", id=before)
    store.close_abandoned_exports()
    states = {row.id: (row.state, row.error) for row in export_rows(store)}
    assert states[own] == ("running", None)
    assert states[crashed] == states[before] == ("failed", "the process died before the export was finished")


def dead_process() -> str:
    """Return the identity of an ended process of this machine, as stores record it."""
    with subprocess.Popen(["sleep", "60"]) as process, pytest.MonkeyPatch.context() as patched:
        patched.setattr("os.getpid", lambda: process.pid)
        name = process_identity()
        process.kill()
    return name


def test_configured_jobs_run_and_cannot_be_removed_or_replaced(
    store: Store, store_url: str, tmp_path: Path, runs: Runs
) -> None:
    file = tmp_path / "hierogram.toml"
    file.write_text(
        f"""
        timezone = "Europe/Berlin"
        [[exports]]
        name = "nightly"
        to = "{tmp_path}/grammars"
        cron = "0 3 * * *"
        format = "moses"
        max_scope = 2
        keep = 7
        """
    )
    [configured] = configured_jobs(load_configuration(file))
    assert (configured.format, configured.keep, configured.timezone) == ("moses", 7, "Europe/Berlin")
    configure_jobs(store, [configured])
    [status] = list_jobs(store)
    assert (status.name, status.configured, status.state) == ("nightly", True, "never")
    assert [time.hour for time in status.next_runs] == [3, 3, 3]
    with pytest.raises(DaemonError, match="is defined in the configuration"):
        remove_job(store, "nightly")
    with pytest.raises(OptionError, match="already exists"):
        add_job(store, job(tmp_path, "nightly"))
    # A missed run is not forgotten when the same configuration is read again.
    make_due(store_url, "nightly", timedelta(days=3))
    configure_jobs(store, [configured])
    assert runs() == ["nightly"]
    [version] = list_versions(tmp_path / "grammars", "nightly")
    [status] = list_jobs(store)
    assert (status.state, status.path) == ("done", str(version / "grammar.moses.gz"))
    configure_jobs(store, [])
    assert list_jobs(store) == []


@pytest.mark.database("sqlite")
@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ([{}, {"to": "other"}], "exports.1.name: job 'news' already exists"),
        ([{}, {"name": "b"}], "exports.1.to: .*/news: job 'news' writes to the same folder"),
        ([{}, {"name": "b", "to": "elsewhere/../news"}], "exports.1.to: "),
        ([{"filter_for": "missing.fr"}], "exports.0.filter_for: .*missing.fr: file not found"),
        ([{"name": "added", "to": "x"}], "exports.0.name: job 'added' already exists"),
        ([{"name": "b", "to": "added"}], "exports.0.to: .*: job 'added' writes to the same folder"),
    ],
)
def test_configured_jobs_that_conflict_or_lack_a_file_are_refused(
    store: Store, tmp_path: Path, jobs: list[dict[str, str]], message: str
) -> None:
    add_job(store, job(tmp_path, "added"))
    made = []
    for options in jobs:
        paths = {key: str(tmp_path / value) for key, value in ({"to": "news"} | options).items() if key != "name"}
        made.append(job(tmp_path, options.get("name", "news"), **paths))
    with pytest.raises(UsageError, match=message):
        check_configured_jobs(store, made)
    check_configured_jobs(store, [job(tmp_path)])


@pytest.mark.database("sqlite")
def test_stored_job_that_shares_a_folder_fails_with_an_error(
    store: Store, store_url: str, tmp_path: Path, runs: Runs
) -> None:
    add_job(store, job(tmp_path))
    make_due(store_url, "news")
    runs()
    shared = job(tmp_path, "b", to=str(tmp_path / "news"))
    with pytest.raises(OptionError, match="job 'news' writes to the same folder"):
        add_job(store, shared)
    # Two processes can add jobs at the same time.
    store.put_job(JobRow("b", json.dumps(as_plain(shared)), None, False))
    assert "job 'news' writes to the same folder" in str(next(one.error for one in list_jobs(store) if one.name == "b"))
    latest = (tmp_path / "news" / "latest").resolve()
    make_due(store_url, "b")
    assert runs() == ["b"]
    [status] = [status for status in list_jobs(store) if status.name == "b"]
    assert (status.state, status.failures) == ("failed", 1)
    assert (tmp_path / "news" / "latest").resolve() == latest


@pytest.mark.database("sqlite")
def test_adding_a_job_of_the_same_name_replaces_only_that_job(store: Store, tmp_path: Path) -> None:
    add_job(store, job(tmp_path, "other"))
    add_job(store, job(tmp_path))
    assert add_job(store, job(tmp_path, every="2h")).job["every"] == "2h"
    assert {status.name: status.job["every"] for status in list_jobs(store)} == {"news": "2h", "other": "1h"}


@pytest.mark.database("sqlite")
def test_a_missing_test_set_is_refused_and_a_deleted_one_is_reported(store: Store, tmp_path: Path) -> None:
    add_job(store, job(tmp_path))
    test_set = tmp_path / "test.fr"
    with pytest.raises(OptionError, match="file not found"):
        add_job(store, job(tmp_path, "b", filter_for=test_set))
    test_set.write_text("a")
    add_job(store, job(tmp_path, "b", filter_for=test_set))
    test_set.unlink()
    error = {status.name: status.error for status in list_jobs(store)}
    assert error == {"news": None, "b": f"filter_for: {test_set}: file not found"}


@pytest.mark.slow
def test_job_writes_no_version_without_a_change(store: Store, store_url: str, tmp_path: Path, runs: Runs) -> None:
    test_set = tmp_path / "test.fr"
    test_set.write_text("a b")
    add_job(store, job(tmp_path, filter_for=test_set))
    run = make_due, store_url, "news"

    def next_run() -> Published:
        run[0](*run[1:])
        runs()
        made, error = runs.results[-1][1:]
        assert error is None
        assert made is not None
        return made

    first = next_run()
    # Changes outside the grammar do not count.
    store.set_event_limit(1_000)
    store.begin_ingest("default", "x", "pipes")
    second = next_run()
    assert (second.folder, second.manifest.sha256, second.unchanged) == (first.folder, first.manifest.sha256, True)
    assert list_versions(tmp_path / "news", "news") == [first.folder]
    [status] = list_jobs(store)
    assert (status.state, status.rules, status.path) == ("unchanged", 1, str(first.folder / first.manifest.file))
    assert status.succeeded_at is not None
    assert len(export_rows(store)) == 1

    def is_exported() -> bool:
        made = next_run()
        return not made.unchanged and next_run().unchanged

    change(store)
    assert is_exported()
    test_set.write_text("a c")
    assert is_exported()
    add_job(store, job(tmp_path, filter_for=test_set, min_count=0.5))
    assert is_exported()
    (tmp_path / "news" / "latest").unlink()
    assert is_exported()


@pytest.mark.database("sqlite")
def test_an_unchanged_run_takes_less_than_50_ms_of_processor_time(
    store: Store, store_url: str, tmp_path: Path, runs: Runs
) -> None:
    add_job(store, job(tmp_path))
    make_due(store_url, "news")
    runs()
    times = []
    for _ in range(5):
        make_due(store_url, "news")
        started = time.process_time()
        runs()
        times.append(time.process_time() - started)
    assert runs.results[-1][1].unchanged
    assert min(times) < 0.05


def test_manifest_contains_the_id_of_the_last_event_before_the_export(store: Store, tmp_path: Path) -> None:
    commit(store, [], [delta("often", "souvent", 20, 20)])
    made = run_job(store, job(tmp_path))
    assert made.manifest.last_event_id == store.events().last - 1
    assert made.manifest.grammar_position <= made.manifest.position
    commit(store, [], [delta("new", "neuf", 20, 20)])
    events = store.events(after=made.manifest.last_event_id).events
    assert [event.kind for event in events] == ["export-done", "rule-added"]
    assert events[0].detail["path"] == str(made.folder / made.manifest.file)
    assert events[0].detail["version"] == made.folder.name
    assert (events[0].detail["last_event_id"], events[1].source) == (made.manifest.last_event_id, "new")


@pytest.mark.parametrize("broken", [{"corpus": "missing"}, {"filter_for": Path("missing.fr")}])
def test_event_of_a_failed_run_has_the_absolute_folder(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ExportError):
        run_job(store, ExportJob(name="bad", to="versions", every="1h", **broken))
    assert store.events().events[-1].detail["path"] == str(tmp_path / "versions")


def test_the_documented_query_shows_the_events_between_two_exports(
    store: Store, store_url: str, tmp_path: Path
) -> None:
    [between] = [recipe.sql for recipe in cookbook() if "the last two exports" in recipe.title]
    nightly = job(tmp_path, "nightly")
    for word in ("early", "often"):
        commit(store, [], [delta(word, word, 20, 20)])
        run_job(store, nightly)
    commit(store, [], [delta("late", "late", 20, 20)])
    rules = [(kind, source) for _, _, kind, source, *_ in query(store_url, between) if source is not None]
    assert rules == [("rule-added", "often")]


@pytest.mark.database("sqlite")
def test_a_dry_run_reports_files_to_write_and_delete(store: Store, tmp_path: Path) -> None:
    kept = job(tmp_path, keep=1)
    first = dry_run_job(store, kept)
    assert not (tmp_path / "news").exists()
    assert (first.folder.parent, first.manifest.rules, first.pruned) == (tmp_path / "news", 1, [])
    made = run_job(store, kept)
    assert (made.manifest.sha256, made.manifest.file) == (first.manifest.sha256, first.manifest.file)
    assert dry_run_job(store, kept).unchanged
    change(store)
    second = dry_run_job(store, kept)
    assert not second.unchanged
    assert second.pruned == [made.folder]
    assert list_versions(tmp_path / "news", "news") == [made.folder]
    assert len(export_rows(store)) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"every": None}, "either cron or every"),
        ({"cron": "0 3 * * *"}, "either cron or every"),
        ({"every": "soon"}, "invalid interval"),
        ({"every": "0.1s"}, "invalid interval"),
        ({"every": "99999w"}, "invalid interval"),
        ({"every": None, "cron": "at three"}, "expected minute, hour, day of month"),
        ({"every": None, "cron": "0 0 30 2 *"}, "bad day-of-month"),
        ({"every": None, "cron": "0 0 */20 2 1#5"}, "never runs: no day matches"),
        ({"timezone": "Berlin"}, "time zone not found"),
        ({"name": "../up"}, "letters, digits"),
        ({"format": "word"}, "got 'word'"),
        ({"format": "cdec", "compression": "zstd"}, "readers of cdec do not support zstd"),
        ({"keeps": 3}, "Unexpected keyword"),
        ({"max_age": "0d"}, "invalid interval"),
    ],
)
def test_invalid_jobs_are_refused(tmp_path: Path, wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        job(tmp_path, **wrong)


def test_stored_jobs_survive_a_round_trip(store: Store, tmp_path: Path) -> None:
    given = job(tmp_path, features=("count",), min_count=0.5, max_scope=None)
    add_job(store, given)
    assert find_job(store, "news") == given
    assert given.options().max_scope is None
    assert parse_span("1.5h") == timedelta(minutes=90)


def test_a_job_added_again_is_reported_as_replaced(hierogram: Run, store: Store, store_url: str) -> None:
    def add(*arguments: str) -> tuple[int, str]:
        ran = hierogram("--store", store_url, "export", "--format", "jsonl", *arguments)
        return ran.code, ran.out + ran.err

    assert add("--name", "news", "--every", "1h", "--to", "one")[1].startswith("news: added; `hierogram serve`")
    assert add("--name", "news", "--cron", "@daily", "--to", "two")[1].startswith("news: replaced; `hierogram serve`")
    assert [status.job["to"] for status in list_jobs(store)] == [str(Path("two").absolute())]
    code, text = add("--name", "old", "--every", "1h", "--to", "two/")
    assert (code, "job 'news' writes to the same folder" in text) == (2, True)


@pytest.mark.slow
def test_commands_add_list_run_and_remove_jobs(hierogram: Run, corpus: Path, tmp_path: Path) -> None:
    make_store(schedule="paper", sweeps_per_level=2, levels=3, round_sweeps=2)
    hierogram("ingest", str(corpus))
    hierogram("learn", "--sweeps", "2")
    ran = hierogram(
        "export", "--name", "nightly", "--every", "1d", "--to", "grammars", "--format", "tsv", "--keep", "1"
    )
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("nightly: added; `hierogram serve` will run it at:\n")
    assert len(ran.out.splitlines()) == 4
    [listed] = json.loads(hierogram("schedule", "--json").out)
    assert (listed["state"], listed["path"]) == ("never", None)
    assert len(listed["next_runs"]) == 3
    assert listed["job"] == {
        "name": "nightly",
        "to": str(tmp_path / "grammars"),
        "every": "1d",
        "format": "tsv",
        "keep": 1,
    }
    rehearsed = hierogram("schedule", "nightly", "--dry-run").out
    assert "/grammar.tsv.zst: would be written: " in rehearsed
    assert not (tmp_path / "grammars").exists()
    made = json.loads(hierogram("schedule", "nightly", "--run", "--json").out)
    assert made["rules"] > 0
    assert Path(made["path"]) == (tmp_path / "grammars" / "latest" / "grammar.tsv.zst").resolve()
    lines = hierogram("schedule").out.splitlines()
    assert lines[0] == f"nightly: every 1d, tsv to {tmp_path}/grammars, added by hierogram export"
    assert lines[1].count(";") == 2
    assert lines[2].startswith("  last: done ")
    assert lines[3].startswith(f"  version: {made['path']}, {made['rules']} rules, ")
    assert "unchanged, not rewritten" in hierogram("schedule", "nightly", "--run").out
    assert hierogram("schedule", "nightly", "--remove").code == 0
    gone = hierogram("schedule", "nightly", "--run")
    assert (gone.code, gone.err) == (
        3,
        "hierogram: job 'nightly' not found: `hierogram schedule` lists all jobs\n",
    )
    wrong = hierogram("export", "--to", "grammars", "--every", "1h", "--cron", "0 3 * * *")
    assert (wrong.code, wrong.err) == (2, "hierogram: a job must have either cron or every\n")
    for arguments in (
        ("--every", "1h"),
        ("--to", "grammars", "--every", "often"),
        ("--to", "g", "--max-age", "1d"),
    ):
        assert hierogram("export", *arguments).code == 2
    for arguments in (("--run",), ("--dry-run",), ("nightly", "--run", "--remove")):
        assert hierogram("schedule", *arguments).code == 2
    hierogram("export", "--to", "a", "--name", "a", "--cron", "0 3 * * 7", "--timezone", "Europe/Berlin")
    assert hierogram("schedule", "a").out.splitlines()[1].startswith("  next: Sun ")
    same = hierogram("export", "--to", "a", "--name", "b", "--every", "1h")
    assert (same.code, "job 'a' writes to the same folder" in same.err) == (2, True)
    assert hierogram("schedule", "b").code == 3
