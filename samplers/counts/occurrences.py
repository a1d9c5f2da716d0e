"""Rule uses in derivations: distinct rules of each pair, and word links within each rule use."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_allocating
from hierogram.samplers.counts.deltas import NUMBER, CountDeltas
from hierogram.samplers.counts.table import find
from hierogram.samplers.forests.averages import decode_fragment
from hierogram.samplers.forests.derivations import (
    Batch,
    State,
    begin_walk,
    empty_state,
    make_summary,
    next_rule,
    same_slices,
    walk_space,
)
from hierogram.samplers.forests.forest import tail_range, view_pair
from hierogram.samplers.forests.fragments import summary_key
from hierogram.samplers.forests.records import Fragments


class Occurrences(NamedTuple):
    """Distinct rules of each pair: pair index int64[n], key uint64[n, 2] and number of uses int64[n]."""

    pairs: NDArray[np.int64]
    keys: NDArray[np.uint64]
    uses: NDArray[np.int64]


@njit
def _list_rules(batch, state, pairs, keys, work):
    count = 0
    for pair in range(len(batch.pairs)):
        view = view_pair(batch, state, pair)
        depth = begin_walk(view, work)
        while True:
            v, depth = next_rule(view, work, depth)
            if v < 0:
                break
            high, low = summary_key(work.summary, v, batch.word_hashes.key_mask)
            pairs[count], keys[count, 0], keys[count, 1] = pair, high, low
            count += 1
    return count


def rule_occurrences(batch: Batch, state: State) -> Occurrences:
    """Return the distinct rules of each pair's derivation, sorted by pair and key."""
    max_rules = int(batch.derivation_rules[-1])
    pairs, keys = np.empty(max_rules, np.int64), np.empty((max_rules, 2), np.uint64)
    count = _list_rules(batch, state, pairs, keys, walk_space(batch))
    pairs, keys = pairs[:count], keys[:count]
    order = np.lexsort((keys[:, 1], keys[:, 0], pairs))
    pairs, keys = pairs[order], keys[order]
    first = np.ones(count, np.bool_)
    first[1:] = (pairs[1:] != pairs[:-1]) | (keys[1:] != keys[:-1]).any(axis=1)
    starts = np.flatnonzero(first)
    return Occurrences(pairs[starts], keys[starts], np.diff(np.append(starts, count)))


SIDE_BITS = 16
"""Number of bits for a position in a side."""


class RuleLinks(NamedTuple):
    """Word links inside each of n rule uses."""

    # int64[n]: index of each use's rule in `CountDeltas.entry`.
    entries: NDArray[np.int64]
    # int64[n + 1]: use k has the links `links[offset[k] : offset[k + 1]]`, which are in ascending order.
    offset: NDArray[np.int64]
    # uint32[links]: (index of the source symbol << `SIDE_BITS`) + index of the target symbol, within the rule's sides.
    links: NDArray[np.uint32]


@njit
def _number_symbols(start, end, nonterminal_end, symbol_position):
    """Write the index in the rule's side of each word of [start, end), except of words in nonterminals."""
    position = start
    symbol = 0
    while position < end:
        if nonterminal_end[position] > position:
            after = nonterminal_end[position]
            nonterminal_end[position] = 0
            position = after
        else:
            symbol_position[position] = symbol
            position += 1
        symbol += 1


@njit
def _mark_nonterminals(v, view, stack, source_end, target_end):
    """For each nonterminal of the rule at v, write its span's end at the index of its span's start."""
    stack[0] = v
    depth = 1
    while depth > 0:
        depth -= 1
        first, last = tail_range(np.int64(stack[depth]), view)
        for i in range(first, last):
            t = view.tails[i]
            if view.cut[t]:
                source_end[np.int64(view.node[t]["source_start"])] = view.node[t]["source_end"]
                target_end[np.int64(view.node[t]["target_start"])] = view.node[t]["target_end"]
            else:
                stack[depth] = t
                depth += 1


@njit
def _find_first_links(pair, bitext, first_link):
    last = bitext.link_offset[pair + 1]
    k = bitext.link_offset[pair]
    words = bitext.source_offset[pair + 1] - bitext.source_offset[pair]
    for word in range(words):
        first_link[word] = k
        while k < last and bitext.link_source[k] == word:
            k += 1
    first_link[words] = k


@njit
def _write_links(v, view, bitext, stack, scratch, links, written):
    """Write the links in the rule at node v. Returns the index after the last link."""
    source_end, target_end, source_symbol, target_symbol = scratch[0], scratch[1], scratch[2], scratch[3]
    first_link = scratch[4]
    _mark_nonterminals(v, view, stack, source_end, target_end)
    start = np.int64(view.node[v]["source_start"])
    end = np.int64(view.node[v]["source_end"])
    for word in range(start, end):
        source_symbol[word] = -1
    _number_symbols(start, end, source_end, source_symbol)
    target_start = np.int64(view.node[v]["target_start"])
    _number_symbols(target_start, np.int64(view.node[v]["target_end"]), target_end, target_symbol)
    for word in range(start, end):
        if source_symbol[word] < 0:
            continue
        # Every phrase is closed under links, so both words of a link belong to the same rule.
        for k in range(first_link[word], first_link[word + 1]):
            links[written] = (source_symbol[word] << SIDE_BITS) + target_symbol[np.int64(bitext.link_target[k])]
            written += 1
    return written


@njit
def _entry_of(v, deltas, batch, work):
    """Return the entry of the rule at node v. Needs the summary of v, and the rule in `deltas`."""
    high, low = summary_key(work.summary, v, batch.word_hashes.key_mask)
    return np.int64(deltas.rows[find(deltas.rows, high, low), NUMBER])


@njit
def _rule_links(deltas, batch, state, pairs, work, scratch, links):
    """Write the links of each rule use in the pairs. Returns the number of uses."""
    count = 0
    written = 0
    for pair in pairs:
        view = view_pair(batch, state, pair)
        _find_first_links(pair, batch.bitext, scratch[4])
        depth = begin_walk(view, work)
        while True:
            v, depth = next_rule(view, work, depth)
            if v < 0:
                break
            links.entries[count] = _entry_of(v, deltas, batch, work)
            links.offset[count] = written
            written = _write_links(v, view, batch.bitext, work.walk, scratch, links.links, written)
            count += 1
    links.offset[count] = written
    return count


@njit
def _fragment_links(deltas, batch, state, fragments, work, scratch, links):
    """Write the links of the fragments' rules."""
    written = 0
    for k in range(len(fragments.pairs)):
        pair, root = fragments.pairs[k], fragments.roots[k]
        view = view_pair(batch, state, pair)
        if k == 0 or pair != fragments.pairs[k - 1]:
            _find_first_links(pair, batch.bitext, scratch[4])
        decode_fragment(root, view, work.pending, fragments.content, fragments.starts[k], fragments.ends[k])
        work.registers[0]["epoch"] += 1
        make_summary(root, view, work)
        links.entries[k] = _entry_of(root, deltas, batch, work)
        links.offset[k] = written
        written = _write_links(root, view, batch.bitext, work.walk, scratch, links.links, written)
    links.offset[len(fragments.pairs)] = written


def _scratch(batch: Batch) -> NDArray[np.int64]:
    bitext = batch.bitext
    longest = int(max(np.diff(bitext.source_offset).max(initial=0), np.diff(bitext.target_offset).max(initial=0)))
    return np.zeros((5, longest + 2), np.int64)


def _allocate_links(uses: int, links: int) -> RuleLinks:
    return RuleLinks(np.zeros(uses, np.int64), np.zeros(uses + 1, np.int64), np.empty(links, np.uint32))


def rule_links(deltas: CountDeltas, batch: Batch, state: State, pairs: NDArray[np.int64]) -> RuleLinks:
    """Return the links inside each rule use in the derivations of `pairs`, which are indices in the batch.

    The links of the batch must be sorted by source word and target word, and `deltas` must contain the rules.
    """
    links = _allocate_links(int(batch.derivation_rules[-1]), len(batch.bitext.link_source))
    count = _rule_links(deltas, batch, state, pairs, walk_space(batch), _scratch(batch), links)
    return RuleLinks(links.entries[:count], links.offset[: count + 1], links.links[: links.offset[count]])


def fragment_links(deltas: CountDeltas, batch: Batch, fragments: Fragments) -> RuleLinks:
    """Return the links in each fragment's rule, like `rule_links`. Fragments must match their forests."""
    max_links = int(np.diff(batch.bitext.link_offset)[fragments.pairs].sum())
    links = _allocate_links(len(fragments.pairs), max_links)
    work, state = walk_space(batch), empty_state(batch.forests)
    _fragment_links(deltas, batch, state, fragments, work, _scratch(batch), links)
    return links._replace(links=links.links[: links.offset[-1]])


@njit_allocating
def select_ranges(content, offsets, rows):
    """Concatenate `content[offsets[row] : offsets[row + 1]]` of all `rows`. Returns content and offsets."""
    selected_offsets = np.zeros(len(rows) + 1, np.int64)
    for k in range(len(rows)):
        selected_offsets[k + 1] = selected_offsets[k] + offsets[rows[k] + 1] - offsets[rows[k]]
    selected = np.empty(selected_offsets[len(rows)], content.dtype)
    for k in range(len(rows)):
        for position in range(selected_offsets[k + 1] - selected_offsets[k]):
            selected[selected_offsets[k] + position] = content[offsets[rows[k]] + position]
    return selected, selected_offsets


@njit
def _merge_uses(links, items, weights, latest, before, sums):
    """Add the weight of each use to the row of the first use of the same rule with the same links.

    The weight is added to column `items[k]` of `sums`. The first uses of an entry form a linked list: `latest[entry]`
    is the newest use in the list, and `before[k]` is the use before use k, or -1.
    """
    for k in range(len(links.entries)):
        entry = links.entries[k]
        other = latest[entry]
        start, end = links.offset[k], links.offset[k + 1]
        while other >= 0 and not same_slices(
            links.links, start, end, links.links, links.offset[other], links.offset[other + 1]
        ):
            other = before[other]
        if other < 0:
            before[k] = latest[entry]
            latest[entry] = k
            other = k
        sums[other, items[k]] += weights[k]


def uses_by_links(
    links: Sequence[RuleLinks], weights: Sequence[NDArray[np.int64]]
) -> tuple[RuleLinks, NDArray[np.int64]]:
    """Merge the uses of a rule with the same links. Returns the n distinct uses and their weights.

    The items of `links` are lists of uses, with indices into the same deltas, and the items of `weights` have the
    weight of each use, int64[m]. The returned weights, int64[n, items], are sums with a column for each item. Uses
    whose sums are all 0 are dropped.
    """
    sizes = [len(part.entries) for part in links]
    together = RuleLinks(
        np.concatenate([np.zeros(0, np.int64), *(part.entries for part in links)]),
        np.cumsum(np.concatenate([np.zeros(1, np.int64), *(np.diff(part.offset) for part in links)])),
        np.concatenate([np.zeros(0, np.uint32), *(part.links[: part.offset[-1]] for part in links)]),
    )
    sums = np.zeros((sum(sizes), len(links)), np.int64)
    items = np.repeat(np.arange(len(links)), sizes)
    latest = np.full(int(together.entries.max(initial=-1)) + 1, -1, np.int64)
    all_weights = np.concatenate([np.zeros(0, np.int64), *weights])
    _merge_uses(together, items, all_weights, latest, np.empty(len(sums), np.int64), sums)
    rows = np.flatnonzero(sums.any(axis=1))
    links_of_rows, offset = select_ranges(together.links, together.offset, rows)
    return RuleLinks(together.entries[rows], offset, links_of_rows), sums[rows]
