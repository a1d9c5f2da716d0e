"""Align new pairs given the aligner's counts, re-align earlier pairs, and apply human links."""

import pickle
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from hierogram.daemon.learning.alignment.aligning import INCREMENTAL_OPTIONS, AlignedCorpus, align_sides, corpus_options
from hierogram.daemon.learning.alignment.options import AlignOptions
from hierogram.daemon.learning.kinds.kind import Chain, StoredSamples
from hierogram.daemon.learning.learner import ResidentBatch
from hierogram.daemon.learning.lease import holding_lease
from hierogram.daemon.learning.stored_links import (
    LinkedTexts,
    LinksByDirection,
    add_link_counts,
    check_alignments,
    decode_stored_links,
    load_counts,
)
from hierogram.daemon.memory import trim_malloc
from hierogram.daemon.progress import Steps
from hierogram.samplers.alignment.options import AlignerOptions
from hierogram.samplers.alignment.prior_counts import PriorCounts, PriorsByUnit, add_counts, subtract_counts
from hierogram.samplers.grammar.columns import empty_blobs
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.records.aligner import AlignerChange, LinkCorrection, LinkRow, PairAlignment, PairLinks, PairSize
from hierogram.storage.records.columns import PairUpdates, RuleDeltas, join_deltas
from hierogram.storage.records.pairs import UNALIGNED, WAITING, PairRow, parse_links
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store

MIN_MATERIAL_CHANGE = 0.1
"""Share of all old and new links above which added and removed links require a new derivation."""

MIN_ARRIVED_SHARE = 0.25
"""Share of pairs that were aligned only once, on arrival, above which pairs are re-aligned."""

_SWEEP_ON_ARRIVAL, _SWEEP_IN_BATCH = 1, 2
"""Initial sweep number of a new pair.
`_SWEEP_ON_ARRIVAL`: aligned with few sweeps, given the counts of many other pairs. `_SWEEP_IN_BATCH`: aligned with all
sweeps, so it counts as re-aligned.
"""
_CELLS_PER_BATCH = 30_000_000
"""Maximum number of cells of a batch with several pairs. A pair has as many cells as possible links."""
_BATCHES_PER_ROUND, _PAIRS_PER_ROUND = 32, 1_000_000
_PAIRS_PER_COMMIT = 8_192
_STORED_DECIMALS = 2
"""Decimals of stored link probabilities, whose calibration error is at least 0.02."""
_SEED_STEP = 1_000_003
"""Factor between the parts of a batch's seed: seed of the store, first pair, sweep."""
_REALIGNMENT_OPTIONS: dict[str, Any] = {"sweeps": 6, "burn_in": 2, "chains": 3, "warming": 0, "thinning": 1}
"""Options for re-aligning pairs from their current links, given the counts of many other pairs."""


@dataclass(frozen=True, slots=True)
class RealignedPairs:
    """Pairs with new alignments, and so new forests: with their old and with their initial derivations."""

    before: ResidentBatch
    after: ResidentBatch

    @classmethod
    def from_rows(cls, rows: Sequence[PairRow], alignments: Mapping[int, str], settings: Settings) -> "RealignedPairs":
        """Load pairs that have derivations, once as stored and once with new `alignments` (lines by pair id)."""
        restarted: dict[str, Any] = {"state": WAITING, "stage": 0, "sweep": 0, "current": None, "averages": None}
        new_rows = [row._replace(alignment=alignments[row.id], restarts=row.restarts + 1, **restarted) for row in rows]
        return cls(ResidentBatch.from_rows(list(rows), settings), ResidentBatch.from_rows(new_rows, settings))

    def updates(self) -> PairUpdates:
        """Return the updates that store the new derivations, without averages and before the first sweep."""
        size = len(self.before.rows)
        return PairUpdates(
            ids=self.before.ids,
            states=self.after.loaded.encode(self.after.state),
            averages=empty_blobs(size),
            burned_in=np.zeros(size, np.bool_),
            stages=np.ones(size, np.int64),
            sweeps=np.zeros(size, np.int64),
            expected_sweeps=self.before.committed_sweeps,
        )

    def deltas(self) -> RuleDeltas:
        """Return the changes of rule counts from the old derivations and averages to the new derivations."""
        loaded = self.after.loaded
        initial_samples = StoredSamples(self.after.state, empty_blobs(loaded.batch.size))
        return join_deltas([self.before.removal_deltas(), loaded.rule_deltas(None, initial_samples)])

    def apply_to(self, chain: Chain) -> None:
        """Replace the old derivations by the new ones in the counts of a chain, after the commit."""
        chain.change_counts(self.before.loaded, self.before.state, -1)
        chain.change_counts(self.after.loaded, self.after.state, 1)


@dataclass(frozen=True, slots=True)
class RealignReport:
    """Re-aligned batch: numbers of pairs and changed alignments, and changed pairs with derivations."""

    pairs: int
    changed: int
    rebuilt: RealignedPairs | None


@dataclass(frozen=True, slots=True)
class AlignReport:
    """Numbers of new pairs, input alignments, re-aligned pairs and changed alignments, and the duration."""

    pairs: int
    trained: int
    realigned: int
    changed: int
    seconds: float


class IncrementalAligner:
    """Aligner of the pairs in a store. The caller must hold the lease.

    Input alignments are kept and train the aligner. A round aligns one or more batches of pairs. Each batch uses the
    counts from before the round, without the old links of this batch. A round of several batches has no more pairs than
    there are linked pairs outside the round.
    """

    def __init__(self, store: Store, threads: int | None = None) -> None:
        self._store = store
        self._threads = threads
        self._trained_up_to = 0

    def align_new(self, limit: int = _PAIRS_PER_ROUND, report: Steps | None = None, max_batches: int = 1) -> int:
        """Align and commit up to `limit` new pairs in up to `max_batches` batches. Returns their number."""
        pairs = self._store.unaligned_pairs(limit)
        if not pairs:
            return 0
        self.train()
        linked = self._store.count_pairs() - self._store.count_pairs([UNALIGNED])
        batches = _make_batches(pairs, linked, max_batches, realign=False)
        for changes in self._align_batches(align_new_batch, batches, report):
            for change in changes:
                self._store.commit_alignments(change)
        return sum(map(len, batches))

    def train(self) -> int:
        """Count the links of uncounted input alignments. Returns their number. Raises `DamagedPairsError`."""
        number = 0
        while rows := self._store.uncounted_alignments(self._trained_up_to, _PAIRS_PER_COMMIT):
            check_alignments(rows)
            texts = LinkedTexts.from_rows(rows)
            links = texts.parse_alignments([row.alignment for row in rows])
            change = AlignerChange(links=_make_pair_links(rows, texts, links, swept=False))
            add_link_counts(change, texts.counts(links), texts.units)
            self._store.commit_alignments(change)
            self._trained_up_to = rows[-1].id
            number += len(rows)
        return number

    def needs_realignment(self) -> bool:
        """Check if more than `MIN_ARRIVED_SHARE` of the pairs were aligned only once, on arrival."""
        stalest = self._store.stalest_alignments(1)
        if not stalest or stalest[0].sweep != _SWEEP_ON_ARRIVAL:
            return False
        return self._store.count_pairs_at_sweep(_SWEEP_ON_ARRIVAL) > MIN_ARRIVED_SHARE * self._store.count_pairs()

    def realign_stale(
        self, limit: int = _PAIRS_PER_ROUND, report: Steps | None = None, max_batches: int = 1
    ) -> list[RealignReport]:
        """Re-align and commit the least often aligned pairs. A learner must apply `RealignReport.rebuilt`."""
        pairs = self._store.stalest_alignments(limit)
        linked = self._store.count_pairs() - self._store.count_pairs([UNALIGNED])
        batches = _make_batches(pairs, linked, max_batches, realign=True)
        reports = []
        for batch, [change] in zip(batches, self._align_batches(realign_batch, batches, report), strict=True):
            changed = {alignment.id: alignment.alignment for alignment in change.alignments}
            rebuilt = _commit(self._store, change, changed)
            reports.append(RealignReport(len(batch), len(changed), rebuilt))
        return reports

    def _align_batches(
        self, align: Callable[..., list[AlignerChange]], batches: Sequence[list[int]], report: Steps | None
    ) -> Iterator[list[AlignerChange]]:
        """Align all batches before yielding a result, because the caller changes the counts after each."""
        pairs = sum(map(len, batches))

        def report_part(number: int, done: int, total: int) -> None:
            if report is not None:
                report(pairs * (number * total + done) // max(len(batches) * total, 1), pairs)

        results = (
            align(self._store, batch, self._threads, partial(report_part, number))
            for number, batch in enumerate(batches)
        )
        return results if len(batches) == 1 else _spool_results(results)


def _make_batches(pairs: Sequence[PairSize], linked: int, max_batches: int, realign: bool) -> list[list[int]]:
    """Split the first pairs into batches of ids. If `realign`, the `linked` pairs include `pairs`."""
    ends = np.cumsum([pair.cells for pair in pairs])
    batches: list[list[int]] = []
    first = 0
    while first < len(pairs) and len(batches) < min(max_batches, _BATCHES_PER_ROUND):
        before = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, before + _CELLS_PER_BATCH, side="right")), first + 1)
        if batches and last > linked - realign * last:
            break
        batches.append([pair.id for pair in pairs[first:last]])
        first = last
    return batches


def _spool_results(results: Iterable[list[AlignerChange]]) -> Iterator[list[AlignerChange]]:
    """Store all results in a temporary file, and yield them when the last result is complete."""
    with tempfile.TemporaryFile() as file:
        number = 0
        for result in results:
            pickle.dump(result, file, pickle.HIGHEST_PROTOCOL)
            number += 1
        file.seek(0)
        for _ in range(number):
            yield pickle.load(file)


def align_new_batch(
    store: Store, ids: Sequence[int], threads: int | None = None, report: Steps | None = None
) -> list[AlignerChange]:
    """Align new pairs given the store's counts. Returns a change per `_PAIRS_PER_COMMIT` pairs."""
    rows = store.pairs_by_id(ids)
    texts = LinkedTexts.from_rows(rows)
    prior = load_counts(store, texts.units)
    options = _batch_options(store.settings(), rows[0].id, 0, texts, prior)
    # Read the versions before the links, so that a correction added in between is applied later.
    corrected = {row.id: row.version for row in store.corrections_by_pair(ids)}
    known = _known_links(store, rows) if corrected else None
    links, aligned = align_sides(texts.units, options, threads, report, prior=prior, known=known)
    alignments = _make_alignments(rows, aligned)
    sweep = _SWEEP_ON_ARRIVAL if _is_prior_sufficient(texts, prior) else _SWEEP_IN_BATCH
    encoded = texts.encode_links(links)
    pair_links = [PairLinks(row.id, *both, sweep, None) for row, both in zip(rows, encoded, strict=True)]
    changes = []
    for first in range(0, len(rows), _PAIRS_PER_COMMIT):
        chunk = slice(first, first + _PAIRS_PER_COMMIT)
        weight = np.zeros(len(rows), np.int64)
        weight[chunk] = 1
        change = AlignerChange(alignments=alignments[chunk], links=pair_links[chunk])
        change.applied_corrections = [(row.id, corrected[row.id]) for row in rows[chunk] if row.id in corrected]
        add_link_counts(change, texts.counts(links, weight), texts.units)
        changes.append(change)
    return changes


def realign_batch(
    store: Store, ids: Sequence[int], threads: int | None, report: Steps | None = None, *, corrected: bool = False
) -> list[AlignerChange]:
    """Re-align pairs. Returns one change: all links, and materially changed (`corrected`: all) alignments."""
    by_id = {row.id: row for row in store.links_by_id(ids)}
    rows = [by_id[pair_id] for pair_id in ids if pair_id in by_id]
    if not rows:
        return [AlignerChange()]
    texts = LinkedTexts.from_rows(rows)
    before = decode_stored_links(rows)
    own_counts = texts.counts(before)
    prior = _map_counts(subtract_counts, load_counts(store, texts.units), own_counts)
    options = _batch_options(store.settings(), rows[0].id, rows[0].sweep or 0, texts, prior, linked=not corrected)
    links, aligned = align_sides(
        texts.units, options, threads, report, prior=prior,
        links=None if corrected or not _is_prior_sufficient(texts, prior) else before,
        known=_known_links(store, rows),
    )  # fmt: skip
    alignments = _make_alignments(rows, aligned)
    if not corrected:
        old = {row.id: row.alignment for row in rows}
        alignments = [new for new in alignments if is_material_change(old[new.id], new.alignment)]
    change = AlignerChange(alignments=alignments, links=_make_pair_links(rows, texts, links))
    add_link_counts(change, _map_counts(_difference, texts.counts(links), own_counts), texts.units)
    return [change]


def _make_alignments(rows: Sequence[PairRow | LinkRow], aligned: AlignedCorpus) -> list[PairAlignment]:
    texts = aligned.lines_and_scores(_STORED_DECIMALS)
    return [PairAlignment(row.id, *line_and_scores) for row, line_and_scores in zip(rows, texts, strict=True)]


def _known_links(store: Store, rows: Sequence[PairRow | LinkRow]) -> dict[int, KnownLinks]:
    known = store.human_links([row.id for row in rows])
    return {index: known[row.id] for index, row in enumerate(rows) if row.id in known}


def align_pending(store: Store, threads: int | None = None, report: Steps | None = None) -> AlignReport:
    """Align unaligned pairs, and re-align pairs if many were only aligned on arrival. Takes the lease."""
    started = time.perf_counter()
    with holding_lease(store, "hierogram learn"):
        total = store.count_pairs([UNALIGNED])
        aligner = IncrementalAligner(store, threads)
        trained = aligner.train() if total else 0
        pairs = realigned = changed = 0

        def report_done(done: int, _pairs: int) -> None:
            if report is not None:
                report(min(pairs + done, total), total)

        while number := aligner.align_new(report=report_done, max_batches=_BATCHES_PER_ROUND):
            pairs += number
        while aligner.needs_realignment():
            for report_of_batch in aligner.realign_stale(max_batches=_BATCHES_PER_ROUND):
                realigned += report_of_batch.pairs
                changed += report_of_batch.changed
    # Return freed memory to the system, because sampling needs memory next.
    trim_malloc()
    return AlignReport(pairs, trained, realigned, changed, time.perf_counter() - started)


def is_material_change(old: str, new: str) -> bool:
    """Check if the difference between two alignments (Pharaoh lines) requires a new derivation."""
    before, after = set(old.split(" ")), set(new.split(" "))
    return len(before ^ after) > MIN_MATERIAL_CHANGE * len(before | after)


def _make_pair_links(
    rows: Sequence[LinkRow], texts: LinkedTexts, links: LinksByDirection, *, swept: bool = True
) -> list[PairLinks]:
    """Return the links as rows of the store. With `swept`, each sweep number increases by 1."""
    return [
        PairLinks(row.id, *both, (row.sweep or 0) + swept, row.sweep)
        for row, both in zip(rows, texts.encode_links(links), strict=True)
    ]


_difference = partial(add_counts, sign=-1)
"""Difference of two counts, the first minus the second. It may be negative, unlike `subtract_counts`."""


def _map_counts(combine: Callable[..., PriorCounts], first: PriorsByUnit, second: PriorsByUnit) -> PriorsByUnit:
    return [[combine(a, b) for a, b in zip(*both, strict=True)] for both in zip(first, second, strict=True)]


def _is_prior_sufficient(texts: LinkedTexts, prior: PriorsByUnit) -> bool:
    """Check if the prior has, in each direction, at least as many jumps as the shorter side has words."""
    words = min(len(texts.source.words), len(texts.target.words))
    return min(int(counts.jumps.sum()) for counts in prior[0]) >= words


def _batch_options(
    settings: Settings, first: int, sweep: int, texts: LinkedTexts, prior: PriorsByUnit, *, linked: bool = False
) -> AlignerOptions:
    request = AlignOptions(settings.aligner, seed=(settings.seed * _SEED_STEP + first) * _SEED_STEP + sweep)
    pairs = len(texts.source.offset) - 1
    options = corpus_options(request, pairs)
    if _is_prior_sufficient(texts, prior):
        return replace(options, **(_REALIGNMENT_OPTIONS if linked else INCREMENTAL_OPTIONS))
    return options


def _commit(store: Store, change: AlignerChange, changed: Mapping[int, str]) -> RealignedPairs | None:
    """Store a change and restart pairs with `changed` alignments (by id). Returns them, None without any."""
    derived = [row for row in store.pairs_by_id(list(changed)) if row.current is not None]
    if not derived:
        store.commit_alignments(change)
        return None
    rebuilt = RealignedPairs.from_rows(derived, changed, store.settings())
    store.commit_alignments(change, rebuilt.updates(), rebuilt.deltas())
    return rebuilt


MAX_CORRECTIONS = 200
"""Maximum number of corrections that are applied together."""


def apply_corrections(
    store: Store, pending: Sequence[LinkCorrection], threads: int | None = None
) -> list[RealignedPairs]:
    """Apply human links to input alignments, or re-align pairs without an input alignment.

    Returns the pairs whose derivations restarted. A learner in memory must apply them to its counts, see
    `RealignedPairs.apply_to`.
    """
    results = []
    for has_input in (True, False):
        corrections = [correction for correction in pending if (correction.input_alignment is not None) == has_input]
        if not corrections:
            continue
        ids = [correction.id for correction in corrections]
        if has_input:
            change = _restore_inputs(store, corrections)
        else:
            [change] = realign_batch(store, ids, threads, corrected=True)
        change.applied_corrections = [(correction.id, correction.version) for correction in corrections]
        stored = {row.id: row.alignment for row in store.pairs_by_id(ids)}
        new_alignments = {row.id: row.alignment for row in (*change.corrected_inputs, *change.alignments)}
        changed = {pair_id: line for pair_id, line in new_alignments.items() if stored.get(pair_id, line) != line}
        rebuilt = _commit(store, change, changed)
        if rebuilt is not None:
            results.append(rebuilt)
    return results


def _restore_inputs(store: Store, corrections: Sequence[LinkCorrection]) -> AlignerChange:
    """Return a change with the input alignment of each pair, corrected by its human links."""
    ids = [correction.id for correction in corrections]
    known, rows = store.human_links(ids), store.links_by_id(ids)
    lines: dict[int, str] = {}
    for correction in corrections:
        links = known.get(correction.id, KnownLinks()).impose(parse_links(correction.input_alignment or ""))
        lines[correction.id] = " ".join(f"{s}-{t}" for s, t in links)
    change = AlignerChange(corrected_inputs=[PairAlignment(pair_id, line) for pair_id, line in lines.items()])
    if rows:
        texts = LinkedTexts.from_rows(rows)
        both = texts.parse_alignments([lines[row.id] for row in rows])
        change.links = _make_pair_links(rows, texts, both, swept=False)
        before = texts.counts(decode_stored_links(rows))
        add_link_counts(change, _map_counts(_difference, texts.counts(both), before), texts.units)
    return change


def apply_pending_corrections(store: Store, threads: int | None = None) -> int:
    """Apply all pending human links, without an open `Learner`. Returns the number of pairs."""
    if not store.pending_corrections(1):
        return 0
    number = 0
    with holding_lease(store, "hierogram links"):
        while pending := store.pending_corrections(MAX_CORRECTIONS):
            apply_corrections(store, pending, threads)
            number += len(pending)
    return number
