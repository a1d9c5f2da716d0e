"""Fragments: the parts of a derivation that form one rule, and their constant-size summaries.

The fragment at a node is the part of its derivation down to the next cut nodes, which are the nonterminals of the rule.
A node's summary is composed from its tails' summaries, so the cost of identifying a rule does not depend on its size.
Each side has a polynomial hash modulo 2^64 of its symbols. The target hash is linear in the nonterminal numbers, so
that one multiplication renumbers the nonterminals of a fragment that becomes part of a larger fragment. A rule's key
has 128 bits from both hashes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import mix
from hierogram.samplers.forests.forest import node_label, tail_range
from hierogram.samplers.grammar import keys
from hierogram.samplers.grammar.keys import (
    BASE,
    CLOSE,
    LABEL,
    OPEN,
    SOURCE_NONTERMINAL,
    TARGET_NONTERMINAL,
    TARGET_STEP,
)

# Compiled versions of the functions in `keys`.
pack_size = njit_inline(keys.pack_size)
length_of = njit_inline(keys.length_of)
source_terminals_of = njit_inline(keys.source_terminals_of)
target_terminals_of = njit_inline(keys.target_terminals_of)


SUMMARY = np.dtype(
    [(name, np.uint64) for name in ("source_hash", "target_hash", "numbering")]
    + [(name, np.uint16) for name in ("source_size", "target_size", "source_terminals", "target_terminals")]
    + [(name, np.uint16) for name in ("nonterminals", "adjacent", "begins", "ends")]
    + [("epoch", np.uint32), ("rule_epoch", np.uint32), ("rule", np.int32), ("parent", np.int32)]
    + [("list_epoch", np.uint32), ("list_start", np.int32), ("list_size", np.int32)]
    + [("options_exponent", np.int32), ("options", np.float64)],
    align=True,
)
"""Cached data of a node.

The fields up to `ends` summarize the fragment at the node, and are valid in walk number `epoch`. `numbering` is the sum
of base^(symbols to the right) over the target nonterminals. Sizes are numbers of symbols. `adjacent` is the number of
pairs of adjacent source nonterminals. `begins` and `ends` are 1 if the source side begins or ends with a nonterminal.

Only `hierogram.samplers.synchronous` uses the other fields. `parent` is the parent in the current derivation. `rule` is
the local number of the rule at the node, valid in walk `rule_epoch`. `list_start` and `list_size` are the position
and size of the list of rules in the node's derivation, valid in walk `list_epoch`. `options` * SCALE^`options_exponent`
is the number of joint values of the variables in this derivation (SCALE of `hierogram.samplers.synchronous.draws`).
"""

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


class WordHashes(NamedTuple):
    """Cumulative word hashes of a batch: `source` and `target`, each with one more item than words.

    Item k is the polynomial hash of the batch's words before word k, so the hash of a run of words is computed from two
    items.
    `key_mask` has all bits set, except in tests that make keys collide.
    """

    source: NDArray[np.uint64]
    target: NDArray[np.uint64]
    key_mask: np.uint64


@njit
def _cumulate(hashes, running):
    value = _ZERO
    for k in range(len(hashes)):
        running[k] = value
        value = value * BASE + hashes[k]
    running[len(hashes)] = value


def cumulate_hashes(source: NDArray[np.uint64], target: NDArray[np.uint64], key_mask: np.uint64) -> WordHashes:
    """Return cumulative hashes, given the hash of each word of a bitext, uint64[words], on both sides."""
    cumulative = WordHashes(np.empty(len(source) + 1, np.uint64), np.empty(len(target) + 1, np.uint64), key_mask)
    _cumulate(source, cumulative.source)
    _cumulate(target, cumulative.target)
    return cumulative


def make_summaries(nodes: int) -> NDArray[np.void]:
    """Return SUMMARY[nodes + 1] for `compose`. The last row is a nonterminal, shared by all cut nodes."""
    summary = np.zeros(nodes + 1, SUMMARY)
    nonterminal = summary[nodes]
    nonterminal["source_hash"] = SOURCE_NONTERMINAL
    nonterminal["target_hash"] = TARGET_NONTERMINAL
    for field in ("numbering", "source_size", "target_size", "nonterminals", "begins", "ends"):
        nonterminal[field] = 1
    return summary


def base_powers(longest: int) -> NDArray[np.uint64]:
    """Return BASE^k modulo 2^64 for k = 0..longest, uint64[longest + 1]."""
    powers = np.empty(longest + 1, np.uint64)
    value = 1
    for k in range(longest + 1):
        powers[k] = value
        value = value * int(BASE) & 0xFFFFFFFFFFFFFFFF
    return powers


@njit
def _order_by_target(node, tails, first, size, order):
    """Fill `order` with 0..size-1, sorted by target start of the `size` tails from `first` on."""
    for i in range(size):
        start = node[tails[first + i]]["target_start"]
        k = i
        while k > 0 and node[tails[first + order[k - 1]]]["target_start"] > start:
            order[k] = order[k - 1]
            k -= 1
        order[k] = i


@njit_inline
def _append_words(value, running, start, end, powers):
    return (value - running[start]) * powers[end - start] + running[end]


@njit
def compose(v, view, summary, powers, scratch):
    """Write the summary of v under its current edge to `summary[v]`, given valid summaries of uncut tails."""
    # Avoid branches, because the processor could not predict them.
    node = view.node
    tails = view.tails
    cut = view.cut
    nonterminal = len(summary) - 1
    here = node[v]
    first, last = tail_range(v, view)
    size = last - first
    own_label = node_label(v, view)
    source_hash = _ZERO
    source_size = 0
    source_terminals = 0
    nonterminals = 0
    adjacent = 0
    begins = 0
    ends = 0
    if own_label:
        source_hash = OPEN + np.uint64(own_label) * LABEL
        source_size = 1
    position = np.int64(here["source_start"])
    for i in range(size):
        t = np.int64(tails[first + i])
        is_cut = np.int64(cut[t])
        below = summary[nonterminal if is_cut else t]
        start = np.int64(node[t]["source_start"])
        source_hash = _append_words(source_hash, view.source_hashes, position, start, powers)
        source_size += start - position
        source_terminals += start - position + np.int64(below["source_terminals"])
        ends = ends if position == start else 0
        position = np.int64(node[t]["source_end"])
        scratch[0, i] = nonterminals
        tail_size = np.int64(below["source_size"])
        tail_begins = np.int64(below["begins"])
        source_hash = source_hash * powers[tail_size] + below["source_hash"]
        source_hash += np.uint64(is_cut * node_label(t, view)) * LABEL
        adjacent += np.int64(below["adjacent"]) + (ends & tail_begins)
        begins = tail_begins if source_size == 0 else begins
        ends = np.int64(below["ends"])
        source_size += tail_size
        nonterminals += np.int64(below["nonterminals"])
    end = np.int64(here["source_end"])
    source_hash = _append_words(source_hash, view.source_hashes, position, end, powers)
    source_size += end - position
    source_terminals += end - position
    ends = ends if position == end else 0
    if own_label:
        source_hash = source_hash * BASE + CLOSE
        source_size += 1
        ends = 0

    target_hash = _ZERO
    numbering = _ZERO
    target_size = 0
    target_terminals = 0
    position = np.int64(here["target_start"])
    end = np.int64(here["target_end"])
    if position < end:
        swapped = 0
        if size == 2:
            swapped = 1 if node[tails[first]]["target_start"] > node[tails[first + 1]]["target_start"] else 0
        elif size > 2:
            _order_by_target(node, tails, first, np.int64(size), scratch[1])
        for k in range(size):
            i = scratch[1, k] if size > 2 else k ^ swapped
            t = np.int64(tails[first + i])
            is_cut = np.int64(cut[t])
            below = summary[nonterminal if is_cut else t]
            start = np.int64(node[t]["target_start"])
            position = min(position, start)
            tail_size = np.int64(below["target_size"])
            power = powers[tail_size]
            shift = np.uint64(scratch[0, i]) * TARGET_STEP
            target_hash = _append_words(target_hash, view.target_hashes, position, start, powers)
            target_hash = target_hash * power + below["target_hash"]
            # Omit labels from the target hash, since labeled nodes belong to trees, which have no target side.
            target_hash += shift * below["numbering"]
            numbering = numbering * powers[start - position] * power + below["numbering"]
            target_size += start - position + tail_size
            target_terminals += start - position + np.int64(below["target_terminals"])
            position = np.int64(node[t]["target_end"])
        target_hash = _append_words(target_hash, view.target_hashes, position, end, powers)
        numbering *= powers[end - position]
        target_size += end - position
        target_terminals += end - position

    own = summary[v]
    own["source_hash"] = source_hash
    own["target_hash"] = target_hash
    own["numbering"] = numbering
    own["source_size"] = source_size
    own["target_size"] = target_size
    own["source_terminals"] = source_terminals
    own["target_terminals"] = target_terminals
    own["nonterminals"] = nonterminals
    own["adjacent"] = adjacent
    own["begins"] = begins
    own["ends"] = ends


@njit_inline
def rule_key_from_hashes(source_hash, target_hash, key_mask):
    """Return the key (high, low) of a rule, never (0, 0), from the hashes of its sides and `key_mask`."""
    high = mix(source_hash)
    low = mix(target_hash + high) & key_mask
    high = high & key_mask
    if low == _ZERO and high == _ZERO:
        low = _ONE
    return high, low


@njit_inline
def summary_key(summary, v, key_mask):
    """Return the key (high, low) of the rule at node v, which is never (0, 0). v's summary must be valid."""
    return rule_key_from_hashes(summary[v]["source_hash"], summary[v]["target_hash"], key_mask)


@njit_inline
def summary_scope(summary, v):
    """Return the scope of the rule at node v from its valid summary."""
    row = summary[v]
    return np.int64(row["adjacent"]) + np.int64(row["begins"]) + np.int64(row["ends"])


@njit_inline
def summary_size(summary, v):
    """Return the packed size of the rule at node v from its valid summary."""
    source_terminals = np.int64(summary[v]["source_terminals"])
    target_terminals = np.int64(summary[v]["target_terminals"])
    return pack_size(
        source_terminals + target_terminals + summary_scope(summary, v), source_terminals, target_terminals
    )
