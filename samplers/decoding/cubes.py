"""Cube pruning of a cell [Chiang 2007 §5.3.3; Huang & Chiang 2007] (docs/model.md, section 10).

Axis 0 of a cube has the grammar's rules of one source side, or a single glue, goal or extra rule. Axis k has the items
in the cell of nonterminal k. All axes are best first. A candidate grows along the axis of its last step and later axes.
Every position except the corner thus has exactly one predecessor, and no candidate is created twice.
"""

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import table_mask
from hierogram.samplers.compiled.streams import GOLDEN, mix
from hierogram.samplers.decoding.chart import GLUE_NEXT, GLUE_START, GOAL, NONE, Pool, s_cell
from hierogram.samplers.decoding.grammar import GLUE, LM, LM_UNKNOWN, LN_10, UNKNOWN_WORDS, WORDS
from hierogram.samplers.language_models.model import EMPTY, END, UNKNOWN, score

_ONE, _HALF, _WORD_FACTOR = np.uint64(1), np.uint64(32), np.uint64(0xBF58476D1CE4E5B9)


@njit_inline
def lm_word(task, word):
    """Return the language-model number of a target word of the grammar or the sentence."""
    lm_words = len(task.weighed.lm_words)
    if word < lm_words:
        return task.weighed.lm_words[word]
    return task.sentence.lm_words[word - lm_words]


@njit_inline
def _memo_slot(task, chart, state, word):
    """Return the memo slot with the score of a word after a state. Computes the score if it is missing."""
    home = (np.uint64(state) * GOLDEN ^ np.uint64(word) * _WORD_FACTOR) >> _HALF
    slot = np.int64(home & table_mask(chart.memo))
    entry = chart.memo[slot]
    if entry.state != state or entry.word != word:
        log10, following = score(task.model, state, word)
        entry.state, entry.word, entry.log10, entry.next, entry.length = state, word, log10, following, NONE
    return slot


@njit_inline
def _append_word(task, chart, word, joined):
    """Return `joined`, as from `_compute_state`, with a word appended. Probabilities are log10."""
    size, state, closed, closed_log10, open_log10 = joined
    entry = chart.memo[_memo_slot(task, chart, state, word)]
    if closed:
        return size, entry.next, closed, closed_log10 + entry.log10, open_log10
    chart.open_words[size] = word
    if entry.length == NONE:
        after = task.model.states[entry.next]
        entry.length, entry.open = after.length, after.open
    closed = entry.length <= size or entry.open == 0
    return size + 1, entry.next, closed, closed_log10, open_log10 + entry.log10


@njit_inline
def _append_item(task, chart, item, joined):
    """Return `joined` with the words of an item appended. Rescores only the open words of the item."""
    stored = chart.items[item]
    size, state, closed, closed_log10, open_log10 = joined
    if size == 0 and not closed:
        for k in range(stored.open):
            chart.open_words[k] = chart.item_words[item, k]
        return np.int64(stored.open), np.int32(stored.state), stored.closed != 0, closed_log10, stored.open_log10
    for k in range(stored.open):
        joined = _append_word(task, chart, chart.item_words[item, k], joined)
    size, state, closed, closed_log10, open_log10 = joined
    if stored.closed:
        state = stored.state
        closed = True
    return size, state, closed, closed_log10, open_log10


@njit_inline
def _score_side(task, chart, rule, tails):
    joined = (np.int64(0), np.int32(EMPTY), False, 0.0, 0.0)
    grammar, sentence = task.grammar, task.sentence
    rules = len(grammar.target_start) - 1
    if rule >= rules:
        extra = rule - rules
        for k in range(sentence.target_start[extra], sentence.target_start[extra + 1]):
            joined = _append_word(task, chart, lm_word(task, sentence.target[k]), joined)
        return joined
    for k in range(grammar.target_start[rule], grammar.target_start[rule + 1]):
        symbol = grammar.target[k]
        if symbol < 0:
            joined = _append_item(task, chart, chart.tails[tails - symbol - 1], joined)
        else:
            joined = _append_word(task, chart, lm_word(task, symbol), joined)
    return joined


@njit_inline
def _compute_state(task, chart, rule, tails):
    """Compute the language-model state of a rule over the items `chart.tails[tails:]`.

    Returns the number of open words, state, closed, natural log probability of the words that become closed, and log10
    probability of the open words without left context. The open words are in `chart.open_words`.
    """
    no_words = (np.int64(0), np.int32(EMPTY), False, 0.0, 0.0)
    model = task.model
    if model.order == 0:
        return no_words
    if rule < 0:
        initial_state = np.int32(model.begin) if rule == GLUE_START else np.int32(chart.items[chart.tails[tails]].state)
        joined = (np.int64(0), initial_state, True, 0.0, 0.0)
        if rule == GOAL:
            # Use the empty state, since no words follow the goal.
            end = chart.memo[_memo_slot(task, chart, initial_state, np.int32(END))]
            joined = (np.int64(0), np.int32(EMPTY), True, end.log10, 0.0)
        else:
            joined = _append_item(task, chart, chart.tails[tails + (1 if rule == GLUE_NEXT else 0)], joined)
    else:
        joined = _score_side(task, chart, rule, tails)
    size, state, closed, closed_log10, open_log10 = joined
    return size, state, closed, closed_log10 * LN_10, open_log10


MARGIN, NEAR_MARGIN = 3.0, 0.75
"""Margins added to an estimate per nonterminal (natural log, times the language model's weight).

A candidate's score with all language-model probabilities may be better than its estimate, so it is pruned only if the
estimate plus the margin is too low. MARGIN is for a rule with the best items of its cells. Other candidates have
NEAR_MARGIN, which is smaller because their estimate includes the gain of a predecessor.
"""
INHERITED = 0.75
"""Share of the gain of a joined candidate that is added to the estimates of its successors."""


@njit_inline
def _pop(chart):
    """Pop the candidate with the best estimate from the heap. Ties go to the lowest candidate number."""
    heap, estimates = chart.heap, chart.estimates
    best = np.int64(heap[0])
    size = chart.taken[Pool.HEAP] - 1
    chart.taken[Pool.HEAP] = size
    moved, estimate = heap[size], estimates[size]
    position = 0
    while True:
        below = 2 * position + 1
        if below >= size:
            break
        sibling = below + 1
        if sibling < size and (
            estimates[sibling] > estimates[below]
            or (estimates[sibling] == estimates[below] and heap[sibling] < heap[below])
        ):
            below = sibling
        if not (estimates[below] > estimate or (estimates[below] == estimate and heap[below] < moved)):
            break
        heap[position], estimates[position] = heap[below], estimates[below]
        position = below
    heap[position], estimates[position] = moved, estimate
    return best


@njit_inline
def _push(task, chart, cube, coordinates, axis, gain):
    """Push a cube's candidate onto the heap. Its coordinates begin at index `coordinates` of their pool.

    `axis` is the axis of its last step, 0 if all items are the best of their cells. `gain` is the rank of its
    predecessor minus the predecessor's estimate before joining. At the pop limit, the candidate and its successors are
    pruned if its estimate is not better than the worst kept candidate.
    """
    used = chart.taken
    number = used[Pool.CANDIDATES]
    cube_row, candidate = chart.cubes[cube], chart.candidates[number]
    candidate.cube, candidate.coordinates, candidate.first_axis = cube, coordinates, axis
    candidate.rule = cube_row.rule if cube_row.rules == 0 else task.weighed.order[chart.coordinates[coordinates]]
    unjoined = cube_row.base if cube_row.rules == 0 else task.weighed.estimate[candidate.rule]
    for k in range(cube_row.arity):
        unjoined += chart.ranks[chart.coordinates[coordinates + 1 + k]]
    candidate.unjoined = unjoined
    margin = (MARGIN if axis == 0 else NEAR_MARGIN) * max(task.weighed.weights[LM], 0.0) * cube_row.arity
    estimate = unjoined + INHERITED * gain + margin
    if _is_worse(task, chart, estimate):
        return
    used[Pool.CANDIDATES] += 1
    used[Pool.COORDINATES] = coordinates + cube_row.arity + 1
    position = used[Pool.HEAP]
    used[Pool.HEAP] = position + 1
    heap, estimates = chart.heap, chart.estimates
    while position > 0:
        above = (position - 1) >> 1
        # Do not swap equal estimates, since candidates on the heap have smaller numbers.
        if estimates[above] >= estimate:
            break
        heap[position], estimates[position] = heap[above], estimates[above]
        position = above
    heap[position], estimates[position] = number, estimate


@njit_inline
def _is_worse(task, chart, estimate):
    return 0 < task.limits.pops <= chart.taken[Pool.KEPT] and estimate <= chart.kept_ranks[0]


@njit_inline
def _keep(task, chart):
    """Keep the joined candidate at `Pool.SPARE`. At the pop limit, it replaces the worst one if better."""
    kept, ranks, used = chart.kept, chart.kept_ranks, chart.taken
    made = used[Pool.SPARE]
    rank = chart.joined[made].rank
    size = used[Pool.KEPT]
    position = size
    if task.limits.pops == 0 or size < task.limits.pops:
        used[Pool.KEPT] = size + 1
        used[Pool.SPARE] = size + 1
        while task.limits.pops > 0 and position > 0:
            above = (position - 1) >> 1
            if ranks[above] <= rank:
                break
            kept[position], ranks[position] = kept[above], ranks[above]
            position = above
    elif rank <= ranks[0]:
        return
    else:
        used[Pool.SPARE] = kept[0]
        position = 0
        while True:
            below = 2 * position + 1
            if below >= size:
                break
            if below + 1 < size and ranks[below + 1] < ranks[below]:
                below += 1
            if ranks[below] >= rank:
                break
            kept[position], ranks[position] = kept[below], ranks[below]
            position = below
    kept[position], ranks[position] = made, rank


@njit_inline
def _has_room(chart, arity):
    """Check if the pools have room for an edge, an item, and one candidate per axis."""
    used, axes = chart.taken, arity + 1
    return (
        used[Pool.CANDIDATES] + axes <= len(chart.candidates)
        and used[Pool.COORDINATES] + axes * axes <= len(chart.coordinates)
        and used[Pool.TAILS] + arity <= len(chart.tails)
        and used[Pool.EDGES] < len(chart.edges)
        and used[Pool.ITEMS] < len(chart.items)
    )


@njit_inline
def _grow(task, chart, candidate, rank):
    """Push the successors of a joined candidate of rank `rank`. The pools must have room."""
    row = chart.candidates[candidate]
    gain = rank - row.unjoined
    cube, coordinates = np.int64(row.cube), np.int64(row.coordinates)
    cube_row = chart.cubes[cube]
    arity = cube_row.arity
    for axis in range(row.first_axis, arity + 1):
        # Axis 0 ends after the cube's rules, and axis k after the items of nonterminal k.
        if axis == 0:
            end = cube_row.rule + cube_row.rules
        else:
            end = chart.cells[chart.cube_cells[cube_row.cells + axis - 1], 1]
        if chart.coordinates[coordinates + axis] + 1 >= end:
            continue
        to = chart.taken[Pool.COORDINATES]
        for k in range(arity + 1):
            chart.coordinates[to + k] = chart.coordinates[coordinates + k]
        chart.coordinates[to + axis] += 1
        _push(task, chart, cube, to, np.int64(axis), gain)


@njit_inline
def own_score(task, rule):
    """Return the score w · f of a rule of any kind, without language-model probabilities."""
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


@njit_inline
def _join(task, chart, candidate):
    """Join the items of a candidate into the record `Pool.SPARE` of `joined`. Returns the rank."""
    row = chart.candidates[candidate]
    spare = chart.taken[Pool.SPARE]
    made = chart.joined[spare]
    arity = chart.cubes[row.cube].arity
    tails = chart.taken[Pool.TAILS]
    for k in range(arity):
        chart.tails[tails + k] = chart.ranked[chart.coordinates[row.coordinates + 1 + k]]
    size, state, closed, closed_log10, open_log10 = _compute_state(task, chart, np.int64(row.rule), tails)
    made.own = own_score(task, np.int64(row.rule)) + task.weighed.weights[LM] * closed_log10
    # Sum in the same order as the k-best lists, so that scores are equal bit for bit.
    made.score = made.own
    for k in range(arity):
        made.score += chart.items[chart.tails[tails + k]].score
    made.lm, made.open_log10 = closed_log10, open_log10
    made.rule, made.coordinates, made.arity = row.rule, row.coordinates, arity
    made.state, made.open, made.closed = state, size, closed
    for k in range(size):
        chart.joined_words[spare, k] = chart.open_words[k]
    made.rank = made.score + task.weighed.weights[LM] * LN_10 * open_log10
    return made.rank


@njit_inline
def _is_state(chart, item, joined):
    stored, joined_state = chart.items[item], chart.joined[joined]
    is_same = (
        stored.state == joined_state.state and stored.open == joined_state.open and stored.closed == joined_state.closed
    )
    for k in range(stored.open):
        is_same &= chart.item_words[item, k] == chart.joined_words[joined, k]
    return is_same


@njit_inline
def _find_slot(chart, joined):
    """Return the slot for a joined candidate's state, used or free. -1 if too many slots are used."""
    made = chart.joined[joined]
    key = mix(np.uint64(made.state) * GOLDEN + np.uint64(2 * made.open + made.closed))
    for k in range(made.open):
        key = mix(key + np.uint64(chart.joined_words[joined, k]) * GOLDEN + _ONE)
    mask = np.uint64(chart.taken[Pool.SLOTS] - 1)
    slot = np.int64(key & mask)
    stamp = chart.taken[Pool.STAMP]
    for _ in range(chart.taken[Pool.SLOTS] >> 1):
        if chart.slots[slot, 1] != stamp or _is_state(chart, chart.slots[slot, 0], joined):
            return slot
        slot = np.int64(np.uint64(slot + 1) & mask)
    return np.int64(NONE)


@njit_inline
def _add_edge(chart, cell, joined):
    """Add a joined candidate's edge, and a new item if needed. Returns False if too many slots are used."""
    used = chart.taken
    joined_state = chart.joined[joined]
    slot = _find_slot(chart, joined)
    if slot < 0:
        return False
    tails = used[Pool.TAILS]
    used[Pool.TAILS] += joined_state.arity
    for k in range(joined_state.arity):
        chart.tails[tails + k] = chart.ranked[chart.coordinates[joined_state.coordinates + 1 + k]]
    edge = used[Pool.EDGES]
    used[Pool.EDGES] += 1
    added_edge = chart.edges[edge]
    added_edge.score, added_edge.own, added_edge.lm = joined_state.score, joined_state.own, joined_state.lm
    added_edge.rule, added_edge.tails, added_edge.arity = joined_state.rule, tails, joined_state.arity
    if chart.slots[slot, 1] == used[Pool.STAMP]:
        item = np.int64(chart.slots[slot, 0])
        added_edge.next = chart.items[item].edges
    else:
        item = used[Pool.ITEMS]
        used[Pool.ITEMS] += 1
        chart.slots[slot, 0] = item
        chart.slots[slot, 1] = used[Pool.STAMP]
        added_edge.next = NONE
        new = chart.items[item]
        new.score = -np.inf
        new.open_log10 = joined_state.open_log10
        new.cell, new.state, new.open, new.closed = cell, joined_state.state, joined_state.open, joined_state.closed
        for k in range(joined_state.open):
            chart.item_words[item, k] = chart.joined_words[joined, k]
    edge_item = chart.items[item]
    edge_item.edges = edge
    if joined_state.score > edge_item.score:
        edge_item.score, edge_item.rank, edge_item.best = joined_state.score, joined_state.rank, edge
    return True


@njit
def add_cube(chart, base, rule, rules, cells, arity):
    """Add a cube with these fields of `CUBE` to the current cell. Returns False if the pool is full."""
    number = chart.taken[Pool.CUBES]
    if number == len(chart.cubes):
        return False
    chart.taken[Pool.CUBES] += 1
    cube = chart.cubes[number]
    cube.base, cube.rule, cube.rules, cube.cells, cube.arity = base, rule, rules, cells, arity
    return True


@njit_inline
def _ranks_before(chart, first, second):
    a, b = chart.items[first].rank, chart.items[second].rank
    return a > b or (a == b and first < second)


@njit
def _sort(chart, first, last):
    """Sort the items of a cell by descending rank, by heapsort with the worst item on top."""
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
def begin_chart(task, chart):
    """Reset the chart for a sentence. A low pop limit needs fewer slots, which stay in the CPU cache."""
    chart.taken[:] = 0
    chart.cells[: s_cell(task, len(task.sentence.words) + 2), :] = 0
    slots = len(chart.slots)
    while 0 < 4 * task.limits.pops < slots:
        slots >>= 1
    chart.taken[Pool.SLOTS] = slots
    chart.slots[:slots, 1] = 0


@njit
def begin_cell(chart):
    """Discard the cubes, candidates and hash table of the previous cell."""
    for pool in (Pool.CUBES, Pool.CUBE_CELLS, Pool.CANDIDATES, Pool.COORDINATES, Pool.HEAP, Pool.KEPT, Pool.SPARE):
        chart.taken[pool] = 0
    chart.taken[Pool.STAMP] += 1


@njit
def fill_cell(task, chart, cell):
    """Fill a cell from the cubes added since `begin_cell`. Returns False if a pool is full."""
    used = chart.taken
    first = used[Pool.ITEMS]
    for number in range(used[Pool.CUBES]):
        cube = chart.cubes[number]
        if not _has_room(chart, cube.arity):
            return False
        position = used[Pool.COORDINATES]
        chart.coordinates[position] = cube.rule
        for k in range(cube.arity):
            chart.coordinates[position + 1 + k] = chart.cells[chart.cube_cells[cube.cells + k], 0]
        _push(task, chart, number, position, np.int64(0), 0.0)
    while used[Pool.HEAP] > 0:
        if _is_worse(task, chart, chart.estimates[0]):
            break
        candidate = _pop(chart)
        if not _has_room(chart, chart.cubes[chart.candidates[candidate].cube].arity):
            return False
        rank = _join(task, chart, candidate)
        _keep(task, chart)
        _grow(task, chart, candidate, rank)
    for k in range(used[Pool.KEPT]):
        joined = np.int64(chart.kept[k])
        if not _has_room(chart, chart.joined[joined].arity):
            return False
        if not _add_edge(chart, cell, joined):
            return False
    chart.cells[cell, 0] = first
    chart.cells[cell, 1] = used[Pool.ITEMS]
    _sort(chart, first, used[Pool.ITEMS])
    for position in range(first, used[Pool.ITEMS]):
        chart.ranks[position] = chart.items[chart.ranked[position]].rank
    return True
