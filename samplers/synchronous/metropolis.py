"""The baseline of [CFGŠ14 §4.2, Algorithm 3]: propose a whole tree, take it or leave it."""

import math

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, uniform
from hierogram.samplers.forests.forest import NO_TAIL
from hierogram.samplers.synchronous.resampling import (
    LOG_FOLD,
    gather_below,
    list_below,
    open_epoch,
    open_visit,
    read_counts,
    rule_at,
    score,
    seat,
    unseat,
)


@njit
def _propose(state, view, work):
    """Draw a tree top-down, each edge uniform and each free cut a fair coin; returns the stream's state."""
    root = len(view.node) - 1
    work.stack[0] = root
    depth = 1
    while depth > 0:
        depth -= 1
        v = np.int64(work.stack[depth])
        degree = np.int64(view.node[v]["degree"])
        if degree > 1:
            state = advance(state)
            view.edge[v] = np.int64(uniform(state) * degree)
        if view.node[v]["free"]:
            state = advance(state)
            view.cut[v] = 1 if uniform(state) < 0.5 else 0
        arity = np.int64(view.node[v]["arity"])
        first = np.int64(view.node[v]["tail_offset"]) + np.int64(view.edge[v]) * arity
        for i in range(arity - 1, -1, -1):
            t = view.tails[first + i]
            if t != NO_TAIL:
                work.stack[depth] = t
                depth += 1
    return state


@njit_inline
def _logarithm(value, folds):
    """ln(value * FOLD**folds)."""
    return math.log(value) + folds * LOG_FOLD


@njit
def propose_pair(view, state, places_mask, table, model, work, key_mask):
    """One Metropolis-Hastings step for a pair; off-tree variables keep their values.

    P(t) Q(t')/(P(t') Q(t)) needs only P(t) ∏ deg, since Q(t) = ∏ 1/deg over the tree's variables.
    """
    open_visit(work)
    nodes = len(view.node)
    root = nodes - 1
    work.current[0] = rule_at(root, view, places_mask, table, work, key_mask)
    list_below(root, view, places_mask, table, work, key_mask)
    current_size, factor, folds = gather_below(root, work.current, 1, view, work)
    read_counts(table, model, work)
    for k in range(current_size):
        unseat(np.int64(work.current[k]), model, work)
    probability, more_folds = score(work.current, current_size, model, work)
    now = _logarithm(probability * factor, folds + more_folds)

    for v in range(nodes):
        work.saved_edge[v] = view.edge[v]
        work.saved_cut[v] = view.cut[v]
    state = _propose(state, view, work)
    open_epoch(work)
    work.used[0] = rule_at(root, view, places_mask, table, work, key_mask)
    list_below(root, view, places_mask, table, work, key_mask)
    size, factor, folds = gather_below(root, work.used, 1, view, work)
    read_counts(table, model, work)
    probability, more_folds = score(work.used, size, model, work)
    then = _logarithm(probability * factor, folds + more_folds)
    state = advance(state)
    work.statistics[0]["proposed"] += 1
    if uniform(state) < math.exp(min(0.0, then - now)):
        work.statistics[0]["accepted"] += 1
        for k in range(size):
            seat(np.int64(work.used[k]), model, work)
    else:
        for v in range(nodes):
            view.edge[v] = work.saved_edge[v]
            view.cut[v] = work.saved_cut[v]
        for k in range(current_size):
            seat(np.int64(work.current[k]), model, work)
