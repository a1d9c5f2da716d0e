"""Translating with a store that keeps learning: its grammar is read again when it has changed."""

import threading
import time

from hierogram.daemon.decoding.opening import Equipment
from hierogram.daemon.decoding.translating import Translator
from hierogram.daemon.exceptions import DaemonError
from hierogram.storage.exceptions import StoreError
from hierogram.storage.store import Store

LOOK_SECONDS = 1.0
"""How often the store is asked whether it has changed, at most."""
_REST = 2.0
"""After reading a grammar there is a rest of so many times as long as that took."""


class Follower:
    """The translator with the newest grammar of a store; may be used from several threads at once.

    The first grammar is read when it is asked for. Later ones are read in a thread, while translations go on with the
    one before; where that fails the one before stays.
    """

    def __init__(self, store: Store, equipment: Equipment) -> None:
        self._store = store
        self._equipment = equipment
        self._lock = threading.Lock()
        self._first = threading.Lock()
        self._newest: tuple[Translator, int] | None = None
        self._not_before = 0.0
        self._reading: threading.Thread | None = None
        self.failed: str | None = None

    def now(self) -> tuple[Translator, int]:
        """The translator of now, and the store position of its grammar.

        Raises `NothingLearnedError`, `WrongKindError` and `StoreError` until there is a first one.
        """
        with self._first:
            if self._newest is None:
                self._read()
        self._look()
        assert self._newest is not None
        return self._newest

    def refresh(self) -> Translator:
        """The translator with the grammar as it is now, however long it takes to read."""
        with self._first:
            if self._newest is None or self._store.position() != self._newest[1]:
                self._read()
        assert self._newest is not None
        return self._newest[0]

    def _look(self) -> None:
        now = time.monotonic()
        with self._lock:
            if now < self._not_before or (self._reading is not None and self._reading.is_alive()):
                return
            self._not_before = now + LOOK_SECONDS
            try:
                if self._newest is None or self._store.position() == self._newest[1]:
                    return
            except StoreError as error:
                self.failed = str(error)
                return
            self._reading = threading.Thread(target=self._try_to_read, name="read-grammar", daemon=True)
            self._reading.start()

    def _try_to_read(self) -> None:
        try:
            self._read()
        except (DaemonError, StoreError) as error:
            self.failed = str(error)

    def _read(self) -> None:
        started = time.monotonic()
        stored = self._equipment.of_store(self._store)
        self._newest = self._equipment.translator(stored.grammar), stored.position
        self.failed = None
        ended = time.monotonic()
        self._not_before = ended + max(LOOK_SECONDS, _REST * (ended - started))

    def close(self) -> None:
        """Wait for a grammar that is being read."""
        reading = self._reading
        if reading is not None:
            reading.join()
