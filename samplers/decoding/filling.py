"""Chart filling: X over spans up to the limit, then S → X and S → S X left to right, then the goal.

From each start position, a depth-first search of the trie over words and filled cells finds all source sides that match
[Hopkins & Langmead 2010].
"""

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.decoding.chart import GLUE_NEXT, GLUE_START, GOAL, NONE, Pool, s_cell, x_cell
from hierogram.samplers.decoding.cubes import add_cube, begin_cell, begin_chart, fill_cell, lm_word, own_score
from hierogram.samplers.decoding.grammar import LM, LN_10, gap_child, word_child
from hierogram.samplers.language_models.model import EMPTY, score

_FRESH = -2
"""Value of `gap` in a stack frame that has not been visited yet."""


@njit_inline
def _push(chart, depth, node, position, arity):
    frame = chart.stack[depth]
    frame.node, frame.position, frame.arity, frame.gap = node, position, arity, _FRESH


@njit_inline
def _record(chart, node, end, arity):
    """Record a match of a node's source side with the words up to `end`. Returns False if a pool is full."""
    used = chart.taken
    if used[Pool.MATCHES] == len(chart.matches) or used[Pool.MATCH_CELLS] + arity > len(chart.match_cells):
        return False
    match = chart.matches[used[Pool.MATCHES]]
    match.node, match.cells, match.arity, match.next = node, used[Pool.MATCH_CELLS], arity, chart.heads[end]
    chart.heads[end] = used[Pool.MATCHES]
    for k in range(arity):
        chart.match_cells[used[Pool.MATCH_CELLS] + k] = chart.path[k]
    used[Pool.MATCHES] += 1
    used[Pool.MATCH_CELLS] += arity
    return True


@njit
def _match_from(task, chart, node, position, arity, end):
    """Record all matches through a trie node at `position`, up to `end`. Returns False if a pool is full.

    The first `arity` cells of `path` belong to earlier nonterminals. Cells from `position` on must be filled.
    """
    grammar = task.grammar
    words = task.sentence.words
    depth = 0
    _push(chart, 0, node, position, arity)
    while depth >= 0:
        frame = chart.stack[depth]
        frame_position = frame.position
        if frame.gap == _FRESH:
            if grammar.rule_first[frame.node] < grammar.rule_first[frame.node + 1] and not _record(
                chart, frame.node, frame_position, frame.arity
            ):
                return False
            frame.gap = frame_position
            if frame_position < end:
                child = word_child(grammar, frame.node, words[frame_position])
                if child > 0:
                    depth += 1
                    _push(chart, depth, child, frame_position + 1, frame.arity)
            continue
        child = gap_child(grammar, frame.node)
        frame.gap += 1
        if child < 0 or frame.gap > end:
            depth -= 1
            continue
        cell = x_cell(task, frame_position, np.int64(frame.gap))
        if chart.cells[cell, 1] > chart.cells[cell, 0]:
            chart.path[frame.arity] = cell
            depth += 1
            _push(chart, depth, child, frame.gap, frame.arity + 1)
    return True


_ROOT = 0


@njit
def _extra_base(task, rule):
    """Return an extra rule's estimated score: its own score plus weighted log probability of its words."""
    sentence, model = task.sentence, task.model
    total = own_score(task, rule)
    if model.order > 0:
        state = np.int32(EMPTY)
        extra = rule - len(task.weighed.score)
        for k in range(sentence.target_start[extra], sentence.target_start[extra + 1]):
            log10, state = score(model, state, lm_word(task, sentence.target[k]))
            total += task.weighed.weights[LM] * LN_10 * log10
    return total


@njit
def _fill_x(task, chart, start, end):
    """Fill the cell of X over [start, end) from the recorded matches. Returns False if a pool is full."""
    grammar, sentence = task.grammar, task.sentence
    begin_cell(chart)
    cell = x_cell(task, start, end)
    match = chart.heads[end]
    while match != NONE:
        stored = chart.matches[match]
        match = stored.next
        first, last = np.int64(grammar.rule_first[stored.node]), np.int64(grammar.rule_first[stored.node + 1])
        cells = chart.taken[Pool.CUBE_CELLS]
        if cells + stored.arity > len(chart.cube_cells):
            return False
        for k in range(stored.arity):
            chart.cube_cells[cells + k] = chart.match_cells[stored.cells + k]
        chart.taken[Pool.CUBE_CELLS] += stored.arity
        if not add_cube(chart, 0.0, first, last - first, cells, stored.arity):
            return False
    if end == start + 1:
        rules = len(task.weighed.score)
        for extra in range(sentence.extra_first[start], sentence.extra_first[start + 1]):
            if not add_cube(chart, _extra_base(task, rules + extra), rules + extra, 0, 0, 0):
                return False
    return fill_cell(task, chart, cell)


@njit
def _fill_start(task, chart, start):
    """Fill X over the spans of up to `limits.span` words from `start`. Returns False if a pool is full."""
    words = task.sentence.words
    n = len(words)
    end = min(n, start + task.limits.span)
    chart.taken[Pool.MATCHES] = 0
    chart.taken[Pool.MATCH_CELLS] = 0
    for k in range(n + 1):
        chart.heads[k] = NONE
    first = word_child(task.grammar, _ROOT, words[start])
    if first > 0 and not _match_from(task, chart, first, start + 1, 0, end):
        return False
    child = gap_child(task.grammar, _ROOT)
    for middle in range(start + 1, end + 1):
        if not _fill_x(task, chart, start, middle):
            return False
        cell = x_cell(task, start, middle)
        if child > 0 and chart.cells[cell, 1] > chart.cells[cell, 0]:
            chart.path[0] = cell
            if not _match_from(task, chart, child, middle, 1, end):
                return False
    return True


@njit_inline
def _glue(task, chart, rule, cells):
    """Add a cube of a glue rule over a tuple of cells. Returns False if a pool is full."""
    first = chart.taken[Pool.CUBE_CELLS]
    if first + len(cells) > len(chart.cube_cells):
        return False
    for k in range(len(cells)):
        chart.cube_cells[first + k] = cells[k]
    chart.taken[Pool.CUBE_CELLS] += len(cells)
    return add_cube(chart, own_score(task, rule), rule, 0, first, len(cells))


@njit
def _fill_s(task, chart, end):
    begin_cell(chart)
    for start in range(max(0, end - task.limits.span), end):
        cell = x_cell(task, start, end)
        if chart.cells[cell, 1] == chart.cells[cell, 0]:
            continue
        if start == 0:
            made = _glue(task, chart, np.int64(GLUE_START), (cell,))
        else:
            made = _glue(task, chart, np.int64(GLUE_NEXT), (s_cell(task, start), cell))
        if not made:
            return False
    return fill_cell(task, chart, s_cell(task, end))


@njit
def fill(task, chart):
    """Fill the chart of a nonempty sentence. Returns the goal item, or -1 if a pool is full."""
    n = len(task.sentence.words)
    begin_chart(task, chart)
    for start in range(n - 1, -1, -1):
        if not _fill_start(task, chart, start):
            return np.int64(NONE)
    for end in range(1, n + 1):
        if not _fill_s(task, chart, end):
            return np.int64(NONE)
    begin_cell(chart)
    goal = s_cell(task, n + 1)
    if not _glue(task, chart, np.int64(GOAL), (s_cell(task, n),)) or not fill_cell(task, chart, goal):
        return np.int64(NONE)
    return np.int64(chart.taken[Pool.ITEMS] - 1)
