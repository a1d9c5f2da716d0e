"""Forests: all derivations of each pair of a batch in flat arrays, and views of pairs for kernels.

A forest is a hypergraph. Its nodes have spans in a source and a target text. Each hyperedge leads from tails, which are
the child nodes in a derivation, to a head, their parent (docs/model.md, section 1). Examples are phrase forests
[CFGŠ14 §3], treebank trees (one edge per node) and parse forests.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.exceptions import ForestTooLargeError
from hierogram.samplers.grammar.numbers import MAX_NODES

NO_TAIL = 0xFFFF
"""Padding in `Forests.tails` of edges with fewer tails than other edges of the same node."""


class Bitext(NamedTuple):
    """Words and alignment links of P sentence pairs, concatenated."""

    # int32[words], int64[P+1]: word numbers. Pair p has `source[source_offset[p] : source_offset[p + 1]]`.
    source: NDArray[np.int32]
    source_offset: NDArray[np.int64]
    # The same arrays for target words.
    target: NDArray[np.int32]
    target_offset: NDArray[np.int64]
    # int16[links]: source position and target position of each link, numbered from 0 within the pair.
    link_source: NDArray[np.int16]
    link_target: NDArray[np.int16]
    # int64[P+1]: pair p has the links from `link_offset[p]` up to `link_offset[p + 1]`.
    link_offset: NDArray[np.int64]


NODE = np.dtype(
    [(name, np.int16) for name in ("source_start", "source_end", "target_start", "target_end", "label", "level")]
    + [("degree", np.uint16), ("arity", np.uint16), ("tail_offset", np.uint32), ("free", np.uint8)],
    align=True,
)
"""Node of a forest.

Word spans are half-open. `label` is 0 for phrases. `level` is the number of edges in any derivation of the node (Lemma
3 of [CFGŠ14]), or the maximum number in parse forests. `degree` is the number of edges into the node, among which a
derivation chooses. `arity` is the number of tails per edge, including padding. `tail_offset` is the first tail of the
node among the pair's tails. `free` is 1 if the cut is variable. It is 0 at the root and if a span exceeds the limit:
these nodes are always cut.
"""


class Forests(NamedTuple):
    """Forests of P pairs with N nodes and T tails in total. Tails precede their heads, and roots are last."""

    # int64[P+1]: pair p has nodes `node_offset[p]:node_offset[p+1]`, numbered from 0 within the pair.
    node_offset: NDArray[np.int64]
    # NODE[N]
    node: NDArray[np.void]
    # int64[P+1]: index into `tails` of the first tail of each pair.
    pair_tail_offset: NDArray[np.int64]
    # uint16[T]: edge j of node v has the tails `tails[t + j*arity : t + (j+1)*arity]`, in source order and padded with
    # NO_TAIL. t is the pair's first tail plus `tail_offset` of v.
    tails: NDArray[np.uint16]

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return len(self.node_offset) - 1

    @property
    def nodes(self) -> int:
        """Number of nodes of all pairs."""
        return int(self.node_offset[-1])


_POSITION, _LOWEST, _HIGHEST, _BACK_LOWEST, _BACK_HIGHEST, _ENDS, _RENUMBERED = range(7)
"""Rows of `words_at`, the scratch memory of `_phrase_forests`.

Aligned source words are renumbered consecutively. `_POSITION` is the position of each aligned source word, and
`_RENUMBERED` the inverse. `_LOWEST` and `_HIGHEST` are the first and last target word linked to each aligned source
word, `_BACK_LOWEST` and `_BACK_HIGHEST` the first and last aligned source word linked to each target word. `_ENDS`
lists the last words of the phrases that begin at the current source word.
"""


@njit
def _bound_links(bitext, pair, words_at):
    """Write the bounds of each word's links in a pair. Returns the number of aligned source words."""
    position, renumbered = words_at[_POSITION], words_at[_RENUMBERED]
    lowest, highest = words_at[_LOWEST], words_at[_HIGHEST]
    back_lowest, back_highest = words_at[_BACK_LOWEST], words_at[_BACK_HIGHEST]
    words = bitext.source_offset[pair + 1] - bitext.source_offset[pair]
    target_words = bitext.target_offset[pair + 1] - bitext.target_offset[pair]
    lowest[:words] = target_words
    highest[:words] = -1
    back_lowest[:target_words] = words
    back_highest[:target_words] = -1
    for k in range(bitext.link_offset[pair], bitext.link_offset[pair + 1]):
        s = bitext.link_source[k]
        t = bitext.link_target[k]
        lowest[s] = min(lowest[s], t)
        highest[s] = max(highest[s], t)
    aligned = 0
    for s in range(words):
        if highest[s] >= 0:
            renumbered[s] = aligned
            position[aligned] = s
            lowest[aligned] = lowest[s]
            highest[aligned] = highest[s]
            aligned += 1
    for k in range(bitext.link_offset[pair], bitext.link_offset[pair + 1]):
        s = renumbered[bitext.link_source[k]]
        t = bitext.link_target[k]
        back_lowest[t] = min(back_lowest[t], s)
        back_highest[t] = max(back_highest[t], s)
    return aligned


@njit
def _write_splits(i, j, aligned, ends, node_at, tails):
    """Write an edge to `tails` for each split of span [i, j] into two phrases. Returns their number."""
    edges = 0
    for end in ends:
        right = node_at[(end + 1) * aligned + j]
        if right >= 0:
            tails[2 * edges] = node_at[i * aligned + end]
            tails[2 * edges + 1] = right
            edges += 1
    return edges


@njit
def _write_maximal_phrases(i, j, aligned, ends, node_at, tails):
    """Write the maximal phrases strictly inside span [i, j] to `tails`. Returns their number."""
    children = 0
    start = i
    while start <= j:
        end = j if start > i else (ends[len(ends) - 1] if len(ends) > 0 else -1)
        while end >= start and node_at[start * aligned + end] < 0:
            end -= 1
        if end >= start:
            tails[children] = node_at[start * aligned + end]
            children += 1
            start = end + 1
        else:
            start += 1
    return children


@njit
def _phrase_forests(bitext, first, last, span_limit, forests, words_at, node_at, used):
    """Write the forests of pairs [first, last). Returns the first pair that does not fit, or `last`.

    Returns -1 - pair if a pair has too many nodes. `used` int64[2] has the numbers of nodes and tails written to
    `forests`. `words_at` int32[7, n] and `node_at` int32[n²] are scratch memory for sides of up to n words. `node_at`
    has the node of each span [i, j] of aligned source words that is a phrase, or -1.

    Source spans are visited by descending start, and spans of one start by increasing length. Every phrase inside a
    span is thus found before the span [CFGŠ14 Algorithm 2] (docs/model.md, section 1). Target positions need no
    renumbering, because a target word without links adds no constraint.
    """
    position, lowest, highest = words_at[_POSITION], words_at[_LOWEST], words_at[_HIGHEST]
    back_lowest, back_highest, ends = words_at[_BACK_LOWEST], words_at[_BACK_HIGHEST], words_at[_ENDS]
    nodes = forests.node
    tails = forests.tails
    node = used[0]
    tail = used[1]
    for pair in range(first, last):
        aligned = _bound_links(bitext, pair, words_at)
        # Check the room for one node per span in advance, so that the loop checks only the room for tails.
        if node + max(1, aligned * (aligned + 1) // 2) > len(nodes):
            return pair
        first_node = node
        first_tail = tail
        node_at[: aligned * aligned] = -1
        for i in range(aligned - 1, -1, -1):
            low = lowest[i]
            high = low - 1
            back_low = aligned
            back_high = -1
            found = 0
            for j in range(i, aligned):
                # Extend the target span to the links of word j, then follow the links of the new target words.
                new_low = min(low, lowest[j])
                new_high = max(high, highest[j])
                for t in range(new_low, low):
                    back_low = min(back_low, back_lowest[t])
                    back_high = max(back_high, back_highest[t])
                for t in range(high + 1, new_high + 1):
                    back_low = min(back_low, back_lowest[t])
                    back_high = max(back_high, back_highest[t])
                low = new_low
                high = new_high
                if back_low < i:
                    break
                if back_high > j:
                    continue
                if node - first_node >= MAX_NODES:
                    return -1 - pair
                if tail + 2 * (j - i + 1) > len(tails):
                    return pair
                arity = 2
                edges = _write_splits(i, j, aligned, ends[:found], node_at, tails[tail:])
                if edges == 0:
                    edges = 1
                    arity = _write_maximal_phrases(i, j, aligned, ends[:found], node_at, tails[tail:])
                # All edges of a node have the same level.
                level = 1
                for k in range(tail, tail + arity):
                    level += np.int64(nodes[first_node + np.int64(tails[k])]["level"])
                nodes[node]["tail_offset"] = tail - first_tail
                nodes[node]["arity"] = arity
                nodes[node]["degree"] = edges
                nodes[node]["level"] = level
                nodes[node]["label"] = 0
                nodes[node]["source_start"] = position[i]
                nodes[node]["source_end"] = position[j] + 1
                nodes[node]["target_start"] = low
                nodes[node]["target_end"] = high + 1
                nodes[node]["free"] = span_limit <= 0 or (
                    position[j] + 1 - position[i] <= span_limit and high + 1 - low <= span_limit
                )
                node_at[i * aligned + j] = node - first_node
                ends[found] = j
                found += 1
                node += 1
                tail += edges * arity
        if aligned == 0:
            nodes[node]["tail_offset"] = 0
            nodes[node]["degree"] = 1
            nodes[node]["arity"] = 0
            nodes[node]["level"] = 1
            nodes[node]["label"] = 0
            node += 1
        # Extend the root to all words of the pair, since words outside all phrases belong to it.
        nodes[node - 1]["source_start"] = 0
        nodes[node - 1]["source_end"] = bitext.source_offset[pair + 1] - bitext.source_offset[pair]
        nodes[node - 1]["target_start"] = 0
        nodes[node - 1]["target_end"] = bitext.target_offset[pair + 1] - bitext.target_offset[pair]
        nodes[node - 1]["free"] = 0
        forests.node_offset[pair + 1] = node
        forests.pair_tail_offset[pair + 1] = tail
        used[0] = node
        used[1] = tail
    return last


Scalar = TypeVar("Scalar", bound=np.generic)


def longer(array: NDArray[Scalar], size: int) -> NDArray[Scalar]:
    """Return the array if it has `size` rows, or else a copy padded with zeros to at least twice the rows."""
    if size <= len(array):
        return array
    grown = np.zeros((max(size, 2 * len(array)), *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


def build_forests(bitext: Bitext, span_limit: int = 0) -> Forests:
    """Build the phrase decomposition forests of all pairs of a bitext [CFGŠ14 §3], one node per phrase.

    The positions of the links must be in range. Unaligned words belong to the lowest node of a derivation that covers
    them. Nodes wider than `span_limit` words on either side are always cut, unless the limit is 0. Raises
    `ForestTooLargeError` if a pair has more than 65,535 phrases, which is possible from 362 words on.
    """
    pairs = len(bitext.source_offset) - 1
    links = len(bitext.link_source)
    source_words, target_words = np.diff(bitext.source_offset), np.diff(bitext.target_offset)
    longest = int(max(source_words.max(initial=1), target_words.max(initial=1)))
    words_at = np.empty((7, longest), np.int32)
    node_at = np.empty(int(source_words.max(initial=1)) ** 2, np.int32)
    used = np.zeros(2, np.int64)
    forests = Forests(
        np.zeros(pairs + 1, np.int64),
        np.empty(64 + 6 * links, NODE),
        np.zeros(pairs + 1, np.int64),
        np.empty(64 + 50 * links, np.uint16),
    )
    pair = 0
    while True:
        pair = _phrase_forests(bitext, pair, pairs, span_limit, forests, words_at, node_at, used)
        if pair < 0:
            raise ForestTooLargeError(
                f"pair number {-1 - pair} of the batch has more than {MAX_NODES:,} phrases: "
                "remove pairs of more than 361 words on a side"
            )
        if pair == pairs:
            break
        # Upper bounds are one phrase per span, and two tails per split of each span.
        words = int(source_words[pair])
        spans = words * (words + 1) // 2
        forests = forests._replace(
            node=longer(forests.node, int(used[0]) + max(1, spans)),
            tails=longer(forests.tails, int(used[1]) + spans * (words + 2)),
        )
    nodes, tails = int(used[0]), int(used[1])
    return forests._replace(node=forests.node[:nodes].copy(), tails=forests.tails[:tails].copy())


class Node(NamedTuple):
    """Node for `assemble`: half-open spans, tails of each edge (numbers of earlier nodes), label or 0."""

    source: tuple[int, int]
    target: tuple[int, int]
    edges: Sequence[Sequence[int]]
    label: int = 0


def assemble(pairs: Sequence[Sequence[Node]], span_limit: int = 0) -> Forests:
    """Build forests from lists of nodes with tails before heads and the root last.

    Labels must be in 0..`MAX_LABEL`. The numbers of nodes and edges must be within the limits of
    `hierogram.samplers.grammar.numbers`. Roots are always cut, and so are nodes wider than `span_limit` words on either
    side, unless the limit is 0.
    """
    rows = []
    tails: list[int] = []
    pair_tail_offset = [0]
    for pair in pairs:
        levels: list[int] = []
        for number, node in enumerate(pair):
            width = max(len(edge) for edge in node.edges)
            levels.append(max(1 + sum(levels[t] for t in edge) for edge in node.edges))
            widest = max(node.source[1] - node.source[0], node.target[1] - node.target[0])
            free = number < len(pair) - 1 and not 0 < span_limit < widest
            offset = len(tails) - pair_tail_offset[-1]
            rows.append((*node.source, *node.target, node.label, levels[-1], len(node.edges), width, offset, free))
            for edge in node.edges:
                tails += [*edge, *[NO_TAIL] * (width - len(edge))]
        pair_tail_offset.append(len(tails))
    return Forests(
        np.cumsum([0] + [len(pair) for pair in pairs], dtype=np.int64),
        np.array(rows, NODE),
        np.array(pair_tail_offset, np.int64),
        np.array(tails, np.uint16),
    )


class PairView(NamedTuple):
    """Views of the data of one pair. Changes of `edge` and `cut` change the state of the batch."""

    # NODE[n], uint16[tails]: nodes and tails of the forest, as in `Forests`.
    node: NDArray[np.void]
    tails: NDArray[np.uint16]
    # uint64[words + 1]: cumulative hashes of the words of both sides, as in `WordHashes`.
    source_hashes: NDArray[np.uint64]
    target_hashes: NDArray[np.uint64]
    # uint16[n], uint8[n]: variables of the nodes, as in `State`.
    edge: NDArray[np.uint16]
    cut: NDArray[np.uint8]


@njit_inline
def view_pair(batch, state, pair):
    """Return the view of a pair, given its index in the batch."""
    forests, bitext, hashes = batch.forests, batch.bitext, batch.word_hashes
    a, b = forests.node_offset[pair], forests.node_offset[pair + 1]
    return PairView(
        forests.node[a:b],
        forests.tails[forests.pair_tail_offset[pair] : forests.pair_tail_offset[pair + 1]],
        hashes.source[bitext.source_offset[pair] : bitext.source_offset[pair + 1] + 1],
        hashes.target[bitext.target_offset[pair] : bitext.target_offset[pair + 1] + 1],
        state.edge[a:b],
        state.cut[a:b],
    )


@njit_inline
def node_label(v, view):
    """Return the label number of node v, or 0 for a phrase."""
    return np.int64(view.node[v]["label"])


@njit_inline
def tail_range(v, view):
    """Return the half-open range of v's current tails in `view.tails`, without padding, in source order."""
    arity = np.int64(view.node[v]["arity"])
    first = np.int64(view.node[v]["tail_offset"]) + np.int64(view.edge[v]) * arity
    last = first + arity
    while last > first and view.tails[last - 1] == NO_TAIL:
        last -= 1
    return first, last


@njit_inline
def push_tails(v, view, stack, depth):
    """Push v's current tails to a stack, the first in source order on top. Returns the new depth."""
    first, last = tail_range(v, view)
    for i in range(last - 1, first - 1, -1):
        stack[depth] = view.tails[i]
        depth += 1
    return depth
