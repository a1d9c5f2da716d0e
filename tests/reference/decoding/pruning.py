"""Cube pruning in plain Python: the kernel's algorithm, and cdec's algorithm [Huang & Chiang 2007, Figure 2].

Both fill the chart of a task with its packed grammar and language model. They select different positions of a cell's
cubes as edges.
"""

import heapq
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add
from typing import NamedTuple

from hierogram.samplers.decoding.chart import GLUE_NEXT, GLUE_START, GOAL, DecodingTask
from hierogram.samplers.decoding.cubes import INHERITED, MARGIN, NEAR_MARGIN
from hierogram.samplers.decoding.grammar import GLUE, LM, LM_UNKNOWN, LN_10, UNKNOWN_WORDS, WORDS
from hierogram.samplers.language_models.model import EMPTY, END, UNKNOWN, score


class Item(NamedTuple):
    """A chart item: its open words, its language model state, and whether other words follow the open words.

    `promised` is the estimate of the open words (log10), `score` the score of the item's best derivation, and `rank`
    this score plus the weighted estimate.
    """

    open: tuple[int, ...]
    state: int
    closed: bool
    promised: float
    score: float
    rank: float


class Cube(NamedTuple):
    """Rules, best first, and the candidate items of each nonterminal, best first."""

    rules: list[int]
    cells: list[list[Item]]


def add_rounded(*values: float) -> float:
    """Return the sum, rounded at each step as in the kernel. Python's `sum` may compensate for rounding.

    Without this rounding, the order of derivations with nearly equal scores could differ from the kernel's order.
    """
    return reduce(add, values)


class Search:
    """A partially filled chart. `cells[start, end]` has the items of X, `cells[None, end]` the items of S."""

    def __init__(self, task: DecodingTask, *, combine_on_push: bool) -> None:
        self.task = task
        self.combine_on_push = combine_on_push
        self.rules = task.grammar.rules
        self.numbers = [*task.weighed.lm_words.tolist(), *task.sentence.lm_words.tolist()]
        self.trie: dict = {}
        for node in range(1, len(task.grammar.rule_first) - 1):
            first, last = task.grammar.rule_first[node], task.grammar.rule_first[node + 1]
            if first < last:
                below = self.trie
                for symbol in task.grammar.source_side(int(first)):
                    below = below.setdefault(max(symbol, -1), {})
                below["rules"] = [int(rule) for rule in task.weighed.order[first:last]]
        self.queries: dict[tuple[int, int], tuple[float, int]] = {}
        self.cells: dict[tuple[int | None, int], list[Item]] = {}

    def best(self) -> float:
        """Return the score of the best derivation found."""
        n = len(self.task.sentence.words)
        for start in range(n - 1, -1, -1):
            for end in range(start + 1, min(n, start + self.task.limits.span) + 1):
                self.cells[start, end] = self.filled(self.cubes(start, end))
        for end in range(1, n + 1):
            spans = range(max(0, end - self.task.limits.span), end)
            self.cells[None, end] = self.filled(
                [
                    Cube([GLUE_NEXT], [self.cells[None, start], self.cells[start, end]])
                    if start
                    else Cube([GLUE_START], [self.cells[0, end]])
                    for start in spans
                    if self.cells[start, end]
                ]
            )
        [goal] = self.filled([Cube([GOAL], [self.cells[None, n]])])
        return goal.score

    def cubes(self, start: int, end: int) -> list[Cube]:
        found = [Cube(rules, cells) for rules, cells in self.matches(self.trie, start, end, [])]
        # Keep the kernel's order, because the first of several places with equal estimates is popped.
        found.reverse()
        if end == start + 1:
            first = self.task.sentence.extra_first
            found += [Cube([self.rules + extra], []) for extra in range(first[start], first[start + 1])]
        return found

    def matches(self, below: dict, start: int, end: int, cells: list) -> Iterator[tuple[list[int], list]]:
        if start == end:
            if "rules" in below:
                yield below["rules"], cells
            return
        word = int(self.task.sentence.words[start])
        if word >= 0 and word in below:
            yield from self.matches(below[word], start + 1, end, cells)
        if -1 in below:
            for middle in range(start + 1, end + 1):
                if self.cells.get((start, middle)):
                    yield from self.matches(below[-1], middle, end, [*cells, self.cells[start, middle]])

    def filled(self, cubes: list[Cube]) -> list[Item]:
        if self.combine_on_push:
            made = self.popped_as_cdec([Cube([rule], cube.cells) for cube in cubes for rule in cube.rules])
        else:
            made = self.popped(cubes)
        best: dict[tuple, Item] = {}
        for item in made:
            key = (item.open, item.state, item.closed)
            if key not in best or item.score > best[key].score:
                best[key] = item
        return sorted(best.values(), key=lambda item: -item.rank)

    def popped(self, cubes: list[Cube]) -> list[Item]:
        """Join places in the order of their estimates while a place may be among the best `pops` results."""
        heap: list = []
        kept: list = []
        pops = self.task.limits.pops

        def push(cube: Cube, place: tuple[int, ...], grown: int, gained: float) -> None:
            if all(k < size for k, size in zip(place, (len(cube.rules), *map(len, cube.cells)), strict=True)):
                promise = self.estimate(cube, place, gained)
                if not (pops and len(kept) == pops and promise <= kept[0][0]):
                    heapq.heappush(heap, (-promise, next(number), cube, place, grown))

        number = iter(range(10**9))
        for cube in cubes:
            push(cube, (0,) * (1 + len(cube.cells)), 0, 0.0)
        while heap:
            promise, _, cube, place, grown = heapq.heappop(heap)
            if pops and len(kept) == pops and -promise <= kept[0][0]:
                break
            item = self.joined(cube, place)
            if not pops or len(kept) < pops:
                heapq.heappush(kept, (item.rank, next(number), item))
            elif item.rank > kept[0][0]:
                heapq.heapreplace(kept, (item.rank, next(number), item))
            gained = item.rank - self.apart(cube, place)
            for axis in range(grown, len(place)):
                push(cube, (*place[:axis], place[axis] + 1, *place[axis + 1 :]), axis, gained)
        return [item for _, _, item in kept]

    def popped_as_cdec(self, cubes: list[Cube]) -> list[Item]:
        """Pop hypotheses in cdec's order: each rule has its own cube, and hypotheses are combined when pushed."""
        heap: list = []
        number = iter(range(10**9))
        seen = set()

        def push(which: int, place: tuple[int, ...]) -> None:
            cube = cubes[which]
            if (which, place) in seen or any(k >= len(cell) for k, cell in zip(place[1:], cube.cells, strict=True)):
                return
            seen.add((which, place))
            item = self.joined(cube, place)
            heapq.heappush(heap, (-item.rank, next(number), which, place, item))

        for which, cube in enumerate(cubes):
            push(which, (0,) * (1 + len(cube.cells)))
        made = []
        while heap and (not self.task.limits.pops or len(made) < self.task.limits.pops):
            *_, which, place, item = heapq.heappop(heap)
            made.append(item)
            for axis in range(1, len(place)):
                push(which, (*place[:axis], place[axis] + 1, *place[axis + 1 :]))
        return made

    def estimate(self, cube: Cube, place: Sequence[int], gained: float) -> float:
        """Return the estimate before joining (`apart`), plus `INHERITED` times a neighbor's gain, plus a margin."""
        margin = (NEAR_MARGIN if any(place[1:]) else MARGIN) * max(self.weight(LM), 0.0) * len(cube.cells)
        return add_rounded(self.apart(cube, place), INHERITED * gained, margin)

    def apart(self, cube: Cube, place: Sequence[int]) -> float:
        """Return the estimate of a place before joining: the rule with the n-grams inside its runs of words, and the
        items' ranks.
        """
        rule = cube.rules[place[0]]
        if 0 <= rule < self.rules:
            total = float(self.task.weighed.estimate[rule])
        else:
            total = self.own(rule)
            if rule >= self.rules:
                words = self.side(rule)
                total += self.through(words, EMPTY)[0] * LN_10 * self.weight(LM)
        return add_rounded(total, *(cell[k].rank for cell, k in zip(cube.cells, place[1:], strict=True)))

    def weight(self, feature: int) -> float:
        return float(self.task.weighed.weights[feature])

    def own(self, rule: int) -> float:
        if rule < 0:
            return self.weight(GLUE) if rule == GLUE_NEXT else 0.0
        if rule < self.rules:
            return float(self.task.weighed.score[rule])
        words = self.side(rule)
        unknown = sum(word == UNKNOWN for word in words) if self.task.model.order else 0
        passed = int(self.task.sentence.passes[rule - self.rules])
        return self.weight(WORDS) * len(words) + self.weight(UNKNOWN_WORDS) * passed + self.weight(LM_UNKNOWN) * unknown

    def side(self, rule: int) -> list[int]:
        """Return the target side: the language model's word numbers, -k for nonterminal k."""
        sentence = self.task.sentence
        if rule < 0:
            return [-1, -2] if rule == GLUE_NEXT else [-1]
        if rule < self.rules:
            symbols = self.task.grammar.target_side(rule)
        else:
            extra = rule - self.rules
            symbols = sentence.target[sentence.target_start[extra] : sentence.target_start[extra + 1]].tolist()
        return [symbol if symbol < 0 else self.numbers[symbol] for symbol in symbols]

    def query(self, state: int, word: int) -> tuple[float, int]:
        if (state, word) not in self.queries:
            log10, following = score(self.task.model, state, word)
            self.queries[state, word] = float(log10), int(following)
        return self.queries[state, word]

    def through(self, words: Sequence[int], state: int) -> tuple[float, int]:
        if not self.task.model.order:
            return 0.0, EMPTY
        total = 0.0
        for word in words:
            log10, state = self.query(state, word)
            total += log10
        return total, state

    def joined(self, cube: Cube, place: Sequence[int]) -> Item:
        rule = cube.rules[place[0]]
        tails = [cell[k] for cell, k in zip(cube.cells, place[1:], strict=True)]
        opened, state, closed, final, promised = self.words(rule, tails)
        total = add_rounded(self.own(rule) + self.weight(LM) * (final * LN_10), *(tail.score for tail in tails))
        return Item(tuple(opened), state, closed, promised, total, total + self.weight(LM) * LN_10 * promised)

    def words(self, rule: int, tails: list[Item]) -> tuple[list[int], int, bool, float, float]:
        opened: list[int] = []
        state, closed, final, promised = EMPTY, False, 0.0, 0.0
        model = self.task.model
        if not model.order:
            return opened, state, closed, final, promised
        if rule == GOAL:
            return opened, EMPTY, True, self.query(tails[0].state, END)[0], 0.0
        if rule in (GLUE_START, GLUE_NEXT):
            # S begins with <s>, so nothing in it is open.
            state, closed = (model.begin if rule == GLUE_START else tails[0].state), True
        for symbol in self.side(rule)[1 if rule == GLUE_NEXT else 0 :]:
            for word in (symbol,) if symbol >= 0 else tails[-symbol - 1].open:
                log10, state = self.query(state, word)
                if closed:
                    final += log10
                    continue
                promised += log10
                opened.append(word)
                there = model.states[state]
                closed = bool(there["length"] < len(opened) or there["open"] == 0)
            if symbol < 0 and tails[-symbol - 1].closed:
                state, closed = tails[-symbol - 1].state, True
        return opened, state, closed, final, promised
