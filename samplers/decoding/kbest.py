"""Lazy k-best derivations of a filled chart [Huang & Chiang 2005, Algorithm 3].

An entry is a derivation of an item: an edge and an entry for each tail. The first entry of an item is its best
derivation, and has the item's number. Those that follow are made when they are asked for: candidates are the item's
other edges over first entries, and, of each entry that was taken, those with the next entry for one tail. Going on only
with the tail that was gone on with last, or with a later one, meets each candidate once.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.decoding.chart import ITEMS, NONE, TAILS, Chart

ENTRY = np.dtype(
    [
        ("score", np.float64),
        ("edge", np.int32),
        ("item", np.int32),
        ("tails", np.int32),
        ("grown", np.int32),
        ("next", np.int32),
        ("child", np.int32),
        ("sibling", np.int32),
    ],
    align=True,
)
"""A derivation, or a candidate: its score; its edge, item and tails' entries; the first tail to go on with; the item's
next entry; its place in the item's heap of candidates (a pairing heap)."""

SOURCE_ITEM = np.dtype(
    [("last", np.int32), ("heap", np.int32), ("cursor", np.int32), ("opened", np.int16), ("ended", np.int16)],
    align=True,
)
"""The last entry of an item, its heap, the tail of the last entry to go on with next; whether its other edges are among
the candidates, and whether there are no more of them."""

ENTRIES, ENTRY_TAILS = 0, 1


class Lists(NamedTuple):
    """Entries ENTRY[c], their tails' entries int32, SOURCE_ITEM[items], a stack of items int32, and int64[2] in use."""

    entries: NDArray[np.void]
    tails: NDArray[np.int32]
    items: NDArray[np.void]
    stack: NDArray[np.int32]
    taken: NDArray[np.int64]


def make_lists(chart: Chart, size: int) -> Lists:
    """Room for so many entries beside the first ones."""
    items = int(chart.taken[ITEMS])
    return Lists(
        np.zeros(items + size, ENTRY),
        np.zeros(int(chart.taken[TAILS]) + 2 * size, np.int32),
        np.zeros(items, SOURCE_ITEM),
        np.zeros(items + 1, np.int32),
        np.zeros(2, np.int64),
    )


@njit_inline
def _beats(lists, one, other):
    a, b = lists.entries[one].score, lists.entries[other].score
    return a > b or (a == b and one < other)


@njit_inline
def _meld(lists, one, other):
    """One heap of two; its best candidate."""
    if one == NONE:
        return other
    if other == NONE:
        return one
    if _beats(lists, other, one):
        one, other = other, one
    lists.entries[other].sibling = lists.entries[one].child
    lists.entries[one].child = other
    return one


@njit
def _without_best(lists, heap):
    """The heap without its best candidate: its children, melded in pairs, then from the last pair on."""
    pairs = np.int64(NONE)
    child = np.int64(lists.entries[heap].child)
    while child != NONE:
        other = np.int64(lists.entries[child].sibling)
        after = np.int64(NONE)
        if other != NONE:
            after = np.int64(lists.entries[other].sibling)
            lists.entries[other].sibling = NONE
        lists.entries[child].sibling = NONE
        melded = np.int64(_meld(lists, child, other))
        lists.entries[melded].sibling = pairs
        pairs = melded
        child = after
    heap = np.int64(NONE)
    while pairs != NONE:
        before = np.int64(lists.entries[pairs].sibling)
        lists.entries[pairs].sibling = NONE
        heap = np.int64(_meld(lists, heap, pairs))
        pairs = before
    return heap


@njit
def begin_lists(chart, lists):
    """Make the first entry of every item."""
    for item in range(chart.taken[ITEMS]):
        there = chart.items[item]
        _fill(chart, lists, item, item, there.best, chart.edges[there.best].tails)
        known = lists.items[item]
        known.last, known.heap, known.cursor, known.opened, known.ended = item, NONE, 0, 0, 0
    # A first entry's tails are the items themselves, so their numbers serve both.
    for k in range(chart.taken[TAILS]):
        lists.tails[k] = chart.tails[k]
    lists.taken[ENTRIES] = chart.taken[ITEMS]
    lists.taken[ENTRY_TAILS] = chart.taken[TAILS]


@njit_inline
def _fill(chart, lists, entry, item, edge, tails):
    made = lists.entries[entry]
    made.edge, made.item, made.tails, made.grown = edge, item, tails, 0
    made.next, made.child, made.sibling = NONE, NONE, NONE
    made.score = chart.edges[edge].score


@njit
def _add_other_edges(chart, lists, item):
    """Make candidates of the item's other edges; False where there is no room."""
    known = lists.items[item]
    edge = chart.items[item].edges
    while edge != NONE:
        if edge != chart.items[item].best:
            entry = lists.taken[ENTRIES]
            if entry == len(lists.entries):
                return False
            lists.taken[ENTRIES] += 1
            _fill(chart, lists, entry, item, edge, chart.edges[edge].tails)
            known.heap = _meld(lists, np.int64(known.heap), entry)
        edge = chart.edges[edge].next
    known.opened = 1
    return True


@njit
def _add(chart, lists, entry, tail, with_entry):
    """A candidate: an entry with another one for a tail; False where there is no room."""
    there = lists.entries[entry]
    edge = chart.edges[there.edge]
    made, tails = lists.taken[ENTRIES], lists.taken[ENTRY_TAILS]
    if made == len(lists.entries) or tails + edge.arity > len(lists.tails):
        return False
    lists.taken[ENTRIES] += 1
    lists.taken[ENTRY_TAILS] += edge.arity
    total = edge.own
    for k in range(edge.arity):
        of = with_entry if k == tail else lists.tails[there.tails + k]
        lists.tails[tails + k] = of
        total += lists.entries[of].score
    item = np.int64(there.item)
    _fill(chart, lists, made, item, there.edge, tails)
    new = lists.entries[made]
    new.score, new.grown = total, tail
    lists.items[item].heap = _meld(lists, np.int64(lists.items[item].heap), made)
    return True


@njit
def extend(chart, lists, item):
    """Make the entry of an item after its last: 1 where there is one, 0 where there is none, -1 where there is no room.

    What is asked of other items for that is kept on a stack.
    """
    depth = 0
    lists.stack[0] = item
    while depth >= 0:
        at = lists.stack[depth]
        known = lists.items[at]
        if known.opened == 0 and not _add_other_edges(chart, lists, at):
            return -1
        last = known.last
        arity = chart.edges[lists.entries[last].edge].arity
        waits = False
        while known.cursor < arity:
            tail = lists.tails[lists.entries[last].tails + known.cursor]
            after = lists.entries[tail].next
            if after == NONE:
                of = lists.entries[tail].item
                if lists.items[of].ended == 0:
                    depth += 1
                    lists.stack[depth] = of
                    waits = True
                    break
            elif not _add(chart, lists, last, known.cursor, after):
                return -1
            known.cursor += 1
        if waits:
            continue
        depth -= 1
        best = known.heap
        if best == NONE:
            known.ended = 1
            continue
        known.heap = _without_best(lists, np.int64(best))
        lists.entries[best].child = NONE
        lists.entries[last].next = best
        known.last = best
        known.cursor = lists.entries[best].grown
    return 0 if lists.items[item].ended != 0 else 1


@njit
def find_best(chart, lists, goal, wanted, found):
    """The best derivations of the goal, at most `wanted`, best first, into `found` int32; how many, -1: no room."""
    begin_lists(chart, lists)
    number = 1
    found[0] = goal
    while number < wanted:
        outcome = extend(chart, lists, goal)
        if outcome < 0:
            return -1
        if outcome == 0:
            break
        found[number] = lists.items[goal].last
        number += 1
    return number


def best_entries(chart: Chart, goal: int, wanted: int) -> tuple[Lists, NDArray[np.int32]]:
    """The goal's best derivations, at most `wanted`, as entries of lists, best first."""
    size = 64 if wanted == 1 else 1 << 14
    while True:
        lists = make_lists(chart, size)
        found = np.empty(wanted, np.int32)
        number = int(find_best(chart, lists, goal, wanted, found))
        if number >= 0:
            return lists, found[:number]
        size *= 4
