"""Interface of a kind of grammar, so that no other code depends on the kind of a store.

A new kind is a module that implements it, an entry in `registry.KINDS`, and one in `samplers.grammar.kinds.NOTATIONS`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.counts.chain import SweepInfo
from hierogram.samplers.counts.table import CountTable
from hierogram.samplers.grammar.columns import Blobs
from hierogram.samplers.grammar.keys import rule_key
from hierogram.samplers.grammar.rules import Rule, RuleUse, parse_side
from hierogram.samplers.grammar.schedules import Annealing, Schedule
from hierogram.samplers.kernel import Report
from hierogram.samplers.synchronous.sweeps import Blocks
from hierogram.storage.records.columns import RuleCounts
from hierogram.storage.records.grammar import LabelRow
from hierogram.storage.records.operations import StoreStatus
from hierogram.storage.records.pairs import PairRow
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store

if TYPE_CHECKING:
    from hierogram.daemon.learning.kinds.itg import LoadedRawPairs
    from hierogram.daemon.learning.kinds.pairs import ForestPairs

Key = tuple[int, int]
"""Key of a rule: its high and low 64 bits, unsigned."""


State = Any
"""Current derivations of pairs in memory, in the format of their kind. `copy()` returns an independent copy."""
Averages = Any
"""Averaged expected uses of pairs in memory, in the format of their kind."""
KindBatch = Any
"""Pairs in memory as returned by `load` of the same kind, see `LoadedBatch`."""
PairSchedules = Schedule | Annealing
"""Schedule of a pair, by the number of its sweeps."""


class EmptyCounts:
    """Initial data of pairs that have never been sampled, with these numbers of source and target words."""

    def __init__(self, settings: Settings, vocabulary: tuple[int, int]) -> None:
        self._settings = settings
        self._vocabulary = vocabulary

    def settings(self) -> Settings:
        """Return the settings of model and schedule."""
        return self._settings

    def vocabulary_sizes(self) -> tuple[int, int]:
        """Return the numbers of distinct source and target words."""
        return self._vocabulary

    def rule_counts(self) -> RuleCounts:
        """Return an empty table of rules."""
        empty = np.zeros(0, np.int32)
        return RuleCounts(np.zeros((0, 2), np.uint64), np.zeros(0, np.int64), empty, empty, empty)

    def labels(self) -> list[LabelRow]:
        """Return an empty list of parameters."""
        return []

    def status(self) -> StoreStatus:
        """Return the status of a store without sweeps."""
        return StoreStatus("", "", 0)


InitialCounts = Store | EmptyCounts
"""Source of a chain's initial counts and parameters: a store, or `EmptyCounts`."""


class StoredSamples(NamedTuple):
    """Stored form of pairs, from which rules are counted.

    `trees`: current derivation of each pair, from `LoadedBatch.trees`. `records`: averages, from
    `LoadedBatch.write_averages`. `chosen` bool[P]: pairs that have a derivation (None: all).
    """

    trees: Blobs
    records: Blobs
    chosen: NDArray[np.bool_] | None = None


LoadedBatch: TypeAlias = "ForestPairs | LoadedRawPairs"
"""Pairs in memory: derivations and averages as bytes, and the rules that they use. Add the class of a new kind here."""


class SweepRequest(NamedTuple):
    """Request of a sweep: sweep number of each pair (from 1), sampled pairs, averaged pairs."""

    sweeps: NDArray[np.int64]
    active: NDArray[np.bool_]
    averaged: NDArray[np.bool_]


Sweep = Callable[[State, Averages, SweepRequest, Report], tuple[State, SweepInfo]]
"""Sweep function: takes state, averages, request and progress callback; returns the new state and statistics. Updates
the chain's counts and, in place, the averages. Consumes the state.
"""


class Chain(Protocol):
    """Counts and parameters of a store's grammar in memory. The store must have no other chain or writer."""

    @property
    def rule_types(self) -> int:
        """Number of rules in use."""

    @property
    def rule_tokens(self) -> int:
        """Number of rule uses."""

    def add_pairs(self, loaded: KindBatch, state: State, stored: NDArray[np.bool_]) -> None:
        """Add pairs, counting derivations that are not `stored`. A kind that holds all pairs replaces them."""

    def change_counts(self, loaded: KindBatch, state: State, weight: int) -> None:
        """Add `weight` to the count of each rule in the derivations. A kind that holds all pairs drops them."""

    def sweep(self, loaded: KindBatch) -> Sweep:
        """Return a function that sweeps over these pairs, which must have been added before."""

    def log_likelihood(self) -> float:
        """Return the natural log-likelihood of all rule tokens, given the other learned parameters."""

    def rule_table(self) -> CountTable:
        """Return the counts of all rules."""

    def gather(self, state: State, averages: Averages) -> tuple[State, Averages]:
        """Return the pairs' state and averages after the last sweeps, fetched from other processes if needed."""
        return state, averages

    def refresh_model(self, store: Store) -> None:
        """Update the model to the store's current contents, such as its vocabulary size."""
        return

    def labels(self) -> list[LabelRow]:
        """Return the learned parameters besides counts, to be stored with them."""
        return []

    def close(self) -> None:
        """End threads and processes."""
        return


@dataclass(frozen=True, slots=True)
class ChainConfig:
    """Threads, which never change results; blocks and schedule, if not the defaults of the kind and settings."""

    threads: int = 1
    blocks: Blocks | None = None
    schedule: PairSchedules | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of grammar, with the `name` that notations use.

    `needs_all_pairs`: all pairs of a store must be in memory together, since they share parameters. `load` raises
    `SamplerError` if a pair is not of this kind. `draw_initial_state` draws the initial state of each due pair from the
    pair's own random stream, from one of `STARTS` or, if it is None, from the settings' start; the state of other pairs
    is unspecified. `schedule` returns the schedule of new pairs. `chain` creates a chain from the counts of a store's
    grammar, without pairs. `key` returns the key of a rule, given its sides and the salt. `read_derivation` returns a
    pair's derivation, top-down in source order, root rule first, and raises `DerivationError` if the stored bytes do
    not fit the pair. `example` is a small pair for compiling or loading kernels in advance. `sweeps` is the default
    number of sweeps over all pairs after the burn-in, over which uses are averaged.
    """

    name: str
    needs_all_pairs: bool
    load: Callable[[Sequence[PairRow], Settings], KindBatch]
    draw_initial_state: Callable[[KindBatch, Settings, NDArray[np.bool_], str | None], State]
    schedule: Callable[[Settings], PairSchedules]
    chain: Callable[[InitialCounts, ChainConfig], Chain]
    key: Callable[[str, str, int], Key]
    read_derivation: Callable[[PairRow, Settings], list[RuleUse]]
    example: PairRow
    sweeps: int


def make_key(source: str, target: str, salt: int) -> Key:
    """Return the key of a rule, given both sides in text form."""
    return rule_key(Rule(parse_side(source), parse_side(target)), salt)
