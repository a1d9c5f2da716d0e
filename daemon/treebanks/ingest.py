"""Trees into a store: read, transformed, and stored as sentence and tree; what is no tree is kept apart.

The first input settles two things for the store's life: how trees are transformed, and which words are known. All other
words become classes, in this input and in every later one, so that a tree offered again is the same tree.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import NamedTuple

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.faults import TOO_LONG, FaultError
from hierogram.daemon.ingest import DEFAULT_CORPUS, IngestProgress, IngestReport
from hierogram.daemon.lines import LINES_A_CHUNK, LineFile, open_lines
from hierogram.daemon.repeats import Repeats
from hierogram.daemon.treebanks.reading import decoded_tree, tree_texts
from hierogram.daemon.treebanks.transformations import Transformations, cleaned, transformed
from hierogram.daemon.treebanks.trees import Tree, words_of
from hierogram.daemon.treebanks.unknown_words import Vocabulary, vocabulary_of
from hierogram.daemon.validation import reject
from hierogram.storage.exceptions import StoreError
from hierogram.storage.records import TREES, NewPair, RejectedLine
from hierogram.storage.store import Store

FORMAT = "trees"


class _Read(NamedTuple):
    """A tree of the input, and the line where it begins."""

    line: int
    tree: Tree
    length: int


class Treebank(NamedTuple):
    """What a store's first trees settled."""

    how: Transformations
    vocabulary: Vocabulary


def treebank_of(store: Store) -> Treebank | None:
    """What is settled in a store; None before its first trees."""
    settled = store.treebank()
    return None if settled is None else _decoded(settled)


def _decoded(settled: dict[str, object]) -> Treebank:
    how, known = settled["transformations"], settled["known"]
    assert isinstance(how, dict)
    assert isinstance(known, list)
    return Treebank(Transformations(**how), Vocabulary(frozenset(known)))


def check_kind(store: Store) -> None:
    """Raises `UsageError` where the store holds no tree grammar."""
    if store.settings().grammar != TREES:
        raise UsageError(
            f"{store.url} holds a grammar between two languages: make another store for trees "
            "(`hierogram --store trees.db init --grammar trees`)"
        )


def ingest_trees(
    store: Store,
    path: str,
    how: Transformations | None = None,
    corpus: str = DEFAULT_CORPUS,
    report: Callable[[IngestProgress], None] | None = None,
) -> IngestReport:
    """Store the trees of a file or `-`; `how` None takes what is settled, or the defaults.

    The whole input is in memory, since its words have to be counted first. Raises `UsageError` where the store holds
    no tree grammar or was settled otherwise, and `InputError` where the input is damaged.
    """
    started = time.perf_counter()
    settings = store.settings()
    check_kind(store)
    before = treebank_of(store)
    if before is not None and how is not None and how != before.how:
        raise UsageError(f"{store.url}: its trees are transformed by {before.how}, for its life, not by {how}")
    how = how or (before.how if before else Transformations())
    with open_lines(path) as file:
        batch = store.begin_ingest(corpus, file.name, FORMAT)
        result = IngestReport(batch, corpus, file.name, FORMAT)
        try:
            trees, rejected = _read(file, how, settings.max_tokens)
            binary = [transformed(tree.tree, how) for tree in trees]
            known = sorted(vocabulary_of(binary, how.rare).known)
            settled = _decoded(store.settle_treebank({"transformations": asdict(how), "known": known}))
            if settled.how != how:
                raise UsageError(f"{store.url}: its trees are transformed by {settled.how}, for its life, not by {how}")
            repeats = Repeats()
            try:
                for first in range(0, max(len(trees), 1), LINES_A_CHUNK):
                    pairs = [
                        _pair(read, settled.vocabulary.in_tree(tree), repeats)
                        for read, tree in zip(
                            trees[first : first + LINES_A_CHUNK], binary[first : first + LINES_A_CHUNK], strict=True
                        )
                    ]
                    # What could not be read goes with the first trees.
                    kept = rejected if first == 0 else []
                    added = store.add_pairs(batch, pairs, kept)
                    result.add(added.totals, [*kept, *added.rejected])
                    if report:
                        share = (first + len(pairs)) / max(len(trees), 1) * file.bytes_read
                        report(IngestProgress(result.lines, result.totals, int(share), file.bytes_read))
            finally:
                repeats.close()
        except BaseException as error:
            with suppress(StoreError):
                store.finish_ingest(batch, str(error) or type(error).__name__)
            raise
        store.finish_ingest(batch)
    result.seconds = time.perf_counter() - started
    return result


def _read(file: LineFile, how: Transformations, max_tokens: int) -> tuple[list[_Read], list[RejectedLine]]:
    """The cleaned trees of a file, and what is none."""
    trees: list[_Read] = []
    rejected: list[RejectedLine] = []
    for text in tree_texts(file.chunks()):
        try:
            tree = cleaned(decoded_tree(text.content), how)
            length = len(words_of(tree))
            if length > max_tokens:
                raise FaultError(
                    TOO_LONG,
                    f"the tree has {length} words, this store takes at most {max_tokens} "
                    "(`hierogram init --max-tokens`)",
                )
            trees.append(_Read(text.line, tree, length))
        except FaultError as fault:
            rejected.append(reject(text.line, fault, text.content))
    return trees, rejected


def _pair(read: _Read, tree: Tree, repeats: Repeats) -> NewPair:
    source, target = " ".join(words_of(tree)), str(tree)
    occurrence = repeats.occurrence(source, target, "")
    return NewPair(source, target, "", read.length, 0, read.line, occurrence=occurrence)
