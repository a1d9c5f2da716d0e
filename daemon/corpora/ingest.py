"""Ingest: an input's lines become stored pairs or kept rejections, a chunk and a transaction at a time."""

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

from hierogram.daemon.corpora.inputs import Source
from hierogram.daemon.corpora.kinds import check_takes
from hierogram.daemon.corpora.limits import DEFAULT_LIMITS, Limits
from hierogram.daemon.corpora.repeats import Repeats
from hierogram.daemon.corpora.texts import Languages, looks_divided, looks_running, pipeline_of
from hierogram.daemon.corpora.validation import Fields, validate
from hierogram.daemon.exceptions import InputError
from hierogram.daemon.prefetch import ahead
from hierogram.samplers.grammar.kinds import PAIRS
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.exceptions import StoreError
from hierogram.storage.pairs.rejections import in_runs
from hierogram.storage.records import AddedPairs, IngestTotals, NewPairs, RejectedLine, join_pairs
from hierogram.storage.store import Receipt, Store

DEFAULT_CORPUS = "default"

CHUNKS_A_TRANSACTION = 4
"""What a transaction costs besides its pairs (words that are counted again, the disk) is shared by so many chunks."""

_SHOWN_REJECTIONS = 10


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """Where an ingest stands: lines read, and bytes read of the bytes that the files have (None: not known)."""

    lines: int
    totals: IngestTotals
    bytes_read: int
    bytes_total: int | None


@dataclass(slots=True)
class IngestReport:
    """What became of an input: totals, rejections by reason, and the first of them in full.

    `running`: whether most of its first lines look like text that is not divided into tokens, and are not to be
    divided; `divided`: whether they look like tokens already, and are divided again.
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

    def add(self, totals: IngestTotals, rejected: Sequence[RejectedLine]) -> None:
        """Enter a chunk."""
        self.totals += totals
        self.lines += totals.accepted + totals.duplicates + totals.rejected
        self.reasons += reasons_of(rejected)
        shown = self.first_rejected
        for run in rejected:
            if run.earlier and shown and shown[-1].last_line + 1 == run.line:
                shown[-1] = shown[-1]._replace(lines=shown[-1].lines + run.lines)
            elif len(shown) < _SHOWN_REJECTIONS:
                shown.append(run)


def reasons_of(rejected: Iterable[RejectedLine]) -> Counter[str]:
    """How many lines were rejected for each reason."""
    reasons: Counter[str] = Counter()
    for run in rejected:
        reasons[run.reason] += run.lines
    return reasons


@dataclass(frozen=True, slots=True)
class Entries:
    """How entries of a dictionary count: each as often as `weight` pairs like it; an entry of several words has its
    words linked by the aligner, or as a `block`, each with each.
    """

    weight: int = 1
    block: bool = False

    def of(self, pairs: NewPairs) -> NewPairs:
        """The pairs of such entries, each entry once and as often as it weighs."""
        places = [k for k in range(len(pairs)) if pairs.occurrences[k] == 0 for _ in range(self.weight)]
        found = pairs.at(places)
        copies = list(range(self.weight)) * (len(found) // self.weight)
        sizes = zip(found.source_lengths, found.target_lengths, strict=True)
        known = {
            k: KnownLinks(frozenset(product(range(height), range(width))))
            for k, (height, width) in enumerate(sizes)
            if self.block or height == width == 1
        }
        return replace(found, occurrences=copies, known=known)


@dataclass(frozen=True, slots=True)
class Handling:
    """How an input is taken in: its languages, those by whose rules it is divided into tokens, its bounds, and what its
    pairs count where they are entries of a dictionary.

    What is None is as the store has it.
    """

    languages: Languages | None = None
    tokenize: Languages | None = None
    limits: Limits = DEFAULT_LIMITS
    entries: Entries | None = None


AS_THE_STORE = Handling()
"""As the store has it, within the usual bounds."""


class Checked(NamedTuple):
    """Lines that make pairs, and those that make none."""

    pairs: NewPairs
    rejected: list[RejectedLine]


class Intake:
    """An input on its way into the store, some chunks and a transaction at a time.

    What was stored before is left alone, what is wrong is kept apart. `report` counts what has been stored so far.
    Raises `WrongKindError` where the store takes no pairs.
    """

    def __init__(self, store: Store, corpus: str, origin: str, format: str, handling: Handling = AS_THE_STORE) -> None:
        """Begins a batch; raises `UsageError` where the languages are not those of the store."""
        check_takes(store, PAIRS)
        settings = store.settings()
        self._pipeline = pipeline_of(settings, handling.languages, handling.tokenize)
        self._store = store
        self._limits = handling.limits
        self._entries = handling.entries
        self._max_tokens = settings.max_tokens
        self._repeats = Repeats()
        self._looked = False
        self._last_rejected: RejectedLine | None = None
        self._started = time.perf_counter()
        self.report = IngestReport(store.begin_ingest(corpus, origin, format), corpus, origin, format)

    def read(self, chunks: Iterable[Fields]) -> Checked:
        """What the chunks hold; an input's chunks are read in their order, each once."""
        pairs: list[NewPairs] = []
        rejected: list[RejectedLine] = []
        for fields in chunks:
            if not self._looked:
                self._looked = True
                self._look(fields)
            sound, wrong = validate(self._pipeline.prepared(fields), self._max_tokens, self._repeats)
            pairs.append(sound if self._entries is None else self._entries.of(sound))
            rejected += wrong
        return Checked(join_pairs(pairs), in_runs(rejected))

    def _look(self, fields: Fields) -> None:
        """Notes whether lines without links are running text on a side and stay it, or are tokens and are divided."""
        if self._entries is not None:
            return
        raw = [k for k, alignment in enumerate(fields.alignments) if alignment is None]
        looks = looks_running if self._pipeline.rules is None else looks_divided
        found = any(looks([side[k] for k in raw]) for side in (fields.sources, fields.targets))
        self.report.running, self.report.divided = found and looks is looks_running, found and looks is looks_divided

    def store(
        self, lines: Checked, receipt: Callable[[IngestTotals, list[RejectedLine]], Receipt] | None = None
    ) -> tuple[IngestTotals, list[RejectedLine]]:
        """Store lines; returns what became of them, and those that were rejected, in runs.

        `receipt` tells from the same what to record, in the same transaction, of the request that brought the lines.
        Raises `TooManyRejectedError` where more is rejected than may be: before these lines are stored if they cannot
        be read, after that if the store does not take them.
        """
        reasons = reasons_of(lines.rejected)
        self._check(self.report.lines + len(lines.pairs) + reasons.total(), self.report.reasons + reasons)
        rejected = self._continued(lines.rejected)

        def write(added: AddedPairs) -> Receipt:
            assert receipt is not None
            return receipt(added.totals, in_runs([*rejected, *added.rejected]))

        added = self._store.add_pairs(self.report.batch, lines.pairs, rejected, write if receipt else None)
        turned_down = in_runs([*rejected, *added.rejected])
        if turned_down:
            self._last_rejected = turned_down[-1]
        self.report.add(added.totals, turned_down)
        self._check(self.report.lines, self.report.reasons)
        return added.totals, turned_down

    def _check(self, lines: int, reasons: Counter[str]) -> None:
        self._limits.check_rejected(self.report.origin, lines, reasons)

    def _continued(self, rejected: list[RejectedLine]) -> list[RejectedLine]:
        """The runs, the first of which may go on with the last one that was stored."""
        last = self._last_rejected
        if not (rejected and last and last.last_line + 1 == rejected[0].line and last.reason == rejected[0].reason):
            return rejected
        first = rejected[0]._replace(message=last.message, content=last.content, earlier=last.earlier + last.lines)
        return [first, *rejected[1:]]

    def finish(self, receipt: Receipt | None = None) -> IngestReport:
        """Close the batch as done."""
        self._repeats.close()
        self._store.finish_ingest(self.report.batch, receipt=receipt)
        self.report.seconds = time.perf_counter() - self._started
        return self.report

    def fail(self, reason: str) -> None:
        """Close the batch as failed, if the store still answers."""
        self._repeats.close()
        with suppress(StoreError):
            self._store.finish_ingest(self.report.batch, reason)


def ingest(
    store: Store,
    source: Source,
    corpus: str = DEFAULT_CORPUS,
    report: Callable[[IngestProgress], None] | None = None,
    handling: Handling = AS_THE_STORE,
) -> IngestReport:
    """Store the input's pairs in the corpus; what was stored before is left alone, what is wrong is kept apart.

    A few chunks are one transaction; a file's next ones are read while it is written. Raises `InputError` where an
    input is damaged or more of it is rejected than may be: the chunks before are stored, the batch is marked as failed,
    and the same input offered again, once whole, adds only what is missing. Raises `UsageError` where its languages are
    not those of the store.
    """
    source.choose(pipeline_of(store.settings(), handling.languages, handling.tokenize).languages)
    intake = Intake(store, corpus, source.origin, source.format, handling)
    try:
        with closing(_checked(intake, source)) as checked:
            for lines in checked:
                intake.store(lines)
                if report:
                    done = intake.report
                    report(IngestProgress(done.lines, done.totals, source.bytes_read, source.bytes_total))
    except BaseException as error:
        intake.fail(str(error) or type(error).__name__)
        raise
    return intake.finish()


def _checked(intake: Intake, source: Source) -> Generator[Checked, None, None]:
    checked = map(intake.read, _several(source.fields))
    # A file's lines are there; those of a stream may be waited for, and an interrupt is not to wait for them.
    yield from checked if source.bytes_total is None else ahead(checked)


def _several(chunks: Iterable[Fields]) -> Iterator[list[Fields]]:
    """The chunks, as many together as go into one transaction; fewer in the end, and before the input fails."""
    gathered: list[Fields] = []
    try:
        for fields in chunks:
            gathered.append(fields)
            if len(gathered) == CHUNKS_A_TRANSACTION:
                yield gathered
                gathered = []
    except InputError:
        if gathered:
            yield gathered
        raise
    if gathered:
        yield gathered
