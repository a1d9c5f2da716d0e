"""Interface of a kind of grammar, so that no other code depends on the kind of a store.

A new kind needs a module that implements this interface, an entry in `stored.KINDS`, and an entry in
`hierogram.samplers.grammar.kinds.GRAMMAR_KINDS`.
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
"""Key of a rule: the high and low 64 bits, unsigned."""

State = Any
"""Current derivations of pairs in memory, in the format of their kind. The type has a method `copy`."""
Averages = Any
"""Averaged expected uses of pairs in memory, in the format of their kind."""
KindBatch = Any
"""Pairs in memory, as returned by `Kind.load`. See `LoadedBatch`."""
PairSchedule = Schedule | Annealing
"""Schedule of a pair, by the number of its sweeps."""


class EmptyCounts:
    """Initial counts for pairs that are not in a store, given the sizes of both vocabularies."""

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
    """Encoded derivations and averages of pairs, from which rules are counted.

    `trees` are the current derivations, from `LoadedBatch.trees`, and `records` the averages, from
    `LoadedBatch.write_averages`. `chosen` bool[pairs] selects the pairs with a derivation (None for all pairs).
    """

    trees: Blobs
    records: Blobs
    chosen: NDArray[np.bool_] | None = None


LoadedBatch: TypeAlias = "ForestPairs | LoadedRawPairs"
"""Classes of batches in memory, which encode and decode derivations and count rules. Add new classes here."""


class SweepRequest(NamedTuple):
    """Request of a sweep: sweep number of each pair (from 1), and masks of sampled and averaged pairs."""

    sweeps: NDArray[np.int64]
    active: NDArray[np.bool_]
    averaged: NDArray[np.bool_]


Sweep = Callable[[State, Averages, SweepRequest, Report], tuple[State, SweepInfo]]
"""Sweep function: takes state, averages, request and progress callback, and returns the new state
and statistics. The old state must not be used again. Averages and chain are updated in place.
"""


class Chain(Protocol):
    """Counts and parameters of a grammar in memory. The store must not have another chain or writer."""

    @property
    def rule_types(self) -> int:
        """Number of rules in use."""
        return self.rule_table().rule_types

    @property
    def rule_tokens(self) -> int:
        """Number of rule uses."""
        return self.rule_table().rule_tokens

    def add_pairs(self, loaded: KindBatch, state: State, stored: NDArray[np.bool_]) -> None:
        """Add pairs and count derivations that are not `stored`. Some kinds replace the pairs in memory."""

    def change_counts(self, loaded: KindBatch, state: State, weight: int) -> None:
        """Add `weight` to the count of each rule in the derivations, or drop all pairs, which must be added again."""

    def sweep(self, loaded: KindBatch) -> Sweep:
        """Return a function that sweeps over these pairs. `add_pairs` must be called first."""

    def log_likelihood(self) -> float:
        """Return the natural log-likelihood of all rule tokens, given the learned parameters."""

    def rule_table(self) -> CountTable:
        """Return the counts of all rules."""

    def gather(self, state: State, averages: Averages) -> tuple[State, Averages]:
        """Return the pairs' state and averages after the last sweeps, fetched from other processes if needed."""
        return state, averages

    def refresh_model(self, store: Store) -> None:
        """Update the model to the store's current contents, such as its vocabulary size."""
        return

    def labels(self) -> list[LabelRow]:
        """Return the learned parameters that are stored with the counts."""
        return []

    def close(self) -> None:
        """End threads and processes."""
        return


@dataclass(frozen=True, slots=True)
class ChainConfig:
    """Configuration of a chain. None selects the default. `threads` does not change results."""

    threads: int = 1
    blocks: Blocks | None = None
    schedule: PairSchedule | None = None


def _make_key(source: str, target: str, salt: int) -> Key:
    return rule_key(Rule(parse_side(source), parse_side(target)), salt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Functions and default values of a kind of grammar."""

    name: str
    needs_all_pairs: bool
    """True if all pairs of a store must be in memory together, because they share parameters."""
    load: Callable[[Sequence[PairRow], Settings], KindBatch]
    """Loads pairs into memory. Raises one of `stored.UNREADABLE` if a pair is malformed."""
    draw_initial_state: Callable[[KindBatch, Settings, NDArray[np.bool_], str | None], State]
    """Draws the initial states of the pairs in the mask from the pairs' own random streams. Other states are
    unspecified. The last argument is one of `STARTS`, or None for the default of the kind and its settings.
    """
    schedule: Callable[[Settings], PairSchedule]
    """Returns the schedule of new pairs."""
    chain: Callable[[InitialCounts, ChainConfig], Chain]
    """Creates a chain with the counts of a store, without pairs."""
    key: Callable[[str, str, int], Key] = _make_key
    """Returns the key of a rule, given its sides and the salt."""
    read_derivation: Callable[[PairRow, Settings], list[RuleUse]]
    """Returns a derivation, top-down in source order. Raises `DerivationError` for invalid bytes."""
    example: PairRow
    """Small pair for compiling or loading kernels in advance."""
    sweeps: int
    """Default number of sweeps over all pairs after the burn-in, over which uses are averaged."""
