"""Complete charts of sentence pairs without edges: one matrix of sums per source span, for learned rules and a base.

The base joins two nonterminals in either order, and has a rule for each word pair and for one word beside a
nonterminal. So each bispan has a derivation, and there would be as many edges as pairs of bispans. They are summed and
never stored: joins of nonterminals are products of triangular matrices, and the target side of a learned rule is
matched by vectors over positions, once for each match of its source side (a *seat*). A rule without source words that
puts target words around or between its nonterminals is a *frame*: it changes one factor of a product and needs no
seats. If the target side of a rule begins with the nonterminal that its source side begins or ends with, only its
*rest* is matched: a factor of products that are computed anyway, with all adjacent spans at once. Outside sums use the
same steps in reverse. The total is exact and equals that of `hierogram.samplers.charts.bitexts` up to rounding;
expectations omit bispans of probability below 1e-10.

Nonterminals have words on both sides. Rules have words or two nonterminals.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.intrinsics import (
    add_eight,
    add_products,
    load_eight,
    store_eight,
    sum_eight,
    zero_eight,
)
from hierogram.samplers.compiled.jit import njit, njit_inline

_BLOCK = 8
"""Columns that are summed at once; rows are padded to multiples of it."""
MIN_TOTAL, MAX_TOTAL = 1e-280, 1e280
"""Range of sums in which doubles are precise."""
_NEGLIGIBLE = 1e-10
"""Probability below which bispans are omitted from expectations."""
_UPPER, _ABOVE, _BEFORE = range(3)
"""Shape of a product: both factors above the diagonal; the right one below it; the left one below it."""
_PLAIN, _REAR, _REAR_INVERTED, _FRONT, _FRONT_INVERTED = range(5)
"""Sections of sums: the spans themselves.

The second factor of a straight and of an inverted join, with the base's weight and words between and after; the first
factor, with words before and between.
"""
_ALONE = 0
"""Kind of frames of rules with one nonterminal; all other kinds are section numbers."""
_SECTIONS = 5


class RuleSides(NamedTuple):
    """Sides of rules, all symbols in one int32 array: words by number, nonterminal k (from 1) as -k.

    Rule r has `source[source_first[r] : source_first[r + 1]]`, and likewise `target`; firsts are int64[R + 1].
    """

    source: NDArray[np.int32]
    source_first: NDArray[np.int64]
    target: NDArray[np.int32]
    target_first: NDArray[np.int64]


class ChosenRules(NamedTuple):
    """Rules that a pair can use: numbers `rule` int64[C], linear `weight` float64[C]."""

    rule: NDArray[np.int64]
    weight: NDArray[np.float64]


class BaseWeights(NamedTuple):
    """Weights of the base's rules: a word pair, a word beside a nonterminal, and two nonterminals."""

    pair: float
    null: float
    straight: float
    inverted: float


class PairPiece(NamedTuple):
    """Source words [i, j) and target words [x, y) of a pair."""

    i: int
    j: int
    x: int
    y: int


class DenseScratch(NamedTuple):
    """Scratch memory of one thread."""

    # float64: five sections with one matrix per source span; `across` is transposed.
    inside: NDArray[np.float64]
    across: NDArray[np.float64]
    # float64: one section, and one matrix for each other section.
    outside: NDArray[np.float64]
    # Per seat s: index of the rule among the chosen ones, weight including source words, source span of nonterminal k
    # at s·arity + k - 1.
    seat_rule: NDArray[np.int32]
    seat_weight: NDArray[np.float64]
    seat_span: NDArray[np.int32]
    # Span of each seat, numbered across sections. Seats are sorted by head; the first seat of head p is `first[p]`.
    head: NDArray[np.int32]
    order: NDArray[np.int32]
    first: NDArray[np.int32]
    # int64[C, 4]: the symbols of a chosen rule that seats match, start and end on both sides.
    part: NDArray[np.int64]
    # int16: earliest end of the target side of a chosen rule from each position.
    reach: NDArray[np.int16]
    # Rows of positions (float64), and the range of positions in each row (int64).
    values: NDArray[np.float64]
    back: NDArray[np.float64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    # Matrices to multiply (int64), and first and last row and summand (int64[…, 4]).
    lefts: NDArray[np.int64]
    rights: NDArray[np.int64]
    limits: NDArray[np.int64]
    # int64[F, 4]: kind of a frame, number of words before and after, and a frame of the current row; float64: weights
    # of its words at each position; bool[size]: rows that words of front frames begin.
    frame: NDArray[np.int64]
    begins: NDArray[np.float64]
    ends: NDArray[np.float64]
    front: NDArray[np.bool_]
    # int64[spans, 4]: first and last row and column of a span that are not negligible; bool[size]: such rows.
    bounds: NDArray[np.int64]
    live: NDArray[np.bool_]
    # int64: positions of a rule's symbols.
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    # int64[5]: numbers in use, see the constants below.
    sizes: NDArray[np.int64]


_SEATS, _ARITY, _FRAMES, _FRONTS, NEEDED = range(5)
"""Indices of `DenseScratch.sizes`: seats, nonterminals per seat, frames, front frames, and seats needed."""


def matrices_size(n: int, m: int) -> int:
    """Return the size of the matrices of a piece of n by m words, in numbers."""
    return n * (n + 1) // 2 * (m + 1) * int(_row(m + 1))


def make_dense_scratch(words: tuple[int, int], matrices: int, rules: int, longest: int, seats: int) -> DenseScratch:
    """Allocate scratch memory for pieces of up to `words` words and `rules` chosen rules of up to `longest` symbols.

    `matrices` comes from `matrices_size`. Unused memory, such as free `seats`, costs nothing.
    """
    n, size = words[0], words[1] + 1
    spans = (n + 1) * (n + 2) // 2
    return DenseScratch(
        np.empty(_SECTIONS * matrices),
        np.empty(_SECTIONS * matrices),
        np.empty(_SECTIONS * matrices),
        np.empty(seats, np.int32),
        np.empty(seats),
        np.empty(seats * 3, np.int32),
        np.empty(seats, np.int32),
        np.empty(seats, np.int32),
        np.empty(_FRONT * spans + 1, np.int32),
        np.empty((rules, 4), np.int64),
        np.empty(rules * size, np.int16),
        np.empty((longest + 1) * _row(size)),
        np.empty((longest + 1) * _row(size)),
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
def _row(size):
    return (size + _BLOCK - 1) // _BLOCK * _BLOCK


@njit_inline
def _span(i, j):
    return j * (j - 1) // 2 + i


@njit
def _add_products(left, right, room, number, out, offset, size, kind, front):
    """Add the products of `number` pairs of matrices to the matrix at `offset`, above its diagonal.

    Computes four rows of one block of columns at once. `front`: only rows of front frames.
    """
    stride = _row(size)
    lefts, rights, limits = room.lefts, room.rights, room.limits
    for p in range(0, size - 1, 4):
        last_row = min(p + 3, size - 2)
        if front:
            none = True
            for row in range(p, last_row + 1):
                none = none and not room.front[row]
            if none:
                continue
        second = min(p + 1, last_row) * stride
        third = min(p + 2, last_row) * stride
        fourth = last_row * stride
        for q in range((p + 1) // _BLOCK * _BLOCK, size, _BLOCK):
            if kind == _UPPER:
                first, last = np.int64(p + 1), min(size, np.int64(q + _BLOCK - 1))
            elif kind == _ABOVE:
                first, last = np.int64(max(p, q) + 1), size
            else:
                first, last = np.int64(0), np.int64(last_row)
            a = zero_eight()
            b = zero_eight()
            c = zero_eight()
            d = zero_eight()
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
            store_eight(out, position, a, p + 1 - q)
            if p + 1 <= last_row:
                store_eight(out, position + stride, b, p + 2 - q)
            if p + 2 <= last_row:
                store_eight(out, position + 2 * stride, c, p + 3 - q)
            if p + 3 <= last_row:
                store_eight(out, position + 3 * stride, d, p + 4 - q)


@njit
def _note_reach(c, sides, target, piece, room):
    """Compute the earliest end of a chosen rule's target side; returns True if it can match anywhere."""
    m = piece.y - piece.x
    size = m + 1
    can_match = False
    for start in range(size):
        end = np.int64(start)
        gap = False
        for k in range(room.part[c, 2], room.part[c, 3]):
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
        room.reach[c * size + start] = end
        can_match = can_match or end <= m
    return can_match


@njit
def _shape(rule, sides):
    """Return a rule's number of nonterminals and the lengths of its sides."""
    first, last = sides.source_first[rule], sides.source_first[rule + 1]
    arity = 0
    for k in range(first, last):
        if sides.source[k] < 0:
            arity += 1
    return arity, last - first, sides.target_first[rule + 1] - sides.target_first[rule]


@njit
def _is_join(rule, sides):
    """Return 1 for a rule of two nonterminals in the same order, -1 if inverted, 0 for other rules."""
    arity, source, target = _shape(rule, sides)
    if arity != 2 or source != 2 or target != 2:
        return 0
    return 1 if sides.target[sides.target_first[rule]] == -1 else -1


@njit
def add_joins(chosen, number, sides, base):
    """Return the base with the weights of chosen rules that join two nonterminals added."""
    straight, inverted = base.straight, base.inverted
    for c in range(number):
        join = _is_join(chosen.rule[c], sides)
        if join > 0:
            straight += chosen.weight[c]
        elif join < 0:
            inverted += chosen.weight[c]
    return BaseWeights(base.pair, base.null, straight, inverted)


@njit
def _frame_kind(rule, sides):
    """Return the kind of frame of a rule without source words, or -1, and its first and last target nonterminals."""
    arity, source, _ = _shape(rule, sides)
    first, last = sides.target_first[rule], sides.target_first[rule + 1]
    if arity != source or arity > 2:
        return -1, first, first
    first_tail = first
    while sides.target[first_tail] >= 0:
        first_tail += 1
    if arity == 1:
        return _ALONE, first_tail, first_tail
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
    """Return the weight of words at target position x; 0 if they do not match."""
    if x < 0 or x + number > piece.y - piece.x:
        return 0.0
    product = 1.0
    for k in range(number):
        position = piece.x + x + k
        product *= words.target_scale[position] if words.target[position] == sides.target[first + k] else 0.0
    return product


@njit
def _note_frame(kind, first_tail, last_tail, rule, weight, sides, words, piece, room):
    """Compute the weight of a frame's target words at each position."""
    size = piece.y - piece.x + 1
    number = room.sizes[_FRAMES]
    first, last = sides.target_first[rule], sides.target_first[rule + 1]
    # Nonterminal with words around it: the second one of rear frames, otherwise the first.
    front = kind >= _FRONT
    rear = kind > _ALONE and not front
    begin = first_tail + 1 if rear else first
    middle = last_tail if rear else first_tail
    end = last_tail if front else last
    before, after = middle - begin, end - middle - 1
    for x in range(size):
        room.begins[number * size + x] = weight * _weigh_words(begin, before, x, sides, words, piece)
        room.ends[number * size + x] = _weigh_words(middle + 1, after, x - after, sides, words, piece)
        if front:
            room.front[x] = room.front[x] or room.begins[number * size + x] > 0.0
    if front:
        room.sizes[_FRONTS] += 1
    room.frame[number, 0] = kind
    room.frame[number, 1] = before
    room.frame[number, 2] = after
    room.sizes[_FRAMES] = number + 1


@njit
def _keep_seat(c, head, symbols, first, length, weight, scale, begin, room):
    number = room.sizes[_SEATS]
    arity = room.sizes[_ARITY]
    room.sizes[_SEATS] = number + 1
    if number >= len(room.seat_rule) or (number + 1) * arity > len(room.seat_span):
        return
    for d in range(length):
        symbol = symbols[first + d]
        if symbol < 0:
            room.seat_span[number * arity - 1 - symbol] = _span(room.start[d], room.end[d])
        else:
            weight *= scale[begin + room.start[d]]
    room.seat_rule[number] = c
    room.seat_weight[number] = weight
    room.head[number] = head


@njit
def _seat_rule(c, kind, weight, sides, words, piece, room):
    """Write all seats of a rule or of its rest: all matches of its source side, for one section."""
    symbols, first = sides.source, room.part[c, 0]
    length = room.part[c, 1] - first
    n = piece.j - piece.i
    heads = kind * _span(0, n + 1)
    # At least one word precedes a straight rest, and follows an inverted one.
    if kind == _REAR_INVERTED:
        n -= 1
    for i in range(1 if kind == _REAR else 0, n - length + 1):
        depth = np.int64(0)
        room.start[0] = i
        room.end[0] = -1
        while depth >= 0:
            symbol = symbols[first + depth]
            start, end = room.start[depth], room.end[depth]
            if symbol >= 0:
                if end >= 0 or words.source[piece.i + start] != symbol:
                    depth -= 1
                    continue
                end = start + 1
            else:
                end = start + 1 if end < 0 else end + 1
                # Each remaining symbol needs at least one word.
                if end > n - (length - 1 - depth):
                    depth -= 1
                    continue
            room.end[depth] = end
            if depth == length - 1:
                head = heads + _span(i, end)
                _keep_seat(c, head, symbols, first, length, weight, words.source_scale, piece.i, room)
            else:
                depth += 1
                room.start[depth] = end
                room.end[depth] = -1


@njit
def _has_words(symbols, first, last, words, begin, end):
    """Check if all words of a side occur in [begin, end)."""
    for k in range(first, last):
        if symbols[k] >= 0:
            position = begin
            while position < end and words[position] != symbols[k]:
                position += 1
            if position == end:
                return False
    return True


@njit
def _part_rule(c, rule, sides, room):
    """Choose the part of a rule that seats match, all of it or its rest; returns the section of the spans.

    A span precedes a straight rest on both sides, and follows an inverted rest on the source side.
    """
    part = room.part[c]
    part[0] = sides.source_first[rule]
    part[1] = sides.source_first[rule + 1]
    part[2] = sides.target_first[rule]
    part[3] = sides.target_first[rule + 1]
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
def _seat_all(chosen, number, sides, words, piece, room):
    """Write the seats of all chosen rules, sorted by head. Returns False if out of room."""
    room.sizes[:] = 0
    for x in range(piece.y - piece.x + 1):
        room.front[x] = False
    n = piece.j - piece.i
    for c in range(number):
        room.sizes[_ARITY] = max(room.sizes[_ARITY], _shape(chosen.rule[c], sides)[0])
    for c in range(number):
        rule = chosen.rule[c]
        _, source, target = _shape(rule, sides)
        if _is_join(rule, sides) != 0 or source > n or target > piece.y - piece.x:
            continue
        first, last = sides.source_first[rule], sides.source_first[rule + 1]
        if not _has_words(sides.source, first, last, words.source, piece.i, piece.j):
            continue
        if not _has_words(
            sides.target, sides.target_first[rule], sides.target_first[rule + 1], words.target, piece.x, piece.y
        ):
            continue
        kind, first_tail, last_tail = _frame_kind(rule, sides)
        if kind >= 0:
            _note_frame(kind, first_tail, last_tail, rule, chosen.weight[c], sides, words, piece, room)
            continue
        kind = _part_rule(c, rule, sides, room)
        if _note_reach(c, sides, words.target, piece, room):
            _seat_rule(c, kind, chosen.weight[c], sides, words, piece, room)
    seats = room.sizes[_SEATS]
    if seats > len(room.seat_rule) or seats * room.sizes[_ARITY] > len(room.seat_span):
        room.sizes[NEEDED] = seats
        return False
    heads = _FRONT * _span(0, n + 1)
    for p in range(heads + 1):
        room.first[p] = 0
    for s in range(seats):
        room.first[room.head[s] + 1] += 1
    for p in range(heads):
        room.first[p + 1] += room.first[p]
    for s in range(seats - 1, -1, -1):
        slot = room.first[room.head[s] + 1] - 1
        room.first[room.head[s] + 1] = slot
        room.order[slot] = s
    # Each offset has moved to the end of its head, which is the start of the next one: shift them back.
    for p in range(heads):
        room.first[p] = room.first[p + 1]
    room.first[heads] = seats
    return True


@njit
def _lay(seat, c, x, sides, words, piece, room):
    """Fill row t with the weight of a seat's first t target symbols from x to each end; returns False for no match."""
    m = piece.y - piece.x
    size = m + 1
    stride = _row(size)
    first = room.part[c, 2]
    length = room.part[c, 3] - first
    values, low, high = room.values, room.low, room.high
    low[0] = x
    high[0] = x
    values[x] = 1.0
    for t in range(length):
        symbol = sides.target[first + t]
        # Each remaining symbol needs at least one word.
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
            low[t + 1] = following
            high[t + 1] = last
        else:
            if begin + 1 > limit:
                return False
            matrix = room.seat_span[seat * room.sizes[_ARITY] - 1 - symbol] * size * stride
            for block in range((begin + 1) // _BLOCK * _BLOCK, limit + 1, _BLOCK):
                total = zero_eight()
                for p in range(begin, min(end + 1, limit, block + _BLOCK - 1)):
                    value = values[row_offset + p]
                    if value != 0.0:
                        total = add_eight(total, value, load_eight(room.inside, matrix + p * stride + block))
                for q in range(next_offset + block, next_offset + block + _BLOCK):
                    values[q] = 0.0
                store_eight(values, next_offset + block, total, 0)
            low[t + 1] = begin + 1
            high[t + 1] = limit
    return True


@njit
def _lay_seats(head, sides, words, piece, room):
    """Add the sums of all seats over a source span of a section."""
    m = piece.y - piece.x
    size = m + 1
    stride = _row(size)
    offset = head * size * stride
    for k in range(room.first[head], room.first[head + 1]):
        seat = room.order[k]
        c = room.seat_rule[seat]
        weight = room.seat_weight[seat]
        length = room.part[c, 3] - room.part[c, 2]
        for x in range(m - length + 1):
            if room.reach[c * size + x] <= m and _lay(seat, c, x, sides, words, piece, room):
                for y in range(room.low[length], room.high[length] + 1):
                    room.inside[offset + x * stride + y] += weight * room.values[length * stride + y]


@njit
def _list_alone(x, size, room):
    """List the frames with one nonterminal that can begin at target position x; returns their number."""
    number = 0
    for k in range(room.sizes[_FRAMES]):
        if room.frame[k, 0] == _ALONE and room.begins[k * size + x] > 0.0:
            room.frame[number, 3] = k
            number += 1
    return number


@njit
def _widen(offset, size, null, room):
    """Add rules with one nonterminal and no source words, by increasing target span."""
    stride = _row(size)
    inside = room.inside
    for x in range(size - 2, -1, -1):
        row = offset + x * stride
        frames = _list_alone(x, size, room)
        for y in range(x + 2, size):
            inside[row + y] += null[x] * inside[row + stride + y] + null[y - 1] * inside[row + y - 1]
            for f in range(frames):
                k = room.frame[f, 3]
                i, j = x + room.frame[k, 1], y - room.frame[k, 2]
                if i < j:
                    weight = room.begins[k * size + x] * room.ends[k * size + y]
                    if weight > 0.0:
                        inside[row + y] += weight * inside[offset + i * stride + j]


@njit
def _add_frames(head, section, base, sides, words, piece, room):
    """Fill the other sections of a span, its values as a factor of joins, and transpose all of them."""
    size = piece.y - piece.x + 1
    stride = _row(size)
    matrix = size * stride
    offset = head * matrix
    spans = section // matrix
    inside, across = room.inside, room.across
    for kind in range(_REAR, _SECTIONS if room.sizes[_FRONTS] > 0 else _FRONT):
        weight = base.straight if kind == _REAR else base.inverted if kind == _REAR_INVERTED else 0.0
        factor_offset = kind * section + offset
        for k in range(matrix):
            inside[factor_offset + k] = weight * inside[offset + k]
    for k in range(room.sizes[_FRAMES]):
        kind, before, after = room.frame[k, 0], room.frame[k, 1], room.frame[k, 2]
        if kind == _ALONE:
            continue
        factor_offset = kind * section + offset
        for x in range(size - 1 - before):
            begins = room.begins[k * size + x]
            if begins > 0.0:
                row, inner = factor_offset + x * stride, offset + (x + before) * stride - after
                for y in range(x + before + after + 1, size):
                    inside[row + y] += begins * room.ends[k * size + y] * inside[inner + y]
    for kind in range(_REAR, _FRONT):
        _lay_seats(kind * spans + head, sides, words, piece, room)
    for kind in range(_SECTIONS if room.sizes[_FRONTS] > 0 else _FRONT):
        factor_offset = kind * section + offset
        for x in range(size):
            for y in range(size):
                across[factor_offset + y * stride + x] = inside[factor_offset + x * stride + y]
            for y in range(size, stride):
                across[factor_offset + x * stride + y] = 0.0


@njit
def _take_frames(offset, section, size, base, room):
    """Reverse `_add_frames`: add the outside sums of a span's factors, stored from `section` on, to the span's."""
    stride = _row(size)
    matrix = size * stride
    outside = room.outside
    for k in range(matrix):
        outside[offset + k] += base.straight * outside[section + k] + base.inverted * outside[section + matrix + k]
    for k in range(room.sizes[_FRAMES]):
        kind, before, after = room.frame[k, 0], room.frame[k, 1], room.frame[k, 2]
        if kind == _ALONE:
            continue
        factor_offset = section + (kind - 1) * matrix
        for x in range(size - 1 - before):
            begins = room.begins[k * size + x]
            if begins > 0.0:
                row, inner = factor_offset + x * stride, offset + (x + before) * stride - after
                for y in range(x + before + after + 1, size):
                    outside[inner + y] += begins * room.ends[k * size + y] * outside[row + y]


@njit
def _list_product(number, left, right, room):
    """Add a product of whole matrices to the list."""
    room.lefts[number] = left
    room.rights[number] = right
    room.limits[number, 0] = 0
    room.limits[number, 1] = len(room.front)
    room.limits[number, 2] = 0
    room.limits[number, 3] = len(room.front)


@njit
def _join(i, j, section, size, room):
    """Add the sums of two nonterminals that cover source span [i, j)."""
    matrix = size * _row(size)
    offset = _span(i, j) * matrix
    for front in range(2 if room.sizes[_FRONTS] > 0 else 1):
        number = 0
        for k in range(i + 1, j):
            left, right = _span(i, k) * matrix, _span(k, j) * matrix
            if front == 0:
                _list_product(number, left, _REAR * section + right, room)
                _list_product(number + 1, right, _REAR_INVERTED * section + left, room)
            else:
                _list_product(number, _FRONT * section + left, right, room)
                _list_product(number + 1, _FRONT_INVERTED * section + right, left, room)
            number += 2
        _add_products(room.inside, room.inside, room, number, room.inside, offset, size, _UPPER, front == 1)


@njit
def _fill_inside(sides, words, piece, base, null, room):
    """Compute the inside sums of all source spans."""
    n, m = piece.j - piece.i, piece.y - piece.x
    size = m + 1
    stride = _row(size)
    matrix = size * stride
    section = _span(0, n + 1) * matrix
    inside = room.inside
    for width in range(1, n + 1):
        for i in range(n + 1 - width):
            j = i + width
            head = _span(i, j)
            offset = head * matrix
            for k in range(offset, offset + matrix):
                inside[k] = 0.0
            if width == 1:
                for x in range(m):
                    scale = words.source_scale[piece.i + i] * words.target_scale[piece.x + x]
                    inside[offset + x * stride + x + 1] = base.pair * words.pairs[piece.i + i, piece.x + x] * scale
            else:
                _join(i, j, section, size, room)
                first, last = piece.i + i, piece.i + j - 1
                left = base.null * words.source_nulls[first] * words.source_scale[first]
                right = base.null * words.source_nulls[last] * words.source_scale[last]
                without_first, without_last = _span(i + 1, j) * matrix, _span(i, j - 1) * matrix
                for k in range(matrix):
                    inside[offset + k] += left * inside[without_first + k] + right * inside[without_last + k]
            _lay_seats(head, sides, words, piece, room)
            _widen(offset, size, null, room)
            if width < n:
                _add_frames(head, section, base, sides, words, piece, room)


_LEFT_PART, _RIGHT_PART, _EITHER = range(3)
_GATHERED = (
    (_PLAIN, _EITHER, _REAR, _REAR_INVERTED, _ABOVE),
    (_REAR, _RIGHT_PART, _PLAIN, _PLAIN, _BEFORE),
    (_REAR_INVERTED, _LEFT_PART, _PLAIN, _PLAIN, _BEFORE),
    (_PLAIN, _EITHER, _FRONT_INVERTED, _FRONT, _BEFORE),
    (_FRONT, _LEFT_PART, _PLAIN, _PLAIN, _ABOVE),
    (_FRONT_INVERTED, _RIGHT_PART, _PLAIN, _PLAIN, _ABOVE),
)
"""Contributions to outside sums: section, role of the span in the larger span, section of the sibling if it is on the
right and on the left, and whether the larger span is the left factor.
"""


@njit
def _list_heads(i, j, n, contribution, section, matrix, room):
    """List the products of larger spans' outside sums with the siblings of [i, j); returns their number."""
    _, part, right, left, kind = contribution
    number = 0
    for k in range(j + 1, n + 1):
        if part != _RIGHT_PART:
            number = _list_head(number, _span(i, k), right * section + _span(j, k) * matrix, kind, matrix, room)
    for k in range(i):
        if part != _LEFT_PART:
            number = _list_head(number, _span(k, j), left * section + _span(k, i) * matrix, kind, matrix, room)
    return number


@njit
def _list_head(number, head, sibling, kind, matrix, room):
    """Add a product with the outside sums of a span unless these are negligible; returns the number of products."""
    bounds = room.bounds[head]
    if bounds[0] > bounds[1]:
        return number
    is_left = kind == _ABOVE
    room.lefts[number] = head * matrix if is_left else sibling
    room.rights[number] = sibling if is_left else head * matrix
    room.limits[number, 0] = bounds[0] if is_left else 0
    room.limits[number, 1] = bounds[1] if is_left else len(room.front)
    room.limits[number, 2] = bounds[2] if is_left else bounds[0]
    room.limits[number, 3] = bounds[3] if is_left else bounds[1]
    return number + 1


@njit
def _gather(i, j, base, sides, words, piece, together, room):
    """List the products of larger spans' outside sums with siblings of [i, j); returns their number."""
    n = piece.j - piece.i
    size = piece.y - piece.x + 1
    matrix = size * _row(size)
    spans = _span(0, n + 1)
    section = spans * matrix
    head = _span(i, j)
    offset = head * matrix
    for k in range(section, section + (_SECTIONS - 1) * matrix):
        room.outside[k] = 0.0
    for number in range(6 if room.sizes[_FRONTS] > 0 else 3):
        contribution = _GATHERED[number]
        kind = contribution[4]
        products = _list_heads(i, j, n, contribution, section, matrix, room)
        left = room.outside if kind == _ABOVE else room.across
        right = room.across if kind == _ABOVE else room.outside
        factor_offset = offset if contribution[0] == _PLAIN else section + (contribution[0] - 1) * matrix
        _add_products(left, right, room, products, room.outside, factor_offset, size, kind, contribution[0] >= _FRONT)
    for kind in range(_REAR, _FRONT):
        rests = kind * spans + head
        if room.first[rests] < room.first[rests + 1]:
            above = section + (kind - 1) * matrix
            first, last = _find_live(above, rests * matrix, size, room)
            _leave_seats(rests, i, above, first, last, sides, words, piece, together, room)
    _take_frames(offset, section, size, base, room)


@njit
def _find_live(above, offset, size, room):
    """Mark the rows of a section whose probability is not negligible; returns the first and the last one."""
    stride = _row(size)
    first, last = size, np.int64(-1)
    for x in range(size):
        room.live[x] = False
        for k in range(x * stride + x + 1, x * stride + size):
            if room.outside[above + k] * room.inside[offset + k] >= _NEGLIGIBLE:
                room.live[x] = True
        if room.live[x]:
            first = min(first, x)
            last = np.int64(x)
    return first, last


@njit
def _narrow(offset, size, null, room):
    """Reverse `_widen` by decreasing target span; returns the expected target words that the base emits alone."""
    stride = _row(size)
    inside, outside = room.inside, room.outside
    emitted = 0.0
    for x in range(size - 1):
        row = offset + x * stride
        frames = _list_alone(x, size, room)
        for y in range(size - 1, x + 1, -1):
            above = outside[row + y]
            if above * inside[row + y] < _NEGLIGIBLE:
                continue
            left, right = above * null[x], above * null[y - 1]
            outside[row + stride + y] += left
            outside[row + y - 1] += right
            emitted += left * inside[row + stride + y] + right * inside[row + y - 1]
            for f in range(frames):
                k = room.frame[f, 3]
                i, j = x + room.frame[k, 1], y - room.frame[k, 2]
                if i < j:
                    weight = room.begins[k * size + x] * room.ends[k * size + y]
                    if weight > 0.0:
                        outside[offset + i * stride + j] += weight * above
    return emitted


@njit
def _drop_negligible(head, offset, size, room):
    """Drop the negligible bispans of a source span and record the range of the remaining bispans."""
    stride = _row(size)
    bounds = room.bounds[head]
    bounds[0] = size
    bounds[1] = -1
    bounds[2] = size
    bounds[3] = -1
    for x in range(size):
        room.live[x] = False
        row = offset + x * stride
        for y in range(size):
            if room.outside[row + y] * room.inside[row + y] < _NEGLIGIBLE:
                room.outside[row + y] = 0.0
            else:
                room.live[x] = True
                bounds[2] = min(bounds[2], y)
                bounds[3] = max(bounds[3], y)
        if room.live[x]:
            bounds[0] = min(bounds[0], x)
            bounds[1] = x


@njit
def _emit(c, p, expected, sides, piece, together, room):
    """Count the emission of the target word at p by a seat's rule with each of its source words."""
    position = room.start[0]
    tails = 0
    for k in range(room.part[c, 0], room.part[c, 1]):
        if sides.source[k] >= 0:
            together[piece.i + position, piece.x + p] += expected
            position += 1
        else:
            position = room.end[tails]
            tails += 1


@njit_inline
def _clear_row(rows, offset, stride):
    for k in range(offset, offset + stride):
        rows[k] = 0.0


@njit
def _go_back(seat, c, weight, above, sides, words, piece, together, room):
    """Compute the outside sums of a seat's target side, from its last row to its first; `above` is their offset."""
    size = piece.y - piece.x + 1
    stride = _row(size)
    first = room.part[c, 2]
    length = room.part[c, 3] - first
    values, back, low, high = room.values, room.back, room.low, room.high
    total_back = 0.0
    _clear_row(back, length * stride, stride)
    for y in range(low[length], high[length] + 1):
        back[length * stride + y] = weight * room.outside[above + y]
        total_back += back[length * stride + y]
    if total_back == 0.0:
        return
    for t in range(length - 1, -1, -1):
        symbol = sides.target[first + t]
        row_offset, next_offset = t * stride, (t + 1) * stride
        _clear_row(back, row_offset, stride)
        if symbol >= 0:
            for q in range(low[t + 1], high[t + 1] + 1):
                if values[next_offset + q] != 0.0:
                    back[row_offset + q - 1] = back[next_offset + q] * words.target_scale[piece.x + q - 1]
                    _emit(c, q - 1, values[next_offset + q] * back[next_offset + q], sides, piece, together, room)
        else:
            matrix = room.seat_span[seat * room.sizes[_ARITY] - 1 - symbol] * size * stride
            for p in range(low[t], high[t] + 1):
                value = values[row_offset + p]
                if value != 0.0:
                    row = matrix + p * stride
                    total = zero_eight()
                    for block in range((p + 1) // _BLOCK * _BLOCK, high[t + 1] + 1, _BLOCK):
                        numbers = load_eight(back, next_offset + block)
                        store_eight(room.outside, row + block, add_eight(zero_eight(), value, numbers), p + 1 - block)
                        total = add_products(total, load_eight(room.inside, row + block), numbers)
                    if t > 0:
                        back[row_offset + p] = sum_eight(total)


@njit
def _place_tails(seat, i, c, sides, room):
    """Set the start of a seat and the source ends of its nonterminals."""
    room.start[0] = i
    k = 0
    for s in range(room.part[c, 0], room.part[c, 1]):
        symbol = sides.source[s]
        if symbol < 0:
            span = np.int64(room.seat_span[seat * room.sizes[_ARITY] - 1 - symbol])
            end = np.int64((1 + np.sqrt(8.0 * span + 1)) / 2)
            while end * (end - 1) // 2 > span:
                end -= 1
            while end * (end + 1) // 2 <= span:
                end += 1
            room.end[k] = end
            k += 1


@njit
def _leave_seats(head, i, above, begin, last, sides, words, piece, together, room):
    """Reverse the seats over a source span from i, for live rows; `above` is the offset of the outside sums."""
    m = piece.y - piece.x
    size = m + 1
    stride = _row(size)
    for k in range(room.first[head], room.first[head + 1]):
        seat = room.order[k]
        c = room.seat_rule[seat]
        length = room.part[c, 3] - room.part[c, 2]
        _place_tails(seat, i, c, sides, room)
        for x in range(begin, min(m - length, last) + 1):
            if room.live[x] and room.reach[c * size + x] <= m and _lay(seat, c, x, sides, words, piece, room):
                _go_back(seat, c, room.seat_weight[seat], above + x * stride, sides, words, piece, together, room)


@njit
def _fill_outside(sides, words, piece, base, null, together, room):
    """Compute the outside sums relative to the total, and add to `together`; returns the expected words of the base."""
    n, m = piece.j - piece.i, piece.y - piece.x
    size = m + 1
    stride = _row(size)
    matrix = size * stride
    inside, outside = room.inside, room.outside
    for k in range(_span(0, n + 1) * matrix):
        outside[k] = 0.0
    root = _span(0, n) * matrix + m
    outside[root] = 1.0 / inside[root]
    emitted = 0.0
    for width in range(n, 0, -1):
        for i in range(n + 1 - width):
            j = i + width
            head = _span(i, j)
            offset = head * matrix
            if width < n:
                _gather(i, j, base, sides, words, piece, together, room)
                if i > 0:
                    word = piece.i + i - 1
                    weight = base.null * words.source_nulls[word] * words.source_scale[word]
                    above = _span(i - 1, j) * matrix
                    for k in range(matrix):
                        value = weight * outside[above + k]
                        outside[offset + k] += value
                        emitted += value * inside[offset + k]
                if j < n:
                    word = piece.i + j
                    weight = base.null * words.source_nulls[word] * words.source_scale[word]
                    above = _span(i, j + 1) * matrix
                    for k in range(matrix):
                        value = weight * outside[above + k]
                        outside[offset + k] += value
                        emitted += value * inside[offset + k]
            emitted += _narrow(offset, size, null, room)
            _drop_negligible(head, offset, size, room)
            first, last = room.bounds[head, 0], room.bounds[head, 1]
            _leave_seats(head, i, offset, first, last, sides, words, piece, together, room)
            if width == 1:
                for x in range(m):
                    scale = words.source_scale[piece.i + i] * words.target_scale[piece.x + x]
                    weight = base.pair * words.pairs[piece.i + i, piece.x + x] * scale
                    expected = weight * outside[offset + x * stride + x + 1]
                    together[piece.i + i, piece.x + x] += expected
                    emitted += 2.0 * expected
    return emitted


@njit
def sum_piece(chosen, number, sides, words, piece, base, null, together, room):
    """Sum over all derivations of a piece by the first `number` chosen rules and the base.

    Returns the sum and the expected number of words that the base emits; adds to `together` the expected number of
    times that one rule emits each word pair. Returns -1 if seats lack room, and a sum out of range without
    expectations. `base` comes from `add_joins`; `null` float64[m] is scratch memory.
    """
    if not _seat_all(chosen, number, sides, words, piece, room):
        return -1.0, 0.0
    n, m = piece.j - piece.i, piece.y - piece.x
    for x in range(m):
        word = piece.x + x
        null[x] = base.null * words.target_nulls[word] * words.target_scale[word]
    _fill_inside(sides, words, piece, base, null, room)
    total = room.inside[_span(0, n) * (m + 1) * _row(m + 1) + m]
    if not MIN_TOTAL < total < MAX_TOTAL:
        return total, 0.0
    return total, _fill_outside(sides, words, piece, base, null, together, room)
