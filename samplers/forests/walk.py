"""The walk over a derivation: its rules from the root down, in one order for everyone who goes over them.

depth = begin_walk(view, work)
while True:
    v, depth = next_rule(view, work, depth)
    if v < 0:
        break
"""

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.forests.forest import NO_TAIL
from hierogram.samplers.synchronous.resampling import make_summary
from hierogram.samplers.synchronous.sweeps import Batch
from hierogram.samplers.synchronous.workspace import EPOCH, Workspace, make_workspace


def small_workspace(batch: Batch) -> Workspace:
    """A workspace in which fragments can be summed up, and nothing else."""
    return make_workspace(batch.most_nodes, 2, 2, 1, batch.longest_rule, 1, 1)


@njit
def _push_tails(v, view, stack, depth):
    """Push the tails of v's present edge, the first one on top; the new depth."""
    arity = np.int64(view.node[v]["arity"])
    first = np.int64(view.node[v]["tail_offset"]) + np.int64(view.edge[v]) * arity
    for i in range(arity - 1, -1, -1):
        t = view.tails[first + i]
        if t != NO_TAIL:
            stack[depth] = t
            depth += 1
    return depth


@njit_inline
def begin_walk(view, work):
    """Begin with the root, forget all summaries; the depth of the stack."""
    work.registers[EPOCH] += 1
    work.stack[0] = len(view.node) - 1
    return 1


@njit_inline
def next_rule(view, work, depth):
    """The next node at which a rule begins, its summary made, and the new depth; node -1 after the last."""
    root = len(view.node) - 1
    while depth > 0:
        depth -= 1
        v = np.int64(work.stack[depth])
        depth = _push_tails(v, view, work.stack, depth)
        if v == root or view.cut[v]:
            make_summary(v, view, work)
            return v, depth
    return np.int64(-1), depth
