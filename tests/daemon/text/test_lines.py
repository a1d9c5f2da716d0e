"""Lines do not depend on blocks and compression, and damaged data are reported."""

import bz2
import gzip
import io
import lzma
import re
import tarfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.text import lines
from hierogram.daemon.text.lines import open_lines, read_blocks, regroup_lines, split_lines

COMPRESS = [gzip.compress, zstandard.compress, bz2.compress, lzma.compress]

TEXT = st.lists(st.sampled_from([b"a", b"\xc3\xa9", b"\n", b"\r\n", b"\r", b"\0", b"\xe2\x80\xa8", b"\xff"])).map(
    b"".join
)


def expected_lines(data: bytes) -> list[bytes]:
    """Return the lines, without a byte order mark and without one carriage return before the end of each line."""
    found = re.findall(rb"[^\n]*\n|[^\n]+\Z", data.removeprefix(b"\xef\xbb\xbf"))
    return [re.sub(rb"\r?\n\Z|\r\Z", b"", line) for line in found]


def read_all(data: bytes) -> list[bytes]:
    return [line for part in split_lines(read_blocks(io.BytesIO(data).read, "f")) for line in part]


@given(TEXT, st.lists(st.integers(0, 60)), st.booleans())
def test_lines_do_not_depend_on_the_blocks(data: bytes, cuts: list[int], mark: bool) -> None:
    data = b"\xef\xbb\xbf" * mark + data
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    blocks = [data[a:b] for a, b in pairwise(places)]
    assert [line for part in split_lines(blocks) for line in part] == expected_lines(data)


@given(TEXT)
def test_compression_does_not_change_the_lines(data: bytes) -> None:
    expected = expected_lines(data)
    for compress in COMPRESS:
        assert read_all(compress(data)) == expected
        assert read_all(compress(data[:3]) + compress(data[3:])) == expected
    assert read_all(gzip.compress(data) + bytes(512)) == expected
    assert read_all(lzma.compress(data) + bytes(8)) == expected


def test_only_a_line_feed_ends_a_line() -> None:
    assert read_all("a\u2028b\x0bc\x0cd\x85e\rf\ng".encode()) == ["a\u2028b\x0bc\x0cd\x85e\rf".encode(), b"g"]


@pytest.mark.parametrize("content", [b"a\rb\rc\r", b"a\rb", b"\xef\xbb\xbfa\rb\r\n"])
def test_file_with_carriage_returns_as_line_ends_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "mac").write_bytes(content)
    with open_lines(str(tmp_path / "mac")) as file:
        chunks = file.chunks()
        with pytest.raises(InputError, match=r"mac: lines must end in line feeds.* tr '\\r' '\\n' < FILE"):
            list(chunks)


@pytest.mark.parametrize("content", [b"", b"a", b"a\r", b"a\r\n", b"\r\nb", b"a\rb\nc"])
def test_carriage_returns_are_accepted_within_lines_and_before_line_ends(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(content)
    with open_lines(str(tmp_path / "text")) as file:
        assert [line for chunk in file.chunks() for line in chunk] == expected_lines(content)


@given(st.lists(st.lists(st.binary(max_size=2), max_size=7)), st.integers(1, 5))
def test_all_chunks_except_the_last_are_full(parts: list[list[bytes]], size: int) -> None:
    chunks = list(regroup_lines(parts, size))
    assert [line for chunk in chunks for line in chunk] == [line for part in parts for line in part]
    assert all(len(chunk) == size for chunk in chunks[:-1])
    assert all(0 < len(chunk) <= size for chunk in chunks)


@pytest.mark.parametrize("compress", COMPRESS)
def test_truncated_compressed_data_are_reported(compress: type) -> None:
    data = compress(b"".join(b"%d %d\n" % (k, k * k) for k in range(5000)))
    for missing in (1, 3, 9, len(data) // 2, len(data) - 5):
        with pytest.raises(InputError, match=r"f: (truncated \w+ data|\w+ data cannot be decompressed)"):
            read_all(data[:-missing])


@pytest.mark.parametrize("compress", COMPRESS)
def test_data_after_compressed_data_must_be_compressed_alike(compress: type) -> None:
    with pytest.raises(InputError, match="f: trailing data after the"):
        read_all(compress(b"a\n") + b"some text\n")


def test_an_xz_file_that_needs_too_much_memory_is_refused() -> None:
    large = lzma.compress(b"a\n", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 28}])
    with pytest.raises(InputError, match="f: xz data cannot be decompressed: Memory usage limit exceeded"):
        read_all(large)


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"PK\x03\x04\x14\0", "a zip archive"),
        (b"7z\xbc\xaf\x27\x1c\0\4", "a 7z archive"),
        (b"Rar!\x1a\x07\x01\0", "a RAR archive"),
        (b"%PDF-1.7\n", "a PDF document"),
        (b"SQLite format 3\0", "an SQLite database"),
    ],
)
def test_archives_and_documents_are_named_and_refused(head: bytes, kind: str) -> None:
    with pytest.raises(InputError, match=f"f: expected text, got {kind}.*: extract or convert it first"):
        read_all(head + b"more\n")


def make_tar(content: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo("corpus/news.fr")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress, bz2.compress])
def test_tar_archives_are_named_and_refused_compressed_or_not(compress: Callable[[bytes], bytes]) -> None:
    with pytest.raises(InputError, match="f: expected text, got a tar archive"):
        read_all(compress(make_tar(b"la maison\n" * 100)))


def test_twice_compressed_input_is_refused() -> None:
    with pytest.raises(InputError, match="f: expected text, got bzip2 data"):
        read_all(gzip.compress(bz2.compress(b"la maison\n")))


def test_zeros_behind_compressed_data_may_be_longer_than_a_block() -> None:
    assert read_all(gzip.compress(b"a\n") + bytes(100_000)) == [b"a"]


@pytest.mark.parametrize("content", [b"BZh\n", b"PK\n", b"SQLite format 3\n", b"Rar!\n", b"%PDF\n"])
def test_text_that_begins_with_letters_of_an_archive_is_text(content: bytes) -> None:
    assert read_all(content) == [content.rstrip(b"\n")]


def test_byte_order_marks_of_concatenated_files_are_removed() -> None:
    mark = b"\xef\xbb\xbf"
    assert read_all(mark + b"a\n" + mark + mark + b"b\nc" + mark + b"\n" + mark) == [b"a", b"b", b"c" + mark]


@given(
    st.lists(st.sampled_from([b"a", b"\n", b"\xef\xbb\xbf", b"\xef\xbb", b"\xbf", b"\n\xef"])).map(b"".join),
    st.lists(st.integers(0, 40)),
)
def test_text_blocks_have_no_byte_order_marks_at_line_starts(data: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    blocks = [data[a:b] for a, b in pairwise(places)]
    assert b"".join(lines._strip_marks(blocks)) == re.sub(rb"(?m)^(?:\xef\xbb\xbf)+", b"", data)


def test_damaged_gzip_data_are_reported() -> None:
    data = bytearray(gzip.compress(b"some words\n" * 100))
    data[-6] ^= 1
    with pytest.raises(InputError, match="gzip data cannot be decompressed"):
        read_all(bytes(data))


def test_lines_are_truncated_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 100)
    blocks = (
        [b"short\n" + b"x" * 60] + [b"y" * 60] * 50 + [b"z\nlast\n", b"w" * 99 + b"\r", b"\n", b"v" * 100 + b"\r\n"]
    )
    found = [line for part in split_lines(blocks) for line in part]
    assert found == [b"short", (b"x" * 60 + b"y" * 60)[:101], b"last", b"w" * 99, b"v" * 100]


def test_missing_files_and_folders_are_input_errors(tmp_path: object) -> None:
    with pytest.raises(InputError, match=r"missing\.txt: cannot be opened"), open_lines(f"{tmp_path}/missing.txt"):
        pass
    with pytest.raises(InputError, match="cannot be opened"), open_lines(str(tmp_path)):
        pass
