"""Derivations made anew, where a pair's alignment and with it its forest have changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hierogram.daemon.learning.batches import ALL_BITS
from hierogram.daemon.learning.deltas import enter_samples, enter_state, rule_deltas
from hierogram.daemon.learning.residents import Shard
from hierogram.samplers.counts.deltas import count_rules, empty_ledger
from hierogram.samplers.counts.models import Model
from hierogram.samplers.counts.table import RuleTable
from hierogram.samplers.forests.derivations import encode_states, pack_ring
from hierogram.storage.records import SAMPLING, WAITING, PairRow, PairUpdate, RuleDelta, Settings


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """Pairs with the derivations that they had, and with those that they begin anew with."""

    before: Shard
    after: Shard

    @classmethod
    def of(
        cls,
        rows: Sequence[PairRow],
        alignments: Mapping[int, str],
        settings: Settings,
        key_mask: np.uint64 = ALL_BITS,
    ) -> "Rebuilt":
        """The pairs, which all have a derivation, with other alignments, by id."""
        fresh = [
            row._replace(alignment=alignments[row.id], state=WAITING, stage=0, sweep=0, current=None, ring=None)
            for row in rows
        ]
        return cls(Shard.of(list(rows), settings, key_mask), Shard.of(fresh, settings, key_mask))

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
        ledger = enter_samples(ledger, before.loaded, before.rings, -1)
        entering = enter_state(empty_ledger(), after.loaded, after.state, 1)
        return [*rule_deltas(ledger, before.loaded), *rule_deltas(entering, after.loaded)]

    def change_table(self, table: RuleTable, model: Model) -> RuleTable:
        """The table with the same changes."""
        none = np.zeros(len(self.before.rows), np.bool_)
        table = count_rules(self.before.loaded.batch, self.before.state, table, model, -1, none)
        return count_rules(self.after.loaded.batch, self.after.state, table, model, 1, none)
