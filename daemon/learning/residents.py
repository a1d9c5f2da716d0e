"""Resident batches: pairs in memory with their derivations and samples, and how they are committed."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.deltas import in_order_of_sources
from hierogram.daemon.learning.kinds.kind import Drawn, Loaded
from hierogram.daemon.learning.kinds.registry import kind_of
from hierogram.daemon.learning.kinds.state import Averages, State
from hierogram.daemon.prefetch import ahead
from hierogram.samplers.grammar.columns import Blobs, join_blobs, part_of, split_blobs
from hierogram.storage.records import LabelRow, LearningRun, PairRow, Settings, SweepRecord
from hierogram.storage.records.columns import PairUpdates, RuleDeltas
from hierogram.storage.store import Store

_WORDS_A_BATCH = 4_000_000
_PAIRS_A_READ = 5_000
_PAIRS_A_COMMIT = 4_096
_SMALLER_AT_FIRST = 4
"""A commit's first part, beside which nothing is written, has so many times fewer pairs than the others."""


@dataclass(slots=True)
class ResidentBatch:
    """Pairs in memory: their batch, present state, averages and sweeps, and all as last committed.

    The averages are read when they are first asked for.
    """

    rows: list[PairRow]
    loaded: Loaded
    state: State
    sweeps: NDArray[np.int64]
    committed_state: State | None
    committed: NDArray[np.bool_]
    committed_averages: Blobs
    committed_sweeps: NDArray[np.int64]
    settings: Settings
    present_averages: Averages | None = None

    @classmethod
    def of(cls, rows: list[PairRow], settings: Settings) -> "ResidentBatch":
        """The pairs as stored; those without a derivation get their initial state."""
        kind = kind_of(settings)
        loaded = kind.load(rows, settings)
        stored = np.array([row.current is not None for row in rows], np.bool_)
        states = [row.current or b"" for row in rows]
        if not stored.all():
            fresh = split_blobs(loaded.encode(kind.begin(loaded, settings, ~stored)))
            states = [blob or own for blob, own in zip(states, fresh, strict=True)]
        state = loaded.decode(join_blobs(states))
        averages = join_blobs([row.expected_uses or b"" for row in rows])
        sweeps = np.array([row.sweep for row in rows], np.int64)
        return cls(
            rows,
            loaded,
            state,
            sweeps,
            state.copy() if stored.any() else None,
            stored,
            averages,
            sweeps.copy(),
            settings,
        )

    @property
    def averages(self) -> Averages:
        """What the pairs expect to use; raises `DerivationError` where stored bytes do not fit."""
        if self.present_averages is None:
            self.present_averages = self.loaded.read_averages(self.committed_averages)
        return self.present_averages

    def commit(
        self,
        store: Store,
        records: list[SweepRecord],
        labels: Sequence[LabelRow] = (),
        run: LearningRun | None = None,
    ) -> None:
        """Write derivations, averages and the changes of counts since the last commit, in one transaction.

        So the store always holds these pairs as they were after one sweep, however the process ends. Some thousand of
        them are worked out at a time, while those before them are written, so that memory does not grow with the batch.
        The sweeps, what is learned of a tree grammar's `labels`, and how far the `run` has come go with them.
        """
        known = self.present_averages
        averages = self.committed_averages if known is None else self.loaded.write_averages(known)
        with closing(ahead(self._parts(averages))) as parts:
            store.commit_parts(parts, records, labels, run)
        self.committed_state = self.state.copy()
        self.committed = np.ones(len(self.rows), np.bool_)
        self.committed_averages = averages
        self.committed_sweeps = self.sweeps.copy()

    def _parts(self, averages: Blobs) -> Iterator[tuple[PairUpdates, RuleDeltas]]:
        """What a commit writes, some thousand pairs at a time: pairs, and the changes of counts that they cause."""
        course = kind_of(self.settings).course(self.settings)
        stages = course.reached(self.sweeps)
        states = self.loaded.encode(self.state)
        after = self.loaded.trees(self.state)
        before = None if self.committed_state is None else self.loaded.trees(self.committed_state)
        ids = np.array([row.id for row in self.rows], np.int64)
        some = -(-_PAIRS_A_COMMIT // _SMALLER_AT_FIRST)
        last = 0
        while last < len(ids):
            first, last = last, min(last + some, len(ids))
            some = _PAIRS_A_COMMIT
            updates = PairUpdates(
                ids[first:last],
                part_of(states, first, last),
                part_of(averages, first, last),
                self.sweeps[first:last] >= course.burn_in,
                stages[first:last],
                self.sweeps[first:last],
                self.committed_sweeps[first:last],
            )
            old = None if before is None else self._committed(before, first, last)
            new = Drawn(part_of(after, first, last), part_of(averages, first, last))
            yield updates, in_order_of_sources(self.loaded.rule_deltas(old, new, self.settings, first))

    def leaving(self) -> RuleDeltas:
        """By how much the counts of rules change when all pairs leave the store, as they were last committed."""
        if self.committed_state is None:
            return self.loaded.rule_deltas(None, None, self.settings)
        trees = self.loaded.trees(self.committed_state)
        return self.loaded.rule_deltas(self._committed(trees, 0, len(self.rows)), None, self.settings)

    def _committed(self, trees: Blobs, first: int, last: int) -> Drawn:
        """What was committed last of some of the pairs; `trees` are those of all."""
        records = part_of(self.committed_averages, first, last)
        return Drawn(part_of(trees, first, last), records, self.committed[first:last])


def read_batches(store: Store, states: list[str] | None = None, after_id: int = 0) -> Iterator[list[PairRow]]:
    """The stored pairs with ids above `after_id` in their order, as many at a time as fit in memory; or all of them,
    whatever their states, where the store's kind of grammar has to have them together.
    """
    whole = kind_of(store.settings()).whole
    batch: list[PairRow] = []
    words = 0
    after = 0 if whole else after_id
    while True:
        rows = store.pairs(after_id=after, limit=_PAIRS_A_READ, states=None if whole else states)
        for row in rows:
            size = row.source.count(" ") + row.target.count(" ") + 2
            if batch and not whole and words + size > _WORDS_A_BATCH:
                yield batch
                batch, words = [], 0
            batch.append(row)
            words += size
        if len(rows) < _PAIRS_A_READ:
            break
        after = rows[-1].id
    if batch:
        yield batch
