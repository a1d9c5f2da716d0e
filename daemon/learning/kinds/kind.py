"""Kinds of grammar: all that one can do, so that nothing else asks which kind a store holds.

A new kind is a module with these things, an entry in `registry.KINDS`, and one in `samplers.grammar.kinds.NOTATIONS`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.counts.chain import SweepInfo
from hierogram.samplers.counts.occurrences import Occurrences
from hierogram.samplers.counts.table import RuleTable
from hierogram.samplers.grammar.columns import Blobs
from hierogram.samplers.grammar.keys import rule_key
from hierogram.samplers.grammar.numbers import CLASSES, ONE_USE
from hierogram.samplers.grammar.rules import Rule, RuleUse, parse_side
from hierogram.samplers.grammar.schedules import Annealing, Schedule
from hierogram.samplers.grammar.settings import CUT
from hierogram.samplers.synchronous.sweeps import GIBBS, Blocks
from hierogram.storage.records import (
    LabelRow,
    LearningRun,
    PairColumns,
    PairRow,
    RuleCounts,
    Settings,
    StoreStatus,
    SweepRecord,
)
from hierogram.storage.records.columns import RuleDeltas
from hierogram.storage.store import Store

Report = Callable[[int], None]
"""Hears how many pairs of a sweep are done."""
Key = tuple[int, int]
"""A rule's key: its high and its low 64 bits, unsigned."""


State = Any
"""The present derivations of pairs in memory, in the form that their kind samples; `copy()` keeps them apart."""
Averages = Any
"""What pairs in memory expect to use, averaged over sweeps, in the form that their kind adds to."""
Own = Any
"""Pairs in memory as the `load` of the same kind gives them, see `Loaded`."""
Course = Schedule | Annealing
"""The schedule that a pair goes through, by the number of its sweeps."""


class KnownCounts(Protocol):
    """Give what a chain reads when it begins: of a store, or of pairs in memory alone."""

    def settings(self) -> Settings:
        """The settings of model and schedule."""

    def vocabulary_sizes(self) -> tuple[int, int]:
        """Numbers of different source and target words."""

    def rule_counts(self) -> RuleCounts:
        """Every rule with a positive count."""

    def labels(self) -> list[LabelRow]:
        """Return what is learned besides counts."""

    def status(self) -> StoreStatus:
        """Return how far it has come."""


class Drawn(NamedTuple):
    """Pairs as they are kept, from which their rules are counted: `trees` the present derivation of each, as
    `Loaded.trees` gives it, `records` what it averaged, as `Loaded.write_averages` does; `chosen` bool[P] which pairs
    have a derivation (None: all).
    """

    trees: Blobs
    records: Blobs
    chosen: NDArray[np.bool_] | None = None


class Loaded(Protocol):
    """Pairs in memory: their derivations and averages as bytes and back, and which rules these use."""

    @property
    def size(self) -> int:
        """The number of pairs."""

    def encode(self, state: State) -> Blobs:
        """Return each pair's derivation as the store keeps it: sampling goes on exactly where it stopped."""

    def decode(self, blobs: Blobs) -> State:
        """Invert `encode`; raises `DerivationError` where bytes do not fit their pair."""

    def trees(self, state: State) -> Blobs:
        """Return each pair's derivation as bytes, no more of it than counting needs."""

    def read_averages(self, records: Blobs) -> Averages:
        """Return what the pairs expect to use; raises `DerivationError` where bytes do not fit their pair."""

    def write_averages(self, averages: Averages) -> Blobs:
        """Return each pair's record, empty where it has averaged over nothing; inverse of `read_averages`."""

    def left_out(self, records: Blobs, first: int = 0) -> NDArray[np.int64]:
        """Return what the pairs from `first` on expect to use of rules that they do not count, by nonterminals.

        int64[CLASSES], in units of 1/`ONE_USE`; of pairs with a record. Raises `DerivationError`.
        """

    def average(self, averages: Averages, state: State, due: NDArray[np.bool_]) -> None:
        """Average over the present derivations of the pairs that are due, too; changes the averages in place."""

    def rule_deltas(self, before: Drawn | None, after: Drawn | None, settings: Settings, first: int = 0) -> RuleDeltas:
        """Return by how much the counts of rules change, as columns for the store, without rules whose counts stay.

        None is nothing at all. Pair 0 of what is `before` and `after` is pair `first` of those in memory. Raises
        `DerivationError`, and `KeyCollisionError` where two rules have one key.
        """

    def occurrences(self, state: State) -> Occurrences:
        """Return the rules of every pair's derivation, by pair."""


def left_out_change(loaded: Loaded, before: Drawn | None, after: Drawn | None, first: int) -> tuple[float, ...]:
    """Return by how much the expected uses change that no rule counts, by number of nonterminals."""
    change = np.zeros(CLASSES, np.int64)
    for drawn, sign in ((before, -1), (after, 1)):
        if drawn is not None:
            change += sign * loaded.left_out(drawn.records, first)
    return tuple((change / ONE_USE).tolist())


class SweepRequest(NamedTuple):
    """A sweep: the number of each pair's sweep (from 1), which pairs take part, and which of these are
    averaged, too.
    """

    sweeps: NDArray[np.int64]
    active: NDArray[np.bool_]
    averaged: NDArray[np.bool_]


Sweep = Callable[[State, Averages, SweepRequest, Report], tuple[State, SweepInfo]]
"""Takes a state one sweep further and changes the chain's counts: state, what the pairs expect to use, the request, who
hears of it. Consumes the state, and changes the averages in place."""


class OpenBatch(Protocol):
    """Pairs that are sampled together, wherever they are: what a learner has to know of them."""

    sweeps: NDArray[np.int64]
    """How many each pair has had."""
    state: State
    present_averages: Averages

    @property
    def ids(self) -> NDArray[np.int64]:
        """The pairs, in ascending order."""

    @property
    def loaded(self) -> Own:
        """Return that over which their chain sweeps."""

    @property
    def averages(self) -> Averages:
        """Return what the pairs expect to use."""

    def commit(
        self, store: Store, records: list[SweepRecord], labels: Sequence[LabelRow] = (), run: LearningRun | None = None
    ) -> None:
        """Write how far they have come, the sweeps, and how far the `run` has come, in one transaction."""


class Chain(Protocol):
    """The counts and parameters of a store's grammar in memory; one at a time, while nobody else writes the store."""

    @property
    def rule_types(self) -> int:
        """Rules in use."""

    @property
    def rule_tokens(self) -> int:
        """Uses of rules."""

    def enter(self, loaded: Own, state: State, stored: NDArray[np.bool_]) -> None:
        """Take pairs in; the derivations of those that are not `stored` are counted from now on.

        Of a kind whose pairs are all in memory, these are all; what was in memory before is forgotten.
        """

    def change(self, loaded: Own, state: State, change: int) -> None:
        """Add `change` for each rule of the derivations; the store is changed by others.

        A kind whose pairs are all in memory forgets them: the others have to be entered.
        """

    def sweep(self, loaded: Own) -> Sweep:
        """Return a function that sweeps over these pairs, which were entered."""

    def log_likelihood(self) -> float:
        """Return that of all rule tokens, natural-log, given what is learned besides."""

    def gather(self, state: State, averages: Averages) -> tuple[State, Averages]:
        """Return what the last sweeps made of these pairs, where it was left elsewhere; before anybody reads it."""
        return state, averages

    def reads(self, store: Store) -> bool:
        """Return whether it may `open` pairs that it reads itself."""
        return False

    def open(self, store: Store, pairs: PairColumns) -> "OpenBatch | None":
        """Read these pairs, take them in, and count the derivations that are not stored; None where they have to be
        read and entered here."""
        return None

    def follow(self, store: Store) -> None:
        """Take into the model what it needs of the store's present contents, the size of its vocabulary."""
        return

    def labels(self) -> list[LabelRow]:
        """Return what is learned besides counts, to be stored with them."""
        return []

    def close(self) -> None:
        """End threads and processes."""
        return


@dataclass(frozen=True, slots=True)
class Means:
    """Means of a chain: threads, which change speed and never results; the method of its kernel; the blocks in
    which pairs are sampled, where they are not those that suit their number, of kinds that sample in blocks; the
    course of the sweeps, where it is not that of the settings.
    """

    threads: int = 1
    method: int = GIBBS
    blocks: Blocks | None = None
    course: Course | None = None


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """Ways to run a chain: its seed and start (`STARTS`), threads, the method of its kernel, and, for comparisons only,
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
    """A chain over some pairs, from an initial state of its own; `seconds` of sampling so far."""

    seconds: float

    @property
    def table(self) -> RuleTable:
        """The counts of all rules."""

    @property
    def state(self) -> State:
        """The present derivations."""

    def sweep(self) -> None:
        """Sweep over all pairs once, by the next step of the schedule."""

    def log_likelihood(self) -> float:
        """Return that of all rule tokens, natural-log."""

    def close(self) -> None:
        """End threads."""
        return


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of grammar, by the `name` that notations give it.

    `whole`: all pairs of a store have to be in memory together, since parameters belong to all of them. `load` raises
    `SamplerError` where a pair is none of this kind. `begin` draws the initial state of each pair that is due from its
    own random stream; what others get is open. `course` is the schedule. `chain` has the counts of a store's grammar,
    with no pairs in memory yet, `trial` pairs alone and both vocabularies' sizes. `key` is that of a rule, by its sides
    and the salt. `show` gives a pair's derivation, top-down in source order, the root's rule first; raises
    `DerivationError` where what is stored does not fit the pair. The `example` is a small pair, by which kernels are
    compiled, or loaded, before others come.
    """

    name: str
    whole: bool
    load: Callable[[Sequence[PairRow], Settings], Loaded]
    begin: Callable[[Own, Settings, NDArray[np.bool_]], State]
    course: Callable[[Settings], Course]
    chain: Callable[[KnownCounts, Means], Chain]
    trial: Callable[[Own, Settings, tuple[int, int], TrialOptions], Trial]
    key: Callable[[str, str, int], Key]
    show: Callable[[PairRow, Settings], list[RuleUse]]
    example: PairRow


def key_of_sides(source: str, target: str, salt: int) -> Key:
    """Return the key of a rule with two sides of symbols."""
    return rule_key(Rule(parse_side(source), parse_side(target)), salt)
