"""Alignment of a store's pairs: of those that arrive without one, against the counts of its aligner, and again later.

Pairs are aligned again, too, where people have fixed or forbidden links of theirs, or have taken that back.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from hierogram.daemon.alignment.aligning import (
    Beside,
    BothWays,
    align_sides,
    both_ways,
    incremental_options,
    options_for,
    rejuvenation_options,
)
from hierogram.daemon.alignment.requests import Request
from hierogram.daemon.learning.kinds.pairs import read_links
from hierogram.daemon.learning.learner import holding_lease
from hierogram.daemon.learning.residents import Rebuilt
from hierogram.daemon.stored_links import LinkedTexts, Links, enter_counts, prior_counts_of, read_blobs
from hierogram.samplers.alignment.prior_counts import PriorCounts, without
from hierogram.samplers.alignment.symmetrization import LinkList
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.records import UNALIGNED, AlignerChange, Correction, LinkRow, PairAlignment, PairLinks, PairRow
from hierogram.storage.store import Store

MATERIAL = 0.1
"""An alignment changes materially where so large a share of the links, old and new, is not in both."""

_CELLS_AT_ONCE = 30_000_000
_PAIRS_A_READ = 5_000
_PAIRS_A_COMMIT = 8_192
_SEED_STEP = 1_000_003

Report = Callable[[int, int], None]
_Rows = TypeVar("_Rows", PairRow, LinkRow)


@dataclass(frozen=True, slots=True)
class Rejuvenated:
    """What going over pairs again did: `changed` of them have another alignment, `rebuilt` those with a derivation."""

    pairs: int
    changed: int
    rebuilt: Rebuilt | None


@dataclass(frozen=True, slots=True)
class AlignReport:
    """What aligning did: new pairs, pairs with given alignments that trained, pairs gone over again, and time."""

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
        self._model = store.settings().aligner
        self._trained_up_to = 0

    def align_new(self, limit: int | None = None, report: Report | None = None) -> int:
        """Align pairs that have no alignment, `limit` at most, as many as fit in memory; how many there were.

        They go on to be sampled. `report` hears sweeps done and sweeps in all.
        """
        rows = self._next_unaligned(limit)
        if not rows:
            return 0
        if self._train:
            self.train()
        texts = LinkedTexts.of(rows)
        prior = self._prior(texts)
        seed = self._seed(rows[0].id, 0)
        words = min(len(texts.source.words), len(texts.target.words))
        # Where less is known than is new, the new pairs are as good as a corpus of their own.
        if min(int(known.jumps.sum()) for known in prior) < words:
            options = options_for(Request(self._model, seed=seed), len(rows))
        else:
            options = incremental_options(len(rows), Request(self._model, seed=seed))
        # The changes are read before the links: those that come in between are seen to later.
        corrected = {row.id: row.asked for row in self._store.corrections_of([row.id for row in rows])}
        beside = Beside(prior, known=self._known(rows) if corrected else None)
        found = align_sides(texts.source, texts.target, options, self._threads, report, beside)
        self._commit_new(rows, texts, found, corrected)
        return len(rows)

    def train(self) -> int:
        """Let the aligner learn from given alignments that it has not seen yet; how many there were."""
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

    def rejuvenate(self, limit: int, report: Report | None = None, below: int | None = None) -> Rejuvenated:
        """Go over pairs again that the aligner has aligned, those longest ago first, `limit` at most.

        With `below`, only those that it has been over less often than that.

        Where the alignment changes materially, the pair's derivation is made anew in the same transaction. A learner
        that holds the store's rules in memory has to change its table as `rebuilt` says.
        """
        rows = _within(self._store.stalest_links(limit, below), _CELLS_AT_ONCE)
        if not rows:
            return Rejuvenated(0, 0, None)
        texts = LinkedTexts.of(rows)
        links = read_blobs(rows)
        own = texts.counts(links, np.ones(len(rows), np.int64))
        prior = self._prior(texts)
        beside = Beside((without(prior[0], own[0]), without(prior[1], own[1])), links, self._known(rows))
        seed = self._seed(rows[0].id, rows[0].sweep or 0)
        options = rejuvenation_options(len(rows), Request(self._model, seed=seed))
        found = align_sides(texts.source, texts.target, options, self._threads, report, beside)
        changed = {
            row.id: line
            for row, line in zip(rows, found.aligned.lines(), strict=True)
            if is_material(row.alignment, line)
        }
        change = AlignerChange([PairAlignment(*item) for item in changed.items()])
        change.links = _links(rows, texts, found)
        new = texts.counts((found.forward, found.backward), np.ones(len(rows), np.int64))
        difference = change_of_counts(new[0], own[0]), change_of_counts(new[1], own[1])
        enter_counts(change, difference, texts.source, texts.target)
        derived = [row for row in self._store.pairs_by_id(list(changed)) if row.current is not None]
        if not derived:
            self._store.align(change)
            return Rejuvenated(len(rows), len(changed), None)
        rebuilt = Rebuilt.of(derived, changed, self._store.settings())
        self._store.align(change, rebuilt.updates(), rebuilt.deltas())
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

    def _prior(self, texts: LinkedTexts) -> tuple[PriorCounts, PriorCounts]:
        counts = self._store.aligner_counts(texts.source.vocabulary, texts.target.vocabulary)
        return prior_counts_of(counts, texts.source, texts.target, self._store.vocabulary_sizes())

    def _known(self, rows: Sequence[PairRow | LinkRow]) -> dict[int, KnownLinks]:
        """What people say of the rows' links, by their places."""
        known = self._store.human_links([row.id for row in rows])
        return {place: known[row.id] for place, row in enumerate(rows) if row.id in known}

    def _commit_new(
        self, rows: Sequence[PairRow], texts: LinkedTexts, found: BothWays, corrected: Mapping[int, int]
    ) -> None:
        """Some thousand pairs at a time, each lot together with the counts that it causes."""
        lines = list(found.aligned.lines())
        links = _links(rows, texts, found)
        for first in range(0, len(rows), _PAIRS_A_COMMIT):
            lot = slice(first, first + _PAIRS_A_COMMIT)
            weight = np.zeros(len(rows), np.int64)
            weight[lot] = 1
            change = AlignerChange(
                [PairAlignment(row.id, line) for row, line in zip(rows[lot], lines[lot], strict=True)], links[lot]
            )
            change.corrected = [(row.id, corrected[row.id]) for row in rows[lot] if row.id in corrected]
            counts = texts.counts((found.forward, found.backward), weight)
            enter_counts(change, counts, texts.source, texts.target)
            self._store.align(change)

    def _seed(self, first: int, sweep: int) -> int:
        return (self._store.settings().seed * _SEED_STEP + first) * _SEED_STEP + sweep


def align_pending(
    store: Store, threads: int | None = None, train: bool = True, report: Report | None = None
) -> AlignReport:
    """Align all pairs that have no alignment yet, and go over as many others again; not while a learner is at work.

    `report` hears pairs done and pairs in all. Raises `StoreHeldError` where another process writes the grammar.
    """
    with holding_lease(store, "hierogram learn"):
        return _align_pending(store, threads, train, report)


def _align_pending(store: Store, threads: int | None, train: bool, report: Report | None) -> AlignReport:
    started = time.perf_counter()
    total = store.count_pairs([UNALIGNED])
    aligner = IncrementalAligner(store, threads, train)
    pairs = trained = rejuvenated = changed = 0
    if total and train:
        trained = aligner.train()
    known = store.stalest_links(1)

    def tell(done: int, sweeps: int) -> None:
        if report is not None:
            report(min(pairs + (total - pairs) * done // max(sweeps, 1), total), total)

    while number := aligner.align_new(report=tell):
        pairs += number
    while known and rejuvenated < pairs:
        again = aligner.rejuvenate(pairs - rejuvenated)
        if not again.pairs:
            break
        rejuvenated += again.pairs
        changed += again.changed
    return AlignReport(pairs, trained, rejuvenated, changed, time.perf_counter() - started)


def is_material(old: str, new: str) -> bool:
    """Whether one alignment is so different from the other that a derivation has to be made anew."""
    before, after = set(old.split(" ")), set(new.split(" "))
    return len(before ^ after) > MATERIAL * len(before | after)


def _within(rows: list[_Rows], cells: int) -> list[_Rows]:
    """The first rows that have no more than so many cells together, one at least."""
    sizes = [(row.source.count(" ") + 1) * (row.target.count(" ") + 1) for row in rows]
    fitting = int(np.searchsorted(np.cumsum(sizes), cells, side="right"))
    return rows[: max(fitting, 1)]


def _links(rows: Sequence[PairRow | LinkRow], texts: LinkedTexts, found: BothWays) -> list[PairLinks]:
    """The links as the store keeps them; a pair has been gone over once more than before."""
    blobs = texts.blobs((found.forward, found.backward))
    links = []
    for row, (forward, backward) in zip(rows, blobs, strict=True):
        since = row.sweep if isinstance(row, LinkRow) else None
        links.append(PairLinks(row.id, forward, backward, 1 if since is None else since + 1, since))
    return links


def change_of_counts(new: PriorCounts, old: PriorCounts) -> PriorCounts:
    """By how much counts change from some links to others of the same pairs."""
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


PAIRS_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class _Kept:
    """Alignments that keep to what people say: lines by pair, and both directions' links of the rows that have some."""

    lines: dict[int, str]
    rows: list[LinkRow]
    links: Links | None


def correct(store: Store, pending: Sequence[Correction], threads: int | None = None) -> list[Rebuilt]:
    """Make the alignments of these pairs keep to what people say of their links now.

    Pairs that came with an alignment get it back but for that; the others are aligned again by the counts of all other
    pairs. Where an alignment changes, the derivation begins anew in the same transaction, with other random streams; a
    learner that holds the store's rules in memory has to change its table as the results say.
    """
    done = []
    for given in (True, False):
        some = [correction for correction in pending if (correction.given is not None) == given]
        if some:
            ids = [correction.id for correction in some]
            known = store.human_links(ids)
            linked = store.links_by_id(ids)
            kept = _kept_given(some, linked, known) if given else _aligned(store, linked, known, threads)
            rebuilt = _commit(store, some, kept)
            done += [rebuilt] if rebuilt is not None else []
    return done


def correct_requested(store: Store, threads: int | None = None) -> int:
    """See to all corrections of a store that no learner holds; how many pairs there were.

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


def _kept_given(some: Sequence[Correction], linked: list[LinkRow], known: Mapping[int, KnownLinks]) -> _Kept:
    lines = {
        correction.id: _line(known.get(correction.id, KnownLinks()), correction.given or "") for correction in some
    }
    if not linked:
        return _Kept(lines, [], None)
    texts = LinkedTexts.of(linked)
    kept = LinkList(*read_links([lines[row.id] for row in linked]))
    return _Kept(lines, linked, both_ways(kept, texts.source, texts.target))


def _line(known: KnownLinks, given: str) -> str:
    links = [(int(s), int(t)) for s, _, t in (link.partition("-") for link in given.split())]
    return " ".join(f"{s}-{t}" for s, t in known.kept(links))


def _aligned(store: Store, rows: list[LinkRow], known: Mapping[int, KnownLinks], threads: int | None) -> _Kept:
    """The pairs aligned anew, from nothing but the counts of all others."""
    texts = LinkedTexts.of(rows)
    own = texts.counts(read_blobs(rows), np.ones(len(rows), np.int64))
    counts = store.aligner_counts(texts.source.vocabulary, texts.target.vocabulary)
    prior = prior_counts_of(counts, texts.source, texts.target, store.vocabulary_sizes())
    others = without(prior[0], own[0]), without(prior[1], own[1])
    settings = store.settings()
    seed = (settings.seed * _SEED_STEP + rows[0].id) * _SEED_STEP + (rows[0].sweep or 0)
    request = Request(settings.aligner, seed=seed)
    words = min(len(texts.source.words), len(texts.target.words))
    if min(int(one.jumps.sum()) for one in others) < words:
        options = options_for(request, len(rows))
    else:
        options = incremental_options(len(rows), request)
    places = {place: known[row.id] for place, row in enumerate(rows) if row.id in known}
    found = align_sides(texts.source, texts.target, options, threads, None, Beside(others, known=places))
    lines = {row.id: line for row, line in zip(rows, found.aligned.lines(), strict=True)}
    return _Kept(lines, rows, (found.forward, found.backward))


def _commit(store: Store, some: Sequence[Correction], kept: _Kept) -> Rebuilt | None:
    pairs: list[PairRow] = store.pairs_by_id([correction.id for correction in some])
    given = {correction.id for correction in some if correction.given is not None}
    changed = {row.id: kept.lines[row.id] for row in pairs if row.alignment != kept.lines[row.id]}
    change = AlignerChange()
    change.corrected = [(correction.id, correction.asked) for correction in some]
    change.alignments = [PairAlignment(*item) for item in changed.items() if item[0] not in given]
    change.given = [PairAlignment(*item) for item in changed.items() if item[0] in given]
    if kept.links is not None:
        texts = LinkedTexts.of(kept.rows)
        ones = np.ones(len(kept.rows), np.int64)
        own, new = texts.counts(read_blobs(kept.rows), ones), texts.counts(kept.links, ones)
        difference = change_of_counts(new[0], own[0]), change_of_counts(new[1], own[1])
        enter_counts(change, difference, texts.source, texts.target)
        change.links = [
            PairLinks(row.id, *blobs, (row.sweep or 0) + (row.id not in given), row.sweep)
            for row, blobs in zip(kept.rows, texts.blobs(kept.links), strict=True)
        ]
    derived = [row for row in pairs if row.current is not None and row.id in changed]
    if not derived:
        store.align(change)
        return None
    rebuilt = Rebuilt.of(derived, changed, store.settings())
    store.align(change, rebuilt.updates(), rebuilt.deltas())
    return rebuilt
