"""The strengths α_c and the probabilities of expansion β_c of a tree-substitution grammar, resampled; its likelihood.

α_c ~ Gamma(0.001, 1000) moves by Metropolis-Hastings: ln α' is normal around ln α with variance 0.3. β_c ~ Beta(1, 1)
is drawn from its posterior given how often each fragment was drawn from the base distribution, a number that is
itself drawn from its distribution given the fragment's count [CGB09 §4; model.md §6].
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.compiled.streams import advance, stream, uniform
from hierogram.samplers.compiled.variates import draw_beta, draw_normal
from hierogram.samplers.counts.chain import log_rising
from hierogram.samplers.counts.table import COUNT, find
from hierogram.samplers.forests.batch import Batch
from hierogram.samplers.forests.forest import tails_of
from hierogram.samplers.forests.fragments import key_of
from hierogram.samplers.trees.gibbs import TreeSpace, lay_out, tree_at
from hierogram.samplers.trees.models import TreeModel, TreeState, set_label

PRIOR_SHAPE = 0.001
PRIOR_SCALE = 1000.0
PROPOSAL_VARIANCE = 0.3
LEAST_STRENGTH = 1e-200
"""A strength below this is never proposed."""

_STRENGTHS, _EXPANSIONS = 1, 2
"""What a stream draws, as its second key."""


class FragmentUses(NamedTuple):
    """Each fragment in use once: its root label int32, how often it is used int64, and ln P0 float64."""

    label: NDArray[np.int32]
    uses: NDArray[np.int64]
    log_base: NDArray[np.float64]


class BaseDraws(NamedTuple):
    """The decisions of all draws from the base, by label: `expanded`, `stopped` int64[L]; `drawn` whether any are made.

    `random` is the stream that draws how many draws there were.
    """

    expanded: NDArray[np.int64]
    stopped: NDArray[np.int64]
    drawn: bool
    random: np.uint64


@njit
def _add_decisions(v, at, tables, draws):
    """Add `tables` for each nonterminal below the root of v's fragment to its label's expansions or stops."""
    view, stack = at.tree, at.space.stack
    stack[0] = v
    depth = 1
    while depth > 0:
        depth -= 1
        first, last = tails_of(np.int64(stack[depth]), view)
        for i in range(first, last):
            t = view.tails[i]
            label = view.node[t]["label"]
            if view.cut[t]:
                draws.stopped[label] += tables
            else:
                draws.expanded[label] += tables
                stack[depth] = t
                depth += 1


@njit
def draw_tables(count, strength, log_fresh, state):
    """Say how many of a fragment's customers drew it from the base distribution, e^log_fresh = α P0; and the stream."""
    fresh = math.exp(log_fresh)
    tables = 1
    for seated in range(1, count):
        state = advance(state)
        if uniform(state) * (seated + fresh) < fresh:
            tables += 1
    return tables, state


@njit
def _list_fragments(batch, state, model, space, seen, draws, fragments):
    """Fill `fragments` with every fragment once, and add up the decisions of their base draws; how many there are."""
    table, labels = state.table, model.labels
    random = draws.random
    size = 0
    for tree in range(len(batch.pairs)):
        at = tree_at(batch, state, tree, model, space)
        view = at.tree
        nodes = lay_out(at)
        root = len(view.node) - 1
        for k in range(nodes):
            v = np.int64(space.order[k])
            if v != root and view.cut[v] == 0:
                continue
            high, low = key_of(space.summary, v, at.key_mask)
            row = find(table.rows, high, low)
            if seen[row]:
                continue
            seen[row] = 1
            c = np.int64(view.node[v]["label"])
            n = np.int64(table.rows[row, COUNT])
            fragments.label[size] = c
            fragments.uses[size] = n
            fragments.log_base[size] = space.below[v]
            size += 1
            if draws.drawn:
                tables, random = draw_tables(n, labels.strength[c], labels.log_strength[c] + space.below[v], random)
                _add_decisions(v, at, tables, draws)
    return size


def _fragments(
    batch: Batch, state: TreeState, model: TreeModel, space: TreeSpace, random: np.uint64 | None
) -> tuple[FragmentUses, BaseDraws]:
    """The fragments, and by label the expansions and stops of base draws (where there is a stream to draw them)."""
    rules, labels = state.table.rule_types, len(state.labels.strength)
    fragments = FragmentUses(np.empty(rules, np.int32), np.empty(rules, np.int64), np.empty(rules))
    stream_ = np.uint64(0) if random is None else random
    draws = BaseDraws(np.zeros(labels, np.int64), np.zeros(labels, np.int64), random is not None, stream_)
    seen = np.zeros(len(state.table.rows), np.uint8)
    _list_fragments(batch, state, model, space, seen, draws, fragments)
    return fragments, draws


def _grouped(
    batch: Batch, state: TreeState, model: TreeModel, space: TreeSpace
) -> tuple[FragmentUses, NDArray[np.int64]]:
    """The fragments of all derivations by label, in the order in which they are met; where each label's begin."""
    fragments, _ = _fragments(batch, state, model, space, None)
    order = np.argsort(fragments.label, kind="stable")
    by_label = FragmentUses(*(column[order] for column in fragments))
    return by_label, np.searchsorted(by_label.label, np.arange(len(state.labels.strength) + 1))


@njit
def _log_likelihood_of_label(c, strength, log_strength, grouped):
    """ln of Γ(α)/Γ(n + α) ∏ Γ(n_e + α P0(e)) / Γ(α P0(e)) over the fragments of a label."""
    fragments, starts = grouped
    total = 0
    result = 0.0
    for e in range(starts[c], starts[c + 1]):
        log_fresh = log_strength + fragments.log_base[e]
        result += log_rising(math.exp(log_fresh), log_fresh, fragments.uses[e])
        total += fragments.uses[e]
    if total > 0:
        result -= log_rising(strength, log_strength, total)
    return result


@njit
def _move_strengths(key, sweep, grouped, labels, variance):
    accepted = 0
    _, starts = grouped
    for c in range(1, len(labels.strength)):
        if starts[c + 1] == starts[c]:
            continue
        random = stream(key, np.int64(_STRENGTHS << 32) + c, sweep)
        noise, random = draw_normal(random)
        now = labels.log_strength[c]
        new = now + math.sqrt(variance) * noise
        random = advance(random)
        if new < math.log(LEAST_STRENGTH):
            continue
        # A walk of ln α: the prior's density of ln α is that of α times α.
        ratio = PRIOR_SHAPE * (new - now) - (math.exp(new) - math.exp(now)) / PRIOR_SCALE
        ratio += _log_likelihood_of_label(c, math.exp(new), new, grouped)
        ratio -= _log_likelihood_of_label(c, math.exp(now), now, grouped)
        if math.log(1.0 - uniform(random)) < ratio:
            set_label(labels, c, math.exp(new), labels.expansion_probability[c])
            accepted += 1
    return accepted


@njit
def _move_expansions(key, sweep, draws, labels):
    for c in range(1, len(labels.strength)):
        random = stream(key, np.int64(_EXPANSIONS << 32) + c, sweep)
        beta, random = draw_beta(1.0 + draws.expanded[c], 1.0 + draws.stopped[c], random)
        set_label(labels, c, labels.strength[c], beta)


def move_strengths(key: int, sweep: int, batch: Batch, state: TreeState, model: TreeModel, space: TreeSpace) -> int:
    """Propose a new α_c for every label, in place; returns how many were accepted.

    The draws are functions of (key, label, sweep); labels are named by their numbers in the batch.
    """
    grouped = _grouped(batch, state, model, space)
    return int(_move_strengths(key, sweep, grouped, state.labels, PROPOSAL_VARIANCE))


def move_expansions(key: int, sweep: int, batch: Batch, state: TreeState, model: TreeModel, space: TreeSpace) -> None:
    """Draw every β_c, in place; the draws are keyed as those of `move_strengths`."""
    random = np.uint64(stream(key, _EXPANSIONS << 33, sweep))
    _, draws = _fragments(batch, state, model, space, random)
    _move_expansions(key, sweep, draws, state.labels)


@njit
def _log_likelihood(grouped, labels):
    total = 0.0
    for c in range(1, len(labels.strength)):
        total += _log_likelihood_of_label(c, labels.strength[c], labels.log_strength[c], grouped)
    return total


def tree_log_likelihood(batch: Batch, state: TreeState, model: TreeModel, space: TreeSpace) -> float:
    """ln P of all fragments of all derivations, given α and β."""
    return float(_log_likelihood(_grouped(batch, state, model, space), state.labels))
