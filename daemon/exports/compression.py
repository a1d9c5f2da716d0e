"""Files that are compressed, counted and digested as they are written; the same content gives the same bytes."""

import hashlib
import zlib
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import zstandard

from hierogram.daemon.exports.formats.format import Compression

_SUFFIXES = {".zst": Compression.ZSTD, ".gz": Compression.GZIP}
_GZIP_WINDOW = 31
_LONG_DISTANCE_WINDOW = 27
"""128 MiB, the most that a reader takes without being told."""


def suffix_of(compression: Compression) -> str:
    """What a compressed file's name ends in."""
    return next((suffix for suffix, known in _SUFFIXES.items() if known is compression), "")


def compression_of(name: str) -> Compression | None:
    """What a file's name promises; None where it says nothing."""
    return next((known for suffix, known in _SUFFIXES.items() if name.endswith(suffix)), None)


class _Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


class _Plain:
    def compress(self, data: bytes, /) -> bytes:
        return data

    def flush(self) -> bytes:
        return b""


def _zstd(level: int | None, long_distance: bool, threads: int) -> _Compressor:
    parameters = zstandard.ZstdCompressionParameters.from_level(
        3 if level is None else level,
        threads=threads,
        write_checksum=True,
        enable_ldm=long_distance,
        **({"window_log": _LONG_DISTANCE_WINDOW} if long_distance else {}),
    )
    return zstandard.ZstdCompressor(compression_params=parameters).compressobj()


class CompressedFile:
    """A new file; `bytes` and `sha256` are those of what lies on the disk, once it is closed."""

    def __init__(
        self,
        path: Path,
        compression: Compression,
        *,
        level: int | None = None,
        long_distance: bool = False,
        threads: int = 0,
    ) -> None:
        self.path = path
        self.bytes = 0
        self._digest = hashlib.sha256()
        self._compressor: _Compressor
        if compression is Compression.ZSTD:
            self._compressor = _zstd(level, long_distance, threads)
        elif compression is Compression.GZIP:
            # The header that zlib writes holds no time and no name.
            self._compressor = zlib.compressobj(6 if level is None else min(level, 9), zlib.DEFLATED, _GZIP_WINDOW)
        else:
            self._compressor = _Plain()
        self._file = path.open("xb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._put(self._compressor.flush())
        finally:
            self._file.close()

    @property
    def sha256(self) -> str:
        """The digest, hexadecimal."""
        return self._digest.hexdigest()

    def write(self, data: bytes) -> None:
        """Appends bytes."""
        self._put(self._compressor.compress(data))

    def _put(self, data: bytes) -> None:
        if data:
            self._file.write(data)
            self._digest.update(data)
            self.bytes += len(data)
