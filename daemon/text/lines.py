"""Read files as lines of bytes, decompressed on the way.

Only a line feed ends a line, and a carriage return before it belongs to the end; no other character does, so line
numbers agree with `wc`, `sed` and the aligner that made the file. A byte order mark at the beginning of a line is left
out. Lines stay bytes here, so that a line that is not UTF-8 does not stop the file.
"""

import errno
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import zstandard

from hierogram.daemon.compressing import written
from hierogram.daemon.exceptions import InputError
from hierogram.daemon.files import readable
from hierogram.daemon.text.rejections import DEFAULT_LIMITS, MAX_LINE_BYTES, Limits

STANDARD_INPUT = "-"
STANDARD_INPUT_NAME = "<stdin>"
LINES_A_CHUNK = 5_000
_LINES_A_WRITE = 8192
BYTES_A_CHUNK = 1 << 22
"""Fewer lines make a chunk where they hold more than this: what follows keeps several copies of it."""
MOST_LINE_BYTES = 1 << 28
"""What goes on for longer without a line feed is no text: a file of zeros that is larger than its disk, say."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLOCK = 1 << 18
_COMPRESSED_BLOCK = 1 << 14
_HEAD_BYTES = 16
_XZ_MEMORY = 128 << 20
"""Most memory that an xz file may need for its dictionary; `xz -9` needs half of it."""


class _Compression(NamedTuple):
    """Compression that is undone while a file is read.

    `bytes_at_once` bounds what is decompressed in one call. With `padded`, zeros may follow the last member.
    """

    name: str
    magic: bytes
    bytes_at_once: int
    make: Callable[[], Any]
    padded: bool = False


def _bzip2() -> Any:
    import bz2

    return bz2.BZ2Decompressor()


def _xz() -> Any:
    import lzma

    return lzma.LZMADecompressor(memlimit=_XZ_MEMORY)


_COMPRESSIONS = (
    # Zeros after the last gzip member are padding (tar's blocks, tapes), which gzip itself ignores.
    _Compression("gzip", b"\x1f\x8b", 1 << 12, lambda: zlib.decompressobj(wbits=31), padded=True),
    # Four bytes of zstd can stand for a block of 128 KiB, some forty of bzip2 for 900 kB.
    _Compression("zstd", b"\x28\xb5\x2f\xfd", 1 << 8, lambda: zstandard.ZstdDecompressor().decompressobj()),
    _Compression("bzip2", b"BZh", 1 << 7, _bzip2),
    _Compression("xz", b"\xfd7zXZ", 1 << 8, _xz, padded=True),
)

_NO_TEXT = {
    b"PK\x03\x04": "a zip archive (as .docx, .xlsx and .odt are)",
    b"PK\x05\x06": "an empty zip archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!\x1a\x07": "a RAR archive",
    b"LZIP\x01": "lzip data",
    b"\x04\x22\x4d\x18": "lz4 data",
    b"\x1f\x9d": "compress (.Z) data",
    b"%PDF-": "a PDF document",
    b"\x7fELF": "a program",
    b"SQLite format 3\0": "an SQLite database",
}
"""First bytes of files that are not text, and what the files are."""


def kind_of_data(head: bytes) -> str | None:
    """Return what data are that begin so and are not plain text, such as `gzip data`; None if they may be text."""
    compression = _compression_of(head)
    if compression is not None:
        return f"{compression.name} data"
    return next((kind for magic, kind in _NO_TEXT.items() if head.startswith(magic)), None)


def check_text(head: bytes, name: str) -> None:
    """Raise `InputError` if data begin like an archive or compressed data."""
    if (kind := kind_of_data(head)) is not None:
        raise InputError(f"{name}: holds {kind}, not text: unpack or convert it first")


def _compression_of(head: bytes) -> _Compression | None:
    return next((one for one in _COMPRESSIONS if _begins(head, one)), None)


def _begins(head: bytes, compression: _Compression) -> bool:
    # A bzip2 file says its level in the fourth byte, so that a line of text that begins with its letters is text.
    return head.startswith(compression.magic) and (compression.name != "bzip2" or head[3:4].isdigit())


def read_blocks(read: Callable[[int], bytes], name: str, limits: Limits = DEFAULT_LIMITS) -> Iterator[bytes]:
    """Yield the data that `read` returns in blocks of bounded size, decompressed if they are gzip, zstd, bzip2 or xz.

    Raises `InputError` if the data are an archive, or if compressed data are damaged, end too early, or unpack to more
    than the limits allow.
    """
    try:
        head = read(_HEAD_BYTES)
        compression = _compression_of(head)
        if compression is None:
            check_text(head, name)
        rest = iter(lambda: read(_COMPRESSED_BLOCK if compression else _BLOCK), b"")
        if compression:
            yield from _decompressed(chain([head], rest), name, compression, limits)
        elif head:
            yield from chain([head], rest)
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error


def _decompressed(blocks: Iterable[bytes], name: str, compression: _Compression, limits: Limits) -> Iterator[bytes]:
    kind, magic = compression.name, compression.magic
    member: Any = None
    pending = b""
    packed = unpacked = 0
    for block in pieces(blocks, compression.bytes_at_once):
        packed += len(block)
        pending += block
        while pending:
            if member is None:
                if len(pending) < len(magic):
                    break
                if not pending.startswith(magic):
                    raise InputError(f"{name}: what follows the {kind} data is not {kind}: the file is damaged")
                member = compression.make()
            content = _decompress(member, pending, name, kind)
            pending = b""
            if content:
                unpacked += len(content)
                limits.check_unpacked(name, packed, unpacked)
                yield from pieces([content], _BLOCK)
            if member.eof:
                pending = member.unused_data
                if compression.padded:
                    pending = pending.lstrip(b"\0")
                member = None
    if member is not None or pending:
        raise InputError(f"{name}: the {kind} data end too early: the file is incomplete")


def _decompress(member: Any, data: bytes, name: str, kind: str) -> bytes:
    try:
        content: bytes = member.decompress(data)
    except MemoryError:
        raise
    except Exception as error:
        # Each library has an error of its own, and bz2 raises OSError.
        raise InputError(f"{name}: damaged {kind} data: {error}") from error
    return content


def pieces(blocks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield the same bytes, no more than `size` at once."""
    for block in blocks:
        if len(block) <= size:
            yield block
        else:
            for start in range(0, len(block), size):
                yield block[start : start + size]


class LineSplitter:
    """Split blocks into lines, without line ends and byte order marks.

    A mark may begin any line, as in files that were concatenated. Of a line of more than `MAX_LINE_BYTES` bytes only
    the first `MAX_LINE_BYTES` + 1 are kept. Raises `InputError` if one has more than `MOST_LINE_BYTES`.
    """

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._begun = b""
        self._left_out = 0

    def feed(self, block: bytes) -> list[bytes]:
        """Return the lines that end in this block."""
        if len(self._begun) > MAX_LINE_BYTES and b"\n" not in block:
            self._leave_out(len(block))
            return []
        text = self._begun + block
        lines = text.split(b"\n")
        # Two bytes over the bound: a carriage return that belongs to the end may still be taken off.
        rest = lines.pop()
        self._begun = rest[: MAX_LINE_BYTES + 2]
        if lines:
            self._left_out = 0
        self._leave_out(len(rest) - len(self._begun))
        if _BYTE_ORDER_MARK in text:
            lines = [without_mark(line) for line in lines]
        if b"\r" in text or len(text) > MAX_LINE_BYTES:
            lines = [_without_end(line) for line in lines]
        return lines

    def _leave_out(self, size: int) -> None:
        self._left_out += size
        if self._left_out > MOST_LINE_BYTES:
            raise InputError(
                f"{self._name}: a line has more than {MOST_LINE_BYTES:,} bytes, which is no text: convert it first"
            )

    def end(self) -> list[bytes]:
        """Return the last line, if no line feed ended it."""
        begun = without_mark(self._begun)
        return [_without_end(begun)] if begun else []


def split_lines(blocks: Iterable[bytes], name: str = "") -> Iterator[list[bytes]]:
    """Yield the lines of the blocks together, in lists as the blocks bring them; see `LineSplitter`."""
    splitter = LineSplitter(name)
    for block in blocks:
        if lines := splitter.feed(block):
            yield lines
    if lines := splitter.end():
        yield lines


def _without_marks(blocks: Iterable[bytes]) -> Iterator[bytes]:
    marked = b"\n" + _BYTE_ORDER_MARK
    # The line feed stands for the beginning of the file, and is not yielded.
    held, start = b"\n", 1
    for block in blocks:
        text = held + block
        while marked in text:
            text = text.replace(marked, b"\n")
        # The next block may complete a mark.
        kept = next(size for size in range(len(marked) - 1, -1, -1) if text.endswith(marked[:size]))
        end = len(text) - kept
        if end > start:
            yield text[start:end]
        held, start = text[end:], max(0, start - end)
    if held[start:]:
        yield held[start:]


def without_mark(line: bytes) -> bytes:
    """Return the line without the byte order marks at its beginning."""
    while line.startswith(_BYTE_ORDER_MARK):
        line = line.removeprefix(_BYTE_ORDER_MARK)
    return line


def _without_end(line: bytes) -> bytes:
    return line.removesuffix(b"\r")[: MAX_LINE_BYTES + 1]


def in_chunks(lists: Iterable[list[bytes]], size: int = LINES_A_CHUNK) -> Iterator[list[bytes]]:
    """Yield the same lines in lists of `size`; shorter are only the last, and those of more than `BYTES_A_CHUNK`."""
    gathered: list[bytes] = []
    held = 0
    for lines in lists:
        gathered += lines
        held += sum(map(len, lines))
        if len(gathered) >= size:
            whole = len(gathered) - len(gathered) % size
            for start in range(0, whole, size):
                yield gathered[start : start + size]
            gathered = gathered[whole:]
            held = sum(map(len, gathered))
        if held > BYTES_A_CHUNK:
            yield gathered
            gathered, held = [], 0
    if gathered:
        yield gathered


class LineFile:
    """An open file of lines that counts the bytes read from it, and calls `read_on` whenever some are.

    `size` is the number of bytes that the file has on disk, None where that is not known.
    """

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        size: int | None = None,
        limits: Limits = DEFAULT_LIMITS,
        read_on: Callable[[], None] = lambda: None,
    ) -> None:
        self._stream = stream
        self._limits = limits
        self._read_on = read_on
        self.name = name
        self.size = size
        self.bytes_read = 0

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes; raises `InputError` where the file has grown since it was opened."""
        data = self._stream.read(size)
        self.bytes_read += len(data)
        self._read_on()
        if self.size is not None and self.bytes_read > self.size:
            # Its last line may be half a line, and it may never end.
            raise InputError(
                f"{self.name}: grows while it is read, from {self.size:,} bytes: write it elsewhere, or under another "
                "name, and rename it when it is whole"
            )
        return data

    def blocks(self) -> Iterator[bytes]:
        """Yield the content from here on, decompressed; raises `InputError` where the file is damaged."""
        return read_blocks(self.read, self.name, self._limits)

    def text_blocks(self) -> Iterator[bytes]:
        """Yield the same content without byte order marks at the beginning of lines."""
        return _without_marks(self.blocks())

    def chunks(self, size: int = LINES_A_CHUNK) -> Iterator[list[bytes]]:
        """Yield the lines from here on, in lists of `size`.

        Raises `InputError` where the file is damaged, or is one line with carriage returns in it.
        """
        return in_chunks(self._lines(), size)

    def _lines(self) -> Iterator[list[bytes]]:
        lists = split_lines(self.blocks(), self.name)
        first = list(islice(lists, 2))
        if len(first) == 1 == len(first[0]) and b"\r" in first[0][0]:
            raise InputError(
                f"{self.name}: its lines end in carriage returns alone, and only a line feed ends a line: convert it, "
                "as in tr '\\r' '\\n' < FILE"
            )
        yield from first
        yield from lists


@contextmanager
def open_lines(
    path: str, limits: Limits = DEFAULT_LIMITS, read_on: Callable[[], None] = lambda: None
) -> Iterator[LineFile]:
    """Open the file at `path`, or standard input for `-`; raises `InputError` where it cannot be opened."""
    if path == STANDARD_INPUT:
        yield LineFile(sys.stdin.buffer, STANDARD_INPUT_NAME, None, limits, read_on)
        return
    with ExitStack() as stack:
        try:
            stream = stack.enter_context(Path(path).open("rb"))
            status = os.fstat(stream.fileno())
        except OSError as error:
            raise InputError(f"{readable(path)}: cannot be opened: {error.strerror or error}") from error
        size = status.st_size if stat.S_ISREG(status.st_mode) else None
        yield LineFile(stream, readable(os.path.abspath(path)), size, limits, read_on)


def check_readable(*paths: str) -> None:
    """Raise `InputError` if a file does not exist or may not be read. Nothing is opened, because it may be a pipe."""
    for path in paths:
        try:
            is_folder = path != STANDARD_INPUT and stat.S_ISDIR(os.stat(path).st_mode)
        except OSError as error:
            raise InputError(f"{readable(path)}: cannot be opened: {error.strerror or error}") from error
        if is_folder or not (path == STANDARD_INPUT or os.access(path, os.R_OK)):
            reason = os.strerror(errno.EISDIR if is_folder else errno.EACCES)
            raise InputError(f"{readable(path)}: cannot be opened: {reason}")


def numbered_lines(path: str) -> Iterator[tuple[str, int, bytes]]:
    """Yield the lines of a file (or `-`), decompressed: the file's name, the line's number from 1, the line.

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
    """Return the lines of a file (or `-`) as text; raises `InputError` where one is not UTF-8."""
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
    with written(path) as stream:
        left = iter(lines)
        while some := list(islice(left, _LINES_A_WRITE)):
            stream.write("".join([line + "\n" for line in some]).encode())
