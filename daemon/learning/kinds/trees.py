"""Tree grammars: fragments of a treebank's trees, sampled against the counts of all others [CGB09]."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.chains import LabelPrior, TreeChain, TreeTrial
from hierogram.daemon.learning.kinds.counting import fragment_averages, variables
from hierogram.daemon.learning.kinds.derivations import expansions_of, places_of, tails_of
from hierogram.daemon.learning.kinds.kind import Key, Loaded, Means, Report, RuleUse, Sweep, Turn
from hierogram.daemon.learning.kinds.state import Averages, State
from hierogram.daemon.learning.kinds.treebanks import LoadedTrees, load_trees
from hierogram.daemon.learning.kinds.trials import TrialOptions
from hierogram.samplers.counts.chain import SweepInfo
from hierogram.samplers.forests.averages import add_trees
from hierogram.samplers.forests.batch import State as Variables
from hierogram.samplers.forests.batch import initial_state
from hierogram.samplers.forests.forest import Forests
from hierogram.samplers.grammar.keys import fragment_key
from hierogram.samplers.grammar.schedules import Annealing
from hierogram.samplers.grammar.settings import TREES
from hierogram.storage.records import LabelRow, PairRow, Settings
from hierogram.storage.store import Store

_EXAMPLE = "(S (| #1=(A a) (B (C b) (C c))) (| (#1) (B (C b) (D c))))"
"""A sentence with two parses."""


def annealing_of(settings: Settings) -> Annealing:
    """The store's schedule."""
    return Annealing(settings.annealing, settings.temperature, settings.thinning)


class TreebankChain:
    """A treebank in memory, all trees at once.

    The base distribution P_C and the parameters of the labels belong to the whole treebank, so it is never sampled in
    parts.
    """

    def __init__(self, store: Store) -> None:
        self._settings = store.settings()
        self._annealing = annealing_of(self._settings)
        self._priors = {row.label: LabelPrior(row.strength, row.expansion_probability) for row in store.labels()}
        # The parameters' random streams are named by the sweeps of the store.
        self._sweeps = store.status().sweeps
        self._chain: TreeChain | None = None

    @property
    def rule_types(self) -> int:
        """Fragments in use."""
        return 0 if self._chain is None else self._chain.table.rule_types

    @property
    def rule_tokens(self) -> int:
        """Uses of fragments."""
        return 0 if self._chain is None else self._chain.table.rule_tokens

    def enter(self, loaded: Loaded, state: State, stored: NDArray[np.bool_]) -> None:
        """Take in all trees, with what is known of their labels."""
        assert isinstance(loaded, LoadedTrees)
        if self._chain is not None:
            self._priors |= self._chain.priors()
        self._chain = TreeChain(loaded, variables(state), self._settings.base, self._settings.seed, self._priors)

    def change(self, loaded: Loaded, state: State, change: int) -> None:
        """Forget the trees in memory, which are not those of the store any more: the others have to be entered."""
        if self._chain is not None:
            self._priors |= self._chain.priors()
            self._chain = None

    def sweep(self, loaded: Loaded) -> Sweep:
        """What sweeps over the trees and then moves the labels' parameters."""
        chain = self._chain
        assert chain is not None
        assert chain.loaded is loaded

        def take(state: State, averages: Averages, turn: Turn, report: Report) -> tuple[State, SweepInfo]:
            temperatures = np.where(turn.active, self._annealing.temperatures(turn.sweeps), 0.0)
            self._sweeps += 1
            assert state is chain.state
            info = chain.sweep(self._sweeps, turn.sweeps, temperatures, report)
            add_trees(fragment_averages(averages), chain.trees.batch, chain.state, turn.averaged)
            return chain.state, info

        return take

    def gather(self, state: State, averages: Averages) -> tuple[State, Averages]:
        """Nothing is elsewhere."""
        return state, averages

    def follow(self, store: Store) -> None:
        """Nothing: the base distribution is that of the trees in memory."""

    def log_likelihood(self) -> float:
        """Of all fragments given the labels' parameters, natural-log."""
        return 0.0 if self._chain is None else self._chain.log_likelihood()

    def labels(self) -> list[LabelRow]:
        """The parameters of the labels."""
        return [] if self._chain is None else [LabelRow(label, *prior) for label, prior in self._chain.priors().items()]

    def close(self) -> None:
        """Nothing to end."""


class Trees:
    """Fragments of trees, from a treebank."""

    name = TREES
    whole = True

    def load(self, rows: Sequence[PairRow], settings: Settings) -> LoadedTrees:
        """The trees with their forests."""
        return load_trees([row.target for row in rows], [row.id for row in rows], settings.key_salt)

    def begin(self, loaded: Loaded, settings: Settings, due: NDArray[np.bool_]) -> State:
        """Cuts by the store's start, a random edge at each node."""
        assert isinstance(loaded, LoadedTrees)
        return initial_state(settings.seed, loaded.batch, settings.start)

    def course(self, settings: Settings) -> Annealing:
        """Annealing."""
        return annealing_of(settings)

    def chain(self, store: Store, means: Means) -> TreebankChain:
        """A treebank's counts and parameters; one thread does it all, by one method."""
        return TreebankChain(store)

    def trial(self, loaded: Loaded, settings: Settings, vocabulary: tuple[int, int], how: TrialOptions) -> TreeTrial:
        """A chain by the store's base distribution and annealing."""
        assert isinstance(loaded, LoadedTrees)
        return TreeTrial(loaded, settings.base, annealing_of(settings), how)

    def key(self, source: str, target: str, salt: int) -> Key:
        """The key of a fragment."""
        return fragment_key(source, target, salt)

    def show(self, row: PairRow, settings: Settings) -> list[RuleUse]:
        """The tree's derivation."""
        loaded = self.load([row], settings)
        forests, labels = loaded.batch.forests, loaded.treebank.labels
        state, expansions = expansions_of(forests, row.current or b"")
        places = places_of(expansions)
        words = row.source.split(" ")
        uses = []
        for head, tails, _ in expansions:
            at = forests.node[head]
            span = int(at["source_start"]), int(at["source_end"])
            fragment = _fragment(head, forests, state, labels, words)
            uses.append(RuleUse(labels[int(at["label"])], fragment, span, (0, 0), tuple(places[t] for t in tails)))
        return uses

    def warm_up(self, settings: Settings) -> tuple[LoadedTrees, State]:
        """A small forest, one sweep and new parameters."""
        loaded = load_trees([_EXAMPLE], [1])
        chain = TreeChain(loaded, initial_state(settings.seed, loaded.batch), settings.base, settings.seed)
        chain.sweep(1, np.ones(1, np.int64), np.ones(1))
        chain.log_likelihood()
        return loaded, chain.state


def _fragment(head: int, forests: Forests, state: Variables, labels: Sequence[str], words: Sequence[str]) -> str:
    """The fragment at a node in brackets."""
    pieces: list[str] = []
    stack: list[int | str] = [head]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            pieces.append(item)
            continue
        at = forests.node[item]
        label = labels[int(at["label"])]
        if item != head and state.cut[item]:
            pieces.append(f" ({label})")
            continue
        pieces.append(f" ({label}")
        inside: list[int | str] = []
        position = int(at["source_start"])
        for tail in tails_of(forests, state, item):
            inside += [f" {word}" for word in words[position : int(forests.node[tail]["source_start"])]]
            inside.append(tail)
            position = int(forests.node[tail]["source_end"])
        inside += [f" {word}" for word in words[position : int(at["source_end"])]]
        stack += [")", *reversed(inside)]
    return "".join(pieces)[1:]
