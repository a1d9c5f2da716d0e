"""The schedule: jobs in the store's own database, run when it is time, one after the other.

Runs that were missed because nothing ran happen once, when the schedule starts; a job that is still running when it is
due again is left out that time. Every run is a row of the table `exports`.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.job import Job
from apscheduler.jobstores.base import BaseJobStore, ConflictingIdError, JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import STATE_RUNNING, BaseScheduler
from pydantic import ValidationError

from hierogram.daemon.exceptions import ExportError, ScheduleError
from hierogram.daemon.exports.exporting import Published, Report, publish
from hierogram.daemon.exports.jobs import ExportJob
from hierogram.daemon.plain_options import from_plain
from hierogram.storage.exports.jobs import JobRow
from hierogram.storage.store import Store

Ended = Callable[[str, Published | None, Exception | None], None]
"""Hears of a run: the job, what was published, or what went wrong."""

_log = logging.getLogger(__name__)

_FUNCTION = "hierogram.daemon.exports.schedule:run_scheduled"
_JOB_DEFAULTS = {"coalesce": True, "max_instances": 1, "misfire_grace_time": None}

_CONFIGURED = "config:"
"""Begins the ids of jobs that stand in the configuration; others come from the command line."""

_SCHEDULES: dict[str, "ExportSchedule"] = {}


@dataclass(frozen=True, slots=True)
class ScheduledJob:
    """A job, whether it stands in the configuration, and when it runs next (None: never)."""

    job: ExportJob
    configured: bool
    next_run: datetime | None


def run_job(store: Store, job: ExportJob, report: Report | None = None) -> Published:
    """Runs a job now; raises `ExportError`."""
    return publish(store, job.versions(), job.options(), job=job.name, report=report)


def run_scheduled(url: str, described: dict[str, Any]) -> None:
    """What the job store names as a job's function: runs it in the schedule of the store, in this process."""
    _SCHEDULES[url].run(from_plain(ExportJob, described))


class ExportSchedule:
    """The schedule of a store; between `start` and `stop` it runs what is due, in a thread of its own.

    `look` notices jobs that other processes have added or removed: call it every few seconds.
    """

    def __init__(self, store: Store, configured: Sequence[ExportJob] = (), ended: Ended | None = None) -> None:
        self._store = store
        self._configured = configured
        self._ended = ended or (lambda *_: None)
        self._stopping = threading.Event()
        self._scheduler = _Runner(**_settings(store), daemon=True)

    def start(self) -> None:
        """Closes runs that crashed, takes in the configuration's jobs, and begins to run what is due."""
        self._store.close_abandoned_exports()
        _SCHEDULES[self._store.url] = self
        self._scheduler.start(paused=True)
        self._configure()
        self._scheduler.resume()

    def alive(self) -> bool:
        """Whether the scheduler's thread runs."""
        thread = getattr(self._scheduler, "_thread", None)
        return thread is not None and thread.is_alive()

    def look(self) -> None:
        """Looks for jobs that are new, gone or due."""
        self._scheduler.wakeup()

    def stop(self) -> None:
        """Ends; a run that is under way ends as failed, at its next step, and leaves the version before in place."""
        self._stopping.set()
        with suppress(Exception):
            self._scheduler.shutdown(wait=True)
        _SCHEDULES.pop(self._store.url, None)

    def run(self, job: ExportJob) -> None:
        """Runs a job and tells how it went; an error is in the job's row of `exports`."""
        try:
            self._ended(job.name, run_job(self._store, job, self._step), None)
        except Exception as error:
            self._ended(job.name, None, error)

    def _step(self, *_: object) -> None:
        if self._stopping.is_set():
            raise ExportError("ended before it was done, because the daemon was told to end")

    def _configure(self) -> None:
        """Brings the jobs of the configuration into the job store; one that is as it was keeps its next run."""
        wanted = {_CONFIGURED + job.name: job for job in self._configured}
        for known in self._scheduler.get_jobs():
            if known.id.startswith(_CONFIGURED) and known.id not in wanted:
                known.remove()
        for name, job in wanted.items():
            known = self._scheduler.get_job(name)
            if known is None or known.kwargs["described"] != job.described():
                _put(self._scheduler, self._store, name, job)


def add_job(store: Store, job: ExportJob) -> ScheduledJob:
    """Adds a job, or puts it in the place of the one with its name."""
    with desk(store) as scheduler:
        return _told(_put(scheduler, store, job.name, job))


def remove_job(store: Store, name: str) -> None:
    """Removes a job; raises `ScheduleError` where there is none, or where it stands in the configuration."""
    with desk(store) as scheduler:
        try:
            scheduler.remove_job(name)
        except JobLookupError:
            if scheduler.get_job(_CONFIGURED + name) is not None:
                raise ScheduleError(f"job {name!r} stands in the configuration: remove it there") from None
            raise ScheduleError(f"there is no job {name!r}: `hierogram schedule list` shows all") from None


def list_jobs(store: Store) -> list[ScheduledJob]:
    """All jobs, by the time of their next runs."""
    with desk(store) as scheduler:
        return [_told(job) for job in scheduler.get_jobs()]


def find_job(store: Store, name: str) -> ExportJob:
    """The job with the name; raises `ScheduleError` where there is none."""
    for scheduled in list_jobs(store):
        if scheduled.job.name == name:
            return scheduled.job
    raise ScheduleError(f"there is no job {name!r}: `hierogram schedule list` shows all")


class _Runner(BackgroundScheduler):  # type: ignore[misc]
    """Leaves alone what becomes due while it ends: APScheduler itself would take it off the list, and not run it."""

    def _process_jobs(self) -> float | None:
        return super()._process_jobs() if self.running and self.state == STATE_RUNNING else None


class _Desk(BaseScheduler):  # type: ignore[misc]
    """A scheduler without a thread, to look at and change the jobs."""

    def wakeup(self) -> None:
        """Nothing is run from here."""

    def shutdown(self, wait: bool = True) -> None:
        """Leaves the jobs to others."""
        super().shutdown(wait)


@contextmanager
def desk(store: Store) -> Iterator[BaseScheduler]:
    """The jobs of the store, to look at and change."""
    scheduler = _Desk(**_settings(store))
    scheduler.start(paused=True)
    try:
        yield scheduler
    finally:
        scheduler.shutdown(wait=False)


def _settings(store: Store) -> dict[str, Any]:
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    return {
        "jobstores": {"default": _JobStore(store)},
        "executors": {"default": ThreadPoolExecutor(1)},
        "job_defaults": _JOB_DEFAULTS,
        "timezone": "UTC",
    }


class _JobStore(BaseJobStore):  # type: ignore[misc]
    """APScheduler's jobs in the store's table, as JSON: what they do is `run_scheduled`, whatever stands there.

    A row that describes no job is told in the log and never runs; it stays until it is removed or put right.
    """

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self._jobs = store.jobs

    def lookup_job(self, job_id: str) -> Job | None:
        """See `BaseJobStore.lookup_job`."""
        row = self._jobs.find(job_id)
        return next(iter(self._read([row])), None) if row else None

    def get_due_jobs(self, now: datetime) -> list[Job]:
        """See `BaseJobStore.get_due_jobs`."""
        return self._read(self._jobs.due(now.timestamp()))

    def get_next_run_time(self) -> datetime | None:
        """See `BaseJobStore.get_next_run_time`."""
        return _moment(self._jobs.next_run())

    def get_all_jobs(self) -> list[Job]:
        """See `BaseJobStore.get_all_jobs`."""
        return self._read(self._jobs.all())

    def add_job(self, job: Job) -> None:
        """See `BaseJobStore.add_job`."""
        if not self._jobs.add(_row(job)):
            raise ConflictingIdError(job.id)

    def update_job(self, job: Job) -> None:
        """See `BaseJobStore.update_job`."""
        if not self._jobs.change(_row(job)):
            raise JobLookupError(job.id)

    def remove_job(self, job_id: str) -> None:
        """See `BaseJobStore.remove_job`."""
        if not self._jobs.remove(job_id):
            raise JobLookupError(job_id)

    def remove_all_jobs(self) -> None:
        """See `BaseJobStore.remove_all_jobs`."""
        self._jobs.clear()

    def _read(self, rows: Sequence[JobRow]) -> list[Job]:
        jobs = []
        for row in rows:
            try:
                described = from_plain(ExportJob, json.loads(row.job))
            except (ValueError, TypeError, RecursionError) as error:
                _log.warning(
                    "the job %r of the schedule cannot be read and does not run: %s; remove it with `hierogram "
                    "schedule remove`, or add it again",
                    row.id,
                    _in_one_line(error),
                )
                if row.next_run is not None:
                    self._jobs.suspend([row.id])
                continue
            jobs.append(self._job(row, described))
        return jobs

    def _job(self, row: JobRow, described: ExportJob) -> Job:
        job = Job.__new__(Job)
        job.__setstate__(
            {
                "id": row.id,
                "func": _FUNCTION,
                "trigger": described.trigger(),
                "executor": "default",
                "args": (),
                "kwargs": {"url": self._store.url, "described": described.described()},
                "name": described.name,
                **_JOB_DEFAULTS,
                "next_run_time": _moment(row.next_run),
            }
        )
        job._scheduler = self._scheduler
        job._jobstore_alias = self._alias
        return job


def _row(job: Job) -> JobRow:
    next_run = None if job.next_run_time is None else job.next_run_time.timestamp()
    return JobRow(job.id, next_run, json.dumps(job.kwargs["described"]))


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _in_one_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(f"{'.'.join(map(str, fault['loc'])) or 'job'}: {fault['msg']}" for fault in error.errors())
    return str(error) or type(error).__name__


def _put(scheduler: BaseScheduler, store: Store, name: str, job: ExportJob) -> Job:
    return scheduler.add_job(
        _FUNCTION,
        trigger=job.trigger(),
        id=name,
        name=job.name,
        kwargs={"url": store.url, "described": job.described()},
        replace_existing=True,
    )


def _told(job: Job) -> ScheduledJob:
    return ScheduledJob(
        from_plain(ExportJob, job.kwargs["described"]), job.id.startswith(_CONFIGURED), job.next_run_time
    )
