"""Kinds of grammar: their interface, and loading of stored pairs.

A new kind needs an entry in `hierogram.samplers.grammar.kinds.GRAMMAR_KINDS`, and a module of its name in this package
that implements the interface as `KIND`.

All stored derivations pass through `load_stored`, which validates the bytes, because kernels do not check indices or
the end of a derivation. A damaged byte raises an error that names the pair before a kernel runs.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.counts.chain import SweepInfo
from hierogram.samplers.counts.table import CountTable
from hierogram.samplers.exceptions import DerivationError, SamplerError
from hierogram.samplers.grammar.columns import Blobs, join_blobs, split_blobs
from hierogram.samplers.grammar.keys import rule_key
from hierogram.samplers.grammar.kinds import find_grammar_kind
from hierogram.samplers.grammar.rules import Rule, RuleUse, parse_side
from hierogram.samplers.grammar.schedules import Annealing, Schedule
from hierogram.samplers.kernel import Report
from hierogram.samplers.synchronous.sweeps import Blocks
from hierogram.storage.records.columns import RuleCounts, RuleDeltas
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

# These types depend on the kind of grammar. They are `Any`, because a chain takes only the types of its own kind.
State = Any
"""Current derivations of pairs in memory. The type has a method `copy`."""
Averages = Any
"""Expected rule uses of the pairs in memory, averaged over sweeps after the burn-in."""
KindBatch = Any
"""Pairs in memory, as returned by `Kind.load`: one of the classes of `LoadedBatch`."""
PairSchedule = Schedule | Annealing
"""Schedule of a pair: determines the burn-in, and temperature and node levels of each sweep."""


class EmptyCounts:
    """Substitute for a store without rules, given the numbers of distinct source and target words."""

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
"""Source of a chain's initial counts, parameters and settings."""


class StoredSamples(NamedTuple):
    """Derivations and averages of consecutive pairs of a batch, from which rules are counted.

    `state` has the derivations of the whole batch, and `records` the averages of the consecutive pairs as bytes, see
    `LoadedBatch.write_averages`. `chosen` bool[pairs] is True for the consecutive pairs that have a derivation; None
    selects all.
    """

    state: State
    records: Blobs
    chosen: NDArray[np.bool_] | None = None


LoadedBatch: TypeAlias = "ForestPairs | LoadedRawPairs"
"""Classes of batches in memory, which encode derivations and count rules. Add new classes here."""


class SweepRequest(NamedTuple):
    """Number of the sweep for each pair (int64[P], from 1), and masks of sampled and averaged pairs."""

    sweeps: NDArray[np.int64]
    active: NDArray[np.bool_]
    averaged: NDArray[np.bool_]


Sweep = Callable[[State, Averages, SweepRequest, Report], tuple[State, SweepInfo]]
"""Sweep over a batch. Updates averages and chain in place, and returns new state and statistics.
The old state must not be used again.
"""


class Chain(Protocol):
    """Counts and parameters of a grammar. Call `add_pairs`, `sweep`, the returned function, then `gather`."""

    @property
    def rule_types(self) -> int:
        """Number of rules in use."""
        return self.rule_table().rule_types

    @property
    def rule_tokens(self) -> int:
        """Number of rule uses."""
        return self.rule_table().rule_tokens

    def add_pairs(self, loaded: KindBatch, state: State, stored: NDArray[np.bool_]) -> None:
        """Count derivations that are not `stored`. Kinds that need all pairs replace the pairs in memory."""

    def change_counts(self, loaded: KindBatch, state: State, weight: int) -> None:
        """Add `weight` to the counts of rules. Kinds that need all pairs drop them, to be added again."""

    def sweep(self, loaded: KindBatch) -> Sweep:
        """Return a function that sweeps over these pairs, the last pairs given to `add_pairs`."""

    def log_likelihood(self) -> float:
        """Return the natural log-likelihood of all rule tokens, given the learned parameters."""

    def rule_table(self) -> CountTable:
        """Return the counts of all rules, after the changes of all finished sweeps."""

    def gather(self, state: State, averages: Averages) -> tuple[State, Averages]:
        """Return state and averages after the last sweep, fetched from other processes if these sample."""
        return state, averages

    def refresh_model(self, store: Store) -> None:
        """Update the base distribution to the vocabulary sizes of a store whose pairs have changed."""
        return

    def labels(self) -> list[LabelRow]:
        """Return the learned parameters that are stored with the counts, or [] if the model has none."""
        return []

    def close(self) -> None:
        """End threads and processes."""
        return


@dataclass(frozen=True, slots=True)
class ChainConfig:
    """Configuration of a chain; None selects the default. Kinds that need all pairs ignore it."""

    threads: int = 1
    blocks: Blocks | None = None
    schedule: PairSchedule | None = None


class AllPairsChain(Chain):
    """Chain over all pairs of a store, which must be in memory because they share parameters."""

    loaded: KindBatch
    kernel: Any

    def __init__(self, store: InitialCounts, config: ChainConfig) -> None:
        self._settings = store.settings()
        self._parameters = {row.label: row for row in store.labels()}
        # The sweep count selects the random streams of the parameters, so continue the count of the store.
        self._sweeps = store.status().sweeps
        self.state: Any = None
        """State of the kernel, or None without pairs in memory."""

    @abstractmethod
    def _start(self, state: State) -> None:
        """Set `kernel` and `state` for the pairs `loaded`, given their derivations and `_parameters` by label."""

    @abstractmethod
    def _step(self, request: SweepRequest, report: Report) -> SweepInfo:
        """Sweep over the pairs in memory, and replace `state`."""

    def add_pairs(self, loaded: KindBatch, state: State, stored: NDArray[np.bool_]) -> None:
        """Replace the pairs in memory, and count the rules in their derivations."""
        self._drop_pairs()
        self.loaded = loaded
        self._start(state)

    def change_counts(self, loaded: KindBatch, state: State, weight: int) -> None:
        """Drop all pairs. The caller must add all remaining pairs again, which recounts their rules."""
        self._drop_pairs()

    def _drop_pairs(self) -> None:
        self._parameters |= {row.label: row for row in self.labels()}
        # Drop the pairs as well, so that they are not in memory together with the pairs that replace them.
        self.loaded = self.kernel = self.state = None

    def sweep(self, loaded: KindBatch) -> Sweep:
        """Return a function that sweeps over the pairs, and then draws new parameters."""
        assert loaded is self.loaded

        def run_sweep(
            state: State, averages: Averages, request: SweepRequest, report: Report
        ) -> tuple[State, SweepInfo]:
            assert state is self.state.derivations
            self._sweeps += 1
            info = self._step(request, report)
            loaded.average(averages, self.state.derivations, request.averaged)
            return self.state.derivations, info

        return run_sweep

    def log_likelihood(self) -> float:
        """Return the natural log-likelihood of all rule tokens, given the parameters."""
        return 0.0 if self.state is None else float(self.kernel.log_likelihood(self.state))


def _make_key(source: str, target: str, salt: int) -> Key:
    return rule_key(Rule(parse_side(source), parse_side(target)), salt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Functions and default values of a kind of grammar."""

    name: str
    needs_all_pairs: bool
    """True if all pairs of a store must be in memory together, because they share parameters."""
    load: Callable[[Sequence[PairRow], Settings], KindBatch]
    """Loads pairs, without their derivations. Raises one of `UNREADABLE` if a pair is malformed."""
    draw_initial_state: Callable[[KindBatch, Settings, NDArray[np.bool_], str | None], State]
    """Draws initial derivations of the pairs in the mask. Those of other pairs are unspecified.
    The last argument is one of `STARTS`, or None for the default of kind and settings.
    """
    schedule: Callable[[Settings], PairSchedule]
    """Returns the schedule of new pairs."""
    chain: Callable[[InitialCounts, ChainConfig], Chain]
    """Creates a chain with the rule counts of a store, without pairs in memory."""
    key: Callable[[str, str, int], Key] = _make_key
    """Returns the key of a rule, given its sides and the salt."""
    read_derivation: Callable[[PairRow, Settings], list[RuleUse]]
    """Returns the rules of a pair's stored derivation, top-down in source order. Raises `DerivationError`."""
    example: PairRow
    """Small pair for compiling or loading kernels in advance."""
    sweeps: int
    """Default number of sweeps over all pairs after the burn-in, over which uses are averaged."""


def find_kind(settings: Settings) -> Kind:
    """Return the kind of grammar that the setting `grammar` names. Raises `SamplerError` if it is unknown."""
    # Import a kind when it is first used, because its kernels load slowly.
    kind: Kind = import_module(f"{__package__}.{find_grammar_kind(settings.grammar).name}").KIND
    return kind


UNREADABLE = (SamplerError, ValueError, TypeError, AttributeError, IndexError, OverflowError)
"""Errors raised if the bytes or texts of pairs, derivations or links are malformed."""
_MAX_NAMED_PAIRS = 5

DERIVATION, LINKS, ALIGNMENT, TEXTS = "derivation", "links", "alignment", "texts"
"""Damaged part of a pair: derivation or averages, links of the aligner, alignment, or texts.
All but the texts can be recomputed.
"""


class Damage(NamedTuple):
    """Damaged pair, with the reason why it cannot be read, and the damaged `part`, such as `DERIVATION`."""

    pair_id: int
    reason: str
    part: str = DERIVATION

    def __str__(self) -> str:
        return f"pair {self.pair_id}: {self.reason}"


class DamagedPairsError(DerivationError):
    """Raised if stored pairs are damaged. `damaged` lists them by id."""

    def __init__(self, damaged: Sequence[Damage]) -> None:
        self.damaged = tuple(damaged)
        more = f" and {len(damaged) - _MAX_NAMED_PAIRS} more" if len(damaged) > _MAX_NAMED_PAIRS else ""
        named = "; ".join(map(str, damaged[:_MAX_NAMED_PAIRS]))
        super().__init__(f"{named}{more}: damaged in the store: run `hierogram repair`")

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling, because workers send this error."""
        return DamagedPairsError, (self.damaged,)


class ValidatedPairs(NamedTuple):
    """Pairs in memory with their validated derivations and averages.

    `stored` bool[P] is True for pairs with a stored derivation. Other pairs have an initial derivation. `records` are
    the averages as bytes, empty for pairs without averages. `averages` are the averages for the sampler, or None if
    they were not requested.
    """

    loaded: LoadedBatch
    state: State
    records: Blobs
    stored: NDArray[np.bool_]
    averages: Averages | None

    def rules(self) -> RuleDeltas:
        """Return the rules of the pairs' derivations and averages, with their counts."""
        return self.loaded.rule_deltas(None, StoredSamples(self.state, self.records))


def load_stored(rows: Sequence[PairRow], settings: Settings, *, averages: bool = False) -> ValidatedPairs:
    """Load pairs with their derivations and averages. Pairs without a derivation get an initial state.

    With `averages`, averages are read for sampling. Otherwise, they are only validated. Raises `DamagedPairsError` if
    a pair cannot be read, and the errors of `Kind.load` if each pair can be read but not all of them together.
    """
    try:
        return _load(rows, settings, averages=averages)
    except UNREADABLE:
        damaged = find_damage(rows, settings)
        if not damaged:
            raise
        raise DamagedPairsError(damaged) from None


def load_undamaged(rows: Sequence[PairRow], settings: Settings) -> tuple[list[PairRow], ValidatedPairs]:
    """Load the pairs that can be read. Returns their rows and the loaded pairs."""
    try:
        return list(rows), load_stored(rows, settings)
    except DamagedPairsError as error:
        damaged_ids = {damage.pair_id for damage in error.damaged}
    undamaged = [row for row in rows if row.id not in damaged_ids]
    return undamaged, load_stored(undamaged, settings)


def find_damage(rows: Sequence[PairRow], settings: Settings) -> list[Damage]:
    """Return the pairs that cannot be read, sorted by id. `load_stored` is faster without damage."""
    derived = [row for row in rows if row.current is not None or not row.is_intact()]
    others = [row for row in rows if row.current is None and row.is_intact()]
    return sorted(_bisect(derived, settings, True) + _bisect(others, settings, False))


def _load(rows: Sequence[PairRow], settings: Settings, *, averages: bool) -> ValidatedPairs:
    if altered := [k for k, row in enumerate(rows) if not row.is_intact()]:
        message = f"the derivation and averages of pair {rows[altered[0]].id} do not match their checksum"
        raise DerivationError(message, altered, "derivation and averages do not match their checksum")
    kind = find_kind(settings)
    loaded = kind.load(rows, settings)
    stored = np.array([row.current is not None for row in rows], np.bool_)
    states = [row.current or b"" for row in rows]
    if not stored.all():
        initial_states = split_blobs(loaded.encode(kind.draw_initial_state(loaded, settings, ~stored, None)))
        states = [
            initial if row.current is None else row.current for row, initial in zip(rows, initial_states, strict=True)
        ]
    state = loaded.decode(join_blobs(states))
    records = join_blobs([row.averages or b"" for row in rows])
    if averages:
        return ValidatedPairs(loaded, state, records, stored, loaded.read_averages(records))
    loaded.check_averages(records)
    return ValidatedPairs(loaded, state, records, stored, None)


def _bisect(rows: Sequence[PairRow], settings: Settings, with_derivations: bool) -> list[Damage]:
    if not rows:
        return []
    try:
        if with_derivations:
            _load(rows, settings, averages=False)
        else:
            find_kind(settings).load(rows, settings)
        return []
    except UNREADABLE as error:
        if isinstance(error, DerivationError) and error.pairs:
            damaged_indices = set(error.pairs)
            undamaged = [row for k, row in enumerate(rows) if k not in damaged_indices]
            damaged = [Damage(rows[k].id, f"its derivation cannot be read: {error.reason}") for k in error.pairs]
            return damaged + _bisect(undamaged, settings, with_derivations)
        if len(rows) == 1:
            part = _unreadable_part(rows[0], settings)
            subject = "it" if part == TEXTS else f"its {part}"
            reason = str(error).removeprefix(f"pair {rows[0].id}: ")
            return [Damage(rows[0].id, f"{subject} cannot be read: {reason}", part)]
    middle = len(rows) // 2
    return _bisect(rows[:middle], settings, with_derivations) + _bisect(rows[middle:], settings, with_derivations)


def _unreadable_part(row: PairRow, settings: Settings) -> str:
    for part, candidate in ((DERIVATION, row), (ALIGNMENT, row._replace(alignment=""))):
        with suppress(*UNREADABLE):
            find_kind(settings).load([candidate], settings)
            return part
    return TEXTS
