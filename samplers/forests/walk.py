"""The walk over a derivation: its rules from the root down, in one order for everyone who goes over them.

depth = begin_walk(view, work)
while True:
    v, depth = next_rule(view, work, depth)
    if v < 0:
        break
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.forests.batch import Batch
from hierogram.samplers.forests.forest import push_tails, tails_of
from hierogram.samplers.forests.fragments import compose, make_summaries, powers_of_base

REGISTERS = np.dtype([("epoch", np.int64)])
"""The number of the walk: summaries made in another one are void."""


class WalkSpace(NamedTuple):
    """Scratch memory of a walk over derivations of at most n nodes; nothing is allocated during it.

    `summary` SUMMARY[n+1] by node; `stack`, `walk`, `pending` int32[n+1]; `powers` uint64 of the hash's base; `scratch`
    int64[2, n+1]; `registers` REGISTERS[1].
    """

    summary: NDArray[np.void]
    stack: NDArray[np.int32]
    walk: NDArray[np.int32]
    pending: NDArray[np.int32]
    powers: NDArray[np.uint64]
    scratch: NDArray[np.int64]
    registers: NDArray[np.void]


def walk_space(batch: Batch) -> WalkSpace:
    """Scratch memory for walks over a batch's derivations."""
    nodes = batch.most_nodes
    return WalkSpace(
        make_summaries(nodes),
        np.zeros(nodes + 1, np.int32),
        np.zeros(nodes + 1, np.int32),
        np.zeros(nodes + 1, np.int32),
        powers_of_base(batch.longest_rule + 2),
        np.zeros((2, nodes + 1), np.int64),
        np.zeros(1, REGISTERS),
    )


@njit
def make_summary(v, view, work):
    """See to it that the summary of v is made, and first those of the uncut nodes below it."""
    epoch = np.uint32(work.registers[0]["epoch"])
    if work.summary[v]["made"] == epoch:
        return
    work.pending[0] = v
    depth = 1
    while depth > 0:
        x = np.int64(work.pending[depth - 1])
        first, last = tails_of(x, view)
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
    """Begin with the root, forget all summaries; the depth of the stack."""
    work.registers[0]["epoch"] += 1
    work.stack[0] = len(view.node) - 1
    return 1


@njit_inline
def next_rule(view, work, depth):
    """The next node at which a rule begins, its summary made, and the new depth; node -1 after the last."""
    root = len(view.node) - 1
    while depth > 0:
        depth -= 1
        v = np.int64(work.stack[depth])
        depth = push_tails(v, view, work.stack, depth)
        if v == root or view.cut[v]:
            make_summary(v, view, work)
            return v, depth
    return np.int64(-1), depth
