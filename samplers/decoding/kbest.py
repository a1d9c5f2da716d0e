"""Lazy k-best derivations of a chart [Huang & Chiang 2005, Algorithm 3] (docs/model.md, section 10).

An entry is a derivation of an item: an edge, and an entry for each of the edge's tails. The first entry of an item is
its best derivation, and has the number of the item. Further entries are created on demand from candidates. The first
candidates are the other edges of the item, with the first entry of each tail. Each entry adds candidates in which
one tail has its next entry.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import capacity_for, find_key
from hierogram.samplers.compiled.streams import mix
from hierogram.samplers.decoding.chart import GLUE_NEXT, NONE, DecodingChart, DecodingTask, Pool
from hierogram.samplers.decoding.cubes import lm_word
from hierogram.samplers.decoding.grammar import GLUE, LM, LM_UNKNOWN, RULES, UNKNOWN_WORDS, WORDS
from hierogram.samplers.language_models.model import UNKNOWN

ENTRY = np.dtype(
    [
        ("score", np.float64),
        ("edge", np.int32),
        ("item", np.int32),
        ("tails", np.int32),
        ("first_tail", np.int32),
        ("next", np.int32),
        ("child", np.int32),
        ("sibling", np.int32),
        ("word_hash", np.uint64),
        ("shift", np.uint64),
    ],
    align=True,
)
"""Entry of an item's k-best list, or candidate for the list.

`tails`: index of its first tail entry in `KBestLists.tails`. `first_tail`: first tail that may advance. `next`: next
entry of the item. `child`, `sibling`: links in the pairing heap of the item's candidates. For distinct translations,
`word_hash` is the hash Σ_j h(w_j) Bⁿ⁻ʲ of n target words, and `shift` is Bⁿ, both modulo 2⁶⁴.
"""

ITEM_LIST = np.dtype(
    [
        ("last", np.int32),
        ("popped", np.int32),
        ("heap", np.int32),
        ("cursor", np.int32),
        ("opened", np.int16),
        ("ended", np.int16),
    ],
    align=True,
)
"""State of an item's k-best list.

`last`: last entry. `popped`: last candidate removed from the heap, which is not an entry if it was a duplicate. `heap`:
best candidate. `cursor`: next tail of `popped` to advance. `opened`: 1 after the other edges of the item have been
added. `ended`: 1 after the last entry.
"""

ENTRIES, ENTRY_TAILS = 0, 1
"""Indices into `KBestLists.used`."""
MAX_ENTRIES = 1 << 20
"""Limit on entries and candidates, besides first entries, in a search for distinct translations."""

_BASE = np.uint64(0x9E3779B97F4A7C15)
_FREE = np.uint64(0)
_ONE = np.uint64(1)


class KBestLists(NamedTuple):
    """K-best lists of all items of a chart. Parameters `lists` are of this type."""

    # ENTRY[c]: entries and candidates.
    entries: NDArray[np.void]
    # int32[tails]: tail entries of all entries and candidates.
    tails: NDArray[np.int32]
    # ITEM_LIST[items]: state of each item's list.
    items: NDArray[np.void]
    # int32[items + 1]: stack of items whose lists are being extended.
    stack: NDArray[np.int32]
    # uint64[h]: hash table of entries, by item and target words. A free slot is 0. If translations may repeat, the
    # table is unused and has length 1.
    seen: NDArray[np.uint64]
    # int64[2]: numbers of records in use in `entries` and `tails`.
    used: NDArray[np.int64]


@njit_inline
def _meld(lists, first, second):
    """Meld two pairing heaps. Returns the best candidate."""
    if first == NONE:
        return second
    if second == NONE:
        return first
    a, b = lists.entries[first].score, lists.entries[second].score
    if b > a or (b == a and second < first):
        first, second = second, first
    lists.entries[second].sibling = lists.entries[first].child
    lists.entries[first].child = second
    return first


@njit
def _remove_best(lists, heap):
    """Remove the best candidate of a heap, and meld its children. Returns the new best candidate."""
    pairs = np.int64(NONE)
    child = np.int64(lists.entries[heap].child)
    while child != NONE:
        sibling = np.int64(lists.entries[child].sibling)
        after = np.int64(NONE)
        if sibling != NONE:
            after = np.int64(lists.entries[sibling].sibling)
            lists.entries[sibling].sibling = NONE
        lists.entries[child].sibling = NONE
        melded = np.int64(_meld(lists, child, sibling))
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


@njit_inline
def _next_symbol(task, rule, position, arity):
    """Return (symbol at a position of a rule's target side, True), or (unused value, False) past the end."""
    grammar, sentence = task.grammar, task.sentence
    rules = len(grammar.target_start) - 1
    if rule < 0:
        return np.int64(-position - 1), position < arity
    if rule < rules:
        first = grammar.target_start[rule] + position
        has_more = first < grammar.target_start[rule + 1]
        return np.int64(grammar.target[first] if has_more else 0), has_more
    first = np.int64(sentence.target_start[rule - rules]) + position
    has_more = first < sentence.target_start[rule - rules + 1]
    return np.int64(sentence.target[first] if has_more else 0), has_more


@njit
def _hash_words(task, chart, lists, entry):
    """Hash the target words of an entry. Its tails must be hashed."""
    made = lists.entries[entry]
    edge = chart.edges[made.edge]
    word_hash, shift = _FREE, _ONE
    position = 0
    while True:
        symbol, has_more = _next_symbol(task, np.int64(edge.rule), position, edge.arity)
        if not has_more:
            break
        if symbol >= 0:
            word_hash = word_hash * _BASE + mix(np.uint64(symbol) + _BASE)
            shift *= _BASE
        else:
            tail = lists.entries[lists.tails[made.tails - symbol - 1]]
            word_hash = word_hash * tail.shift + tail.word_hash
            shift *= tail.shift
        position += 1
    made.word_hash, made.shift = word_hash, shift


@njit
def _add_unseen(lists, entry):
    """Add an entry's words to `seen`. Returns False if `seen` already has these words for the item."""
    seen = lists.seen
    if len(seen) == 1:
        return True
    stored = lists.entries[entry]
    key = mix(stored.word_hash + mix(np.uint64(stored.item) + _BASE)) | _ONE
    slot = find_key(seen, key >> _ONE, key)
    if seen[slot] == key:
        return False
    seen[slot] = key
    return True


@njit
def _begin_lists(task, chart, lists):
    # A first entry has the number of its item, so the tail items of an edge are also the tail entries of a first entry.
    for k in range(chart.used[Pool.TAILS]):
        lists.tails[k] = chart.tails[k]
    # Fill the first entries in the order of items, because items follow their tails.
    for item in range(chart.used[Pool.ITEMS]):
        chart_item = chart.items[item]
        _set_entry(task, chart, lists, item, item, chart_item.best, chart.edges[chart_item.best].tails)
        _add_unseen(lists, item)
        item_list = lists.items[item]
        item_list.last, item_list.popped, item_list.heap = item, item, NONE
        item_list.cursor, item_list.opened, item_list.ended = 0, 0, 0
    lists.used[ENTRIES] = chart.used[Pool.ITEMS]
    lists.used[ENTRY_TAILS] = chart.used[Pool.TAILS]


@njit_inline
def _set_entry(task, chart, lists, entry, item, edge, tails):
    made = lists.entries[entry]
    made.edge, made.item, made.tails, made.first_tail = edge, item, tails, 0
    made.next, made.child, made.sibling = NONE, NONE, NONE
    made.score = chart.edges[edge].score
    if len(lists.seen) > 1:
        _hash_words(task, chart, lists, entry)


@njit
def _add_other_edges(task, chart, lists, item):
    """Add the other edges of an item as candidates. Returns False if memory is too small."""
    item_list = lists.items[item]
    edge = chart.items[item].edges
    while edge != NONE:
        if edge != chart.items[item].best:
            entry = lists.used[ENTRIES]
            if entry == len(lists.entries):
                return False
            lists.used[ENTRIES] += 1
            _set_entry(task, chart, lists, entry, item, edge, chart.edges[edge].tails)
            item_list.heap = _meld(lists, np.int64(item_list.heap), entry)
        edge = chart.edges[edge].next
    item_list.opened = 1
    return True


@njit
def _add_variant(task, chart, lists, entry, tail, next_tail):
    """Add a candidate with another entry of one tail. Returns False if memory is too small."""
    stored = lists.entries[entry]
    edge = chart.edges[stored.edge]
    added, tails = lists.used[ENTRIES], lists.used[ENTRY_TAILS]
    if added == len(lists.entries) or tails + edge.arity > len(lists.tails):
        return False
    lists.used[ENTRIES] += 1
    lists.used[ENTRY_TAILS] += edge.arity
    total = edge.local_score
    for k in range(edge.arity):
        tail_entry = next_tail if k == tail else lists.tails[stored.tails + k]
        lists.tails[tails + k] = tail_entry
        total += lists.entries[tail_entry].score
    item = np.int64(stored.item)
    _set_entry(task, chart, lists, added, item, stored.edge, tails)
    new = lists.entries[added]
    new.score, new.first_tail = total, tail
    lists.items[item].heap = _meld(lists, np.int64(lists.items[item].heap), added)
    return True


@njit
def _extend(task, chart, lists, item):
    """Add the next entry to an item's list. Returns 1, 0 at the list's end, or -1 if memory is too small."""
    depth = 0
    lists.stack[0] = item
    while depth >= 0:
        current = lists.stack[depth]
        item_list = lists.items[current]
        if item_list.opened == 0 and not _add_other_edges(task, chart, lists, current):
            return -1
        popped = item_list.popped
        arity = chart.edges[lists.entries[popped].edge].arity
        waits = False
        while item_list.cursor < arity:
            tail = lists.tails[lists.entries[popped].tails + item_list.cursor]
            after = lists.entries[tail].next
            if after == NONE:
                tail_item = lists.entries[tail].item
                if lists.items[tail_item].ended == 0:
                    depth += 1
                    lists.stack[depth] = tail_item
                    waits = True
                    break
            elif not _add_variant(task, chart, lists, popped, item_list.cursor, after):
                return -1
            item_list.cursor += 1
        if waits:
            continue
        best = item_list.heap
        if best == NONE:
            item_list.ended = 1
            depth -= 1
            continue
        item_list.heap = _remove_best(lists, np.int64(best))
        lists.entries[best].child = NONE
        item_list.popped = best
        item_list.cursor = lists.entries[best].first_tail
        if _add_unseen(lists, best):
            lists.entries[item_list.last].next = best
            item_list.last = best
            depth -= 1
    return 0 if lists.items[item].ended != 0 else 1


@njit
def _find_best(task, chart, lists, goal, limit, entries):
    """Write up to `limit` best goal entries. Returns their number, and False if memory is too small."""
    _begin_lists(task, chart, lists)
    number = 1
    entries[0] = goal
    while number < limit:
        outcome = _extend(task, chart, lists, goal)
        if outcome < 0:
            return number, False
        if outcome == 0:
            break
        entries[number] = lists.items[goal].last
        number += 1
    return number, True


def best_entries(
    task: DecodingTask, chart: DecodingChart, goal: int, limit: int, distinct: bool
) -> tuple[KBestLists, NDArray[np.int32]]:
    """Return the k-best lists and up to `limit` best goal entries, no two with equal words if `distinct`."""
    size = 1 << 14
    items = int(chart.used[Pool.ITEMS])
    while True:
        # Allocate `size` entries in addition to the first entry of each item.
        lists = KBestLists(
            np.empty(items + size, ENTRY),
            np.empty(int(chart.used[Pool.TAILS]) + 2 * size, np.int32),
            np.empty(items, ITEM_LIST),
            np.empty(items + 1, np.int32),
            np.zeros(capacity_for(items + size, 2) if distinct else 1, np.uint64),
            np.zeros(2, np.int64),
        )
        entries = np.empty(limit, np.int32)
        number, done = _find_best(task, chart, lists, goal, limit, entries)
        if done or (distinct and size >= MAX_ENTRIES):
            return lists, entries[: int(number)]
        size *= 4


USE = np.dtype(
    [
        ("rule", np.int32),
        ("cell", np.int32),
        ("parent", np.int32),
        ("slot", np.int32),
        ("first", np.int32),
        ("last", np.int32),
        ("symbol", np.int32),
        ("entry", np.int32),
    ],
    align=True,
)
"""Use of a rule in a derivation.

`rule`: rule number as in EDGE. `cell`: cell of the item. `parent`: parent use (-1 for the root). `slot`: nonterminal of
`parent` that this use replaces, from 0. `first`, `last`: half-open range of target words. `symbol`, `entry`: scratch
memory.
"""


class Outputs(NamedTuple):
    """Outputs of k derivations, concatenated."""

    # int32[words]: target words.
    words: NDArray[np.int32]
    # int64[k+1]: index into `words` of the first word of each derivation.
    word_start: NDArray[np.int64]
    # USE[uses]: rule uses in preorder.
    uses: NDArray[np.void]
    # int64[k+1]: index into `uses` of the first use of each derivation.
    use_start: NDArray[np.int64]
    # float64[k, F + 6]: features of the grammar, then `COUNTED_FEATURES`. float64[k]: score, weights · features.
    features: NDArray[np.float64]
    scores: NDArray[np.float64]


@njit
def _count_features(task, chart, edge, features):
    grammar, sentence = task.grammar, task.sentence
    grammar_features = grammar.features.shape[1]
    rules = len(grammar.target_start) - 1
    rule = chart.edges[edge].rule
    features[grammar_features + LM] += chart.edges[edge].lm
    if rule == GLUE_NEXT:
        features[grammar_features + GLUE] += 1
    elif 0 <= rule < rules:
        features[grammar_features + RULES] += 1
        for k in range(grammar_features):
            features[k] += grammar.features[rule, k]
    elif rule >= rules:
        features[grammar_features + UNKNOWN_WORDS] += sentence.passes[rule - rules]


@njit
def _write_derivation(task, chart, lists, entry, row, outputs):
    position = outputs.word_start[row]
    begin = position
    number = outputs.use_start[row]
    first_use = number
    grammar_features = task.grammar.features.shape[1]
    current = np.int64(NONE)
    slot = 0
    while True:
        # A nonterminal of the current use sets `entry`, which begins a new use before the current use continues.
        if entry != NONE:
            if number == len(outputs.uses):
                return False
            edge = lists.entries[entry].edge
            use = outputs.uses[number]
            use.rule, use.cell = chart.edges[edge].rule, chart.items[lists.entries[entry].item].cell
            use.parent, use.slot = current, slot
            use.first, use.symbol, use.entry = position - begin, 0, entry
            _count_features(task, chart, edge, outputs.features[row])
            current = number - first_use
            number += 1
            entry = np.int64(NONE)
        use = outputs.uses[first_use + current]
        edge = lists.entries[use.entry].edge
        symbol, has_more = _next_symbol(task, np.int64(use.rule), np.int64(use.symbol), chart.edges[edge].arity)
        if has_more:
            use.symbol += 1
            if symbol >= 0:
                if position == len(outputs.words):
                    return False
                outputs.words[position] = symbol
                outputs.features[row, grammar_features + WORDS] += 1
                if task.model.order > 0 and lm_word(task, symbol) == UNKNOWN:
                    outputs.features[row, grammar_features + LM_UNKNOWN] += 1
                position += 1
            else:
                slot = -symbol - 1
                entry = np.int64(lists.tails[lists.entries[use.entry].tails + slot])
        else:
            use.last = position - begin
            current = np.int64(use.parent)
            if current == NONE:
                break
    outputs.word_start[row + 1] = position
    outputs.use_start[row + 1] = number
    outputs.scores[row] = lists.entries[outputs.uses[first_use].entry].score
    return True


@njit
def _write(task, chart, lists, entries, outputs):
    for row in range(len(entries)):
        if not _write_derivation(task, chart, lists, np.int64(entries[row]), row, outputs):
            return False
    return True


def write_out(task: DecodingTask, chart: DecodingChart, lists: KBestLists, entries: NDArray[np.int32]) -> Outputs:
    """Return the outputs of entries of the goal, given as indices into `lists.entries`."""
    k = len(entries)
    features = task.grammar.features.shape[1] + len(task.weighed.weights)
    size = 8 * k * (len(task.sentence.words) + 4)
    while True:
        outputs = Outputs(
            np.empty(size, np.int32),
            np.zeros(k + 1, np.int64),
            np.zeros(size, USE),
            np.zeros(k + 1, np.int64),
            np.zeros((k, features)),
            np.zeros(k),
        )
        if _write(task, chart, lists, entries, outputs):
            words, uses = int(outputs.word_start[-1]), int(outputs.use_start[-1])
            return outputs._replace(words=outputs.words[:words].copy(), uses=outputs.uses[:uses].copy())
        size *= 4
