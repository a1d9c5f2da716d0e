"""Checkpoints: an SQLite store's log is synced after a commit, and copied into the database file.

A background thread does both, so that no commit of the sampler waits for the disk or copies pages. Users may move or
delete a log without its file, so it must not hold commits for long.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from threading import Lock, Thread, Timer

from hierogram.storage.exceptions import StoreUnavailableError

_ROWS = 60_000
"""Changed rows between two copies: few enough that a commit rarely copies the log itself."""

_FIRST_ROWS = 1_000
"""Changed rows before the first copy, doubled for each later one, up to `_ROWS`."""

_SOON_SECONDS = 1.0
_SOON_BYTES = 4 << 20
"""Maximum growth of a log since the last copy for copying it soon after a commit."""

_SECONDS = 30.0
"""Seconds after which any commit is copied."""

_LOG_BYTES = 32 << 20
"""Maximum growth of the log between two copies in bytes; it grows while it cannot restart."""

_COPIES = 8
"""Maximum number of consecutive copies while others commit."""


def wal_bytes(path: str) -> int:
    """Return the size of a database file's log in bytes; 0 without a log."""
    try:
        return os.stat(f"{path}-wal").st_size
    except OSError:
        return 0


class Checkpoints:
    """Syncs the log of a database file and copies it into the file from time to time, driven by commits."""

    def __init__(self, path: str, check: Callable[[], None] = lambda: None) -> None:
        self._path = path
        self._check = check
        """Callback that raises `StoreUnavailableError` if the path is not the store's."""
        self._copied = 0
        """Number of copies so far."""
        self._when = time.monotonic()
        self._size = 0
        self._lock = Lock()
        self._thread: Thread | None = None
        self._timer: Timer | None = None
        self._changes = 0
        self._must_copy = False
        self._must_sync = False

    def committed(self, driver: sqlite3.Connection, *, synced: bool) -> None:
        """Record a commit of the connection, `synced` if it is on the disk; starts the work that is due."""
        changes = driver.total_changes
        with self._lock:
            if changes < self._changes:
                # Counters start at 0 for each connection.
                self._changes = 0
            size, now = wal_bytes(self._path), time.monotonic()
            many_changes = changes - self._changes >= min(_FIRST_ROWS << min(self._copied, 16), _ROWS)
            if many_changes or now - self._when >= _SECONDS or size - self._size >= _LOG_BYTES:
                self._must_copy = True
                self._changes, self._when, self._size = changes, now, size
                self._copied += 1
            self._size = min(self._size, size)
            self._must_sync |= not synced
            if self._must_copy or self._must_sync:
                self._start_work()
            if not self._must_copy and self._timer is None:
                self._start_timer(_SOON_SECONDS if size - self._size <= _SOON_BYTES else _SECONDS)

    def copy(self) -> None:
        """Copy the log into the file now, as far as readers allow."""
        self._check()
        self._copy()

    def close(self) -> None:
        """Wait until no work is due. Does not wait for copies that are due later."""
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
        # If no thread can be started, the commit is still valid; the next one retries.
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
            self._when, self._size = time.monotonic(), wal_bytes(self._path)
            self._start_work()

    def _work(self) -> None:
        while True:
            with self._lock:
                copy, sync = self._must_copy, self._must_sync
                self._must_copy = self._must_sync = False
                if not (copy or sync):
                    self._thread = None
                    return
            # A failure loses nothing: the next commit that syncs or copies raises the error.
            with suppress(sqlite3.Error, OSError, StoreUnavailableError):
                # Otherwise another file, or a new one, would be opened.
                self._check()
                if copy:
                    self._copy()
                else:
                    self._sync()

    def _copy(self) -> None:
        # This syncs the log first. A log that was copied to its last page restarts with the next commit. If there is a
        # commit during each copy, it grows until a commit copies it all.
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            before = -1
            for _ in range(_COPIES):
                _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                if pages == before:
                    break
                before = pages

    def _sync(self) -> None:
        # SQLite locks the database file and the log's index, not the log, so closing this descriptor frees no lock.
        log = os.open(f"{self._path}-wal", os.O_RDWR)
        try:
            os.fsync(log)
        finally:
            os.close(log)
