"""n-best lists as parsers print them: the trees of a sentence one after the other, a blank line after the last.

A line holds a tree, as in a treebank, or a log-probability, or a log-probability and then the tree (as the Berkeley
parser prints them); the first line of a list may say how many trees there are, and name the sentence (as Charniak's
parser does).
"""

import re
from collections.abc import Iterable, Iterator

from hierogram.daemon.corpora.rejections import LINE_TOO_LONG, MALFORMED_TREE, RejectionError, shown
from hierogram.daemon.treebanks.reading import TreeText, tree_texts

MAX_LIST_BYTES = 1 << 24
"""Longer lists are cut to little more than this, so that a file without blank lines cannot fill the memory."""

_NUMBER = rb"[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan)"
_SCORE = re.compile(_NUMBER + rb"(?:[ \t]+(?=\()|[ \t]*\Z)", re.IGNORECASE)
_COUNT = re.compile(rb"([0-9]+)(?:[ \t]+[^ \t(].*)?[ \t]*\Z", re.DOTALL)


def candidate_lists(chunks: Iterable[list[bytes]]) -> Iterator[TreeText]:
    """The lists of a file's lines, not yet read."""
    gathered: list[bytes] = []
    first = number = size = 0
    for chunk in chunks:
        for line in chunk:
            number += 1
            if not line.strip():
                if gathered:
                    yield TreeText(first, b"\n".join(gathered))
                gathered, size = [], 0
                continue
            if not gathered:
                first = number
            if size <= MAX_LIST_BYTES:
                gathered.append(line)
                size += len(line) + 1
    if gathered:
        yield TreeText(first, b"\n".join(gathered))


def candidates(listed: TreeText) -> list[TreeText]:
    """The trees of a list, not yet read; raises `RejectionError` where something else stands among them."""
    if len(listed.content) > MAX_LIST_BYTES:
        raise RejectionError(
            LINE_TOO_LONG, f"the list is longer than {MAX_LIST_BYTES} bytes: a blank line ends the list of a sentence"
        )
    lines = listed.content.split(b"\n")
    count = _COUNT.match(lines[0])
    if count:
        lines[0] = b""
    lines = [_SCORE.sub(b"", line, count=1) if _SCORE.match(line) else line for line in lines]
    trees = [TreeText(listed.line + text.line - 1, text.content) for text in tree_texts([lines])]
    for text in trees:
        if not text.content.startswith(b"("):
            raise RejectionError(
                MALFORMED_TREE,
                f"line {text.line}: {shown(text.content)} is neither a tree nor its log-probability",
            )
    if not trees:
        raise RejectionError(MALFORMED_TREE, "the list has no trees")
    if count and int(count.group(1)) != len(trees):
        raise RejectionError(
            MALFORMED_TREE, f"the list is announced with {int(count.group(1))} trees, but has {len(trees)}"
        )
    return trees
