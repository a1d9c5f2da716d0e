"""Resident batches: pairs in memory with their derivations and samples, and how they are committed."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.deltas import in_order_of_sources, rule_deltas, sample_change, tree_change
from hierogram.daemon.learning.kinds.kind import Loaded
from hierogram.daemon.learning.kinds.registry import kind_of
from hierogram.daemon.prefetch import ahead
from hierogram.samplers.forests.batch import State
from hierogram.samplers.forests.derivations import decode_states, encode_states, encode_trees
from hierogram.samplers.forests.samples import keep_samples
from hierogram.samplers.grammar.columns import Blobs, join_blobs, part_of, split_blobs
from hierogram.storage.records import LabelRow, LearningRun, PairRow, Settings, SweepRecord
from hierogram.storage.records.columns import PairUpdates, RuleDeltas
from hierogram.storage.store import Store

_WORDS_A_BATCH = 4_000_000
_PAIRS_A_READ = 5_000
_PAIRS_A_COMMIT = 16_384
_SMALLER_AT_FIRST = 4
"""A commit's first part, beside which nothing is written, has so many times fewer pairs than the others."""


@dataclass(slots=True)
class ResidentBatch:
    """Pairs in memory: their batch, present state, samples and sweeps, and both as last committed."""

    rows: list[PairRow]
    loaded: Loaded
    state: State
    sweeps: NDArray[np.int64]
    samples: Blobs
    committed_state: State | None
    committed: NDArray[np.bool_]
    committed_samples: Blobs
    committed_sweeps: NDArray[np.int64]
    settings: Settings

    @classmethod
    def of(cls, rows: list[PairRow], settings: Settings) -> "ResidentBatch":
        """The pairs as stored; those without a derivation get their initial state."""
        kind = kind_of(settings)
        loaded = kind.load(rows, settings)
        forests = loaded.batch.forests
        state = kind.begin(loaded, settings)
        stored = np.array([row.current is not None for row in rows], np.bool_)
        if stored.any():
            states = [row.current or b"" for row in rows]
            if not stored.all():
                fresh = split_blobs(encode_states(forests, state))
                states = [blob or own for blob, own in zip(states, fresh, strict=True)]
            state = decode_states(forests, join_blobs(states))
        samples = join_blobs([row.ring or b"" for row in rows])
        sweeps = np.array([row.sweep for row in rows], np.int64)
        return cls(
            rows,
            loaded,
            state,
            sweeps,
            samples,
            State(state.edge.copy(), state.cut.copy()) if stored.any() else None,
            stored,
            samples,
            sweeps.copy(),
            settings,
        )

    def keep_samples(self, due: NDArray[np.bool_]) -> None:
        """Retain the present trees of the pairs that are due, and drop those samples that are too old."""
        if due.any():
            forests = self.loaded.batch.forests
            self.samples = keep_samples(forests, self.samples, self.state, due, self.settings.samples)

    def commit(
        self,
        store: Store,
        records: list[SweepRecord],
        labels: Sequence[LabelRow] = (),
        run: LearningRun | None = None,
    ) -> None:
        """Write derivations, samples and the changes of counts since the last commit, in one transaction.

        So the store always holds these pairs as they were after one sweep, however the process ends. Some thousand of
        them are worked out at a time, while those before them are written, so that memory does not grow with the batch.
        The sweeps, what is learned of a tree grammar's `labels`, and how far the `run` has come go with them.
        """
        with closing(ahead(self._parts())) as parts:
            store.commit_parts(parts, records, labels, run)
        self.committed_state = State(self.state.edge.copy(), self.state.cut.copy())
        self.committed = np.ones(len(self.rows), np.bool_)
        self.committed_samples = self.samples
        self.committed_sweeps = self.sweeps.copy()

    def _parts(self) -> Iterator[tuple[PairUpdates, RuleDeltas]]:
        """What a commit writes, some thousand pairs at a time: pairs, and the changes of counts that they cause."""
        course = kind_of(self.settings).course(self.settings)
        stages = course.reached(self.sweeps)
        forests = self.loaded.batch.forests
        states = encode_states(forests, self.state)
        after = encode_trees(forests, self.state)
        before = None if self.committed_state is None else encode_trees(forests, self.committed_state)
        ids = np.array([row.id for row in self.rows], np.int64)
        some = -(-_PAIRS_A_COMMIT // _SMALLER_AT_FIRST)
        last = 0
        while last < len(ids):
            first, last = last, min(last + some, len(ids))
            some = _PAIRS_A_COMMIT
            updates = PairUpdates(
                ids[first:last],
                part_of(states, first, last),
                part_of(self.samples, first, last),
                self.sweeps[first:last] >= course.burn_in,
                stages[first:last],
                self.sweeps[first:last],
                self.committed_sweeps[first:last],
            )
            changes = [
                tree_change(part_of(after, first, last), 1).of_pairs(first),
                sample_change(part_of(self.committed_samples, first, last), -1).of_pairs(first),
                sample_change(part_of(self.samples, first, last), 1).of_pairs(first),
            ]
            if before is not None:
                known = self.committed[first:last]
                changes.append(tree_change(part_of(before, first, last), -1, known).of_pairs(first))
            yield updates, in_order_of_sources(rule_deltas(self.loaded, changes))

    def leaving(self) -> RuleDeltas:
        """By how much the counts of rules change when all pairs leave the store, as they were last committed."""
        changes = [sample_change(self.committed_samples, -1)]
        if self.committed_state is not None:
            trees = encode_trees(self.loaded.batch.forests, self.committed_state)
            changes.append(tree_change(trees, -1, self.committed))
        return rule_deltas(self.loaded, changes)


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
