"""Alignment of a store's pairs: of those that arrive without one, against the counts of its aligner, and again later.

Pairs are aligned again, too, where people have fixed or forbidden links of theirs, or have taken that back.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from hierogram.daemon.alignment.aligning import (
    Aligned,
    align_sides,
    both_ways,
    incremental_options,
    options_for,
)
from hierogram.daemon.alignment.requests import Request
from hierogram.daemon.learning.kinds.pairs import read_links
from hierogram.daemon.learning.learner import holding_lease
from hierogram.daemon.learning.residents import Rebuilt
from hierogram.daemon.memory import give_back
from hierogram.daemon.stored_links import LinkedTexts, Links, NamedCounts, enter_counts, names_of, read_blobs, units_of
from hierogram.samplers.alignment.options import AlignerOptions
from hierogram.samplers.alignment.prior_counts import BothCounts, LearnedCounts, PriorCounts, without
from hierogram.samplers.alignment.symmetrization import LinkList
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.records import (
    UNALIGNED,
    AlignerChange,
    Correction,
    LinkRow,
    PairAlignment,
    PairLinks,
    PairRow,
    Settings,
)
from hierogram.storage.store import Store

MATERIAL = 0.1
"""An alignment changes materially where so large a share of the links, old and new, is not in both."""

ARRIVED = 0.25
"""Pairs are aligned again once more than this share of them has only been aligned on arrival."""

_ON_ARRIVAL, _TOGETHER = 1, 2
"""How often the aligner has been over a pair that was new among many, and among few or none: then as often as those
that are aligned again."""
_CELLS_AT_ONCE = 30_000_000
_PAIRS_A_READ = 5_000
_PAIRS_A_COMMIT = 8_192
_SEED_STEP = 1_000_003

Report = Callable[[int, int], None]
_Rows = TypeVar("_Rows", PairRow, LinkRow)


@dataclass(frozen=True, slots=True)
class Rejuvenated:
    """Pairs that were aligned again: `changed` of them have another alignment, `rebuilt` those with a derivation."""

    pairs: int
    changed: int
    rebuilt: Rebuilt | None


@dataclass(frozen=True, slots=True)
class AlignReport:
    """New pairs that were aligned, pairs with given alignments that trained, pairs aligned again, and time."""

    pairs: int
    trained: int
    rejuvenated: int
    changed: int
    seconds: float


class IncrementalAligner:
    """The aligner of a store; one at a time may write to it.

    With `train`, pairs with given alignments keep them and train the aligner.
    """

    def __init__(self, store: Store, threads: int | None = None, train: bool = True) -> None:
        self._store = store
        self._threads = threads
        self._train = train
        self._trained_up_to = 0

    def align_new(self, limit: int | None = None, report: Report | None = None) -> int:
        """Align pairs that have no alignment, `limit` at most, as many as fit in memory; return their number.

        They go on to be sampled. `report` hears sweeps done and sweeps in all.
        """
        rows = self._next_unaligned(limit)
        if not rows:
            return 0
        if self._train:
            self.train()
        texts = LinkedTexts.of(rows)
        prior = _prior(self._store, texts)
        options = _options(self._store.settings(), rows[0].id, 0, texts, prior)
        # The changes are read before the links: those that come in between are seen to later.
        corrected = {row.id: row.asked for row in self._store.corrections_of([row.id for row in rows])}
        known = self._known(rows) if corrected else None
        links, aligned = align_sides(texts.source, texts.target, options, self._threads, report, prior, known=known)
        self._commit_new(rows, texts, links, aligned, corrected, _ON_ARRIVAL if _is_known(texts, prior) else _TOGETHER)
        return len(rows)

    def train(self) -> int:
        """Let the aligner learn from given alignments that it has not seen yet; return their number."""
        number = 0
        while rows := self._store.untrained_pairs(self._trained_up_to, _PAIRS_A_COMMIT):
            texts = LinkedTexts.of(rows)
            given = LinkList(*read_links([row.alignment for row in rows]))
            links = both_ways(given, texts.source, texts.target)
            change = AlignerChange()
            change.links = [
                PairLinks(row.id, *blobs, 0, None) for row, blobs in zip(rows, texts.blobs(links), strict=True)
            ]
            enter_counts(change, texts.counts(links, np.ones(len(rows), np.int64)), texts.source, texts.target)
            self._store.align(change)
            self._trained_up_to = rows[-1].id
            number += len(rows)
        return number

    def much_has_arrived(self) -> bool:
        """Return whether so many pairs have only been aligned on arrival that aligning pairs again is worth it."""
        stalest = self._store.stalest_links(1)
        if not stalest or stalest[0].sweep != _ON_ARRIVAL:
            return False
        return self._store.count_links(_ON_ARRIVAL) > ARRIVED * self._store.count_pairs()

    def rejuvenate(self, limit: int | None = None, report: Report | None = None) -> Rejuvenated:
        """Align pairs again that the aligner has aligned, those it has been over least often first, together.

        They are `limit` at most, and as many as fit in memory. Unless others know more, they begin as new pairs do.

        Where the alignment changes materially, the pair's derivation begins again in the same transaction. A learner
        that holds the store's rules in memory has to change its table as `rebuilt` says.
        """
        rows = _within(self._store.stalest_links(limit), _CELLS_AT_ONCE)
        if not rows:
            return Rejuvenated(0, 0, None)
        texts = LinkedTexts.of(rows)
        before = read_blobs(rows)
        own = texts.counts(before, np.ones(len(rows), np.int64))
        prior = _prior(self._store, texts, own)
        options = _options(self._store.settings(), rows[0].id, rows[0].sweep or 0, texts, prior, linked=True)
        starts = before if _is_known(texts, prior) else None
        links, aligned = align_sides(
            texts.source, texts.target, options, self._threads, report, prior, starts, self._known(rows)
        )
        changed = {
            row.id: line for row, line in zip(rows, aligned.lines(), strict=True) if is_material(row.alignment, line)
        }
        change = AlignerChange([PairAlignment(*item) for item in changed.items()])
        change.links = _links(rows, texts, links)
        _count_again(change, texts, links, own)
        rebuilt = _commit(self._store, change, self._store.pairs_by_id(list(changed)), changed)
        return Rejuvenated(len(rows), len(changed), rebuilt)

    def _next_unaligned(self, limit: int | None) -> list[PairRow]:
        rows: list[PairRow] = []
        wanted = limit
        while wanted is None or wanted > 0:
            size = _PAIRS_A_READ if wanted is None else min(wanted, _PAIRS_A_READ)
            after = rows[-1].id if rows else 0
            more = self._store.pairs(after_id=after, limit=size, states=[UNALIGNED])
            taken = _within([*rows, *more], _CELLS_AT_ONCE)
            if len(more) < size or len(taken) < len(rows) + len(more):
                return taken
            rows = taken
            wanted = None if wanted is None else wanted - len(more)
        return rows

    def _known(self, rows: Sequence[PairRow | LinkRow]) -> dict[int, KnownLinks]:
        """Return what people say of the rows' links, by their places."""
        known = self._store.human_links([row.id for row in rows])
        return {place: known[row.id] for place, row in enumerate(rows) if row.id in known}

    def _commit_new(
        self,
        rows: Sequence[PairRow],
        texts: LinkedTexts,
        both: Links,
        aligned: Aligned,
        corrected: Mapping[int, int],
        sweep: int,
    ) -> None:
        """Commit some thousand pairs at a time, each lot together with the counts that it causes."""
        lines = list(aligned.lines())
        links = _links(rows, texts, both, sweep)
        for first in range(0, len(rows), _PAIRS_A_COMMIT):
            lot = slice(first, first + _PAIRS_A_COMMIT)
            weight = np.zeros(len(rows), np.int64)
            weight[lot] = 1
            change = AlignerChange(
                [PairAlignment(row.id, line) for row, line in zip(rows[lot], lines[lot], strict=True)], links[lot]
            )
            change.corrected = [(row.id, corrected[row.id]) for row in rows[lot] if row.id in corrected]
            enter_counts(change, texts.counts(both, weight), texts.source, texts.target)
            self._store.align(change)


def align_pending(
    store: Store, threads: int | None = None, train: bool = True, report: Report | None = None
) -> AlignReport:
    """Align all pairs that have no alignment yet, and others again where many have arrived; not while a learner works.

    `report` hears pairs done and pairs in all. Raises `StoreHeldError` where another process writes the grammar.
    """
    started = time.perf_counter()
    with holding_lease(store, "hierogram learn"):
        total = store.count_pairs([UNALIGNED])
        aligner = IncrementalAligner(store, threads, train)
        pairs = trained = rejuvenated = changed = 0
        if total and train:
            trained = aligner.train()

        def hear(done: int, sweeps: int) -> None:
            if report is not None:
                report(min(pairs + (total - pairs) * done // max(sweeps, 1), total), total)

        while number := aligner.align_new(report=hear):
            pairs += number
        while aligner.much_has_arrived():
            again = aligner.rejuvenate()
            rejuvenated += again.pairs
            changed += again.changed
    # Sampling needs the memory next.
    give_back()
    return AlignReport(pairs, trained, rejuvenated, changed, time.perf_counter() - started)


def is_material(old: str, new: str) -> bool:
    """Return whether one alignment is so different from the other that a derivation has to begin again."""
    before, after = set(old.split(" ")), set(new.split(" "))
    return len(before ^ after) > MATERIAL * len(before | after)


def _within(rows: list[_Rows], cells: int) -> list[_Rows]:
    """Return the first rows that have at most this many cells together, one at least."""
    sizes = [(row.source.count(" ") + 1) * (row.target.count(" ") + 1) for row in rows]
    fitting = int(np.searchsorted(np.cumsum(sizes), cells, side="right"))
    return rows[: max(fitting, 1)]


def _links(
    rows: Sequence[PairRow | LinkRow], texts: LinkedTexts, links: Links, sweep: int = _ON_ARRIVAL
) -> list[PairLinks]:
    """Return the links as the store keeps them: gone over `sweep` times by now, or once more than before."""
    found = []
    for row, (forward, backward) in zip(rows, texts.blobs(links), strict=True):
        since = row.sweep if isinstance(row, LinkRow) else None
        found.append(PairLinks(row.id, forward, backward, sweep if since is None else since + 1, since))
    return found


def _seed(settings: Settings, first: int, sweep: int) -> int:
    return (settings.seed * _SEED_STEP + first) * _SEED_STEP + sweep


def _prior(store: Store, texts: LinkedTexts, own: LearnedCounts | None = None) -> LearnedCounts:
    """Return what the store's aligner counts of the words and stems, but for what the pairs themselves cause."""
    names = names_of(*units_of(texts.source, texts.target))
    known = NamedCounts(store.aligner_counts(*names)).of(names, store.vocabulary_sizes())
    return known if own is None else _each(without, known, own)


def _each(
    change: Callable[[PriorCounts, PriorCounts], PriorCounts], one: LearnedCounts, other: LearnedCounts
) -> LearnedCounts:
    """Return what changing each of one's counts by those of the other's gives."""

    def both(a: BothCounts, b: BothCounts) -> BothCounts:
        return change(a[0], b[0]), change(a[1], b[1])

    return both(one[0], other[0]), both(one[1], other[1])


def _is_known(texts: LinkedTexts, prior: LearnedCounts) -> bool:
    """Return whether more is known than is at hand; else the pairs at hand are as good as a corpus of their own."""
    words = min(len(texts.source.words), len(texts.target.words))
    return min(int(known.jumps.sum()) for known in prior[0]) >= words


def _options(
    settings: Settings, first: int, sweep: int, texts: LinkedTexts, prior: LearnedCounts, *, linked: bool = False
) -> AlignerOptions:
    request = Request(settings.aligner, seed=_seed(settings, first, sweep))
    pairs = len(texts.source.offset) - 1
    if _is_known(texts, prior):
        return incremental_options(pairs, request, linked=linked)
    return options_for(request, pairs)


def _count_again(change: AlignerChange, texts: LinkedTexts, links: Links, own: LearnedCounts) -> None:
    """Enter into a change by how much the pairs' counts differ from their own until now."""
    new = texts.counts(links, np.ones(len(texts.source.offset) - 1, np.int64))
    enter_counts(change, _each(_difference, new, own), texts.source, texts.target)


def _difference(new: PriorCounts, old: PriorCounts) -> PriorCounts:
    conditioning = np.concatenate([new.conditioning, old.conditioning])
    emitted = np.concatenate([new.emitted, old.emitted])
    keys, first, which = np.unique(
        conditioning.astype(np.int64) << 32 | emitted, return_index=True, return_inverse=True
    )
    count = np.zeros(len(keys), np.int64)
    np.add.at(count, which, np.concatenate([new.counts, -old.counts]))
    kept = count != 0
    return PriorCounts(
        conditioning[first][kept],
        emitted[first][kept],
        count[kept],
        new.links - old.links,
        new.fertility - old.fertility,
        new.jumps - old.jumps,
        0,
    )


def _commit(store: Store, change: AlignerChange, rows: Sequence[PairRow], changed: Mapping[int, str]) -> Rebuilt | None:
    """Store a change; the derivations of rows whose alignment is `changed` begin again in the same transaction."""
    derived = [row for row in rows if row.current is not None and row.id in changed]
    if not derived:
        store.align(change)
        return None
    rebuilt = Rebuilt.of(derived, changed, store.settings())
    store.align(change, rebuilt.updates(), rebuilt.deltas())
    return rebuilt


PAIRS_AT_ONCE = 200


def correct(store: Store, pending: Sequence[Correction], threads: int | None = None) -> list[Rebuilt]:
    """Make the alignments of these pairs keep to what people say of their links now.

    Pairs that came with an alignment get it back but for that; the others are aligned again by the counts of all other
    pairs. Where an alignment changes, the derivation begins again in the same transaction, with other random streams; a
    learner that holds the store's rules in memory has to change its table as the results say.
    """
    done = []
    for given in (True, False):
        some = [correction for correction in pending if (correction.given is not None) == given]
        if not some:
            continue
        ids = [correction.id for correction in some]
        known, linked = store.human_links(ids), store.links_by_id(ids)
        change = AlignerChange()
        change.corrected = [(correction.id, correction.asked) for correction in some]
        lines: dict[int, str] = {}
        for correction in some if given else ():
            links = [(int(s), int(t)) for s, _, t in (link.partition("-") for link in (correction.given or "").split())]
            kept = known.get(correction.id, KnownLinks()).kept(links)
            lines[correction.id] = " ".join(f"{s}-{t}" for s, t in kept)
        if linked:
            texts = LinkedTexts.of(linked)
            own = texts.counts(read_blobs(linked), np.ones(len(linked), np.int64))
            if given:
                alignments = LinkList(*read_links([lines[row.id] for row in linked]))
                both = both_ways(alignments, texts.source, texts.target)
            else:
                prior = _prior(store, texts, own)
                options = _options(store.settings(), linked[0].id, linked[0].sweep or 0, texts, prior)
                places = {place: known[row.id] for place, row in enumerate(linked) if row.id in known}
                both, aligned = align_sides(texts.source, texts.target, options, threads, prior=prior, known=places)
                lines = {row.id: line for row, line in zip(linked, aligned.lines(), strict=True)}
            _count_again(change, texts, both, own)
            change.links = [
                PairLinks(row.id, *blobs, (row.sweep or 0) + (not given), row.sweep)
                for row, blobs in zip(linked, texts.blobs(both), strict=True)
            ]
        rows = store.pairs_by_id(ids)
        changed = {row.id: lines[row.id] for row in rows if row.alignment != lines[row.id]}
        alignments_of = [PairAlignment(*item) for item in changed.items()]
        if given:
            change.given = alignments_of
        else:
            change.alignments = alignments_of
        rebuilt = _commit(store, change, rows, changed)
        done += [rebuilt] if rebuilt is not None else []
    return done


def correct_requested(store: Store, threads: int | None = None) -> int:
    """See to all corrections of a store that no learner holds; return the number of their pairs.

    Raises `StoreHeldError` where another process writes the grammar.
    """
    number = 0
    if not store.pending_corrections(1):
        return number
    with holding_lease(store, "hierogram links"):
        while pending := store.pending_corrections(PAIRS_AT_ONCE):
            correct(store, pending, threads)
            number += len(pending)
    return number
