"""Ways to lay the source side of a rule over a source span: words where they stand, nonterminals over what is left."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.pairs import ANY, span_of
from hierogram.samplers.compiled.jit import njit, njit_inline


class Segments(NamedTuple):
    """The segmentations of one source span, and room to make them and to lay the other side.

    `rule` int32[S]; `spans` int32[S, W]: the numbers of the nonterminals' source spans; `arity` int32[S]; `words`
    int32[S, W]: the positions of the words that the rule emits, `emitted` int32[S] of them; `wild` int32[S]: the one
    that `ANY` stands for, -1 where there is none. `start`, `end` int64[W] are those of the symbols at hand, `tails`
    int32[W] the items, `positions` int32[W] the target words.
    """

    rule: NDArray[np.int32]
    spans: NDArray[np.int32]
    arity: NDArray[np.int32]
    words: NDArray[np.int32]
    emitted: NDArray[np.int32]
    wild: NDArray[np.int32]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    tails: NDArray[np.int32]
    positions: NDArray[np.int32]


def make_segments(size: int, longest: int) -> Segments:
    """Room for so many segmentations, of rules with so many symbols a side."""
    return Segments(
        np.empty(size, np.int32),
        np.empty((size, longest), np.int32),
        np.empty(size, np.int32),
        np.empty((size, longest), np.int32),
        np.empty(size, np.int32),
        np.empty(size, np.int32),
        np.empty(longest, np.int64),
        np.empty(longest, np.int64),
        np.empty(longest, np.int32),
        np.empty(longest, np.int32),
    )


@njit_inline
def next_end(symbol, start, end, room, last, words):
    """Where a symbol may end next: the end after `end` (-1: the first), no later than `room`, and at `room` where it
    is the side's last; -1 where there is no other. Nonterminals may be empty here.
    """
    if symbol >= 0 or symbol == ANY:
        if end >= 0 or start >= room or (symbol >= 0 and words[start] != symbol) or (last and start + 1 != room):
            return np.int64(-1)
        return np.int64(start + 1)
    if last:
        return np.int64(room) if end < 0 else np.int64(-1)
    following = np.int64(start if end < 0 else end + 1)
    return following if following <= room else np.int64(-1)


@njit
def _keep(rule, first, depth, rules, segments, number):
    """Write down the segmentation at hand."""
    arity, emitted = 0, 0
    segments.rule[number] = rule
    segments.wild[number] = -1
    for d in range(depth):
        symbol = rules.source[first + d]
        if symbol >= 0 or symbol == ANY:
            segments.words[number, emitted] = segments.start[d]
            emitted += 1
            if symbol == ANY:
                segments.wild[number] = segments.start[d]
        else:
            segments.spans[number, arity] = span_of(segments.start[d], segments.end[d])
            arity += 1
    segments.arity[number] = arity
    segments.emitted[number] = emitted


@njit
def _segment_rule(rule, i, j, task, filled, segments, number):
    """Write the segmentations of one rule from number `number` on; the number after the last, -1 without room."""
    rules, words = task.rules, task.words.source
    first, last = np.int64(rules.source_first[rule]), np.int64(rules.source_first[rule + 1])
    length = last - first
    if length == 0:
        if i < j:
            return number
        if number == len(segments.rule):
            return np.int64(-1)
        _keep(rule, first, 0, rules, segments, number)
        return number + 1
    if rules.source_rest[first] > j - i:
        return number
    depth = 0
    segments.start[0] = i
    segments.end[0] = -1
    while depth >= 0:
        final = depth == length - 1
        symbol = rules.source[first + depth]
        room = j if final else j - rules.source_rest[first + depth + 1]
        end = next_end(symbol, segments.start[depth], segments.end[depth], room, final, words)
        if end < 0:
            depth -= 1
            continue
        segments.end[depth] = end
        if symbol < 0 and symbol != ANY and not filled[span_of(segments.start[depth], end)]:
            continue
        if final:
            if number == len(segments.rule):
                return np.int64(-1)
            _keep(rule, first, length, rules, segments, number)
            number += 1
        else:
            depth += 1
            segments.start[depth] = end
            segments.end[depth] = -1
    return number


@njit
def segment_span(i, j, task, reach, filled, segments):
    """Write all segmentations of source span [i, j) by nonterminals with filled spans; how many, -1 without room."""
    number = np.int64(0)
    for k in range(reach.first[i], reach.first[i + 1]):
        rule = np.int64(reach.rule[k])
        if reach.source[rule, i] <= j:
            number = _segment_rule(rule, i, j, task, filled, segments, number)
            if number < 0:
                break
    return number
