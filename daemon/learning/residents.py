"""Load, commit, restart and withdraw batches of pairs, with their derivations and averages."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import Averages, Chain, LoadedBatch, State, StoredSamples
from hierogram.daemon.learning.kinds.stored import find_kind, load_stored
from hierogram.daemon.learning.stored_links import make_withdrawal
from hierogram.daemon.prefetch import prefetch
from hierogram.samplers.counts.texts import take_texts, text_order
from hierogram.samplers.grammar.columns import Blobs, empty_blobs, slice_blobs
from hierogram.storage.records.columns import PairUpdates, RuleDeltas, join_deltas
from hierogram.storage.records.grammar import LabelRow, LearningRun, SweepRecord
from hierogram.storage.records.pairs import WAITING, PairRow
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store

_WORDS_PER_BATCH = 4_000_000
_PAIRS_PER_READ = 5_000
_PAIRS_PER_COMMIT = 4_096


@dataclass(slots=True)
class ResidentBatch:
    """Pairs in memory with their current and last committed derivations, averages and sweeps.

    `sweeps` int64[P] counts the sweeps of each pair. `committed` bool[P] is True for pairs with a committed derivation.
    """

    rows: list[PairRow]
    loaded: LoadedBatch
    state: State
    averages: Averages
    sweeps: NDArray[np.int64]
    committed_state: State
    committed: NDArray[np.bool_]
    committed_averages: Blobs
    committed_sweeps: NDArray[np.int64]
    settings: Settings

    @classmethod
    def from_rows(cls, rows: list[PairRow], settings: Settings) -> "ResidentBatch":
        """Load pairs. Pairs without a derivation get an initial state. Raises `DamagedPairsError`."""
        loaded, state, records, is_committed, averages = load_stored(rows, settings, averages=True)
        sweeps = np.array([row.sweep for row in rows], np.int64)
        return cls(rows, loaded, state, averages, sweeps, state.copy(), is_committed, records, sweeps.copy(), settings)

    @property
    def ids(self) -> NDArray[np.int64]:
        """Ids of the pairs, ascending."""
        return np.array([row.id for row in self.rows], np.int64)

    def commit(
        self, store: Store, records: list[SweepRecord], labels: Sequence[LabelRow] = (), run: LearningRun | None = None
    ) -> None:
        """Write derivations, averages, rule counts, records, labels and the progress of a `run` in one transaction."""
        averages = self.loaded.write_averages(self.averages)
        with closing(prefetch(self._parts(averages))) as parts:
            store.commit(parts, records, labels, run)
        self.committed_state = self.state.copy()
        self.committed = np.ones(len(self.rows), np.bool_)
        self.committed_averages = averages
        self.committed_sweeps = self.sweeps.copy()

    def _parts(self, averages: Blobs) -> Iterator[tuple[PairUpdates, RuleDeltas]]:
        schedule = find_kind(self.settings).schedule(self.settings)
        stages = schedule.reached(self.sweeps)
        states = self.loaded.encode(self.state)
        after = self.loaded.trees(self.state)
        before = self.loaded.trees(self.committed_state)
        ids = self.ids
        for first in range(0, len(ids), _PAIRS_PER_COMMIT):
            last = first + _PAIRS_PER_COMMIT
            part = slice(first, last)
            sweeps, expected = self.sweeps[part], self.committed_sweeps[part]
            blobs = slice_blobs(states, first, last), slice_blobs(averages, first, last)
            updates = PairUpdates(ids[part], *blobs, sweeps >= schedule.burn_in, stages[part], sweeps, expected)
            new = StoredSamples(slice_blobs(after, first, last), blobs[1])
            rules = self.loaded.rule_deltas(self._committed(before, first, last), new, first)
            # Sort by text, so that rules queried together are stored together, and the index of sources is filled in
            # order.
            order = text_order(rules.source, rules.keys)
            yield updates, rules.at(order, take_texts(rules.source, order), take_texts(rules.target, order))

    def rules(self) -> RuleDeltas:
        """Return the rules of the current derivations and averages, with their counts."""
        samples = StoredSamples(self.loaded.trees(self.state), self.loaded.write_averages(self.averages))
        return self.loaded.rule_deltas(None, samples)

    def removal_deltas(self) -> RuleDeltas:
        """Return the changes of rule counts that remove the committed samples of all pairs."""
        trees = self.loaded.trees(self.committed_state)
        return self.loaded.rule_deltas(self._committed(trees, 0, len(self.rows)), None)

    def _committed(self, trees: Blobs, first: int, last: int) -> StoredSamples:
        records = slice_blobs(self.committed_averages, first, last)
        return StoredSamples(slice_blobs(trees, first, last), records, self.committed[first:last])


def read_batches(
    store: Store, states: list[str] | None = None, after_id: int = 0, undamaged: bool = False
) -> Iterator[list[PairRow]]:
    """Yield batches of stored pairs in the `states` (default: all) with ids above `after_id`, in id order.

    The number of words per batch is limited. If the kind of grammar needs all pairs together, `states` and `after_id`
    are ignored, and the only batch contains all pairs. With `undamaged`, pairs recorded as damaged are excluded.
    """
    most_words: float = _WORDS_PER_BATCH
    if find_kind(store.settings()).needs_all_pairs:
        states, after_id, most_words = None, 0, float("inf")
    batch: list[PairRow] = []
    words = 0
    while rows := store.pairs(after_id=after_id, limit=_PAIRS_PER_READ, states=states, undamaged=undamaged):
        for row in rows:
            size = row.source.count(" ") + row.target.count(" ") + 2
            if batch and words + size > most_words:
                yield batch
                batch, words = [], 0
            batch.append(row)
            words += size
        after_id = rows[-1].id
    if batch:
        yield batch


@dataclass(frozen=True, slots=True)
class RealignedPairs:
    """Pairs with new alignments, and therefore new forests, with their old and new derivations."""

    before: ResidentBatch
    after: ResidentBatch

    @classmethod
    def from_rows(cls, rows: Sequence[PairRow], alignments: Mapping[int, str], settings: Settings) -> "RealignedPairs":
        """Load pairs that have derivations, with their old alignments and with their new `alignments` (by pair id)."""
        restarted: dict[str, Any] = {"state": WAITING, "stage": 0, "sweep": 0, "current": None, "averages": None}
        new_rows = [row._replace(alignment=alignments[row.id], restarts=row.restarts + 1, **restarted) for row in rows]
        return cls(ResidentBatch.from_rows(list(rows), settings), ResidentBatch.from_rows(new_rows, settings))

    def updates(self) -> PairUpdates:
        """Return the updates with the new derivations. The pairs restart their schedule."""
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
        initial_samples = StoredSamples(loaded.trees(self.after.state), empty_blobs(loaded.batch.size))
        return join_deltas([self.before.removal_deltas(), loaded.rule_deltas(None, initial_samples)])

    def apply_to(self, chain: Chain) -> None:
        """Apply the changes to the counts of a chain."""
        chain.change_counts(self.before.loaded, self.before.state, -1)
        chain.change_counts(self.after.loaded, self.after.state, 1)


PAIRS_PER_TRANSACTION = 2_000


def withdraw(store: Store, rows: list[PairRow], settings: Settings) -> ResidentBatch | None:
    """Remove pairs in one transaction. Returns the removed pairs with derivations, or None without derivations."""
    derived = [row for row in rows if row.current is not None]
    batch = ResidentBatch.from_rows(derived, settings) if derived else None
    store.withdraw(rows, batch.removal_deltas() if batch else None, make_withdrawal(store, [row.id for row in rows]))
    return batch


def split_transactions(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Split the ids of pairs into one group per transaction."""
    for first in range(0, len(ids), PAIRS_PER_TRANSACTION):
        yield ids[first : first + PAIRS_PER_TRANSACTION]


def withdraw_all(store: Store, ids: Sequence[int], report: Callable[[int], None]) -> int:
    """Remove pairs and return their number. `report` gets the number of `ids` done. Another writer must not exist."""
    settings = store.settings()
    withdrawn = 0
    for number, chunk in enumerate(split_transactions(ids)):
        rows = store.pairs_by_id(chunk)
        withdraw(store, rows, settings)
        withdrawn += len(rows)
        report(number * PAIRS_PER_TRANSACTION + len(chunk))
    return withdrawn


def withdraw_requested(store: Store) -> None:
    """Remove the undamaged pairs with a pending withdrawal request."""
    settings = store.settings()
    while ids := store.pending_withdrawals(PAIRS_PER_TRANSACTION):
        withdraw(store, store.pairs_by_id(ids), settings)
