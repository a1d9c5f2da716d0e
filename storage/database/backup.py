"""Backups: consistent copies of SQLite stores in use, and backup commands for Postgres."""

import os
import shlex
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from secrets import token_hex

from sqlalchemy import Connection, make_url

from hierogram.storage.database.postgres import PREPARE, SECRETS
from hierogram.storage.database.sqlite_files import sync
from hierogram.storage.exceptions import StoreError

_PAGES_PER_STEP = 4_096


def back_up(connection: Connection, target: Path, report: Callable[[int, int], None] | None = None) -> int:
    """Copy the store, as the connection's transaction sees it, to a file. See `Store.back_up`."""
    source = connection.connection.driver_connection
    if not isinstance(source, sqlite3.Connection):
        raise StoreError("only SQLite stores can be copied to a file: use pg_dump for a store on Postgres")
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{token_hex(4)}.tmp")
    try:
        temporary.open("xb").close()
        _copy(source, temporary, report)
        sync(temporary)
        size = temporary.stat().st_size
        temporary.replace(target)
        sync(target.parent)
    except (sqlite3.DatabaseError, OSError) as error:
        if isinstance(error, sqlite3.Error) and "malformed" in str(error):
            raise StoreError(_damaged(str(error))) from error
        raise StoreError(
            f"{target}: the backup cannot be written: {error}: check its folder and the free disk space"
        ) from error
    finally:
        for ending in ("", "-journal", "-wal", "-shm"):
            with suppress(OSError):
                Path(f"{temporary}{ending}").unlink(missing_ok=True)
    return size


def _copy(source: sqlite3.Connection, file: Path, report: Callable[[int, int], None] | None) -> None:
    page = source.execute("PRAGMA page_size").fetchone()[0]

    def report_pages(_status: int, remaining: int, total: int) -> None:
        if report:
            report(page * (total - remaining), page * total)

    with closing(sqlite3.connect(file, isolation_level=None)) as copy:
        # The transaction of `source` is open, so the backup does not restart when another connection writes.
        source.backup(copy, pages=_PAGES_PER_STEP, progress=report_pages)
        # Leave WAL mode, so that the copy is one file. Delete the lease, because no process writes to the copy.
        copy.execute("PRAGMA journal_mode=DELETE").close()
        copy.execute("DELETE FROM leases WHERE name = 'grammar'").close()
        problems = [line for (line,) in copy.execute("PRAGMA integrity_check")]
    if problems != ["ok"]:
        raise StoreError(_damaged(problems[0]))


def _damaged(reason: str) -> str:
    return f"the file of the store is damaged ({reason}), so no backup was written: restore an older backup"


def postgres_commands(url: str, file: str) -> tuple[str, str]:
    """Return the commands that back up and restore a store on Postgres, without the password."""
    named = make_url(url)._replace(drivername="postgresql", password=None).difference_update_query([*SECRETS, PREPARE])
    database = shlex.quote(named.render_as_string(hide_password=False))
    quoted = shlex.quote(file)
    return (
        f"pg_dump --format=custom --file={quoted} --dbname={database}",
        f"pg_restore --clean --if-exists --dbname={database} {quoted}",
    )
