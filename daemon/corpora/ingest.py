"""Ingest: an input's lines become stored pairs or kept rejections, a chunk and a transaction at a time."""

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from hierogram.daemon.corpora.formats import (
    BARS,
    JSONL,
    PARALLEL,
    TMX,
    bars,
    fields_of_lines,
    json_object,
    parallel_fields,
    recognise,
)
from hierogram.daemon.corpora.kinds import check_takes
from hierogram.daemon.corpora.limits import DEFAULT_LIMITS, Limits
from hierogram.daemon.corpora.lines import STANDARD_INPUT, LineFile, open_lines
from hierogram.daemon.corpora.repeats import Repeats
from hierogram.daemon.corpora.tokenizing import tokenized, tokenizer
from hierogram.daemon.corpora.validation import Fields, validate
from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.prefetch import ahead
from hierogram.samplers.grammar.kinds import PAIRS
from hierogram.storage.exceptions import StoreError
from hierogram.storage.pairs.rejections import in_runs
from hierogram.storage.records import AddedPairs, IngestTotals, NewPair, RejectedLine
from hierogram.storage.store import Receipt, Store

AUTO = "auto"
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
    """What became of an input: totals, rejections by reason, and the first of them in full."""

    batch: int
    corpus: str
    origin: str
    format: str
    lines: int = 0
    totals: IngestTotals = field(default_factory=IngestTotals)
    reasons: Counter[str] = field(default_factory=Counter)
    first_rejected: list[RejectedLine] = field(default_factory=list)
    seconds: float = 0.0

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


class Source(Protocol):
    """Where lines come from: what to call it, its format, its lines taken apart, and how far they are read."""

    @property
    def origin(self) -> str:
        """Its name, as rejected lines tell where they come from."""

    @property
    def format(self) -> str:
        """Its format."""

    @property
    def fields(self) -> Iterator[Fields]:
        """Its lines."""

    @property
    def bytes_read(self) -> int:
        """Bytes read so far."""

    @property
    def bytes_total(self) -> int | None:
        """Bytes in all; None where that is not known."""


class Input:
    """One to three open files in a known format; a context manager that closes them.

    Raises `InputError` where a file cannot be opened or its format cannot be told, `UsageError` where the number of
    files does not go with the format.
    """

    def __init__(
        self,
        paths: Sequence[str],
        format: str = AUTO,
        languages: tuple[str, str] | None = None,
        tokenize: tuple[str, str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """`languages` to take from a TMX memory; with `tokenize`, those in which raw text is divided into tokens."""
        if format == AUTO and len(paths) == 1 and _names_memory(paths[0]):
            format = TMX
        _check_paths(paths, format)
        tokenizers = (tokenizer(tokenize[0]), tokenizer(tokenize[1])) if tokenize else None
        with ExitStack() as stack:
            self._files = [stack.enter_context(open_lines(path, limits)) for path in paths]
            if format == TMX:
                self.format, self.fields = TMX, _units_of(self._files[0], languages)
            else:
                self.format, self.fields = _take_apart(self._files, format)
            if tokenizers is not None:
                self.fields = tokenized(self.fields, *tokenizers)
            self._close = stack.pop_all().close

    @property
    def origin(self) -> str:
        """The files' absolute names."""
        return " + ".join(file.name for file in self._files)

    @property
    def bytes_read(self) -> int:
        """Bytes read from all files so far."""
        return sum(file.bytes_read for file in self._files)

    @property
    def bytes_total(self) -> int | None:
        """Bytes of all files together; None where one has no known size."""
        sizes = [file.size for file in self._files]
        return None if None in sizes else sum(size or 0 for size in sizes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()


def _names_memory(path: str) -> bool:
    return path.lower().removesuffix(".gz").removesuffix(".zst").endswith(".tmx")


def _units_of(file: LineFile, languages: tuple[str, str] | None) -> Iterator[Fields]:
    # XML parsers are slow to load, and seldom needed.
    from hierogram.daemon.corpora.translation_memories import memory_fields

    return memory_fields(file.blocks(), file.name, languages)


def _take_apart(files: Sequence[LineFile], format: str) -> tuple[str, Iterator[Fields]]:
    """The format of the files, found out where it is not given, and their lines in it."""
    chunks = [file.chunks() for file in files]
    if len(chunks) > 1:
        return PARALLEL, parallel_fields(*chunks)
    beginning = list(islice(chunks[0], 1))
    if format == AUTO:
        # An empty file has no lines in any format.
        format = recognise(beginning[0], files[0].name) if beginning else BARS
    return format, fields_of_lines(chain(beginning, chunks[0]), bars if format == BARS else json_object)


def _check_paths(paths: Sequence[str], format: str) -> None:
    wanted = {AUTO: (1, 2, 3), PARALLEL: (2, 3), BARS: (1,), JSONL: (1,), TMX: (1,)}.get(format)
    if wanted is None:
        raise UsageError(f"--format {format}: there are {AUTO}, {PARALLEL}, {BARS}, {JSONL} and {TMX}")
    if len(paths) not in wanted:
        raise UsageError(
            f"{len(paths)} files given: ingest takes two or three, SOURCE TARGET [ALIGNMENT], or one in the format "
            "bars or jsonl"
            if format == AUTO
            else f"--format {format} takes {' or '.join(map(str, wanted))} file{'s' * (wanted[-1] > 1)}, "
            f"not {len(paths)}"
        )
    if list(paths).count(STANDARD_INPUT) > 1:
        raise UsageError("standard input (-) can be given once only")


class Checked(NamedTuple):
    """Lines that make pairs, and those that make none."""

    pairs: list[NewPair]
    rejected: list[RejectedLine]


class Intake:
    """An input on its way into the store, some chunks and a transaction at a time.

    What was stored before is left alone, what is wrong is kept apart. `report` counts what has been stored so far.
    Raises `WrongKindError` where the store takes no pairs.
    """

    def __init__(self, store: Store, corpus: str, origin: str, format: str, limits: Limits = DEFAULT_LIMITS) -> None:
        check_takes(store, PAIRS)
        self._store = store
        self._limits = limits
        self._max_tokens = store.settings().max_tokens
        self._repeats = Repeats()
        self._last_rejected: RejectedLine | None = None
        self._started = time.perf_counter()
        self.report = IngestReport(store.begin_ingest(corpus, origin, format), corpus, origin, format)

    def read(self, chunks: Iterable[Fields]) -> Checked:
        """What the chunks hold; an input's chunks are read in their order, each once."""
        pairs: list[NewPair] = []
        rejected: list[RejectedLine] = []
        for fields in chunks:
            sound, wrong = validate(fields, self._max_tokens, self._repeats)
            pairs += sound
            rejected += wrong
        return Checked(pairs, in_runs(rejected))

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
    limits: Limits = DEFAULT_LIMITS,
) -> IngestReport:
    """Store the input's pairs in the corpus; what was stored before is left alone, what is wrong is kept apart.

    A few chunks are one transaction; a file's next ones are read while it is written. Raises `InputError` where an
    input is damaged or more of it is rejected than may be: the chunks before are stored, the batch is marked as failed,
    and the same input offered again, once whole, adds only what is missing.
    """
    intake = Intake(store, corpus, source.origin, source.format, limits)
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
