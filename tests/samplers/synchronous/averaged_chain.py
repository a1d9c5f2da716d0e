"""Chain of the kernels that averages uses, with results converted to the types of the reference implementation."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.reference.forest import Forest
from tests.reference.models import Model
from tests.reference.rules import Rule
from tests.samplers.synchronous.kernel_chain import KernelChain, rules_of_deltas

from hierogram.samplers.counts.deltas import CountDeltas, add_fragments, empty_deltas
from hierogram.samplers.forests.averages import BYTES_PER_SLOT, Averages, empty_averages
from hierogram.samplers.forests.derivations import Batch
from hierogram.samplers.forests.records import Fragments
from hierogram.samplers.grammar.schedules import EVERY_LEVEL
from hierogram.samplers.synchronous.sweeps import SweepPlan, sweep_pairs


def all_fragments(averages: Averages, name: str = "uses") -> Fragments:
    """Return all entries as fragments, with the field `name` as weight and possible missed uses as variance."""
    columns: list[list[int]] = [[], [], [], [], [], []]
    for pair in range(len(averages.sweeps)):
        for k in range(averages.first[pair], averages.first[pair] + averages.entry_counts[pair]):
            entry = averages.entry[k]
            start = BYTES_PER_SLOT * int(averages.first[pair]) + int(entry["start"])
            end = start + int(entry["size"])
            row = (pair, int(entry["root"]), start, end, int(entry[name]), int(entry["missed"]))
            for column, value in zip(columns, row, strict=True):
                column.append(value)
    return Fragments(averages.content, *(np.array(column, np.int64) for column in columns))


def averages_with_slots(batch: Batch, slots: NDArray[np.int64] | None) -> Averages:
    """Return empty averages with the given number of slots for each pair, or the default number."""
    if slots is None:
        return empty_averages(batch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hierogram.samplers.forests.averages.slots_of_pairs", lambda _: slots)
        return empty_averages(batch)


class AveragedChain(KernelChain):
    """A chain that averages its uses in every sweep."""

    def __init__(
        self, forests: Sequence[Forest], model: Model, *, seed: int, span_limit: int = 0,
        resample: Callable[..., Any] = sweep_pairs, avoid_current: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            forests, model, seed=seed, span_limit=span_limit, resample=resample, avoid_current=avoid_current
        )
        self.forget()

    def forget(self, slots: NDArray[np.int64] | None = None) -> None:
        """Restart the averages. `slots` overrides the default number of slots of each pair."""
        self.chain = self.chain._replace(averages=averages_with_slots(self.batch, slots))

    def average(self) -> None:
        """Run one averaged sweep over all pairs."""
        self.sweeps += 1
        stages = np.full(len(self.forests), EVERY_LEVEL, np.int16)
        everything = np.ones(len(self.forests), np.bool_)
        plan = SweepPlan(self.sweeps, stages, np.ones(len(stages)), everything, avoid_current=self.avoid_current)
        self.chain, _ = self.kernel.step(self.seed, self.chain, plan)

    def kept(self, pair: int) -> dict[Rule, tuple[int, int]]:
        """Return the rules that a pair keeps, with their uses and their possible missed uses."""
        deltas = self._entries(pair, "uses")
        missed = rules_of_deltas(deltas, self.forests, "variance")
        uses = rules_of_deltas(deltas, self.forests, "expected_uses")
        return {rule: (uses[rule], missed[rule]) for rule in uses}

    def marks(self, pair: int, name: str) -> Counter[Rule]:
        """Return a field, such as `draw`, of each entry of a pair, by rule."""
        deltas = self._entries(pair, name)
        return rules_of_deltas(deltas, self.forests, "expected_uses")

    def _entries(self, pair: int, name: str) -> CountDeltas:
        every = all_fragments(self.chain.averages, name)
        return add_fragments(empty_deltas(), self.batch, every.select(every.pairs == pair))

    def uses(self) -> Counter[Rule]:
        """Return the stored uses of each rule, summed over pairs, in units of 1/`ONE_USE`."""
        deltas = add_fragments(empty_deltas(), self.batch, all_fragments(self.chain.averages))
        return rules_of_deltas(deltas, self.forests, "expected_uses")
