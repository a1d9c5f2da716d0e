"""Treebank ingest: read, transform and store trees and forests with their sentences, and reject malformed ones.

The first input fixes two things for the lifetime of the store: the transformations and the known words. All other words
become classes, in this input and in every later one, so that a tree that is ingested twice is the same tree.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import asdict
from typing import NamedTuple, cast

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.text.ingest import (
    DEFAULT_CORPUS,
    IngestReport,
    check_input_kind,
    store_chunks,
)
from hierogram.daemon.text.lines import LINES_PER_CHUNK
from hierogram.daemon.text.reading import InputHeader, ValidatedChunk
from hierogram.daemon.text.treebanks import reading
from hierogram.daemon.text.treebanks.reading import OpenTreebank, ParsedSentence, TreebankFile
from hierogram.daemon.text.treebanks.transformations import KnownWords, Transformations, find_known_words
from hierogram.daemon.text.validation import DuplicateCounter
from hierogram.samplers.grammar.kinds import PARSES
from hierogram.storage.records.pairs import RejectedLine
from hierogram.storage.store import Store
from hierogram.storage.worker_process import WorkerProcess


class Treebank(NamedTuple):
    """Transformations and known words, fixed by a store's first trees."""

    transformations: Transformations
    vocabulary: KnownWords


def read_treebank(store: Store) -> Treebank | None:
    """Return the fixed treebank settings of a store. None before its first trees."""
    settled = store.treebank()
    return None if settled is None else _decoded(settled)


def _decoded(settled: dict[str, object]) -> Treebank:
    transformations, known_words = settled["transformations"], settled["known"]
    assert isinstance(transformations, dict)
    assert isinstance(known_words, list)
    return Treebank(Transformations(**transformations), KnownWords(frozenset(known_words)))


def ingest_open(
    store: Store,
    opened: OpenTreebank,
    transformations: Transformations | None = None,
    corpus: str = DEFAULT_CORPUS,
    report: Callable[[IngestReport], None] | None = None,
) -> IngestReport:
    """Store the trees and packed forests of an open file.

    If `transformations` is None, use the store's settings or the defaults.

    The whole input is in memory because its words must be counted first. Raises `WrongKindError` if the store does not
    take trees, `UsageError` if `transformations` differs from the store's settings, and `InputError` if the input is
    damaged or its rejections exceed the limit.
    """
    transformations, _ = _check_transformations(store, transformations)
    treebank, file = opened.treebank, opened.file

    def chunks() -> Generator[ValidatedChunk, None, None]:
        read = list(reading.sentences(opened, transformations, store.settings().max_tokens))
        rejected = Counter(text.reason for text in read if isinstance(text, RejectedLine))
        treebank.limits.check_rejected(file.name, len(read), rejected)
        sentences = (text.parse.words for text in read if isinstance(text, ParsedSentence))
        vocabulary = _fix_known_words(store, transformations, find_known_words(sentences, transformations.rare).known)
        stored = 0

        def share() -> int:
            nonlocal stored
            stored = min(stored + LINES_PER_CHUNK, len(read))
            return int(stored / max(len(read), 1) * file.bytes_read)

        yield from reading.chunks(iter(read), vocabulary, DuplicateCounter(), share)

    header = InputHeader(file.name, treebank.format, file.size)
    return store_chunks(store, corpus, header, treebank.limits, chunks(), report)


def ingest_trees_in_sandbox(
    store: Store,
    child: WorkerProcess,
    treebank: TreebankFile,
    corpus: str = DEFAULT_CORPUS,
    report: Callable[[IngestReport], None] | None = None,
    wait: Callable[[], None] = lambda: None,
) -> IngestReport:
    """Store the trees of an untrusted file, which the child reads (twice if it is a store's first)."""
    transformations, settled = _check_transformations(store, None)
    longest = store.settings().max_tokens
    if settled is None:
        with closing(
            child.run(wait, reading.read_known_words_in_sandbox, treebank, transformations, longest)
        ) as known_words:
            settled = _fix_known_words(store, transformations, next(known_words))
            # The second `next` lets the child finish normally.
            next(known_words, None)
    with closing(child.run(wait, reading.read_in_sandbox, treebank, transformations, longest, settled)) as messages:
        header = next(messages)
        assert isinstance(header, InputHeader)
        chunks = cast("Generator[ValidatedChunk, None, None]", messages)
        return store_chunks(store, corpus, header, treebank.limits, chunks, report)


def _check_transformations(
    store: Store, transformations: Transformations | None
) -> tuple[Transformations, KnownWords | None]:
    """Return a store's transformations and known words (None before its first trees). Raises `UsageError`."""
    check_input_kind(store, PARSES)
    before = read_treebank(store)
    if before is None:
        return transformations or Transformations(), None
    _check_settled(store, before, transformations or before.transformations)
    return before.transformations, before.vocabulary


def _fix_known_words(store: Store, transformations: Transformations, words: Iterable[str]) -> KnownWords:
    """Fix the known words of a store, unless they are fixed already, and return the fixed words."""
    settled = _decoded(store.fix_treebank({"transformations": asdict(transformations), "known": sorted(words)}))
    _check_settled(store, settled, transformations)
    return settled.vocabulary


def _check_settled(store: Store, settled: Treebank, transformations: Transformations) -> None:
    if settled.transformations != transformations:
        fixed, requested = asdict(settled.transformations), asdict(transformations)
        differing = [name for name in fixed if fixed[name] != requested[name]]
        had, asked = (" ".join(f"{name}={plain[name]}" for name in differing) for plain in (fixed, requested))
        raise UsageError(f"{store.url}: trees are transformed with {had}, which cannot be changed, got {asked}")
