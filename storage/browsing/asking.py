"""Whatever SQL people ask, answered in a process of its own that only reads, within a time, up to a size.

What a stranger's statement takes of memory and processor time, it takes of a child (`storage.database.questions`),
which has limits of both and is killed at its deadline. Rows are counted as they come through a pipe, and lie in a file.
"""

import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import IO, Any, Self

from sqlalchemy import URL

from hierogram.storage.database.connection import POSTGRES, parse_url, sqlite_file
from hierogram.storage.database.questions import MEMORY_MB, Cell, Question
from hierogram.storage.exceptions import QuestionError, SlowQueryError, StoreUnavailableError, StoreUrlError

LONGEST_QUESTION = 10_000
"""Characters of a question."""
MOST_BYTES = 16 << 20
"""Of a whole answer, as it comes from the child; what is beyond that is cut."""
MOST_CELLS = 50_000
"""Of an answer that is shown on a page."""
OFF = (
    "asking is off: on Postgres it needs a role of its own, so that no question can hold locks or sessions of the"
    " daemon: make one as docs/pages.md says, and name it by ask_url in the section [http]"
)
WRONG = "asking is off: ask_url in the section [http] is not the URL of a Postgres database, see docs/pages.md"

_START_SECONDS = 30.0
"""How long a child may take until its database is open, beside the seconds of the question."""
_IN_MEMORY = 256 << 10
"""Bytes of an answer that lie in memory; longer ones lie in a temporary file."""
_PIECE = 1 << 16
_PROGRAM = "hierogram.storage.database.questions"
_SECRETS = "HIEROGRAM_"
"""Beginning of the names of variables of the environment that are for the daemon alone."""


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
    def rows(self) -> list[list[Cell]]:
        """All rows; only for answers with few."""
        return [json.loads(line) for line in self.lines()]

    def close(self) -> None:
        """Gives the file back."""
        self.kept.close()


class Asker:
    """Answers questions about the store at a URL; from any thread.

    On Postgres questions are asked under the role of `ask_url`, each on a connection of its own; without it, `refusal`
    says what to do, and every question is refused.
    """

    def __init__(self, store: URL | str, ask_url: str | None = None) -> None:
        url = parse_url(store) if isinstance(store, str) else store
        file = sqlite_file(url)
        self._file = None if file is None else str(file.absolute())
        self._connect: dict[str, Any] = {}
        self.refusal = OFF if self._file is None and ask_url is None else None
        if self._file is None and ask_url is not None:
            try:
                role = parse_url(ask_url)
                if role.get_backend_name() == POSTGRES:
                    self._connect = dict(role.get_dialect()().create_connect_args(role)[1])
                else:
                    self.refusal = WRONG
            except (StoreUrlError, ValueError):
                # The error itself would show the password.
                self.refusal = WRONG
        self._lock = threading.Lock()
        self._next: subprocess.Popen[bytes] | None = None

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
        asked = Question(
            file=self._file, connect=self._connect, statement=statement, seconds=seconds, rows=limit, cells=cells
        )
        # What JSON and the pipe cannot carry is half a letter, and no database knows it either.
        line = json.dumps(asked, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        waiting = self._take()
        try:
            if waiting is not None:
                # One that has been ended since, as where memory was short, does not take a question with it.
                with suppress(_NeverBegunError):
                    return _answer(waiting, line, seconds)
            return _answer(self._started(), line, seconds)
        finally:
            self._prepare()

    def close(self) -> None:
        """Ends the child that waits for a question."""
        child = self._take()
        if child is not None:
            _end(child)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _take(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            child, self._next = self._next, None
        return child

    def _started(self) -> subprocess.Popen[bytes]:
        try:
            return self._start()
        except OSError as error:
            raise StoreUnavailableError(
                f"no process can be started that would answer ({error.strerror or error}): ask again in a moment"
            ) from error

    def _prepare(self) -> None:
        """Starts the child of the next question: that of Postgres needs a quarter of a second for its driver."""
        if self._file is not None:
            return
        with self._lock:
            if self._next is None:
                with suppress(OSError):
                    self._next = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_SECRETS)}
        environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
        # An arena for each thread would be 64 MB of the child's address space each.
        environment["MALLOC_ARENA_MAX"] = "1"
        kind = POSTGRES if self._file is None else "sqlite"
        return subprocess.Popen(
            [sys.executable, "-P", "-m", _PROGRAM, kind],
            bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
        )  # fmt: skip


class _NeverBegunError(QuestionError):
    """The process ended before it had opened the database."""


def _answer(child: subprocess.Popen[bytes], line: bytes, seconds: float) -> Answered:
    """Gives the child its question, reads what it answers, and ends it."""
    assert child.stdin is not None
    try:
        try:
            while line:
                line = line[child.stdin.write(line) or 0 :]
        except BrokenPipeError as error:
            raise _NeverBegunError("the process that was to answer has ended: ask again") from error
        return _read(child, seconds)
    finally:
        _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kills the child, whatever it does, and waits until it is gone."""
    child.kill()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    child.wait()


def _read(child: subprocess.Popen[bytes], seconds: float) -> Answered:
    """Reads what the child answers, until its end, its deadline, or as many bytes as an answer may have."""
    slow = SlowQueryError(f"the answer takes more than {seconds:g} s, so it was ended: ask for less")
    # Closed by whoever has the answer.
    kept = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115
    pipe = _Pipe(child)
    try:
        # The first line says that the database is open; the time of the question begins there.
        _checked(pipe.line(_START_SECONDS), slow)
        pipe.until = time.monotonic() + seconds
        columns = _checked(pipe.line(), slow)
        assert isinstance(columns, list)
        while (line := pipe.line()).startswith(b"["):
            if pipe.taken > MOST_BYTES:
                return Answered(columns, True, 0, kept)
            kept.write(line)
        end = _checked(line, slow)
        assert isinstance(end, dict)
        return Answered(columns, end["more"], end["cut"], kept)
    except BaseException as error:
        kept.close()
        if isinstance(error, TimeoutError):
            raise slow from error
        if isinstance(error, OSError):
            raise StoreUnavailableError(f"the answer cannot be kept: {error.strerror or error}") from error
        raise


def _checked(line: bytes, slow: SlowQueryError) -> list[str] | dict[str, Any]:
    """Return what a line says; raises what it says of an error."""
    said: list[str] | dict[str, Any] = json.loads(line)
    if isinstance(said, dict) and "error" in said:
        raise slow if said.get("ended") else QuestionError(said["error"])
    return said


class _Pipe:
    """The lines that a child writes; `taken` counts their bytes, and none is waited for beyond `until`."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdout is not None
        self._file = child.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._file, select.POLLIN)
        self._lines: Iterator[bytes] = iter(())
        self._rest = b""
        self.taken = 0
        self.until = 0.0

    def line(self, seconds: float | None = None) -> bytes:
        """The next line; raises `TimeoutError`, and `QuestionError` where the child has ended without a last one."""
        if seconds is not None:
            self.until = time.monotonic() + seconds
        while (line := next(self._lines, None)) is None:
            left = self.until - time.monotonic()
            if left <= 0 or not self._poll.poll(left * 1000):
                raise TimeoutError
            piece = os.read(self._file, _PIECE)
            if not piece:
                if self.taken == 0:
                    raise _NeverBegunError("the process that was to answer has ended: ask again")
                raise QuestionError(
                    f"the process that answered has ended: a question may take {MEMORY_MB} MB of memory: ask for less"
                )
            self.taken += len(piece)
            # A long line comes in many pieces, which are put together once.
            *whole, self._rest = (self._rest + piece).split(b"\n")
            self._lines = iter([one + b"\n" for one in whole])
        return line
