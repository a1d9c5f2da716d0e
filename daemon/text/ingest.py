"""Ingest: an input's lines become stored pairs or kept rejections, a chunk and a transaction at a time."""

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import cast

from hierogram.daemon.exceptions import WrongKindError
from hierogram.daemon.files import readable
from hierogram.daemon.prefetch import ahead
from hierogram.daemon.text.reading import (
    AS_THE_STORE,
    Beginning,
    Checks,
    IngestOptions,
    Source,
    ValidatedChunk,
    read_apart,
)
from hierogram.daemon.text.rejections import Limits
from hierogram.samplers.grammar.kinds import PAIRS, PARSES, notation_of
from hierogram.storage.child import Child
from hierogram.storage.exceptions import StoreError
from hierogram.storage.pairs.ingest import Receipt
from hierogram.storage.records import AddedPairs, IngestTotals, RejectedLine, in_runs
from hierogram.storage.store import Store

_HOW = {
    PAIRS: "offer pairs (`hierogram ingest`), or make another store for trees (`hierogram init --kind trees`)",
    PARSES: "offer trees (`hierogram ingest --trees`, or a file in the spool), or make another store for pairs",
}


def check_takes(store: Store, offered: str) -> None:
    """Raises `WrongKindError` where the store's kind of grammar takes something else."""
    notation = notation_of(store.settings().grammar)
    if notation.takes != offered:
        raise WrongKindError(f"{store.url}: {notation.cannot(f'take {offered}')}: {_HOW[notation.takes]}")


DEFAULT_CORPUS = "default"

_SHOWN_REJECTIONS = 10


@dataclass(slots=True)
class IngestReport:
    """The lines of an input so far: totals, rejections by reason, the first of them in full, and the bytes read.

    `bytes_total` are those of the input, None where that is not known; `running` and `divided` see `Checks`.
    """

    batch: int
    corpus: str
    origin: str
    format: str
    lines: int = 0
    totals: IngestTotals = field(default_factory=IngestTotals)
    reasons: Counter[str] = field(default_factory=Counter)
    first_rejected: list[RejectedLine] = field(default_factory=list)
    seconds: float = 0.0
    running: bool = False
    divided: bool = False
    bytes_read: int = 0
    bytes_total: int | None = None


def _reasons_of(rejected: Iterable[RejectedLine]) -> Counter[str]:
    reasons: Counter[str] = Counter()
    for run in rejected:
        reasons[run.reason] += run.lines
    return reasons


class Batch:
    """An input on its way into the store, some chunks and a transaction at a time.

    What was stored before is left alone, what is wrong is kept apart. `report` counts what has been stored so far.
    """

    def __init__(self, store: Store, corpus: str, origin: str, format: str, limits: Limits) -> None:
        self._store = store
        self._limits = limits
        self._last_rejected: RejectedLine | None = None
        self._started = time.perf_counter()
        self.report = IngestReport(store.begin_ingest(corpus, origin, format), corpus, origin, format)

    def store(
        self, chunk: ValidatedChunk, receipt: Callable[[IngestTotals, list[RejectedLine]], Receipt] | None = None
    ) -> tuple[IngestTotals, list[RejectedLine]]:
        """Store lines; returns what became of them, and those that were rejected, in runs.

        `receipt` tells from the same what to record, in the same transaction, of the request that brought the lines.
        Raises `TooManyRejectedError` where more is rejected than may be: before these lines are stored if they cannot
        be read, after that if the store does not take them.
        """
        reasons = _reasons_of(chunk.rejected)
        lines = self.report.lines + len(chunk.pairs) + reasons.total()
        self._limits.check_rejected(self.report.origin, lines, self.report.reasons + reasons)
        rejected = self._continued(chunk.rejected)

        def write(added: AddedPairs) -> Receipt:
            assert receipt is not None
            return receipt(added.totals, in_runs([*rejected, *added.rejected]))

        added = self._store.add_pairs(self.report.batch, chunk.pairs, rejected, write if receipt else None)
        turned_down = in_runs([*rejected, *added.rejected])
        if turned_down:
            self._last_rejected = turned_down[-1]
        report, shown = self.report, self.report.first_rejected
        report.totals += added.totals
        report.lines += added.totals.accepted + added.totals.duplicates + added.totals.rejected
        report.reasons += _reasons_of(turned_down)
        for run in turned_down:
            if run.earlier and shown and shown[-1].last_line + 1 == run.line:
                shown[-1] = shown[-1]._replace(lines=shown[-1].lines + run.lines)
            elif len(shown) < _SHOWN_REJECTIONS:
                shown.append(run)
        self._limits.check_rejected(report.origin, report.lines, report.reasons)
        return added.totals, turned_down

    def _continued(self, rejected: list[RejectedLine]) -> list[RejectedLine]:
        """The runs, the first of which may go on with the last one that was stored."""
        last = self._last_rejected
        if not (rejected and last and last.last_line + 1 == rejected[0].line and last.reason == rejected[0].reason):
            return rejected
        first = rejected[0]._replace(message=last.message, content=last.content, earlier=last.earlier + last.lines)
        return [first, *rejected[1:]]

    def finish(self, receipt: Receipt | None = None) -> IngestReport:
        """Close the batch as done."""
        self._store.finish_ingest(self.report.batch, receipt=receipt)
        self.report.seconds = time.perf_counter() - self._started
        return self.report

    def fail(self, reason: str) -> None:
        """Close the batch as failed, if the store still answers."""
        with suppress(StoreError):
            self._store.finish_ingest(self.report.batch, reason)


def ingest(
    store: Store,
    source: Source,
    corpus: str = DEFAULT_CORPUS,
    report: Callable[[IngestReport], None] | None = None,
    options: IngestOptions = AS_THE_STORE,
) -> IngestReport:
    """Store the input's pairs in the corpus; what was stored before is left alone, what is wrong is kept apart.

    A few chunks are one transaction; a file's next ones are read while it is written. Raises `InputError` where an
    input is damaged or more of it is rejected than may be: the chunks before are stored, the batch is marked as failed,
    and the same input offered again, once whole, adds only what is missing. Raises `UsageError` where its languages are
    not those of the store.
    """
    check_takes(store, PAIRS)
    checks = Checks(store.settings(), options)
    source.choose(checks.languages)
    begun = Beginning(source.origin, source.format, source.bytes_total)
    chunks = checks.chunks(source)
    # A file's lines are there; those of a stream may be waited for, and an interrupt is not to wait for them.
    chunks = chunks if begun.bytes_total is None else ahead(chunks)
    try:
        return store_chunks(Batch(store, corpus, begun.origin, begun.format, options.limits), begun, chunks, report)
    finally:
        checks.close()


def ingest_apart(
    store: Store,
    child: Child,
    paths: Sequence[str],
    corpus: str = DEFAULT_CORPUS,
    report: Callable[[IngestReport], None] | None = None,
    options: IngestOptions = AS_THE_STORE,
    wait: Callable[[], None] = lambda: None,
) -> IngestReport:
    """Store the pairs of files that strangers gave, which the child reads; see `ingest`, and `Child.run` for `wait`."""
    check_takes(store, PAIRS)
    with closing(child.run(wait, read_apart, paths, store.settings(), options)) as messages:
        begun = next(messages)
        assert isinstance(begun, Beginning)
        chunks = cast("Generator[ValidatedChunk, None, None]", messages)
        return store_chunks(Batch(store, corpus, begun.origin, begun.format, options.limits), begun, chunks, report)


def store_chunks(
    batch: Batch,
    begun: Beginning,
    chunks: Generator[ValidatedChunk, None, None],
    report: Callable[[IngestReport], None] | None = None,
) -> IngestReport:
    """Store the chunks of an input, each in a transaction, and close its batch; closes the chunks, too."""
    done = batch.report
    try:
        with closing(chunks):
            for chunk in chunks:
                done.running, done.divided = chunk.running, chunk.divided
                batch.store(chunk)
                done.bytes_read, done.bytes_total = chunk.bytes_read, begun.bytes_total
                if report:
                    report(done)
    except BaseException as error:
        batch.fail(readable(str(error)) or type(error).__name__)
        raise
    return batch.finish()
