"""The ITG's model and samplers in plain Python, from the equations of [BC10] and docs/model.md.

A derivation is a nested tuple: (STRAIGHT or INVERTED, left, right), (PAIR,), (SOURCE_NULL,), (TARGET_NULL,) or
(phrase(s, t),), a pair of phrases of s and t words.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tests.reference.streams import GOLDEN, MASK, Stream, mix

STRAIGHT, INVERTED, PAIR, SOURCE_NULL, TARGET_NULL = range(5)
Pair = tuple[tuple[int, ...], tuple[int, ...]]
"""Word numbers of the source and the target."""
Tree = tuple[Any, ...]
"""A rule, followed by two subtrees if it has children."""
Cell = tuple[int, int, int, int]
NOWHERE = 0xFFFF


def phrase(height: int, width: int) -> int:
    """Return the rule that emits a phrase pair of this many source and target words."""
    return PAIR if height == width == 1 else 5 * height + width


@cache
def count_words(rule: int) -> tuple[int, int]:
    """Return the number of source and target words of an emission."""
    if rule <= TARGET_NULL:
        return int(rule != TARGET_NULL), int(rule != SOURCE_NULL)
    return next((s, t) for s in range(1, 6) for t in range(1, 6) if phrase(s, t) == rule)


def find_type(rule: int) -> int:
    """Return the type of a rule, which is `PAIR` for all phrase pairs."""
    return PAIR if rule > TARGET_NULL else rule


@dataclass(frozen=True)
class Use:
    """A rule of a derivation in its cell."""

    rule: int
    i: int
    j: int
    x: int
    y: int

    @property
    def cell(self) -> Cell:
        return self.i, self.j, self.x, self.y


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs of word numbers, and the base distributions (as functions of words) and strengths of the model."""

    pairs: tuple[Pair, ...]
    base_pair: Callable[[int, int], float]
    base_source_null: Callable[[int], float]
    base_target_null: Callable[[int], float]
    strengths: tuple[float, float, float] = (1.0, 1.0, 1.0)
    base_phrase: Callable[[tuple[int, ...], tuple[int, ...]], float] = lambda f, e: 0.0
    longest: int = 1
    """Maximum number of words in a phrase."""


def lexical_base(
    f: tuple[int, ...],
    e: tuple[int, ...],
    model1: tuple[Callable[[int, int], float], Callable[[int, int], float]],
    end: float,
    longest: int,
) -> float:
    """Return [P(|f|) P_M1(e | f) P(|e|) P_M1(f | e)]^(1/2); `model1` gives P(e | f) and P(f | e) of two words."""

    def length(size: int) -> float:
        return end * (1 - end) ** (size - 1) / sum(end * (1 - end) ** k for k in range(longest))

    product = length(len(f)) * length(len(e))
    for of_target in e:
        product *= sum(model1[0](of_source, of_target) for of_source in f) / len(f)
    for of_source in f:
        product *= sum(model1[1](of_source, of_target) for of_target in e) / len(e)
    return math.sqrt(product)


@cache
def tree_size(tree: Tree) -> tuple[int, int]:
    """Return the number of source and target words of a derivation."""
    if tree[0] >= PAIR:
        return count_words(tree[0])
    (n, m), (k, z) = tree_size(tree[1]), tree_size(tree[2])
    return n + k, m + z


def list_uses(tree: Tree, i: int = 0, x: int = 0) -> list[Use]:
    """Return the rules of a derivation with their cells, in preorder."""
    n, m = tree_size(tree)
    here = [Use(tree[0], i, i + n, x, x + m)]
    if tree[0] >= PAIR:
        return here
    (k, z), (_, w) = tree_size(tree[1]), tree_size(tree[2])
    if tree[0] == STRAIGHT:
        return here + list_uses(tree[1], i, x) + list_uses(tree[2], i + k, x + z)
    return here + list_uses(tree[1], i, x + w) + list_uses(tree[2], i + k, x)


@cache
def to_string(tree: Tree) -> tuple[int, ...]:
    """Return the rules of a derivation in preorder."""
    return (tree[0],) + (to_string(tree[1]) + to_string(tree[2]) if tree[0] < PAIR else ())


@cache
def from_string(string: tuple[int, ...]) -> Tree:
    """Return the derivation of a string of rules, the inverse of `to_string`."""
    rules = iter(string)

    def read() -> Tree:
        rule = next(rules)
        return (rule, read(), read()) if rule < PAIR else (rule,)

    tree = read()
    assert next(rules, None) is None
    return tree


@cache
def derivations(n: int, m: int, longest: int = 1) -> tuple[Tree, ...]:
    """Return all derivations of n source and m target words with phrases of up to `longest` words, by brute force."""
    if (n, m) in ((1, 0), (0, 1)):
        return ((SOURCE_NULL if n else TARGET_NULL,),)
    found: list[Tree] = [(phrase(n, m),)] if min(n, m) >= 1 and max(n, m) <= longest else []
    for k in range(n + 1):
        for z in range(m + 1):
            if (k, z) not in ((0, 0), (n, m)):
                for left in derivations(k, z, longest):
                    for right in derivations(n - k, m - z, longest):
                        found += [(STRAIGHT, left, right), (INVERTED, left, right)]
    return tuple(found)


@cache
def find_links(tree: Tree) -> frozenset[tuple[int, int]]:
    """Return the pairs of words that a derivation emits together."""
    return frozenset(
        (i, x)
        for use in list_uses(tree)
        if find_type(use.rule) == PAIR
        for i in range(use.i, use.j)
        for x in range(use.x, use.y)
    )


Dish = tuple[int, Any, Any]
"""Identity of a rule: its number, and its source and target words (numbers or, for phrases, tuples; -1 for none)."""


@dataclass
class Counts:
    """Use counts of rule types and of rules."""

    rules: Counter[int] = field(default_factory=Counter)
    dishes: Counter[Dish] = field(default_factory=Counter)

    def add(self, dish: Dish, change: int) -> None:
        self.rules[find_type(dish[0])] += change
        self.dishes[dish] += change


def find_dish(pair: Pair, use: Use) -> Dish:
    """Return the identity of the rule of a use, which does not depend on the cell."""
    source, target = pair
    if use.rule > TARGET_NULL:
        return use.rule, source[use.i : use.j], target[use.x : use.y]
    f = source[use.i] if use.rule in (PAIR, SOURCE_NULL) else -1
    e = target[use.x] if use.rule in (PAIR, TARGET_NULL) else -1
    return use.rule, f, e


def predictive(corpus: Corpus, counts: Counts, dish: Dish) -> float:
    """Return P(rule | counts), linear."""
    rule, f, e = find_type(dish[0]), *dish[1:]
    p = (counts.rules[rule] + 1.0) / (sum(counts.rules.values()) + 5.0)
    if rule < PAIR:
        return p
    if dish[0] > TARGET_NULL:
        mass = corpus.strengths[0] * corpus.base_phrase(f, e)
        return p * (counts.dishes[dish] + mass) / (counts.rules[PAIR] + corpus.strengths[0])
    base = (lambda: corpus.base_pair(f, e), lambda: corpus.base_source_null(f), lambda: corpus.base_target_null(e))
    strength = corpus.strengths[rule - PAIR]
    return p * (counts.dishes[dish] + strength * base[rule - PAIR]()) / (counts.rules[rule] + strength)


def count(corpus: Corpus, counts: Counts, pair: int, tree: Tree, change: int) -> None:
    """Add a derivation's rules to the counts, `change` times."""
    for use in list_uses(tree):
        counts.add(find_dish(corpus.pairs[pair], use), change)


def add_sequentially(corpus: Corpus, counts: Counts, pair: int, tree: Tree) -> float:
    """Add a derivation's rules to the counts, one after the other. Returns ln P of the sequence."""
    total = 0.0
    for use in list_uses(tree):
        dish = find_dish(corpus.pairs[pair], use)
        total += math.log(predictive(corpus, counts, dish))
        counts.add(dish, 1)
    return total


def joint(corpus: Corpus, trees: tuple[Tree, ...]) -> float:
    """Return ln P of the derivations of all pairs."""
    counts = Counts()
    return sum(add_sequentially(corpus, counts, pair, tree) for pair, tree in enumerate(trees))


def posterior(corpus: Corpus) -> dict[tuple[Tree, ...], float]:
    """Return the posterior of the joint derivations of all pairs."""
    states: list[tuple[Tree, ...]] = [()]
    for source, target in corpus.pairs:
        states = [(*trees, tree) for trees in states for tree in derivations(len(source), len(target), corpus.longest)]
    logs = [joint(corpus, trees) for trees in states]
    most = max(logs)
    weights = [math.exp(log - most) for log in logs]
    total = sum(weights)
    return {trees: weight / total for trees, weight in zip(states, weights, strict=True)}


class Chart:
    """Inside sums by recursion, and draws. `emission` and `rules` give the weights of a cell's rules, 0 for none."""

    def __init__(
        self,
        n: int,
        m: int,
        emission: Callable[[Cell], float],
        rules: Callable[[Cell], tuple[float, float]],
        longest: int = 1,
    ) -> None:
        self.size = n, m
        self.longest = longest
        self.emission, self.rules = emission, rules
        self.sums: dict[Cell, float] = {}

    def is_emitted(self, cell: Cell) -> bool:
        """Check if a cell can be one emission: up to one word on each side, or phrases of up to `longest` words."""
        i, j, x, y = cell
        return max(j - i, y - x) == 1 or (min(j - i, y - x) >= 1 and max(j - i, y - x) <= self.longest)

    def splits(self, cell: Cell) -> Iterator[tuple[int, Cell, Cell]]:
        """Yield the ways to split a cell in two: straight ones first, by source and target position."""
        i, j, x, y = cell
        for rule in (STRAIGHT, INVERTED):
            for k in range(i, j + 1):
                for z in range(x, y + 1):
                    left = (i, k, x, z) if rule == STRAIGHT else (i, k, z, y)
                    right = (k, j, z, y) if rule == STRAIGHT else (k, j, x, z)
                    if cell not in (left, right):
                        yield rule, left, right

    def inside(self, cell: Cell) -> float:
        if cell not in self.sums:
            total = self.emission(cell) if self.is_emitted(cell) else 0.0
            weights = self.rules(cell)
            for rule, left, right in self.splits(cell):
                if weights[rule]:
                    total += weights[rule] * self.inside(left) * self.inside(right)
            self.sums[cell] = total
        return self.sums[cell]

    def draw(self, cell: Cell, uniform: Callable[[], float]) -> Tree:
        """Draw a derivation of a cell top-down, left before right."""
        left_over = uniform() * self.inside(cell)
        weights = self.rules(cell)
        chosen: tuple[int, Cell, Cell] | None = None
        if self.is_emitted(cell):
            left_over -= self.emission(cell)
            if left_over < 0:
                return (emission_rule(cell),)
        for rule, left, right in self.splits(cell):
            share = weights[rule] * self.inside(left) * self.inside(right) if weights[rule] else 0.0
            if share > 0:
                chosen = rule, left, right
                left_over -= share
                if left_over < 0:
                    break
        if chosen is None:
            return (PAIR,)
        rule, left, right = chosen
        one = self.draw(left, uniform)
        return rule, one, self.draw(right, uniform)


class Draws(Stream):
    """A random stream that starts from a given state."""

    def __init__(self, state: int) -> None:
        self.state = state & MASK


def unit(visit: int, cell: Cell) -> float:
    """Return the uniform number of a cell's slice variable, in (0, 1]."""
    i, j, x, y = cell
    key = i << 48 | j << 32 | x << 16 | y
    return 1.0 - (mix(visit + mix(key + 1)) >> 11) * 2.0**-53


def find_site(cell: Cell) -> Cell | None:
    """Return the cell whose slice variable applies to a cell.

    Returns None for a cell with an empty side, unless the other side is a single word.
    """
    i, j, x, y = cell
    if i < j and x < y:
        return cell
    if (j - i, y - x) == (1, 0):
        return i, j, NOWHERE, NOWHERE
    return (NOWHERE, NOWHERE, x, y) if (j - i, y - x) == (0, 1) else None


def make_weight(corpus: Corpus, counts: Counts, pair: int) -> Callable[[int, Cell], float]:
    """Return a function from a rule and its cell to its probability, given a copy of the current counts."""
    frozen = Counts(counts.rules.copy(), counts.dishes.copy())

    def weight(rule: int, cell: Cell) -> float:
        return predictive(corpus, frozen, find_dish(corpus.pairs[pair], Use(rule, *cell)))

    return cache(weight)


def emission_rule(cell: Cell) -> int:
    """Return the only possible emission of a cell."""
    i, j, x, y = cell
    return TARGET_NULL if i == j else SOURCE_NULL if x == y else phrase(j - i, y - x)


def slice_variables(
    tree: Tree, weight: Callable[[int, Cell], float], shape: float, visit: int
) -> Callable[[Cell], float]:
    """Return a function from a site to its slice variable u, given a derivation [BC10 eq. 1]."""
    own = {find_site(use.cell): weight(use.rule, use.cell) for use in list_uses(tree)}

    def variable(site: Cell) -> float:
        drawn = unit(visit, site)
        return drawn * own[site] if site in own else drawn ** (1 / shape)

    return variable


def sliced_chart(
    size: tuple[int, int, int], weight: Callable[[int, Cell], float], variable: Callable[[Cell], float], shape: float
) -> Chart:
    """Return the chart in which rules with a probability of at least u weigh 1 / Beta(u; a, 1) [BC10 eq. 4].

    Rules below the u of their cell weigh 0. Rules of cells without a slice variable weigh their probability. `size` has
    the numbers of source and target words, and the maximum length of a phrase.
    """
    n, m, longest = size

    def live(rule: int, cell: Cell) -> float:
        site = find_site(cell)
        if site is None:
            return weight(rule, cell)
        u = variable(site)
        return 1 / (shape * u ** (shape - 1)) if u <= weight(rule, cell) else 0.0

    return Chart(
        n,
        m,
        lambda cell: live(emission_rule(cell), cell),
        lambda cell: (live(STRAIGHT, cell), live(INVERTED, cell)),
        longest,
    )


def accept(
    corpus: Corpus, counts: Counts, pair: int, weight: Callable[[int, Cell], float], trees: tuple[Tree, Tree], u: float
) -> Tree:
    """Choose by Metropolis-Hastings between the current and a proposed derivation, both drawn with frozen weights."""
    ratios = []
    for tree in trees:
        now = Counts(counts.rules.copy(), counts.dishes.copy())
        frozen = sum(math.log(weight(use.rule, use.cell)) for use in list_uses(tree))
        ratios.append(math.exp(add_sequentially(corpus, now, pair, tree) - frozen))
    return trees[1] if u * ratios[0] < ratios[1] else trees[0]


def slice_visit(corpus: Corpus, counts: Counts, pair: int, tree: Tree, shape: float, key: tuple[int, int]) -> Tree:
    """Resample a pair's tree by the slice sampler. `counts` has all other pairs, and `key` is seed and sweep."""
    n, m = map(len, corpus.pairs[pair])
    visit = Stream(key[0], pair, key[1]).state
    weight = make_weight(corpus, counts, pair)
    chart = sliced_chart((n, m, corpus.longest), weight, slice_variables(tree, weight, shape, visit), shape)
    proposed = chart.draw((0, n, 0, m), Draws(visit + GOLDEN).uniform)
    return accept(corpus, counts, pair, weight, (tree, proposed), Draws(~visit).uniform())


def flat_visit(corpus: Corpus, counts: Counts, pair: int, tree: Tree, shape: float, key: tuple[int, int]) -> Tree:
    """Resample a pair's tree with flat slice variables, which only emissions have.

    An emission of probability p that is not in the current derivation enters the chart with probability p^a.
    """
    n, m = map(len, corpus.pairs[pair])
    visit = Stream(key[0], pair, key[1]).state
    weight = make_weight(corpus, counts, pair)
    own = {find_site(use.cell) for use in list_uses(tree) if use.rule >= PAIR}

    def emission(cell: Cell) -> float:
        p = weight(emission_rule(cell), cell)
        site = find_site(cell)
        assert site is not None
        return p ** (1 - shape) if site in own or unit(visit, site) <= p**shape else 0.0

    chart = Chart(n, m, emission, lambda cell: (weight(STRAIGHT, cell), weight(INVERTED, cell)), corpus.longest)
    proposed = chart.draw((0, n, 0, m), Draws(visit + GOLDEN).uniform)
    return accept(corpus, counts, pair, weight, (tree, proposed), Draws(~visit).uniform())


def exhaustive_visit(corpus: Corpus, counts: Counts, pair: int, tree: Tree, key: tuple[int, int]) -> Tree:
    """Resample a pair's tree by the blocked sampler over the whole chart."""
    n, m = map(len, corpus.pairs[pair])
    draws = Draws(Stream(key[0], pair, key[1]).state)
    weight = make_weight(corpus, counts, pair)
    chart = Chart(
        n,
        m,
        lambda cell: weight(emission_rule(cell), cell),
        lambda cell: (weight(STRAIGHT, cell), weight(INVERTED, cell)),
        corpus.longest,
    )
    proposed = chart.draw((0, n, 0, m), draws.uniform)
    return tree if proposed == tree else accept(corpus, counts, pair, weight, (tree, proposed), draws.uniform())


@dataclass(frozen=True)
class Piece:
    """A subtree that a local move keeps as it is, or the words of a leaf."""

    tree: Tree
    cell: Cell


def list_pieces(tree: Tree, cell: Cell, side: int) -> list[Piece]:
    """Return the subtrees of a local move at a node: its children, with one child replaced by its own children.

    A leaf is its own only piece, and a child that is a leaf is not replaced.
    """
    if tree[0] >= PAIR:
        return [Piece(tree, cell)]
    found = []
    uses = list_uses(tree, cell[0], cell[2])
    right_at = 1 + len(to_string(tree[1]))
    for number, (child, use) in enumerate(((tree[1], uses[1]), (tree[2], uses[right_at]))):
        if number == side and child[0] < PAIR:
            below = list_uses(child, use.i, use.x)
            found += [Piece(child[1], below[1].cell), Piece(child[2], below[1 + len(to_string(child[1]))].cell)]
        else:
            found.append(Piece(child, use.cell))
    return found


def choices(pieces: int, whole: bool) -> float:
    """Return the probability that a local move selects these pieces again, if it opens each child equally often."""
    return 0.0 if pieces > 3 else 1.0 if pieces < 3 and not whole else 0.5


def local_move(
    corpus: Corpus, counts: Counts, pair: int, tree: Tree, at: tuple[Cell, int], draws: Draws
) -> tuple[Tree, bool]:
    """Redraw the rules that join the pieces of a subtree, and the emissions of their words. Returns the subtree,
    and True if the move is accepted.

    `counts` include the subtree's rules. `at` is the subtree's cell, and the child that is replaced by its own
    children.
    """
    cell, side = at
    pieces = list_pieces(tree, cell, side)

    def list_items(piece: Piece, first: int, last: int) -> list[tuple[Piece, int]]:
        words = [(piece, word) for word in range(first, last)]
        return words if piece.tree[0] >= PAIR else words[:1]

    sources = [item for p in pieces for item in list_items(p, *p.cell[:2])]
    targets = sorted((item for p in pieces for item in list_items(p, *p.cell[2:])), key=lambda item: item[1])
    atoms = {piece.cell: piece for piece in pieces if piece.tree[0] < PAIR}

    def list_rules(local: Tree, cell: Cell) -> list[Use]:
        """Return the rules of a derivation of the pieces, without rules inside the pieces."""
        if cell in atoms and local == atoms[cell].tree:
            return []
        if local[0] >= PAIR:
            return [Use(local[0], *cell)]
        uses = list_uses(local, cell[0], cell[2])
        below = uses[1], uses[1 + len(to_string(local[1]))]
        return [uses[0], *list_rules(local[1], below[0].cell), *list_rules(local[2], below[1].cell)]

    def old_rules() -> list[Use]:
        uses = list_uses(tree, cell[0], cell[2])
        hidden: set[int] = set()
        strings = [to_string(piece.tree) for piece in pieces]
        place, number = 0, 0
        while place < len(uses):
            if (
                number < len(pieces)
                and uses[place].cell == pieces[number].cell
                and (to_string(tree)[place : place + len(strings[number])] == strings[number])
            ):
                if pieces[number].tree[0] < PAIR:
                    hidden |= set(range(place, place + len(strings[number])))
                place += len(strings[number])
                number += 1
            else:
                place += 1
        return [use for place, use in enumerate(uses) if place not in hidden]

    old = old_rules()
    for use in old:
        counts.add(find_dish(corpus.pairs[pair], use), -1)
    frozen = Counts(counts.rules.copy(), counts.dishes.copy())

    def weight_of_use(use: Use) -> float:
        return predictive(corpus, frozen, find_dish(corpus.pairs[pair], use))

    def emission(item: Cell) -> float:
        i, j, x, y = item
        if max(j - i, y - x) > 1 and any(piece.tree[0] < PAIR for piece, _ in sources[i:j] + targets[x:y]):
            return 0.0
        source, target = sources[i] if i < j else None, targets[x] if x < y else None
        held = {id(side[0]): side[0] for side in (source, target) if side and side[0].tree[0] < PAIR}
        if held:
            piece = next(iter(held.values()))
            both = piece.cell[0] < piece.cell[1], piece.cell[2] < piece.cell[3]
            return float(len(held) == 1 and both == (i < j, x < y) and _alike(source, target))
        return weight_of_use(real(emission_rule(item), item))

    def real(rule: int, item: Cell) -> Use:
        i = sources[item[0]][1] if rule != TARGET_NULL else 0
        x = targets[item[2]][1] if rule != SOURCE_NULL else 0
        return Use(rule, i, i + item[1] - item[0], x, x + item[3] - item[2])

    straight, inverted = (weight_of_use(Use(rule, 0, 0, 0, 0)) for rule in (STRAIGHT, INVERTED))
    chart = Chart(len(sources), len(targets), emission, lambda _: (straight, inverted), corpus.longest)
    local = chart.draw((0, len(sources), 0, len(targets)), draws.uniform)
    new: list[Use] = []
    whole = False
    leaves = 0
    for use in list_uses(local):
        if use.rule < PAIR:
            new.append(Use(use.rule, 0, 0, 0, 0))
            continue
        leaves += 1
        source, target = sources[use.i] if use.i < use.j else None, targets[use.x] if use.x < use.y else None
        piece = source or target
        assert piece is not None
        if piece[0].tree[0] < PAIR:
            whole = True
        else:
            new.append(real(use.rule, use.cell))

    def turn(uses: list[Use]) -> float:
        now = Counts(frozen.rules.copy(), frozen.dishes.copy())
        ratio = 1.0
        for use in uses:
            dish = find_dish(corpus.pairs[pair], use)
            ratio *= predictive(corpus, now, dish) / weight_of_use(use)
            now.add(dish, 1)
        return ratio

    after = choices(leaves, whole) * turn(new)
    before = choices(len(pieces), bool(atoms)) * turn(old)
    accepted = draws.uniform() * before < after
    for use in new if accepted else old:
        counts.add(find_dish(corpus.pairs[pair], use), 1)
    if not accepted:
        return tree, False

    def grow(local: Tree, item: Iterator[Use]) -> Tree:
        use = next(item)
        if use.rule < PAIR:
            one = grow(local[1], item)
            return use.rule, one, grow(local[2], item)
        held = (targets[use.x] if use.rule == TARGET_NULL else sources[use.i])[0]
        return held.tree if held.tree[0] < PAIR else local

    return grow(local, iter(list_uses(local))), True


def _alike(source: tuple[Piece, int] | None, target: tuple[Piece, int] | None) -> bool:
    return source is None or target is None or source[0] is target[0]


def local_visit(corpus: Corpus, counts: Counts, pair: int, tree: Tree, key: tuple[int, int]) -> tuple[Tree, int]:
    """Run one pass of the local sampler. `counts` include the pair's own rules. Returns the derivation and the number
    of accepted moves.
    """
    draws = Draws(Stream(key[0], pair, key[1]).state)
    moves = 2 * sum(map(len, corpus.pairs[pair])) - 1
    done = 0
    for _ in range(moves):
        rank = int(draws.uniform() * moves)
        side = 0 if draws.uniform() < 0.5 else 1
        string = to_string(tree)
        if rank < len(string) and string[rank] not in (SOURCE_NULL, TARGET_NULL):
            use = list_uses(tree)[rank]
            end = rank + 1
            while not _whole(string[rank:end]):
                end += 1
            part, accepted = local_move(corpus, counts, pair, from_string(string[rank:end]), (use.cell, side), draws)
            done += accepted
            tree = from_string(string[:rank] + to_string(part) + string[end:])
    return tree, done


def _whole(string: tuple[int, ...]) -> bool:
    """Check if a string is exactly one derivation."""
    return sum(1 if rule < PAIR else -1 for rule in string) == -1


def stirling(n: int, t: int) -> int:
    """Return the unsigned Stirling number of the first kind: ways to seat n customers at t tables."""
    if n == t:
        return 1
    return 0 if t == 0 or t > n else stirling(n - 1, t - 1) + (n - 1) * stirling(n - 1, t)
