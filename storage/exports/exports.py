"""The record of exports."""

from dataclasses import asdict, dataclass

from sqlalchemy import Connection, insert, select, update

from hierogram.storage.database.transactions import Writing, new_id, now
from hierogram.storage.events.feed import append
from hierogram.storage.exceptions import ExportUnknownError
from hierogram.storage.operations.processes import has_ended, this_process
from hierogram.storage.pairs.pairs import DONE, FAILED, RUNNING
from hierogram.storage.records import ExportRow
from hierogram.storage.records.events import EXPORT_DONE, EXPORT_FAILED, NewEvent
from hierogram.storage.schema.tables import exports


def record_export(writing: Writing, name: str, path: str, format: str, job: str | None) -> int:
    """Records that this process has begun an export, as a run of the job, if any; returns its id."""
    added = writing.connection.execute(
        insert(exports).values(
            name=name,
            path=path,
            format=format,
            started_at=now(),
            state=RUNNING,
            job=job,
            process=this_process(),
        )
    )
    return new_id(added)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an export ended: what was written, or what went wrong; `version` is the name of a version's folder."""

    rules: int | None = None
    bytes: int | None = None
    sha256: str | None = None
    position: int | None = None
    manifest: str | None = None
    error: str | None = None
    seconds: float | None = None
    version: str | None = None


def finish_export(writing: Writing, export_id: int, outcome: Outcome) -> None:
    """Records how an export ended: failed if there is an error; raises `ExportUnknownError`."""
    state = DONE if outcome.error is None else FAILED
    values = asdict(outcome)
    version = values.pop("version")
    changed = writing.connection.execute(
        update(exports).where(exports.c.id == export_id).values(finished_at=now(), state=state, **values)
    )
    if changed.rowcount != 1:
        raise ExportUnknownError(f"export {export_id} is not recorded: begin with record_export")
    _tell(writing, export_id, version)


_TOLD = ("name", "path", "format", "job", "rules", "bytes", "sha256", "position", "error", "seconds")


def _tell(writing: Writing, export_id: int, version: str | None = None) -> None:
    """Appends the event of how an export ended."""
    wanted = select(exports.c.state, *(exports.c[name] for name in _TOLD)).where(exports.c.id == export_id)
    row = writing.connection.execute(wanted).one()
    detail = {name: value for name, value in zip(_TOLD, row[1:], strict=True) if value is not None}
    if version is not None:
        detail["version"] = version
    kind = EXPORT_DONE if row.state == DONE else EXPORT_FAILED
    append(writing, [NewEvent(kind, number=row.rules, detail={"export": export_id, **detail})])


def close_abandoned_exports(writing: Writing) -> list[int]:
    """Closes, as failed, the exports whose processes have ended without doing so; returns their ids."""
    closed = []
    running = select(exports.c.id, exports.c.process).where(exports.c.state == RUNNING).order_by(exports.c.id)
    for export_id, process in writing.connection.execute(running).all():
        # Exports of before this was recorded name no process; none of them can be running any more.
        if process is None or has_ended(process):
            writing.connection.execute(
                update(exports)
                .where(exports.c.id == export_id)
                .values(finished_at=now(), state=FAILED, error="its process ended before it was done")
            )
            closed.append(export_id)
            _tell(writing, export_id)
    return closed


def list_exports(connection: Connection, limit: int, job: str | None) -> list[ExportRow]:
    """The last exports (of a job), newest first."""
    statement = select(*(exports.c[name] for name in ExportRow._fields)).order_by(exports.c.id.desc()).limit(limit)
    if job is not None:
        statement = statement.where(exports.c.job == job)
    return [ExportRow._make(row) for row in connection.execute(statement)]
