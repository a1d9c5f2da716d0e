"""A daemon gets all kinds of bad input while exports run in two time zones across a clock change.

Every accepted pair is stored, every refusal is in SQL, events, metrics and on the page, and every export runs once.
"""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import make_url
from tests.daemon.campaigns.bad_input import (
    ConnectionFeeder,
    FileFeeder,
    LineFeeder,
    RequestFeeder,
    metric,
    page,
    wait_for_page,
)
from tests.daemon.campaigns.daemon import (
    COMMAND,
    Daemon,
    Feeding,
    HttpFeeder,
    PairStream,
    SpoolFeeder,
    assert_consistent,
    stored_lines,
    wait_until,
)
from tests.daemon.conftest import QUICK
from tests.pgbouncer import pgbouncer
from tests.storage.building import query

from hierogram.storage.store import open_store

STEP = timedelta(minutes=30)
WEEKS = {
    "spring": (datetime(2026, 3, 7, tzinfo=UTC), datetime(2026, 3, 30, 12, tzinfo=UTC)),
    "autumn": (datetime(2026, 10, 24, tzinfo=UTC), datetime(2026, 11, 2, 12, tzinfo=UTC)),
}
"""Spans in which the clocks of both zones change, on different days."""
NIGHT = datetime(2026, 3, 28, 20, tzinfo=UTC), datetime(2026, 3, 30, 1, tzinfo=UTC)
"""A span in which only the clock of Berlin changes."""
BERLIN, NEW_YORK, BROKEN = "berlin", "new-york", "broken"

SERVE = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from hierogram.daemon.cli.main import main
from hierogram.daemon.exports import schedule

clock_file, runs_file, configuration = sys.argv[1:]

def clock():
    return datetime.fromtimestamp(float(Path(clock_file).read_text()), UTC)

def run(store, ended, *arguments):
    def noting(job, made, error):
        ended(job, made, error)
        with open(runs_file, "a") as runs:
            runs.write(f"{job} {clock():%m-%d %H:%M}\\n")
    run_due(store, noting, *arguments, clock)

run_due, configure_jobs, correct_next_runs = schedule.run_due, schedule.configure_jobs, schedule.correct_next_runs
schedule.run_due = run
schedule.configure_jobs = lambda store, jobs: configure_jobs(store, jobs, clock())
schedule.correct_next_runs = lambda store: correct_next_runs(store, clock())
sys.argv = ["hierogram", "serve", "--config", configuration]
main()
"""
"""`hierogram serve` whose schedule reads the time from a file, and notes each run in another."""

JOBS = """
[[exports]]
name = "berlin"
to = "{folder}/berlin"
cron = "30 2 * * *"
timezone = "Europe/Berlin"
current_sample = true
keep = 3

[[exports]]
name = "new-york"
to = "{folder}/new-york"
cron = "{cron}"
timezone = "America/New_York"
current_sample = true
keep = 3

[[exports]]
name = "broken"
to = "{folder}/broken"
cron = "0 6 * * *"
corpus = "missing"
"""


@dataclass
class Job:
    """A daily job: its time zone, and its time as minutes after midnight."""

    name: str
    zone: str
    minutes: int


class Calendar:
    """The clock of the daemon's schedule, and the runs that are expected."""

    def __init__(self, folder: Path, span: tuple[datetime, datetime], new_york: int) -> None:
        self.file, self.runs, self.configuration = folder / "clock", folder / "runs", folder / "daemon.toml"
        self.now, self._end = span
        self._steps = (self._end - self.now) // STEP
        self.passed = 0
        self._jobs = [
            Job(BERLIN, "Europe/Berlin", 150),
            Job(NEW_YORK, "America/New_York", new_york),
            Job(BROKEN, "UTC", 360),
        ]
        self._last_dates: dict[str, Any] = {}
        # Jobs do not run for a time before the daemon starts.
        self._pop_due_jobs()
        self.expected: list[str] = []
        cron = f"{new_york % 60} {new_york // 60} * * *"
        self.configuration.write_text(JOBS.format(folder=folder / "exports", cron=cron))
        self.runs.touch()
        self._set()

    def _shown(self, job: Job) -> tuple[Any, int]:
        """Return the date and the minutes after midnight that the clock of a job's zone shows."""
        shown = self.now.astimezone(ZoneInfo(job.zone))
        return shown.date(), shown.hour * 60 + shown.minute

    def _set(self) -> None:
        part = self.file.with_suffix(".part")
        part.write_text(str(self.now.timestamp()))
        part.replace(self.file)

    def pass_time(self, share: float) -> None:
        """Advance the clock in steps to this share of the span, and wait for due runs after each step."""
        while self.passed < share * self._steps:
            self.passed += 1
            self.now += STEP
            self._set()
            due = [f"{name} {self.now:%m-%d %H:%M}" for name in self._pop_due_jobs()]
            self.expected += due
            wait_until(lambda due=due: set(due) <= set(self.runs.read_text().splitlines()), f"runs of {due}", pause=0.2)

    def _pop_due_jobs(self) -> list[str]:
        """Return the jobs that have not run on this date of their zone and whose time is reached. Marks them as run."""
        due = []
        for job in self._jobs:
            date, minutes = self._shown(job)
            if date != self._last_dates.get(job.name) and minutes >= job.minutes:
                self._last_dates[job.name] = date
                due.append(job.name)
        return due

    def check(self) -> None:
        """Check that every job ran exactly once at each of its times."""
        assert sorted(self.runs.read_text().splitlines()) == sorted(self.expected)

    def count_expected_runs(self, name: str) -> int:
        return sum(run.split()[0] == name for run in self.expected)


class ClockedDaemon(Daemon):
    """A daemon whose schedule follows a calendar."""

    def __init__(self, url: str, folder: Path, calendar: Calendar) -> None:
        # The daemon resamples little when it is idle, so that the feeders get the processor.
        super().__init__(url, folder, HIEROGRAM_SAMPLING__IDLE_SHARE="0.02")
        self._calendar = calendar

    def start(self) -> None:
        files = (self._calendar.file, self._calendar.runs, self._calendar.configuration)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SERVE, *map(str, files)], env=self.environment, stderr=log, stdout=log
            )


def run_campaign(url: str, direct: str, folder: Path, calendar: Calendar, seconds: float, pause: float) -> None:
    """Send bad input for `seconds`, and check pairs, refusals and exports.

    `direct` is the URL of the database without a pooler.
    """
    open_store(url, create=True, settings=QUICK).close()
    command = [*COMMAND, "--store", url, "events", "--keep", "10000000", "--limit", "1"]
    subprocess.run(command, check=True, capture_output=True)
    daemon = ClockedDaemon(url, folder, calendar)
    with daemon.running():
        daemon.wait_until_ready()
        files, lines = FileFeeder(PairStream("attacks", 1)), LineFeeder(PairStream("lines", 1))
        requests, connections = RequestFeeder(PairStream("requests", 1)), ConnectionFeeder(PairStream("connections", 1))
        good = [SpoolFeeder(PairStream("spool", 1)), HttpFeeder(PairStream("http", 1))]
        feeding = Feeding(daemon, [files, lines, requests, connections, *good], pause)
        wait_until(lambda: metric(daemon, "hierogram_rules_in_use"), "the store has rules to export")
        began = time.monotonic()
        while (spent := time.monotonic() - began) < seconds:
            calendar.pass_time(spent / seconds)
            feeding.check()
            daemon.check()
            time.sleep(0.2)
        calendar.pass_time(1.0)
        feeding.finish()
        (daemon.spool / "lonely.source").write_text("la maison\n")
        wait_until(lambda: metric(daemon, "hierogram_spool_incomplete_inputs") == 1, "the incomplete input is counted")
        assert "lonely.source" in page(daemon)
        wait_until(daemon.settled, "all pairs are settled", seconds=1_800, pause=0.5)
        check_refusals(daemon, direct, files, lines.rejected + requests.rejected, requests.statuses)
        check_exports(daemon, direct, calendar)
        daemon.end()
    assert files.unexpected == []
    stored = Counter(stored_lines(direct))
    assert not [line for line in stored if line.startswith("refused")]
    sent = feeding.sent_pairs()
    assert {line: stored[line] for line in sent if stored[line] != 1} == {}
    names = tuple(feeder.stream.name for feeder in feeding.feeders)
    others = [line for line in stored if line.startswith(names) and line not in set(sent)]
    assert others == []
    assert_consistent(direct)
    print(
        f"{len(sent):,} pairs sent and stored once; {stored.total():,} stored; {len(files.failed):,} files set aside, "
        f"{files.ingested:,} untrusted files ingested; {lines.rejected.total() + requests.rejected.total():,} "
        f"lines rejected; {requests.statuses.total():,} requests refused; {connections.attacks:,} attacks on "
        f"connections; {len(calendar.expected)} exports in {calendar.passed} steps of the clock"
    )


def check_refusals(daemon: Daemon, url: str, files: FileFeeder, rejected: Counter[str], statuses: Counter[int]) -> None:
    """Check the reports of failed files, rejected lines and refused requests, and that no loop restarted."""
    assert sorted(name for (name,) in query(url, "SELECT file FROM failed_files")) == sorted(files.failed)
    [(events,)] = query(url, "SELECT count(*) FROM events WHERE kind = 'file-failed'")
    assert events == len(files.failed)
    from_feeders = "b.origin LIKE '%lines-%' OR b.origin LIKE 'http:requests-%'"
    rows = query(
        url,
        f"SELECT reason, sum(last_line - line + 1) FROM rejected_lines r JOIN ingest_batches b ON b.id = r.batch_id "
        f"WHERE {from_feeders} GROUP BY reason",
    )
    assert {reason: int(number) for reason, number in rows} == rejected
    [(total,)] = query(url, "SELECT sum(last_line - line + 1) FROM rejected_lines")
    assert metric(daemon, "hierogram_rejected_lines") == total
    [(batches,)] = query(url, "SELECT count(DISTINCT batch_id) FROM rejected_lines")
    [(events,)] = query(url, "SELECT count(*) FROM events WHERE kind = 'pairs-rejected'")
    assert events >= batches
    metrics = wait_for_page(daemon, "/metrics").splitlines()
    for status, number in statuses.items():
        found = [line for line in metrics if line.startswith("hierogram_http_requests_total{")]
        counted = sum(float(line.split()[-1]) for line in found if f'status="{status}"' in line)
        assert counted >= number, (status, counted, number)
    assert "Rejected lines" in page(daemon)
    restarts = [line for line in metrics if line.startswith("hierogram_loop_restarts_total")]
    assert [line for line in restarts if not line.endswith(" 0.0")] == []


def check_exports(daemon: Daemon, url: str, calendar: Calendar) -> None:
    """Check that every run happened once, and that failures are in SQL, events and metrics and on the page."""
    calendar.check()
    failures = calendar.count_expected_runs(BROKEN)
    rows = query(url, "SELECT job, state, count(*) FROM exports GROUP BY job, state")
    states = {(job, state): number for job, state, number in rows}
    assert states.get((BROKEN, "failed")) == failures
    assert not [key for key in states if key[1] != "done" and key[0] != BROKEN], states
    [(events,)] = query(url, "SELECT count(*) FROM events WHERE kind = 'export-failed'")
    assert events == failures
    assert metric(daemon, f'hierogram_export_failures_total{{job="{BROKEN}"}}') == failures
    assert metric(daemon, f'hierogram_export_failing{{job="{BROKEN}"}}') == 1
    for name in (BERLIN, NEW_YORK):
        assert metric(daemon, f'hierogram_export_failing{{job="{name}"}}') == 0
        next_run = metric(daemon, f'hierogram_export_next_run_timestamp_seconds{{job="{name}"}}')
        assert next_run is not None
        assert next_run > calendar.now.timestamp()
    assert "corpus &#39;missing&#39; not found" in page(daemon)


@pytest.fixture
def pooled(own_server: Any) -> Iterator[tuple[str, str]]:
    """URLs of a database through PgBouncer in transaction mode, and directly."""
    server = own_server.get_uri()
    with pgbouncer(server, "ignore_startup_parameters = options", connections=4) as bouncer:
        yield str(make_url(bouncer).set(database=make_url(server).database)), server


@pytest.mark.slow
def test_daemon_survives_bad_input_and_runs_exports_over_one_clock_change(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    run_campaign(url, url, tmp_path, Calendar(tmp_path, NIGHT, new_york=150), seconds=20, pause=0.2)


def minutes() -> float:
    """Return the length of the campaign in minutes: 60, or HIEROGRAM_TEST_MINUTES."""
    return float(os.environ.get("HIEROGRAM_TEST_MINUTES", "60"))


@pytest.mark.campaign
@pytest.mark.timeout(14_400)
def test_daemon_survives_bad_input_and_runs_exports_over_autumn_clock_changes(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    calendar = Calendar(tmp_path, WEEKS["autumn"], new_york=90)
    run_campaign(url, url, tmp_path, calendar, minutes() * 60, pause=2.0)


@pytest.mark.campaign
@pytest.mark.timeout(14_400)
def test_daemon_behind_a_pooler_survives_bad_input_over_spring_clock_changes(
    pooled: tuple[str, str], tmp_path: Path
) -> None:
    calendar = Calendar(tmp_path, WEEKS["spring"], new_york=150)
    run_campaign(*pooled, tmp_path, calendar, minutes() * 60, pause=2.0)
