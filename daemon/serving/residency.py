"""Which pairs the daemon has in memory: some at a time, or all, where the kind of grammar needs them together."""

from collections import deque
from collections.abc import Collection, Sequence
from typing import Protocol

from hierogram.daemon.configuration import SamplingSection
from hierogram.daemon.learning.learner import Learner
from hierogram.daemon.learning.residents import ResidentBatch, read_batches
from hierogram.storage.records import SAMPLING, WAITING, PairRow


class Residency(Protocol):
    """The pairs in memory; between two turns, memory and store say the same."""

    @property
    def queue(self) -> deque[ResidentBatch]:
        """Batches with pairs that have not burned in, the next one first."""

    def take_new(self) -> ResidentBatch | None:
        """A batch with the pairs that are new, as far as there is room, or with what an earlier run left behind."""

    def stalest(self, pairs: int) -> ResidentBatch | None:
        """A batch with about so many pairs that have burned in and were sampled longest ago."""

    def begin_anew(self, ids: Sequence[int]) -> None:
        """Queue the pairs, which are not in memory and begin their schedule anew."""

    def drop(self, ids: Collection[int]) -> None:
        """Forget the pairs, which are about to leave the store."""


class InParts:
    """Some pairs at a time: what is new comes in as a batch of its own, and goes when it has burned in."""

    def __init__(self, learner: Learner, section: SamplingSection) -> None:
        self.queue: deque[ResidentBatch] = deque()
        self._learner = learner
        self._pairs_at_once = section.pairs_at_once
        self._taken_up = 0
        self._all_taken_up = False

    def take_new(self) -> ResidentBatch | None:
        """A batch of the pairs that are new, as far as there is room."""
        room = self._pairs_at_once - sum(len(batch.rows) for batch in self.queue)
        if room <= 0:
            return None
        rows = self._interrupted(room)
        # What is in memory has been committed since it was read, and is not pending any more.
        rows += self._learner.store.pairs(limit=room - len(rows), states=(WAITING,))
        return self._learner.open(rows) if rows else None

    def _interrupted(self, room: int) -> list[PairRow]:
        """Pairs that an earlier run left on their way through the schedule."""
        if self._all_taken_up:
            return []
        rows = self._learner.store.pairs(after_id=self._taken_up, limit=room, states=(SAMPLING,))
        self._all_taken_up = len(rows) < room
        self._taken_up = rows[-1].id if rows else self._taken_up
        here = {row.id for batch in self.queue for row in batch.rows}
        return [row for row in rows if row.id not in here]

    def stalest(self, pairs: int) -> ResidentBatch | None:
        """The pairs that were sampled longest ago, as a batch for one turn."""
        rows = self._learner.store.stalest_pairs(min(pairs, self._pairs_at_once))
        return self._learner.open(rows) if rows else None

    def begin_anew(self, ids: Sequence[int]) -> None:
        """The pairs are a batch of their own."""
        self.queue.append(self._learner.open(self._learner.store.pairs_by_id(ids)))

    def drop(self, ids: Collection[int]) -> None:
        """The others of their batches are read again from the store."""
        kept: deque[ResidentBatch] = deque()
        for batch in self.queue:
            rest = [row.id for row in batch.rows if row.id not in ids]
            if len(rest) == len(batch.rows):
                kept.append(batch)
            elif rest:
                kept.append(self._learner.open(self._learner.store.pairs_by_id(rest)))
        self.queue = kept


class AsWhole:
    """All pairs at once, loaded anew when some come or go: that takes time in proportion to the store."""

    def __init__(self, learner: Learner) -> None:
        self.queue: deque[ResidentBatch] = deque()
        self._learner = learner
        self._batch: ResidentBatch | None = None

    def take_new(self) -> ResidentBatch | None:
        """All pairs, where some of them are new, or nothing is in memory yet and some have not burned in."""
        if self._batch is not None and not self._learner.store.count_pairs((WAITING,)):
            return None
        batch = self._load()
        return batch if batch is not None and (batch.sweeps < self._learner.course.burn_in).any() else None

    def _load(self) -> ResidentBatch | None:
        self.queue.clear()
        self._batch = next(map(self._learner.open, read_batches(self._learner.store)), None)
        return self._batch

    def stalest(self, pairs: int) -> ResidentBatch | None:
        """All pairs: every one was sampled as long ago as the others."""
        return self._batch

    def begin_anew(self, ids: Sequence[int]) -> None:
        """All are loaded anew."""
        self._load()

    def drop(self, ids: Collection[int]) -> None:
        """All are forgotten."""
        self.queue.clear()
        self._batch = None


def residency_of(learner: Learner, section: SamplingSection) -> Residency:
    """The residency that the learner's kind of grammar needs."""
    return AsWhole(learner) if learner.kind.whole else InParts(learner, section)
