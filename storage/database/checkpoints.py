"""What an SQLite store's log still waits for after a commit: the disk, and to be copied into the file.

A thread sees to both while the store is used, so that no commit of the sampler's waits for the disk, and none copies.
"""

import os
import sqlite3
from contextlib import closing, suppress
from threading import Lock, Thread

_ROWS = 60_000
"""Rows changed between two copies: few enough that the log rarely reaches the size at which a commit copies it."""

_COPIES = 8
"""Copies in a row at most, for as long as others commit meanwhile."""


class Checkpoints:
    """Brings the log of a database file to the disk, and into the file now and then, when told of commits."""

    def __init__(self, path: str) -> None:
        self._path = path
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
            if changes - self._changes >= _ROWS:
                self._must_copy = True
                self._changes = changes
            self._must_sync |= not synced
            idle = self._thread is None or not self._thread.is_alive()
            if idle and (self._must_copy or self._must_sync):
                thread = Thread(target=self._work, name="hierogram-checkpoint")
                # Where no thread is to be had, the commit is one all the same; the next one tries again.
                with suppress(RuntimeError):
                    thread.start()
                    self._thread = thread

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
            with suppress(sqlite3.Error, OSError):
                if copy:
                    self._copy()
                else:
                    self._sync()

    def _copy(self) -> None:
        # Brings the log to the disk first. A log that is in the file to its last page begins anew with the next commit;
        # one that never is, because there is a commit during each copy, grows until a commit has to copy all of it.
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
