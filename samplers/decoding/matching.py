"""Which source sides match from a start: depth first through the trie, over cells that are already filled.

A rule of scope k has k ends of nonterminals that are free, so it matches in O(n^k) ways [Hopkins & Langmead 2010].
"""

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.decoding.chart import MATCH_CELLS, MATCHES, NONE, x_cell
from hierogram.samplers.decoding.grammar import gap_child, word_child

_FRESH = -2


@njit_inline
def _push(chart, depth, node, position, arity):
    frame = chart.stack[depth]
    frame.node = node
    frame.position = position
    frame.arity = arity
    frame.gap = _FRESH


@njit_inline
def _record(chart, node, end, arity):
    """Note that the source side of a node ends here; False where there is no room."""
    taken = chart.taken
    if taken[MATCHES] == len(chart.matches) or taken[MATCH_CELLS] + arity > len(chart.match_cells):
        return False
    match = chart.matches[taken[MATCHES]]
    match.node = node
    match.cells = taken[MATCH_CELLS]
    match.arity = arity
    match.next = chart.heads[end]
    chart.heads[end] = taken[MATCHES]
    for k in range(arity):
        chart.match_cells[taken[MATCH_CELLS] + k] = chart.path[k]
    taken[MATCHES] += 1
    taken[MATCH_CELLS] += arity
    return True


@njit
def match_from(task, chart, node, position, arity, end):
    """Note all matches that go on from a node of the trie at a position, up to `end`; False where there is no room.

    The first `arity` cells of `path` are those of the nonterminals so far. All cells that begin at `position` or later
    are filled.
    """
    grammar = task.grammar
    words = task.sentence.words
    n = len(words)
    depth = 0
    _push(chart, 0, node, position, arity)
    while depth >= 0:
        frame = chart.stack[depth]
        at = frame.position
        if frame.gap == _FRESH:
            if grammar.rule_first[frame.node] < grammar.rule_first[frame.node + 1] and not _record(
                chart, frame.node, at, frame.arity
            ):
                return False
            frame.gap = at + 1
            if at < end:
                child = word_child(grammar, frame.node, words[at])
                if child > 0:
                    depth += 1
                    _push(chart, depth, child, at + 1, frame.arity)
            continue
        child = gap_child(grammar, frame.node) if frame.gap <= end else NONE
        if child < 0:
            depth -= 1
            continue
        cell = x_cell(n, at, frame.gap)
        frame.gap += 1
        if chart.cells[cell, 1] > chart.cells[cell, 0]:
            chart.path[frame.arity] = cell
            depth += 1
            _push(chart, depth, child, frame.gap - 1, frame.arity + 1)
    return True
