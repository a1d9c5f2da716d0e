"""Walk over the rules of a derivation, from the root down in a fixed order.

    depth = begin_walk(view, work)
    while True:
        v, depth = next_rule(view, work, depth)
        if v < 0:
            break

A walk invalidates the summaries of earlier walks.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.forests.batch import Batch
from hierogram.samplers.forests.forest import push_tails, tail_range
from hierogram.samplers.forests.fragments import base_powers, compose, make_summaries

REGISTERS = np.dtype([("epoch", np.int64)])
"""Number of the current walk; summaries from other walks are invalid."""


class WalkSpace(NamedTuple):
    """Scratch memory for walks over derivations of up to n nodes."""

    # SUMMARY[n+1] by node.
    summary: NDArray[np.void]
    # int32[n+1]
    stack: NDArray[np.int32]
    walk: NDArray[np.int32]
    pending: NDArray[np.int32]
    # Uint64 powers of the hash base.
    powers: NDArray[np.uint64]
    # int64[2, n+1]
    scratch: NDArray[np.int64]
    # REGISTERS[1].
    registers: NDArray[np.void]


def walk_space(batch: Batch) -> WalkSpace:
    """Return scratch memory for walks over a batch's derivations."""
    nodes = batch.most_nodes
    return WalkSpace(
        make_summaries(nodes),
        np.zeros(nodes + 1, np.int32),
        np.zeros(nodes + 1, np.int32),
        np.zeros(nodes + 1, np.int32),
        base_powers(batch.longest_rule + 2),
        np.zeros((2, nodes + 1), np.int64),
        np.zeros(1, REGISTERS),
    )


@njit
def make_summary(v, view, work):
    """Ensure that the summaries of v and of the uncut nodes of its rule are computed."""
    epoch = np.uint32(work.registers[0]["epoch"])
    if work.summary[v]["made"] == epoch:
        return
    work.pending[0] = v
    depth = 1
    while depth > 0:
        x = np.int64(work.pending[depth - 1])
        first, last = tail_range(x, view)
        above = depth
        for i in range(first, last):
            t = view.tails[i]
            if view.cut[t] == 0 and work.summary[t]["made"] != epoch:
                work.pending[depth] = t
                depth += 1
        if depth == above:
            compose(x, view, work.summary, work.powers, work.scratch)
            work.summary[x]["made"] = epoch
            depth -= 1


@njit_inline
def begin_walk(view, work):
    """Start a walk at the root and invalidate all summaries. Returns the stack depth."""
    work.registers[0]["epoch"] += 1
    work.stack[0] = len(view.node) - 1
    return 1


@njit_inline
def next_rule(view, work, depth):
    """Return the root node of the next rule, with its summary computed, and the new depth; node -1 at the end."""
    root = len(view.node) - 1
    while depth > 0:
        depth -= 1
        v = np.int64(work.stack[depth])
        depth = push_tails(v, view, work.stack, depth)
        if v == root or view.cut[v]:
            make_summary(v, view, work)
            return v, depth
    return np.int64(-1), depth
