"""Whatever SQL people ask, answered in a process of its own that only reads, within a time, up to a size.

What a stranger's statement takes of memory and processor time, it takes of a child (`storage.child`), which has limits
of both, answers one question, and is killed at its deadline. Bytes are counted as they come, and lie in a file.
"""

import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any

from sqlalchemy import URL

from hierogram.storage.child import Child
from hierogram.storage.database import questions
from hierogram.storage.database.connection import POSTGRES, parse_url, sqlite_file
from hierogram.storage.database.postgres import connection_arguments, local_settings, transaction_settings
from hierogram.storage.exceptions import ChildError, QuestionError, StoreUnavailableError, StoreUrlError

LONGEST_QUESTION = 10_000
"""Characters of a question."""
MOST_BYTES = 16 << 20
"""Of a whole answer, as it comes from the child; what is beyond that is cut."""
MOST_CELLS = 50_000
"""Of an answer that is shown on a page."""
OFF = (
    "asking is off: on Postgres it needs a role of its own, so that no question can hold locks or sessions of the"
    " daemon: make one as docs/pages.md says, and name it by sql_url in the section [http]"
)
WRONG = "asking is off: sql_url in the section [http] is not the URL of a Postgres database, see docs/pages.md"

_START_SECONDS = 30.0
_CONNECT_SECONDS = "10"
"""How long a child may take until its database is open, beside the seconds of the question."""
_IN_MEMORY = 256 << 10
"""Bytes of an answer that lie in memory; longer ones lie in a temporary file."""


@dataclass(frozen=True)
class Answered:
    """An answer: names of columns, whether there are more rows than these, and how many long values were cut."""

    columns: list[str]
    more: bool
    cut: int
    kept: IO[bytes]

    def lines(self) -> Iterator[bytes]:
        """Yields each row as a line of JSON, as it is read from the file."""
        self.kept.seek(0)
        return iter(self.kept)

    @cached_property
    def rows(self) -> list[list[questions.Cell]]:
        """All rows; only for answers with few."""
        return [json.loads(line) for line in self.lines()]

    def close(self) -> None:
        """Gives the file back."""
        self.kept.close()


class Asker:
    """Answers questions about the store at a URL; from any thread.

    On Postgres questions are asked under the role of `sql_url`, each on a connection of its own; without it, `refusal`
    says what to do, and every question is refused.
    """

    def __init__(self, store: URL | str, sql_url: str | None = None) -> None:
        url = parse_url(store) if isinstance(store, str) else store
        file = sqlite_file(url)
        self._file = None if file is None else str(file.absolute())
        self._connect: dict[str, Any] = {}
        self._settings = ""
        self.refusal = OFF if self._file is None and sql_url is None else None
        if self._file is None and sql_url is not None:
            try:
                role = parse_url(sql_url)
                if role.get_backend_name() == POSTGRES:
                    self._connect = connection_arguments(
                        role, application_name="hierogram-ask", connect_timeout=_CONNECT_SECONDS
                    )
                    self._settings = local_settings(transaction_settings(role))
                else:
                    self.refusal = WRONG
            except (StoreUrlError, ValueError):
                # The error itself would show the password.
                self.refusal = WRONG
        self._lock = threading.Lock()
        self._next: Child | None = None

    def ask(self, question: str, seconds: float, limit: int, cells: int = MOST_CELLS) -> Answered:
        """Returns the first `limit` rows of what one SELECT finds, fewer where they have more than `cells` values.

        Raises `QuestionError` where the database refuses it or it asks for too much, `SlowQueryError` where it takes
        longer than `seconds`, and `StoreUnavailableError` where no process can be started.
        """
        if self.refusal is not None:
            raise QuestionError(self.refusal)
        statement = question.strip().rstrip(";").strip()
        if not statement:
            raise QuestionError("there is no question: write a SELECT")
        if len(statement) > LONGEST_QUESTION or "\0" in statement:
            raise QuestionError(f"a question is a text of {LONGEST_QUESTION:,} characters at most")
        child = self._take() or self._child()
        try:
            with closing(child):
                return self._answer(child, statement, seconds, limit, cells)
        except ChildError as error:
            raise QuestionError(
                f"the process that answered has ended: a question may take {questions.MEMORY_MB} MB of memory:"
                " ask for less"
            ) from error
        finally:
            self._prepare()

    def _answer(self, child: Child, statement: str, seconds: float, limit: int, cells: int) -> Answered:
        until = time.monotonic() + _START_SECONDS

        def check_time() -> None:
            if time.monotonic() > until:
                raise questions.too_slow(seconds)

        # Closed by whoever has the answer.
        kept = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115
        taken = 0
        try:
            given = (self._file, self._connect, self._settings, statement, seconds, limit, cells)
            with closing(child.run(check_time, questions.answer, *given)) as pieces:
                # The first says that the database is open; the time of the question begins there.
                next(pieces)
                until = time.monotonic() + seconds
                columns = next(pieces)
                assert isinstance(columns, list)
                for piece in pieces:
                    if isinstance(piece, tuple):
                        return Answered(columns, *piece, kept)
                    taken += len(piece)
                    if taken > MOST_BYTES:
                        return Answered(columns, True, 0, kept)
                    assert isinstance(piece, bytes)
                    kept.write(piece)
                    check_time()
            raise AssertionError("an answer has an end")
        except BaseException as error:
            kept.close()
            if isinstance(error, OSError):
                raise StoreUnavailableError(f"the answer cannot be kept: {error.strerror or error}") from error
            raise

    def close(self) -> None:
        """Ends the child that waits for a question."""
        child = self._take()
        if child is not None:
            child.close()

    def _take(self) -> Child | None:
        with self._lock:
            child, self._next = self._next, None
        return child

    def _child(self) -> Child:
        driver = ("psycopg",) if self._file is None else ()
        # How long it is silent is the question's own affair.
        return Child(questions.MEMORY_MB << 20, float("inf"), (questions.__name__, *driver))

    def _prepare(self) -> None:
        """Starts the child of the next question: that of Postgres needs a quarter of a second for its driver."""
        if self._file is not None:
            return
        with self._lock, suppress(StoreUnavailableError):
            if self._next is None:
                child = self._child()
                child.start()
                self._next = child
