"""Tree-substitution grammar: a Dirichlet process over elementary trees per root label [CGB09 eq. 2].

The elementary trees are the fragments of derivations. A base distribution P0 expands a nonterminal child of label c
with probability β_c, or else stops at it. The base distributions P_M and P_C differ in the probability of an expansion.
Under P_M, the number of children and the symbol of each child are uniform. Under P_C, the probability is the relative
frequency in the treebank. docs/model.md, section 6, has the equations.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit_inline
from hierogram.samplers.counts.models import BY_COUNT, TABLE_UNIT
from hierogram.samplers.counts.table import CountTable
from hierogram.samplers.forests.derivations import State
from hierogram.samplers.forests.forest import node_label, tail_range
from hierogram.samplers.grammar.settings import BASES, PCFG, UNIFORM

_TABULATED_COUNTS = 1 << 10


class LabelProcesses(NamedTuple):
    """Parameters of the Dirichlet process of each root label, float64[L] by label. Index 0 is unused."""

    # Strength α_c, and probability β_c that the base distribution expands a nonterminal of the label.
    strength: NDArray[np.float64]
    expansion_probability: NDArray[np.float64]
    # Natural logs of α_c, β_c and 1 - β_c. Only α_c and β_c are stored, and `set_label` computes the logs from them, so
    # that a resumed run equals an uninterrupted run.
    log_strength: NDArray[np.float64]
    log_expanded: NDArray[np.float64]
    log_stopped: NDArray[np.float64]


class TreeModel(NamedTuple):
    """Kernel constants: log probabilities of a batch's E edges, and fields of a Dirichlet process."""

    # int64[N+1], float64[E]: natural log probability of each edge's production under the base distribution. Edge j of
    # node v of the batch has the index `edge_offset[v] + j`.
    edge_offset: NDArray[np.int64]
    log_expansion: NDArray[np.float64]
    # Fields of `hierogram.samplers.counts.models.Model` that kernels read, with their values for a Dirichlet process:
    # each distinct fragment has one table.
    by_count: NDArray[np.void]
    discount: float


class Expansions(NamedTuple):
    """Productions of the E edges of a treebank's forests."""

    # Distinct productions: a label, then its children, which are labels or NUL-prefixed words.
    productions: Sequence[tuple[str, ...]]
    # int32[E], float64[E]: index of each edge's production, and weight of each edge: 1 / number of edges of its node.
    edge_production: NDArray[np.int32]
    edge_weight: NDArray[np.float64]
    # int64[N+1]: index of each node's first edge.
    edge_offset: NDArray[np.int64]


class TreeState(NamedTuple):
    """Derivations of a treebank, counts of their fragments, and the processes of the labels."""

    derivations: State
    table: CountTable
    labels: LabelProcesses


def _log_expansions(base: str, expansions: Expansions) -> NDArray[np.float64]:
    """Return the natural log probability of each distinct production under a base, float64[n].

    P_M draws the number of children uniformly up to the maximum, and each child uniformly from all labels and words of
    the treebank. P_C has relative frequencies, for which an edge of a node with d edges counts 1/d. Raises
    `ValueError` if the base is unknown.
    """
    if base == UNIFORM:
        children = np.array([len(symbols) - 1 for symbols in expansions.productions], np.float64)
        vocabulary = len({symbol for symbols in expansions.productions for symbol in symbols})
        return np.asarray(-np.log(children.max(initial=1.0)) - children * np.log(max(1, vocabulary)))
    if base == PCFG:
        counts = np.bincount(expansions.edge_production, expansions.edge_weight, len(expansions.productions))
        totals: Counter[str] = Counter()
        for symbols, count in zip(expansions.productions, counts.tolist(), strict=True):
            totals[symbols[0]] += count
        label_counts = np.array([totals[symbols[0]] for symbols in expansions.productions])
        return np.asarray(np.log(counts) - np.log(label_counts))
    raise ValueError(f"base must be {' or '.join(BASES)}, got {base!r}")


def label_processes(strength: NDArray[np.float64], expansion_probability: NDArray[np.float64]) -> LabelProcesses:
    """Return the processes of labels, given α_c and β_c, float64[L]. Raises `ValueError` if out of range."""
    valid = (strength > 0) & (expansion_probability > 0) & (expansion_probability < 1)
    if not valid.all():
        c = int(np.argmin(valid))
        raise ValueError(
            f"label {c} must have a strength > 0 and an expansion probability between 0 and 1, "
            f"got {strength[c]} and {expansion_probability[c]}"
        )
    labels = LabelProcesses(*(np.empty(len(strength)) for _ in LabelProcesses._fields))
    for c in range(len(strength)):
        set_label(labels, c, strength[c], expansion_probability[c])
    return labels


def build_tree_model(base: str, expansions: Expansions) -> TreeModel:
    """Return the model of a batch. `base` is one of `BASES`. Raises `ValueError` if it is unknown."""
    by_count = np.zeros(_TABULATED_COUNTS, BY_COUNT)
    by_count["tables"][1:] = int(TABLE_UNIT)
    by_count["more_tables"][0] = int(TABLE_UNIT)
    by_count["discounted"] = np.arange(_TABULATED_COUNTS)
    log_expansion = _log_expansions(base, expansions)[expansions.edge_production]
    return TreeModel(expansions.edge_offset, log_expansion, by_count, 0.0)


@njit_inline
def set_label(labels, c, strength, expansion_probability):
    """Set α_c, β_c and their logs in `labels`, in place."""
    labels.strength[c] = strength
    labels.expansion_probability[c] = expansion_probability
    labels.log_strength[c] = math.log(strength)
    labels.log_expanded[c] = math.log(expansion_probability)
    labels.log_stopped[c] = math.log1p(-expansion_probability)


@njit_inline
def log_base(v, context):
    """Return ln P0 of the fragment at v, given ln P0 of its uncut tails in `context.space.log_bases`."""
    view, model, labels = context.tree, context.model, context.labels
    total = model.log_expansion[model.edge_offset[context.first_node + v] + np.int64(view.edge[v])]
    first, last = tail_range(v, view)
    for i in range(first, last):
        t = view.tails[i]
        label = node_label(t, view)
        if view.cut[t]:
            total += labels.log_stopped[label]
        else:
            total += labels.log_expanded[label] + context.space.log_bases[t]
    return total
