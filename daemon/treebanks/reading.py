"""From files to trees: one tree a line, or a tree over several indented lines, as treebanks are printed.

A tree begins at a line that begins with a bracket; it ends where its brackets are closed, or before the next line that
begins with one. So a tree that is never closed takes no other tree with it.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hierogram.daemon.corpora.lines import MAX_LINE_BYTES, open_lines
from hierogram.daemon.corpora.rejections import INVALID_UTF8, LINE_TOO_LONG, NUL_BYTE, RejectionError
from hierogram.daemon.exceptions import InputError
from hierogram.daemon.treebanks.trees import Tree, read_tree


class TreeText(NamedTuple):
    """The bytes of a tree and the number of the line where they begin, from 1."""

    line: int
    content: bytes


def tree_texts(chunks: Iterable[list[bytes]]) -> Iterator[TreeText]:
    """The trees of a file's lines, not yet read; whatever stands between trees comes as a text of its own."""
    gathered: list[bytes] = []
    first = number = depth = size = 0
    for chunk in chunks:
        for line in chunk:
            number += 1
            if gathered and (depth <= 0 or line.startswith(b"(")):
                yield TreeText(first, b"\n".join(gathered))
                gathered, depth, size = [], 0, 0
            if not gathered:
                if not line.strip():
                    continue
                first = number
            if size <= MAX_LINE_BYTES:
                gathered.append(line)
                size += len(line) + 1
            depth += line.count(b"(") - line.count(b")")
    if gathered:
        yield TreeText(first, b"\n".join(gathered))


def decoded_tree(content: bytes) -> Tree:
    """The tree in these bytes; raises `RejectionError`."""
    return read_tree(decoded(content))


def decoded(content: bytes) -> str:
    """The text of a tree; raises `RejectionError` where it is too long or holds what a text cannot hold."""
    if len(content) > MAX_LINE_BYTES:
        raise RejectionError(LINE_TOO_LONG, f"the tree is longer than {MAX_LINE_BYTES} bytes")
    if b"\0" in content:
        raise RejectionError(NUL_BYTE, f"the tree holds a NUL byte at offset {content.index(0)}")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise RejectionError(
            INVALID_UTF8, f"the tree is not UTF-8: byte 0x{content[error.start]:02x} at offset {error.start}"
        ) from error


def read_trees(path: str, limit: int | None = None) -> list[Tree]:
    """The (first) trees of a file or `-`; raises `InputError` where one is malformed."""
    trees: list[Tree] = []
    with open_lines(path) as file:
        for text in tree_texts(file.chunks()):
            if limit is not None and len(trees) >= limit:
                break
            try:
                trees.append(decoded_tree(text.content))
            except RejectionError as rejection:
                raise InputError(f"{file.name}: line {text.line}: {rejection.message}") from rejection
    return trees
