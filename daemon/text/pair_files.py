"""Files of sentence pairs as input: opens the files, detects their format, and parses their lines."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from typing import Protocol

from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.files import printable, strip_input_suffix
from hierogram.daemon.shared_options import STANDARD_STREAM
from hierogram.daemon.text import formats
from hierogram.daemon.text.formats import JSONL, PARALLEL, PIPES, TMX, TSV
from hierogram.daemon.text.lines import DEFAULT_LIMITS, InputLimits, LineFile, open_lines, read_sentences
from hierogram.daemon.text.pipeline import Languages
from hierogram.daemon.text.validation import LineColumns

AUTO = "auto"
_ONE_FILE = f"one file in the format {PIPES}, {TSV}, {JSONL} or {TMX}"
_NUMBERS_OF_FILES = {AUTO: (1, 2, 3), PARALLEL: (2, 3), PIPES: (1,), TSV: (1,), JSONL: (1,), TMX: (1,)}


class PairInput(Protocol):
    """Open input of sentence pairs: files, a dictionary, or pairs in memory. Its lines can be read once."""

    @property
    def origin(self) -> str:
        """Name of the input in the store and in messages."""

    @property
    def format(self) -> str:
        """Format, as stored with the input, such as `jsonl`."""

    def line_chunks(self, languages: Languages | None) -> Iterator[LineColumns]:
        """Yield parsed and rejected lines in chunks. Raises `InputError`, or `UsageError` for swapped files."""

    @property
    def bytes_read(self) -> int:
        """Compressed bytes read so far."""

    @property
    def bytes_total(self) -> int | None:
        """Compressed size in bytes, None if it is unknown."""


class OpenFiles(ExitStack):
    """Base class of inputs from files. As a context manager, it closes the files."""

    _files: list[LineFile]

    @property
    def origin(self) -> str:
        """Absolute paths of the files (`<stdin>` for standard input), joined by ` + `."""
        return " + ".join(file.name for file in self._files)

    @property
    def bytes_read(self) -> int:
        """Compressed bytes read from all files so far."""
        return sum(file.bytes_read for file in self._files)

    @property
    def bytes_total(self) -> int | None:
        """Total compressed size of all files in bytes. None if any size is unknown."""
        sizes = [file.size for file in self._files]
        return None if None in sizes else sum(size or 0 for size in sizes)


class PairFiles(OpenFiles):
    """One to three open files of sentence pairs. As a context manager, it closes the files."""

    def __init__(
        self,
        paths: Sequence[str],
        format: str = AUTO,
        limits: InputLimits = DEFAULT_LIMITS,
        after_read: Callable[[], None] = lambda: None,
        untrusted_folder: str | None = None,
    ) -> None:
        """Open the files, see `open_lines`. Raises `InputError`, or `UsageError` for a wrong number of files."""
        super().__init__()
        if format == AUTO and len(paths) == 1 and strip_input_suffix(paths[0].lower()).endswith(".tmx"):
            format = TMX
        _check_paths(paths, format)
        self._paths = list(map(printable, paths))
        with ExitStack() as stack:
            opened = (open_lines(path, limits, after_read, untrusted_folder) for path in paths)
            self._files = list(map(stack.enter_context, opened))
            self._chunks = [file.chunks() for file in self._files]
            self.format = TMX if format == TMX else self._detect_format(format)
            self.push(stack.pop_all())

    def _detect_format(self, format: str) -> str:
        beginnings = [list(islice(chunks, 1)) for chunks in self._chunks]
        self._chunks = [chain(beginning, chunks) for beginning, chunks in zip(beginnings, self._chunks, strict=True)]
        first = [beginning[0] if beginning else [] for beginning in beginnings]
        if len(first) > 1:
            formats.check_parallel(first, self._paths)
            return PARALLEL
        if format == AUTO:
            return formats.detect_format(first[0], self._paths[0])
        formats.check_lines(first[0], self._paths[0], format)
        return format

    def line_chunks(self, languages: Languages | None = None) -> Iterator[LineColumns]:
        """Yield the parsed lines in chunks, see `PairInput.line_chunks`. Can be called once."""
        if self.format == TMX:
            # Import here because XML parsers load slowly and are rarely needed.
            from hierogram.daemon.text.translation_memories import read_tmx

            return read_tmx(self._files[0].blocks(), self._files[0].name, languages)
        if self.format == PARALLEL:
            _check_names(self._paths, languages)
            return formats.parse_parallel(*self._chunks)
        return formats.parse_lines(self._chunks[0], formats.LINE_PARSERS[self.format])


def read_pairs(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """Read the texts of sentence pairs from two parallel files, or from one file without its links.

    Returns the source sides and the target sides as written. Raises `InputError`, also for a malformed line, and
    `UsageError` for a wrong number of files.
    """
    if len(paths) == 2:
        sources, targets = read_sentences(paths[0]), read_sentences(paths[1])
        if len(sources) != len(targets):
            pairs = zip(paths, (len(sources), len(targets)), strict=True)
            sizes = ", ".join(f"{path} has {size:,} line{'s' * (size != 1)}" for path, size in pairs)
            raise InputError(f"{sizes}: sentences and translations must be aligned line by line")
        return sources, targets
    if len(paths) != 1:
        raise UsageError(f"expected two files, SOURCE TARGET, or {_ONE_FILE}, got {len(paths)} files")
    sources, targets = [], []
    with PairFiles(paths) as source:
        for columns in source.line_chunks():
            for rejection in columns.rejected[:1]:
                raise InputError(f"{source.origin}, line {rejection.line}: {rejection.message}")
            try:
                sources += [side.decode() for side in columns.sources]
                targets += [side.decode() for side in columns.targets]
            except UnicodeDecodeError as error:
                raise InputError(f"{source.origin}: not UTF-8 ({error.reason}): convert the file first") from error
    return sources, targets


def _check_paths(paths: Sequence[str], format: str) -> None:
    expected = _NUMBERS_OF_FILES.get(format)
    if expected is None:
        named = f"{', '.join(_NUMBERS_OF_FILES)}, memory or burrito; or tbx, csv or tsv with --dictionary"
        raise UsageError(f"--format {format}: expected {named}")
    if len(paths) not in expected:
        if format == AUTO:
            files = f"two or three files, SOURCE TARGET [ALIGNMENT], or {_ONE_FILE}"
            raise UsageError(f"expected {files}, got {len(paths)} files")
        files = f"{' or '.join(map(str, expected))} file{'s' * (expected[-1] > 1)}"
        raise UsageError(f"--format {format} requires {files}, got {len(paths)}")
    if list(paths).count(STANDARD_STREAM) > 1:
        raise UsageError("standard input (-) can be used only once")


def _check_names(paths: Sequence[str], languages: Languages | None) -> None:
    if languages is None or len(paths) < 2:
        return
    endings = [strip_input_suffix(os.path.basename(path)).rpartition(".")[2].lower() for path in paths[:2]]
    if endings == [languages[1], languages[0]] and languages[0] != languages[1]:
        problem = f"the languages of the store are {','.join(languages)} (source, target)"
        file_names = " ".join((paths[1], paths[0], *paths[2:]))
        raise UsageError(f"{paths[0]} {paths[1]}: {problem}: use hierogram ingest {file_names}")
