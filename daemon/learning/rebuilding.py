"""Derivations made anew, where a pair's alignment and with it its forest have changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hierogram.daemon.learning.kinds.kind import Chain, Drawn
from hierogram.daemon.learning.residents import ResidentBatch
from hierogram.samplers.grammar.columns import no_blobs
from hierogram.storage.records import WAITING, PairRow, Settings
from hierogram.storage.records.columns import PairUpdates, RuleDeltas, join_deltas


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """Pairs with the derivations that they had, and with those that they begin anew with."""

    before: ResidentBatch
    after: ResidentBatch

    @classmethod
    def of(
        cls,
        rows: Sequence[PairRow],
        alignments: Mapping[int, str],
        settings: Settings,
    ) -> "Rebuilt":
        """The pairs, which all have a derivation, with other alignments, by id."""
        fresh = [
            row._replace(
                alignment=alignments[row.id],
                state=WAITING,
                stage=0,
                sweep=0,
                current=None,
                expected_uses=None,
                restarts=row.restarts + 1,
            )
            for row in rows
        ]
        return cls(ResidentBatch.of(list(rows), settings), ResidentBatch.of(fresh, settings))

    def updates(self) -> PairUpdates:
        """The new derivations, for the store; the pairs begin the schedule anew."""
        rows = self.before.rows
        size = len(rows)
        return PairUpdates(
            ids=np.array([row.id for row in rows], np.int64),
            states=self.after.loaded.encode(self.after.state),
            samples=no_blobs(size),
            burned_in=np.zeros(size, np.bool_),
            stages=np.ones(size, np.int64),
            sweeps=np.zeros(size, np.int64),
            since=np.array([row.sweep for row in rows], np.int64),
        )

    def deltas(self) -> RuleDeltas:
        """By how much rules' counts change: the old derivations and all that they averaged leave, the new ones come."""
        loaded, settings = self.after.loaded, self.after.settings
        begun = Drawn(loaded.trees(self.after.state), no_blobs(loaded.size))
        return join_deltas([self.before.leaving(), loaded.rule_deltas(None, begun, settings)])

    def change(self, chain: Chain) -> None:
        """Make the same changes in a chain's counts."""
        chain.change(self.before.loaded, self.before.state, -1)
        chain.change(self.after.loaded, self.after.state, 1)
