"""Filling a cell by cube pruning [Chiang 2007 §5.3.3; Huang & Chiang 2007]; docs/model.md, section 10.

The axes of a cube are the rules of one source side, best first, and the items of each nonterminal's cell, best first.
Each place but the corner is reached from one other place, by going on along the last axis that has been gone along, or
along a later one; so none is met twice.
"""

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import mask_of
from hierogram.samplers.compiled.streams import GOLDEN, mix
from hierogram.samplers.decoding.chart import (
    CANDIDATES,
    COORDINATES,
    CUBES,
    EDGES,
    GLUE_NEXT,
    GLUE_START,
    GOAL,
    HEAP,
    ITEMS,
    KEPT,
    NONE,
    STAMP,
    TAILS,
)
from hierogram.samplers.decoding.grammar import GLUE, LM, LM_UNKNOWN, LN_10, UNKNOWN_WORDS, WORDS
from hierogram.samplers.language_models.model import EMPTY, END, UNKNOWN, home_of, score


@njit_inline
def lm_word(task, word):
    """The language model's number of a target word, one of the grammar's or of the sentence's own."""
    known = len(task.weighed.lm_words)
    if word < known:
        return task.weighed.lm_words[word]
    return task.sentence.lm_words[word - known]


@njit_inline
def _score(task, chart, state, word):
    """Return what the language model says of a word after a state: asked once as long as nothing else takes its slot.

    A sentence asks the same again and again, and the model's tables are much larger than the processor's caches.
    """
    slot = np.int64(home_of(state, word, mask_of(chart.memo)))
    there = chart.memo[slot]
    if there.state != state or there.word != word:
        log10, following = score(task.model, state, word)
        there.state, there.word, there.log10, there.next = state, word, log10, following
    return there.log10, there.next


@njit_inline
def _word(task, chart, word, joined):
    """One word more: `joined` is (open words, state, whether they are closed, log10 final, log10 promised)."""
    size, state, closed, final, promised = joined
    model = task.model
    log10, state = _score(task, chart, state, word)
    if closed:
        return size, state, closed, final + log10, promised
    chart.front[size] = word
    there = model.states[state]
    closed = there.length <= size or there.open == 0
    return size + 1, state, closed, final, promised + log10


@njit_inline
def _item(task, chart, item, joined):
    """The words of an item more: the open ones are scored again, the others stay as they are."""
    there = chart.items[item]
    size, state, closed, final, promised = joined
    if size == 0 and not closed:
        for k in range(there.open):
            chart.front[k] = chart.fronts[item, k]
        return np.int64(there.open), np.int32(there.state), there.closed != 0, final, there.promised
    for k in range(there.open):
        joined = _word(task, chart, chart.fronts[item, k], joined)
    size, state, closed, final, promised = joined
    if there.closed:
        state = there.state
        closed = True
    return size, state, closed, final, promised


@njit_inline
def _side(task, chart, rule, tails):
    """The target side of a rule of the grammar or of the sentence, over items."""
    joined = (np.int64(0), np.int32(EMPTY), False, 0.0, 0.0)
    grammar, sentence = task.grammar, task.sentence
    rules = len(grammar.target_start) - 1
    if rule >= rules:
        extra = rule - rules
        for k in range(sentence.target_start[extra], sentence.target_start[extra + 1]):
            joined = _word(task, chart, lm_word(task, sentence.target[k]), joined)
        return joined
    for k in range(grammar.target_start[rule], grammar.target_start[rule + 1]):
        symbol = grammar.target[k]
        if symbol < 0:
            joined = _item(task, chart, chart.tails[tails - symbol - 1], joined)
        else:
            joined = _word(task, chart, lm_word(task, symbol), joined)
    return joined


@njit
def join(task, chart, rule, tails):
    """The state of what a rule makes of items, `chart.tails[tails:]`.

    (number of open words, which stand in `front`; state; whether others follow them; natural log probability of the
    words that are closed now; log10 probability of the open ones, as promised).
    """
    no_words = (np.int64(0), np.int32(EMPTY), False, 0.0, 0.0)
    model = task.model
    if model.order == 0:
        return no_words
    if rule < 0:
        begun = np.int32(model.begin) if rule == GLUE_START else np.int32(chart.items[chart.tails[tails]].state)
        joined = (np.int64(0), begun, True, 0.0, 0.0)
        if rule == GOAL:
            log10, _ = _score(task, chart, begun, np.int32(END))
            # Nothing comes after it.
            joined = (np.int64(0), np.int32(EMPTY), True, np.float64(log10), 0.0)
        else:
            joined = _item(task, chart, chart.tails[tails + (1 if rule == GLUE_NEXT else 0)], joined)
    else:
        joined = _side(task, chart, rule, tails)
    size, state, closed, final, promised = joined
    return size, state, closed, final * LN_10, promised


_ONE = np.uint64(1)
MARGIN, NEAR_MARGIN = 3.0, 0.75
"""Natural log probability by which a nonterminal's words may fit to their neighbours better than they promise: a place
is joined as long as this could make it one of those that are popped. The first is for a rule over the best items of its
cells; of other places it is known how the words of a neighbour fit."""
INHERITED = 0.75
"""Share of what a place gained by being joined that the places that are reached from it promise."""


@njit_inline
def _rule_at(task, chart, candidate):
    cube = chart.cubes[chart.candidates[candidate].cube]
    if cube.rules == 0:
        return np.int64(cube.rule)
    return np.int64(task.weighed.order[cube.rule + chart.coordinates[chart.candidates[candidate].place]])


@njit_inline
def _item_at(chart, candidate, tail):
    there = chart.candidates[candidate]
    cell = chart.cube_cells[chart.cubes[there.cube].cells + tail]
    return chart.ranked[chart.cells[cell, 0] + chart.coordinates[there.place + 1 + tail]]


@njit_inline
def _apart(task, chart, candidate):
    """Return what the rule and the items of a candidate promise, each on its own."""
    cube = chart.cubes[chart.candidates[candidate].cube]
    total = cube.base
    if cube.rules > 0:
        total = task.weighed.ahead[chart.candidates[candidate].rule]
    for k in range(cube.arity):
        total += chart.items[_item_at(chart, candidate, k)].rank
    return total


@njit_inline
def _estimate(task, chart, candidate, gained):
    """Return what a candidate promises before its items are joined; `gained` by the place that it is reached from."""
    there = chart.candidates[candidate]
    arity = chart.cubes[there.cube].arity
    best = True
    for k in range(arity):
        best &= chart.coordinates[there.place + 1 + k] == 0
    margin = (MARGIN if best else NEAR_MARGIN) * max(task.weighed.weights[LM], 0.0) * arity
    return _apart(task, chart, candidate) + INHERITED * gained + margin


@njit_inline
def _comes_before(chart, one, other):
    a, b = chart.candidates[one].priority, chart.candidates[other].priority
    return a > b or (a == b and one < other)


@njit_inline
def _pop(chart):
    heap = chart.heap
    best = heap[0]
    size = chart.taken[HEAP] - 1
    chart.taken[HEAP] = size
    moved = heap[size]
    position = 0
    while True:
        below = 2 * position + 1
        if below >= size:
            break
        if below + 1 < size and _comes_before(chart, heap[below + 1], heap[below]):
            below += 1
        if not _comes_before(chart, heap[below], moved):
            break
        heap[position] = heap[below]
        position = below
    heap[position] = moved
    return best


@njit
def _push(task, chart, cube, place, axis, gained):
    """Make a candidate of a cube's place, whose coordinates stand at `place`; put it on the heap by what it promises.

    `gained` is what the place that it is reached from gained by being joined. Where as many better ones are joined
    already as may be popped, it goes no further, nor does any that is reached from it.
    """
    taken = chart.taken
    number = taken[CANDIDATES]
    candidate = chart.candidates[number]
    candidate.cube, candidate.place, candidate.grown = cube, place, axis
    candidate.rule = _rule_at(task, chart, number)
    candidate.priority = _estimate(task, chart, number, gained)
    if _is_worse(task, chart, number):
        return
    taken[CANDIDATES] += 1
    taken[COORDINATES] = place + chart.cubes[cube].arity + 1
    position = taken[HEAP]
    taken[HEAP] = position + 1
    while position > 0:
        above = (position - 1) >> 1
        if not _comes_before(chart, number, chart.heap[above]):
            break
        chart.heap[position] = chart.heap[above]
        position = above
    chart.heap[position] = number


@njit_inline
def _is_worse(task, chart, candidate):
    """Return whether as many are joined as may be popped, and all of them are better than the candidate."""
    return (
        0 < task.limits.pops <= chart.taken[KEPT]
        and chart.candidates[candidate].priority <= chart.candidates[chart.kept[0]].priority
    )


@njit
def _keep(task, chart, candidate):
    """Put a joined candidate among those to be popped; the worst goes where there are too many."""
    kept, candidates, priority = chart.kept, chart.candidates, chart.candidates[candidate].priority
    size = chart.taken[KEPT]
    if size < task.limits.pops:
        chart.taken[KEPT] = size + 1
        position = size
        while position > 0:
            above = (position - 1) >> 1
            if candidates[kept[above]].priority <= priority:
                break
            kept[position] = kept[above]
            position = above
        kept[position] = candidate
        return
    if priority <= candidates[kept[0]].priority:
        return
    position = 0
    while True:
        below = 2 * position + 1
        if below >= size:
            break
        if below + 1 < size and candidates[kept[below + 1]].priority < candidates[kept[below]].priority:
            below += 1
        if candidates[kept[below]].priority >= priority:
            break
        kept[position] = kept[below]
        position = below
    kept[position] = candidate


@njit_inline
def _has_room(chart, arity):
    """Return whether one more candidate, edge and item can be made."""
    taken = chart.taken
    return (
        taken[CANDIDATES] < len(chart.candidates)
        and taken[COORDINATES] + arity + 1 <= len(chart.coordinates)
        and taken[TAILS] + arity <= len(chart.tails)
        and taken[EDGES] < len(chart.edges)
        and taken[ITEMS] < len(chart.items)
    )


@njit
def _grow(task, chart, candidate):
    """Push the places that are reached from a joined candidate's; False where there is no room."""
    gained = chart.candidates[candidate].priority - _apart(task, chart, candidate)
    cube = chart.candidates[candidate].cube
    place = chart.candidates[candidate].place
    arity = chart.cubes[cube].arity
    for axis in range(chart.candidates[candidate].grown, arity + 1):
        # The first axis is that of the rules.
        places = chart.cubes[cube].rules
        if axis > 0:
            cell = chart.cube_cells[chart.cubes[cube].cells + axis - 1]
            places = chart.cells[cell, 1] - chart.cells[cell, 0]
        if chart.coordinates[place + axis] + 1 >= places:
            continue
        if not _has_room(chart, arity):
            return False
        to = chart.taken[COORDINATES]
        for k in range(arity + 1):
            chart.coordinates[to + k] = chart.coordinates[place + k]
        chart.coordinates[to + axis] += 1
        _push(task, chart, cube, to, axis, gained)
    return True


@njit_inline
def own_score(task, rule):
    """Return what a rule counts without the language model's probability: w · f of the rest."""
    weighed, sentence = task.weighed, task.sentence
    rules = len(weighed.score)
    if rule < 0:
        return weighed.weights[GLUE] if rule == GLUE_NEXT else 0.0
    if rule < rules:
        return weighed.score[rule]
    extra = rule - rules
    first, last = sentence.target_start[extra], sentence.target_start[extra + 1]
    total = weighed.weights[WORDS] * (last - first) + weighed.weights[UNKNOWN_WORDS] * sentence.passes[extra]
    if task.model.order > 0:
        for k in range(first, last):
            if lm_word(task, sentence.target[k]) == UNKNOWN:
                total += weighed.weights[LM_UNKNOWN]
    return total


@njit
def _join(task, chart, candidate):
    """Join the items of a candidate by its rule; from now on its place in the order is that of the item it would be."""
    there = chart.candidates[candidate]
    arity = chart.cubes[there.cube].arity
    tails = chart.taken[TAILS]
    for k in range(arity):
        chart.tails[tails + k] = _item_at(chart, candidate, k)
    size, state, closed, final, promised = join(task, chart, np.int64(there.rule), tails)
    there.own = own_score(task, np.int64(there.rule)) + task.weighed.weights[LM] * final
    # Summed in the order in which k-best lists sum it.
    there.score = there.own
    for k in range(arity):
        there.score += chart.items[chart.tails[tails + k]].score
    there.lm, there.promised = final, promised
    there.state, there.open, there.closed = state, size, closed
    for k in range(size):
        chart.joined[candidate, k] = chart.front[k]
    there.priority = there.score + task.weighed.weights[LM] * LN_10 * promised


@njit_inline
def _is_state(chart, item, candidate):
    """Return whether an item has the state of a candidate."""
    there, made = chart.items[item], chart.candidates[candidate]
    same = there.state == made.state and there.open == made.open and there.closed == made.closed
    for k in range(there.open):
        same &= chart.fronts[item, k] == chart.joined[candidate, k]
    return same


@njit
def _find(chart, candidate):
    """The slot of a candidate's item within its cell, or the free one where it would go; -1: there are too many."""
    there = chart.candidates[candidate]
    key = mix(np.uint64(there.state) * GOLDEN + np.uint64(2 * there.open + there.closed))
    for k in range(there.open):
        key = mix(key + np.uint64(chart.joined[candidate, k]) * GOLDEN + _ONE)
    mask = mask_of(chart.slots)
    slot = np.int64(key & mask)
    stamp = chart.taken[STAMP]
    for _ in range(len(chart.slots) >> 1):
        if chart.slots[slot, 1] != stamp or _is_state(chart, chart.slots[slot, 0], candidate):
            return slot
        slot = np.int64(np.uint64(slot + 1) & mask)
    return np.int64(NONE)


@njit
def _add_edge(chart, cell, candidate):
    """Make the edge of a joined candidate, and its item in the cell; False where there is no room."""
    taken = chart.taken
    there = chart.candidates[candidate]
    slot = _find(chart, candidate)
    if slot < 0:
        return False
    arity = chart.cubes[there.cube].arity
    tails = taken[TAILS]
    taken[TAILS] += arity
    for k in range(arity):
        chart.tails[tails + k] = _item_at(chart, candidate, k)
    edge = taken[EDGES]
    taken[EDGES] += 1
    made = chart.edges[edge]
    made.score, made.own, made.lm = there.score, there.own, there.lm
    made.rule, made.tails, made.arity = there.rule, tails, arity
    if chart.slots[slot, 1] == taken[STAMP]:
        item = np.int64(chart.slots[slot, 0])
        made.next = chart.items[item].edges
    else:
        item = taken[ITEMS]
        taken[ITEMS] += 1
        chart.slots[slot, 0] = item
        chart.slots[slot, 1] = taken[STAMP]
        made.next = NONE
        new = chart.items[item]
        new.score = -np.inf
        new.promised = there.promised
        new.cell, new.state, new.open, new.closed = cell, there.state, there.open, there.closed
        for k in range(there.open):
            chart.fronts[item, k] = chart.joined[candidate, k]
    of = chart.items[item]
    of.edges = edge
    if there.score > of.score:
        of.score, of.rank, of.best = there.score, there.priority, edge
    return True


@njit
def add_cube(chart, base, rule, rules, cells, arity):
    """A cube for the cell at hand, over `cube_cells[cells:]`; False where there is no room."""
    number = chart.taken[CUBES]
    if number == len(chart.cubes):
        return False
    chart.taken[CUBES] += 1
    cube = chart.cubes[number]
    cube.base, cube.rule, cube.rules, cube.cells, cube.arity = base, rule, rules, cells, arity
    return True


@njit_inline
def _ranks_before(chart, one, other):
    a, b = chart.items[one].rank, chart.items[other].rank
    return a > b or (a == b and one < other)


@njit
def _sort(chart, first, last):
    """Put the items of a cell in the order of their ranks (heapsort: the worst comes to the top of the heap)."""
    ranked = chart.ranked
    for item in range(first, last):
        ranked[item] = item
        position = item - first
        while position > 0:
            above = (position - 1) >> 1
            if not _ranks_before(chart, ranked[first + above], item):
                break
            ranked[first + position] = ranked[first + above]
            position = above
        ranked[first + position] = item
    for end in range(last - 1, first, -1):
        moved = ranked[end]
        ranked[end] = ranked[first]
        size = end - first
        position = 0
        while True:
            below = 2 * position + 1
            if below >= size:
                break
            if below + 1 < size and _ranks_before(chart, ranked[first + below], ranked[first + below + 1]):
                below += 1
            if not _ranks_before(chart, moved, ranked[first + below]):
                break
            ranked[first + position] = ranked[first + below]
            position = below
        ranked[first + position] = moved


@njit
def begin_cell(chart):
    """Make the cubes and candidates of the last cell go."""
    chart.taken[CUBES] = 0
    chart.taken[CANDIDATES] = 0
    chart.taken[COORDINATES] = 0
    chart.taken[HEAP] = 0
    chart.taken[KEPT] = 0
    chart.taken[STAMP] += 1


@njit
def fill_cell(task, chart, cell):
    """Fill a cell from the cubes that were added since `begin_cell`; False where there is no room."""
    taken = chart.taken
    first = taken[ITEMS]
    for cube in range(taken[CUBES]):
        arity = chart.cubes[cube].arity
        if not _has_room(chart, arity):
            return False
        place = taken[COORDINATES]
        for k in range(arity + 1):
            chart.coordinates[place + k] = 0
        _push(task, chart, cube, place, 0, 0.0)
    while taken[HEAP] > 0:
        candidate = _pop(chart)
        if _is_worse(task, chart, candidate):
            break
        if not _has_room(chart, chart.cubes[chart.candidates[candidate].cube].arity):
            return False
        _join(task, chart, candidate)
        if task.limits.pops > 0:
            _keep(task, chart, candidate)
        elif not _add_edge(chart, cell, candidate):
            return False
        if not _grow(task, chart, candidate):
            return False
    for k in range(taken[KEPT]):
        candidate = np.int64(chart.kept[k])
        if not _has_room(chart, chart.cubes[chart.candidates[candidate].cube].arity):
            return False
        if not _add_edge(chart, cell, candidate):
            return False
    chart.cells[cell, 0] = first
    chart.cells[cell, 1] = taken[ITEMS]
    _sort(chart, first, taken[ITEMS])
    return True
