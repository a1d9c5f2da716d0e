"""Alignment of a store's pairs: new pairs are aligned given the aligner's counts, earlier pairs are re-aligned.

Pairs are also re-aligned if users change their fixed or forbidden links.
"""

import pickle
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hierogram.daemon.learning.alignment.aligning import (
    AlignedCorpus,
    align_sides,
    corpus_options,
    incremental_options,
    split_directions,
)
from hierogram.daemon.learning.alignment.requests import AlignOptions
from hierogram.daemon.learning.kinds.pairs import read_links
from hierogram.daemon.learning.learner import holding_lease
from hierogram.daemon.learning.residents import RealignedPairs
from hierogram.daemon.learning.stored_links import (
    LinkedTexts,
    Links,
    NamedCounts,
    add_link_counts,
    check_alignments,
    read_blobs,
    unit_names,
    words_and_stems,
)
from hierogram.daemon.memory import trim_malloc
from hierogram.daemon.progress import Steps
from hierogram.samplers.alignment.options import AlignerOptions
from hierogram.samplers.alignment.prior_counts import BothCounts, LearnedCounts, PriorCounts, subtract_counts
from hierogram.samplers.alignment.symmetrization import LinkList
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.records.aligner import AlignerChange, LinkCorrection, LinkRow, PairAlignment, PairLinks, PairSize
from hierogram.storage.records.pairs import UNALIGNED, PairRow, parse_links
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store

MIN_MATERIAL_CHANGE = 0.1
"""A change of an alignment is material if more than this share of old and new links differs."""

MIN_ARRIVED_SHARE = 0.25
"""Pairs are re-aligned once more than this share of all pairs has only been aligned on arrival."""

_SWEEP_ON_ARRIVAL, _SWEEP_IN_BATCH = 1, 2
"""Initial sweep number of a pair that is aligned given many known pairs, and of a pair aligned with few or no known
pairs. The latter counts as re-aligned.
"""
_CELLS_PER_BATCH = 30_000_000
_MAX_BATCHES, _MAX_PAIRS = 32, 1_000_000
"""Limits of a round: number of batches and of pairs."""
_PAIRS_PER_COMMIT = 8_192
_STORED_DECIMALS = 2
"""Decimals of stored link probabilities: their calibration error is 0.02 or more."""
_SEED_STEP = 1_000_003


class AlignmentBatch(NamedTuple):
    """Pairs that are aligned together, by id, and their cells. `realign`: whether they already have links."""

    ids: list[int]
    cells: int
    realign: bool


class AlignedBatch(NamedTuple):
    """Result of aligning a batch: changes of the store, and the materially changed alignments by pair id."""

    changes: list[AlignerChange]
    changed: dict[int, str]


@dataclass(frozen=True, slots=True)
class RealignReport:
    """Re-aligned pairs: `changed` is the number of new alignments, `rebuilt` the pairs with derivations among these."""

    pairs: int
    changed: int
    rebuilt: RealignedPairs | None


@dataclass(frozen=True, slots=True)
class AlignReport:
    """Numbers of aligned, training and re-aligned pairs and of changed alignments; time in seconds."""

    pairs: int
    trained: int
    realigned: int
    changed: int
    seconds: float


class IncrementalAligner:
    """Aligner of a store's pairs. Only one may write to the store.

    Pairs with given alignments keep them and train the aligner. Threads align the batches. The batches of a round use
    the counts of all other pairs but not of each other, so the result does not depend on threads. Beyond its first
    batch, a round has no more pairs than the other pairs with links.
    """

    def __init__(self, store: Store, threads: int | None = None) -> None:
        self._store = store
        self._threads = threads
        self._trained_up_to = 0

    def align_new(self, limit: int | None = None, report: Steps | None = None, max_batches: int = 1) -> int:
        """Align up to `limit` pairs without an alignment, in up to `max_batches` batches; return their number."""
        pairs = self._store.unaligned_pairs(_MAX_PAIRS if limit is None else min(limit, _MAX_PAIRS))
        if not pairs:
            return 0
        self.train()
        others = self._store.count_pairs() - self._store.count_pairs([UNALIGNED])
        batches = _make_batches(pairs, others, max_batches, realign=False)
        for result in self._align_batches(batches, report):
            for change in result.changes:
                self._store.align(change)
        return sum(len(batch.ids) for batch in batches)

    def train(self) -> int:
        """Train the aligner on given alignments that it has not seen yet; return their number."""
        number = 0
        while rows := self._store.untrained_pairs(self._trained_up_to, _PAIRS_PER_COMMIT):
            check_alignments(rows)
            texts = LinkedTexts.from_rows(rows)
            input_links = LinkList(*read_links([row.alignment for row in rows]))
            links = split_directions(input_links, texts.source, texts.target)
            change = AlignerChange()
            change.links = [
                PairLinks(row.id, *blobs, 0, None) for row, blobs in zip(rows, texts.blobs(links), strict=True)
            ]
            add_link_counts(change, texts.counts(links, np.ones(len(rows), np.int64)), texts.source, texts.target)
            self._store.align(change)
            self._trained_up_to = rows[-1].id
            number += len(rows)
        return number

    def needs_realignment(self) -> bool:
        """Return True if many pairs were aligned only on arrival, so that all pairs must be realigned."""
        stalest = self._store.stalest_links(1)
        if not stalest or stalest[0].sweep != _SWEEP_ON_ARRIVAL:
            return False
        return self._store.count_links(_SWEEP_ON_ARRIVAL) > MIN_ARRIVED_SHARE * self._store.count_pairs()

    def realign_stale(
        self, limit: int | None = None, report: Steps | None = None, max_batches: int = 1
    ) -> list[RealignReport]:
        """Re-align up to `limit` aligned pairs, least often aligned first, in up to `max_batches` batches.

        The pairs start from their present links if the counts of other pairs suffice, else like new pairs.

        If an alignment changes materially, the pair's derivation restarts in the same transaction. A learner that holds
        the store's rules in memory must apply `rebuilt` to its table.
        """
        pairs = self._store.stalest_links(_MAX_PAIRS if limit is None else min(limit, _MAX_PAIRS))
        linked = self._store.count_pairs() - self._store.count_pairs([UNALIGNED])
        batches = _make_batches(pairs, linked, max_batches, realign=True) if pairs else []
        reports = []
        for batch, (changes, changed) in zip(batches, self._align_batches(batches, report), strict=True):
            [change] = changes
            rebuilt = _commit(self._store, change, self._store.pairs_by_id(list(changed)), changed)
            reports.append(RealignReport(len(batch.ids), len(changed), rebuilt))
        return reports

    def _align_batches(self, batches: Sequence[AlignmentBatch], report: Steps | None) -> Iterator[AlignedBatch]:
        """Align the batches.

        All batches are aligned before the first is yielded, since the caller commits each result.
        """
        pairs = sum(len(batch.ids) for batch in batches)

        def report_done(done: int, total: int) -> None:
            if report is not None:
                report(pairs * done // max(total, 1), pairs)

        results = (
            align_batch(self._store, batch, self._threads, _partial_progress(report_done, number, len(batches)))
            for number, batch in enumerate(batches)
        )
        return results if len(batches) == 1 else _spool_results(results)


def _make_batches(pairs: Sequence[PairSize], linked: int, max_batches: int, realign: bool) -> list[AlignmentBatch]:
    """Return the batches of a round: consecutive pairs from the first on, as many per batch as fit in memory.

    There are up to `max_batches` batches. Beyond the first one, the round has no more pairs than the other pairs that
    have links: `linked`, minus the pairs themselves if they are re-aligned.
    """
    ends = np.cumsum([pair.cells for pair in pairs])
    batches: list[AlignmentBatch] = []
    first = 0
    while first < len(pairs) and len(batches) < min(max_batches, _MAX_BATCHES):
        before = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, before + _CELLS_PER_BATCH, side="right")), first + 1)
        if batches and last > linked - realign * last:
            break
        batches.append(AlignmentBatch([pair.id for pair in pairs[first:last]], int(ends[last - 1]) - before, realign))
        first = last
    return batches


def _partial_progress(report: Steps, number: int, parts: int) -> Steps:
    """Return a progress callback for one of several equal parts, given the callback for the whole."""
    return lambda done, total: report(number * total + done, parts * total)


def _spool_results(results: Iterable[AlignedBatch]) -> Iterator[AlignedBatch]:
    """Yield all results after the last is complete. Until then they are stored in a temporary file."""
    with tempfile.TemporaryFile() as file:
        number = 0
        for result in results:
            pickle.dump(result, file, pickle.HIGHEST_PROTOCOL)
            number += 1
        file.seek(0)
        for _ in range(number):
            yield pickle.load(file)


def align_batch(
    store: Store,
    batch: AlignmentBatch,
    threads: int | None = None,
    report: Steps | None = None,
) -> AlignedBatch:
    """Align the pairs of a batch given the store's counts of all other pairs. Writes nothing."""

    def align(texts: LinkedTexts, options: AlignerOptions, **inputs: Any) -> tuple[Links, AlignedCorpus]:
        return align_sides(texts.source, texts.target, options, threads, report, **inputs)

    return (_realign if batch.realign else _align_first_time)(store, batch.ids, align)


_Align = Callable[..., tuple[Links, AlignedCorpus]]


def _align_first_time(store: Store, ids: Sequence[int], align: _Align) -> AlignedBatch:
    rows = store.pairs_by_id(ids)
    texts = LinkedTexts.from_rows(rows)
    prior = _prior(store, texts)
    options = _options(store.settings(), rows[0].id, 0, texts, prior)
    # Read the corrections before the links: corrections that arrive in between are handled later.
    corrected = {row.id: row.version for row in store.corrections_by_pair(ids)}
    known = _known_links(store, rows) if corrected else None
    direction_links, aligned = align(texts, options, prior=prior, known=known)
    alignments = _make_alignments(rows, aligned)
    links = _make_pair_links(
        rows, texts, direction_links, _SWEEP_ON_ARRIVAL if _is_prior_sufficient(texts, prior) else _SWEEP_IN_BATCH
    )
    changes = []
    # Each change has a few thousand pairs and their counts.
    for first in range(0, len(rows), _PAIRS_PER_COMMIT):
        chunk = slice(first, first + _PAIRS_PER_COMMIT)
        weight = np.zeros(len(rows), np.int64)
        weight[chunk] = 1
        change = AlignerChange(alignments[chunk], links[chunk])
        change.corrected = [(row.id, corrected[row.id]) for row in rows[chunk] if row.id in corrected]
        add_link_counts(change, texts.counts(direction_links, weight), texts.source, texts.target)
        changes.append(change)
    return AlignedBatch(changes, {})


def _realign(store: Store, ids: Sequence[int], align: _Align) -> AlignedBatch:
    by_id = {row.id: row for row in store.links_by_id(ids)}
    rows = [by_id[pair_id] for pair_id in ids]
    texts = LinkedTexts.from_rows(rows)
    before = read_blobs(rows)
    own_counts = texts.counts(before, np.ones(len(rows), np.int64))
    prior = _prior(store, texts, own_counts)
    options = _options(store.settings(), rows[0].id, rows[0].sweep or 0, texts, prior, linked=True)
    initial_links = before if _is_prior_sufficient(texts, prior) else None
    links, aligned = align(texts, options, prior=prior, links=initial_links, known=_known_links(store, rows))
    alignments = [
        alignment
        for row, alignment in zip(rows, _make_alignments(rows, aligned), strict=True)
        if is_material_change(row.alignment, alignment.alignment)
    ]
    change = AlignerChange(alignments, _make_pair_links(rows, texts, links))
    _replace_counts(change, texts, links, own_counts)
    return AlignedBatch([change], {alignment.id: alignment.alignment for alignment in alignments})


def _make_alignments(rows: Sequence[PairRow | LinkRow], aligned: AlignedCorpus) -> list[PairAlignment]:
    texts = aligned.lines_and_scores(_STORED_DECIMALS)
    return [PairAlignment(row.id, *line_and_scores) for row, line_and_scores in zip(rows, texts, strict=True)]


def _known_links(store: Store, rows: Sequence[PairRow | LinkRow]) -> dict[int, KnownLinks]:
    known = store.human_links([row.id for row in rows])
    return {index: known[row.id] for index, row in enumerate(rows) if row.id in known}


def align_pending(store: Store, threads: int | None = None, report: Steps | None = None) -> AlignReport:
    """Align all pairs without an alignment, and re-align others if many have arrived. No learner may run."""
    started = time.perf_counter()
    with holding_lease(store, "hierogram learn"):
        total = store.count_pairs([UNALIGNED])
        aligner = IncrementalAligner(store, threads)
        pairs = trained = realigned = changed = 0
        if total:
            trained = aligner.train()

        def report_done(done: int, _pairs: int) -> None:
            if report is not None:
                report(min(pairs + done, total), total)

        while number := aligner.align_new(report=report_done, max_batches=_MAX_BATCHES):
            pairs += number
        while aligner.needs_realignment():
            for report_of_batch in aligner.realign_stale(max_batches=_MAX_BATCHES):
                realigned += report_of_batch.pairs
                changed += report_of_batch.changed
    # Free memory for sampling.
    trim_malloc()
    return AlignReport(pairs, trained, realigned, changed, time.perf_counter() - started)


def is_material_change(old: str, new: str) -> bool:
    """Check if two alignments differ materially, so that the derivation must restart."""
    before, after = set(old.split(" ")), set(new.split(" "))
    return len(before ^ after) > MIN_MATERIAL_CHANGE * len(before | after)


def _make_pair_links(
    rows: Sequence[PairRow | LinkRow], texts: LinkedTexts, links: Links, sweep: int = _SWEEP_ON_ARRIVAL
) -> list[PairLinks]:
    """Return the links in the store's format, with sweep number `sweep`, or the previous number plus one."""
    pair_links = []
    for row, (forward, backward) in zip(rows, texts.blobs(links), strict=True):
        previous_sweep = row.sweep if isinstance(row, LinkRow) else None
        pair_links.append(
            PairLinks(
                row.id, forward, backward, sweep if previous_sweep is None else previous_sweep + 1, previous_sweep
            )
        )
    return pair_links


def _prior(store: Store, texts: LinkedTexts, excluded: LearnedCounts | None = None) -> LearnedCounts:
    """Return the store's aligner counts of the words and stems, without the counts of the pairs themselves (`own`)."""
    names = unit_names(*words_and_stems(texts.source, texts.target))
    stored_counts = NamedCounts(store.aligner_counts(*names)).select(names, store.vocabulary_sizes())
    return stored_counts if excluded is None else _map_counts(subtract_counts, stored_counts, excluded)


def _map_counts(
    change: Callable[[PriorCounts, PriorCounts], PriorCounts], first: LearnedCounts, second: LearnedCounts
) -> LearnedCounts:
    """Apply `change` to each pair of counts of `first` and `second`; return the results."""

    def map_both_directions(a: BothCounts, b: BothCounts) -> BothCounts:
        return change(a[0], b[0]), change(a[1], b[1])

    return map_both_directions(first[0], second[0]), map_both_directions(first[1], second[1])


def _is_prior_sufficient(texts: LinkedTexts, prior: LearnedCounts) -> bool:
    """Check if the store has at least as many counted jumps as the texts have words."""
    words = min(len(texts.source.words), len(texts.target.words))
    return min(int(counts.jumps.sum()) for counts in prior[0]) >= words


def _options(
    settings: Settings, first: int, sweep: int, texts: LinkedTexts, prior: LearnedCounts, *, linked: bool = False
) -> AlignerOptions:
    request = AlignOptions(settings.aligner, seed=(settings.seed * _SEED_STEP + first) * _SEED_STEP + sweep)
    pairs = len(texts.source.offset) - 1
    if _is_prior_sufficient(texts, prior):
        return incremental_options(pairs, request, linked=linked)
    return corpus_options(request, pairs)


def _replace_counts(change: AlignerChange, texts: LinkedTexts, links: Links, old: LearnedCounts) -> None:
    new = texts.counts(links, np.ones(len(texts.source.offset) - 1, np.int64))
    add_link_counts(change, _map_counts(_difference, new, old), texts.source, texts.target)


def _difference(new: PriorCounts, old: PriorCounts) -> PriorCounts:
    conditioning = np.concatenate([new.conditioning, old.conditioning])
    emitted = np.concatenate([new.emitted, old.emitted])
    keys, first_rows, key_rows = np.unique(
        conditioning.astype(np.int64) << 32 | emitted, return_index=True, return_inverse=True
    )
    count = np.zeros(len(keys), np.int64)
    np.add.at(count, key_rows, np.concatenate([new.counts, -old.counts]))
    nonzero = count != 0
    return PriorCounts(
        conditioning[first_rows][nonzero],
        emitted[first_rows][nonzero],
        count[nonzero],
        new.links - old.links,
        new.fertility - old.fertility,
        new.jumps - old.jumps,
        0,
    )


def _commit(
    store: Store, change: AlignerChange, rows: Sequence[PairRow], changed: Mapping[int, str]
) -> RealignedPairs | None:
    """Store a change and, in the same transaction, restart the derivations of the rows whose alignment is `changed`."""
    derived = [row for row in rows if row.current is not None and row.id in changed]
    if not derived:
        store.align(change)
        return None
    rebuilt = RealignedPairs.from_rows(derived, changed, store.settings())
    store.align(change, rebuilt.updates(), rebuilt.deltas())
    return rebuilt


PAIRS_AT_ONCE = 200


def apply_corrections(
    store: Store, pending: Sequence[LinkCorrection], threads: int | None = None
) -> list[RealignedPairs]:
    """Make the alignments of these pairs consistent with the current human links.

    Pairs with a given alignment get it back, with the human links applied. Other pairs are re-aligned given the counts
    of all other pairs. If an alignment changes, the derivation restarts in the same transaction, with new random
    streams. A learner that holds the store's rules in memory must apply the results to its table.
    """
    results = []
    for has_input_alignment in (True, False):
        corrections = [
            correction for correction in pending if (correction.input_alignment is not None) == has_input_alignment
        ]
        if not corrections:
            continue
        ids = [correction.id for correction in corrections]
        known, linked = store.human_links(ids), store.links_by_id(ids)
        change = AlignerChange()
        change.corrected = [(correction.id, correction.version) for correction in corrections]
        new_alignments: list[PairAlignment] = []
        for correction in corrections if has_input_alignment else ():
            links = parse_links(correction.input_alignment or "")
            corrected = known.get(correction.id, KnownLinks()).impose(links)
            new_alignments.append(PairAlignment(correction.id, " ".join(f"{s}-{t}" for s, t in corrected)))
        if linked:
            texts = LinkedTexts.from_rows(linked)
            own_counts = texts.counts(read_blobs(linked), np.ones(len(linked), np.int64))
            if has_input_alignment:
                lines = {alignment.id: alignment.alignment for alignment in new_alignments}
                alignments = LinkList(*read_links([lines[row.id] for row in linked]))
                direction_links = split_directions(alignments, texts.source, texts.target)
            else:
                prior = _prior(store, texts, own_counts)
                options = _options(store.settings(), linked[0].id, linked[0].sweep or 0, texts, prior)
                known_by_index = {index: known[row.id] for index, row in enumerate(linked) if row.id in known}
                direction_links, aligned = align_sides(
                    texts.source, texts.target, options, threads, prior=prior, known=known_by_index
                )
                new_alignments = _make_alignments(linked, aligned)
            _replace_counts(change, texts, direction_links, own_counts)
            change.links = [
                PairLinks(row.id, *blobs, (row.sweep or 0) + (not has_input_alignment), row.sweep)
                for row, blobs in zip(linked, texts.blobs(direction_links), strict=True)
            ]
        rows = store.pairs_by_id(ids)
        stored = {row.id: row.alignment for row in rows}
        changed = {pair_id: line for pair_id, line, _ in new_alignments if stored.get(pair_id, line) != line}
        if has_input_alignment:
            change.corrected_inputs = new_alignments
        else:
            change.alignments = new_alignments
        rebuilt = _commit(store, change, rows, changed)
        results += [rebuilt] if rebuilt is not None else []
    return results


def apply_pending_corrections(store: Store, threads: int | None = None) -> int:
    """Apply all pending corrections of a store that no learner holds; return the number of pairs."""
    number = 0
    if not store.pending_corrections(1):
        return number
    with holding_lease(store, "hierogram links"):
        while pending := store.pending_corrections(PAIRS_AT_ONCE):
            apply_corrections(store, pending, threads)
            number += len(pending)
    return number
