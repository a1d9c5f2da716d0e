"""A treebank in memory, being sampled: its derivations, the counts of its fragments, and the priors' parameters."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.treebanks import LoadedTrees, load_trees
from hierogram.daemon.learning.kinds.trials import TrialOptions
from hierogram.samplers.counts.chain import SweepInfo
from hierogram.samplers.counts.deltas import add_state, empty_deltas
from hierogram.samplers.counts.table import RuleTable
from hierogram.samplers.forests.batch import State, initial_state
from hierogram.samplers.grammar.schedules import Annealing
from hierogram.samplers.grammar.settings import JOINED, UNIFORM
from hierogram.samplers.trees.models import LabelProcesses, TreeState, build_tree_model, label_processes
from hierogram.samplers.trees.rendering import render_fragments
from hierogram.samplers.trees.sweeps import TreePlan, build

FIRST_STRENGTH = 1.0
FIRST_EXPANDED = 0.5
"""α_c and β_c of a label before the first sweep."""


class LabelPrior(NamedTuple):
    """The Dirichlet process of a root label: strength α_c, and the probability β_c that the base expands the label."""

    strength: float = FIRST_STRENGTH
    expansion_probability: float = FIRST_EXPANDED


class CountedFragment(NamedTuple):
    """A fragment in bracket notation, its root label, and how often it is used."""

    label: str
    fragment: str
    uses: int


class TreeChain:
    """The chain over a treebank's derivations and parameters."""

    def __init__(
        self,
        loaded: LoadedTrees,
        state: State,
        base: str,
        seed: int,
        priors: Mapping[str, LabelPrior] | None = None,
    ) -> None:
        self.loaded = loaded
        self.trees = loaded.treebank
        self.seed = seed
        labels = self._processes(priors or {})
        self.kernel = build(build_tree_model(base, self.trees.expansions, labels), self.trees)
        self.chain: TreeState = self.kernel.resume(state, labels)

    @property
    def state(self) -> State:
        """The present derivations."""
        return self.chain.derivations

    @property
    def table(self) -> RuleTable:
        """The counts of all fragments."""
        return self.chain.table

    def _processes(self, priors: Mapping[str, LabelPrior]) -> LabelProcesses:
        known = [priors.get(label, LabelPrior()) for label in self.trees.labels]
        return label_processes(
            np.array([prior.strength for prior in known]), np.array([prior.expansion_probability for prior in known])
        )

    def set_priors(self, priors: Mapping[str, LabelPrior]) -> None:
        """Go on with these parameters; labels that are not named get those of the start."""
        self.chain = self.chain._replace(labels=self._processes(priors))

    def priors(self) -> dict[str, LabelPrior]:
        """The present parameters by label."""
        labels = self.chain.labels
        values = zip(labels.strength.tolist(), labels.expansion_probability.tolist(), strict=True)
        return dict(list(zip(self.trees.labels, map(LabelPrior._make, values), strict=True))[1:])

    def sweep(
        self,
        number: int,
        sweeps: NDArray[np.int64],
        temperatures: NDArray[np.float64],
        report: Callable[[int], None] | None = None,
    ) -> SweepInfo:
        """One sweep over the trees whose temperature is above 0, then new parameters.

        `number` counts the sweeps of the chain, `sweeps` those of each tree: both name random streams.
        """
        self.chain, info = self.kernel.step(self.seed, self.chain, TreePlan(number, sweeps, temperatures), report)
        return info

    def log_likelihood(self) -> float:
        """ln P of all fragments given the parameters."""
        return self.kernel.log_likelihood(self.chain)

    def fragments(self) -> list[CountedFragment]:
        """The grammar: every fragment in use, by label, the most used first."""
        deltas = add_state(empty_deltas(), self.trees.batch, self.state, 1, 0)
        chosen = np.arange(deltas.entries)
        roots, texts = render_fragments(deltas, chosen, self.trees.labels, self.loaded.words)
        counted = map(CountedFragment, roots, texts, deltas.counts[chosen].tolist())
        return sorted(counted, key=lambda fragment: (fragment.label, -fragment.uses, fragment.fragment))


def sample_treebank(
    texts: Sequence[str],
    *,
    base: str = UNIFORM,
    seed: int = 1,
    annealing: Annealing | None = None,
    sweeps: int = 100,
    start: str = JOINED,
    report: Callable[[int, TreeChain], None] | None = None,
) -> TreeChain:
    """Learn a tree-substitution grammar from trees or packed forests in brackets, without a store.

    Anneals, then takes `sweeps` more sweeps; `report` hears the number of each sweep done, and the chain. The grammar
    is the result's `fragments()`. Raises `BracketError`.
    """
    schedule = annealing or Annealing()
    loaded = load_trees(texts, range(1, len(texts) + 1))
    chain = TreeChain(loaded, initial_state(seed, loaded.batch, start), base, seed)
    for number in range(1, schedule.sweeps + sweeps + 1):
        own = np.full(loaded.treebank.size, number, np.int64)
        chain.sweep(number, own, schedule.temperatures(own))
        if report:
            report(number, chain)
    return chain


class TreeTrial:
    """A chain over a treebank, from an initial state of its own; see `Trial`."""

    def __init__(self, loaded: LoadedTrees, base: str, annealing: Annealing, how: TrialOptions) -> None:
        self._annealing = annealing
        self._chain = TreeChain(loaded, initial_state(how.seed, loaded.batch, how.start), base, how.seed)
        self._number = 0
        self.seconds = 0.0

    @property
    def table(self) -> RuleTable:
        """The counts of all fragments."""
        return self._chain.table

    @property
    def state(self) -> State:
        """The present derivations."""
        return self._chain.state

    def sweep(self) -> None:
        """One sweep over all trees, the next one of the annealing, then new parameters."""
        self._number += 1
        own = np.full(self._chain.trees.size, self._number, np.int64)
        started = time.perf_counter()
        self._chain.sweep(self._number, own, self._annealing.temperatures(own))
        self.seconds += time.perf_counter() - started

    def log_likelihood(self) -> float:
        """Of all fragments, natural-log."""
        return self._chain.log_likelihood()

    def close(self) -> None:
        """There are no threads to end."""
