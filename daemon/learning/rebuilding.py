"""Derivations made anew, where a pair's alignment and with it its forest have changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hierogram.daemon.learning.deltas import enter_samples, enter_state, rule_deltas
from hierogram.daemon.learning.kinds.kind import Chain
from hierogram.daemon.learning.residents import ResidentBatch
from hierogram.samplers.counts.deltas import empty_ledger
from hierogram.samplers.forests.derivations import encode_states, pack_ring
from hierogram.storage.records import SAMPLING, WAITING, PairRow, PairUpdate, RuleDelta, Settings


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
            row._replace(alignment=alignments[row.id], state=WAITING, stage=0, sweep=0, current=None, ring=None)
            for row in rows
        ]
        return cls(ResidentBatch.of(list(rows), settings), ResidentBatch.of(fresh, settings))

    def updates(self) -> list[PairUpdate]:
        """The new derivations, for the store; the pairs begin the schedule anew."""
        currents = encode_states(self.after.loaded.batch.forests, self.after.state)
        return [
            PairUpdate(row.id, current, pack_ring([]), SAMPLING, 1, 0, row.sweep)
            for row, current in zip(self.before.rows, currents, strict=True)
        ]

    def deltas(self) -> list[RuleDelta]:
        """By how much rules' counts change: the old derivations and all their samples leave, the new ones come."""
        before, after = self.before, self.after
        ledger = enter_state(empty_ledger(), before.loaded, before.state, -1)
        ledger = enter_samples(ledger, before.loaded, before.samples, -1)
        entering = enter_state(empty_ledger(), after.loaded, after.state, 1)
        return [*rule_deltas(ledger, before.loaded), *rule_deltas(entering, after.loaded)]

    def change(self, chain: Chain) -> None:
        """Make the same changes in a chain's counts."""
        chain.change(self.before.loaded, self.before.state, -1)
        chain.change(self.after.loaded, self.after.state, 1)
