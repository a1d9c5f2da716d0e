"""Files of an open SQLite store: checkpoints of the log, and detection of deleted files.

A checkpoint syncs the log to the disk and copies it into the database file. A background thread makes checkpoints soon
after commits, because users may move or delete the log without the file, and would lose its commits.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from threading import Lock, Timer

from sqlalchemy import Connection
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from hierogram.storage.exceptions import StoreUnavailableError

# A commit starts a checkpoint if this many rows were changed, bytes were added to the log, or seconds have passed since
# the last checkpoint. The limits are so low that SQLite rarely makes a checkpoint within a commit.
_MAX_ROWS = 60_000
_MAX_BYTES = 32 << 20
_MAX_SECONDS = 30.0

_SOON_SECONDS = 1.0
"""Time from a commit to its checkpoint, or `_MAX_SECONDS` if the log grew by more than `_SOON_BYTES`."""
_SOON_BYTES = 4 << 20

_MAX_COPIES = 8
"""Maximum number of times that a checkpoint copies the log while other connections commit."""


def wal_bytes(path: str) -> int:
    """Return the size of a database file's log in bytes, or 0 if the log does not exist."""
    try:
        return os.stat(f"{path}-wal").st_size
    except OSError:
        return 0


def sync(path: str | Path) -> None:
    """Sync a file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Checkpointer:
    """Thread that syncs and copies a log, so that commits of the sampler do not wait for the disk."""

    def __init__(self, path: str, check: Callable[[], None]) -> None:
        self._path = path
        self._check = check
        # Time of the last checkpoint that a commit started, and size of the log and number of changed rows then.
        self._copied_at = time.monotonic()
        self._copied_size = 0
        self._copied_rows = 0
        self._lock = Lock()
        self._thread: ThreadPoolExecutor | None = None
        self._timer: Timer | None = None
        self._must_copy = False
        self._must_sync = False

    def record_commit(self, driver: sqlite3.Connection, *, synced: bool) -> None:
        """Record a commit, `synced` if it is on the disk, and start or schedule the work that is due."""
        rows = driver.total_changes
        with self._lock:
            if rows < self._copied_rows:
                # Restart from 0, because a smaller number is from another connection, and each connection starts at 0.
                self._copied_rows = 0
            size, now = wal_bytes(self._path), time.monotonic()
            is_long_ago = now - self._copied_at >= _MAX_SECONDS
            if is_long_ago or rows - self._copied_rows >= _MAX_ROWS or size - self._copied_size >= _MAX_BYTES:
                self._must_copy = True
                self._copied_rows, self._copied_at, self._copied_size = rows, now, size
            # The log becomes shorter when SQLite restarts it.
            self._copied_size = min(self._copied_size, size)
            self._must_sync |= not synced
            if self._must_copy or self._must_sync:
                self._start_work()
            if not self._must_copy and self._timer is None:
                self._start_timer(_SOON_SECONDS if size - self._copied_size <= _SOON_BYTES else _MAX_SECONDS)

    def checkpoint(self) -> None:
        """Make a checkpoint now. Changes that a reader may still need in the log are not copied."""
        self._check()
        self._copy()

    def close(self) -> None:
        """Wait for work in progress, and cancel checkpoints that are due later."""
        with self._lock:
            thread, timer, self._thread, self._timer = self._thread, self._timer, None, None
        if timer is not None:
            timer.cancel()
        if thread is not None:
            thread.shutdown()

    def _start_work(self) -> None:
        # Ignore the error if no thread can start, because the commit is valid and the next commit retries.
        with suppress(RuntimeError):
            self._thread = self._thread or ThreadPoolExecutor(1, "hierogram-checkpoint")
            self._thread.submit(self._work)

    def _start_timer(self, seconds: float) -> None:
        timer = Timer(seconds, self._copy_later)
        timer.daemon = True
        with suppress(RuntimeError):
            timer.start()
            self._timer = timer

    def _copy_later(self) -> None:
        with self._lock:
            if self._timer is None:
                return
            self._timer = None
            self._must_copy = True
            self._copied_at, self._copied_size = time.monotonic(), wal_bytes(self._path)
            self._start_work()

    def _work(self) -> None:
        with self._lock:
            must_copy, must_sync = self._must_copy, self._must_sync
            self._must_copy = self._must_sync = False
        # Ignore errors, because the next transaction reports a deleted or replaced file, and after other errors the log
        # still has all commits, so a later copy can retry.
        with suppress(sqlite3.Error, OSError, StoreUnavailableError):
            # Check first, because opening the path of a deleted or replaced file would create or change a file.
            self._check()
            if must_copy:
                self._copy()
            elif must_sync:
                self._sync()

    def _copy(self) -> None:
        # The pragma syncs the log first. The log can restart only if all its pages were copied, so repeat the copy if a
        # process committed during the copy.
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            before = -1
            for _ in range(_MAX_COPIES):
                _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                if pages == before:
                    break
                before = pages

    def _sync(self) -> None:
        # Closing the descriptor frees this process's locks on the file, but SQLite does not lock the log.
        sync(f"{self._path}-wal")


class StoreFiles:
    """Identity (device and inode) of the database file, log and index of the log that an engine has open.

    SQLite keeps writing to a renamed database file and to a deleted log, and these commits are lost. So every
    transaction checks both files before it begins, and a write transaction also before and after its commit.
    """

    def __init__(self, path: str, url: str) -> None:
        self._url = url
        self._paths = [f"{path}{suffix}" for suffix in ("", "-wal", "-shm")]
        self._lock = Lock()
        self._open = 0
        self._found: list[tuple[int, int] | None] = []

    def opened(self, _connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
        """Record the files when the first connection opens."""
        with self._lock:
            if self._open == 0:
                self._found = list(map(_inode, self._paths))
            self._open += 1

    def closed(self, _connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
        """Count a closed connection."""
        with self._lock:
            self._open -= 1

    def check(self, connection: Connection | None = None) -> None:
        """Raise `StoreUnavailableError` for a deleted or replaced file. With `connection`, save a deleted log."""
        with self._lock:
            if self._open == 0:
                return
            present = list(map(_inode, self._paths))
            # Record files that did not exist before, because a new store has a log only after its first statement.
            self._found = [before or now for before, now in zip(self._found, present, strict=True)]
            expected = self._found
        if present[:2] == expected[:2]:
            return
        remedy = "restore the file, and start again"
        # Another process may have written if it has created another index of the log.
        same_writer = present[0] == expected[0] and present[2] in (expected[2], None)
        if connection is not None and same_writer and self._copy_deleted_log(connection):
            remedy = f"and start again (the commits in the log were copied into {self._paths[0]})"
        for path, before, now in zip(self._paths[:2], expected, present, strict=False):
            if now != before:
                change = "was deleted" if now is None else "was replaced"
                raise StoreUnavailableError(
                    f"{self._url}: {path} {change} while the store was open, and this process stopped using it: "
                    f"stop all processes that use it, {remedy}"
                )

    def _copy_deleted_log(self, connection: Connection) -> bool:
        """Copy a deleted log into the file. Returns False if that failed or another process may have written."""
        # Copy the deleted log while it is open, because its commits would be lost when this process ends.
        if wal_bytes(self._paths[0]):
            return False
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        with suppress(sqlite3.Error):
            busy, pages, copied = driver.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            return not busy and pages == copied
        return False


def _inode(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
