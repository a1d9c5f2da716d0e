"""Cube pruning of a cell [Chiang 2007 §5.3.3; Huang & Chiang 2007] (docs/model.md, section 10).

Axis 0 of a cube has the grammar's rules of one source side, or a single glue, goal or extra rule. Axis k has the items
in the cell of nonterminal k. All axes are best first. A candidate grows along the axis of its last step and later axes.
Every position except the corner thus has exactly one predecessor, and no candidate is created twice.
"""

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import probe, table_mask
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
    """Return `joined` with a word appended. `joined` is as from `_compute_state`, but all logs are log10."""
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
def _compute_state(task, chart, rule, tails):
    """Compute the language-model state of a rule over the items `chart.tails[tails:]`.

    Returns the number of open words, state, closed, natural log probability of the words that become closed, and log10
    probability of the open words without left context. The open words are in `chart.open_words`.
    """
    joined = (np.int64(0), np.int32(EMPTY), False, 0.0, 0.0)
    grammar, sentence = task.grammar, task.sentence
    extra = rule - (len(grammar.target_start) - 1)
    if task.model.order == 0:
        return joined
    if extra >= 0:
        for k in range(sentence.target_start[extra], sentence.target_start[extra + 1]):
            joined = _append_word(task, chart, lm_word(task, sentence.target[k]), joined)
    elif rule >= 0:
        for k in range(grammar.target_start[rule], grammar.target_start[rule + 1]):
            symbol = grammar.target[k]
            if symbol < 0:
                joined = _append_item(task, chart, chart.tails[tails - symbol - 1], joined)
            else:
                joined = _append_word(task, chart, lm_word(task, symbol), joined)
    elif rule == GOAL:
        # Use the empty state, since no words follow the goal.
        end = chart.memo[_memo_slot(task, chart, np.int32(chart.items[chart.tails[tails]].state), np.int32(END))]
        joined = (np.int64(0), np.int32(EMPTY), True, end.log10, 0.0)
    else:
        state = np.int32(task.model.begin) if rule == GLUE_START else np.int32(chart.items[chart.tails[tails]].state)
        joined = (np.int64(0), state, True, 0.0, 0.0)
        joined = _append_item(task, chart, chart.tails[tails + (1 if rule == GLUE_NEXT else 0)], joined)
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
def _push_heap(chart, number, estimate):
    """Add the number of a candidate or item to the heap. It must be higher than all numbers on the heap."""
    heap, estimates = chart.heap, chart.estimates
    position = chart.used[Pool.HEAP]
    chart.used[Pool.HEAP] = position + 1
    while position > 0:
        above = (position - 1) >> 1
        # Do not swap equal estimates, since numbers on the heap are lower.
        if estimates[above] >= estimate:
            break
        heap[position], estimates[position] = heap[above], estimates[above]
        position = above
    heap[position], estimates[position] = number, estimate


@njit_inline
def _pop_heap(chart):
    """Remove the number with the best estimate from the heap, among equal ones the lowest. Returns it."""
    heap, estimates = chart.heap, chart.estimates
    best = np.int64(heap[0])
    size = chart.used[Pool.HEAP] - 1
    chart.used[Pool.HEAP] = size
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
def _push_candidate(task, chart, cube, coordinates, axis, gain):
    """Push a cube's candidate onto the heap. Its coordinates begin at index `coordinates` of their pool.

    `axis` is the axis of its last step, 0 if all items are the best of their cells. `gain` is the rank of its
    predecessor minus the predecessor's estimate before joining. At the pop limit, the candidate and its successors are
    pruned if its estimate is not better than the worst kept candidate.
    """
    used = chart.used
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
    if _can_prune(task, chart, estimate):
        return
    used[Pool.CANDIDATES] += 1
    used[Pool.COORDINATES] = coordinates + cube_row.arity + 1
    _push_heap(chart, number, estimate)


@njit_inline
def _can_prune(task, chart, estimate):
    return 0 < task.limits.pops <= chart.used[Pool.KEPT] and estimate <= chart.kept_ranks[0]


@njit_inline
def _keep_candidate(task, chart, candidate):
    """Keep a joined candidate. At the pop limit, it replaces the worst kept candidate if it is better."""
    kept, ranks, used = chart.kept, chart.kept_ranks, chart.used
    rank = chart.candidates[candidate].rank
    size = used[Pool.KEPT]
    position = size
    if task.limits.pops == 0 or size < task.limits.pops:
        used[Pool.KEPT] = size + 1
        while task.limits.pops > 0 and position > 0:
            above = (position - 1) >> 1
            if ranks[above] <= rank:
                break
            kept[position], ranks[position] = kept[above], ranks[above]
            position = above
    elif rank <= ranks[0]:
        return
    else:
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
    kept[position], ranks[position] = candidate, rank


@njit_inline
def _has_room(chart, arity):
    """Check if the pools have room for an edge and its item, and for a candidate per axis of a cube."""
    used, axes = chart.used, arity + 1
    return (
        used[Pool.CANDIDATES] + axes <= len(chart.candidates)
        and used[Pool.COORDINATES] + axes * axes <= len(chart.coordinates)
        and used[Pool.TAILS] + arity <= len(chart.tails)
        and used[Pool.EDGES] < len(chart.edges)
        and used[Pool.ITEMS] < len(chart.items)
    )


@njit_inline
def _push_successors(task, chart, candidate, rank):
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
        to = chart.used[Pool.COORDINATES]
        for k in range(arity + 1):
            chart.coordinates[to + k] = chart.coordinates[coordinates + k]
        chart.coordinates[to + axis] += 1
        _push_candidate(task, chart, cube, to, np.int64(axis), gain)


@njit_inline
def rule_score(task, rule):
    """Return the score w · f of a grammar, extra, glue or goal rule, without language-model probabilities."""
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
    """Join the items of a candidate: set its scores, state and open words. Returns its rank."""
    row = chart.candidates[candidate]
    arity = chart.cubes[row.cube].arity
    tails = chart.used[Pool.TAILS]
    for k in range(arity):
        chart.tails[tails + k] = chart.ranked[chart.coordinates[row.coordinates + 1 + k]]
    size, state, closed, closed_log10, open_log10 = _compute_state(task, chart, np.int64(row.rule), tails)
    row.local_score = rule_score(task, np.int64(row.rule)) + task.weighed.weights[LM] * closed_log10
    # Sum in the same order as the k-best lists, so that scores are equal bit for bit.
    row.score = row.local_score
    for k in range(arity):
        row.score += chart.items[chart.tails[tails + k]].score
    row.lm, row.open_log10 = closed_log10, open_log10
    row.state, row.open, row.closed = state, size, closed
    for k in range(size):
        chart.candidate_words[candidate, k] = chart.open_words[k]
    row.rank = row.score + task.weighed.weights[LM] * LN_10 * open_log10
    return row.rank


@njit_inline
def _has_state(chart, item, candidate):
    stored, row = chart.items[item], chart.candidates[candidate]
    is_same = stored.state == row.state and stored.open == row.open and stored.closed == row.closed
    for k in range(stored.open):
        is_same &= chart.item_words[item, k] == chart.candidate_words[candidate, k]
    return is_same


@njit_inline
def _ends_at(chart, slot, candidate):
    return chart.slots[slot, 1] != chart.used[Pool.STAMP] or _has_state(chart, chart.slots[slot, 0], candidate)


@njit_inline
def _find_slot(chart, candidate):
    """Return the slot of the item with a joined candidate's state, or the free slot for it."""
    row = chart.candidates[candidate]
    key = mix(np.uint64(row.state) * GOLDEN + np.uint64(2 * row.open + row.closed))
    for k in range(row.open):
        key = mix(key + np.uint64(chart.candidate_words[candidate, k]) * GOLDEN + _ONE)
    mask = table_mask(chart.slots)
    return np.int64(probe(key & mask, mask, _ends_at, chart, candidate))


@njit_inline
def _add_edge(chart, cell, candidate):
    """Add a joined candidate's edge, and a new item if needed. The pools must have room."""
    used = chart.used
    row = chart.candidates[candidate]
    arity = chart.cubes[row.cube].arity
    slot = _find_slot(chart, candidate)
    tails = used[Pool.TAILS]
    used[Pool.TAILS] += arity
    for k in range(arity):
        chart.tails[tails + k] = chart.ranked[chart.coordinates[row.coordinates + 1 + k]]
    edge = used[Pool.EDGES]
    used[Pool.EDGES] += 1
    added_edge = chart.edges[edge]
    added_edge.score, added_edge.local_score, added_edge.lm = row.score, row.local_score, row.lm
    added_edge.rule, added_edge.tails, added_edge.arity = row.rule, tails, arity
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
        new.open_log10 = row.open_log10
        new.cell, new.state, new.open, new.closed = cell, row.state, row.open, row.closed
        for k in range(row.open):
            chart.item_words[item, k] = chart.candidate_words[candidate, k]
    edge_item = chart.items[item]
    edge_item.edges = edge
    if row.score > edge_item.score:
        edge_item.score, edge_item.rank, edge_item.best = row.score, row.rank, edge


@njit
def add_cube(chart, end, base, rule, rules, arity):
    """Add a cube with this end over the cells `path[:arity]`. Returns False if a pool is full."""
    number, cells = chart.used[Pool.CUBES], chart.used[Pool.CUBE_CELLS]
    if number == len(chart.cubes) or cells + arity > len(chart.cube_cells):
        return False
    cube = chart.cubes[number]
    cube.base, cube.rule, cube.rules, cube.cells, cube.arity = base, rule, rules, cells, arity
    cube.next = chart.heads[end]
    chart.heads[end] = number
    for k in range(arity):
        chart.cube_cells[cells + k] = chart.path[k]
    chart.used[Pool.CUBES] += 1
    chart.used[Pool.CUBE_CELLS] += arity
    return True


@njit
def begin_chart(task, chart):
    """Discard all items, edges and cubes before a sentence is decoded."""
    chart.used[:] = 0
    chart.cells[: s_cell(task, len(task.sentence.words) + 2), :] = 0
    chart.slots[:, 1] = 0


@njit
def discard_cubes(chart):
    """Discard all cubes before cubes for another start or end position are added."""
    chart.used[Pool.CUBES] = chart.used[Pool.CUBE_CELLS] = 0
    chart.heads[:] = NONE


@njit
def fill_cell(task, chart, cell, end):
    """Fill a cell from the cubes that end at `end`. Returns False if a pool is full."""
    used = chart.used
    # Discard the candidates and the hash table of the previous cell.
    for pool in (Pool.CANDIDATES, Pool.COORDINATES, Pool.HEAP, Pool.KEPT):
        used[pool] = 0
    used[Pool.STAMP] += 1
    first = used[Pool.ITEMS]
    number = np.int64(chart.heads[end])
    while number != NONE:
        cube = chart.cubes[number]
        if not _has_room(chart, cube.arity):
            return False
        position = used[Pool.COORDINATES]
        chart.coordinates[position] = cube.rule
        for k in range(cube.arity):
            chart.coordinates[position + 1 + k] = chart.cells[chart.cube_cells[cube.cells + k], 0]
        _push_candidate(task, chart, number, position, np.int64(0), 0.0)
        number = np.int64(cube.next)
    while used[Pool.HEAP] > 0:
        if _can_prune(task, chart, chart.estimates[0]):
            break
        candidate = _pop_heap(chart)
        if not _has_room(chart, chart.cubes[chart.candidates[candidate].cube].arity):
            return False
        rank = _join(task, chart, candidate)
        _keep_candidate(task, chart, candidate)
        _push_successors(task, chart, candidate, rank)
    for k in range(used[Pool.KEPT]):
        candidate = np.int64(chart.kept[k])
        if not _has_room(chart, chart.cubes[chart.candidates[candidate].cube].arity):
            return False
        _add_edge(chart, cell, candidate)
    chart.cells[cell, 0] = first
    chart.cells[cell, 1] = used[Pool.ITEMS]
    # Sort the items by descending rank.
    used[Pool.HEAP] = 0
    for item in range(first, used[Pool.ITEMS]):
        _push_heap(chart, item, chart.items[item].rank)
    for position in range(first, used[Pool.ITEMS]):
        item = _pop_heap(chart)
        chart.ranked[position], chart.ranks[position] = item, chart.items[item].rank
    return True
