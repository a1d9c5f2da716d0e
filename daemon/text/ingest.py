"""Ingest: store an input's lines as pairs or as rejected lines, a few chunks per transaction."""

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import repeat
from typing import cast

from hierogram.daemon.exceptions import WrongKindError
from hierogram.daemon.files import printable
from hierogram.daemon.prefetch import prefetch
from hierogram.daemon.text.inspection import Note
from hierogram.daemon.text.lines import InputLimits
from hierogram.daemon.text.pair_files import PairInput
from hierogram.daemon.text.reading import STORE_DEFAULTS, IngestOptions, InputHeader, ValidatedChunk, read_validated
from hierogram.daemon.text.vocabulary_notes import VocabularyNotes
from hierogram.samplers.grammar.kinds import PAIRS, PARSES, find_grammar_kind
from hierogram.storage.exceptions import StoreError
from hierogram.storage.pairs.ingest import Receipt
from hierogram.storage.records.pairs import IngestTotals, RejectedLine
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store

_ADVICE = {
    PAIRS: "ingest pairs (`hierogram ingest`), or create another store for trees (`hierogram init --kind trees`)",
    PARSES: "ingest trees (`hierogram ingest --trees`, or a file in the spool), or create another store for pairs",
}


def check_input_kind(store: Store, input_kind: str) -> Settings:
    """Return a store's settings. Raises `WrongKindError` if it does not take `input_kind`."""
    settings = store.settings()
    grammar_kind = find_grammar_kind(settings.grammar)
    if grammar_kind.input_kind != input_kind:
        problem = grammar_kind.cannot(f"ingest {input_kind}")
        raise WrongKindError(f"{store.url}: {problem}: {_ADVICE[grammar_kind.input_kind]}")
    return settings


DEFAULT_CORPUS = "default"
_SHOWN_REJECTIONS = 10


@dataclass(slots=True)
class IngestReport:
    """Progress or result of an ingest, with compressed sizes in bytes (`bytes_total` None if unknown)."""

    batch: int
    corpus: str
    origin: str
    format: str
    lines: int = 0
    totals: IngestTotals = field(default_factory=IngestTotals)
    reasons: Counter[str] = field(default_factory=Counter)
    first_rejected: list[RejectedLine] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    seconds: float = 0.0
    bytes_read: int = 0
    bytes_total: int | None = None


def _count_reasons(rejected: Iterable[RejectedLine]) -> Counter[str]:
    return Counter(reason for run in rejected for reason in repeat(run.reason, run.lines))


class IngestBatch:
    """Input being stored: call `store` for each chunk, then `finish` or `fail`. `report` has the progress."""

    def __init__(self, store: Store, corpus: str, origin: str, format: str, limits: InputLimits) -> None:
        self._store = store
        self._limits = limits
        self._last_rejected: RejectedLine | None = None
        self._started = time.perf_counter()
        self._vocabulary_notes = VocabularyNotes(store)
        self._text_notes: tuple[Note, ...] = ()
        self.report = IngestReport(store.begin_ingest(corpus, origin, format), corpus, origin, format)

    def store(
        self, chunk: ValidatedChunk, receipt: Callable[[IngestTotals, list[RejectedLine]], Receipt] | None = None
    ) -> tuple[IngestTotals, list[RejectedLine]]:
        """Store a chunk in one transaction. Returns its totals, and the rejected lines, merged into runs.

        The rejected lines include the lines that the store rejects. `receipt` receives the same values, and returns the
        record of the HTTP request, which is written in the same transaction. Raises `TooManyRejectedError` before the
        chunk is stored if too many lines of the input are malformed, or afterwards if the store rejects too many.
        """
        reasons = _count_reasons(chunk.rejected)
        lines = self.report.lines + len(chunk.pairs) + reasons.total()
        self._limits.check_rejected(self.report.origin, lines, self.report.reasons + reasons)
        rejected, last = chunk.rejected, self._last_rejected
        if rejected and last and last.last_line + 1 == rejected[0].line and last.reason == rejected[0].reason:
            # Mark the first run as a continuation of the last stored run, so that a run across chunks counts as one.
            first = rejected[0]._replace(message=last.message, content=last.content, earlier=last.earlier + last.lines)
            rejected = [first, *rejected[1:]]
        self._vocabulary_notes.inspect(chunk.pairs)
        self._text_notes = chunk.notes
        totals, rejected = self._store.add_pairs(self.report.batch, chunk.pairs, rejected, receipt, chunk.learned)
        if rejected:
            self._last_rejected = rejected[-1]
        report, first_rejected = self.report, self.report.first_rejected
        report.totals += totals
        report.lines += totals.accepted + totals.duplicates + totals.rejected
        report.reasons += _count_reasons(rejected)
        for run in rejected:
            if run.earlier and first_rejected and first_rejected[-1].last_line + 1 == run.line:
                first_rejected[-1] = first_rejected[-1]._replace(lines=first_rejected[-1].lines + run.lines)
            elif len(first_rejected) < _SHOWN_REJECTIONS:
                first_rejected.append(run)
        self._limits.check_rejected(report.origin, report.lines, report.reasons)
        return totals, rejected

    def notes(self) -> list[Note]:
        """Return the notes on the lines stored so far."""
        return [*self._text_notes, *self._vocabulary_notes.collect()]

    def finish(self, receipt: Receipt | None = None) -> IngestReport:
        """Close the batch as done, and return the complete report."""
        self.report.notes = self.notes()
        if not self.report.lines and receipt is None:
            # A request with a receipt may repeat an earlier one without adding lines.
            self.report.notes.append(Note("empty-input", "no lines to store"))
        self._store.finish_ingest(self.report.batch, receipt=receipt, notes=[*map(str, self.report.notes)])
        self.report.seconds = time.perf_counter() - self._started
        return self.report

    def fail(self, reason: str) -> None:
        """Close the batch as failed. Does nothing if the store is unavailable."""
        with suppress(StoreError):
            self._store.finish_ingest(self.report.batch, reason, notes=[*map(str, self.notes())])


def ingest(
    store: Store,
    source: PairInput,
    corpus: str = DEFAULT_CORPUS,
    report: Callable[[IngestReport], None] | None = None,
    options: IngestOptions = STORE_DEFAULTS,
) -> IngestReport:
    """Store the pairs of an input. Stored pairs are skipped, and malformed lines are rejected.

    `report` gets the progress after each transaction.
    Raises `InputError` if the input is damaged or too many lines are rejected. Earlier chunks then remain stored, the
    batch is marked as failed, and a second ingest of the repaired input adds only the missing pairs. Raises
    `WrongKindError` if the store takes trees, and `UsageError` if the languages differ from the store's.
    """
    messages = read_validated(source, check_input_kind(store, PAIRS), options)
    # Read ahead only in files: reading a stream may block, and an interrupt must not wait for it.
    messages = messages if source.bytes_total is None else prefetch(messages)
    return store_input(store, corpus, options.limits, messages, report)


def store_input(
    store: Store,
    corpus: str,
    limits: InputLimits,
    messages: Generator[InputHeader | ValidatedChunk, None, None],
    report: Callable[[IngestReport], None] | None,
) -> IngestReport:
    """Store an input as a batch. `messages` yields its header, then its chunks, and is closed at the end."""
    with closing(messages):
        header = cast(InputHeader, next(messages))
        batch = IngestBatch(store, corpus, header.origin, header.format, limits)
        batch.report.bytes_total = header.bytes_total
        try:
            for chunk in cast("Iterator[ValidatedChunk]", messages):
                batch.store(chunk)
                batch.report.bytes_read = chunk.bytes_read
                if report:
                    report(batch.report)
        except BaseException as error:
            batch.fail(printable(str(error)) or type(error).__name__)
            raise
        return batch.finish()
