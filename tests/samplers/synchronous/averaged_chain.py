"""The kernels' chain with averages, in the twin's values."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from tests.reference.forest import Forest
from tests.reference.models import Model
from tests.reference.rules import Rule
from tests.samplers.synchronous.kernel_chain import KernelChain, rules_of_deltas

from hierogram.samplers.counts.deltas import add_fragments, empty_deltas
from hierogram.samplers.forests.averages import Averages, empty_averages
from hierogram.samplers.forests.records import Fragments
from hierogram.samplers.grammar.schedules import EVERY_LEVEL
from hierogram.samplers.synchronous.passes import SweepPlan
from hierogram.samplers.synchronous.sweeps import GIBBS


def all_fragments(averages: Averages) -> Fragments:
    """Every entry with its uses in all sweeps, also those that would not be counted."""
    columns: list[list[int]] = [[], [], [], [], []]
    for pair in range(len(averages.sweeps)):
        for k in range(averages.first[pair], averages.first[pair] + averages.taken[pair]):
            entry = averages.entry[k]
            start = int(averages.room[pair]) + int(entry["start"])
            row = (pair, int(entry["root"]), start, start + int(entry["size"]), int(entry["uses"]))
            for column, value in zip(columns, row, strict=True):
                column.append(value)
    arrays = [np.array(column, np.int64) for column in columns]
    return Fragments(averages.content, *arrays, np.zeros(len(arrays[0]), np.int64))


class AveragedChain(KernelChain):
    """A chain whose uses are averaged in every sweep."""

    def __init__(
        self, forests: Sequence[Forest], model: Model, *, seed: int, span_limit: int = 0, method: int = GIBBS,
        leaving: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(forests, model, seed=seed, span_limit=span_limit, method=method, leaving=leaving)
        self.forget()

    def forget(self) -> None:
        """Begin the averages anew."""
        self.chain = self.chain._replace(averages=empty_averages(self.batch))

    def average(self) -> None:
        """One sweep over all pairs, averaged."""
        self.sweeps += 1
        stages = np.full(len(self.forests), EVERY_LEVEL, np.int16)
        plan = SweepPlan(self.sweeps, stages, averaged=np.ones(len(self.forests), np.bool_), leaving=self.leaving)
        self.chain, _ = self.kernel.step(self.seed, self.chain, plan)

    def uses(self) -> Counter[Rule]:
        """The uses of all pairs in all sweeps averaged, by rule, in whole parts of a use."""
        deltas = add_fragments(empty_deltas(), self.batch, all_fragments(self.chain.averages))
        return rules_of_deltas(deltas._replace(counts=deltas.sampled), self.forests)
