"""Export schedule: jobs in a table of the store, and runs of due jobs.

The daemon calls `run_due` every second. `run_due` runs one job after the other, and stores the next run of a job before
it runs the job. A job that was due several times while the daemon was stopped, or during its own run, runs once. Each
run that writes a version or fails adds a row to the table `exports`. A run that finds nothing new only updates the row
of the job.
"""

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from itertools import islice
from typing import Any, Literal

from pydantic import ValidationError

from hierogram.daemon.exceptions import DaemonError, ExportError, UsageError
from hierogram.daemon.exports.exporting import Published, dry_run_publish, publish
from hierogram.daemon.exports.formats import default_format
from hierogram.daemon.exports.options import ExportJob
from hierogram.daemon.exports.publication import canonical_folder, open_folder
from hierogram.daemon.progress import Phases
from hierogram.samplers.grammar.kinds import find_grammar_kind
from hierogram.storage.exports.exports import JobRow
from hierogram.storage.options import OptionError, as_plain, from_plain
from hierogram.storage.store import Store

RunState = Literal["never", "running", "done", "failed", "unchanged", "unreadable"]

_RUNS_SHOWN = 3
INTERRUPTED = "interrupted by a shutdown or reload of the daemon; the job will run again"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Status of a scheduled job, as shown by commands, HTTP and pages. Times are in the job's time zone.

    `configured` is True if the configuration of the daemon defines the job. `state` is the state of the last run,
    or `never`. It is `unchanged` if there was nothing new to export, and `unreadable` if the stored job is invalid and
    never runs. `error` is the reason why the last run failed or the next run will fail. `succeeded_at` is the time when
    the last version was written or confirmed as unchanged. `seconds`, `rules`, `bytes` and `path` describe the last
    version. `failures` is the number of failed runs.
    """

    name: str
    configured: bool
    job: dict[str, Any]
    next_runs: tuple[datetime, ...]
    state: RunState
    error: str | None
    started_at: datetime | None
    succeeded_at: datetime | None
    seconds: float | None
    rules: int | None
    bytes: int | None
    path: str | None
    failures: int


def format_time(time: datetime) -> str:
    """Format a time in its zone, and also in UTC if the zone differs."""
    utc = time.astimezone(UTC)
    if time.utcoffset() == utc.utcoffset():
        return f"{utc:%a %Y-%m-%d %H:%M:%S} UTC"
    date = "" if utc.date() == time.date() else f"{utc:%Y-%m-%d} "
    return f"{time:%a %Y-%m-%d %H:%M:%S %Z} ({date}{utc:%H:%M:%S} UTC)"


def run_job(store: Store, job: ExportJob, report: Phases | None = None) -> Published:
    """Run a job now. A failure is recorded in the store. Raises the errors of `publish`."""
    try:
        _check_stored(store, job)
    except ExportError as error:
        format = job.format or default_format(find_grammar_kind(store.settings().grammar)).name
        store.finish_export(store.record_export(job.name, canonical_folder(job.to), format, job.name), error=str(error))
        raise
    return publish(store, job.versions(), job.options(), job=job.name, report=report)


def dry_run_job(store: Store, job: ExportJob, report: Phases | None = None) -> Published:
    """Predict the result of running the job now, without writing anything. Raises the errors of `publish`."""
    _check_stored(store, job)
    return dry_run_publish(store, job.versions(), job.options(), job=job.name, report=report)


def configure_jobs(store: Store, jobs: Sequence[ExportJob], now: datetime | None = None) -> None:
    """Replace the jobs of the earlier configuration by `jobs`. An unchanged job keeps its next run."""
    rows_by_name = {row.name: row for row in store.jobs() if row.configured}
    for name in rows_by_name.keys() - {job.name for job in jobs}:
        store.remove_job(name)
    for job in jobs:
        row = _new_row(job, now, configured=True)
        if job.name not in rows_by_name or rows_by_name[job.name].job != row.job:
            store.put_job(row)


def run_due(
    store: Store,
    ended: Callable[[str, Published | None, Exception | None], None] = lambda *_: None,
    report: Phases = lambda *_: None,
    stopping: Callable[[], bool] = lambda: False,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """Run due jobs, earliest first, until no job is due or `stopping` returns True.

    An interrupted job remains due. `ended(name, published version or None, error or None)` is called after each run.
    """

    def step(work: str, done: int, total: int | None) -> None:
        if stopping():
            raise ExportError(INTERRUPTED)
        report(work, done, total)

    while not stopping():
        row, now = next(iter(store.jobs()), None), clock()
        if row is None or row.next_run is None or row.next_run > now.timestamp():
            return
        job = _read_job(row)
        if job is None:
            store.set_next_run(row, None)
            continue
        due = datetime.fromtimestamp(row.next_run, UTC)
        next_run = _next_run(job, now, due)
        if not store.set_next_run(row, next_run):
            # Another process has changed, removed or run the job, so read the jobs again.
            continue
        row = row._replace(next_run=next_run)
        published, error = None, None
        try:
            published = run_job(store, job, step)
        except Exception as raised:
            error = raised
        # Set the next run before the callback, which may raise an error.
        if error is not None and str(error) == INTERRUPTED:
            store.set_next_run(row, due.timestamp())
        elif next_run is not None and next_run <= clock().timestamp():
            store.set_next_run(row, _next_run(job, clock(), due))
        ended(job.name, published, error)


def correct_next_runs(store: Store, now: datetime | None = None) -> list[str]:
    """Recompute next runs set while the clock was ahead. Returns the names of the corrected jobs."""
    now = now or datetime.now(UTC)
    corrected = []
    for row in store.jobs():
        job = _parse_job(row.job)
        if row.next_run is None or isinstance(job, str):
            continue
        # Compare with the second run, so that a clock that is set back a little does not repeat a run.
        runs = [run.timestamp() for run in islice(job.runs_after(now), 2)]
        if runs and row.next_run > runs[-1] and store.set_next_run(row, runs[0]):
            corrected.append(row.name)
    return corrected


def check_job(job: ExportJob, others: Iterable[ExportJob]) -> None:
    """Raise `OptionError` if name or folder are in use, the folder URL is bad, or the test set is missing."""
    for other in others:
        if other.name == job.name:
            raise OptionError(
                "name", f"job {job.name!r} already exists: choose another name (`hierogram schedule` lists all jobs)"
            )
        if canonical_folder(other.to) == canonical_folder(job.to):
            raise OptionError(
                "to",
                f"{job.to}: job {other.name!r} writes to the same folder, whose link `latest` supports only one "
                "job: use another folder",
            )
    try:
        open_folder(job.to)
    except ExportError as error:
        raise OptionError("to", str(error)) from error
    if job.filter_for is not None and not job.filter_for.is_file():
        raise OptionError("filter_for", f"{job.filter_for}: file not found")


def check_configured_jobs(store: Store, jobs: Sequence[ExportJob]) -> None:
    """Check the jobs of the configuration. Raises `UsageError` that names the key of an invalid job."""
    added = [job for row in store.jobs() if not row.configured and (job := _read_job(row))]
    for number, job in enumerate(jobs):
        try:
            check_job(job, (*jobs[:number], *added))
        except OptionError as error:
            raise UsageError(f"exports.{number}.{error}") from error


def _check_stored(store: Store, job: ExportJob) -> None:
    others = [_parse_job(row.job) for row in store.jobs() if row.name != job.name]
    try:
        check_job(job, [other for other in others if isinstance(other, ExportJob)])
    except OptionError as error:
        raise ExportError(str(error)) from error


def add_job(store: Store, job: ExportJob) -> JobStatus:
    """Add a job, or replace the added job with the same name. Returns its status. Raises `OptionError`."""
    rows = [row for row in store.jobs() if row.configured or row.name != job.name]
    check_job(job, [other for row in rows if (other := _read_job(row))])
    store.put_job(_new_row(job))
    return job_status(store, job.name)


def remove_job(store: Store, name: str) -> None:
    """Remove a job. Raises `DaemonError` if it does not exist or is defined in the configuration."""
    if any(row.name == name and row.configured for row in store.jobs()):
        raise DaemonError(f"job {name!r} is defined in the configuration of the daemon: remove it there")
    if not store.remove_job(name):
        raise _not_found(name)


def find_job(store: Store, name: str) -> ExportJob:
    """Return the job with the name. Raises `DaemonError` if it does not exist or is invalid."""
    for row in store.jobs():
        if row.name == name and (job := _read_job(row)):
            return job
    raise _not_found(name)


def list_jobs(store: Store) -> list[JobStatus]:
    """Return the status of all jobs, ordered by next run. Jobs without a next run are last."""
    return job_statuses(store.jobs())


def job_status(store: Store, name: str) -> JobStatus:
    """Return the status of a job. Raises `DaemonError` if it does not exist."""
    for status in list_jobs(store):
        if status.name == name:
            return status
    raise _not_found(name)


def job_statuses(rows: Sequence[JobRow]) -> list[JobStatus]:
    """Return the status of each row, in the same order. `rows` must be all jobs, to find conflicts."""
    jobs = [_parse_job(row.job) for row in rows]
    valid_jobs = [job for job in jobs if isinstance(job, ExportJob)]
    return [_status(row, job, valid_jobs) for row, job in zip(rows, jobs, strict=True)]


def _status(row: JobRow, job: ExportJob | str, valid_jobs: list[ExportJob]) -> JobStatus:
    unchanged = None if row.unchanged_at is None else datetime.fromtimestamp(int(row.unchanged_at), UTC)
    confirmed = unchanged is not None and (row.started_at is None or unchanged >= row.started_at)
    last: RunState = "unchanged" if confirmed else row.state or "never"
    error = row.error if last == "failed" else None
    next_runs: tuple[datetime, ...] = ()
    zone: tzinfo = UTC
    if isinstance(job, str):
        last, error, options = "unreadable", job, {}
    else:
        zone, options = job.zone, as_plain(job)
        if row.next_run is not None:
            due = datetime.fromtimestamp(row.next_run, UTC)
            next_runs = (due.astimezone(zone), *islice(job.runs_after(due, due), _RUNS_SHOWN - 1))
        try:
            check_job(job, [other for other in valid_jobs if other is not job])
        except OptionError as problem:
            error = error or str(problem)
    started, succeeded = row.started_at, unchanged if confirmed else row.succeeded_at
    return JobStatus(
        row.name, row.configured, options, next_runs, last, error, started and started.astimezone(zone),
        succeeded and succeeded.astimezone(zone), row.seconds, row.rules, row.bytes, row.path, row.failures,
    )  # fmt: skip


def _read_job(row: JobRow) -> ExportJob | None:
    """Parse a stored job. If it is invalid, log a warning and return None."""
    job = _parse_job(row.job)
    if isinstance(job, ExportJob):
        return job
    _log.warning(
        "scheduled job %r cannot be read and does not run: %s; remove it with `hierogram schedule --remove`, or add "
        "it again", row.name, job,
    )  # fmt: skip
    return None


def _parse_job(stored: str) -> ExportJob | str:
    """Parse a stored job. Returns an error message if it is invalid."""
    try:
        return from_plain(ExportJob, json.loads(stored))
    except ValidationError as error:
        faults = error.errors()
        return "; ".join(f"{'.'.join(map(str, fault['loc'])) or 'job'}: {fault['msg']}" for fault in faults)
    except (ValueError, TypeError, RecursionError) as error:
        return str(error) or type(error).__name__


def _new_row(job: ExportJob, now: datetime | None = None, *, configured: bool = False) -> JobRow:
    return JobRow(job.name, json.dumps(as_plain(job)), _next_run(job, now or datetime.now(UTC), None), configured)


def _next_run(job: ExportJob, now: datetime, due: datetime | None) -> float | None:
    run = next(job.runs_after(now, due), None)
    return None if run is None else run.timestamp()


def _not_found(name: str) -> DaemonError:
    return DaemonError(f"job {name!r} not found: `hierogram schedule` lists all jobs")
