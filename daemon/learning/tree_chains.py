"""A treebank in memory, being sampled: its derivations, the counts of its fragments, and the priors' parameters."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.tree_batches import LoadedTrees, load_trees
from hierogram.samplers.counts.deltas import empty_ledger, tally
from hierogram.samplers.counts.table import RuleTable, empty_table
from hierogram.samplers.grammar.schedules import Annealing
from hierogram.samplers.synchronous.sweeps import State, SweepInfo
from hierogram.samplers.trees.models import UNIFORM, TreeModel, build_tree_model, set_labels
from hierogram.samplers.trees.priors import move_expansions, move_strengths, tree_log_likelihood
from hierogram.samplers.trees.rendering import render_fragments
from hierogram.samplers.trees.sweeps import JOINED, count_trees, init_trees, step_trees, tree_space

FIRST_STRENGTH = 1.0
FIRST_EXPANDED = 0.5
"""α_c and β_c of a label before the first sweep."""


class LabelPrior(NamedTuple):
    """The Dirichlet process of a root label: strength α_c, and the probability β_c that the base expands the label."""

    strength: float = FIRST_STRENGTH
    expanded: float = FIRST_EXPANDED


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
        self.trees = loaded.trees
        self.seed = seed
        self.state = state
        self.model: TreeModel = build_tree_model(base, self.trees.expansions, *self._parameters(priors or {}))
        self.space = tree_space(self.trees)
        self.table: RuleTable = count_trees(
            self.trees, state, empty_table(len(self.trees.labels)), self.model, self.space
        )

    def _parameters(self, priors: Mapping[str, LabelPrior]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        known = [priors.get(label, LabelPrior()) for label in self.trees.labels]
        return np.array([prior.strength for prior in known]), np.array([prior.expanded for prior in known])

    def set_priors(self, priors: Mapping[str, LabelPrior]) -> None:
        """Go on with these parameters; labels that are not named get those of the start."""
        set_labels(self.model, *self._parameters(priors))

    def priors(self) -> dict[str, LabelPrior]:
        """The present parameters by label."""
        values = zip(self.model.strength.tolist(), self.model.expanded.tolist(), strict=True)
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
        self.state, self.table, info = step_trees(
            self.seed, self.trees, self.state, self.table, self.model, sweeps, temperatures, self.space, report
        )
        for move in (move_strengths, move_expansions):
            move(self.seed, number, self.trees, self.state, self.table, self.model, self.space)
        return info

    def log_likelihood(self) -> float:
        """ln P of all fragments given the parameters."""
        return tree_log_likelihood(self.trees, self.state, self.table, self.model, self.space)

    def fragments(self) -> list[CountedFragment]:
        """The grammar: every fragment in use, by label, the most used first."""
        ledger = tally(empty_ledger(), self.trees.batch, self.state, 1, 0)
        chosen = np.arange(ledger.entries)
        roots, texts = render_fragments(ledger, chosen, self.trees.labels, self.loaded.words)
        counted = map(CountedFragment, roots, texts, ledger.counts[chosen].tolist())
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
    chain = TreeChain(loaded, init_trees(seed, loaded.trees, start), base, seed)
    for number in range(1, schedule.sweeps + sweeps + 1):
        own = np.full(loaded.trees.size, number, np.int64)
        chain.sweep(number, own, schedule.temperatures(own))
        if report:
            report(number, chain)
    return chain
