"""Metropolis-Hastings baseline [CFGŠ14 §4.2, Algorithm 3]: propose a whole tree, then accept or reject it."""

import math

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, uniform
from hierogram.samplers.forests.forest import push_tails
from hierogram.samplers.synchronous.draws import log_of, times
from hierogram.samplers.synchronous.resampling import (
    add_rules,
    begin_pair,
    forget_summaries,
    list_below,
    read_counts,
    remove_rules,
    rule_at,
    rules_from,
    score,
)


@njit
def _propose(random, pair, work):
    """Draw a tree top-down with uniform edges and fair-coin cuts. Returns the state of the random stream."""
    work.stack[0] = len(pair.node) - 1
    depth = 1
    while depth > 0:
        depth -= 1
        v = np.int64(work.stack[depth])
        degree = np.int64(pair.node[v]["degree"])
        if degree > 1:
            random = advance(random)
            pair.edge[v] = np.int64(uniform(random) * degree)
        if pair.node[v]["free"]:
            random = advance(random)
            pair.cut[v] = 1 if uniform(random) < 0.5 else 0
        depth = push_tails(v, pair, work.stack, depth)
    return random


@njit_inline
def _rules_of_tree(rules, at):
    """Write the rules of the current tree to `rules` and read their counts. Returns their number and ∏ deg."""
    root = len(at.pair.node) - 1
    top = rule_at(root, at)
    list_below(root, at)
    size, factor = rules_from(root, top, rules, at)
    read_counts(at)
    return size, factor


@njit
def propose_pair(random, at):
    """Run one Metropolis-Hastings step for a pair. Variables outside the proposed tree keep their values.

    P(t) Q(t')/(P(t') Q(t)) needs only P(t) ∏ deg, since Q(t) = ∏ 1/deg over the tree's variables.
    """
    pair, work = at.pair, at.work
    begin_pair(work)
    size_now, factor = _rules_of_tree(work.current, at)
    remove_rules(work.current, size_now, at)
    now = log_of(times(score(work.current, size_now, at), factor))

    for v in range(len(pair.node)):
        work.saved_edge[v] = pair.edge[v]
        work.saved_cut[v] = pair.cut[v]
    random = _propose(random, pair, work)
    forget_summaries(work)
    size_then, factor = _rules_of_tree(work.used, at)
    then = log_of(times(score(work.used, size_then, at), factor))
    random = advance(random)
    work.statistics[0]["proposed"] += 1
    if uniform(random) < math.exp(min(0.0, then - now)):
        work.statistics[0]["accepted"] += 1
        add_rules(work.used, size_then, at)
    else:
        for v in range(len(pair.node)):
            pair.edge[v] = work.saved_edge[v]
            pair.cut[v] = work.saved_cut[v]
        add_rules(work.current, size_now, at)
