"""Alignment of pairs that arrive without one, against the counts of the store's aligner, and again later."""

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
from hierogram.daemon.alignment.links.prior_counts import enter_counts, prior_counts_of
from hierogram.daemon.alignment.links.stored import Texts, read_blobs
from hierogram.daemon.alignment.requests import Request
from hierogram.daemon.learning.kinds.pairs import read_links
from hierogram.daemon.learning.lease import holding_lease
from hierogram.daemon.learning.rebuilding import Rebuilt
from hierogram.samplers.alignment.prior_counts import PriorCounts, without
from hierogram.samplers.alignment.symmetrization import LinkList
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.records import UNALIGNED, AlignerChange, LinkRow, PairAlignment, PairLinks, PairRow
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
        texts = Texts.of(rows)
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
            texts = Texts.of(rows)
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
        texts = Texts.of(rows)
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

    def _prior(self, texts: Texts) -> tuple[PriorCounts, PriorCounts]:
        counts = self._store.aligner_counts(texts.source.vocabulary, texts.target.vocabulary)
        return prior_counts_of(counts, texts.source, texts.target, self._store.vocabulary_sizes())

    def _known(self, rows: Sequence[PairRow | LinkRow]) -> dict[int, KnownLinks]:
        """What people say of the rows' links, by their places."""
        known = self._store.human_links([row.id for row in rows])
        return {place: known[row.id] for place, row in enumerate(rows) if row.id in known}

    def _commit_new(self, rows: Sequence[PairRow], texts: Texts, found: BothWays, corrected: Mapping[int, int]) -> None:
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


def _links(rows: Sequence[PairRow | LinkRow], texts: Texts, found: BothWays) -> list[PairLinks]:
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
