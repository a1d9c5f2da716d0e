"""What a kind of grammar can do, so that nothing else asks which kind a store holds.

A new kind is a module with these things, an entry in `registry.KINDS`, and one in `samplers.grammar.kinds.NOTATIONS`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.counts.chain import SweepInfo
from hierogram.samplers.counts.occurrences import Occurrences
from hierogram.samplers.counts.table import RuleTable
from hierogram.samplers.grammar.columns import Blobs
from hierogram.samplers.grammar.numbers import CLASSES, ONE_USE
from hierogram.samplers.grammar.rules import RuleUse
from hierogram.samplers.grammar.settings import CUT
from hierogram.samplers.synchronous.sweeps import GIBBS, Blocks
from hierogram.storage.records import LabelRow, PairRow, Settings
from hierogram.storage.records.columns import RuleDeltas
from hierogram.storage.store import Store

Report = Callable[[int], None]
"""Hears how many pairs of a sweep are done."""
Key = tuple[int, int]
"""A rule's key: its high and its low 64 bits, unsigned."""


class State(Protocol):
    """The present derivations of pairs in memory, in the form that their kind samples."""

    def copy(self) -> Self:
        """The same derivations, kept apart."""


class Averages(Protocol):
    """What pairs in memory expect to use, averaged over sweeps, in the form that their kind adds to."""

    @property
    def sweeps(self) -> NDArray[np.int64]:
        """Sweeps that each pair has averaged over, int64[P]."""


class Drawn(NamedTuple):
    """What is kept of pairs, and from which their rules are counted: `trees` the present derivation of each, as
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
        """Number of pairs."""

    def encode(self, state: State) -> Blobs:
        """Each pair's derivation as the store keeps it: sampling goes on exactly where it stopped."""

    def decode(self, blobs: Blobs) -> State:
        """Inverse of `encode`; raises `DerivationError` where bytes do not fit their pair."""

    def trees(self, state: State) -> Blobs:
        """Each pair's derivation as bytes, no more of it than counting needs."""

    def read_averages(self, records: Blobs) -> Averages:
        """What the pairs expect to use; raises `DerivationError` where bytes do not fit their pair."""

    def write_averages(self, averages: Averages) -> Blobs:
        """Each pair's record, empty where it has averaged over nothing; inverse of `read_averages`."""

    def left_out(self, records: Blobs, first: int = 0) -> NDArray[np.int64]:
        """What the pairs from `first` on expect to use of rules that they do not count, by number of nonterminals.

        int64[CLASSES], in units of 1/`ONE_USE`; of pairs with a record. Raises `DerivationError`.
        """

    def average(self, averages: Averages, state: State, due: NDArray[np.bool_]) -> None:
        """Average over the present derivations of the pairs that are due, too; changes the averages in place."""

    def rule_deltas(self, before: Drawn | None, after: Drawn | None, settings: Settings, first: int = 0) -> RuleDeltas:
        """By how much the counts of rules change, as columns for the store; rules whose counts stay are left out.

        None is nothing at all. Pair 0 of what is `before` and `after` is pair `first` of those in memory. Raises
        `DerivationError`, and `KeyCollisionError` where two rules have one key.
        """

    def occurrences(self, state: State) -> Occurrences:
        """The rules of every pair's derivation, by pair."""


def left_out_change(loaded: Loaded, before: Drawn | None, after: Drawn | None, first: int) -> tuple[float, ...]:
    """By how much the expected uses change that no rule counts, by number of nonterminals."""
    change = np.zeros(CLASSES, np.int64)
    for drawn, sign in ((before, -1), (after, 1)):
        if drawn is not None:
            change += sign * loaded.left_out(drawn.records, first)
    return tuple((change / ONE_USE).tolist())


class Course(Protocol):
    """The schedule that a pair goes through, by the number of its sweeps."""

    @property
    def burn_in(self) -> int:
        """Sweeps after which a pair has been through every stage."""

    def reached(self, sweeps: NDArray[np.int64]) -> NDArray[np.int64]:
        """The stage, from 1, of each pair's last sweep (of its first, before that)."""


class SweepRequest(NamedTuple):
    """What a sweep does: the number of each pair's sweep (from 1), which pairs take part, and which of these are
    averaged, too.
    """

    sweeps: NDArray[np.int64]
    active: NDArray[np.bool_]
    averaged: NDArray[np.bool_]


Sweep = Callable[[State, Averages, SweepRequest, Report], tuple[State, SweepInfo]]
"""Takes a state one sweep further and changes the chain's counts: state, what the pairs expect to use, the request, who
hears of it. Consumes the state, and changes the averages in place."""


class Chain(Protocol):
    """The counts and parameters of a store's grammar in memory; one at a time, while nobody else writes the store."""

    @property
    def rule_types(self) -> int:
        """Rules in use."""

    @property
    def rule_tokens(self) -> int:
        """Uses of rules."""

    def enter(self, loaded: Loaded, state: State, stored: NDArray[np.bool_]) -> None:
        """Take pairs in; the derivations of those that are not `stored` are counted from now on.

        Of a kind whose pairs are all in memory, these are all; what was in memory before is forgotten.
        """

    def change(self, loaded: Loaded, state: State, change: int) -> None:
        """Add `change` for each rule of the derivations; the store is changed by others."""

    def sweep(self, loaded: Loaded) -> Sweep:
        """What sweeps over these pairs, which were entered."""

    def gather(self, state: State, averages: Averages) -> tuple[State, Averages]:
        """What the last sweeps made of these pairs, where it was left elsewhere; before anybody else reads it."""

    def follow(self, store: Store) -> None:
        """Take into the model what it needs of the store's present contents, the size of its vocabulary."""

    def log_likelihood(self) -> float:
        """Of all rule tokens, natural-log."""

    def labels(self) -> list[LabelRow]:
        """What is learned besides counts, to be stored with them."""

    def close(self) -> None:
        """End threads and processes."""


@dataclass(frozen=True, slots=True)
class Means:
    """What a chain may use: threads, which change speed and never results; the method of its kernel; the blocks in
    which pairs are sampled, where they are not those that suit their number, of kinds that sample in blocks.
    """

    threads: int = 1
    method: int = GIBBS
    blocks: Blocks | None = None


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


class Kind(Protocol):
    """A kind of grammar."""

    @property
    def name(self) -> str:
        """As `Settings.grammar` has it."""

    @property
    def whole(self) -> bool:
        """Whether all pairs of a store have to be in memory together, since parameters belong to all of them."""

    def load(self, rows: Sequence[PairRow], settings: Settings) -> Loaded:
        """The pairs in memory; raises `SamplerError` where one is none of this kind."""

    def begin(self, loaded: Loaded, settings: Settings, due: NDArray[np.bool_]) -> State:
        """The initial state of each pair that is due, drawn from its own random stream; what others get is open."""

    def course(self, settings: Settings) -> Course:
        """The schedule."""

    def chain(self, store: Store, means: Means) -> Chain:
        """The counts of a store's grammar, with no pairs in memory yet."""

    def trial(self, loaded: Loaded, settings: Settings, vocabulary: tuple[int, int], how: TrialOptions) -> Trial:
        """A chain over these pairs alone, from an initial state of its own; `vocabulary` are the sizes of both."""

    def key(self, source: str, target: str, salt: int) -> Key:
        """The key of a rule."""

    def show(self, row: PairRow, settings: Settings) -> list[RuleUse]:
        """The pair's derivation, top-down in source order, the root's rule first.

        Raises `DerivationError` where what is stored does not fit the pair.
        """

    def warm_up(self, settings: Settings) -> tuple[Loaded, State]:
        """Has the kernels of this kind compiled, or loaded, with a small pair; returns it and its state."""
