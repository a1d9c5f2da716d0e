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
from hierogram.samplers.counts.likelihood import log_rising
from hierogram.samplers.counts.table import COUNT, RuleTable, find
from hierogram.samplers.forests.forest import NO_TAIL
from hierogram.samplers.forests.fragments import key_of, view_pair
from hierogram.samplers.synchronous.sweeps import State
from hierogram.samplers.trees.models import TreeModel, set_label
from hierogram.samplers.trees.resampling import ON_TREE, TreeSpace, lay_out
from hierogram.samplers.trees.sweeps import TreeBatch

PRIOR_SHAPE = 0.001
PRIOR_SCALE = 1000.0
PROPOSAL_VARIANCE = 0.3
LEAST_STRENGTH = 1e-200
"""A strength below this is never proposed."""

_STRENGTHS, _EXPANSIONS = 1, 2
"""What a stream draws, as its second key."""


class Fragments(NamedTuple):
    """Each fragment in use once: its root label int32, how often it is used int64, and ln P0 float64."""

    label: NDArray[np.int32]
    uses: NDArray[np.int64]
    log_base: NDArray[np.float64]


@njit
def _structure(v, view, sign, expanded, stopped, stack):
    """Add `sign` for each nonterminal below the root of v's fragment to its label's expansions or stops."""
    stack[0] = v
    depth = 1
    while depth > 0:
        depth -= 1
        x = np.int64(stack[depth])
        arity = np.int64(view.node[x]["arity"])
        first = np.int64(view.node[x]["tail_offset"]) + np.int64(view.edge[x]) * arity
        for i in range(arity):
            t = view.tails[first + i]
            if t == NO_TAIL:
                break
            label = view.node[t]["label"]
            if view.cut[t]:
                stopped[label] += sign
            else:
                expanded[label] += sign
                stack[depth] = t
                depth += 1


@njit
def draw_tables(count, strength, log_fresh, state):
    """How many of a fragment's customers drew it from the base distribution, e^log_fresh = α P0; and the stream."""
    fresh = math.exp(log_fresh)
    tables = 1
    for seated in range(1, count):
        state = advance(state)
        if uniform(state) * (seated + fresh) < fresh:
            tables += 1
    return tables, state


@njit
def _visit_fragments(
    forests, bitext, words, state, table, model, space, seen, with_tables, random, label, count, base, expanded, stopped
):
    """Fill `label`, `count`, `base` with every fragment once; with tables, add up the decisions of their base draws."""
    size = 0
    for pair in range(len(forests.node_offset) - 1):
        view = view_pair(forests, bitext, words, state, pair)
        lay_out(forests.node_offset[pair], view, model, space)
        root = len(view.node) - 1
        for k in range(space.registers[ON_TREE]):
            v = np.int64(space.order[k])
            if v != root and view.cut[v] == 0:
                continue
            high, low = key_of(space.summary, v, words.key_mask)
            row = find(table.rows, high, low)
            if seen[row]:
                continue
            seen[row] = 1
            c = np.int64(view.node[v]["label"])
            n = np.int64(table.rows[row, COUNT])
            label[size] = c
            count[size] = n
            base[size] = space.below[v]
            size += 1
            if with_tables:
                tables, random = draw_tables(n, model.strength[c], model.log_strength[c] + space.below[v], random)
                _structure(v, view, tables, expanded, stopped, space.stack)
    return size


def fragments_in_use(trees: TreeBatch, state: State, table: RuleTable, model: TreeModel, space: TreeSpace) -> Fragments:
    """The fragments of all derivations, in the order in which they are met."""
    fragments, _, _ = _fragments(trees, state, table, model, space, None)
    return fragments


def _fragments(
    trees: TreeBatch,
    state: State,
    table: RuleTable,
    model: TreeModel,
    space: TreeSpace,
    random: np.uint64 | None,
) -> tuple[Fragments, NDArray[np.int64], NDArray[np.int64]]:
    """The fragments, and by label the expansions and stops of base draws (where there is a stream to draw them)."""
    rules = table.rule_types
    label = np.empty(rules, np.int32)
    count = np.empty(rules, np.int64)
    base = np.empty(rules)
    expanded = np.zeros(len(model.strength), np.int64)
    stopped = np.zeros(len(model.strength), np.int64)
    batch = trees.batch
    _visit_fragments(
        batch.forests, batch.bitext, batch.words, state, table, model, space, np.zeros(len(table.rows), np.uint8),
        random is not None, np.uint64(0) if random is None else random, label, count, base, expanded, stopped,
    )  # fmt: skip
    return Fragments(label, count, base), expanded, stopped


@njit
def _by_label(label, count, order, starts, strength, log_strength, log_base, c):
    """ln of Γ(α)/Γ(n + α) ∏ Γ(n_e + α P0(e)) / Γ(α P0(e)) over the fragments of a label."""
    total = 0
    result = 0.0
    for k in range(starts[c], starts[c + 1]):
        log_fresh = log_strength + log_base[order[k]]
        result += log_rising(math.exp(log_fresh), log_fresh, count[order[k]])
        total += count[order[k]]
    if total > 0:
        result -= log_rising(strength, log_strength, total)
    return result


@njit
def _move_strengths(seed, sweep, label, count, log_base, order, starts, model, variance):
    accepted = 0
    for c in range(1, len(model.strength)):
        if starts[c + 1] == starts[c]:
            continue
        random = stream(seed, np.int64(_STRENGTHS << 32) + c, sweep)
        noise, random = draw_normal(random)
        now = model.log_strength[c]
        new = now + math.sqrt(variance) * noise
        random = advance(random)
        if new < math.log(LEAST_STRENGTH):
            continue
        # A walk of ln α: the prior's density of ln α is that of α times α.
        ratio = PRIOR_SHAPE * (new - now) - (math.exp(new) - math.exp(now)) / PRIOR_SCALE
        ratio += _by_label(label, count, order, starts, math.exp(new), new, log_base, c)
        ratio -= _by_label(label, count, order, starts, math.exp(now), now, log_base, c)
        if math.log(1.0 - uniform(random)) < ratio:
            set_label(model, c, math.exp(new), model.expanded[c])
            accepted += 1
    return accepted


@njit
def _move_expansions(seed, sweep, expanded, stopped, model):
    for c in range(1, len(model.strength)):
        random = stream(seed, np.int64(_EXPANSIONS << 32) + c, sweep)
        beta, random = draw_beta(1.0 + expanded[c], 1.0 + stopped[c], random)
        set_label(model, c, model.strength[c], beta)


def _grouped(fragments: Fragments, labels: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The fragments' numbers by label, and where each label's begin."""
    order = np.argsort(fragments.label, kind="stable")
    starts = np.searchsorted(fragments.label[order], np.arange(labels + 1))
    return order, starts


def move_strengths(
    seed: int, sweep: int, trees: TreeBatch, state: State, table: RuleTable, model: TreeModel, space: TreeSpace
) -> int:
    """Propose a new α_c for every label, in place; returns how many were accepted.

    The draws are functions of (seed, label, sweep); labels are named by their numbers in the batch.
    """
    fragments = fragments_in_use(trees, state, table, model, space)
    return int(
        _move_strengths(seed, sweep, *fragments, *_grouped(fragments, len(model.strength)), model, PROPOSAL_VARIANCE)
    )


def move_expansions(
    seed: int, sweep: int, trees: TreeBatch, state: State, table: RuleTable, model: TreeModel, space: TreeSpace
) -> None:
    """Draw every β_c, in place; the draws are keyed as those of `move_strengths`."""
    random = np.uint64(stream(seed, _EXPANSIONS << 33, sweep))
    _, expanded, stopped = _fragments(trees, state, table, model, space, random)
    _move_expansions(seed, sweep, expanded, stopped, model)


@njit
def _log_likelihood(label, count, log_base, order, starts, model):
    total = 0.0
    for c in range(1, len(model.strength)):
        total += _by_label(label, count, order, starts, model.strength[c], model.log_strength[c], log_base, c)
    return total


def tree_log_likelihood(trees: TreeBatch, state: State, table: RuleTable, model: TreeModel, space: TreeSpace) -> float:
    """ln P of all fragments of all derivations, given α and β."""
    fragments = fragments_in_use(trees, state, table, model, space)
    return float(_log_likelihood(*fragments, *_grouped(fragments, len(model.strength)), model))
