"""Ingest: store an input's lines as pairs or as rejected lines, a few chunks per transaction."""

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import islice, repeat
from math import log
from threading import Lock
from typing import cast
from unicodedata import is_normalized

from hierogram.daemon.exceptions import WrongKindError
from hierogram.daemon.files import printable
from hierogram.daemon.prefetch import prefetch
from hierogram.daemon.text.inspection import Note
from hierogram.daemon.text.lines import InputLimits
from hierogram.daemon.text.reading import (
    STORE_DEFAULTS,
    IngestOptions,
    InputHeader,
    PairInput,
    ValidatedChunk,
    read_validated,
)
from hierogram.samplers.grammar.kinds import PAIRS, PARSES, SOURCE, TARGET, find_grammar_kind
from hierogram.storage.exceptions import StoreError
from hierogram.storage.pairs.ingest import Receipt
from hierogram.storage.records.pairs import IngestTotals, NewPairs, RejectedLine
from hierogram.storage.records.parts import join_parts
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store

_ADVICE = {
    PAIRS: "ingest pairs (`hierogram ingest`), or create another store for trees (`hierogram init --kind trees`)",
    PARSES: "ingest trees (`hierogram ingest --trees`, or a file in the spool), or create another store for pairs",
}


def check_input_kind(store: Store, input_kind: str) -> Settings:
    """Return a store's settings. Raises `WrongKindError` if the store does not take `input_kind`."""
    settings = store.settings()
    grammar_kind = find_grammar_kind(settings.grammar)
    if grammar_kind.input_kind != input_kind:
        problem = grammar_kind.cannot(f"ingest {input_kind}")
        raise WrongKindError(f"{store.url}: {problem}: {_ADVICE[grammar_kind.input_kind]}")
    return settings


DEFAULT_CORPUS = "default"
_SHOWN_REJECTIONS = 10
_MAX_NON_NFC_WORDS = 1_000
"""Number of words per side after which the search for words outside NFC ends."""
_MAX_COUNTED_PAIRS = 2_000
"""Maximum number of pairs read to detect swapped sides in a store of word parts."""


@dataclass(slots=True)
class IngestReport:
    """Progress or result of an ingest. `bytes_total` is the size of the input, None if unknown."""

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
    """Input being stored, a few chunks per transaction. `report` counts the lines stored so far."""

    def __init__(self, store: Store, corpus: str, origin: str, format: str, limits: InputLimits) -> None:
        self._store = store
        self._limits = limits
        self._last_rejected: RejectedLine | None = None
        self._started = time.perf_counter()
        self._vocabulary_notes = _VocabularyNotes(store)
        self._text_notes: tuple[Note, ...] = ()
        self.report = IngestReport(store.begin_ingest(corpus, origin, format), corpus, origin, format)

    def store(
        self, chunk: ValidatedChunk, receipt: Callable[[IngestTotals, list[RejectedLine]], Receipt] | None = None
    ) -> tuple[IngestTotals, list[RejectedLine]]:
        """Store lines. Returns their totals and the rejected lines, merged into runs.

        `receipt` receives the same values and returns the record of the HTTP request, which is written in the same
        transaction. Raises `TooManyRejectedError` before the lines are stored if too many are malformed, or afterwards
        if the store rejects too many.
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
        """Close the batch as done."""
        self.report.notes = self.notes()
        if not self.report.lines and receipt is None:
            # A request with a receipt may repeat an earlier one without adding lines.
            self.report.notes.append(Note("empty-input", "no lines to store"))
        self._store.finish_ingest(self.report.batch, receipt=receipt, notes=[*map(str, self.report.notes)])
        self.report.seconds = time.perf_counter() - self._started
        return self.report

    def fail(self, reason: str) -> None:
        """Close the batch as failed, if the store is still available."""
        with suppress(StoreError):
            self._store.finish_ingest(self.report.batch, reason, notes=[*map(str, self.notes())])


_PAIRS_PER_READ = 5_000
_WORD_ODDS = 3.0
"""Maximum absolute contribution of a word to the log-odds."""


class WordSideCounts:
    """Word counts by side. With word parts, only the first `max_pairs` pairs are counted. Thread-safe.

    Words are not split into parts, because parts would indicate the side that is split, regardless of the language.
    """

    def __init__(self, store: Store, max_pairs: int) -> None:
        self._store = store
        self._max_pairs = max_pairs
        self._lock = Lock()
        self._read = self._last = 0
        self._counts: dict[str, Counter[str]] = {SOURCE: Counter(), TARGET: Counter()}

    def odds(self, words: Iterable[str]) -> tuple[float, int]:
        """Return the log-odds that words belong to the source side, and the number of distinct known words."""
        distinct_words = list(dict.fromkeys(words))
        counts: Mapping[str, Mapping[str, int]]
        counts = self._read_pairs() if self._store.settings().word_parts else self._store.word_counts(distinct_words)
        log_odds, known = 0.0, 0
        for word in distinct_words:
            source, target = counts[SOURCE].get(word, 0), counts[TARGET].get(word, 0)
            log_odds += max(-_WORD_ODDS, min(_WORD_ODDS, log((source + 0.5) / (target + 0.5))))
            known += source + target > 0
        return log_odds, known

    def _read_pairs(self) -> dict[str, Counter[str]]:
        with self._lock:
            while self._read < self._max_pairs:
                pair_texts = self._store.pair_texts(self._last, min(_PAIRS_PER_READ, self._max_pairs - self._read))
                if not pair_texts:
                    break
                for side, texts in zip((SOURCE, TARGET), list(zip(*pair_texts, strict=True))[1:], strict=True):
                    self._counts[side].update(join_parts(" ".join(texts)).split(" "))
                self._read += len(pair_texts)
                self._last = pair_texts[-1][0]
            return self._counts


_SWAPPED_ODDS = 6.0
"""Minimum log-odds that a text belongs to the other side."""
_SWAPPED_ODDS_PER_WORD = 1.0
"""Minimum log-odds per known word."""
_MAX_SIDE_WORDS = 1_000
"""Maximum number of distinct words per side that are looked up in the store."""


def _are_swapped(words: WordSideCounts, sources: Sequence[str], targets: Sequence[str]) -> bool:
    """Check if the words of both sides are more frequent on the opposite side of the store."""
    for texts, sign in ((sources, -1), (targets, 1)):
        log_odds, known = words.odds(islice(dict.fromkeys(join_parts(" ".join(texts)).split(" ")), _MAX_SIDE_WORDS))
        if sign * log_odds < max(_SWAPPED_ODDS, _SWAPPED_ODDS_PER_WORD * known):
            return False
    return True


class _VocabularyNotes:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._swapped = False
        self._non_nfc: dict[str, dict[str, None]] | None = None
        """Words that are not in NFC, by side. None before the first pairs."""

    def inspect(self, pairs: NewPairs) -> None:
        texts = {SOURCE: pairs.sources, TARGET: pairs.targets}
        if self._non_nfc is None and len(pairs):
            # Skip the trees of a treebank, because they are not words.
            self._non_nfc = {side: {} for side in find_grammar_kind(self._store.settings().grammar).pair_words}
            if len(self._non_nfc) == len(texts):
                words = WordSideCounts(self._store, _MAX_COUNTED_PAIRS)
                self._swapped = _are_swapped(words, pairs.sources, pairs.targets)
        for side, odd in (self._non_nfc or {}).items():
            for text in texts[side]:
                if len(odd) < _MAX_NON_NFC_WORDS and not is_normalized("NFC", text):
                    odd |= {word: None for word in text.split(" ") if not is_normalized("NFC", word)}

    def collect(self) -> Iterator[Note]:
        if self._swapped:
            reason = "the source words of the input are more frequent on the target side of the store"
            advice = "withdraw the input (hierogram withdraw --origin NAME) and ingest it with the sides exchanged"
            seen = f"the sides seem to be swapped: {reason}, and the target words on its source side"
            yield Note("swapped-sides", f"{seen}; {advice}")
        odd = [word for words in (self._non_nfc or {}).values() for word in words]
        if odd:
            text = f"{len(odd):,} {'word is' if len(odd) == 1 else 'words are'} not in Unicode form NFC"
            yield Note("not-nfc", f"{text}, such as {odd[0]!a}: convert the text (uconv -x nfc)")


def ingest(
    store: Store,
    source: PairInput,
    corpus: str = DEFAULT_CORPUS,
    report: Callable[[IngestReport], None] | None = None,
    options: IngestOptions = STORE_DEFAULTS,
) -> IngestReport:
    """Store the pairs of an input. Stored pairs are skipped, and malformed lines are rejected.

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
