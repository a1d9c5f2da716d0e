"""The top-down Gibbs sampler over one pair's derivation [CFGŠ14 §2, Algorithms 1 and 4].

State of a pair: for each node of its forest an edge and a cut. A sweep goes down the present tree; at each
node it draws the edge (SampleEdge) and then the cut (SampleCut), each from its exact conditional given the
counts of everything else, and goes on in the tree that results.
"""

import numpy as np

from hierogram.samplers.compiled.jit import njit_inline
from hierogram.samplers.compiled.streams import advance, uniform
from hierogram.samplers.forests.forest import NO_TAIL
from hierogram.samplers.forests.fragments import compose
from hierogram.samplers.forests.walk import make_summary
from hierogram.samplers.synchronous.resampling import (
    FOLD,
    gather_below,
    list_below,
    make_tails,
    number_of,
    open_visit,
    read_counts,
    rule_at,
    score,
    seat,
    unseat,
)


@njit_inline
def _head_of(v, view, work):
    """The node whose rule v belongs to: v itself if it is cut, else the nearest cut node above."""
    while view.cut[v] == 0:
        v = np.int64(work.summary[v]["parent"])
    return v


@njit_inline
def _compose_up_to(v, head, view, work):
    """Make the summaries on the way from v up to and with `head` anew."""
    x = v
    while True:
        compose(x, view, work.summary, work.powers, work.scratch)
        if x == head:
            break
        x = np.int64(work.summary[x]["parent"])


@njit_inline
def _compose_inside(v, head, view, work):
    """Make the summaries anew that later visits read: v and the uncut nodes above it, without `head`."""
    x = v
    while x != head:
        compose(x, view, work.summary, work.powers, work.scratch)
        x = np.int64(work.summary[x]["parent"])


@njit_inline
def draw(weights, folds, size, u):
    """The first option whose cumulated weight exceeds u of the sum.

    An option weighs weights[k] * FOLD**folds[k]; both are overwritten.
    """
    most = np.int64(-1 << 62)
    for k in range(size):
        while weights[k] < 1.0:
            weights[k] *= FOLD
            folds[k] -= 1
        most = max(most, folds[k])
    total = 0.0
    for k in range(size):
        if folds[k] == most:
            total += weights[k]
        elif folds[k] == most - 1:
            total += weights[k] / FOLD
        weights[k] = total
    threshold = u * total
    for k in range(size):
        if weights[k] > threshold:
            return k
    return size - 1


@njit_inline
def _lay_out_options(v, head, view, places_mask, table, work, key_mask):
    """Sum up and list what each edge of v leads to, so that all rules that are met for the first time are on their way.

    Returns the edge for which the summaries above v stand.
    """
    present = np.int64(view.edge[v])
    summed_up = present
    work.top[present] = rule_at(head, view, places_mask, table, work, key_mask)
    for j in range(np.int64(view.node[v]["degree"])):
        view.edge[v] = j
        make_tails(v, view, work)
        if j != present:
            _compose_up_to(v, head, view, work)
            work.top[j] = number_of(head, places_mask, table, work, key_mask)
            summed_up = j
        list_below(v, view, places_mask, table, work, key_mask)
    return summed_up


@njit_inline
def sample_edge(v, u, view, places_mask, table, model, work, key_mask):
    """Draw the edge of v: an option weighs P of the rules that it leads to, times its density factor [CFGŠ14 eq. 6]."""
    present = np.int64(view.edge[v])
    degree = np.int64(view.node[v]["degree"])
    head = _head_of(v, view, work)
    summed_up = _lay_out_options(v, head, view, places_mask, table, work, key_mask)
    read_counts(table, model, work)
    choice = present
    # The present rules leave, each option is weighed, the chosen rules come: every step is compiled once.
    for turn in range(degree + 2):
        j = present
        if turn > degree:
            choice = draw(work.weight, work.folds, degree, u)
            j = choice
        elif turn > 0:
            j = turn - 1
        view.edge[v] = j
        work.used[0] = work.top[j]
        size, factor, folds = gather_below(v, work.used, 1, view, work)
        if turn == 0:
            for k in range(size):
                unseat(np.int64(work.used[k]), model, work)
        elif turn <= degree:
            probability, more_folds = score(work.used, size, model, work)
            work.weight[j] = probability * factor
            work.folds[j] = folds + more_folds
        else:
            for k in range(size):
                seat(np.int64(work.used[k]), model, work)
    work.statistics[0]["edges_sampled"] += 1
    work.statistics[0]["edges_changed"] += 1 if choice != present else 0
    work.summary[head]["rule"] = work.top[choice]
    if choice != summed_up:
        _compose_inside(v, head, view, work)


@njit_inline
def sample_cut(v, u, view, places_mask, table, model, work, key_mask):
    """Draw whether v is a boundary between two rules, by the probability of one joined rule against two."""
    present = view.cut[v]
    head = _head_of(np.int64(work.summary[v]["parent"]), view, work)
    now = rule_at(head, view, places_mask, table, work, key_mask)
    if view.node[v]["degree"] > 1:
        # Its other edges have been tried a moment ago.
        compose(v, view, work.summary, work.powers, work.scratch)
    else:
        make_summary(v, view, work)
    lower = number_of(v, places_mask, table, work, key_mask)
    view.cut[v] = 1 - present
    _compose_up_to(np.int64(work.summary[v]["parent"]), head, view, work)
    other = number_of(head, places_mask, table, work, key_mask)
    read_counts(table, model, work)
    if present:
        upper = now
        joined = other
        unseat(upper, model, work)
        unseat(lower, model, work)
    else:
        upper = other
        joined = now
        unseat(joined, model, work)
    work.used[1] = lower
    difference = 0
    for cut in range(2):
        work.used[0] = upper if cut else joined
        work.weight[cut], folds = score(work.used, 1 + cut, model, work)
        difference = folds - difference
    split = work.weight[1] if difference == 0 else work.weight[1] * FOLD**difference
    choice = 0 if work.weight[0] > u * (work.weight[0] + split) else 1
    view.cut[v] = choice
    work.statistics[0]["cuts_sampled"] += 1
    if choice != present:
        work.statistics[0]["cuts_changed"] += 1
    if choice == 1:
        seat(upper, model, work)
        seat(lower, model, work)
        work.summary[head]["rule"] = upper
        work.summary[v]["rule"] = lower
        work.summary[v]["rule_made"] = np.uint32(work.registers[0]["epoch"])
    else:
        seat(joined, model, work)
        work.summary[head]["rule"] = joined
    if choice == present:
        _compose_inside(np.int64(work.summary[v]["parent"]), head, view, work)


@njit_inline
def sweep_pair(view, state, stage, places_mask, table, model, work, key_mask):
    """One top-down sweep over the present tree of a pair; nodes above level `stage` are passed through.

    `state` is the pair's random stream; exactly one number is drawn for each variable that has a choice.
    """
    open_visit(work)
    root = len(view.node) - 1
    work.stack[0] = root
    work.summary[root]["parent"] = -1
    depth = 1
    while depth > 0:
        depth -= 1
        v = np.int64(work.stack[depth])
        if view.node[v]["level"] <= stage:
            if view.node[v]["degree"] > 1:
                state = advance(state)
                sample_edge(v, uniform(state), view, places_mask, table, model, work, key_mask)
            if view.node[v]["free"]:
                state = advance(state)
                sample_cut(v, uniform(state), view, places_mask, table, model, work, key_mask)
        arity = np.int64(view.node[v]["arity"])
        first = np.int64(view.node[v]["tail_offset"]) + np.int64(view.edge[v]) * arity
        for i in range(arity - 1, -1, -1):
            t = view.tails[first + i]
            if t != NO_TAIL:
                work.stack[depth] = t
                work.summary[t]["parent"] = v
                depth += 1
