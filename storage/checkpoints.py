"""Copying an SQLite store's log into its file while the store is used, so that no commit waits for it."""

import sqlite3
from contextlib import closing, suppress
from threading import Lock, Thread

_ROWS = 150_000
"""Rows changed between two copies: few enough that the log rarely reaches the size at which a commit copies it."""


class Checkpoints:
    """Copies the log of a database file in a thread of its own, now and then, when told of commits."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = Lock()
        self._thread: Thread | None = None
        self._changes = 0

    def committed(self, driver: sqlite3.Connection) -> None:
        """Hear that the connection has committed; begins to copy if that has become worth it."""
        changes = driver.total_changes
        with self._lock:
            if changes < self._changes:
                # Another connection: each counts from 0.
                self._changes = 0
            if changes - self._changes < _ROWS or (self._thread is not None and self._thread.is_alive()):
                return
            thread = Thread(target=self._copy, name="hierogram-checkpoint")
            # Where no thread is to be had, what was committed is committed all the same; the next commit tries again.
            with suppress(RuntimeError):
                thread.start()
                self._thread = thread
                self._changes = changes

    def close(self) -> None:
        """Wait for a copy under way."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    def _copy(self) -> None:
        # Where it fails nothing is lost, and it is tried again: so SQLite itself has it where a commit copies the log.
        with suppress(sqlite3.Error), closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").close()
