"""Checkpoints: an SQLite store's log is brought to the disk after a commit, and copied into the file.

A thread sees to both while the store is used, so that no commit of the sampler's waits for the disk, and none copies.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from threading import Lock, Thread

from hierogram.storage.exceptions import StoreUnavailableError

_ROWS = 60_000
"""Rows changed between two copies: few enough that the log rarely reaches the size at which a commit copies it."""

_FIRST_ROWS = 1_000
"""Rows changed before the first copy; before each later one twice as many, up to `_ROWS`."""

_SECONDS = 30.0
"""Seconds after which a commit is copied, however small: a young store is not in its log alone for long."""

_LOG_BYTES = 32 << 20
"""Bytes by which the log may grow between two copies; it grows only while it cannot begin at its start again."""

_COPIES = 8
"""Copies in a row at most, for as long as others commit meanwhile."""


def log_bytes(path: str) -> int:
    """Bytes of the log of a database file; 0 where there is none."""
    try:
        return os.stat(f"{path}-wal").st_size
    except OSError:
        return 0


class Checkpoints:
    """Brings the log of a database file to the disk, and into the file now and then, when told of commits."""

    def __init__(self, path: str, check: Callable[[], None] = lambda: None) -> None:
        self._path = path
        self._check = check
        """Raises `StoreUnavailableError` where the path is not the store's."""
        self._copied = 0
        """Copies until now."""
        self._when = time.monotonic()
        self._size = 0
        self._lock = Lock()
        self._thread: Thread | None = None
        self._changes = 0
        self._must_copy = False
        self._must_sync = False

    def committed(self, driver: sqlite3.Connection, *, synced: bool) -> None:
        """Hear that the connection has committed, `synced` if the disk has it; begins with what that makes due."""
        changes = driver.total_changes
        with self._lock:
            if changes < self._changes:
                # Another connection: each counts from 0.
                self._changes = 0
            size, now = log_bytes(self._path), time.monotonic()
            many = changes - self._changes >= min(_FIRST_ROWS << min(self._copied, 16), _ROWS)
            if many or now - self._when >= _SECONDS or size - self._size >= _LOG_BYTES:
                self._must_copy = True
                self._changes, self._when, self._size = changes, now, size
                self._copied += 1
            self._size = min(self._size, size)
            self._must_sync |= not synced
            idle = self._thread is None or not self._thread.is_alive()
            if idle and (self._must_copy or self._must_sync):
                thread = Thread(target=self._work, name="hierogram-checkpoint")
                # Where no thread is to be had, the commit is one all the same; the next one tries again.
                with suppress(RuntimeError):
                    thread.start()
                    self._thread = thread

    def copy(self) -> None:
        """Copy what the log holds into the file, now; as far as nobody is reading what was there before."""
        self._check()
        self._copy()

    def close(self) -> None:
        """Wait until nothing is due."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        while True:
            with self._lock:
                copy, sync = self._must_copy, self._must_sync
                self._must_copy = self._must_sync = False
                if not (copy or sync):
                    self._thread = None
                    return
            # Where either fails nothing is lost: the next commit that waits for the disk, or copies, says why.
            with suppress(sqlite3.Error, OSError, StoreUnavailableError):
                # What is opened would be another file, or a new one.
                self._check()
                if copy:
                    self._copy()
                else:
                    self._sync()

    def _copy(self) -> None:
        # Brings the log to the disk first. A log that is in the file to its last page begins again with the next
        # commit; one that never is, because there is a commit during each copy, grows until a commit copies it all.
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            before = -1
            for _ in range(_COPIES):
                _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                if pages == before:
                    break
                before = pages

    def _sync(self) -> None:
        # SQLite locks the store's file and the log's index, not the log: closing a descriptor of it frees no lock.
        log = os.open(f"{self._path}-wal", os.O_RDWR)
        try:
            os.fsync(log)
        finally:
            os.close(log)
