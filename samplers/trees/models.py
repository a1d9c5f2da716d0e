"""Tree-substitution grammars: a Dirichlet process of fragments for each root label, over a base distribution.

[CGB09 eq. 2]; docs/model.md, section 6. P_M and P_C differ in what an expansion costs: under P_M the number of children
and every child's symbol are uniform; under P_C it has its relative frequency in the treebank.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.counts.models import BY_COUNT, TABLE_UNIT
from hierogram.samplers.counts.table import RuleTable
from hierogram.samplers.forests.batch import Batch, State
from hierogram.samplers.forests.forest import label_of, tails_of
from hierogram.samplers.grammar.settings import BASES, PCFG, UNIFORM

_KNOWN_COUNTS = 1 << 10


class LabelProcesses(NamedTuple):
    """The Dirichlet process of each of L root labels (number 0 is none); all float64[L].

    `strength` α_c; `expansion_probability` β_c, with which the base expands the label; `log_strength`,
    `log_expanded`, `log_stopped` the natural logs of α_c, β_c and 1 - β_c, functions of these alone, whether a run goes
    on or is taken up again.
    """

    strength: NDArray[np.float64]
    expansion_probability: NDArray[np.float64]
    log_strength: NDArray[np.float64]
    log_expanded: NDArray[np.float64]
    log_stopped: NDArray[np.float64]


class TreeModel(NamedTuple):
    """A model as the kernels need it, and the E edges of the forests at hand.

    `labels` the present processes. `edge_offset` int64[N+1] and `log_expansion` float64[E]: edge j of node v costs
    `log_expansion[edge_offset[v] + j]`, natural-log. `by_count` and `discount` are those of a Dirichlet process, as in
    `hierogram.samplers.counts.models.Model`; a label's *tables* in the rule table are its different fragments.
    """

    labels: LabelProcesses
    edge_offset: NDArray[np.int64]
    log_expansion: NDArray[np.float64]
    by_count: NDArray[np.void]
    discount: float


class Expansions(NamedTuple):
    """The productions of a treebank's forests.

    `symbols` each production once: label, then the children's labels as they are and words after a NUL; `number`
    int32[E] the production of every edge; `weight` float64[E] 1 / degree of the edge's node; `edge_offset`
    int64[N+1] where a node's edges begin.
    """

    symbols: Sequence[tuple[str, ...]]
    number: NDArray[np.int32]
    weight: NDArray[np.float64]
    edge_offset: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TreeBatch:
    """Trees or parse forests that are sampled together: their batch, productions, and labels by number (0 is none)."""

    batch: Batch
    expansions: Expansions
    labels: list[str]

    @property
    def size(self) -> int:
        """Number of trees."""
        return self.batch.size


class TreeState(NamedTuple):
    """The derivations of a treebank, the counts of all their fragments, and the labels' processes."""

    derivations: State
    table: RuleTable
    labels: LabelProcesses


def log_expansions(base: str, expansions: Expansions) -> NDArray[np.float64]:
    """ln P of each production under the base distribution, float64 by production.

    P_M draws the number of children uniformly up to the largest in the treebank, and each child from all labels and
    words of it. P_C's relative frequencies count an edge of a node that has d edges 1/d times. Raises `ValueError` on
    an unknown base.
    """
    if base == UNIFORM:
        children = np.array([len(symbols) - 1 for symbols in expansions.symbols], np.float64)
        vocabulary = len({symbol for symbols in expansions.symbols for symbol in symbols})
        return np.asarray(-np.log(children.max(initial=1.0)) - children * np.log(max(1, vocabulary)))
    if base == PCFG:
        counts = np.bincount(expansions.number, expansions.weight, len(expansions.symbols))
        totals: Counter[str] = Counter()
        for symbols, count in zip(expansions.symbols, counts.tolist(), strict=True):
            totals[symbols[0]] += count
        heads = np.array([totals[symbols[0]] for symbols in expansions.symbols])
        return np.asarray(np.log(counts) - np.log(heads))
    raise ValueError(f"the base distribution of a tree grammar is {' or '.join(BASES)}, not {base!r}")


def label_processes(strength: NDArray[np.float64], expansion_probability: NDArray[np.float64]) -> LabelProcesses:
    """The processes of labels from α_c and β_c by label number, both float64[L]; raises `ValueError` where one is out
    of its range."""
    if not (strength > 0).all() or not ((expansion_probability > 0) & (expansion_probability < 1)).all():
        raise ValueError("every strength has to be above 0, every probability of expansion between 0 and 1")
    labels = LabelProcesses(
        strength.copy(),
        expansion_probability.copy(),
        np.empty(len(strength)),
        np.empty(len(strength)),
        np.empty(len(strength)),
    )
    _take_logs(labels)
    return labels


def build_tree_model(base: str, expansions: Expansions, labels: LabelProcesses) -> TreeModel:
    """The kernels' constants, and the labels' processes that a chain begins with."""
    by_count = np.zeros(_KNOWN_COUNTS, BY_COUNT)
    by_count["tables"][1:] = int(TABLE_UNIT)
    by_count["more_tables"][0] = int(TABLE_UNIT)
    by_count["cached"] = np.arange(_KNOWN_COUNTS)
    log_expansion = log_expansions(base, expansions)[expansions.number]
    return TreeModel(labels, expansions.edge_offset, log_expansion, by_count, 0.0)


@njit_inline
def set_label(labels, c, strength, expansion_probability):
    """Change α_c and β_c in place."""
    labels.strength[c] = strength
    labels.expansion_probability[c] = expansion_probability
    labels.log_strength[c] = math.log(strength)
    labels.log_expanded[c] = math.log(expansion_probability)
    labels.log_stopped[c] = math.log1p(-expansion_probability)


@njit
def _take_logs(labels):
    for c in range(len(labels.strength)):
        set_label(labels, c, labels.strength[c], labels.expansion_probability[c])


@njit_inline
def log_base(v, at):
    """ln P0 of the fragment whose root is v, from those of its uncut tails in `at.space.below`."""
    view, model, labels = at.tree, at.model, at.model.labels
    total = model.log_expansion[model.edge_offset[at.first_node + v] + np.int64(view.edge[v])]
    first, last = tails_of(v, view)
    for i in range(first, last):
        t = view.tails[i]
        label = label_of(t, view)
        if view.cut[t]:
            total += labels.log_stopped[label]
        else:
            total += labels.log_expanded[label] + at.space.below[t]
    return total
