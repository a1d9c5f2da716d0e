"""Compositions: short rules of every granularity, from one tree of each pair's forest.

Each phrase of the tree yields one rule without nonterminals, and one rule for each phrase below it, with that phrase as
the nonterminal. Compositions therefore include rules that a derivation joined or split: new text needs phrases of all
granularities [Neubig et al. 2011]. Each node of the tree has its first edge, so compositions depend only on the links.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.forests.averages import encode_fragment
from hierogram.samplers.forests.batch import Batch
from hierogram.samplers.forests.derivations import empty_state
from hierogram.samplers.forests.forest import push_tails, view_pair
from hierogram.samplers.forests.fragments import summary_key
from hierogram.samplers.forests.records import Fragments
from hierogram.samplers.forests.recurrence import Ngrams, log_probability
from hierogram.samplers.forests.walk import make_summary, walk_space
from hierogram.samplers.grammar.rules import HIERO_MAX_SOURCE_SYMBOLS, SHORT

LONGEST = 10
"""Maximum words of a phrase on either side [Chiang 2007]."""
_BYTES_PER_NODE = 3


@njit_inline
def _words(node, side):
    if side == 0:
        return np.int64(node["source_end"]) - np.int64(node["source_start"])
    return np.int64(node["target_end"]) - np.int64(node["target_start"])


@njit_inline
def _is_short(v, view):
    node = view.node[v]
    return node["free"] and _words(node, 0) <= LONGEST and _words(node, 1) <= LONGEST


@njit
def _below(v, view, stack, below):
    """Write the nodes below v in the tree to `below` and return their number."""
    depth = push_tails(v, view, stack, 0)
    count = 0
    while depth > 0:
        depth -= 1
        x = np.int64(stack[depth])
        below[count] = x
        count += 1
        depth = push_tails(x, view, stack, depth)
    return count


@njit
def _room_of(batch, state, work):
    """Return upper bounds on the number of compositions and on their bytes."""
    compositions = 0
    size = 0
    for pair in range(len(batch.pairs)):
        view = view_pair(batch, state, pair)
        for k in range(_below(len(view.node) - 1, view, work.stack, work.scratch[0])):
            v = work.scratch[0, k]
            if _is_short(v, view):
                capacity = 1 + _below(v, view, work.stack, work.scratch[1])
                compositions += capacity
                size += _BYTES_PER_NODE * capacity * capacity
    return compositions, size


@njit_inline
def _expected(v, x, view, ngrams):
    """Return the expected occurrences in a text of v's source words outside x (all words if x is v)."""
    node, inner = view.node[v], view.node[x]
    end = np.int64(node["source_end"])
    first, last = (end, end) if x == v else (np.int64(inner["source_start"]), np.int64(inner["source_end"]))
    value = log_probability(view.source, np.int64(node["source_start"]), first, ngrams)
    value += log_probability(view.source, last, end, ngrams)
    return ngrams.text_words * np.exp(value)


@njit
def _write(pair, v, view, batch, work, output, used, position):
    """Write the fragment at v and the low word of its rule's key. Returns the position after the fragment."""
    work.registers[0]["epoch"] += 1
    make_summary(v, view, work)
    _, output.keys[used] = summary_key(work.summary, v, batch.words.key_mask)
    output.fragments.pairs[used] = pair
    output.fragments.roots[used] = v
    output.fragments.starts[used] = position
    position = encode_fragment(v, view, work.pending, output.fragments.content, position)
    output.fragments.ends[used] = position
    return position


@njit
def _compose(batch, state, nodes, below, work, ngrams, output):
    """Write the compositions of all pairs and return their number."""
    used = 0
    position = 0
    for pair in range(len(batch.pairs)):
        view = view_pair(batch, state, pair)
        for k in range(_below(len(view.node) - 1, view, work.stack, nodes)):
            v = nodes[k]
            if not _is_short(v, view):
                continue
            # Start with v itself (no nonterminal), then each node below. Phrases begin and end with linked words, so
            # each rule has words on both sides.
            below[0] = v
            for j in range(1 + _below(v, view, work.stack, below[1:])):
                x = below[j]
                symbols = _words(view.node[v], 0) - _words(view.node[x], 0) + 1 if x != v else _words(view.node[v], 0)
                if symbols <= HIERO_MAX_SOURCE_SYMBOLS:
                    view.cut[x] = x != v
                    position = _write(pair, v, view, batch, work, output, used, position)
                    view.cut[x] = 0
                    output.expected[used] = _expected(v, x, view, ngrams) if symbols > SHORT else 0.0
                    used += 1
    return used


class Compositions(NamedTuple):
    """m compositions: fragments, low word of each rule's key uint64[m], and expected occurrences float64[m].

    Expected occurrences of the source side in a text are from the `recurrence` module; 0 for up to `SHORT` symbols.
    """

    fragments: Fragments
    keys: NDArray[np.uint64]
    expected: NDArray[np.float64]

    def chosen(self, rows: NDArray[np.bool_]) -> Fragments:
        """Return the fragments of the rows in a mask bool[m]."""
        content, *columns = self.fragments
        return Fragments(content, *(column[rows] for column in columns))


def compositions(batch: Batch, weight: int, ngrams: Ngrams) -> Compositions:
    """Return the compositions of a batch's pairs, each with weight `weight`.

    Phrases have up to `LONGEST` words and a free cut, rules up to `HIERO_MAX_SOURCE_SYMBOLS` source symbols. `ngrams`
    are the n-gram counts of the text of the pairs.
    """
    state, work = empty_state(batch.forests), walk_space(batch)
    number, size = _room_of(batch, state, work)
    columns = [np.zeros(number, np.int64) for _ in range(6)]
    fragments = Fragments(np.zeros(size, np.uint8), *columns)
    output = Compositions(fragments, np.zeros(number, np.uint64), np.zeros(number))
    nodes, below = np.zeros((2, batch.most_nodes + 2), np.int64)
    used = _compose(batch, state, nodes, below, work, ngrams, output)
    fragments.weights[:] = weight
    return Compositions(output.chosen(np.arange(number) < used), output.keys[:used], output.expected[:used])
