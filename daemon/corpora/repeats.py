"""Numbers the repeats of a pair within one input, however large that is."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from struct import Struct
from typing import cast

from hierogram.daemon.exceptions import InputError

_IN_MEMORY = 2_000_000
_FINGERPRINT = Struct("qq")


class Repeats:
    """Numbers the repeats of the same content within one input.

    Keeps a fingerprint of 128 bits of every pair, about 100 bytes of memory each, and beyond `in_memory` of them
    goes on in a temporary file. The fingerprints are those of this process and are compared with nothing else.
    """

    def __init__(self, in_memory: int = _IN_MEMORY) -> None:
        self._in_memory = in_memory
        self._seen: set[bytes] = set()
        self._repeats: dict[bytes, int] = {}
        self._file: sqlite3.Connection | None = None

    def occurrences(
        self, sources: Sequence[str], targets: Sequence[str], alignments: Sequence[str | None]
    ) -> list[int]:
        """How many times each source with its target and alignment has come before.

        Raises `InputError` where a temporary file cannot grow.
        """
        there = map(hash, zip(sources, targets, alignments, strict=True))
        back = map(hash, zip(alignments, targets, sources, strict=True))
        fingerprints = list(map(_FINGERPRINT.pack, there, back))
        new = set(fingerprints)
        if (
            len(new) == len(fingerprints)
            and len(self._seen) + len(new) <= self._in_memory
            and self._file is None
            and self._seen.isdisjoint(new)
        ):
            self._seen |= new
            return [0] * len(new)
        return [self._occurrence(fingerprint) for fingerprint in fingerprints]

    def _occurrence(self, fingerprint: bytes) -> int:
        if self._file is not None:
            return self._in_file(self._file, fingerprint)
        if fingerprint not in self._seen:
            self._seen.add(fingerprint)
            if len(self._seen) > self._in_memory:
                self._go_on_in_a_file()
            return 0
        number = self._repeats.get(fingerprint, 0) + 1
        self._repeats[fingerprint] = number
        return number

    def close(self) -> None:
        """Give the temporary file back."""
        if self._file is not None:
            self._file.close()

    def _go_on_in_a_file(self) -> None:
        # Without a name it is a file that SQLite makes when the cache is full and that is gone when it is closed.
        # An intake goes from thread to thread, but is in one at a time.
        file = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        try:
            for pragma in ("journal_mode=OFF", "synchronous=OFF", "cache_size=-65536"):
                file.execute(f"PRAGMA {pragma}").close()
            file.execute("CREATE TABLE seen (fingerprint BLOB PRIMARY KEY, number INTEGER) WITHOUT ROWID").close()
            file.execute("BEGIN").close()
            rows = ((fingerprint, self._repeats.get(fingerprint, 0)) for fingerprint in sorted(self._seen))
            file.executemany("INSERT INTO seen VALUES (?, ?)", rows).close()
        except sqlite3.Error as error:
            raise _no_room(error) from error
        self._file = file
        self._seen, self._repeats = set(), {}

    def _in_file(self, file: sqlite3.Connection, fingerprint: bytes) -> int:
        try:
            with closing(file.execute("SELECT number FROM seen WHERE fingerprint = ?", (fingerprint,))) as found:
                row = found.fetchone()
            if row is None:
                file.execute("INSERT INTO seen VALUES (?, 0)", (fingerprint,)).close()
                return 0
            number = cast(int, row[0]) + 1
            file.execute("UPDATE seen SET number = ? WHERE fingerprint = ?", (number, fingerprint)).close()
        except sqlite3.Error as error:
            raise _no_room(error) from error
        return number


def _no_room(error: sqlite3.Error) -> InputError:
    return InputError(f"what repeats in this input cannot be told: no room for a temporary file ({error}); see TMPDIR")
