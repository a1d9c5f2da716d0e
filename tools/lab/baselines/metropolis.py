"""Metropolis-Hastings baseline that proposes whole trees [CFGŠ14 §4.2, Algorithm 3].

`build(model, batch, resample=propose_pairs)` makes a kernel with these proposals instead of Gibbs sampling.
"""

import math

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, stream, uniform
from hierogram.samplers.forests.averages import add_tree
from hierogram.samplers.forests.forest import push_tails
from hierogram.samplers.synchronous.draws import log_product, multiply
from hierogram.samplers.synchronous.resampling import (
    add_rules,
    begin_pair,
    list_below,
    read_counts,
    remove_rules,
    rule_at,
    score,
    write_changes,
    write_rules,
)
from hierogram.samplers.synchronous.sweeps import begin_block, log_overlay, make_resampling, next_block


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
def _rules_of_tree(rules, context):
    """Write the current tree's rules and read their counts. Returns (number of rules, density factor)."""
    root = len(context.pair.node) - 1
    top = rule_at(root, context)
    list_below(root, context)
    size, factor = write_rules(root, top, rules, context)
    read_counts(context)
    return size, factor


@njit_inline
def _save(pair, saved):
    """Write the variables of a pair with n nodes to scratch memory uint8[3 n]."""
    for v in range(len(pair.node)):
        edge = np.int64(pair.edge[v])
        saved[3 * v], saved[3 * v + 1], saved[3 * v + 2] = edge & 255, edge >> 8, pair.cut[v]


@njit_inline
def _restore(pair, saved):
    for v in range(len(pair.node)):
        pair.edge[v] = np.int64(saved[3 * v]) | np.int64(saved[3 * v + 1]) << 8
        pair.cut[v] = saved[3 * v + 2]


@njit
def propose_pair(random, context):
    """Run one Metropolis-Hastings step for a pair. Variables outside the proposed tree keep their values.

    The proposal probability Q(t) is ∏ 1/deg over the tree's variables, so the ratio compares P(t) ∏ deg of both trees.
    """
    pair, work = context.pair, context.work
    # The baseline credits no rules, so `credited` has room for the current rules.
    current = work.credited
    begin_pair(0, work)
    size_now, factor = _rules_of_tree(current, context)
    remove_rules(current, size_now, context)
    now = log_product(multiply(score(current, size_now, context), factor))

    _save(pair, work.fragments)
    random = _propose(random, pair, work)
    # Invalidate all summaries and lists, but keep the local rules.
    work.registers[0]["epoch"] += 1
    work.registers[0]["listed"] = 0
    size_then, factor = _rules_of_tree(work.used, context)
    then = log_product(multiply(score(work.used, size_then, context), factor))
    random = advance(random)
    work.statistics[0]["edges_sampled"] += 1
    if uniform(random) < math.exp(min(0.0, then - now)):
        work.statistics[0]["edges_changed"] += 1
        add_rules(work.used, size_then, context)
    else:
        _restore(pair, work.fragments)
        add_rules(current, size_now, context)


@njit
def propose_pairs(round_, batch, state, averages, plan, table, model, work):
    """Run Metropolis-Hastings steps like `sweep_pairs`. Edge statistics count proposed and accepted trees."""
    sound = True
    work.registers[0]["logged"] = 0
    while True:
        first = next_block(round_)
        if first >= round_.end:
            break
        begin_block(table, work)
        for p in range(first, min(first + round_.pairs_per_block, round_.end)):
            if plan.levels[p] <= 0:
                continue
            context = make_resampling(batch, state, p, table, model, work, plan)
            propose_pair(stream(round_.key, batch.pairs[p], plan.sweeps[p]), context)
            if plan.averaged[p]:
                add_tree(averages, p, context.pair, work, work.fragments)
            sound &= write_changes(round_.direct, context)
        if not round_.direct:
            log_overlay(work)
    return sound
