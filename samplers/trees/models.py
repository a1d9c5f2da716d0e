"""Tree-substitution grammars: a Dirichlet process of fragments for each root label, over a base distribution.

P(e | c, rest) = (n_e + α_c P0(e | c)) / (n_c + α_c) [CGB09 eq. 2; model.md §6]. A fragment's base probability is the
product of its expansions' probabilities and, for each nonterminal below its root, of β_c where it is expanded
and 1 - β_c where it is left as a frontier. P_M and P_C differ in what an expansion costs: under P_M the number of
children and every child's symbol are uniform; under P_C it has its relative frequency in the treebank.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.counts.models import BY_COUNT, TABLE_UNIT

UNIFORM = "uniform"
"""The base distribution P_M."""
PCFG = "pcfg"
"""The base distribution P_C."""
BASES = (UNIFORM, PCFG)

_KNOWN_COUNTS = 1 << 10


class TreeModel(NamedTuple):
    """What the kernels need of a model with L labels (number 0 is none) and E edges of the forests at hand.

    `strength`, `expanded` float64[L] α_c and β_c; `log_strength`, `log_expanded`, `log_stopped` float64[L] the natural
    logs of α_c, β_c and 1 - β_c, functions of these alone, whether a run goes on or is taken up again. `edge_offset`
    int64[N+1] and `log_expansion` float64[E]: edge j of node v costs `log_expansion[edge_offset[v] + j]`, natural-log.
    `by_count` and `discount` are those of a Dirichlet process, as in `hierogram.samplers.counts.models.Model`; a
    label's *tables* in the rule table are its different fragments.
    """

    strength: NDArray[np.float64]
    expanded: NDArray[np.float64]
    log_strength: NDArray[np.float64]
    log_expanded: NDArray[np.float64]
    log_stopped: NDArray[np.float64]
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


def build_tree_model(
    base: str, expansions: Expansions, strength: NDArray[np.float64], expanded: NDArray[np.float64]
) -> TreeModel:
    """The kernels' constants; `strength` and `expanded` float64[L] are α_c and β_c by label number."""
    if not (strength > 0).all() or not ((expanded > 0) & (expanded < 1)).all():
        raise ValueError("every strength has to be above 0, every probability of expansion between 0 and 1")
    by_count = np.zeros(_KNOWN_COUNTS, BY_COUNT)
    by_count["tables"][1:] = int(TABLE_UNIT)
    by_count["more_tables"][0] = int(TABLE_UNIT)
    by_count["seated"] = np.arange(_KNOWN_COUNTS)
    model = TreeModel(
        strength.copy(),
        expanded.copy(),
        np.empty(len(strength)),
        np.empty(len(strength)),
        np.empty(len(strength)),
        expansions.edge_offset,
        log_expansions(base, expansions)[expansions.number],
        by_count,
        0.0,
    )
    _set_labels(model)
    return model


@njit_inline
def set_label(model, c, strength, expanded):
    """Change α_c and β_c in place."""
    model.strength[c] = strength
    model.expanded[c] = expanded
    model.log_strength[c] = math.log(strength)
    model.log_expanded[c] = math.log(expanded)
    model.log_stopped[c] = math.log1p(-expanded)


@njit
def _set_labels(model):
    for c in range(len(model.strength)):
        set_label(model, c, model.strength[c], model.expanded[c])


def set_labels(model: TreeModel, strength: NDArray[np.float64], expanded: NDArray[np.float64]) -> None:
    """Change all α_c and β_c of a model in place."""
    model.strength[:] = strength
    model.expanded[:] = expanded
    _set_labels(model)


@njit_inline
def log_base(v, first_node, view, model, below):
    """ln P0 of the fragment whose root is v, from those below its uncut tails, `below` float64 by node."""
    arity = np.int64(view.node[v]["arity"])
    edge = np.int64(view.edge[v])
    first = np.int64(view.node[v]["tail_offset"]) + edge * arity
    total = model.log_expansion[model.edge_offset[first_node + v] + edge]
    for i in range(arity):
        t = view.tails[first + i]
        if t == 0xFFFF:
            break
        label = view.node[t]["label"]
        if view.cut[t]:
            total += model.log_stopped[label]
        else:
            total += model.log_expanded[label] + below[t]
    return total
