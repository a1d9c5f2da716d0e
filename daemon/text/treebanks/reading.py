"""Treebank reader: turns a file of trees into validated sentences, without a store.

A tree is on one line, or on several indented lines, as treebanks are printed. A tree begins at a line that begins with
a bracket. It ends when its brackets are closed, or before the next line that begins with a bracket. An unclosed tree
therefore does not swallow the next tree.

In n-best lists, as parsers print them, the trees of a sentence follow one another, with a blank line after the last. A
line contains a tree, as in a treebank, or a log-probability, or a log-probability and then the tree (Berkeley parser).
The first line of a list may contain the number of trees and the name of the sentence (Charniak's parser).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import chain, groupby, islice
from typing import NamedTuple

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.text import rejections
from hierogram.daemon.text.formats import TREES, check_lines
from hierogram.daemon.text.lines import DEFAULT_LIMITS, LINES_PER_CHUNK, InputLimits, LineFile, open_lines
from hierogram.daemon.text.reading import REPEATS_IN_MEMORY, InputHeader, ValidatedChunk
from hierogram.daemon.text.rejections import MAX_LINE_BYTES, RejectionError, quote_bytes
from hierogram.daemon.text.treebanks.forests import clean_forest, is_forest, pack_trees, read_forest, transform_forest
from hierogram.daemon.text.treebanks.transformations import (
    Transformations,
    clean_tree,
    find_known_words,
    replace_unknown,
    transform_tree,
)
from hierogram.daemon.text.treebanks.trees import Tree, read_tree
from hierogram.daemon.text.validation import DuplicateCounter, check_length, decode_text, reject
from hierogram.samplers.exceptions import ForestTooLargeError
from hierogram.samplers.grammar.brackets import Parse, check_size, write_parse
from hierogram.storage.records.pairs import NewPairs, RejectedLine, join_runs
from hierogram.storage.worker_process import KeepAlive


class TreeText(NamedTuple):
    """Bytes of a tree or an n-best list, and the number of its first line, from 1."""

    line: int
    content: bytes


def tree_texts(chunks: Iterable[list[bytes]]) -> Iterator[TreeText]:
    """Yield the unparsed trees of a file. Text between trees is yielded as a separate item."""
    gathered: list[bytes] = []
    first = depth = size = 0
    for number, line in enumerate(chain.from_iterable(chunks), 1):
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


def read_trees(path: str, limit: int | None = None) -> list[Tree]:
    """Return the first `limit` (None: all) trees of a file or `-`, as written. Raises `InputError`."""
    trees: list[Tree] = []
    with open_lines(path) as file:
        for text in islice(tree_texts(file.chunks()), limit):
            try:
                trees.append(read_tree(decode_text(text.content, "the tree")))
            except RejectionError as rejection:
                raise InputError(f"{file.name}, line {text.line}: {rejection.message}") from rejection
    return trees


MAX_LIST_BYTES = 1 << 24
"""Size in bytes at which an n-best list is cut, so that a file without blank lines cannot fill memory."""

_SCORE_NUMBER = rb"[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan)"
_SCORE = re.compile(_SCORE_NUMBER + rb"(?:[ \t]+(?=\()|[ \t]*\Z)", re.IGNORECASE)
_COUNT = re.compile(rb"([0-9]+)(?:[ \t]+[^ \t(].*)?[ \t]*\Z", re.DOTALL)


def _candidate_lists(chunks: Iterable[list[bytes]]) -> Iterator[TreeText]:
    numbered = enumerate(chain.from_iterable(chunks), 1)
    for is_list, lines in groupby(numbered, lambda item: bool(item[1].strip())):
        if is_list:
            first, line = next(lines)
            gathered, size = [line], len(line)
            for _, line in lines:
                if size < MAX_LIST_BYTES:
                    gathered.append(line)
                    size += len(line) + 1
            yield TreeText(first, b"\n".join(gathered))


def candidates(listed: TreeText) -> list[TreeText]:
    """Return the unparsed trees of an n-best list. Raises `RejectionError` if it is invalid or long."""
    if len(listed.content) > MAX_LIST_BYTES:
        problem = f"the list exceeds {MAX_LIST_BYTES} bytes: end the list of each sentence with a blank line"
        raise RejectionError(rejections.LINE_TOO_LONG, problem)
    lines = listed.content.split(b"\n")
    count = _COUNT.match(lines[0])
    if count:
        lines[0] = b""
    lines = [_SCORE.sub(b"", line, count=1) if _SCORE.match(line) else line for line in lines]
    trees = [TreeText(listed.line + text.line - 1, text.content) for text in tree_texts([lines])]
    for text in trees:
        if not text.content.startswith(b"("):
            problem = f"line {text.line}: expected a tree or its log-probability, got {quote_bytes(text.content)}"
            raise RejectionError(rejections.MALFORMED_TREE, problem)
    if not trees:
        raise RejectionError(rejections.MALFORMED_TREE, "the list has no trees")
    if count and int(count[1]) != len(trees):
        problem = f"the header of the list announces {int(count[1])} trees, got {len(trees)}"
        raise RejectionError(rejections.MALFORMED_TREE, problem)
    return trees


class ParsedSentence(NamedTuple):
    """Transformed tree or forest of a sentence, and the number of its first line, from 1."""

    line: int
    parse: Parse


class TreebankFile(NamedTuple):
    """File (or `-`) of trees and forests, or of n-best lists. For `untrusted_folder`, see `open_lines`."""

    path: str
    lists: bool = False
    limits: InputLimits = DEFAULT_LIMITS
    untrusted_folder: str | None = None

    @property
    def format(self) -> str:
        """Format, as stored with the input: `nbest` or `trees`."""
        return "nbest" if self.lists else TREES


class OpenTreebank(NamedTuple):
    """Open file of trees. `chunks` yields all its lines in chunks, once."""

    treebank: TreebankFile
    file: LineFile
    chunks: Iterator[list[bytes]]


@contextmanager
def open_treebank(treebank: TreebankFile, after_read: Callable[[], None] = lambda: None) -> Iterator[OpenTreebank]:
    """Open a treebank, and check that it begins with trees. Raises `InputError`."""
    with open_lines(treebank.path, treebank.limits, after_read, treebank.untrusted_folder) as file:
        chunks = file.chunks()
        first = list(islice(chunks, 1))
        check_lines(first[0] if first else [], file.name, TREES)
        yield OpenTreebank(treebank, file, chain(first, chunks))


def read_known_words_in_sandbox(
    alive: KeepAlive, treebank: TreebankFile, transformations: Transformations, max_tokens: int
) -> Iterator[frozenset[str]]:
    """Yield the known words of a store, learned from its first file. Runs in a `WorkerProcess`."""
    with open_treebank(treebank, alive) as opened:
        yield learn_known_words(opened, sentences(opened, transformations, max_tokens), transformations)


def learn_known_words(
    opened: OpenTreebank, read: Iterable[ParsedSentence | RejectedLine], transformations: Transformations
) -> frozenset[str]:
    """Return the frequent words of a store's first file. Raises `TooManyRejectedError`."""
    counts, rejected = Counter[str](), Counter[str]()
    lines = 0
    for sentence in read:
        lines += 1
        if isinstance(sentence, ParsedSentence):
            counts.update(sentence.parse.words)
        else:
            rejected[sentence.reason] += 1
    opened.treebank.limits.check_rejected(opened.file.name, lines, rejected)
    return find_known_words(counts, transformations.rare)


def read_in_sandbox(
    alive: KeepAlive, treebank: TreebankFile, transformations: Transformations, max_tokens: int, known: frozenset[str]
) -> Iterator[InputHeader | ValidatedChunk]:
    """Yield the header of an untrusted treebank, then its chunks. Runs in a `WorkerProcess`."""
    with open_treebank(treebank, alive) as opened:
        yield InputHeader(opened.file.name, treebank.format, opened.file.size)
        read = sentences(opened, transformations, max_tokens)
        for chunk in chunks(read, known, DuplicateCounter(REPEATS_IN_MEMORY)):
            yield chunk._replace(bytes_read=opened.file.bytes_read)


def sentences(
    opened: OpenTreebank, transformations: Transformations, max_tokens: int
) -> Iterator[ParsedSentence | RejectedLine]:
    """Yield the transformed sentences and the rejected lines of a file, in order, once."""
    lists = opened.treebank.lists
    for text in _candidate_lists(opened.chunks) if lists else tree_texts(opened.chunks):
        try:
            parse = _transformed(text, transformations, lists)
            check_length("the tree", len(parse.words), "words", max_tokens)
            check_size(parse)
            yield ParsedSentence(text.line, parse)
        except RejectionError as rejection:
            yield reject(text.line, rejection, text.content)
        except ForestTooLargeError as error:
            yield reject(text.line, RejectionError(rejections.TOO_LONG, f"the tree has {error}"), text.content)


def chunks(
    read: Iterator[ParsedSentence | RejectedLine], known: frozenset[str], repeats: DuplicateCounter
) -> Iterator[ValidatedChunk]:
    """Replace words not in `known` by classes, number repeats, and yield a chunk per transaction."""
    with closing(repeats):
        while group := list(islice(read, LINES_PER_CHUNK)):
            parsed = [sentence for sentence in group if isinstance(sentence, ParsedSentence)]
            words = [replace_unknown(sentence.parse.words, known) for sentence in parsed]
            size, sources = len(parsed), list(map(" ".join, words))
            targets = [write_parse(one.parse._replace(words=new)) for one, new in zip(parsed, words, strict=True)]
            # In a store of trees, the source side has the words, and the target side the tree.
            pairs = NewPairs(
                sources=sources,
                targets=targets,
                alignments=[""] * size,
                source_lengths=list(map(len, words)),
                target_lengths=[0] * size,
                lines=[sentence.line for sentence in parsed],
                external_ids=[None] * size,
                occurrences=repeats.occurrences(sources, targets, [""] * size),
            )
            yield ValidatedChunk(pairs, join_runs(line for line in group if isinstance(line, RejectedLine)))


def _transformed(text: TreeText, transformations: Transformations, lists: bool) -> Parse:
    if not lists and is_forest(text.content):
        return transform_forest(clean_forest(read_forest(text.content), transformations))
    trees: list[Tree] = []
    for candidate in candidates(text) if lists else [text]:
        try:
            tree = read_tree(decode_text(candidate.content, "the tree"))
            trees.append(transform_tree(clean_tree(tree, transformations), transformations))
        except RejectionError as rejection:
            where = f"line {candidate.line}, tree {len(trees) + 1} of the list: " if lists else ""
            raise RejectionError(rejection.reason, where + rejection.message) from rejection
    return pack_trees(trees)
