"""The schedule: jobs in a table of the store, run when it is time, one after the other.

The table says which jobs there are and when each runs next. A running schedule has them in an APScheduler in memory,
which it brings up to date whenever the table changes. Runs that were missed because nothing ran happen once, when the
schedule starts; a job that is still running when it is due again is left out that time. Every run is in `exports`.
"""

import json
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from pydantic import ValidationError

from hierogram.daemon.exceptions import DaemonError, ExportError
from hierogram.daemon.exports.exporting import Published, Report, publish
from hierogram.daemon.exports.options import ExportJob
from hierogram.storage.exports.exports import JobRow
from hierogram.storage.options import as_plain, from_plain
from hierogram.storage.store import Store

Ended = Callable[[str, Published | None, Exception | None], None]
"""Hears of a run: the job, what was published, or what went wrong."""

_log = logging.getLogger(__name__)

_CONFIGURED = "config:"
"""Begins the ids of jobs that stand in the configuration; others come from the command line."""

_LATE_SECONDS = 60.0
"""A due job that the scheduler has not looked at for this long shows that its thread is gone."""


@dataclass(frozen=True, slots=True)
class ScheduledJob:
    """A job, whether it stands in the configuration, and when it runs next (None: never)."""

    job: ExportJob
    configured: bool
    next_run: datetime | None

    def plain(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        next_run = None if self.next_run is None else self.next_run.isoformat()
        return {"job": as_plain(self.job), "configured": self.configured, "next_run": next_run}


def run_job(store: Store, job: ExportJob, report: Report | None = None) -> Published:
    """Run a job now; raises `ExportError`."""
    return publish(store, job.versions(), job.options(), job=job.name, report=report)


class ExportSchedule:
    """The schedule of a store; between `start` and `stop` it runs what is due, in a thread of its own.

    `look` notices jobs that others have added, changed or removed: call it every few seconds.
    """

    def __init__(self, store: Store, configured: Sequence[ExportJob] = (), ended: Ended | None = None) -> None:
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        self._store = store
        self._configured = configured
        self._ended = ended or (lambda *_: None)
        self._stopping = threading.Event()
        self._scheduler = BackgroundScheduler(
            executors={"default": ThreadPoolExecutor(1)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
            timezone="UTC",
            daemon=True,
        )
        self._turn = threading.Lock()
        """Held by a run."""
        self._lock = threading.Lock()
        self._known: dict[str, JobRow] = {}
        """The rows of the table as the scheduler has them; this and the table change together, under the lock."""

    def start(self) -> None:
        """Close runs that crashed, take in the configuration's jobs, and begin to run what is due."""
        self._store.close_abandoned_exports()
        # A job of the configuration that is as it was keeps its next run.
        wanted = {_CONFIGURED + job.name: _first_row(_CONFIGURED + job.name, job) for job in self._configured}
        known = {row.id: row for row in self._store.jobs() if row.id.startswith(_CONFIGURED)}
        for gone in known.keys() - wanted.keys():
            self._store.remove_job(gone)
        for row in wanted.values():
            if row.id not in known or known[row.id].job != row.job:
                self._store.put_job(row)
        self.look()
        self._scheduler.start()

    def alive(self) -> bool:
        """Return whether the scheduler looks at its jobs."""
        now = datetime.now(UTC)
        return all(
            job.next_run_time is None or (now - job.next_run_time).total_seconds() < _LATE_SECONDS
            for job in self._scheduler.get_jobs()
        )

    def look(self) -> None:
        """Give the scheduler the jobs of the table that are new or changed, and take away those that are gone."""
        with self._lock:
            rows = {row.id: row for row in self._store.jobs()}
            for gone in self._known.keys() - rows.keys():
                if self._scheduler.get_job(gone) is not None:
                    self._scheduler.remove_job(gone)
                del self._known[gone]
            for row in rows.values():
                if self._known.get(row.id) != row:
                    self._known[row.id] = self._give(row)

    def _give(self, row: JobRow) -> JobRow:
        """Give the scheduler a job; returns its row, which is suspended where it cannot be read."""
        job = _read(row)
        if job is None:
            suspended = replace(row, next_run=None)
            self._store.postpone_job(suspended)
            return suspended
        self._scheduler.add_job(
            self._run,
            job.trigger(),
            args=(row.id, job),
            id=row.id,
            name=job.name,
            next_run_time=_moment(row.next_run),
            replace_existing=True,
        )
        return row

    def stop(self) -> None:
        """End; a run that is under way ends as failed, at its next step, and leaves the version before in place.

        What became due and has not begun stays due.
        """
        self._stopping.set()
        # A scheduler that shuts down holds the lock that a run needs to ask it for a job.
        with self._turn:
            pass
        if self._scheduler.running:
            self._scheduler.shutdown(wait=True)

    def _run(self, job_id: str, job: ExportJob) -> None:
        """Run a job that is due and report how it went; an error is in the job's row of `exports`."""
        with self._turn:
            if self._stopping.is_set():
                return
            try:
                self._note_next_run(job_id)
                self._ended(job.name, run_job(self._store, job, self._step), None)
                # While it ran, it may have been due again, and been left out.
                self._note_next_run(job_id)
            except Exception as error:
                self._ended(job.name, None, error)

    def _note_next_run(self, job_id: str) -> None:
        with self._lock:
            job, row = self._scheduler.get_job(job_id), self._known.get(job_id)
            if job is not None and row is not None:
                next_run = None if job.next_run_time is None else job.next_run_time.timestamp()
                later = replace(row, next_run=next_run)
                if self._store.postpone_job(later):
                    self._known[job_id] = later

    def _step(self, *_: object) -> None:
        if self._stopping.is_set():
            raise ExportError("ended before it was done, because the daemon was told to end")


def add_job(store: Store, job: ExportJob) -> ScheduledJob:
    """Add a job, or put it in the place of the one with its name."""
    row = _first_row(job.name, job)
    store.put_job(row)
    return ScheduledJob(job, configured=False, next_run=_moment(row.next_run))


def remove_job(store: Store, name: str) -> None:
    """Remove a job; raises `DaemonError` where there is none, or where it stands in the configuration."""
    if not store.remove_job(name):
        if any(row.id == _CONFIGURED + name for row in store.jobs()):
            raise DaemonError(f"job {name!r} stands in the configuration: remove it there")
        raise DaemonError(f"there is no job {name!r}: `hierogram schedule` shows all")


def list_jobs(store: Store) -> list[ScheduledJob]:
    """Return all jobs, by the time of their next runs; rows that describe no job are left out and logged."""
    return [
        ScheduledJob(job, row.id.startswith(_CONFIGURED), _moment(row.next_run))
        for row in store.jobs()
        if (job := _read(row)) is not None
    ]


def find_job(store: Store, name: str) -> ExportJob:
    """Return the job with the name; raises `DaemonError` where there is none."""
    for scheduled in list_jobs(store):
        if scheduled.job.name == name:
            return scheduled.job
    raise DaemonError(f"there is no job {name!r}: `hierogram schedule` shows all")


def _read(row: JobRow) -> ExportJob | None:
    try:
        return from_plain(ExportJob, json.loads(row.job))
    except (ValueError, TypeError, RecursionError) as error:
        reason = str(error) or type(error).__name__
        if isinstance(error, ValidationError):
            faults = error.errors()
            reason = "; ".join(f"{'.'.join(map(str, fault['loc'])) or 'job'}: {fault['msg']}" for fault in faults)
        _log.warning(
            "the job %r of the schedule cannot be read and does not run: %s; remove it with `hierogram "
            "schedule --remove`, or add it again",
            row.id,
            reason,
        )
        return None


def _first_row(job_id: str, job: ExportJob) -> JobRow:
    first = job.trigger().get_next_fire_time(None, datetime.now(UTC))
    return JobRow(job_id, None if first is None else first.timestamp(), json.dumps(as_plain(job)))


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
