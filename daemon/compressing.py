"""Files that are compressed as they are written, if their names say so."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

import zstandard

from hierogram.daemon.exceptions import ExportError
from hierogram.daemon.files import appearing


class Writable(Protocol):
    """What bytes are written to."""

    def write(self, data: bytes, /) -> int:
        """Write bytes."""


@contextmanager
def written(path: Path) -> Iterator[Writable]:
    """A file to write, compressed if its name ends in .gz or .zst; it appears when all went well.

    Raises `ExportError`.
    """
    try:
        with appearing(path.absolute()) as file, _compressing(file, path.suffix) as stream:
            yield stream
    except OSError as error:
        raise ExportError(f"{path}: cannot be written: {error.strerror or error}") from error


@contextmanager
def _compressing(file: BinaryIO, suffix: str) -> Iterator[Writable]:
    if suffix == ".gz":
        # Neither a name nor the time goes into the file: the same lines give the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as stream:
            yield stream
    elif suffix == ".zst":
        with zstandard.ZstdCompressor(write_checksum=True).stream_writer(file, closefd=False) as stream:
            yield stream
    else:
        yield file
