"""Inversion transduction grammars of pairs without links, sampled by flat slices [BC10]."""

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import Drawn, Key, Loaded, Means, Report, RuleUse, Sweep, Turn
from hierogram.daemon.learning.kinds.raw_pairs import (
    BINARY_RULES,
    LoadedRawPairs,
    derivations_of,
    load_raw_pairs,
)
from hierogram.daemon.learning.kinds.state import Averages, State
from hierogram.daemon.learning.kinds.trials import TrialOptions
from hierogram.samplers.counts.chain import SweepInfo
from hierogram.samplers.counts.models import ModelSettings, build_model
from hierogram.samplers.counts.table import RuleTable, empty_table, fill_table
from hierogram.samplers.grammar.columns import join_blobs, no_blobs
from hierogram.samplers.grammar.keys import rule_key
from hierogram.samplers.grammar.rules import Rule, escape_terminal, parse_side, render_side
from hierogram.samplers.grammar.schedules import Annealing
from hierogram.samplers.grammar.settings import CUT, DIRICHLET, ITG
from hierogram.samplers.grammar.sizes import pack_size
from hierogram.samplers.itg.derivations import PAIR, Derivations, nodes_of
from hierogram.samplers.itg.model import STRENGTHS, ItgSettings
from hierogram.samplers.itg.sampler import ItgKernel, build
from hierogram.samplers.itg.starts import LEFT_BRANCHING, MODEL1
from hierogram.samplers.itg.sweeps import FLAT, ItgPlan, ItgState
from hierogram.storage.records import WAITING, LabelRow, PairRow, Settings
from hierogram.storage.store import Store

_SAMPLED = ItgSettings(sampled_words=False)
"""P_f and P_e are the words' relative frequencies in the pairs in memory, as Model 1 is that of these pairs: so both
follow from what is stored. The strengths of the other processes are sampled, and stored."""
_PROCESSES = STRENGTHS[:3]
"""Those that have a strength of their own to be stored."""


def course_of(settings: Settings) -> Annealing:
    """T = 1 from the first sweep; a pair has burned in after `settling` sweeps."""
    return Annealing(0, 1.0, settings.thinning, settings.settling)


class ItgChain:
    """The derivations of a store's pairs in memory, all at once, since Model 1 and the strengths belong to all."""

    def __init__(self, store: Store) -> None:
        self._seed = store.settings().seed
        self._strengths = {row.label: row.strength for row in store.labels()}
        # The base distributions' random streams are named by the sweeps of the store.
        self._sweeps = store.status().sweeps
        self._loaded: LoadedRawPairs | None = None
        self._kernel: ItgKernel | None = None
        self._state: ItgState | None = None

    @property
    def rule_types(self) -> int:
        """Rules in use."""
        if self._state is None:
            return 0
        pairs, source_nulls, target_nulls, rules = self._state.counts
        used = (pairs > 0, source_nulls > 0, target_nulls > 0, rules[:PAIR] > 0)
        return sum(int(column.sum()) for column in used)

    @property
    def rule_tokens(self) -> int:
        """Uses of rules."""
        return 0 if self._state is None else int(self._state.counts.rules.sum())

    def enter(self, loaded: Loaded, state: State, stored: NDArray[np.bool_]) -> None:
        """Take in all pairs, with what is known of the strengths."""
        assert isinstance(loaded, LoadedRawPairs)
        self._note_strengths()
        self._loaded = loaded
        self._kernel = build(loaded.batch, _SAMPLED, FLAT, loaded.model1)
        base = self._kernel.first_base
        known = [self._strengths.get(name, float(base.strengths[k])) for k, name in enumerate(STRENGTHS)]
        self._state = self._kernel.resume(derivations_of(state), base._replace(strengths=np.array(known)))

    def change(self, loaded: Loaded, state: State, change: int) -> None:
        """Forget the pairs in memory, which are not those of the store any more: the others have to be entered."""
        self._note_strengths()
        self._loaded = self._kernel = self._state = None

    def _note_strengths(self) -> None:
        self._strengths |= {row.label: row.strength for row in self.labels()}

    def sweep(self, loaded: Loaded) -> Sweep:
        """What sweeps over the pairs by flat slices, then draws the strengths."""
        kernel = self._kernel
        assert kernel is not None
        assert loaded is self._loaded

        def take(state: State, averages: Averages, turn: Turn, report: Report) -> tuple[State, SweepInfo]:
            before = self._state
            assert before is not None
            assert state is before.derivations
            self._sweeps += 1
            plan = ItgPlan(self._sweeps, np.where(turn.active, turn.sweeps, 0))
            self._state, info = kernel.step(self._seed, before, plan, report)
            loaded.average(averages, self._state.derivations, turn.averaged)
            return self._state.derivations, SweepInfo(info.proposed, info.accepted, 0, 0, info.combinations)

        return take

    def gather(self, state: State, averages: Averages) -> tuple[State, Averages]:
        """Nothing is elsewhere."""
        return state, averages

    def follow(self, store: Store) -> None:
        """Nothing: the base distributions are those of the pairs in memory."""

    def log_likelihood(self) -> float:
        """Of all derivations given the base distributions and strengths, natural-log."""
        if self._kernel is None or self._state is None:
            return 0.0
        return self._kernel.log_likelihood(self._state)

    def labels(self) -> list[LabelRow]:
        """The strengths of the processes of word pairs and of both sides' nulls."""
        if self._state is None:
            return []
        strengths = self._state.base.strengths[: len(_PROCESSES)].tolist()
        return [LabelRow(name, strength, 0.0) for name, strength in zip(_PROCESSES, strengths, strict=True)]

    def close(self) -> None:
        """Nothing to end."""


class ItgTrial:
    """A chain over some pairs, from an initial state of its own; see `Trial`."""

    def __init__(self, loaded: LoadedRawPairs, settings: Settings, how: TrialOptions) -> None:
        self._loaded = loaded
        self._settings = settings
        self._seed = how.seed
        self._kernel = build(loaded.batch, _SAMPLED, FLAT, loaded.model1)
        self._chain = self._kernel.init(how.seed, LEFT_BRANCHING if how.start == CUT else MODEL1)
        self._number = 0
        self.seconds = 0.0

    @property
    def table(self) -> RuleTable:
        """The counts of all rules."""
        trees = self._loaded.encode(self._chain.derivations)
        nothing = no_blobs(self._loaded.size)
        rules = self._loaded.rule_deltas(None, Drawn(trees, nothing), self._settings)
        longest = BINARY_RULES[0].length
        return fill_table(
            empty_table(longest, len(rules)),
            build_model(ModelSettings(DIRICHLET, 1.0, 0.0, 1.0), 1, 1, longest),
            rules.keys,
            rules.counts,
            pack_size(rules.lengths, rules.source_terminals, rules.target_terminals),
        )

    @property
    def state(self) -> State:
        """The present derivations."""
        return self._chain.derivations

    def sweep(self) -> None:
        """One sweep over all pairs, then new strengths."""
        self._number += 1
        started = time.perf_counter()
        plan = ItgPlan(self._number, np.full(self._loaded.size, self._number, np.int64))
        self._chain, _ = self._kernel.step(self._seed, self._chain, plan)
        self.seconds += time.perf_counter() - started

    def log_likelihood(self) -> float:
        """Of all derivations, natural-log."""
        return self._kernel.log_likelihood(self._chain)

    def close(self) -> None:
        """There are no threads to end."""


class Itg:
    """Word pairs, nulls, straight and inverted rules, from pairs without links."""

    name = ITG
    whole = True

    def load(self, rows: Sequence[PairRow], settings: Settings) -> LoadedRawPairs:
        """The pairs with the types of their word pairs."""
        return load_raw_pairs(rows, settings)

    def begin(self, loaded: Loaded, settings: Settings, due: NDArray[np.bool_]) -> State:
        """The likeliest derivations by Model 1, as far as its beam reaches; of the pairs that are due only."""
        assert isinstance(loaded, LoadedRawPairs)
        kernel = build(loaded.batch, _SAMPLED, FLAT, loaded.model1)
        return kernel.init(settings.seed, MODEL1, due=due).derivations

    def course(self, settings: Settings) -> Annealing:
        """No annealing, some sweeps to settle."""
        return course_of(settings)

    def chain(self, store: Store, means: Means) -> ItgChain:
        """The pairs' counts and parameters; one thread does it all, by flat slices."""
        return ItgChain(store)

    def trial(self, loaded: Loaded, settings: Settings, vocabulary: tuple[int, int], how: TrialOptions) -> ItgTrial:
        """A chain by flat slices, from left-branching derivations or from those of Model 1."""
        assert isinstance(loaded, LoadedRawPairs)
        return ItgTrial(loaded, settings, how)

    def key(self, source: str, target: str, salt: int) -> Key:
        """The key of a rule."""
        return rule_key(Rule(parse_side(source), parse_side(target)), salt)

    def show(self, row: PairRow, settings: Settings) -> list[RuleUse]:
        """The pair's derivation."""
        derivations = self.load([row], settings).decode(join_blobs([row.current or b""]))
        nodes = nodes_of(derivations, 0)
        source, target = row.source.split(" "), row.target.split(" ")
        return [_use(nodes, at, source, target) for at in range(len(nodes))]

    def warm_up(self, settings: Settings) -> tuple[LoadedRawPairs, Derivations]:
        """A pair of two words each, one sweep and new strengths."""
        loaded = self.load([PairRow(1, "a b", "c d", "", WAITING, 0, 0, None, None)], settings)
        trial = ItgTrial(loaded, settings, TrialOptions(settings.seed))
        trial.sweep()
        trial.log_likelihood()
        return loaded, derivations_of(trial.state)


def _use(nodes: NDArray[np.void], at: int, source: Sequence[str], target: Sequence[str]) -> RuleUse:
    """The rule of a node, with its spans; a node's children are the nodes right behind it and at its `right`."""
    rule, i, j, x, y, _, right = (int(value) for value in nodes[at])
    if rule < PAIR:
        sides = render_side(BINARY_RULES[rule].source), render_side(BINARY_RULES[rule].target)
        return RuleUse(*sides, (i, j), (x, y), (at + 1, right))
    words = [
        "" if start == end else escape_terminal(side[start]) for side, start, end in ((source, i, j), (target, x, y))
    ]
    return RuleUse(words[0], words[1], (i, j), (x, y), ())
