"""Background thread that syncs the log of an SQLite store and copies the log into the database file.

The log is copied soon, because users may move or delete the log without the database file, and would lose its commits.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from threading import Lock, Thread, Timer

from hierogram.storage.exceptions import StoreUnavailableError

_MAX_ROWS = 60_000
"""Number of changed rows between two copies, so low that commits rarely copy the log themselves."""

_FIRST_ROWS = 1_000
"""Number of changed rows before the first copy. The number doubles with each copy, up to `_MAX_ROWS`."""

_SOON_SECONDS = 1.0
_SOON_BYTES = 4 << 20
"""A log that grew by up to `_SOON_BYTES` is copied `_SOON_SECONDS` after the commit, otherwise after `_MAX_SECONDS`."""

_MAX_SECONDS = 30.0

_MAX_GROWTH = 32 << 20

_MAX_COPIES = 8
"""Maximum number of consecutive copies while other connections commit."""


def wal_bytes(path: str) -> int:
    """Return the size of a database file's log in bytes, or 0 if the log does not exist."""
    try:
        return os.stat(f"{path}-wal").st_size
    except OSError:
        return 0


class Checkpoints:
    """Thread that syncs and copies a log, so that commits of the sampler do not wait for the disk."""

    def __init__(self, path: str, check: Callable[[], None] = lambda: None) -> None:
        self._path = path
        self._check = check
        """Callback that raises `StoreUnavailableError` if the file was deleted or replaced."""
        self._copies = 0
        self._copied_at = time.monotonic()
        self._copied_size = 0
        self._lock = Lock()
        self._thread: Thread | None = None
        self._timer: Timer | None = None
        self._changes = 0
        self._must_copy = False
        self._must_sync = False

    def committed(self, driver: sqlite3.Connection, *, synced: bool) -> None:
        """Record a commit, and start the work that is due. `synced` is True if the commit is on the disk."""
        changes = driver.total_changes
        with self._lock:
            if changes < self._changes:
                # Restart from 0, because a smaller number is from another connection, and each connection starts at 0.
                self._changes = 0
            size, now = wal_bytes(self._path), time.monotonic()
            many_changes = changes - self._changes >= min(_FIRST_ROWS << min(self._copies, 16), _MAX_ROWS)
            if many_changes or now - self._copied_at >= _MAX_SECONDS or size - self._copied_size >= _MAX_GROWTH:
                self._must_copy = True
                self._changes, self._copied_at, self._copied_size = changes, now, size
                self._copies += 1
            self._copied_size = min(self._copied_size, size)
            self._must_sync |= not synced
            if self._must_copy or self._must_sync:
                self._start_work()
            if not self._must_copy and self._timer is None:
                self._start_timer(_SOON_SECONDS if size - self._copied_size <= _SOON_BYTES else _MAX_SECONDS)

    def copy(self) -> None:
        """Copy the log into the file now, as far as readers allow."""
        self._check()
        self._copy()

    def close(self) -> None:
        """Wait for work in progress, and cancel copies that are due later."""
        with self._lock:
            thread, timer, self._timer = self._thread, self._timer, None
        if timer is not None:
            timer.cancel()
        if thread is not None:
            thread.join()

    def _start_work(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        thread = Thread(target=self._work, name="hierogram-checkpoint")
        # Ignore the error if no thread can start, because the commit is valid and the next commit retries.
        with suppress(RuntimeError):
            thread.start()
            self._thread = thread

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
        while True:
            with self._lock:
                copy, sync = self._must_copy, self._must_sync
                self._must_copy = self._must_sync = False
                if not (copy or sync):
                    self._thread = None
                    return
            # Ignore errors, because the next transaction reports a deleted or replaced file, and after other errors the
            # log still has all commits, so a later copy can retry.
            with suppress(sqlite3.Error, OSError, StoreUnavailableError):
                # Check first, because opening the path of a deleted or replaced file would create or change a file.
                self._check()
                if copy:
                    self._copy()
                else:
                    self._sync()

    def _copy(self) -> None:
        # A checkpoint syncs the log first. The log can restart only if all its pages were copied, so repeat the copy
        # if a process committed during the copy.
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            before = -1
            for _ in range(_MAX_COPIES):
                _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                if pages == before:
                    break
                before = pages

    def _sync(self) -> None:
        # Closing the descriptor would free this process's locks on the log, but SQLite does not lock the log.
        log = os.open(f"{self._path}-wal", os.O_RDWR)
        try:
            os.fsync(log)
        finally:
            os.close(log)
