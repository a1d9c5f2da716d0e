"""Malicious and damaged files for a spool, and the expected outcomes."""

import contextlib
import gzip
import json
import os
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import zstandard

INGESTED, MOVED_ASIDE, EITHER = "ingested", "moved aside", "either"

GOOD = b"la maison ||| the house ||| 0-0 1-1\n"
_HEAD = b'<?xml version="1.0"?><tmx version="1.4"><header srclang="fr"/><body>'
_UNIT = b'<tu><tuv xml:lang="fr"><seg>la maison</seg></tuv><tuv xml:lang="en"><seg>the house</seg></tuv></tu>'
_TAIL = b"</body></tmx>"
_MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Attack:
    """A file with its expected fate, and part of the reason if it is moved aside."""

    name: bytes
    make: Callable[[Path], object]
    fate: str = MOVED_ASIDE
    reason: str = ""


def attack_path(folder: Path, name: bytes) -> Path:
    return Path(os.fsdecode(os.path.join(os.fsencode(folder), name)))


def _holding(*pieces: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(b"".join(pieces))


def _repeating(piece: bytes, times: int, before: bytes = b"", after: bytes = b"") -> Callable[[Path], object]:
    def make(path: Path) -> None:
        with path.open("wb") as file:
            file.write(before)
            for _ in range(times):
                file.write(piece)
            file.write(after)

    return make


def _memory(*pieces: bytes) -> Callable[[Path], object]:
    return _holding(_HEAD, _UNIT, *pieces, _UNIT, _TAIL)


def _long_memory(piece: bytes, times: int, before: bytes, after: bytes) -> Callable[[Path], object]:
    return _repeating(piece, times, _HEAD + _UNIT + before, after + _TAIL)


def _sparse(size: int) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(size)

    return make


def _gzip_bomb(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(300):
            file.write(bytes(_MEGABYTE))


def _zstd_bomb(path: Path) -> None:
    with path.open("wb") as file, zstandard.ZstdCompressor(19).stream_writer(file) as stream:
        for _ in range(2_000):
            stream.write(b"\n" * _MEGABYTE)


def _socket(path: Path) -> None:
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(path))


def _unreadable(path: Path) -> None:
    path.write_bytes(GOOD)
    path.chmod(0)


def _dated(seconds: int) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        path.write_bytes(GOOD)
        os.utime(path, (seconds, seconds))

    return make


def _json(*values: object) -> Callable[[Path], object]:
    good = json.dumps({"source": "la maison", "target": "the house"}).encode() + b"\n"
    lines = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    return _holding(good * 200, *(line + b"\n" for line in lines))


def _large_words(path: Path) -> None:
    """Write four pairs whose words are 800,000 random hexadecimal digits long."""
    random = Random(7)
    words = [random.randbytes(400_000).hex() for _ in range(4)]
    path.write_text("".join(f"{word} ||| {word[::-1]} ||| 0-0\n" for word in words))


def _half_wrong(path: Path) -> None:
    """Write a file in which every second line is invalid and long."""
    with path.open("wb") as file:
        for k in range(20_000):
            file.write(GOOD if k % 2 else b"x" * 4_000 + (b"\xff" if k % 4 else b"\t|||") + b"\n")


def attacks() -> Iterator[Attack]:
    # These files have odd names.
    yield Attack(b"caf\xe9.bars", _holding(GOOD), INGESTED)
    yield Attack(b"caf\xe9-bad", _holding(b"what\n"), MOVED_ASIDE, "expected JSON")
    yield Attack(b"n\xe9ws/a", _holding(GOOD), INGESTED)
    yield Attack(b"n\xe9ws/b", _holding(b"what\n"), MOVED_ASIDE, "expected JSON")
    yield Attack(b"l" * 250, _holding(b"what\n"), MOVED_ASIDE, "expected JSON")
    yield Attack(b"L" * 255, _holding(GOOD), INGESTED)
    yield Attack("語".encode() * 85, _holding(b"what\n"), MOVED_ASIDE, "expected JSON")
    yield Attack(b"two\nlines\x1b[31m", _holding(GOOD), INGESTED)
    yield Attack(b"<script>alert(1)</script>".replace(b"/", b"|"), _holding(GOOD), INGESTED)
    yield Attack(b" ", _holding(GOOD), INGESTED)
    yield Attack(b"x.reason", _holding(b"what\n"), MOVED_ASIDE, "expected JSON")
    yield Attack(b"-rf", _holding(GOOD), INGESTED)
    yield Attack(b"memory\xff.tmx", _memory(), INGESTED)
    # These are not regular files, or have an odd place, mode or time.
    yield Attack(b"fifo", os.mkfifo, MOVED_ASIDE, "not a regular file")
    yield Attack(b"fifo.tmx", os.mkfifo, MOVED_ASIDE, "not a regular file")
    yield Attack(b"socket", _socket, MOVED_ASIDE, "not a regular file")
    yield Attack(b"link", lambda path: path.symlink_to("/etc/passwd"), MOVED_ASIDE, "not a regular file")
    yield Attack(b"endless", lambda path: path.symlink_to("/dev/zero"), MOVED_ASIDE, "not a regular file")
    yield Attack(b"dangling", lambda path: path.symlink_to("nowhere"), MOVED_ASIDE, "not a regular file")
    yield Attack(b"loop", lambda path: path.symlink_to(path.name), MOVED_ASIDE, "not a regular file")
    yield Attack(b"folder.tmx/inside", _holding(GOOD), INGESTED)
    yield Attack(b"unreadable", _unreadable, EITHER)
    yield Attack(b"of-1901", _dated(-(1 << 31)), INGESTED)
    yield Attack(b"of-2400", _dated(13_600_000_000), INGESTED)
    # These are translation memories.
    laughs = b"".join(b'<!ENTITY l%d "%s">' % (k, b"&l%d;" % (k - 1) * 10) for k in range(1, 10))
    laughing = b'<!DOCTYPE tmx [<!ENTITY l0 "lol">' + laughs + b"]><tmx><body><tu>&l9;</tu></body></tmx>"
    yield Attack(b"laughs.tmx", _holding(laughing), MOVED_ASIDE, "entity declarations")
    outside = b'<!DOCTYPE tmx [<!ENTITY e SYSTEM "file:///etc/passwd">]><tmx><body><tu>&e;</tu></body></tmx>'
    yield Attack(b"outside.tmx", _holding(outside), MOVED_ASIDE, "entity declarations")
    yield Attack(
        b"attribute.tmx", _long_memory(b"x" * _MEGABYTE, 200, b'<tu id="', b'"></tu>'), MOVED_ASIDE, "a tag, comment"
    )
    yield Attack(b"comment.tmx", _long_memory(b"<" * _MEGABYTE, 100, b"<!--", b"-->"), MOVED_ASIDE, "a tag, comment")
    yield Attack(b"deep.tmx", _long_memory(b"<a>" * 100_000, 10, b"", b""), MOVED_ASIDE, "more than 256 levels")
    elements = b"".join(b"<e%d/>" % k for k in range(300_000))
    yield Attack(b"elements.tmx", _memory(elements), MOVED_ASIDE, "names of elements")
    attributes = b"<tu " + b" ".join(b'a%d=""' % k for k in range(80_000)) + b"/>"
    yield Attack(b"attributes.tmx", _memory(attributes), MOVED_ASIDE, "names of elements")
    yield Attack(
        b"unit.tmx", _long_memory(b"<tuv><seg>a</seg></tuv>" * 40_000, 50, b"<tu>", b"</tu>"), MOVED_ASIDE, "unit 2"
    )
    yield Attack(
        b"text.tmx", _memory(b"<tu><tuv xml:lang='fr'><seg>", b"a " * 4_000_000, b"</seg></tuv></tu>"), INGESTED
    )
    yield Attack(b"empty-units.tmx", _memory(b"<tu/>" * 400_000), MOVED_ASIDE, "cannot be stored")
    yield Attack(
        b"space.tmx", _repeating(b" " * _MEGABYTE, 50, b'<?xml version="1.0"?>'), MOVED_ASIDE, "a tag, comment"
    )
    yield Attack(b"utf7.tmx", _holding(b'<?xml version="1.0" encoding="utf-7"?><tmx></tmx>'), MOVED_ASIDE)
    yield Attack(b"unknown.tmx", _holding(b'<?xml version="1.0" encoding="klingon"?><tmx></tmx>'), MOVED_ASIDE)
    yield Attack(b"half.tmx", _holding(_HEAD, _UNIT, b"<tu><tuv"), MOVED_ASIDE, "invalid XML")
    yield Attack(b"zeros.tmx", _holding(_HEAD, b"\0" * 1000), MOVED_ASIDE, "invalid XML")
    # These files are compressed.
    yield Attack(b"bomb.gz", _gzip_bomb, MOVED_ASIDE, "decompress")
    yield Attack(b"bomb.zst", _zstd_bomb, MOVED_ASIDE, "cannot be stored|decompress")
    yield Attack(
        b"half.gz", _holding(gzip.compress(GOOD * 1000)[:-20]), MOVED_ASIDE, "truncated|cannot be decompressed"
    )
    yield Attack(b"twice.gz", _holding(gzip.compress(gzip.compress(GOOD))), MOVED_ASIDE)
    yield Attack(
        b"bomb.tmx.gz", lambda path: path.write_bytes(gzip.compress(b"<tmx><!--" + b"x" * 30_000_000)), MOVED_ASIDE
    )
    # These files have odd lines.
    yield Attack(b"line", _repeating(b"a" * _MEGABYTE, 400, GOOD), MOVED_ASIDE, "a line has more than")
    yield Attack(b"columns.tsv", _repeating(b"a\t" * (_MEGABYTE // 2), 64, b"la\tthe\n"), INGESTED)
    yield Attack(b"terabyte", _sparse(1 << 40), MOVED_ASIDE, "a line has more than")
    yield Attack(b"nul", _holding(b"a\0b ||| c\0d ||| 0-0\n" * 200, GOOD), MOVED_ASIDE, "cannot be stored")
    yield Attack(b"utf16", _holding("la maison ||| the house\n".encode("utf-16")), MOVED_ASIDE, "UTF-16")
    yield Attack(b"half-utf16", _holding(b"\xff\xfe", struct.pack("<3H", 0xD800, 0x0A, 0xDC00) * 999), MOVED_ASIDE)
    yield Attack(b"ends", _holding(b"a ||| b ||| 0-0\r\nc ||| d ||| 0-0\ne\r||| f ||| 0-0\n\r\n"), INGESTED)
    yield Attack(b"returns", _holding(b"a ||| b\r" * 4_000_000), EITHER)
    yield Attack(b"words", _large_words, EITHER)
    yield Attack(b"all-wrong", _half_wrong, EITHER)
    yield Attack(b"zip.tsv", _holding(b"PK\x03\x04", bytes(range(256)) * 100), MOVED_ASIDE)
    yield Attack(b"random", _holding(Random(1).randbytes(5_000_000)), MOVED_ASIDE)
    yield Attack(b"links", _holding(b"a ||| b ||| " + b"0-0 " * 200_000 + b"\n", GOOD * 200), INGESTED)
    yield Attack(b"far", _holding(b"a ||| b ||| 999999999999999999999-0\n", GOOD * 200), INGESTED)
    yield Attack(b"deep.jsonl", _json(b'{"source":' + b"[" * 500_000), INGESTED)
    yield Attack(b"number.jsonl", _json(b'{"source": ' + b"9" * 100_000 + b', "target": "a"}'), INGESTED)
    yield Attack(b"halves.jsonl", _json({"source": "\ud800", "target": "a"}), INGESTED)
    yield Attack(b"ids.jsonl", _json({"source": "a", "target": "b", "id": "x" * 900_000}), EITHER)
    yield Attack(b"huge-id.jsonl", _json({"source": "a", "target": "b", "id": 10**4000}), EITHER)
    yield Attack(b"keys.jsonl", _json({f"k{k}": 1 for k in range(50_000)}), INGESTED)
    yield Attack(b"empty", _holding(), INGESTED)
    for k in range(100):
        yield Attack(b"empty-%d" % k, _holding(), INGESTED)
