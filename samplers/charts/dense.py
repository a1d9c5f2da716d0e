"""Whole charts of sentence pairs without edges: a matrix of sums for each source span, under learned rules and a base.

The base joins two nonterminals in either order, has a rule for each two words, and rules that put one word of a side
beside a nonterminal; so each bispan has a derivation, and edges would be as many as pairs of bispans. Here they are
summed where they arise and never written: joined nonterminals are products of triangular matrices, and the target side
of a learned rule is laid by vectors over positions, once for each place of its source side (*a seat*). Outside sums go
the same way back. Sums are exact: those of `hierogram.samplers.charts.bitexts` to the last bits.

Nonterminals have words on both sides. Rules have words or two nonterminals; none is one nonterminal on both sides.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.pairs import PairWords
from hierogram.samplers.compiled.jit import njit, njit_inline

_BLOCK = 8
"""Columns that are summed at once, and of which rows are made."""
_UPPER, _ABOVE, _BEFORE = range(3)
"""What is multiplied: both factors above the diagonal; the right one below it; the left one below it."""


class Sides(NamedTuple):
    """The sides of rules, all symbols one after the other, int32: words by number, nonterminal k (from 1) as -k.

    Rule r has `source[source_first[r] : source_first[r + 1]]`, and the same of `target`; firsts are int64[R + 1].
    """

    source: NDArray[np.int32]
    source_first: NDArray[np.int64]
    target: NDArray[np.int32]
    target_first: NDArray[np.int64]


class Chosen(NamedTuple):
    """Rules that a pair may use: `rule` int64[C] their numbers, `weight` float64[C], linear."""

    rule: NDArray[np.int64]
    weight: NDArray[np.float64]


class Base(NamedTuple):
    """What the base's rules weigh: one word of each side, a word beside a nonterminal, and two nonterminals."""

    pair: float
    null: float
    straight: float
    inverted: float


class Piece(NamedTuple):
    """Source words [i, j) with target words [x, y) of a pair."""

    i: int
    j: int
    x: int
    y: int


class Room(NamedTuple):
    """Memory of one thread for charts.

    `inside`, `across` and `outside` float64: a matrix for each source span, `across` transposed. Of seat s: `seat_rule`
    int32 its rule's place among the chosen ones, `seat_weight` float64 its weight with its source words, `seat_span`
    int32 the source span of nonterminal k at s·`arity` + k, `head` int32 the span that it covers; `order` int32 seats by
    their heads, those of span p from `first[p]` on. `reach` int16: where the target side of a chosen rule ends at the
    earliest, from each position. `values` and `back` float64, rows of positions; `low`, `high` int64, the positions
    that a row has. `lefts`, `rights` int64, `factors` float64: products to be summed. `alone` float64[…, 2, size] what
    the target words before and after the nonterminal of a rule without source words weigh, `alone_rule` int64[…, 3] its
    place and how many words stand on either side. `start`, `end` int64: a rule's symbols. `sizes` int64[4]: see below.
    """

    inside: NDArray[np.float64]
    across: NDArray[np.float64]
    outside: NDArray[np.float64]
    seat_rule: NDArray[np.int32]
    seat_weight: NDArray[np.float64]
    seat_span: NDArray[np.int32]
    head: NDArray[np.int32]
    order: NDArray[np.int32]
    first: NDArray[np.int32]
    reach: NDArray[np.int16]
    values: NDArray[np.float64]
    back: NDArray[np.float64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    lefts: NDArray[np.int64]
    rights: NDArray[np.int64]
    factors: NDArray[np.float64]
    alone: NDArray[np.float64]
    alone_rule: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    sizes: NDArray[np.int64]


_SEATS, _ARITY, _ALONE, _LACKING = range(4)
"""What `Room.sizes` has: seats, nonterminals for which a seat has room, rules without source words, and seats for which
there was no room."""


def make_room(words: tuple[int, int], rules: int, longest: int, seats: int) -> Room:
    """Room for pieces of so many words, with so many chosen rules of up to `longest` symbols a side, and seats."""
    n, m = words
    spans, size = (n + 1) * (n + 2) // 2, m + 1
    matrices = spans * size * _row(size)
    return Room(
        np.empty(matrices),
        np.empty(matrices),
        np.empty(matrices),
        np.empty(seats, np.int32),
        np.empty(seats),
        np.empty(seats * 3, np.int32),
        np.empty(seats, np.int32),
        np.empty(seats, np.int32),
        np.empty(spans + 1, np.int32),
        np.empty(rules * size, np.int16),
        np.empty((longest + 1) * _row(size)),
        np.empty((longest + 1) * _row(size)),
        np.empty(longest + 1, np.int64),
        np.empty(longest + 1, np.int64),
        np.empty(4 * n + 4, np.int64),
        np.empty(4 * n + 4, np.int64),
        np.empty(4 * n + 4),
        np.empty((rules + 1) * 2 * size),
        np.empty((rules + 1, 3), np.int64),
        np.empty(longest + 1, np.int64),
        np.empty(longest + 1, np.int64),
        np.zeros(4, np.int64),
    )


@njit
def _row(size):
    """How many numbers a row of a matrix takes: a multiple of a block."""
    return (size + _BLOCK - 1) // _BLOCK * _BLOCK


@njit_inline
def _span(i, j):
    """The number of source span [i, j)."""
    return j * (j - 1) // 2 + i


@njit
def _add_products(left, right, room, number, out, at, size, kind):
    """Add products of `number` pairs of matrices to the matrix that begins at `at`, above its diagonal."""
    stride = _row(size)
    lefts, rights, factors = room.lefts, room.rights, room.factors
    for p in range(size - 1):
        if kind == _BEFORE and p == 0:
            continue
        for q in range((p + 1) // _BLOCK * _BLOCK, size, _BLOCK):
            if kind == _UPPER:
                first, last = np.int64(p + 1), min(size, np.int64(q + _BLOCK - 1))
            elif kind == _ABOVE:
                first, last = np.int64(max(p, q) + 1), size
            else:
                first, last = np.int64(0), np.int64(p)
            a = b = c = d = e = f = g = h = 0.0
            for k in range(number):
                row = lefts[k] + p * stride
                factor = factors[k]
                for r in range(first, last):
                    value = factor * left[row + r]
                    place = rights[k] + r * stride + q
                    a += value * right[place]
                    b += value * right[place + 1]
                    c += value * right[place + 2]
                    d += value * right[place + 3]
                    e += value * right[place + 4]
                    f += value * right[place + 5]
                    g += value * right[place + 6]
                    h += value * right[place + 7]
            place = at + p * stride + q
            if q > p:
                out[place] += a
            if q + 1 > p:
                out[place + 1] += b
            if q + 2 > p:
                out[place + 2] += c
            if q + 3 > p:
                out[place + 3] += d
            if q + 4 > p:
                out[place + 4] += e
            if q + 5 > p:
                out[place + 5] += f
            if q + 6 > p:
                out[place + 6] += g
            if q + 7 > p:
                out[place + 7] += h


@njit
def _note_reach(c, rule, sides, target, piece, room):
    """Fill where the target side of a chosen rule ends at the earliest; whether it can be laid anywhere."""
    m = piece.y - piece.x
    size = m + 1
    somewhere = False
    for start in range(size):
        at = np.int64(start)
        moved = False
        for k in range(sides.target_first[rule], sides.target_first[rule + 1]):
            symbol = sides.target[k]
            if symbol < 0:
                at += 1
                moved = True
            else:
                while moved and at < m and target[piece.x + at] != symbol:
                    at += 1
                at = at + 1 if at < m and target[piece.x + at] == symbol else size
            if at > m:
                at = np.int64(size)
                break
        room.reach[c * size + start] = at
        somewhere = somewhere or at <= m
    return somewhere


@njit
def _shape(rule, sides):
    """How many nonterminals a rule has, and how many symbols its two sides."""
    first, last = sides.source_first[rule], sides.source_first[rule + 1]
    arity = 0
    for k in range(first, last):
        if sides.source[k] < 0:
            arity += 1
    return arity, last - first, sides.target_first[rule + 1] - sides.target_first[rule]


@njit
def _is_join(rule, sides):
    """Return whether a rule is two nonterminals and nothing else: 1 straight, -1 inverted, 0 if it is another."""
    arity, source, target = _shape(rule, sides)
    if arity != 2 or source != 2 or target != 2:
        return 0
    return 1 if sides.target[sides.target_first[rule]] == -1 else -1


@njit
def joined(chosen, number, sides, base):
    """The base, with the weights of the chosen rules that join two nonterminals added to its own."""
    straight, inverted = base.straight, base.inverted
    for c in range(number):
        join = _is_join(chosen.rule[c], sides)
        if join > 0:
            straight += chosen.weight[c]
        elif join < 0:
            inverted += chosen.weight[c]
    return Base(base.pair, base.null, straight, inverted)


@njit
def _note_alone(c, rule, weight, sides, words, piece, room):
    """Write what the target words of a rule weigh whose source side is one nonterminal."""
    m = piece.y - piece.x
    size = m + 1
    number = room.sizes[_ALONE]
    first, last = sides.target_first[rule], sides.target_first[rule + 1]
    middle = first
    while sides.target[middle] >= 0:
        middle += 1
    before, after = middle - first, last - middle - 1
    for x in range(size):
        # Before a nonterminal that begins at x, and behind one that ends at x.
        product = weight if x >= before else 0.0
        for k in range(min(before, x)):
            place = piece.x + x - before + k
            product *= words.target_scale[place] if words.target[place] == sides.target[first + k] else 0.0
        room.alone[2 * number * size + x] = product
        product = 1.0 if x + after <= m else 0.0
        for k in range(min(after, m - x)):
            place = piece.x + x + k
            product *= words.target_scale[place] if words.target[place] == sides.target[middle + 1 + k] else 0.0
        room.alone[(2 * number + 1) * size + x] = product
    room.alone_rule[number, 0] = c
    room.alone_rule[number, 1] = before
    room.alone_rule[number, 2] = after
    room.sizes[_ALONE] = number + 1


@njit
def _keep_seat(c, i, j, symbols, first, length, weight, scale, begin, room):
    """Write down the seat at hand, if there is room."""
    number = room.sizes[_SEATS]
    arity = room.sizes[_ARITY]
    room.sizes[_SEATS] = number + 1
    if number >= len(room.seat_rule) or (number + 1) * arity > len(room.seat_span):
        return
    k = number * arity
    for d in range(length):
        if symbols[first + d] < 0:
            room.seat_span[k] = _span(room.start[d], room.end[d])
            k += 1
        else:
            weight *= scale[begin + room.start[d]]
    room.seat_rule[number] = c
    room.seat_weight[number] = weight
    room.head[number] = _span(i, j)


@njit
def _seat_rule(c, rule, weight, sides, words, piece, room):
    """Write all seats of a rule: its source side over each span that it can cover."""
    symbols, first = sides.source, sides.source_first[rule]
    length = sides.source_first[rule + 1] - first
    n = piece.j - piece.i
    for i in range(n - length + 1):
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
                # Each symbol to come takes a word at least.
                if end > n - (length - 1 - depth):
                    depth -= 1
                    continue
            room.end[depth] = end
            if depth == length - 1:
                _keep_seat(c, i, end, symbols, first, length, weight, words.source_scale, piece.i, room)
            else:
                depth += 1
                room.start[depth] = end
                room.end[depth] = -1


@njit
def _has_words(symbols, first, last, words, begin, end):
    """Return whether all words of a side are among words [begin, end)."""
    for k in range(first, last):
        if symbols[k] >= 0:
            at = begin
            while at < end and words[at] != symbols[k]:
                at += 1
            if at == end:
                return False
    return True


@njit
def _seat_all(chosen, number, sides, words, piece, room):
    """Write the seats of all chosen rules by their heads; False where there is no room."""
    room.sizes[:] = 0
    n = piece.j - piece.i
    for c in range(number):
        room.sizes[_ARITY] = max(room.sizes[_ARITY], _shape(chosen.rule[c], sides)[0])
    for c in range(number):
        rule = chosen.rule[c]
        arity, source, target = _shape(rule, sides)
        if _is_join(rule, sides) != 0 or source > n or target > piece.y - piece.x:
            continue
        first, last = sides.source_first[rule], sides.source_first[rule + 1]
        if not _has_words(sides.source, first, last, words.source, piece.i, piece.j):
            continue
        if not _note_reach(c, rule, sides, words.target, piece, room):
            continue
        if source == 1 and arity == 1:
            _note_alone(c, rule, chosen.weight[c], sides, words, piece, room)
        else:
            _seat_rule(c, rule, chosen.weight[c], sides, words, piece, room)
    seats = room.sizes[_SEATS]
    if seats > len(room.seat_rule) or seats * room.sizes[_ARITY] > len(room.seat_span):
        room.sizes[_LACKING] = seats
        return False
    spans = _span(0, n + 1)
    for p in range(spans + 1):
        room.first[p] = 0
    for s in range(seats):
        room.first[room.head[s] + 1] += 1
    for p in range(spans):
        room.first[p + 1] += room.first[p]
    for s in range(seats - 1, -1, -1):
        place = room.first[room.head[s] + 1] - 1
        room.first[room.head[s] + 1] = place
        room.order[place] = s
    # Each place has moved to where its span begins: the next one's end is the next one's beginning.
    for p in range(spans):
        room.first[p] = room.first[p + 1]
    room.first[spans] = seats
    return True


@njit
def _lay(seat, rule, x, sides, words, piece, room):
    """Fill the rows of sums over the target side of a seat that begins at x; False where it has no place.

    Row t has, for each position, the weight of the first t symbols up to there.
    """
    m = piece.y - piece.x
    size = m + 1
    stride = _row(size)
    first = sides.target_first[rule]
    length = sides.target_first[rule + 1] - first
    values, low, high = room.values, room.low, room.high
    low[0] = x
    high[0] = x
    values[x] = 1.0
    for t in range(length):
        symbol = sides.target[first + t]
        # Each symbol to come takes a word at least.
        limit = m - (length - 1 - t)
        here, there = t * stride, (t + 1) * stride
        begin, end = low[t], high[t]
        if symbol >= 0:
            following, last = np.int64(size), np.int64(-1)
            for p in range(begin, min(end + 1, limit)):
                if words.target[piece.x + p] == symbol and values[here + p] != 0.0:
                    if last < 0:
                        following = p + 1
                    else:
                        for q in range(last + 1, p + 1):
                            values[there + q] = 0.0
                    values[there + p + 1] = values[here + p] * words.target_scale[piece.x + p]
                    last = p + 1
            if last < 0:
                return False
            low[t + 1] = following
            high[t + 1] = last
        else:
            if begin + 1 > limit:
                return False
            matrix = room.seat_span[seat * room.sizes[_ARITY] - 1 - symbol] * size * stride
            for q in range(begin + 1, limit + 1):
                values[there + q] = 0.0
            for p in range(begin, min(end + 1, limit)):
                value = values[here + p]
                if value != 0.0:
                    row = matrix + p * stride
                    for q in range(p + 1, limit + 1):
                        values[there + q] += value * room.inside[row + q]
            low[t + 1] = begin + 1
            high[t + 1] = limit
    return True


@njit
def _lay_seats(head, chosen, sides, words, piece, room):
    """Add the sums of all seats over a source span."""
    m = piece.y - piece.x
    size = m + 1
    stride = _row(size)
    at = head * size * stride
    for k in range(room.first[head], room.first[head + 1]):
        seat = room.order[k]
        c = room.seat_rule[seat]
        rule = chosen.rule[c]
        weight = room.seat_weight[seat]
        length = sides.target_first[rule + 1] - sides.target_first[rule]
        for x in range(m - length + 1):
            if room.reach[c * size + x] <= m and _lay(seat, rule, x, sides, words, piece, room):
                for y in range(room.low[length], room.high[length] + 1):
                    room.inside[at + x * stride + y] += weight * room.values[length * stride + y]


@njit
def _widen(at, base, words, piece, room, null):
    """Add rules that have no source words and one nonterminal, wider target spans after narrower ones."""
    m = piece.y - piece.x
    size = m + 1
    stride = _row(size)
    inside = room.inside
    number = room.sizes[_ALONE]
    for x in range(m - 1, -1, -1):
        row = at + x * stride
        for y in range(x + 2, size):
            inside[row + y] += null[x] * inside[row + stride + y] + null[y - 1] * inside[row + y - 1]
            for k in range(number):
                i, j = x + room.alone_rule[k, 1], y - room.alone_rule[k, 2]
                if i < j:
                    both = room.alone[2 * k * size + i] * room.alone[(2 * k + 1) * size + j]
                    if both > 0.0:
                        inside[row + y] += both * inside[at + i * stride + j]


@njit
def _list_joins(i, j, base, size, room):
    """Write the products by which two nonterminals cover source span [i, j)."""
    matrix = size * _row(size)
    number = 0
    for k in range(i + 1, j):
        left, right = _span(i, k) * matrix, _span(k, j) * matrix
        room.lefts[number] = left
        room.rights[number] = right
        room.factors[number] = base.straight
        room.lefts[number + 1] = right
        room.rights[number + 1] = left
        room.factors[number + 1] = base.inverted
        number += 2
    return number


@njit
def _fill_inside(chosen, sides, words, piece, base, null, room):
    """Fill the inside sums of all source spans."""
    n, m = piece.j - piece.i, piece.y - piece.x
    size = m + 1
    stride = _row(size)
    matrix = size * stride
    inside = room.inside
    for width in range(1, n + 1):
        for i in range(n + 1 - width):
            j = i + width
            head = _span(i, j)
            at = head * matrix
            for k in range(at, at + matrix):
                inside[k] = 0.0
            if width == 1:
                for x in range(m):
                    scale = words.source_scale[piece.i + i] * words.target_scale[piece.x + x]
                    inside[at + x * stride + x + 1] = base.pair * words.pairs[piece.i + i, piece.x + x] * scale
            else:
                number = _list_joins(i, j, base, size, room)
                _add_products(inside, inside, room, number, inside, at, size, _UPPER)
                first, last = piece.i + i, piece.i + j - 1
                left = base.null * words.source_nulls[first] * words.source_scale[first]
                right = base.null * words.source_nulls[last] * words.source_scale[last]
                one, other = _span(i + 1, j) * matrix, _span(i, j - 1) * matrix
                for k in range(matrix):
                    inside[at + k] += left * inside[one + k] + right * inside[other + k]
            _lay_seats(head, chosen, sides, words, piece, room)
            _widen(at, base, words, piece, room, null)
            for x in range(size):
                for y in range(size):
                    room.across[at + y * stride + x] = inside[at + x * stride + y]
                for y in range(size, stride):
                    room.across[at + x * stride + y] = 0.0


@njit
def _gather(i, j, base, size, n, room):
    """Add to the outside sums of source span [i, j) what the base's spans above it have: both sides of each join."""
    matrix = size * _row(size)
    at = _span(i, j) * matrix
    outside, across = room.outside, room.across
    # Spans of which this is the left part, then those of which it is the right part, with what is beside it.
    number = 0
    for k in range(j + 1, n + 1):
        room.lefts[number] = _span(i, k) * matrix
        room.rights[number] = _span(j, k) * matrix
        room.factors[number] = base.straight
        number += 1
    beside = number
    for k in range(i):
        room.lefts[number] = _span(k, j) * matrix
        room.rights[number] = _span(k, i) * matrix
        room.factors[number] = base.inverted
        number += 1
    # Where it begins the target span, then where it ends it.
    _add_products(outside, across, room, number, outside, at, size, _ABOVE)
    for k in range(number):
        room.factors[k] = base.inverted if k < beside else base.straight
        room.lefts[k], room.rights[k] = room.rights[k], room.lefts[k]
    _add_products(across, outside, room, number, outside, at, size, _BEFORE)


@njit
def _narrow(at, base, words, piece, room, null):
    """Go back through `_widen`, wider target spans first; how many target words the base's rules emit alone."""
    m = piece.y - piece.x
    size = m + 1
    stride = _row(size)
    inside, outside = room.inside, room.outside
    number = room.sizes[_ALONE]
    emitted = 0.0
    for x in range(m):
        row = at + x * stride
        for y in range(m, x + 1, -1):
            above = outside[row + y]
            if above == 0.0:
                continue
            one, other = above * null[x], above * null[y - 1]
            outside[row + stride + y] += one
            outside[row + y - 1] += other
            emitted += one * inside[row + stride + y] + other * inside[row + y - 1]
            for k in range(number):
                i, j = x + room.alone_rule[k, 1], y - room.alone_rule[k, 2]
                if i < j:
                    both = room.alone[2 * k * size + i] * room.alone[(2 * k + 1) * size + j]
                    if both > 0.0:
                        outside[at + i * stride + j] += both * above
    return emitted


@njit
def _emit(rule, p, expected, sides, piece, together, room):
    """Add that a seat's rule emits the target word at p: with each of its source words."""
    at = room.start[0]
    tails = 0
    for k in range(sides.source_first[rule], sides.source_first[rule + 1]):
        if sides.source[k] >= 0:
            together[piece.i + at, piece.x + p] += expected
            at += 1
        else:
            at = room.end[tails]
            tails += 1


@njit
def _go_back(seat, rule, weight, above, sides, words, piece, together, room):
    """Go back over the rows of a seat's target side; `above` is where the outside sums of its row begin."""
    size = piece.y - piece.x + 1
    stride = _row(size)
    first = sides.target_first[rule]
    length = sides.target_first[rule + 1] - first
    values, back, low, high = room.values, room.back, room.low, room.high
    some = 0.0
    for y in range(low[length], high[length] + 1):
        back[length * stride + y] = weight * room.outside[above + y]
        some += back[length * stride + y]
    if some == 0.0:
        return
    for t in range(length - 1, -1, -1):
        symbol = sides.target[first + t]
        here, there = t * stride, (t + 1) * stride
        if symbol >= 0:
            for p in range(low[t], high[t] + 1):
                back[here + p] = 0.0
            for q in range(low[t + 1], high[t + 1] + 1):
                if values[there + q] != 0.0:
                    back[here + q - 1] = back[there + q] * words.target_scale[piece.x + q - 1]
                    _emit(rule, q - 1, values[there + q] * back[there + q], sides, piece, together, room)
        else:
            matrix = room.seat_span[seat * room.sizes[_ARITY] - 1 - symbol] * size * stride
            for p in range(low[t], high[t] + 1):
                value = values[here + p]
                back[here + p] = 0.0
                if value != 0.0:
                    row = matrix + p * stride
                    for q in range(p + 1, high[t + 1] + 1):
                        room.outside[row + q] += value * back[there + q]
                    if t > 0:
                        total = 0.0
                        for q in range(p + 1, high[t + 1] + 1):
                            total += room.inside[row + q] * back[there + q]
                        back[here + p] = total


@njit
def _place_tails(seat, i, rule, sides, room):
    """Write where a seat begins, and where its nonterminals end on the source side."""
    first, last = sides.source_first[rule], sides.source_first[rule + 1]
    room.start[0] = i
    k = 0
    for s in range(first, last):
        if sides.source[s] < 0:
            span = np.int64(room.seat_span[seat * room.sizes[_ARITY] + k])
            end = np.int64((1 + np.sqrt(8.0 * span + 1)) / 2)
            while end * (end - 1) // 2 > span:
                end -= 1
            while end * (end + 1) // 2 <= span:
                end += 1
            room.end[k] = end
            k += 1


@njit
def _leave_seats(head, i, chosen, sides, words, piece, together, room):
    """Go back through all seats over a source span that begins at i."""
    m = piece.y - piece.x
    size = m + 1
    stride = _row(size)
    at = head * size * stride
    for k in range(room.first[head], room.first[head + 1]):
        seat = room.order[k]
        c = room.seat_rule[seat]
        rule = chosen.rule[c]
        length = sides.target_first[rule + 1] - sides.target_first[rule]
        _place_tails(seat, i, rule, sides, room)
        for x in range(m - length + 1):
            if room.reach[c * size + x] <= m and _lay(seat, rule, x, sides, words, piece, room):
                _go_back(seat, rule, room.seat_weight[seat], at + x * stride, sides, words, piece, together, room)


@njit
def _fill_outside(chosen, sides, words, piece, base, null, together, room):
    """Fill the outside sums, over the whole; add to `together`; how many words the base emits."""
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
            at = head * matrix
            if width < n:
                _gather(i, j, base, size, n, room)
                if i > 0:
                    word = piece.i + i - 1
                    weight = base.null * words.source_nulls[word] * words.source_scale[word]
                    above = _span(i - 1, j) * matrix
                    for k in range(matrix):
                        value = weight * outside[above + k]
                        outside[at + k] += value
                        emitted += value * inside[at + k]
                if j < n:
                    word = piece.i + j
                    weight = base.null * words.source_nulls[word] * words.source_scale[word]
                    above = _span(i, j + 1) * matrix
                    for k in range(matrix):
                        value = weight * outside[above + k]
                        outside[at + k] += value
                        emitted += value * inside[at + k]
            emitted += _narrow(at, base, words, piece, room, null)
            _leave_seats(head, i, chosen, sides, words, piece, together, room)
            if width == 1:
                for x in range(m):
                    scale = words.source_scale[piece.i + i] * words.target_scale[piece.x + x]
                    weight = base.pair * words.pairs[piece.i + i, piece.x + x] * scale
                    expected = weight * outside[at + x * stride + x + 1]
                    together[piece.i + i, piece.x + x] += expected
                    emitted += 2.0 * expected
    return emitted


@njit
def sum_piece(chosen, number, sides, words, piece, base, null, together, room):
    """Sum over all derivations of a piece by the first `number` chosen rules and the base.

    Returns the sum, and how many words the base is expected to emit; adds to `together` how often each two words are
    expected to be emitted by one rule. The sum is 0 where it is out of range, and -1 where there is no room for seats.
    `base` is `joined`; `null` float64[m] is room.
    """
    if not _seat_all(chosen, number, sides, words, piece, room):
        return -1.0, 0.0
    n, m = piece.j - piece.i, piece.y - piece.x
    for x in range(m):
        word = piece.x + x
        null[x] = base.null * words.target_nulls[word] * words.target_scale[word]
    _fill_inside(chosen, sides, words, piece, base, null, room)
    total = room.inside[_span(0, n) * (m + 1) * _row(m + 1) + m]
    if not 1e-280 < total < 1e280:
        return 0.0, 0.0
    return total, _fill_outside(chosen, sides, words, piece, base, null, together, room)


class Whole(NamedTuple):
    """Natural log of the sum over all derivations of a pair, how often each two words are expected to be emitted by one
    rule, float64[n, m], and how many words the base is expected to emit."""

    log_total: float
    together: NDArray[np.float64]
    emitted: float


def sum_pair(sides: Sides, weights: NDArray[np.float64], words: PairWords, base: Base) -> Whole:
    """Sum over all derivations of a pair, by all these rules and the base."""
    n, m = words.pairs.shape
    longest = int(max(np.diff(sides.source_first).max(initial=1), np.diff(sides.target_first).max(initial=1)))
    chosen = Chosen(np.arange(len(weights)), np.asarray(weights, np.float64))
    together, null = np.zeros((n, m)), np.zeros(m)
    both = joined(chosen, len(weights), sides, base)
    seats = 1 << 10
    while True:
        room = make_room((n, m), len(weights), longest, seats)
        total, emitted = sum_piece(
            chosen, len(weights), sides, words, Piece(0, n, 0, m), both, null, together, room
        )  # fmt: skip
        if total >= 0:
            return Whole(float(np.log(total)) - words.log_scale, together, emitted)
        seats = int(room.sizes[_LACKING]) * 2
