"""Formats of parallel corpora: detection by first lines, and line parsers. See docs/corpora.md.

A file whose first lines do not fit its format is refused before any line is stored. Parsers do not validate texts and
links, see `validation`.
"""

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.text import rejections
from hierogram.daemon.text.rejections import MAX_LINE_BYTES, RejectionError, quote_bytes
from hierogram.daemon.text.validation import LineColumns, parse_pharaoh, reject
from hierogram.samplers.grammar.known_links import KnownLinks, Link

PARALLEL, PIPES, TSV, JSONL, TMX, TREES, OBJECTS = "parallel", "pipes", "tsv", "jsonl", "tmx", "trees", "objects"
"""Formats, as stored with an input. `OBJECTS` are pairs in memory."""

PIPE = b"|||"
_SEPARATOR = re.compile(rb"(?<![^ \t])\|\|\|(?![^ \t])")
LINK_MEMBERS = ("alignment", *KnownLinks._fields)
"""Members of a JSON object that contain links."""
_MEMBERS = frozenset({"source", "target", "id", *LINK_MEMBERS})

Item = TypeVar("Item")


def parse_parallel(*files: Iterator[list[bytes]]) -> Iterator[LineColumns]:
    """Yield the lines of source, target and alignment files. Reject surplus lines of longer files."""
    number = 1
    waiting: list[list[bytes]] = [[] for _ in files]
    # Keep the remaining lines of each file, because the chunks of the files may differ in size. A file that has ended
    # has no lines.
    while any(waiting := [remaining or next(file, []) for remaining, file in zip(waiting, files, strict=True)]):
        lines = min(len(remaining) for remaining in waiting if remaining)
        chunk, waiting = [remaining[:lines] for remaining in waiting], [remaining[lines:] for remaining in waiting]
        if not all(chunk):
            names = ("source", "target", "alignment")
            ended = " and ".join(name for name, file in zip(names, chunk, strict=False) if not file)
            problem = f"no such line in the {ended} file: the files must have the same number of lines"
            rejection = RejectionError(rejections.LENGTH_MISMATCH, problem)
            contents = (b" ||| ".join(file[k] if file else b"" for file in chunk) for k in range(lines))
            yield LineColumns(rejected=[reject(k, rejection, content) for k, content in enumerate(contents, number)])
        else:
            source, target, *alignment = chunk
            alignments: list[bytes | None] = [*alignment[0]] if alignment else [None] * lines
            yield LineColumns([*range(number, number + lines)], source, target, alignments, [None] * lines)
        number += lines


def parse_lines(chunks: Iterable[list[bytes]], parse: "LineParser", first: int = 1) -> Iterator[LineColumns]:
    """Parse chunks of lines with the parser of a format. `first` is the line number of the first line."""
    for chunk in chunks:
        yield collect_lines(enumerate(chunk, first), parse, lambda line: line, keep_lines=True)
        first += len(chunk)


def collect_lines(
    numbered: Iterable[tuple[int, Item]],
    parse: "Callable[[Item], ParsedLine]",
    content: Callable[[Item], bytes],
    *,
    keep_lines: bool = False,
) -> LineColumns:
    """Parse numbered items to columns. `content` returns an item's bytes, stored if `keep_lines`."""
    columns = LineColumns(lines=[] if keep_lines else None)
    for number, item in numbered:
        try:
            source, target, alignment, external_id, known_links = parse(item)
        except RejectionError as rejection:
            columns.rejected.append(reject(number, rejection, content(item)))
            continue
        if known_links is not None:
            columns.known_links[len(columns.line_numbers)] = known_links
        columns.append(number, source, target, alignment, external_id)
        if columns.lines is not None:
            columns.lines.append(content(item))
    return columns


ParsedLine = tuple[bytes, bytes, bytes | None, str | None, KnownLinks | None]
"""Source, target, alignment (Pharaoh line), external id, and known links. The last three may be None."""

LineParser = Callable[[bytes], ParsedLine]
"""Parser of a line of a format, see `LINE_PARSERS`. Raises `RejectionError`."""


def _check_line(line: bytes) -> None:
    if len(line) > MAX_LINE_BYTES:
        raise RejectionError(rejections.LINE_TOO_LONG, f"the line exceeds {MAX_LINE_BYTES} bytes")
    if not line.strip(b" \t"):
        raise RejectionError(rejections.EMPTY_LINE, "the line is empty")


_SPACES_REQUIRED = "must have a space on each side to separate fields"


def parse_pipes(line: bytes) -> ParsedLine:
    """Parse `source ||| target [||| alignment]`, with spaces around each `|||`. Raises `RejectionError`."""
    parts = line.split(b" ||| ", 3)
    if len(parts) != 3 or line.count(PIPE) != 2 or len(line) > MAX_LINE_BYTES:
        _check_line(line)
        for token in line.replace(b"\t", b" ").split(b" "):
            if PIPE in token and token.strip(b"|"):
                raise RejectionError(rejections.FIELD_COUNT, f"{quote_bytes(token)}: `|||` {_SPACES_REQUIRED}")
        parts = _SEPARATOR.split(line)
        if len(parts) not in (2, 3):
            counted = f"{len(parts)} field{'s' * (len(parts) > 1)}"
            raise RejectionError(rejections.FIELD_COUNT, f"expected source ||| target [||| alignment], got {counted}")
    return parts[0], parts[1], parts[2] if len(parts) == 3 else None, None, None


def parse_tabs(line: bytes) -> ParsedLine:
    """Parse tab-separated source, target and optional alignment. Raises `RejectionError`."""
    columns = line.count(b"\t") + 1
    if columns not in (2, 3) or len(line) > MAX_LINE_BYTES:
        _check_line(line)
        fields = f"{columns} field{'s' * (columns > 1)}"
        raise RejectionError(rejections.FIELD_COUNT, f"expected source, tab, target [, tab, alignment], got {fields}")
    parts = line.split(b"\t")
    return parts[0], parts[1], parts[2] if len(parts) == 3 else None, None, None


def parse_json_object(line: bytes, unused: Counter[str] | None = None) -> ParsedLine:
    """Parse a JSON object, and count unknown members in `unused`. Raises `RejectionError`."""
    _check_line(line)
    try:
        value = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise RejectionError(rejections.INVALID_UTF8, f"the line is not UTF-8 at offset {error.start}") from error
    except (ValueError, RecursionError) as error:
        raise RejectionError(rejections.MALFORMED_JSON, f"the line is not JSON: {error}") from error
    if not isinstance(value, dict):
        problem = 'the line is not a JSON object: expected {"source": …, "target": …, …}'
        raise RejectionError(rejections.MALFORMED_JSON, problem)
    if unused is not None:
        unused.update(value.keys() - _MEMBERS)
    return parse_members(value)


LINE_PARSERS: dict[str, LineParser] = {PIPES: parse_pipes, TSV: parse_tabs, JSONL: parse_json_object}


def parse_members(value: Mapping[str, object]) -> ParsedLine:
    """Parse the members of a JSON line. Links are a Pharaoh line or pairs. Raises `RejectionError`."""
    for name in ("source", "target"):
        if name not in value:
            raise RejectionError(rejections.MISSING_FIELD, f"the object lacks {name!r}")
    links = value.get("alignment")
    if isinstance(links, list | tuple):
        links = " ".join([f"{s}-{t}" for s, t in _parse_link_list(links, "alignment")])
    source, target = _encoded(value["source"], "source"), _encoded(value["target"], "target")
    alignment = None if links is None else _encoded(links, "alignment")
    external_id = _external_id(value.get("id"))
    known_links = KnownLinks(*(parse_known_links(value.get(name), name) for name in KnownLinks._fields))
    return source, target, alignment, external_id, known_links if any(known_links) else None


def _parse_link_list(links: Sequence[object], name: str) -> list[Link]:
    pair_links = []
    for k, link in enumerate(links):
        if not (isinstance(link, list | tuple) and len(link) == 2 and all(type(i) is int and i >= 0 for i in link)):
            problem = f"{name}: entry {k} is not a link: expected [i, j], with words counted from 0"
            raise RejectionError(rejections.MALFORMED_LINK, problem)
        pair_links.append((link[0], link[1]))
    return pair_links


def parse_known_links(links: object, name: str) -> frozenset[Link]:
    """Parse known links: None, a Pharaoh line, or a sequence of pairs. Raises `RejectionError`."""
    if links is None:
        return frozenset()
    if isinstance(links, list | tuple):
        return frozenset(_parse_link_list(links, name))
    return frozenset(parse_pharaoh(_encoded(links, name), name))


def _encoded(value: object, name: str) -> bytes:
    if not isinstance(value, str):
        raise RejectionError(rejections.WRONG_TYPE, f"{name!r} must be a string, got {type(value).__name__}")
    if "\n" in value:
        raise RejectionError(rejections.LINE_BREAK, f"{name!r} contains a line break")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        problem = f"{name!r} contains a lone surrogate at offset {error.start}"
        raise RejectionError(rejections.WRONG_TYPE, problem) from error


def _external_id(value: object) -> str | None:
    if value is None:
        return None
    if type(value) is int:
        return str(value)
    text = _encoded(value, "id")
    if b"\0" in text:
        raise RejectionError(rejections.NUL_BYTE, "'id' contains a NUL byte")
    if not text:
        raise RejectionError(rejections.WRONG_TYPE, "'id' is empty: omit it if the pair has no id")
    return text.decode()


_SAMPLE_LINES = 100
_INSPECTED_LINES = 20
_OBJECTS, _XML, _TREES, _LINKS, _BINARY, _UTF16 = "JSON objects", "XML", "trees", "links", "binary data", "UTF-16"
_PIPED = "`|||` lines"
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_LINK = re.compile(rb"\d+-\d+")
_LETTER = re.compile(rb"[A-Za-z\x80-\xff]")
_TREE = re.compile(rb"\(\s*[^\s()]*\s*\(")


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


_DETECTORS: dict[str, Callable[[bytes], bool]] = {
    _OBJECTS: _is_object,
    _PIPED: lambda line: PIPE in line.split(),
    _TREES: lambda line: bool(_TREE.match(line)) and line.endswith(b")") and line.count(b"(") == line.count(b")"),
    _LINKS: lambda line: all(map(_LINK.fullmatch, line.split())),
}
_ADVICE = {
    _OBJECTS: "ingest it by itself: hierogram ingest {}",
    _PIPED: "ingest it by itself: hierogram ingest {}",
    _XML: "ingest a TMX file by itself: hierogram ingest --format tmx {}; convert other XML first",
    _TREES: "ingest a treebank into a store of trees: hierogram ingest --trees {}",
    _LINKS: "the file of links must be the third: hierogram ingest SOURCE TARGET ALIGNMENT",
    _UTF16: "convert it first: iconv -f UTF-16 -t UTF-8 {}",
    _BINARY: "extract or convert it first",
}
"""Advice by kind of data. The placeholder is the quoted path of the file."""


def _first_nonempty(lines: Sequence[bytes]) -> list[bytes]:
    stripped = (line.strip(b" \t") for line in lines[:_SAMPLE_LINES])
    return [line for line in stripped if line][:_INSPECTED_LINES]


def _detect_kind(lines: Sequence[bytes]) -> str | None:
    """Return the kind of data (a key of `_ADVICE`) by the first lines. None for ordinary text."""
    sample = _first_nonempty(lines)
    if not sample:
        return None
    first = sample[0].removeprefix(b"\xef\xbb\xbf").lower()
    if first.startswith((b"<?xml", b"<tmx", b"<!doctype")):
        return _XML
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _UTF16
    unprintable = sum(_CONTROL.search(line) is not None for line in sample)
    if 2 * unprintable > len(sample) > 1:
        return _BINARY
    return next((kind for kind, holds in _DETECTORS.items() if all(map(holds, sample))), None)


def _check_kind(lines: Sequence[bytes], path: str, expected: str | None, problem: str) -> None:
    kind = _detect_kind(lines)
    if kind is not None and kind != expected:
        raise InputError(f"{path}: {problem} {kind}: {_ADVICE[kind].format(shlex.quote(path))}")


def detect_format(lines: Sequence[bytes], path: str) -> str:
    """Return the format of a file by its first lines, `PIPES` if empty. Raises `InputError`."""
    sample = _first_nonempty(lines)
    if not sample:
        return PIPES
    first = sample[0]
    if first.startswith(b"{"):
        return JSONL
    if PIPE in first.split():
        return PIPES
    _check_kind(lines, path, None, "contains")
    number = next(k for k, line in enumerate(lines, 1) if line.strip(b" \t"))
    if PIPE in first and b"\t" not in first:
        raise InputError(f"{path}, line {number}: `|||` {_SPACES_REQUIRED}")
    if 1 <= first.count(b"\t") <= 2:
        return TSV
    if len(lines[0]) > MAX_LINE_BYTES:
        advice = "write one pair per line, or choose the format with --format to reject this line only"
        raise InputError(f"{path}, line 1: exceeds {MAX_LINE_BYTES:,} bytes: {advice}")
    problem = "expected JSON, `source ||| target [||| links]`, or source, tab, target"
    advice = "choose the format with --format, or pass two or three files SOURCE TARGET [ALIGNMENT]"
    raise InputError(f"{path}, line {number}: {problem}: {advice}")


_EXPECTED = {
    PIPES: (_PIPED, "expected `source ||| target` lines, got"),
    JSONL: (_OBJECTS, "expected JSON lines, got"),
    TSV: (None, "expected tab-separated lines of source and target, got"),
    TREES: (_TREES, "expected trees, got"),
}


def check_lines(lines: Sequence[bytes], path: str, format: str) -> None:
    """Raise `InputError` if lines have another format than `format`. Malformed lines are accepted here."""
    _check_kind(lines, path, *_EXPECTED[format])


def check_parallel(beginnings: Sequence[Sequence[bytes]], paths: Sequence[str]) -> None:
    """Raise `InputError` unless all files begin with sentences (third file: links) or all are empty."""
    for path, lines in zip(paths[:2], beginnings, strict=False):
        _check_kind(lines, path, None, "expected sentences, got")
    for path, lines in zip(paths[2:], beginnings[2:], strict=True):
        _check_kind(lines, path, _LINKS, "expected links, got")
        sample = _first_nonempty(lines)
        if sample and all(_LETTER.search(line) and not any(map(_LINK.fullmatch, line.split())) for line in sample):
            order = "the order of the files is hierogram ingest SOURCE TARGET [ALIGNMENT]"
            raise InputError(f"{path}: expected links such as `0-0 1-2`: {order}")
    empty = [path for path, lines in zip(paths, beginnings, strict=True) if not lines]
    if empty and len(empty) < len(paths):
        nonempty = next(path for path, lines in zip(paths, beginnings, strict=True) if lines)
        problem = f"empty, but {nonempty} is not: {PARALLEL} files must have the same number of lines"
        raise InputError(f"{' and '.join(empty)}: {problem}")
