"""Atomic and compressed files, printable names, and safe access to folders that other users write to."""

import hashlib
import os
import secrets
import stat
import unicodedata
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from errno import EEXIST, EINVAL
from pathlib import Path
from typing import Any, BinaryIO

from hierogram.daemon.exceptions import ExportError


def cache_folder() -> Path:
    """Return the folder of downloaded and derived files, which may not exist. Kernels are elsewhere."""
    base = os.environ.get("HIEROGRAM_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "hierogram"


def printable(name: str) -> str:
    r"""Escape invalid UTF-8 bytes, control characters and line separators in a name, such as `\xff`."""
    if name.isprintable():
        return name

    def escape(letter: str) -> str:
        if 0xDC80 <= ord(letter) <= 0xDCFF:
            return f"\\x{ord(letter) - 0xDC00:02x}"
        is_control = unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")
        return letter.encode("unicode_escape").decode() if is_control else letter

    return "".join(map(escape, name))


def append_suffix(folder: Path | int, name: str, suffix: str) -> str:
    """Append a suffix to a file name. A name too long for the folder is cut and gets a digest."""
    encoded, max_bytes = os.fsencode(name), os.pathconf(folder, "PC_NAME_MAX")
    if len(encoded) + len(os.fsencode(suffix)) <= max_bytes:
        return name + suffix
    suffix = f"~{hashlib.sha256(encoded).hexdigest()[:8]}{suffix}"
    shortened = encoded[: max_bytes - len(os.fsencode(suffix))]
    # Do not cut within a multi-byte character.
    while shortened and name.isprintable() and (encoded[len(shortened)] & 0xC0) == 0x80:
        shortened = shortened[:-1]
    return os.fsdecode(shortened) + suffix


def is_special(path: Path) -> bool:
    """Check if the path is a device such as `/dev/null`, a pipe or a socket. False if it does not exist."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def is_database(path: Path) -> bool:
    """Check if the path is a readable SQLite database, which must not be overwritten."""
    with suppress(OSError):
        # Opening a pipe would consume data of another reader.
        if path.is_file():
            with path.open("rb") as file:
                return file.read(16) == b"SQLite format 3\x00"
    return False


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Replace a file after the context, or write to a device. Raises `OSError`, also for a database."""
    if is_database(path):
        raise FileExistsError(EEXIST, "is a database: use another file", str(path))
    if is_special(path):
        with path.open("wb") as file:
            yield file
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        flush_to_disk(path.parent)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def flush_to_disk(path: Path) -> None:
    """Flush a file or folder to disk. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


NOT_REGULAR = "not a regular file"


@contextmanager
def folder_within(folder: Path, *names: str) -> Iterator[int]:
    """Yield the descriptor of the subfolder `names`, without following links. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in names:
            parent = descriptor
            descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
            os.close(parent)
        yield descriptor
    finally:
        os.close(descriptor)


def open_within(folder: Path, path: Path) -> BinaryIO:
    """Open the regular file `path` below `folder`, without following symbolic links. Raises `OSError`."""
    if not path.is_relative_to(folder) or ".." in path.parts:
        raise OSError(EINVAL, f"not below {folder}", str(path))
    *parts, name = path.relative_to(folder).parts
    with folder_within(folder, *parts) as folder_descriptor:
        if not stat.S_ISREG(os.stat(name, dir_fd=folder_descriptor, follow_symlinks=False).st_mode):
            raise OSError(EINVAL, NOT_REGULAR, str(path))
        # Opening a pipe must not wait for its writer.
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder_descriptor)
    # Other users may have replaced the file after the first check.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(EINVAL, NOT_REGULAR, str(path))
    return open(descriptor, "rb")


def create_within(folder_descriptor: int, name: str, content: bytes) -> None:
    """Create a file in an open folder. Raises `OSError`, also if the name exists."""
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=folder_descriptor)
    with open(descriptor, "wb") as file:
        file.write(content)


class Compression(StrEnum):
    """Compression of an output file. `AUTO` selects it by the name of the file."""

    AUTO = "auto"
    ZSTD = "zstd"
    GZIP = "gzip"
    NONE = "none"

    @property
    def suffix(self) -> str:
        """File name suffix, such as `.zst`. Empty for `AUTO` and `NONE`."""
        return _SUFFIXES.get(self, "")


_SUFFIXES = {Compression.ZSTD: ".zst", Compression.GZIP: ".gz"}
INPUT_SUFFIXES = (".gz", ".zst", ".bz2", ".xz")
"""Suffixes of compressed inputs, which are more than the `Compression` of outputs."""


def split_output_suffix(name: str) -> tuple[str, Compression | None]:
    """Return a name without the suffix `.zst` or `.gz`, and the compression (None without a suffix)."""
    for compression, suffix in _SUFFIXES.items():
        if name.endswith(suffix):
            return name.removesuffix(suffix), compression
    return name, None


def strip_input_suffix(name: str) -> str:
    """Return an input's name without the suffix of its compression, if any."""
    return next((name.removesuffix(suffix) for suffix in INPUT_SUFFIXES if name.endswith(suffix)), name)


class CompressedFile:
    """Compressor into an open file. After `finish`, `bytes` and `sha256` describe the compressed data."""

    def __init__(self, file: BinaryIO, compression: Compression, *, gzip_level: int = 6) -> None:
        self.bytes = 0
        self._file = file
        self._digest = hashlib.sha256()
        self._compressor: Any = None
        if compression is Compression.ZSTD:
            # Import late, because most commands compress nothing.
            import zstandard

            self._compressor = zstandard.ZstdCompressor(level=3, write_checksum=True).compressobj()
        elif compression is Compression.GZIP:
            # With wbits = 31, zlib writes a gzip header without time and name, so that equal contents give equal files.
            self._compressor = zlib.compressobj(gzip_level, zlib.DEFLATED, wbits=31)

    @property
    def sha256(self) -> str:
        """Digest of the compressed bytes written so far, in hexadecimal."""
        return self._digest.hexdigest()

    def write(self, data: bytes, /) -> int:
        """Append uncompressed bytes, and return their number."""
        self._put(data if self._compressor is None else self._compressor.compress(data))
        return len(data)

    def finish(self) -> None:
        """Write the end of the compressed data. Nothing can be written afterwards."""
        if self._compressor is not None:
            self._put(self._compressor.flush())

    def _put(self, data: bytes) -> None:
        if data:
            self._file.write(data)
            self._digest.update(data)
            self.bytes += len(data)


@contextmanager
def open_output(path: Path) -> Iterator[CompressedFile]:
    """Write a file as `atomic_write`, compressed for .gz and .zst. Raises `ExportError`."""
    compression = split_output_suffix(path.name)[1] or Compression.NONE
    try:
        with atomic_write(path.absolute()) as file:
            compressed = CompressedFile(file, compression, gzip_level=9)
            yield compressed
            compressed.finish()
    except OSError as error:
        raise ExportError(f"{path}: cannot be written: {error.strerror or error}") from error


@contextmanager
def create_compressed(path: Path, compression: Compression = Compression.NONE) -> Iterator[CompressedFile]:
    """Create a compressed file, which remains after an error. Raises `OSError` if it exists."""
    with path.open("xb") as file:
        stream = CompressedFile(file, compression)
        yield stream
        stream.finish()
