"""Line reader: files as lines of bytes, decompressed during reading, within limits.

Only a line feed ends a line, together with a carriage return before it, so line numbers agree with `wc`, `sed` and the
aligner that made the file. Byte order marks at the beginning of a line are removed. Lines remain bytes, so that a line
that is not UTF-8 does not abort the file.
"""

import bz2
import errno
import lzma
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple

import zstandard

from hierogram.daemon.exceptions import InputError, TooManyRejectedError
from hierogram.daemon.files import open_output, open_within, printable
from hierogram.daemon.shared_options import STANDARD_STREAM
from hierogram.daemon.text.rejections import MAX_LINE_BYTES
from hierogram.storage.options import Option, Options

STANDARD_INPUT_NAME = "<stdin>"
LINES_PER_CHUNK = 5_000
"""Maximum number of lines, pairs, units or trees of a chunk."""
_LINES_PER_WRITE = 8192
BYTES_PER_CHUNK = 1 << 22
"""Size above which a chunk ends, because later stages keep several copies of a chunk."""
MAX_SKIPPED_LINE_BYTES = 1 << 28
"""Number of skipped bytes of a line above which the data are probably binary."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LEADING_MARKS = re.compile(rb"\A(?:\xef\xbb\xbf)+")
_BLOCK_BYTES = 1 << 18
_COMPRESSED_BLOCK_BYTES = 1 << 14
_HEAD_BYTES = 512
_MAX_XZ_MEMORY = 128 << 20
"""Memory limit for decompressing an xz file, in bytes. Files written by `xz -9` need about half of it."""
_MIN_UNPACKED = 16 << 20
"""Decompressed size in bytes up to which `max_unpacked_ratio` is not checked."""
_MIN_REJECTED = 100
"""Number of rejected lines up to which `max_rejected_share` is not checked."""


@dataclass(frozen=True, slots=True)
class InputLimits(Options):
    """Limits beyond which ingest stops with an error. Lines stored before the error are kept."""

    max_unpacked_bytes: Annotated[
        int, Option("Maximum decompressed size of a file, in bytes.", min=1, metavar="BYTES")
    ] = 1 << 36
    max_unpacked_ratio: Annotated[
        float,
        Option(
            "Maximum ratio of the decompressed to the compressed size of a file. Not checked up to 16 MiB of "
            "decompressed data.",
            min=1,
        ),
    ] = 200.0
    max_rejected_lines: Annotated[
        int, Option("Number of rejected lines of an input beyond which ingest stops.", min=0)
    ] = 1_000_000
    max_rejected_share: Annotated[
        float,
        Option(
            "Share of rejected lines of an input (so far) beyond which ingest stops. Not checked up to 100 rejected "
            "lines.",
            min=0,
            max=1,
        ),
    ] = 0.5

    def check_unpacked(self, name: str, packed: int, unpacked: int) -> None:
        """Raise `InputError` if the decompressed size so far, or the compression ratio, exceeds a limit."""
        advice = "if the file is correct, decompress it first, or raise"
        section = "in [intake] of the daemon's configuration"
        if unpacked > self.max_unpacked_bytes:
            problem = f"the decompressed size exceeds {self.max_unpacked_bytes:,} bytes"
            raise InputError(f"{name}: {problem}: {advice} max_unpacked_bytes {section}")
        if unpacked > _MIN_UNPACKED and unpacked > self.max_unpacked_ratio * packed:
            ratio = f"a ratio above {self.max_unpacked_ratio:g}"
            problem = f"{packed:,} bytes decompress to more than {unpacked:,}, {ratio}"
            raise InputError(f"{name}: {problem}: {advice} max_unpacked_ratio {section}")

    def check_rejected(self, name: str, lines: int, reasons: Mapping[str, int]) -> None:
        """Raise `TooManyRejectedError` if the rejections in `lines` lines, by reason, exceed a limit."""
        rejected = sum(reasons.values())
        if rejected > self.max_rejected_lines:
            bound = f"{self.max_rejected_lines:,} (in a daemon: max_rejected_lines in [intake])"
        elif rejected > _MIN_REJECTED and rejected > self.max_rejected_share * lines:
            bound = f"{self.max_rejected_share:.0%} (in a daemon: max_rejected_share in [intake])"
        else:
            return
        by_number = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
        counts = ", ".join(f"{reason} {number:,}" for reason, number in by_number)
        problem = f"{rejected:,} of the first {lines:,} lines cannot be stored ({counts}), the limit is {bound}"
        raise TooManyRejectedError(f"{name}: ingest stopped: {problem}: correct the lines, and ingest the input again")


DEFAULT_LIMITS = InputLimits()


class _Compression(NamedTuple):
    """Compression format. A call gets `bytes_at_once` bytes. If `padded`, zeros may follow the data."""

    name: str
    magic: bytes
    bytes_at_once: int
    make: Callable[[], Any]
    padded: bool = False


_COMPRESSIONS = (
    # gzip ignores zeros after the last member, which are padding from tar or tapes.
    _Compression("gzip", b"\x1f\x8b", 1 << 12, lambda: zlib.decompressobj(wbits=31), padded=True),
    # Unpack few bytes at once, because 4 bytes of zstd can yield 128 KiB, and 40 bytes of bzip2 900 kB.
    _Compression("zstd", b"\x28\xb5\x2f\xfd", 1 << 8, lambda: zstandard.ZstdDecompressor().decompressobj()),
    _Compression("bzip2", b"BZh", 1 << 7, bz2.BZ2Decompressor),
    _Compression("xz", b"\xfd7zXZ", 1 << 8, lambda: lzma.LZMADecompressor(memlimit=_MAX_XZ_MEMORY), padded=True),
)

_NOT_TEXT = {
    b"PK\x03\x04": "a zip archive (or .docx, .xlsx, .odt)",
    b"PK\x05\x06": "an empty zip archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!\x1a\x07": "a RAR archive",
    b"LZIP\x01": "lzip data",
    b"\x04\x22\x4d\x18": "lz4 data",
    b"\x1f\x9d": "compress (.Z) data",
    b"%PDF-": "a PDF document",
    b"\x7fELF": "an executable",
    b"SQLite format 3\0": "an SQLite database",
}
"""Magic numbers of files that are not text, with the names of their types."""


def detect_data_type(head: bytes) -> str | None:
    """Return the type of known binary data, such as `gzip data`, given its first bytes. Otherwise None."""
    compression = _detect_compression(head)
    if compression is not None:
        return f"{compression.name} data"
    if head[257:].startswith(b"ustar"):
        return "a tar archive"
    return next((kind for magic, kind in _NOT_TEXT.items() if head.startswith(magic)), None)


def check_text(head: bytes, name: str) -> None:
    """Raise `InputError` if data is of a known binary type, given its first bytes, see `detect_data_type`."""
    if (kind := detect_data_type(head)) is not None:
        raise InputError(f"{name}: expected text, got {kind}: extract or convert it first")


def _detect_compression(head: bytes) -> _Compression | None:
    for compression in _COMPRESSIONS:
        # Text may also begin with the letters BZh. In bzip2 data, a digit follows, the compression level.
        if head.startswith(compression.magic) and (compression.name != "bzip2" or head[3:4].isdigit()):
            return compression
    return None


def read_blocks(read: Callable[[int], bytes], name: str, limits: InputLimits = DEFAULT_LIMITS) -> Iterator[bytes]:
    """Yield the data of `read`, decompressed, in blocks of bounded size. Raises `InputError`."""
    try:
        head = read(_HEAD_BYTES)
        compression = _detect_compression(head)
        size = _COMPRESSED_BLOCK_BYTES if compression else _BLOCK_BYTES
        blocks: Iterator[bytes] = chain([head], iter(lambda: read(size), b""))
        if compression:
            blocks, head = _decompressed(blocks, name, compression, limits), b""
            while len(head) < _HEAD_BYTES and (block := next(blocks, b"")):
                head += block
            blocks = chain([head], blocks)
        # Compressed data may contain an archive, as in a .tar.gz file.
        check_text(head, name)
        yield from filter(None, blocks)
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error


def _decompressed(
    blocks: Iterable[bytes], name: str, compression: _Compression, limits: InputLimits
) -> Iterator[bytes]:
    kind, magic = compression.name, compression.magic
    member: Any = None
    pending = b""
    packed = unpacked = 0
    for block in split_blocks(blocks, compression.bytes_at_once):
        packed += len(block)
        pending += block
        while pending:
            if member is None:
                # The padding after the last member may span several blocks.
                pending = pending.lstrip(b"\0") if compression.padded else pending
                if len(pending) < len(magic):
                    break
                if not pending.startswith(magic):
                    raise InputError(f"{name}: trailing data after the {kind} data: decompress the file first")
                member = compression.make()
            try:
                content = member.decompress(pending)
            except MemoryError:
                raise
            except Exception as error:
                # Each library raises its own exception type, and bz2 raises OSError.
                raise InputError(f"{name}: {kind} data cannot be decompressed: {error}") from error
            pending = b""
            if content:
                unpacked += len(content)
                limits.check_unpacked(name, packed, unpacked)
                yield from split_blocks([content], _BLOCK_BYTES)
            if member.eof:
                pending, member = member.unused_data, None
    if member is not None or pending:
        raise InputError(f"{name}: truncated {kind} data: the file is incomplete")


def split_blocks(blocks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Split blocks that are longer than `size` bytes. Shorter blocks are not merged."""
    for block in blocks:
        if len(block) <= size:
            yield block
        else:
            for start in range(0, len(block), size):
                yield block[start : start + size]


class LineSplitter:
    """Splitter of blocks into lines without line ends and byte order marks.

    Only the first `MAX_LINE_BYTES` + 1 bytes of a line are kept, so that later stages detect a line that is too long.
    Raises `InputError` if more than `MAX_SKIPPED_LINE_BYTES` bytes of a line are skipped.
    """

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._partial_line = b""
        self._dropped_bytes = 0

    def feed(self, block: bytes) -> list[bytes]:
        """Return the lines that end in this block."""
        if len(self._partial_line) > MAX_LINE_BYTES and b"\n" not in block:
            self._drop(len(block))
            return []
        text = self._partial_line + block
        lines = text.split(b"\n")
        # Keep two bytes over the limit because a carriage return at the end may still be removed.
        rest = lines.pop()
        self._partial_line = rest[: MAX_LINE_BYTES + 2]
        if lines:
            self._dropped_bytes = 0
        self._drop(len(rest) - len(self._partial_line))
        if _BYTE_ORDER_MARK in text:
            lines = [_LEADING_MARKS.sub(b"", line) for line in lines]
        if b"\r" in text or len(text) > MAX_LINE_BYTES:
            lines = [_strip_end(line) for line in lines]
        return lines

    def _drop(self, size: int) -> None:
        self._dropped_bytes += size
        if self._dropped_bytes > MAX_SKIPPED_LINE_BYTES:
            problem = f"not text, because a line has more than {MAX_SKIPPED_LINE_BYTES:,} bytes"
            raise InputError(f"{self._name}: {problem}: convert the file first")

    def end(self) -> list[bytes]:
        """Return the last line if it has no line feed, else an empty list."""
        last_line = _LEADING_MARKS.sub(b"", self._partial_line)
        return [_strip_end(last_line)] if last_line else []


def split_lines(blocks: Iterable[bytes], name: str = "") -> Iterator[list[bytes]]:
    """Yield the lines that end in each block as a list, see `LineSplitter`. Omits empty lists."""
    splitter = LineSplitter(name)
    for block in blocks:
        if lines := splitter.feed(block):
            yield lines
    if lines := splitter.end():
        yield lines


def _strip_marks(blocks: Iterable[bytes]) -> Iterator[bytes]:
    marked = b"\n" + _BYTE_ORDER_MARK
    # Search as if a line feed preceded the file, so that a mark at its beginning is also found.
    held, start = b"\n", 1
    for block in blocks:
        text = held + block
        while marked in text:
            text = text.replace(marked, b"\n")
        # Hold back a partial byte order mark, which the next block may complete.
        mark_length = next(size for size in range(len(marked) - 1, -1, -1) if text.endswith(marked[:size]))
        end = len(text) - mark_length
        if end > start:
            yield text[start:end]
        held, start = text[end:], max(0, start - end)
    if held[start:]:
        yield held[start:]


def _strip_end(line: bytes) -> bytes:
    return line.removesuffix(b"\r")[: MAX_LINE_BYTES + 1]


def regroup_lines(lists: Iterable[list[bytes]], size: int = LINES_PER_CHUNK) -> Iterator[list[bytes]]:
    """Regroup lines into lists of `size` lines. The last list, and lists of long lines, may be shorter."""
    gathered: list[bytes] = []
    held = 0
    for lines in lists:
        gathered += lines
        held += sum(map(len, lines))
        while len(gathered) >= size or held > BYTES_PER_CHUNK:
            yield gathered[:size]
            gathered = gathered[size:]
            held = sum(map(len, gathered))
    if gathered:
        yield gathered


@dataclass(slots=True)
class LineFile:
    """Open file of lines. `size` and `bytes_read` count compressed bytes; `size` is None if unknown."""

    _stream: BinaryIO
    name: str
    size: int | None
    _limits: InputLimits
    _after_read: Callable[[], None]
    bytes_read: int = 0

    def read(self, size: int) -> bytes:
        """Return up to `size` compressed bytes. Raises `InputError` if the file has grown since it was opened."""
        data = self._stream.read(size)
        self.bytes_read += len(data)
        self._after_read()
        if self.size is not None and self.bytes_read > self.size:
            # The last line may be incomplete, and the file may grow forever.
            problem = f"the file grew beyond {self.size:,} bytes while it was read"
            advice = "write it in another place or under another name, and rename it when it is complete"
            raise InputError(f"{self.name}: {problem}: {advice}")
        return data

    def blocks(self) -> Iterator[bytes]:
        """Yield the rest of the content, decompressed. Raises `InputError`, see `read_blocks`."""
        return read_blocks(self.read, self.name, self._limits)

    def text_blocks(self) -> Iterator[bytes]:
        """Yield the same as `blocks`, but without byte order marks at the beginning of lines."""
        return _strip_marks(self.blocks())

    def chunks(self) -> Iterator[list[bytes]]:
        """Yield the remaining lines in chunks, see `regroup_lines`. Raises `InputError`, see `read_blocks`."""
        lists = split_lines(self.blocks(), self.name)
        first = list(islice(lists, 2))
        if len(first) == 1 == len(first[0]) and b"\r" in first[0][0]:
            problem = "lines must end in line feeds, got carriage returns"
            raise InputError(f"{self.name}: {problem}: convert the file, for example with tr '\\r' '\\n' < FILE")
        yield from regroup_lines(chain(first, lists))


@contextmanager
def open_lines(
    path: str,
    limits: InputLimits = DEFAULT_LIMITS,
    after_read: Callable[[], None] = lambda: None,
    untrusted_folder: str | None = None,
) -> Iterator[LineFile]:
    """Open a file, or standard input for `-`. Raises `InputError`.

    With `untrusted_folder`, open only a regular file below it, without following links, even if it is named `-`.
    """
    if path == STANDARD_STREAM and untrusted_folder is None:
        yield LineFile(sys.stdin.buffer, STANDARD_INPUT_NAME, None, limits, after_read)
        return
    with ExitStack() as stack:
        try:
            if untrusted_folder is None:
                stream: BinaryIO = stack.enter_context(Path(path).open("rb"))
            else:
                stream = stack.enter_context(open_within(Path(untrusted_folder), Path(path)))
            status = os.fstat(stream.fileno())
        except OSError as error:
            raise InputError(f"{printable(path)}: cannot be opened: {error.strerror or error}") from error
        size = status.st_size if stat.S_ISREG(status.st_mode) else None
        yield LineFile(stream, printable(os.path.abspath(path)), size, limits, after_read)


def check_readable(*paths: str) -> None:
    """Raise `InputError` if a file is unreadable. Does not open it, because it may be a pipe."""
    for path in paths:
        if path == STANDARD_STREAM:
            continue
        try:
            if stat.S_ISDIR(os.stat(path).st_mode):
                raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not os.access(path, os.R_OK):
                raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise InputError(f"{printable(path)}: cannot be opened: {error.strerror or error}") from error


def numbered_lines(path: str) -> Iterator[tuple[str, int, bytes]]:
    """Yield `(file name, line number from 1, line)` for a file or `-`, decompressed. Raises `InputError`."""
    with open_lines(path) as file:
        for number, line in enumerate(chain.from_iterable(file.chunks()), 1):
            if len(line) > MAX_LINE_BYTES:
                raise InputError(f"{file.name}, line {number}: exceeds {MAX_LINE_BYTES:,} bytes: split it")
            yield file.name, number, line


def read_sentences(path: str) -> list[str]:
    """Return the lines of a UTF-8 file (or `-`) as text. Raises `InputError`."""
    sentences = []
    for name, number, line in numbered_lines(path):
        try:
            sentences.append(line.decode())
        except UnicodeDecodeError as error:
            problem = f"byte {error.start + 1} is not UTF-8 ({error.reason}): convert the file first"
            raise InputError(f"{name}, line {number}: {problem}") from error
    return sentences


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines, which have no line ends, to a file, see `open_output`. Raises `ExportError`."""
    with open_output(path) as stream:
        remaining = iter(lines)
        while chunk := list(islice(remaining, _LINES_PER_WRITE)):
            stream.write("".join([line + "\n" for line in chunk]).encode())
