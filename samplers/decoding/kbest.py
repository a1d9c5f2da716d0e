"""Lazy k-best derivations of a filled chart, and what they say [Huang & Chiang 2005, Algorithm 3]; docs/model.md, 10.

An entry is a derivation of an item: an edge and an entry for each tail. The first entry of an item is its best
derivation, and has the item's number. Those that follow are made when they are asked for: candidates are the item's
other edges over first entries, and, of each entry that was taken, those with the next entry for one tail.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import capacity_for, mask_of, probe
from hierogram.samplers.compiled.streams import mix
from hierogram.samplers.decoding.chart import GLUE_NEXT, ITEMS, NONE, TAILS, DecodingChart, DecodingTask
from hierogram.samplers.decoding.cubes import lm_word
from hierogram.samplers.decoding.grammar import GLUE, LM, LM_UNKNOWN, RULES, UNKNOWN_WORDS, WORDS
from hierogram.samplers.language_models.model import UNKNOWN

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
        ("said", np.uint64),
        ("shift", np.uint64),
    ],
    align=True,
)
"""A derivation, or a candidate: its score; its edge, item and tails' entries; the first tail to go on with; the item's
next entry; its place in the item's heap of candidates (a pairing heap). Where distinct translations are wanted: a hash
of its target words, Σ_j h(w_j) Bⁿ⁻ʲ, and Bⁿ, of n words, modulo 2⁶⁴."""

SOURCE_ITEM = np.dtype(
    [
        ("last", np.int32),
        ("turn", np.int32),
        ("heap", np.int32),
        ("cursor", np.int32),
        ("opened", np.int16),
        ("ended", np.int16),
    ],
    align=True,
)
"""The last entry of an item; the last candidate taken (the same, unless it was passed over); its heap; the tail
of that candidate to go on with next; whether the item's other edges are among the candidates, and whether there are no
more of them."""

ENTRIES, ENTRY_TAILS = 0, 1
MOST_ENTRIES = 1 << 20
"""Derivations and candidates that a search for distinct translations looks at; it ends with what it has by then."""

_BASE = np.uint64(0x9E3779B97F4A7C15)
_FREE = np.uint64(0)
_ONE = np.uint64(1)


class Lists(NamedTuple):
    """Entries ENTRY[c], their tails' entries int32, SOURCE_ITEM[items], a stack of items int32, and int64[2] in use.

    `seen` uint64[h], open addressing: hashes of item and target words of all entries, 0 where there is none; uint64[1]
    where translations may repeat.
    """

    entries: NDArray[np.void]
    tails: NDArray[np.int32]
    items: NDArray[np.void]
    stack: NDArray[np.int32]
    seen: NDArray[np.uint64]
    taken: NDArray[np.int64]


@njit_inline
def _meld(lists, one, other):
    """One heap of two; its best candidate."""
    if one == NONE:
        return other
    if other == NONE:
        return one
    a, b = lists.entries[one].score, lists.entries[other].score
    if b > a or (b == a and other < one):
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


@njit_inline
def next_symbol(task, rule, place, arity):
    """Say what stands at a place of a rule's target side: a word, -k for nonterminal k; whether there is one."""
    grammar, sentence = task.grammar, task.sentence
    rules = len(grammar.target_start) - 1
    if rule < 0:
        return np.int64(-place - 1), place < arity
    if rule < rules:
        first = grammar.target_start[rule] + place
        there = first < grammar.target_start[rule + 1]
        return np.int64(grammar.target[first] if there else 0), there
    first = np.int64(sentence.target_start[rule - rules]) + place
    there = first < sentence.target_start[rule - rules + 1]
    return np.int64(sentence.target[first] if there else 0), there


@njit
def _spell(task, chart, lists, entry):
    """Hash the target words of an entry whose tails are in."""
    made = lists.entries[entry]
    edge = chart.edges[made.edge]
    said, shift = _FREE, _ONE
    place = 0
    while True:
        symbol, there = next_symbol(task, np.int64(edge.rule), place, edge.arity)
        if not there:
            break
        if symbol >= 0:
            said = said * _BASE + mix(np.uint64(symbol) + _BASE)
            shift *= _BASE
        else:
            tail = lists.entries[lists.tails[made.tails - symbol - 1]]
            said = said * tail.shift + tail.said
            shift *= tail.shift
        place += 1
    made.said, made.shift = said, shift


@njit_inline
def _ends_at(seen, slot, key):
    return seen[slot] == _FREE or seen[slot] == key


@njit
def _is_new(lists, entry):
    """Note the words of an entry; False where an entry of its item has them already."""
    seen = lists.seen
    if len(seen) == 1:
        return True
    there = lists.entries[entry]
    key = mix(there.said + mix(np.uint64(there.item) + _BASE)) | _ONE
    mask = mask_of(seen)
    slot = np.int64(probe(key >> _ONE & mask, mask, _ends_at, seen, key))
    if seen[slot] == key:
        return False
    seen[slot] = key
    return True


@njit
def begin_lists(task, chart, lists):
    """Make the first entry of every item."""
    # A first entry's tails are the items themselves, so their numbers serve both.
    for k in range(chart.taken[TAILS]):
        lists.tails[k] = chart.tails[k]
    # Items come after those that they are made of.
    for item in range(chart.taken[ITEMS]):
        there = chart.items[item]
        _fill(task, chart, lists, item, item, there.best, chart.edges[there.best].tails)
        _is_new(lists, item)
        known = lists.items[item]
        known.last, known.turn, known.heap, known.cursor, known.opened, known.ended = item, item, NONE, 0, 0, 0
    lists.taken[ENTRIES] = chart.taken[ITEMS]
    lists.taken[ENTRY_TAILS] = chart.taken[TAILS]


@njit_inline
def _fill(task, chart, lists, entry, item, edge, tails):
    made = lists.entries[entry]
    made.edge, made.item, made.tails, made.grown = edge, item, tails, 0
    made.next, made.child, made.sibling = NONE, NONE, NONE
    made.score = chart.edges[edge].score
    if len(lists.seen) > 1:
        _spell(task, chart, lists, entry)


@njit
def _add_other_edges(task, chart, lists, item):
    """Make candidates of the item's other edges; False where there is no room."""
    known = lists.items[item]
    edge = chart.items[item].edges
    while edge != NONE:
        if edge != chart.items[item].best:
            entry = lists.taken[ENTRIES]
            if entry == len(lists.entries):
                return False
            lists.taken[ENTRIES] += 1
            _fill(task, chart, lists, entry, item, edge, chart.edges[edge].tails)
            known.heap = _meld(lists, np.int64(known.heap), entry)
        edge = chart.edges[edge].next
    known.opened = 1
    return True


@njit
def _add(task, chart, lists, entry, tail, with_entry):
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
    _fill(task, chart, lists, made, item, there.edge, tails)
    new = lists.entries[made]
    new.score, new.grown = total, tail
    lists.items[item].heap = _meld(lists, np.int64(lists.items[item].heap), made)
    return True


@njit
def extend(task, chart, lists, item):
    """Make the entry of an item after its last: 1 where there is one, 0 where there is none, -1 where there is no room.

    What is asked of other items for that is kept on a stack.
    """
    depth = 0
    lists.stack[0] = item
    while depth >= 0:
        at = lists.stack[depth]
        known = lists.items[at]
        if known.opened == 0 and not _add_other_edges(task, chart, lists, at):
            return -1
        turn = known.turn
        arity = chart.edges[lists.entries[turn].edge].arity
        waits = False
        while known.cursor < arity:
            tail = lists.tails[lists.entries[turn].tails + known.cursor]
            after = lists.entries[tail].next
            if after == NONE:
                of = lists.entries[tail].item
                if lists.items[of].ended == 0:
                    depth += 1
                    lists.stack[depth] = of
                    waits = True
                    break
            elif not _add(task, chart, lists, turn, known.cursor, after):
                return -1
            known.cursor += 1
        if waits:
            continue
        best = known.heap
        if best == NONE:
            known.ended = 1
            depth -= 1
            continue
        known.heap = _without_best(lists, np.int64(best))
        lists.entries[best].child = NONE
        known.turn = best
        known.cursor = lists.entries[best].grown
        if _is_new(lists, best):
            lists.entries[known.last].next = best
            known.last = best
            depth -= 1
    return 0 if lists.items[item].ended != 0 else 1


@njit
def find_best(task, chart, lists, goal, wanted, found):
    """The best derivations of the goal, at most `wanted`, best first, into `found` int32.

    Their number, and whether there was room for all that are wanted.
    """
    begin_lists(task, chart, lists)
    number = 1
    found[0] = goal
    while number < wanted:
        outcome = extend(task, chart, lists, goal)
        if outcome < 0:
            return number, False
        if outcome == 0:
            break
        found[number] = lists.items[goal].last
        number += 1
    return number, True


def best_entries(
    task: DecodingTask, chart: DecodingChart, goal: int, wanted: int, distinct: bool
) -> tuple[Lists, NDArray[np.int32]]:
    """The goal's best derivations, at most `wanted`, as entries of lists, best first; of `distinct` target words each.

    Distinct ones end with `MOST_ENTRIES`.
    """
    size = 64 if wanted == 1 else 1 << 14
    items = int(chart.taken[ITEMS])
    while True:
        # Beside the first entries.
        lists = Lists(
            np.empty(items + size, ENTRY),
            np.empty(int(chart.taken[TAILS]) + 2 * size, np.int32),
            np.empty(items, SOURCE_ITEM),
            np.empty(items + 1, np.int32),
            np.zeros(capacity_for(items + size, 2) if distinct else 1, np.uint64),
            np.zeros(2, np.int64),
        )
        found = np.empty(wanted, np.int32)
        number, done = find_best(task, chart, lists, goal, wanted, found)
        if done or (distinct and size >= MOST_ENTRIES):
            return lists, found[: int(number)]
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
"""A rule where a derivation uses it: its number as an edge has it; its cell; the use that it stands in (-1: none), and
as which nonterminal, counted from 0; its target words, from the first to before the last; the last two are of the
walk."""


class Outputs(NamedTuple):
    """Derivations written out: `words` int32 and `uses` USE one derivation after the other, in the order of the target;
    `word_start`, `use_start` int64[k+1]; `features` float64[k, F + 6]; `scores` float64[k].
    """

    words: NDArray[np.int32]
    word_start: NDArray[np.int64]
    uses: NDArray[np.void]
    use_start: NDArray[np.int64]
    features: NDArray[np.float64]
    scores: NDArray[np.float64]


@njit
def _count(task, chart, edge, features):
    """Add what an edge counts to a derivation's features."""
    grammar, sentence = task.grammar, task.sentence
    own = grammar.features.shape[1]
    rules = len(grammar.target_start) - 1
    rule = chart.edges[edge].rule
    features[own + LM] += chart.edges[edge].lm
    if rule == GLUE_NEXT:
        features[own + GLUE] += 1
    elif 0 <= rule < rules:
        features[own + RULES] += 1
        for k in range(own):
            features[k] += grammar.features[rule, k]
    elif rule >= rules:
        features[own + UNKNOWN_WORDS] += sentence.passes[rule - rules]


@njit
def _write_one(task, chart, lists, entry, row, outputs):
    """Write out a derivation; False where there is no room."""
    place = outputs.word_start[row]
    begin = place
    number = outputs.use_start[row]
    first_use = number
    own = task.grammar.features.shape[1]
    at = np.int64(NONE)
    slot = 0
    while True:
        # A rule's use begins where an entry is given, and goes on where it is not.
        if entry != NONE:
            if number == len(outputs.uses):
                return False
            edge = lists.entries[entry].edge
            use = outputs.uses[number]
            use.rule, use.cell, use.parent, use.slot = (
                chart.edges[edge].rule,
                chart.items[lists.entries[entry].item].cell,
                at,
                slot,
            )
            use.first, use.symbol, use.entry = place - begin, 0, entry
            _count(task, chart, edge, outputs.features[row])
            at = number - first_use
            number += 1
            entry = np.int64(NONE)
        use = outputs.uses[first_use + at]
        edge = lists.entries[use.entry].edge
        symbol, there = next_symbol(task, np.int64(use.rule), np.int64(use.symbol), chart.edges[edge].arity)
        if there:
            use.symbol += 1
            if symbol >= 0:
                if place == len(outputs.words):
                    return False
                outputs.words[place] = symbol
                outputs.features[row, own + WORDS] += 1
                if task.model.order > 0 and lm_word(task, symbol) == UNKNOWN:
                    outputs.features[row, own + LM_UNKNOWN] += 1
                place += 1
            else:
                slot = -symbol - 1
                entry = np.int64(lists.tails[lists.entries[use.entry].tails + slot])
        else:
            use.last = place - begin
            at = np.int64(use.parent)
            if at == NONE:
                break
    outputs.word_start[row + 1] = place
    outputs.use_start[row + 1] = number
    outputs.scores[row] = lists.entries[outputs.uses[first_use].entry].score
    return True


@njit
def _write(task, chart, lists, found, outputs):
    outputs.features[:, :] = 0
    for row in range(len(found)):
        if not _write_one(task, chart, lists, np.int64(found[row]), row, outputs):
            return np.int64(row)
    return np.int64(len(found))


def write_out(task: DecodingTask, chart: DecodingChart, lists: Lists, found: NDArray[np.int32]) -> Outputs:
    """The derivations that are entries `found` of the lists, written out."""
    k = len(found)
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
        if _write(task, chart, lists, found, outputs) == k:
            words, uses = int(outputs.word_start[-1]), int(outputs.use_start[-1])
            return outputs._replace(words=outputs.words[:words].copy(), uses=outputs.uses[:uses].copy())
        size *= 4
