"""Trees and forests into a store: read, transformed, stored with their sentence; what is none is kept apart.

The first input settles two things for the store's life: how trees are transformed, and which words are known. All other
words become classes, in this input and in every later one, so that a tree offered again is the same tree.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from itertools import chain, islice
from typing import NamedTuple

from hierogram.daemon.corpora.ingest import DEFAULT_CORPUS, IngestProgress, IngestReport, reasons_of
from hierogram.daemon.corpora.kinds import check_takes
from hierogram.daemon.corpora.limits import DEFAULT_LIMITS, Limits
from hierogram.daemon.corpora.lines import LINES_A_CHUNK, LineFile, open_lines
from hierogram.daemon.corpora.recognition import check_trees
from hierogram.daemon.corpora.rejections import TOO_LONG, RejectionError
from hierogram.daemon.corpora.repeats import Repeats
from hierogram.daemon.corpora.validation import reject
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.treebanks.candidates import candidate_lists, candidates
from hierogram.daemon.treebanks.forests import cleaned_forest, is_forest, packed, read_forest, transformed_forest
from hierogram.daemon.treebanks.reading import TreeText, decoded_tree, tree_texts
from hierogram.daemon.treebanks.transformations import Transformations, cleaned, transformed
from hierogram.daemon.treebanks.trees import Tree
from hierogram.daemon.treebanks.unknown_words import Vocabulary, vocabulary_of_sentences
from hierogram.samplers.exceptions import ForestTooLargeError
from hierogram.samplers.grammar.brackets import Parse, check_size, write_parse
from hierogram.samplers.grammar.kinds import PARSES
from hierogram.storage.exceptions import StoreError
from hierogram.storage.pairs.rejections import in_runs
from hierogram.storage.records import NewPairs, RejectedLine
from hierogram.storage.store import Store

FORMAT = "trees"
LISTS = "nbest"


class _Read(NamedTuple):
    """A sentence of the input with its transformed tree or forest, and the line where it begins."""

    line: int
    parse: Parse


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


class TreebankFile(NamedTuple):
    """A file of trees and packed forests, or `-`; with `lists`, of n-best lists, each of which becomes a forest."""

    path: str
    lists: bool = False
    limits: Limits = DEFAULT_LIMITS

    @property
    def format(self) -> str:
        """The name of what the file holds."""
        return LISTS if self.lists else FORMAT


class OpenTreebank(NamedTuple):
    """A file of trees that is open: its lines in chunks, the first of which have been looked at."""

    treebank: TreebankFile
    file: LineFile
    chunks: Iterator[list[bytes]]


@contextmanager
def open_treebank(treebank: TreebankFile) -> Iterator[OpenTreebank]:
    """Opens a file; raises `InputError` where it cannot be read, or begins with lines of another kind."""
    with open_lines(treebank.path, treebank.limits) as file:
        chunks = file.chunks()
        first = list(islice(chunks, 1))
        check_trees(first[0] if first else [], file.name)
        yield OpenTreebank(treebank, file, chain(first, chunks))


def ingest_trees(
    store: Store,
    treebank: TreebankFile,
    how: Transformations | None = None,
    corpus: str = DEFAULT_CORPUS,
    report: Callable[[IngestProgress], None] | None = None,
) -> IngestReport:
    """Store the trees and packed forests of a file; see `ingest_open`, and `open_treebank` for what else it raises."""
    with open_treebank(treebank) as opened:
        return ingest_open(store, opened, how, corpus, report)


def ingest_open(
    store: Store,
    opened: OpenTreebank,
    how: Transformations | None = None,
    corpus: str = DEFAULT_CORPUS,
    report: Callable[[IngestProgress], None] | None = None,
) -> IngestReport:
    """Store the trees and packed forests of an open file; `how` None takes what is settled, or the defaults.

    The whole input is in memory, since its words have to be counted first. Raises `WrongKindError` where the store
    takes no trees, `UsageError` where it was settled otherwise, and `InputError` where the input is damaged, or more of
    it is rejected than may be.
    """
    started = time.perf_counter()
    settings = store.settings()
    check_takes(store, PARSES)
    before = treebank_of(store)
    if before is not None and how is not None and how != before.how:
        raise UsageError(f"{store.url}: its trees are transformed by {before.how}, for its life, not by {how}")
    how = how or (before.how if before else Transformations())
    treebank, file = opened.treebank, opened.file
    batch = store.begin_ingest(corpus, file.name, treebank.format)
    result = IngestReport(batch, corpus, file.name, treebank.format)
    try:
        sentences, rejected = _read(opened, how, settings.max_tokens)
        reasons = reasons_of(rejected)
        treebank.limits.check_rejected(file.name, len(sentences) + reasons.total(), reasons)
        known = sorted(vocabulary_of_sentences((read.parse.words for read in sentences), how.rare).known)
        settled = _decoded(store.settle_treebank({"transformations": asdict(how), "known": known}))
        if settled.how != how:
            raise UsageError(f"{store.url}: its trees are transformed by {settled.how}, for its life, not by {how}")
        repeats = Repeats()
        try:
            for first in range(0, max(len(sentences), 1), LINES_A_CHUNK):
                pairs = _pairs(sentences[first : first + LINES_A_CHUNK], settled.vocabulary, repeats)
                # What could not be read goes with the first trees.
                kept = rejected if first == 0 else []
                added = store.add_pairs(batch, pairs, kept)
                result.add(added.totals, in_runs([*kept, *added.rejected]))
                if report:
                    share = (first + len(pairs)) / max(len(sentences), 1) * file.bytes_read
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


def _read(opened: OpenTreebank, how: Transformations, max_tokens: int) -> tuple[list[_Read], list[RejectedLine]]:
    """The sentences of a file, and what is none."""
    lists = opened.treebank.lists
    sentences: list[_Read] = []
    rejected: list[RejectedLine] = []
    for text in candidate_lists(opened.chunks) if lists else tree_texts(opened.chunks):
        try:
            parse = _of_list(text, how) if lists else _of_text(text.content, how)
            if len(parse.words) > max_tokens:
                raise RejectionError(
                    TOO_LONG,
                    f"the tree has {len(parse.words)} words, this store takes at most {max_tokens} "
                    "(`hierogram init --max-tokens`)",
                )
            check_size(parse)
            sentences.append(_Read(text.line, parse))
        except RejectionError as rejection:
            rejected.append(reject(text.line, rejection, text.content))
        except ForestTooLargeError as error:
            rejected.append(reject(text.line, RejectionError(TOO_LONG, f"the tree has {error}"), text.content))
    return sentences, rejected


def _of_text(content: bytes, how: Transformations) -> Parse:
    """The transformed tree or packed forest of a text; raises `RejectionError`."""
    if is_forest(content):
        return transformed_forest(cleaned_forest(read_forest(content), how), how)
    return packed([transformed(cleaned(decoded_tree(content), how), how)])


def _of_list(listed: TreeText, how: Transformations) -> Parse:
    """The packed forest of an n-best list; raises `RejectionError`."""
    trees: list[Tree] = []
    for text in candidates(listed):
        try:
            trees.append(transformed(cleaned(decoded_tree(text.content), how), how))
        except RejectionError as rejection:
            where = f"line {text.line}, tree {len(trees) + 1} of the list"
            raise RejectionError(rejection.reason, f"{where}: {rejection.message}") from rejection
    return packed(trees)


def _pairs(sentences: Sequence[_Read], vocabulary: Vocabulary, repeats: Repeats) -> NewPairs:
    words = [vocabulary.in_words(read.parse.words) for read in sentences]
    sources = [" ".join(known) for known in words]
    targets = [write_parse(Parse(known, read.parse.nodes)) for known, read in zip(words, sentences, strict=True)]
    alignments = [""] * len(sentences)
    return NewPairs(
        sources,
        targets,
        alignments,
        [len(read.parse.words) for read in sentences],
        [0] * len(sentences),
        [read.line for read in sentences],
        [None] * len(sentences),
        repeats.occurrences(sources, targets, alignments),
    )
