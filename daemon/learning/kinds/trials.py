"""Chains that begin from nothing and are kept in memory only: for diagnoses and comparisons."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.state import State
from hierogram.samplers.counts.chain import ChainState
from hierogram.samplers.counts.deltas import count_rules
from hierogram.samplers.counts.likelihood import log_likelihood
from hierogram.samplers.counts.models import Model
from hierogram.samplers.counts.table import RuleTable, empty_table
from hierogram.samplers.forests.batch import Batch, initial_state
from hierogram.samplers.forests.batch import State as Variables
from hierogram.samplers.grammar.schedules import PairSchedule, at_temperature_one
from hierogram.samplers.grammar.settings import CUT
from hierogram.samplers.synchronous.passes import SweepPlan
from hierogram.samplers.synchronous.sweeps import GIBBS, Blocks, build
from hierogram.samplers.synchronous.type_moves import TypeSampler


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """How a chain runs: its seed and start (`STARTS`), threads, the method of its kernel, and, for comparisons only,
    `exact` (no blocks, however many the pairs), `blocks` other than those that suit the pairs, and without the density
    factor; type-based moves after each sweep at T = 1."""

    seed: int = 1
    start: str = CUT
    threads: int = 1
    method: int = GIBBS
    exact: bool = False
    blocks: Blocks | None = None
    density: bool = True
    type_moves: int = 0


class Trial(Protocol):
    """A chain over some pairs, from an initial state of its own."""

    @property
    def table(self) -> RuleTable:
        """The counts of all rules."""

    @property
    def state(self) -> State:
        """The present derivations."""

    @property
    def seconds(self) -> float:
        """Seconds of sampling so far."""

    def sweep(self) -> None:
        """One sweep over all pairs, the next one of the schedule."""

    def log_likelihood(self) -> float:
        """Of all rule tokens, natural-log."""

    def close(self) -> None:
        """End threads."""


class PhraseTrial:
    """A chain over sentence pairs; `seconds` of sampling so far."""

    def __init__(self, model: Model, batch: Batch, schedule: PairSchedule, how: TrialOptions) -> None:
        self._how = how
        self._schedule = schedule
        self._executor = ThreadPoolExecutor(how.threads)
        self._kernel = build(
            model, batch, method=how.method,
            blocks=None if how.exact else how.blocks or Blocks.suited_to(batch.size),
            workers=how.threads, run=self._executor.map,
        )  # fmt: skip
        self._types = TypeSampler(model, batch) if how.type_moves and not model.pitman_yor else None
        derivations = initial_state(how.seed, batch, how.start)
        table = count_rules(batch, derivations, empty_table(batch.longest_rule), model)
        self._chain = ChainState(derivations, table)
        self._sweeps: NDArray[np.int64] = np.zeros(batch.size, np.int64)
        self.seconds = 0.0

    @property
    def table(self) -> RuleTable:
        """The counts of all rules."""
        return self._chain.table

    @property
    def state(self) -> Variables:
        """The present derivations."""
        return self._chain.derivations

    def sweep(self) -> None:
        """One sweep over all pairs, the next one of the schedule."""
        self._sweeps += 1
        stages, powers = self._schedule.stages(self._sweeps), self._schedule.powers(self._sweeps)
        plan = SweepPlan(self._sweeps, stages, powers, self._how.density, leaving=self._schedule.leaving)
        started = time.perf_counter()
        self._chain, _ = self._kernel.step(self._how.seed, self._chain, plan)
        if self._types is not None and at_temperature_one(powers):
            number = int(self._sweeps[0])
            self._chain, _ = self._types.step(self._how.seed, self._chain, number, self._how.type_moves)
        self.seconds += time.perf_counter() - started

    def log_likelihood(self) -> float:
        """Of all rule tokens, natural-log."""
        return log_likelihood(self.table, self._kernel.model)

    def close(self) -> None:
        """End threads."""
        self._executor.shutdown()
