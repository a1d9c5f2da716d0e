"""Resident batches: pairs in memory with their derivations and samples, and how they are committed."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.deltas import enter_samples, enter_state, rule_deltas
from hierogram.daemon.learning.kinds.kind import Loaded
from hierogram.daemon.learning.kinds.registry import kind_of
from hierogram.daemon.prefetch import ahead
from hierogram.samplers.counts.deltas import empty_ledger
from hierogram.samplers.forests.batch import State
from hierogram.samplers.forests.derivations import decode_states, encode_states, encode_trees, pack_ring, unpack_ring
from hierogram.storage.records import (
    SAMPLING,
    SETTLED,
    LabelRow,
    PairRow,
    PairUpdate,
    RuleDelta,
    Settings,
    SweepRecord,
)
from hierogram.storage.store import Store

_WORDS_A_BATCH = 4_000_000
_PAIRS_A_READ = 5_000
_PAIRS_A_COMMIT = 8_192


@dataclass(slots=True)
class ResidentBatch:
    """Pairs in memory: their batch, present state, samples and sweeps, and both as last committed."""

    rows: list[PairRow]
    loaded: Loaded
    state: State
    sweeps: NDArray[np.int64]
    samples: list[list[bytes]]
    committed_state: State | None
    committed: NDArray[np.bool_]
    committed_samples: list[list[bytes]]
    committed_sweeps: list[int]
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
            fresh = encode_states(forests, state)
            state = decode_states(forests, [row.current or blob for row, blob in zip(rows, fresh, strict=True)])
        samples = [unpack_ring(row.ring or b"") for row in rows]
        return cls(
            rows,
            loaded,
            state,
            np.array([row.sweep for row in rows], np.int64),
            samples,
            State(state.edge.copy(), state.cut.copy()) if stored.any() else None,
            stored,
            [list(kept) for kept in samples],
            [row.sweep for row in rows],
            settings,
        )

    def keep_samples(self, due: NDArray[np.bool_]) -> None:
        """Append the present trees of the pairs that are due to their retained samples, and drop the oldest."""
        if not due.any():
            return
        trees = encode_trees(self.loaded.batch.forests, self.state)
        for pair in np.flatnonzero(due).tolist():
            kept = self.samples[pair]
            kept.append(trees[pair])
            if len(kept) > self.settings.samples:
                del kept[0]

    def commit(self, store: Store, records: list[SweepRecord], labels: Sequence[LabelRow] = ()) -> None:
        """Write derivations, samples and the changes of counts since the last commit.

        Each transaction takes some thousand pairs together with the changes that they cause, so neither memory nor the
        wait of other writers grows with the shard; what the next one takes is worked out while one is written. The
        sweeps, and what is learned of a tree grammar's `labels`, are recorded with the last one.
        """
        with closing(ahead(self._parts())) as parts:
            for updates, changes, at_end in parts:
                store.commit(updates, changes, records if at_end else (), labels if at_end else ())
        self.committed_state = State(self.state.edge.copy(), self.state.cut.copy())
        self.committed = np.ones(len(self.rows), np.bool_)
        self.committed_samples = [list(kept) for kept in self.samples]
        self.committed_sweeps = self.sweeps.tolist()

    def _parts(self) -> Iterator[tuple[list[PairUpdate], list[RuleDelta], bool]]:
        """What each transaction of a commit takes: pairs, changes of counts, and whether it is the last."""
        course = kind_of(self.settings).course(self.settings)
        stages = course.reached(self.sweeps).tolist()
        sweeps = self.sweeps.tolist()
        currents = encode_states(self.loaded.batch.forests, self.state)
        for first in range(0, len(self.rows), _PAIRS_A_COMMIT):
            last = min(first + _PAIRS_A_COMMIT, len(self.rows))
            updates = [
                PairUpdate(
                    self.rows[k].id,
                    currents[k],
                    pack_ring(self.samples[k]),
                    SETTLED if sweeps[k] >= course.burn_in else SAMPLING,
                    stages[k],
                    sweeps[k],
                    self.committed_sweeps[k],
                )
                for k in range(first, last)
            ]
            yield updates, self._changes(first, last), last == len(self.rows)

    def leaving(self) -> list[RuleDelta]:
        """By how much the counts of rules change when all pairs leave the store, as they were last committed."""
        ledger = enter_samples(empty_ledger(), self.loaded, self.committed_samples, -1)
        if self.committed_state is not None:
            ledger = enter_state(ledger, self.loaded, self.committed_state, -1, self.committed)
        return rule_deltas(ledger, self.loaded)

    def _changes(self, first: int, last: int) -> list[RuleDelta]:
        """By how much pairs first..last change the counts of rules since the last commit."""
        chosen = np.zeros(len(self.rows), np.bool_)
        chosen[first:last] = True
        ledger = empty_ledger()
        if self.committed_state is not None:
            ledger = enter_state(ledger, self.loaded, self.committed_state, -1, chosen & self.committed)
        ledger = enter_state(ledger, self.loaded, self.state, 1, chosen)
        dropped: list[list[bytes]] = [[] for _ in self.rows]
        added: list[list[bytes]] = [[] for _ in self.rows]
        for k in range(first, last):
            old, new = self.committed_samples[k], self.samples[k]
            shared = _shared(old, new)
            dropped[k] = old[: len(old) - shared]
            added[k] = new[shared:]
        ledger = enter_samples(ledger, self.loaded, dropped, -1)
        ledger = enter_samples(ledger, self.loaded, added, 1)
        return rule_deltas(ledger, self.loaded)


def _shared(old: list[bytes], new: list[bytes]) -> int:
    """How many samples at the end of `old` stand unchanged at the beginning of `new`."""
    for size in range(min(len(old), len(new)), 0, -1):
        if old[-size:] == new[:size]:
            return size
    return 0


def read_batches(store: Store, states: list[str] | None = None) -> Iterator[list[PairRow]]:
    """The stored pairs in the order of their numbers, as many at a time as fit in memory; or all of them, where the
    store's kind of grammar has to have them together.
    """
    whole = kind_of(store.settings()).whole
    batch: list[PairRow] = []
    words = 0
    after = 0
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
