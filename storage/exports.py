"""The record of exports."""

from sqlalchemy import Connection, insert, select, update

from hierogram.storage.exceptions import ExportUnknownError
from hierogram.storage.pairs import DONE, FAILED, RUNNING
from hierogram.storage.records import ExportRow
from hierogram.storage.schema import exports
from hierogram.storage.transactions import Writing, new_id, now


def record_export(writing: Writing, name: str, path: str, format: str) -> int:
    """Records that an export has begun; returns its id."""
    added = writing.connection.execute(
        insert(exports).values(name=name, path=path, format=format, started_at=now(), state=RUNNING)
    )
    return new_id(added)


def finish_export(
    writing: Writing,
    export_id: int,
    *,
    rules: int | None,
    bytes: int | None,
    sha256: str | None,
    position: int | None,
    manifest: str | None,
    error: str | None,
) -> None:
    """Records how an export ended: failed if there is an error; raises `ExportUnknownError`."""
    changed = writing.connection.execute(
        update(exports)
        .where(exports.c.id == export_id)
        .values(
            finished_at=now(),
            state=DONE if error is None else FAILED,
            rules=rules,
            bytes=bytes,
            sha256=sha256,
            position=position,
            error=error,
            manifest=manifest,
        )
    )
    if changed.rowcount != 1:
        raise ExportUnknownError(f"export {export_id} is not recorded: begin with record_export")


def list_exports(connection: Connection, limit: int) -> list[ExportRow]:
    """The last exports, newest first."""
    statement = select(*(exports.c[name] for name in ExportRow._fields)).order_by(exports.c.id.desc()).limit(limit)
    return [ExportRow._make(row) for row in connection.execute(statement)]
