"""Inside and outside sums of a sentence pair for rules and a base, without a mask or stored edges.

The base is a set of simple rules: two nonterminals in either order, each word pair, and one word beside a nonterminal.
With the base, every bispan has a derivation, so each pair of adjacent bispans would have an edge. Edges are summed but
never stored. Each source span has a matrix of sums by target start and end:

- A *join* of two nonterminals is a product of triangular matrices.
- A *match* places a learned rule's source side in the source words. For each match, vectors over target positions
  match the target side.
- A *frame* is a rule without source words. Its target words are around its only nonterminal, or between its two
  nonterminals and on one side of both. Frames need no matches: a frame with two nonterminals changes one factor of a
  product.
- A *rest* is a rule without its first target symbol, if that is a nonterminal at the start or end of the source side.
  Only the rest is matched. It is a factor of the joins, which combine it with all adjacent spans at once.

Outside sums reverse these steps. The total equals the total of `hierogram.samplers.charts.pair_graphs` up to rounding.
Expectations omit bispans of probability below 1e-10.

Nonterminals have words on both sides. Rules have words or two nonterminals.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.chart import cell_of
from hierogram.samplers.compiled.intrinsics import (
    accumulate_eight,
    add_eight,
    add_products,
    load_eight,
    sum_eight,
    zero_eight,
)
from hierogram.samplers.compiled.jit import njit

_BLOCK = 8
"""Number of columns that are summed at once. The length of rows is padded to a multiple of it."""
MIN_TOTAL, MAX_TOTAL = 1e-280, 1e280
"""Range of totals for expectations. Beyond this range, parts of sums may underflow or overflow."""
_NEGLIGIBLE = 1e-10
"""Bispans of lower probability are omitted from expectations."""
_UPPER_UPPER, _UPPER_LOWER, _LOWER_UPPER = range(3)
"""Shapes of the left and right factors of a product: upper or lower triangular matrices."""
_PLAIN, _REAR, _REAR_INVERTED, _FRONT, _FRONT_INVERTED = range(5)
"""Sections of the arrays of sums.

`_PLAIN` has the sums of spans. `_REAR` and `_REAR_INVERTED` are the second factors of straight and inverted joins. They
include the weight of the base, rests, and frames with target words between and after the nonterminals. `_FRONT` and
`_FRONT_INVERTED` are the first factors. They include frames with target words before and between the nonterminals.
"""
_SINGLE = 0
"""Kind of frames with one nonterminal. The kind of other frames is the section that they are added to."""
_SECTIONS = 5


class RuleSides(NamedTuple):
    """Symbols of rules: word numbers, and -k for nonterminal k of a rule, numbered from 1 in source order.

    Rule r has the source side `source[source_first[r] : source_first[r + 1]]`, and the target side
    `target[target_first[r] : target_first[r + 1]]`.
    """

    source: NDArray[np.int32]
    source_first: NDArray[np.int64]
    target: NDArray[np.int32]
    target_first: NDArray[np.int64]


class ChosenRules(NamedTuple):
    """Rules that a pair can use: numbers in `RuleSides`, int64[C], and linear weights float64[C]."""

    rule: NDArray[np.int64]
    weight: NDArray[np.float64]


class BaseWeights(NamedTuple):
    """Linear weights of word pairs, words beside a nonterminal, and two nonterminals in either order."""

    pair: float
    null: float
    straight: float
    inverted: float


class PairPiece(NamedTuple):
    """Piece of a sentence pair: source words [i, j) and target words [x, y)."""

    i: int
    j: int
    x: int
    y: int


class DenseScratch(NamedTuple):
    """Scratch memory of one thread, for pieces of up to n source words and `size` - 1 target words."""

    # float64[5 sections]: inside sums, linear. A section has one matrix per source span, with target starts as rows and
    # target ends as columns. `transposed` has the transposed matrices.
    inside: NDArray[np.float64]
    transposed: NDArray[np.float64]
    # float64[5 sections]: outside sums, relative to the total. The first section has one matrix per source span. After
    # it are four matrices, the sums of one source span for the other sections.
    outside: NDArray[np.float64]
    # int32[matches]: for each match, the index of its rule among the chosen rules.
    match_rule: NDArray[np.int32]
    # float64[matches]: linear weight of each match, including its source words.
    match_weight: NDArray[np.float64]
    # int32[3 * matches]: source span of each nonterminal k (from 1) of match s, at index s * `sizes[_ARITY]` + k - 1.
    match_span: NDArray[np.int32]
    # int32[heads]: first and last match of each head, -1 for none. A head is the index of a matrix in `inside`.
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    # int32[matches]: next match with the same head, or -1.
    next: NDArray[np.int32]
    # int64[C, 4]: part of each chosen rule to match: source start, source end, target start, target end.
    part: NDArray[np.int64]
    # int16[C * size]: lower bound on the target end, by chosen rule and target start; m + 1 if the rule cannot match.
    earliest_end: NDArray[np.int16]
    # float64[rows * padded size]: inside sums by target end. Row t is for the first t symbols of a target side.
    values: NDArray[np.float64]
    # float64[rows * padded size]: outside sums in the same layout as `values`.
    back: NDArray[np.float64]
    # int64[rows]: first and last position of each row of `values`.
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    # int64[products]: offsets of the left and right factors of products of matrices.
    lefts: NDArray[np.int64]
    rights: NDArray[np.int64]
    # int64[products, 4]: first row, last row, first summand and last summand of each product.
    limits: NDArray[np.int64]
    # int64[F, 4]: kind of each frame, and number of target words before and after one nonterminal (see `_weigh_frame`).
    # The last column is a separate list: the frames with one nonterminal that can begin in the current row.
    frame: NDArray[np.int64]
    # float64[F * size]: linear weight of a frame's rule and words before that nonterminal, by frame and target start.
    begins: NDArray[np.float64]
    # float64[F * size]: linear weight of a frame's words after that nonterminal, by frame and target end.
    ends: NDArray[np.float64]
    # bool[size]: True for rows (target starts) at which front frames can begin.
    front: NDArray[np.bool_]
    # int64[spans, 4]: first and last row, first and last column of each source span's bispans above `_NEGLIGIBLE`.
    bounds: NDArray[np.int64]
    # bool[size]: True for rows of the current matrix with bispans that are not negligible.
    live: NDArray[np.bool_]
    # int64[symbols]: source start and end of each symbol of a rule. For outside sums, `start` has the source positions
    # of a match's words.
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    # int64[5]: counts, indexed by `_MATCHES` and the other constants below.
    sizes: NDArray[np.int64]


_MATCHES, _ARITY, _FRAMES, _FRONTS, NEEDED = range(5)
"""Indices of `sizes`: matches, maximum nonterminals per match, frames, front frames, matches needed."""


def matrices_size(n: int, m: int) -> int:
    """Return the size of a section of `DenseScratch.inside`, for a piece of n source and m target words."""
    return n * (n + 1) // 2 * (m + 1) * int(_padded(m + 1))


def make_dense_scratch(words: tuple[int, int], matrices: int, rules: int, longest: int, matches: int) -> DenseScratch:
    """Allocate memory for maxima of words per side, `matrices_size`, rules, symbols per side and matches."""
    n, size = words[0], words[1] + 1
    spans = (n + 1) * (n + 2) // 2
    return DenseScratch(
        np.empty(_SECTIONS * matrices),
        np.empty(_SECTIONS * matrices),
        np.empty(_SECTIONS * matrices),
        np.empty(matches, np.int32),
        np.empty(matches),
        np.empty(matches * 3, np.int32),
        np.empty(_FRONT * spans, np.int32),
        np.empty(_FRONT * spans, np.int32),
        np.empty(matches, np.int32),
        np.empty((rules, 4), np.int64),
        np.empty(rules * size, np.int16),
        np.empty((longest + 1) * _padded(size)),
        np.empty((longest + 1) * _padded(size)),
        np.empty(longest + 1, np.int64),
        np.empty(longest + 1, np.int64),
        np.empty(4 * n + 4, np.int64),
        np.empty(4 * n + 4, np.int64),
        np.empty((4 * n + 4, 4), np.int64),
        np.empty((rules, 4), np.int64),
        np.empty(rules * size),
        np.empty(rules * size),
        np.empty(size, np.bool_),
        np.empty((spans, 4), np.int64),
        np.empty(size, np.bool_),
        np.empty(longest + 1, np.int64),
        np.empty(longest + 1, np.int64),
        np.zeros(5, np.int64),
    )


@njit
def _padded(size):
    return (size + _BLOCK - 1) // _BLOCK * _BLOCK


@njit
def _add_products(left, right, scratch, number, out, offset, size, kind, front):
    """Add `number` products to `out` above its diagonal. If `front`, may skip rows without front frames."""
    stride = _padded(size)
    lefts, rights, limits = scratch.lefts, scratch.rights, scratch.limits
    for p in range(0, size - 1, 4):
        last_row = min(p + 3, size - 2)
        if front:
            none = True
            for row in range(p, last_row + 1):
                none = none and not scratch.front[row]
            if none:
                continue
        second = min(p + 1, last_row) * stride
        third = min(p + 2, last_row) * stride
        fourth = last_row * stride
        for q in range((p + 1) // _BLOCK * _BLOCK, size, _BLOCK):
            if kind == _UPPER_UPPER:
                first, last = np.int64(p + 1), min(size, np.int64(q + _BLOCK - 1))
            elif kind == _UPPER_LOWER:
                first, last = np.int64(max(p, q) + 1), size
            else:
                first, last = np.int64(0), np.int64(last_row)
            a, b, c, d = zero_eight(), zero_eight(), zero_eight(), zero_eight()
            for k in range(number):
                if last_row < limits[k, 0] or p > limits[k, 1]:
                    continue
                begin = max(first, limits[k, 2])
                row = lefts[k]
                position = rights[k] + begin * stride + q
                for r in range(begin, min(last, limits[k, 3] + 1)):
                    numbers = load_eight(right, position)
                    a = add_eight(a, left[row + p * stride + r], numbers)
                    b = add_eight(b, left[row + second + r], numbers)
                    c = add_eight(c, left[row + third + r], numbers)
                    d = add_eight(d, left[row + fourth + r], numbers)
                    position += stride
            position = offset + p * stride + q
            accumulate_eight(out, position, a, p + 1 - q)
            if p + 1 <= last_row:
                accumulate_eight(out, position + stride, b, p + 2 - q)
            if p + 2 <= last_row:
                accumulate_eight(out, position + 2 * stride, c, p + 3 - q)
            if p + 3 <= last_row:
                accumulate_eight(out, position + 3 * stride, d, p + 4 - q)


@njit
def _find_earliest_ends(c, sides, target, piece, scratch):
    """Fill `earliest_end` for a chosen rule. Returns False if the target side cannot match anywhere."""
    m = piece.y - piece.x
    size = m + 1
    can_match = False
    for start in range(size):
        end = np.int64(start)
        gap = False
        for k in range(scratch.part[c, 2], scratch.part[c, 3]):
            symbol = sides.target[k]
            if symbol < 0:
                end += 1
                gap = True
            else:
                while gap and end < m and target[piece.x + end] != symbol:
                    end += 1
                end = end + 1 if end < m and target[piece.x + end] == symbol else size
            if end > m:
                end = np.int64(size)
                break
        scratch.earliest_end[c * size + start] = end
        can_match = can_match or end <= m
    return can_match


@njit
def _shape(rule, sides):
    """Return (number of nonterminals, source length, target length) of a rule."""
    first, last = sides.source_first[rule], sides.source_first[rule + 1]
    arity = 0
    for k in range(first, last):
        if sides.source[k] < 0:
            arity += 1
    return arity, last - first, sides.target_first[rule + 1] - sides.target_first[rule]


@njit
def add_joins(chosen, number, sides, base):
    """Return the base plus the weights of chosen rules that only join two nonterminals."""
    straight, inverted = base.straight, base.inverted
    for c in range(number):
        kind, _, _ = _frame_kind(chosen.rule[c], sides)
        _, source, target = _shape(chosen.rule[c], sides)
        if kind == _REAR and source == target:
            straight += chosen.weight[c]
        elif kind == _REAR_INVERTED and source == target:
            inverted += chosen.weight[c]
    return BaseWeights(base.pair, base.null, straight, inverted)


@njit
def _frame_kind(rule, sides):
    """Return a frame's kind (-1 for other rules), and indices of its first and last target nonterminal."""
    arity, source, _ = _shape(rule, sides)
    first, last = sides.target_first[rule], sides.target_first[rule + 1]
    if arity != source or arity > 2:
        return -1, first, first
    first_tail = first
    while sides.target[first_tail] >= 0:
        first_tail += 1
    if arity == 1:
        return _SINGLE, first_tail, first_tail
    last_tail = last - 1
    while sides.target[last_tail] >= 0:
        last_tail -= 1
    straight = sides.target[first_tail] == -1
    if first_tail == first:
        return (_REAR if straight else _REAR_INVERTED), first_tail, last_tail
    if last_tail == last - 1:
        return (_FRONT if straight else _FRONT_INVERTED), first_tail, last_tail
    return -1, first, first


@njit
def _weigh_words(first, number, x, sides, words, piece):
    """Return the weight of `number` target words of a rule from position x, or 0 if they do not match."""
    if x < 0 or x + number > piece.y - piece.x:
        return 0.0
    product = 1.0
    for k in range(number):
        position = piece.x + x + k
        product *= words.target_scale[position] if words.target[position] == sides.target[first + k] else 0.0
    return product


@njit
def _weigh_frame(kind, first_tail, last_tail, rule, weight, sides, words, piece, scratch):
    size = piece.y - piece.x + 1
    number = scratch.sizes[_FRAMES]
    first, last = sides.target_first[rule], sides.target_first[rule + 1]
    # The words are around the second nonterminal of rear frames, and around the first of other frames.
    front = kind >= _FRONT
    rear = kind > _SINGLE and not front
    begin = first_tail + 1 if rear else first
    middle = last_tail if rear else first_tail
    end = last_tail if front else last
    before, after = middle - begin, end - middle - 1
    for x in range(size):
        scratch.begins[number * size + x] = weight * _weigh_words(begin, before, x, sides, words, piece)
        scratch.ends[number * size + x] = _weigh_words(middle + 1, after, x - after, sides, words, piece)
        if front:
            scratch.front[x] = scratch.front[x] or scratch.begins[number * size + x] > 0.0
    if front:
        scratch.sizes[_FRONTS] += 1
    scratch.frame[number, 0], scratch.frame[number, 1], scratch.frame[number, 2] = kind, before, after
    scratch.sizes[_FRAMES] = number + 1


@njit
def _add_match(c, head, symbols, first, length, weight, scale, begin, scratch):
    number = scratch.sizes[_MATCHES]
    arity = scratch.sizes[_ARITY]
    scratch.sizes[_MATCHES] = number + 1
    if number >= len(scratch.match_rule) or (number + 1) * arity > len(scratch.match_span):
        return
    for d in range(length):
        symbol = symbols[first + d]
        if symbol < 0:
            scratch.match_span[number * arity - 1 - symbol] = cell_of(scratch.start[d], scratch.end[d])
        else:
            weight *= scale[begin + scratch.start[d]]
    scratch.match_rule[number] = c
    scratch.match_weight[number] = weight
    scratch.next[number] = -1
    if scratch.first[head] < 0:
        scratch.first[head] = number
    else:
        scratch.next[scratch.last[head]] = number
    scratch.last[head] = number


@njit
def _match_rule(c, kind, weight, sides, words, piece, scratch):
    """Write all matches of the source side of a rule or its rest for the section `kind`."""
    symbols, first = sides.source, scratch.part[c, 0]
    length = scratch.part[c, 1] - first
    n = piece.j - piece.i
    heads = kind * cell_of(0, n + 1)
    # Leave at least one word for the omitted nonterminal: before a straight rest, or after an inverted rest.
    if kind == _REAR_INVERTED:
        n -= 1
    for i in range(1 if kind == _REAR else 0, n - length + 1):
        depth = np.int64(0)
        scratch.start[0], scratch.end[0] = i, -1
        while depth >= 0:
            symbol = symbols[first + depth]
            start, end = scratch.start[depth], scratch.end[depth]
            if symbol >= 0:
                if end >= 0 or words.source[piece.i + start] != symbol:
                    depth -= 1
                    continue
                end = start + 1
            else:
                end = start + 1 if end < 0 else end + 1
                # Leave at least one word for each remaining symbol.
                if end > n - (length - 1 - depth):
                    depth -= 1
                    continue
            scratch.end[depth] = end
            if depth == length - 1:
                head = heads + cell_of(i, end)
                _add_match(c, head, symbols, first, length, weight, words.source_scale, piece.i, scratch)
            else:
                depth += 1
                scratch.start[depth], scratch.end[depth] = end, -1


@njit
def _has_words(rule, symbols, first, words, begin, end):
    for k in range(first[rule], first[rule + 1]):
        if symbols[k] >= 0 and symbols[k] not in words[begin:end]:
            return False
    return True


@njit
def _choose_part(c, rule, sides, scratch):
    """Choose the whole rule or its rest to match. Returns the section of the part's sums."""
    part = scratch.part[c]
    part[0], part[1] = sides.source_first[rule], sides.source_first[rule + 1]
    part[2], part[3] = sides.target_first[rule], sides.target_first[rule + 1]
    opening = sides.target[part[2]]
    if opening < 0 and min(part[1] - part[0], part[3] - part[2]) > 1:
        if sides.source[part[0]] == opening:
            part[0] += 1
            part[2] += 1
            return _REAR
        if sides.source[part[1] - 1] == opening:
            part[1] -= 1
            part[2] += 1
            return _REAR_INVERTED
    return _PLAIN


@njit
def _match_all(chosen, number, sides, words, piece, scratch):
    """Write the frames and matches of the chosen rules. Returns False if the matches do not fit."""
    scratch.sizes[:] = 0
    for x in range(piece.y - piece.x + 1):
        scratch.front[x] = False
    n = piece.j - piece.i
    scratch.first[: _FRONT * cell_of(0, n + 1)] = -1
    for c in range(number):
        scratch.sizes[_ARITY] = max(scratch.sizes[_ARITY], _shape(chosen.rule[c], sides)[0])
    for c in range(number):
        rule = chosen.rule[c]
        kind, first_tail, last_tail = _frame_kind(rule, sides)
        _, source, target = _shape(rule, sides)
        # Skip rules that only join two nonterminals, which `add_joins` has added to the base.
        if (kind >= 0 and source == target) or source > n or target > piece.y - piece.x:
            continue
        if not _has_words(rule, sides.source, sides.source_first, words.source, piece.i, piece.j):
            continue
        if not _has_words(rule, sides.target, sides.target_first, words.target, piece.x, piece.y):
            continue
        if kind >= 0:
            _weigh_frame(kind, first_tail, last_tail, rule, chosen.weight[c], sides, words, piece, scratch)
            continue
        kind = _choose_part(c, rule, sides, scratch)
        if _find_earliest_ends(c, sides, words.target, piece, scratch):
            _match_rule(c, kind, chosen.weight[c], sides, words, piece, scratch)
    matches = scratch.sizes[_MATCHES]
    if matches > len(scratch.match_rule) or matches * scratch.sizes[_ARITY] > len(scratch.match_span):
        scratch.sizes[NEEDED] = matches
        return False
    return True


@njit
def _match_target(match, c, x, sides, words, piece, scratch):
    """Match target symbols from word x on. Row t of `values` gets the sums of the first t symbols.

    Returns False if a word does not match, or if the words are too few for the nonterminals.
    """
    m = piece.y - piece.x
    size = m + 1
    stride = _padded(size)
    first = scratch.part[c, 2]
    length = scratch.part[c, 3] - first
    values, low, high = scratch.values, scratch.low, scratch.high
    low[0], high[0], values[x] = x, x, 1.0
    for t in range(length):
        symbol = sides.target[first + t]
        # Leave at least one word for each remaining symbol.
        limit = m - (length - 1 - t)
        row_offset, next_offset = t * stride, (t + 1) * stride
        begin, end = low[t], high[t]
        if symbol >= 0:
            following, last = np.int64(size), np.int64(-1)
            for p in range(begin, min(end + 1, limit)):
                if words.target[piece.x + p] == symbol and values[row_offset + p] != 0.0:
                    if last < 0:
                        following = p + 1
                    else:
                        for q in range(last + 1, p + 1):
                            values[next_offset + q] = 0.0
                    values[next_offset + p + 1] = values[row_offset + p] * words.target_scale[piece.x + p]
                    last = p + 1
            if last < 0:
                return False
            low[t + 1], high[t + 1] = following, last
        else:
            if begin + 1 > limit:
                return False
            matrix = scratch.match_span[match * scratch.sizes[_ARITY] - 1 - symbol] * size * stride
            for block in range((begin + 1) // _BLOCK * _BLOCK, limit + 1, _BLOCK):
                total = zero_eight()
                for p in range(begin, min(end + 1, limit, block + _BLOCK - 1)):
                    value = values[row_offset + p]
                    if value != 0.0:
                        total = add_eight(total, value, load_eight(scratch.inside, matrix + p * stride + block))
                for q in range(next_offset + block, next_offset + block + _BLOCK):
                    values[q] = 0.0
                accumulate_eight(values, next_offset + block, total, 0)
            low[t + 1], high[t + 1] = begin + 1, limit
    return True


@njit
def _add_matches(head, sides, words, piece, scratch):
    m = piece.y - piece.x
    size = m + 1
    stride = _padded(size)
    offset = head * size * stride
    match = np.int64(scratch.first[head])
    while match >= 0:
        c = scratch.match_rule[match]
        weight = scratch.match_weight[match]
        length = scratch.part[c, 3] - scratch.part[c, 2]
        for x in range(m - length + 1):
            if scratch.earliest_end[c * size + x] <= m and _match_target(match, c, x, sides, words, piece, scratch):
                for y in range(scratch.low[length], scratch.high[length] + 1):
                    scratch.inside[offset + x * stride + y] += weight * scratch.values[length * stride + y]
        match = np.int64(scratch.next[match])


@njit
def _list_single_frames(x, size, scratch):
    """List the frames with one nonterminal that can begin at target position x. Returns their number."""
    number = 0
    for k in range(scratch.sizes[_FRAMES]):
        if scratch.frame[k, 0] == _SINGLE and scratch.begins[k * size + x] > 0.0:
            scratch.frame[number, 3] = k
            number += 1
    return number


@njit
def _add_target_only(offset, size, null, scratch):
    """Add sums of rules with one nonterminal and no source words to a matrix, inner target spans first."""
    stride = _padded(size)
    inside = scratch.inside
    for x in range(size - 2, -1, -1):
        row = offset + x * stride
        frames = _list_single_frames(x, size, scratch)
        for y in range(x + 2, size):
            inside[row + y] += null[x] * inside[row + stride + y] + null[y - 1] * inside[row + y - 1]
            for f in range(frames):
                k = scratch.frame[f, 3]
                i, j = x + scratch.frame[k, 1], y - scratch.frame[k, 2]
                if i < j:
                    weight = scratch.begins[k * size + x] * scratch.ends[k * size + y]
                    if weight > 0.0:
                        inside[row + y] += weight * inside[offset + i * stride + j]


@njit
def _add_frames(head, section, base, sides, words, piece, scratch):
    """Fill a span's matrices in the factor sections, and transpose its matrices in all sections."""
    size = piece.y - piece.x + 1
    stride = _padded(size)
    matrix = size * stride
    offset = head * matrix
    spans = section // matrix
    inside, transposed = scratch.inside, scratch.transposed
    for kind in range(_REAR, _SECTIONS if scratch.sizes[_FRONTS] > 0 else _FRONT):
        weight = base.straight if kind == _REAR else base.inverted if kind == _REAR_INVERTED else 0.0
        factor_offset = kind * section + offset
        for k in range(matrix):
            inside[factor_offset + k] = weight * inside[offset + k]
    for k in range(scratch.sizes[_FRAMES]):
        kind, before, after = scratch.frame[k, 0], scratch.frame[k, 1], scratch.frame[k, 2]
        if kind == _SINGLE:
            continue
        factor_offset = kind * section + offset
        for x in range(size - 1 - before):
            begins = scratch.begins[k * size + x]
            if begins > 0.0:
                row, inner = factor_offset + x * stride, offset + (x + before) * stride - after
                for y in range(x + before + after + 1, size):
                    inside[row + y] += begins * scratch.ends[k * size + y] * inside[inner + y]
    for kind in range(_REAR, _FRONT):
        _add_matches(kind * spans + head, sides, words, piece, scratch)
    for kind in range(_SECTIONS if scratch.sizes[_FRONTS] > 0 else _FRONT):
        factor_offset = kind * section + offset
        for x in range(size):
            for y in range(size):
                transposed[factor_offset + y * stride + x] = inside[factor_offset + x * stride + y]
            for y in range(size, stride):
                transposed[factor_offset + x * stride + y] = 0.0


@njit
def _reverse_frames(offset, section, size, base, scratch):
    """Add the outside sums of factors, stored from `section` on, to the outside sums of their span."""
    stride = _padded(size)
    matrix = size * stride
    outside = scratch.outside
    for k in range(matrix):
        outside[offset + k] += base.straight * outside[section + k] + base.inverted * outside[section + matrix + k]
    for k in range(scratch.sizes[_FRAMES]):
        kind, before, after = scratch.frame[k, 0], scratch.frame[k, 1], scratch.frame[k, 2]
        if kind == _SINGLE:
            continue
        factor_offset = section + (kind - 1) * matrix
        for x in range(size - 1 - before):
            begins = scratch.begins[k * size + x]
            if begins > 0.0:
                row, inner = factor_offset + x * stride, offset + (x + before) * stride - after
                for y in range(x + before + after + 1, size):
                    outside[inner + y] += begins * scratch.ends[k * size + y] * outside[row + y]


@njit
def _list_product(number, left, right, rows, summands, scratch):
    scratch.lefts[number] = left
    scratch.rights[number] = right
    for k in range(2):
        scratch.limits[number, k] = rows[k]
        scratch.limits[number, 2 + k] = summands[k]


@njit
def _join(i, j, section, size, scratch):
    matrix = size * _padded(size)
    offset = cell_of(i, j) * matrix
    whole = np.int64(0), size
    for front in range(2 if scratch.sizes[_FRONTS] > 0 else 1):
        number = 0
        for k in range(i + 1, j):
            left, right = cell_of(i, k) * matrix, cell_of(k, j) * matrix
            if front == 0:
                _list_product(number, left, _REAR * section + right, whole, whole, scratch)
                _list_product(number + 1, right, _REAR_INVERTED * section + left, whole, whole, scratch)
            else:
                _list_product(number, _FRONT * section + left, right, whole, whole, scratch)
                _list_product(number + 1, _FRONT_INVERTED * section + right, left, whole, whole, scratch)
            number += 2
        _add_products(
            scratch.inside, scratch.inside, scratch, number, scratch.inside, offset, size, _UPPER_UPPER, front == 1
        )


@njit
def _fill_inside(sides, words, piece, base, null, scratch):
    n, m = piece.j - piece.i, piece.y - piece.x
    size = m + 1
    stride = _padded(size)
    matrix = size * stride
    section = cell_of(0, n + 1) * matrix
    inside = scratch.inside
    for width in range(1, n + 1):
        for i in range(n + 1 - width):
            j = i + width
            head = cell_of(i, j)
            offset = head * matrix
            for k in range(offset, offset + matrix):
                inside[k] = 0.0
            if width == 1:
                for x in range(m):
                    scale = words.source_scale[piece.i + i] * words.target_scale[piece.x + x]
                    inside[offset + x * stride + x + 1] = base.pair * words.pairs[piece.i + i, piece.x + x] * scale
            else:
                _join(i, j, section, size, scratch)
                first, last = piece.i + i, piece.i + j - 1
                left = base.null * words.source_nulls[first] * words.source_scale[first]
                right = base.null * words.source_nulls[last] * words.source_scale[last]
                without_first, without_last = cell_of(i + 1, j) * matrix, cell_of(i, j - 1) * matrix
                for k in range(matrix):
                    inside[offset + k] += left * inside[without_first + k] + right * inside[without_last + k]
            _add_matches(head, sides, words, piece, scratch)
            _add_target_only(offset, size, null, scratch)
            if width < n:
                _add_frames(head, section, base, sides, words, piece, scratch)


_LEFT_PART, _RIGHT_PART, _EITHER = range(3)
_CONTRIBUTIONS = (
    (_PLAIN, _EITHER, _REAR, _REAR_INVERTED, _UPPER_LOWER),
    (_REAR, _RIGHT_PART, _PLAIN, _PLAIN, _LOWER_UPPER),
    (_REAR_INVERTED, _LEFT_PART, _PLAIN, _PLAIN, _LOWER_UPPER),
    (_PLAIN, _EITHER, _FRONT_INVERTED, _FRONT, _LOWER_UPPER),
    (_FRONT, _LEFT_PART, _PLAIN, _PLAIN, _UPPER_LOWER),
    (_FRONT_INVERTED, _RIGHT_PART, _PLAIN, _PLAIN, _UPPER_LOWER),
)
"""Kinds of contributions of a larger span to the outside sums of a span inside it.

Columns: section of the outside sums, part of the larger span that the smaller span covers, section of a right sibling,
section of a left sibling, and shapes of the factors.
"""


@njit
def _list_heads(i, j, n, contribution, section, matrix, scratch):
    """List products (larger span, sibling) of one kind of contribution to [i, j). Returns their number."""
    _, part, right, left, kind = contribution
    number = 0
    for k in range(j + 1, n + 1):
        if part != _RIGHT_PART:
            number = _list_head(number, cell_of(i, k), right * section + cell_of(j, k) * matrix, kind, matrix, scratch)
    for k in range(i):
        if part != _LEFT_PART:
            number = _list_head(number, cell_of(k, j), left * section + cell_of(k, i) * matrix, kind, matrix, scratch)
    return number


@njit
def _list_head(number, head, sibling, kind, matrix, scratch):
    """List the product of `head` and `sibling` unless `head` is negligible. Returns the next number."""
    bounds = scratch.bounds[head]
    if bounds[0] > bounds[1]:
        return number
    rows, columns = (bounds[0], bounds[1]), (bounds[2], bounds[3])
    if kind == _UPPER_LOWER:
        _list_product(number, head * matrix, sibling, rows, columns, scratch)
    else:
        _list_product(number, sibling, head * matrix, (np.int64(0), np.int64(len(scratch.front))), rows, scratch)
    return number + 1


@njit
def _add_outside_of_larger_spans(i, j, base, sides, words, piece, joint, scratch):
    n = piece.j - piece.i
    size = piece.y - piece.x + 1
    matrix = size * _padded(size)
    spans = cell_of(0, n + 1)
    section = spans * matrix
    head = cell_of(i, j)
    offset = head * matrix
    for k in range(section, section + (_SECTIONS - 1) * matrix):
        scratch.outside[k] = 0.0
    for number in range(6 if scratch.sizes[_FRONTS] > 0 else 3):
        contribution = _CONTRIBUTIONS[number]
        kind = contribution[4]
        products = _list_heads(i, j, n, contribution, section, matrix, scratch)
        left = scratch.outside if kind == _UPPER_LOWER else scratch.transposed
        right = scratch.transposed if kind == _UPPER_LOWER else scratch.outside
        factor_offset = offset if contribution[0] == _PLAIN else section + (contribution[0] - 1) * matrix
        _add_products(
            left, right, scratch, products, scratch.outside, factor_offset, size, kind, contribution[0] >= _FRONT
        )
    for kind in range(_REAR, _FRONT):
        rests = kind * spans + head
        if scratch.first[rests] >= 0:
            above = section + (kind - 1) * matrix
            if _find_live(above, rests * matrix, size, scratch):
                _reverse_matches(rests, i, above, sides, words, piece, joint, scratch)
    _reverse_frames(offset, section, size, base, scratch)


@njit
def _find_live(above, offset, size, scratch):
    """Set `live` for rows of a matrix that are not negligible. Returns True if any row is live."""
    stride = _padded(size)
    for x in range(size):
        scratch.live[x] = False
        for k in range(x * stride + x + 1, x * stride + size):
            if scratch.outside[above + k] * scratch.inside[offset + k] >= _NEGLIGIBLE:
                scratch.live[x] = True
    return scratch.live[:size].any()


@njit
def _reverse_target_only(offset, size, null, scratch):
    """Add outside sums by rules without source words. Returns the base's expected null target words."""
    stride = _padded(size)
    inside, outside = scratch.inside, scratch.outside
    emitted = 0.0
    for x in range(size - 1):
        row = offset + x * stride
        frames = _list_single_frames(x, size, scratch)
        for y in range(size - 1, x + 1, -1):
            above = outside[row + y]
            if above * inside[row + y] < _NEGLIGIBLE:
                continue
            left, right = above * null[x], above * null[y - 1]
            outside[row + stride + y] += left
            outside[row + y - 1] += right
            emitted += left * inside[row + stride + y] + right * inside[row + y - 1]
            for f in range(frames):
                k = scratch.frame[f, 3]
                i, j = x + scratch.frame[k, 1], y - scratch.frame[k, 2]
                if i < j:
                    weight = scratch.begins[k * size + x] * scratch.ends[k * size + y]
                    if weight > 0.0:
                        outside[offset + i * stride + j] += weight * above
    return emitted


@njit
def _drop_negligible(head, offset, size, scratch):
    """Drop a source span's negligible bispans from the outside sums, and store the bounds of the rest."""
    stride = _padded(size)
    bounds = scratch.bounds[head]
    bounds[0], bounds[1], bounds[2], bounds[3] = size, -1, size, -1
    for x in range(size):
        scratch.live[x] = False
        row = offset + x * stride
        for y in range(size):
            if scratch.outside[row + y] * scratch.inside[row + y] < _NEGLIGIBLE:
                scratch.outside[row + y] = 0.0
            else:
                scratch.live[x] = True
                bounds[2] = min(bounds[2], y)
                bounds[3] = max(bounds[3], y)
        if scratch.live[x]:
            bounds[0] = min(bounds[0], x)
            bounds[1] = x


@njit
def _reverse_target(match, c, emitted, weight, above, sides, words, piece, joint, scratch):
    """Add the outside sums of a match's nonterminals, and the expected links of its source words.

    `above` is the offset of the head's outside sums, and `emitted` the number of positions in `start`.
    """
    size = piece.y - piece.x + 1
    stride = _padded(size)
    first = scratch.part[c, 2]
    length = scratch.part[c, 3] - first
    values, back, low, high = scratch.values, scratch.back, scratch.low, scratch.high
    total_back = 0.0
    back[length * stride : (length + 1) * stride] = 0.0
    for y in range(low[length], high[length] + 1):
        back[length * stride + y] = weight * scratch.outside[above + y]
        total_back += back[length * stride + y]
    if total_back == 0.0:
        return
    for t in range(length - 1, -1, -1):
        symbol = sides.target[first + t]
        row_offset, next_offset = t * stride, (t + 1) * stride
        back[row_offset:next_offset] = 0.0
        if symbol >= 0:
            for q in range(low[t + 1], high[t + 1] + 1):
                if values[next_offset + q] != 0.0:
                    back[row_offset + q - 1] = back[next_offset + q] * words.target_scale[piece.x + q - 1]
                    expected = values[next_offset + q] * back[next_offset + q]
                    for k in range(emitted):
                        joint[piece.i + scratch.start[k], piece.x + q - 1] += expected
        else:
            matrix = scratch.match_span[match * scratch.sizes[_ARITY] - 1 - symbol] * size * stride
            for p in range(low[t], high[t] + 1):
                value = values[row_offset + p]
                if value != 0.0:
                    row = matrix + p * stride
                    total = zero_eight()
                    for block in range((p + 1) // _BLOCK * _BLOCK, high[t + 1] + 1, _BLOCK):
                        numbers = load_eight(back, next_offset + block)
                        outside = add_eight(zero_eight(), value, numbers)
                        accumulate_eight(scratch.outside, row + block, outside, p + 1 - block)
                        total = add_products(total, load_eight(scratch.inside, row + block), numbers)
                    if t > 0:
                        back[row_offset + p] = sum_eight(total)


@njit
def _list_emitted(match, i, c, sides, scratch):
    """Write the source positions of a match's words to `start`. Returns their number."""
    position = np.int64(i)
    emitted = 0
    for s in range(scratch.part[c, 0], scratch.part[c, 1]):
        symbol = sides.source[s]
        if symbol >= 0:
            scratch.start[emitted] = position
            emitted += 1
            position += 1
        else:
            # Solve span = `cell_of(position, end)` for the end of the nonterminal.
            span = scratch.match_span[match * scratch.sizes[_ARITY] - 1 - symbol]
            position = np.int64((1 + np.sqrt(8.0 * (span - position) + 1)) / 2)
    return emitted


@njit
def _reverse_matches(head, i, above, sides, words, piece, joint, scratch):
    """Add outside sums by the matches of a head, for the rows in `live`. The source span begins at i."""
    m = piece.y - piece.x
    size = m + 1
    stride = _padded(size)
    match = np.int64(scratch.first[head])
    while match >= 0:
        c = scratch.match_rule[match]
        length = scratch.part[c, 3] - scratch.part[c, 2]
        weight = scratch.match_weight[match]
        emitted = _list_emitted(match, i, c, sides, scratch)
        for x in range(m - length + 1):
            if not scratch.live[x] or scratch.earliest_end[c * size + x] > m:
                continue
            if _match_target(match, c, x, sides, words, piece, scratch):
                _reverse_target(match, c, emitted, weight, above + x * stride, sides, words, piece, joint, scratch)
        match = np.int64(scratch.next[match])


@njit
def _fill_outside(sides, words, piece, base, null, joint, scratch):
    """Fill outside sums, and add expected word pairs to `joint`. Returns the base's expected words."""
    n, m = piece.j - piece.i, piece.y - piece.x
    size = m + 1
    stride = _padded(size)
    matrix = size * stride
    inside, outside = scratch.inside, scratch.outside
    for k in range(cell_of(0, n + 1) * matrix):
        outside[k] = 0.0
    root = cell_of(0, n) * matrix + m
    outside[root] = 1.0 / inside[root]
    emitted = 0.0
    for width in range(n, 0, -1):
        for i in range(n + 1 - width):
            j = i + width
            head = cell_of(i, j)
            offset = head * matrix
            if width < n:
                _add_outside_of_larger_spans(i, j, base, sides, words, piece, joint, scratch)
                for side in range(2):
                    position = i - 1 if side == 0 else j
                    if position < 0 or position == n:
                        continue
                    word = piece.i + position
                    weight = base.null * words.source_nulls[word] * words.source_scale[word]
                    above = (cell_of(i - 1, j) if side == 0 else cell_of(i, j + 1)) * matrix
                    for k in range(matrix):
                        value = weight * outside[above + k]
                        outside[offset + k] += value
                        emitted += value * inside[offset + k]
            emitted += _reverse_target_only(offset, size, null, scratch)
            _drop_negligible(head, offset, size, scratch)
            if scratch.bounds[head, 0] <= scratch.bounds[head, 1]:
                _reverse_matches(head, i, offset, sides, words, piece, joint, scratch)
            if width == 1:
                for x in range(m):
                    scale = words.source_scale[piece.i + i] * words.target_scale[piece.x + x]
                    weight = base.pair * words.pairs[piece.i + i, piece.x + x] * scale
                    expected = weight * outside[offset + x * stride + x + 1]
                    joint[piece.i + i, piece.x + x] += expected
                    emitted += 2.0 * expected
    return emitted


@njit
def sum_piece(chosen, number, sides, words, piece, base, null, joint, scratch):
    """Sum over all derivations of a piece with the first `number` chosen rules and the base.

    `base` comes from `add_joins`. Returns (linear sum, expected number of words that the base emits). Adds the expected
    number of times that one rule emits each word pair to `joint` float64[source words, target words] of the whole pair.
    If the sum is not between `MIN_TOTAL` and `MAX_TOTAL`, expectations are not computed. If memory for matches is too
    small, returns (-1, 0), and `scratch.sizes[NEEDED]` is the number of matches. `null` float64[m] is scratch memory.
    """
    if not _match_all(chosen, number, sides, words, piece, scratch):
        return -1.0, 0.0
    n, m = piece.j - piece.i, piece.y - piece.x
    for x in range(m):
        word = piece.x + x
        null[x] = base.null * words.target_nulls[word] * words.target_scale[word]
    _fill_inside(sides, words, piece, base, null, scratch)
    total = scratch.inside[cell_of(0, n) * (m + 1) * _padded(m + 1) + m]
    if not MIN_TOTAL < total < MAX_TOTAL:
        return total, 0.0
    return total, _fill_outside(sides, words, piece, base, null, joint, scratch)
