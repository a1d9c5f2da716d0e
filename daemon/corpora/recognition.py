"""What lines look like, so that a file that is no such input as it is given for is told before anything is stored."""

import json
import re
import shlex
from collections.abc import Callable, Sequence

from hierogram.daemon.corpora.formats import JSONL, PARALLEL, PIPE, PIPES, TMX, TSV
from hierogram.daemon.corpora.lines import MAX_LINE_BYTES
from hierogram.daemon.exceptions import InputError

_LOOKED_AT = 100
_ENOUGH = 20

_OBJECTS, _XML, _TREES, _LINKS, _BINARY, _UTF16 = "JSON objects", "XML", "trees", "links", "no text", "UTF-16"
_PIPED = "`|||` lines"
_ARCHIVES = (b"PK\x03\x04", b"BZh", b"\xfd7zXZ", b"%PDF", b"\x7fELF", b"SQLite format 3")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_LINK = re.compile(rb"\d+-\d+")
_LETTER = re.compile(rb"[A-Za-z\x80-\xff]")
_TREE = re.compile(rb"\(\s*[^\s()]*\s*\(")


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _is_tree(line: bytes) -> bool:
    return _TREE.match(line) is not None and line.endswith(b")") and line.count(b"(") == line.count(b")")


def _are_links(line: bytes) -> bool:
    return all(map(_LINK.fullmatch, line.split()))


_LOOKS: tuple[tuple[str, Callable[[bytes], bool]], ...] = (
    (_OBJECTS, _is_object),
    (_PIPED, lambda line: PIPE in line.split()),
    (_TREES, _is_tree),
    (_LINKS, _are_links),
)


def _sample(lines: Sequence[bytes]) -> list[bytes]:
    """The first lines that are not empty."""
    stripped = (line.strip(b" \t") for line in lines[:_LOOKED_AT])
    return [line for line in stripped if line][:_ENOUGH]


def _look(lines: Sequence[bytes]) -> str | None:
    """What all the first lines look like; None where they may be sentences."""
    sample = _sample(lines)
    if not sample:
        return None
    first = sample[0].removeprefix(b"\xef\xbb\xbf").lower()
    if first.startswith((b"<?xml", b"<tmx", b"<!doctype")):
        return _XML
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _UTF16
    unprintable = sum(_CONTROL.search(line) is not None for line in sample)
    if sample[0].startswith(_ARCHIVES) or 2 * unprintable > len(sample) > 1:
        return _BINARY
    return next((look for look, holds in _LOOKS if all(map(holds, sample))), None)


def _advice(look: str, path: str) -> str:
    """What to do with a file that looks like that."""
    name = shlex.quote(path)
    return {
        _OBJECTS: f"it is an input of its own: hierogram ingest {name}",
        _PIPED: f"it is an input of its own: hierogram ingest {name}",
        _XML: f"a TMX memory is an input of its own: hierogram ingest --format tmx {name}; convert other XML",
        _TREES: f"a treebank is an input of its own, of a store of trees: hierogram ingest --trees {name}",
        _LINKS: "links come third: hierogram ingest SOURCE TARGET ALIGNMENT",
        _UTF16: f"convert it first: iconv -f UTF-16 -t UTF-8 {name}",
        _BINARY: "unpack or convert it first",
    }[look]


def _refuse(path: str, look: str, wanted: str) -> InputError:
    return InputError(f"{path}: holds {look}, not {wanted}: {_advice(look, path)}")


def recognise(lines: Sequence[bytes], path: str) -> str:
    """The format of a file that begins with these lines: pipes, jsonl or tsv; raises `InputError` if none fits."""
    sample = _sample(lines)
    if not sample:
        return PIPES
    first = sample[0]
    if first.startswith(b"{"):
        return JSONL
    if PIPE in first.split():
        return PIPES
    look = _look(lines)
    if look is not None:
        raise InputError(f"{path}: holds {look}: {_advice(look, path)}")
    if 1 <= first.count(b"\t") <= 2:
        return TSV
    if len(lines[0]) > MAX_LINE_BYTES:
        raise InputError(
            f"{path}: line 1 is longer than {MAX_LINE_BYTES:,} bytes, too long to be read: divide it into a pair "
            "a line, or name the format with --format, so that this line alone is rejected"
        )
    raise InputError(
        f"{path}: line 1 is neither JSON nor `source ||| target [||| links]`, nor source, a tab, target: name the "
        "format with --format, or give two or three files SOURCE TARGET [ALIGNMENT]"
    )


_OWN_LOOK = {PIPES: _PIPED, JSONL: _OBJECTS}
_WANTED = {PIPES: "`source ||| target` lines", JSONL: "JSON lines", TSV: "lines of source, tab, target", TMX: "TMX"}


def check_lines(lines: Sequence[bytes], path: str, format: str) -> None:
    """Raises `InputError` where a file that is given as pipes, jsonl or tsv begins with lines of another kind."""
    look = _look(lines)
    if look is not None and look != _OWN_LOOK.get(format):
        raise _refuse(path, look, _WANTED[format])


def check_trees(lines: Sequence[bytes], path: str) -> None:
    """Raises `InputError` where a file that is given as a treebank begins with lines of another kind."""
    look = _look(lines)
    if look is not None and look != _TREES:
        raise _refuse(path, look, "trees")


def check_parallel(beginnings: Sequence[Sequence[bytes]], paths: Sequence[str]) -> None:
    """Raises `InputError` where parallel files, of which these are the first lines, cannot be what they are given for.

    Source and target are sentences, the third file links, and no file is empty where another one is not.
    """
    for path, lines in zip(paths[:2], beginnings, strict=False):
        look = _look(lines)
        if look is not None:
            raise _refuse(path, look, "sentences")
    for path, lines in zip(paths[2:], beginnings[2:], strict=True):
        look = _look(lines)
        if look not in (None, _LINKS):
            raise _refuse(path, str(look), "links")
        sample = _sample(lines)
        if sample and all(_LETTER.search(line) and not any(map(_LINK.fullmatch, line.split())) for line in sample):
            raise InputError(
                f"{path}: holds no links `0-0 1-2`: the order is hierogram ingest SOURCE TARGET ALIGNMENT, "
                "and what is no alignment is not given"
            )
    empty = [path for path, lines in zip(paths, beginnings, strict=True) if not lines]
    if empty and len(empty) < len(paths):
        other = next(path for path, lines in zip(paths, beginnings, strict=True) if lines)
        raise InputError(
            f"{' and '.join(empty)}: empty, while {other} has lines: {PARALLEL} files have as many lines each"
        )
