"""Files that are compressed, counted and digested as they are written; the same content gives the same bytes."""

import hashlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

from hierogram.daemon.exceptions import ExportError
from hierogram.daemon.files import appearing

_GZIP_WINDOW = 31


class Compression(StrEnum):
    """A way to compress a file."""

    AUTO = "auto"
    ZSTD = "zstd"
    GZIP = "gzip"
    NONE = "none"

    @property
    def suffix(self) -> str:
        """Return what a compressed file's name ends in."""
        return _SUFFIXES.get(self, "")


_SUFFIXES = {Compression.ZSTD: ".zst", Compression.GZIP: ".gz"}
INPUT_SUFFIXES = (".gz", ".zst", ".bz2", ".xz")
"""Suffixes of the compressions that inputs may have."""


def divided_name(name: str) -> tuple[str, Compression | None]:
    """Take the ending of a compression off a file's name; returns the rest, and the compression (None: no ending)."""
    for compression, suffix in _SUFFIXES.items():
        if name.endswith(suffix):
            return name.removesuffix(suffix), compression
    return name, None


def plain_name(name: str) -> str:
    """Return the name of an input without the suffix of its compression."""
    return next((name.removesuffix(suffix) for suffix in INPUT_SUFFIXES if name.endswith(suffix)), name)


def _compressor(compression: Compression, level: int | None) -> Any:
    """Return what compresses data; None: nothing does."""
    if compression is Compression.ZSTD:
        # Here, because commands that compress nothing start without it.
        import zstandard

        return zstandard.ZstdCompressor(level=3 if level is None else level, write_checksum=True).compressobj()
    if compression is Compression.GZIP:
        # The header that zlib writes holds no time and no name.
        return zlib.compressobj(6 if level is None else min(level, 9), zlib.DEFLATED, _GZIP_WINDOW)
    return None


class CompressedFile:
    """A file that is being written; `bytes` and `sha256` are those of what lies on the disk, once all is written."""

    def __init__(
        self,
        file: BinaryIO,
        compression: Compression,
        *,
        level: int | None = None,
    ) -> None:
        self.bytes = 0
        self._file = file
        self._digest = hashlib.sha256()
        self._compressor = _compressor(compression, level)

    @property
    def sha256(self) -> str:
        """The digest, hexadecimal."""
        return self._digest.hexdigest()

    def write(self, data: bytes, /) -> int:
        """Append bytes; returns how many."""
        self._put(data if self._compressor is None else self._compressor.compress(data))
        return len(data)

    def finish(self) -> None:
        """Write what is held back; nothing can be written after it."""
        if self._compressor is not None:
            self._put(self._compressor.flush())

    def _put(self, data: bytes) -> None:
        if data:
            self._file.write(data)
            self._digest.update(data)
            self.bytes += len(data)


@contextmanager
def written(path: Path) -> Iterator[CompressedFile]:
    """Write a file, compressed if its name ends in .gz or .zst, which appears when all went well.

    Raises `ExportError`.
    """
    compression = divided_name(path.name)[1] or Compression.NONE
    try:
        with appearing(path.absolute()) as file:
            compressed = CompressedFile(file, compression, level=9 if compression is Compression.GZIP else None)
            yield compressed
            compressed.finish()
    except OSError as error:
        raise ExportError(f"{path}: cannot be written: {error.strerror or error}") from error


@contextmanager
def compressed(path: Path, compression: Compression = Compression.NONE) -> Iterator[CompressedFile]:
    """Write a new file, compressed as it is asked for; raises `OSError`, also where there is a file of that name."""
    with path.open("xb") as file:
        stream = CompressedFile(file, compression)
        yield stream
        stream.finish()
