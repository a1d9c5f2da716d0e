"""Compressed output files with their size and digest. The same content gives the same bytes."""

import hashlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

from hierogram.daemon.exceptions import ExportError
from hierogram.daemon.files import atomic_write

_GZIP_WINDOW = 31


class Compression(StrEnum):
    """Compression of a file."""

    AUTO = "auto"
    ZSTD = "zstd"
    GZIP = "gzip"
    NONE = "none"

    @property
    def suffix(self) -> str:
        """The suffix of a compressed file."""
        return _SUFFIXES.get(self, "")


_SUFFIXES = {Compression.ZSTD: ".zst", Compression.GZIP: ".gz"}
INPUT_SUFFIXES = (".gz", ".zst", ".bz2", ".xz")
"""Suffixes of compressed inputs."""


def split_suffix(name: str) -> tuple[str, Compression | None]:
    """Return a file name without the suffix of its compression, and the compression (None: no suffix)."""
    for compression, suffix in _SUFFIXES.items():
        if name.endswith(suffix):
            return name.removesuffix(suffix), compression
    return name, None


def strip_suffix(name: str) -> str:
    """Return the name of an input without the suffix of its compression."""
    return next((name.removesuffix(suffix) for suffix in INPUT_SUFFIXES if name.endswith(suffix)), name)


def _compressor(compression: Compression, level: int | None) -> Any:
    """Return a compressor, or None for no compression."""
    if compression is Compression.ZSTD:
        # A late import, for commands that compress nothing.
        import zstandard

        return zstandard.ZstdCompressor(level=3 if level is None else level, write_checksum=True).compressobj()
    if compression is Compression.GZIP:
        # The header of zlib contains neither time nor name.
        return zlib.compressobj(6 if level is None else min(level, 9), zlib.DEFLATED, _GZIP_WINDOW)
    return None


class CompressedFile:
    """A file during writing. After `finish`, `bytes` and `sha256` describe the file on disk."""

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
        """The digest in hexadecimal."""
        return self._digest.hexdigest()

    def write(self, data: bytes, /) -> int:
        """Append bytes; return their number."""
        self._put(data if self._compressor is None else self._compressor.compress(data))
        return len(data)

    def finish(self) -> None:
        """Write the remaining bytes. Nothing can be written afterwards."""
        if self._compressor is not None:
            self._put(self._compressor.flush())

    def _put(self, data: bytes) -> None:
        if data:
            self._file.write(data)
            self._digest.update(data)
            self.bytes += len(data)


@contextmanager
def open_output(path: Path) -> Iterator[CompressedFile]:
    """Write a file atomically, compressed if its name ends in .gz or .zst. Raises `ExportError`."""
    compression = split_suffix(path.name)[1] or Compression.NONE
    try:
        with atomic_write(path.absolute()) as file:
            compressed = CompressedFile(file, compression, level=9 if compression is Compression.GZIP else None)
            yield compressed
            compressed.finish()
    except OSError as error:
        raise ExportError(f"{path}: cannot be written: {error.strerror or error}") from error


@contextmanager
def create_compressed(path: Path, compression: Compression = Compression.NONE) -> Iterator[CompressedFile]:
    """Write a new file with a compression. Raises `OSError`, also if the file exists."""
    with path.open("xb") as file:
        stream = CompressedFile(file, compression)
        yield stream
        stream.finish()
