"""Files of sentences to align, and of alignments: lines in, Pharaoh lines out, compressed or not."""

import gzip
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

import zstandard

from hierogram.daemon.corpora.lines import MAX_LINE_BYTES, open_lines
from hierogram.daemon.exceptions import ExportError, InputError
from hierogram.daemon.files import appearing

_LINES_A_WRITE = 8192


class _Writable(Protocol):
    def write(self, data: bytes, /) -> int: ...


def numbered_lines(path: str) -> Iterator[tuple[str, int, bytes]]:
    """The lines of a file (or `-`), decompressed: the file's name, the line's number from 1, the line.

    Raises `InputError` where the file cannot be read or a line is longer than `MAX_LINE_BYTES`.
    """
    with open_lines(path) as file:
        number = 0
        for chunk in file.chunks():
            for line in chunk:
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    raise InputError(f"{file.name}: line {number} is longer than {MAX_LINE_BYTES:,} bytes: divide it")
                yield file.name, number, line


def read_sentences(path: str) -> list[str]:
    """The lines of a file (or `-`) as text; raises `InputError` where one is not UTF-8."""
    sentences = []
    for name, number, line in numbered_lines(path):
        try:
            sentences.append(line.decode())
        except UnicodeDecodeError as error:
            raise InputError(
                f"{name}: line {number}: byte {error.start + 1} is not UTF-8 ({error.reason}): convert the file first"
            ) from error
    return sentences


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines to a file, compressed if its name ends in .gz or .zst; it appears when it is whole.

    Raises `ExportError`.
    """
    try:
        with appearing(path.absolute()) as file, _compressing(file, path.suffix) as stream:
            buffered: list[str] = []
            for line in lines:
                buffered.append(line)
                if len(buffered) == _LINES_A_WRITE:
                    stream.write(_encoded(buffered))
                    buffered.clear()
            stream.write(_encoded(buffered))
    except OSError as error:
        raise ExportError(f"{path}: cannot be written: {error.strerror or error}") from error


def _encoded(lines: Sequence[str]) -> bytes:
    return "".join([line + "\n" for line in lines]).encode()


@contextmanager
def _compressing(file: BinaryIO, suffix: str) -> Iterator[_Writable]:
    if suffix == ".gz":
        # Neither a name nor the time goes into the file: the same lines give the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as stream:
            yield stream
    elif suffix == ".zst":
        with zstandard.ZstdCompressor(write_checksum=True).stream_writer(file, closefd=False) as stream:
            yield stream
    else:
        yield file
