"""Inputs: open files whose format is known or found out, as the fields of their lines."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from types import TracebackType
from typing import Protocol, Self

from hierogram.daemon.corpora.formats import (
    JSONL,
    PARALLEL,
    PIPES,
    TMX,
    TSV,
    TakeApart,
    fields_of_lines,
    json_object,
    parallel_fields,
    pipes,
    tabs,
)
from hierogram.daemon.corpora.limits import DEFAULT_LIMITS, Limits
from hierogram.daemon.corpora.lines import STANDARD_INPUT, LineFile, open_lines
from hierogram.daemon.corpora.recognition import check_lines, check_parallel, recognise
from hierogram.daemon.corpora.texts import Languages, check_names
from hierogram.daemon.corpora.validation import Fields
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.files import readable

AUTO = "auto"

_NUMBERS_OF_FILES = {AUTO: (1, 2, 3), PARALLEL: (2, 3), PIPES: (1,), TSV: (1,), JSONL: (1,), TMX: (1,)}
_TAKE_APART: dict[str, TakeApart] = {PIPES: pipes, TSV: tabs, JSONL: json_object}


class Source(Protocol):
    """Where lines come from: what to call it, its format, its lines taken apart, and how far they are read."""

    @property
    def origin(self) -> str:
        """Its name, as rejected lines tell where they come from."""

    @property
    def format(self) -> str:
        """Its format."""

    def choose(self, languages: Languages | None) -> None:
        """Says which languages are to be taken, before `fields` is asked for; raises `UsageError` if it has others."""

    @property
    def fields(self) -> Iterator[Fields]:
        """Its lines."""

    @property
    def bytes_read(self) -> int:
        """Bytes read so far."""

    @property
    def bytes_total(self) -> int | None:
        """Bytes in all; None where that is not known."""


class Input:
    """One to three open files in a known format; a context manager that closes them.

    Raises `InputError` where a file cannot be opened, its format cannot be told, or its first lines are not what the
    format wants; `UsageError` where the number of files does not go with the format.
    """

    def __init__(
        self,
        paths: Sequence[str],
        format: str = AUTO,
        limits: Limits = DEFAULT_LIMITS,
        read_on: Callable[[], None] = lambda: None,
    ) -> None:
        """Opens the files, and looks at the first lines of each; `read_on` is called whenever some more is read."""
        if format == AUTO and len(paths) == 1 and _names_memory(paths[0]):
            format = TMX
        _check_paths(paths, format)
        self._paths = list(map(readable, paths))
        self._languages: Languages | None = None
        with ExitStack() as stack:
            self._files = [stack.enter_context(open_lines(path, limits, read_on)) for path in paths]
            self._chunks = [] if format == TMX else [file.chunks() for file in self._files]
            self.format = self._begin(format)
            self._close = stack.pop_all().close

    def _begin(self, format: str) -> str:
        """Looks at the first lines; returns the format."""
        beginnings = [list(islice(chunks, 1)) for chunks in self._chunks]
        self._chunks = [chain(beginning, chunks) for beginning, chunks in zip(beginnings, self._chunks, strict=True)]
        first = [beginning[0] if beginning else [] for beginning in beginnings]
        if format == TMX:
            return TMX
        if len(first) > 1:
            check_parallel(first, self._paths)
            return PARALLEL
        if format == AUTO:
            return recognise(first[0], self._paths[0])
        check_lines(first[0], self._paths[0], format)
        return format

    def choose(self, languages: Languages | None) -> None:
        """See `Source.choose`."""
        self._languages = languages
        if self.format == PARALLEL:
            check_names(self._paths, languages)

    @property
    def fields(self) -> Iterator[Fields]:
        """Its lines; to be asked for once."""
        if self.format == TMX:
            return _units_of(self._files[0], self._languages)
        if self.format == PARALLEL:
            return parallel_fields(*self._chunks)
        return fields_of_lines(self._chunks[0], _TAKE_APART[self.format])

    @property
    def origin(self) -> str:
        """The files' absolute names."""
        return " + ".join(file.name for file in self._files)

    @property
    def bytes_read(self) -> int:
        """Bytes read from all files so far."""
        return sum(file.bytes_read for file in self._files)

    @property
    def bytes_total(self) -> int | None:
        """Bytes of all files together; None where one has no known size."""
        sizes = [file.size for file in self._files]
        return None if None in sizes else sum(size or 0 for size in sizes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()


def _names_memory(path: str) -> bool:
    return path.lower().removesuffix(".gz").removesuffix(".zst").endswith(".tmx")


def _units_of(file: LineFile, languages: Languages | None) -> Iterator[Fields]:
    # XML parsers are slow to load, and seldom needed.
    from hierogram.daemon.corpora.translation_memories import memory_fields

    return memory_fields(file.blocks(), file.name, languages)


def _check_paths(paths: Sequence[str], format: str) -> None:
    wanted = _NUMBERS_OF_FILES.get(format)
    if wanted is None:
        raise UsageError(f"--format {format}: there are {', '.join(_NUMBERS_OF_FILES)}")
    if len(paths) not in wanted:
        raise UsageError(
            f"{len(paths)} files given: ingest takes two or three, SOURCE TARGET [ALIGNMENT], or one in the format "
            f"{PIPES}, {TSV}, {JSONL} or {TMX}"
            if format == AUTO
            else f"--format {format} takes {' or '.join(map(str, wanted))} file{'s' * (wanted[-1] > 1)}, "
            f"not {len(paths)}"
        )
    if list(paths).count(STANDARD_INPUT) > 1:
        raise UsageError("standard input (-) can be given once only")
