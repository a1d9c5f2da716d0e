"""Derivations of a sentence from its chart: drawn, the best, and what to expect of all of them.

Draws are made from the chart's grammar, in which a derivation's rules are independent. Under the Dirichlet processes
that the grammar stands for they are not: a fragment used twice in a sentence is likelier the second time. So a draw
also gives the ratio of the two probabilities, for a Metropolis-Hastings chain over draws [CGB09 §5; Johnson et al.
2007].
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.chart import Chart, SentenceGrammar, cell_of
from hierogram.samplers.charts.edges import (
    PAIR,
    SINGLE,
    Items,
    best_option,
    choose,
    empty_items,
    find_item,
    with_room,
)
from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.compiled.streams import GOLDEN, advance, mix, stream, uniform
from hierogram.samplers.exceptions import GrammarError

_FEWEST_VISITS = 1e-7
"""Items that are expected less often are left out."""


class Productions(NamedTuple):
    """The productions of context-free trees that each rule stands for, and the fragment that it begins.

    For each kind of rule (word, pair, single): `start` int64[3, R+1] into `production` int32 and `place` int8: the
    production covers the rule's whole span (0), its left part (1) or its right part (2). `fragment` int32[3, R]: the
    fragment that the rule begins, -1 inside one.
    """

    start: NDArray[np.int64]
    production: NDArray[np.int32]
    place: NDArray[np.int8]
    fragment: NDArray[np.int32]


class Restaurants(NamedTuple):
    """The Dirichlet processes: `seated` float64[F], n_e + α P0(e) of each fragment; `label` int32[F] its root label;
    `whole` float64[L], n_c + α of each label."""

    seated: NDArray[np.float64]
    label: NDArray[np.int32]
    whole: NDArray[np.float64]


class Draws(NamedTuple):
    """Derivations drawn from a chart: `tree` uint64[D], the same for derivations of the same tree; `log_ratio`
    float64[D], natural log of each one's probability under the processes over that under the chart's grammar, up to a
    constant."""

    tree: NDArray[np.uint64]
    log_ratio: NDArray[np.float64]


def stays(seed: int, sentence: int, drawn: Draws) -> NDArray[np.int64]:
    """How often a Metropolis-Hastings chain that proposes one draw after the other is at each, int64[D].

    Its stream is that of the number after the draws'.
    """
    times = np.zeros(len(drawn.log_ratio), np.int64)
    count_stays(seed, sentence, drawn.log_ratio, times)
    return times


class _Space(NamedTuple):
    stack: NDArray[np.int32]
    fragment_uses: NDArray[np.int32]
    label_uses: NDArray[np.int32]
    used: NDArray[np.int32]


class Forest:
    """The derivations of a sentence that its chart holds, below one symbol that covers all words."""

    def __init__(self, grammar: SentenceGrammar, chart: Chart, root: int) -> None:
        """Raises `GrammarError` where the root has no derivation."""
        if grammar.words == 0 or not np.isfinite(chart.log_weight(root, 0, grammar.words)):
            raise GrammarError("the sentence has no derivation")
        self.grammar = grammar
        self.chart = chart
        self.root = root
        self.items: Items = empty_items(grammar, chart)

    @property
    def options(self) -> int:
        """How many options are known so far."""
        return int(self.items.used[1])

    def draw(self, seed: int, sentence: int, draws: int, productions: Productions, restaurants: Restaurants) -> Draws:
        """Independent draws, number k from the stream of (seed, sentence, k)."""
        drawn = Draws(np.zeros(draws, np.uint64), np.zeros(draws))
        space = _Space(
            np.zeros((self._depth(), 3), np.int32),
            np.zeros(len(restaurants.seated), np.int32),
            np.zeros(len(restaurants.whole), np.int32),
            np.zeros(self._depth(), np.int32),
        )
        done = 0
        while done < draws:
            done = draw_derivations(
                done,
                seed,
                sentence,
                self.root,
                self.grammar,
                self.chart,
                self.items,
                productions,
                restaurants,
                drawn,
                space,
            )
            if done < draws:
                self.items = with_room(self.items)
        return drawn

    def count(self, seed: int, sentence: int, times: NDArray[np.int64]) -> NDArray[np.float64]:
        """How often each option is used when draw k counts `times[k]` times; the draws have been made before."""
        counts = np.zeros(self.options)
        count_options(seed, sentence, self.root, self.grammar, self.chart, self.items, times, counts, self._stack())
        return counts

    def derivation(self, seed: int, sentence: int, draw: int) -> NDArray[np.int64]:
        """The options of a draw that has been made, parents first, left before right."""
        return self._walk(seed, sentence, draw, False)

    def best(self) -> NDArray[np.int64]:
        """The options of the best derivation, of a chart filled with `best`; parents first, left before right."""
        return self._walk(0, 0, 0, True)

    def expected(self) -> NDArray[np.float64]:
        """How often each option is expected to be used, of a chart filled with sums: inside times outside."""
        while True:
            visits = np.zeros_like(self.chart.value)
            counts = np.zeros(len(self.items.option))
            if expect_options(
                self.root, self.grammar, self.chart, self.items, visits, np.zeros_like(visits[0]), counts
            ):
                return counts[: self.options]
            self.items = with_room(self.items)

    def _depth(self) -> int:
        # A loop of single symbols may go round several times; beyond this bound it is not believed.
        return 64 * (2 * self.grammar.words + self.grammar.labels)

    def _stack(self) -> NDArray[np.int32]:
        return np.zeros((self._depth(), 3), np.int32)

    def _walk(self, seed: int, sentence: int, draw: int, best: bool) -> NDArray[np.int64]:
        found = np.zeros(self._depth(), np.int64)
        while True:
            number = walk(
                seed, sentence, draw, best, self.root, self.grammar, self.chart, self.items, found, self._stack()
            )
            if number >= 0:
                return found[:number]
            self.items = with_room(self.items)


@njit
def _push_parts(stack, top, option, item):
    """Put the parts of a chosen option on the stack, the left one on top; the stack's new height."""
    if option["kind"] == PAIR:
        stack[top, 0] = option["right"]
        stack[top, 1] = option["split"]
        stack[top, 2] = item["end"]
        stack[top + 1, 0] = option["left"]
        stack[top + 1, 1] = item["start"]
        stack[top + 1, 2] = option["split"]
        return top + 2
    if option["kind"] == SINGLE:
        stack[top, 0] = option["left"]
        stack[top, 1] = item["start"]
        stack[top, 2] = item["end"]
        return top + 1
    return top


@njit
def _tree_hash(option, item, productions):
    """The option's part of the number that tells trees apart: a sum over productions with their spans."""
    total = np.uint64(0)
    kind, rule, split = option["kind"], option["rule"], option["split"]
    for p in range(productions.start[kind, rule], productions.start[kind, rule + 1]):
        place = productions.place[p]
        start = split if place == 2 else item["start"]
        end = split if place == 1 else item["end"]
        middle = split if place == 0 else 0
        spans = (np.uint64(start) << np.uint64(40)) ^ (np.uint64(end) << np.uint64(20)) ^ np.uint64(middle)
        total += mix(mix(np.uint64(productions.production[p]) + GOLDEN) + mix(spans))
    return total


@njit
def draw_derivations(first, seed, sentence, root, grammar, chart, items, productions, restaurants, drawn, space):
    """Draw from number `first` on; the number at which room for options ended, or that of all draws."""
    for draw in range(first, len(drawn.tree)):
        state = stream(seed, sentence, draw)
        space.stack[0, 0] = root
        space.stack[0, 1] = 0
        space.stack[0, 2] = grammar.words
        top = 1
        tree = np.uint64(0)
        ratio = 0.0
        used = 0
        full = False
        while top > 0:
            top -= 1
            place = find_item(space.stack[top, 0], space.stack[top, 1], space.stack[top, 2], grammar, chart, items)
            if place < 0:
                full = True
                break
            state = advance(state)
            item = items.item[place]
            option = items.option[choose(uniform(state), item, items.option)]
            tree += _tree_hash(option, item, productions)
            fragment = productions.fragment[option["kind"], option["rule"]]
            if fragment >= 0:
                label = restaurants.label[fragment]
                before = space.fragment_uses[fragment]
                ratio += np.log1p(before / restaurants.seated[fragment])
                ratio -= np.log1p(space.label_uses[label] / restaurants.whole[label])
                space.fragment_uses[fragment] += 1
                space.label_uses[label] += 1
                space.used[used] = fragment
                used += 1
            top = _push_parts(space.stack, top, option, item)
        for u in range(used):
            space.fragment_uses[space.used[u]] = 0
            space.label_uses[restaurants.label[space.used[u]]] = 0
        if full:
            return draw
        drawn.tree[draw] = tree
        drawn.log_ratio[draw] = ratio
    return len(drawn.tree)


@njit
def count_stays(seed, sentence, log_ratio, times):
    """Add how often the chain over the draws is at each, the first of them its start."""
    state = stream(seed, sentence, len(times))
    at = 0
    for draw in range(len(times)):
        state = advance(state)
        if np.log(uniform(state)) < log_ratio[draw] - log_ratio[at]:
            at = draw
        times[at] += 1


@njit
def count_options(seed, sentence, root, grammar, chart, items, times, counts, stack):
    """Repeat draws and add how often each counts to the options that it uses."""
    for draw in range(len(times)):
        if times[draw] == 0:
            continue
        state = stream(seed, sentence, draw)
        stack[0, 0] = root
        stack[0, 1] = 0
        stack[0, 2] = grammar.words
        top = 1
        while top > 0:
            top -= 1
            place = find_item(stack[top, 0], stack[top, 1], stack[top, 2], grammar, chart, items)
            state = advance(state)
            item = items.item[place]
            chosen = choose(uniform(state), item, items.option)
            counts[chosen] += times[draw]
            top = _push_parts(stack, top, items.option[chosen], item)


@njit
def walk(seed, sentence, draw, best, root, grammar, chart, items, found, stack):
    """Write the options of one derivation, drawn or the best; how many there are, -1 where room for options ended."""
    state = stream(seed, sentence, draw)
    stack[0, 0] = root
    stack[0, 1] = 0
    stack[0, 2] = grammar.words
    top = 1
    number = 0
    while top > 0:
        top -= 1
        place = find_item(stack[top, 0], stack[top, 1], stack[top, 2], grammar, chart, items)
        if place < 0:
            return -1
        item = items.item[place]
        if best:
            chosen = best_option(item, items.option)
        else:
            state = advance(state)
            chosen = choose(uniform(state), item, items.option)
        found[number] = chosen
        number += 1
        top = _push_parts(stack, top, items.option[chosen], item)
    return number


@njit
def expect_options(root, grammar, chart, items, visits, waiting, counts):
    """Add to `counts` how often each option is expected to be used; False where room for options ended.

    `visits` float64[cells, S] and `waiting` float64[S] are zero. Spans go from long to short; within a span the visits
    of labels go down chains of single symbols until none is left waiting.
    """
    words = grammar.words
    visits[cell_of(0, words), root] = 1.0
    for width in range(words, 0, -1):
        for i in range(words - width + 1):
            j = i + width
            cell = cell_of(i, j)
            active = chart.active[cell]
            number = chart.number[cell]
            here = visits[cell]
            moved = False
            for label in range(grammar.labels):
                waiting[label] = here[label]
                moved = moved or here[label] > _FEWEST_VISITS
            while moved:
                moved = False
                for label in range(grammar.labels):
                    arrived = waiting[label]
                    if arrived <= _FEWEST_VISITS:
                        continue
                    waiting[label] = 0.0
                    place = find_item(label, i, j, grammar, chart, items)
                    if place < 0:
                        return False
                    for o in range(items.item[place]["first"], items.item[place]["last"]):
                        option = items.option[o]
                        if option["kind"] == SINGLE:
                            passed = arrived * option["probability"]
                            waiting[option["left"]] += passed
                            here[option["left"]] += passed
                            moved = moved or waiting[option["left"]] > _FEWEST_VISITS
            for a in range(number):
                symbol = active[a]
                if here[symbol] <= _FEWEST_VISITS:
                    continue
                place = find_item(symbol, i, j, grammar, chart, items)
                if place < 0:
                    return False
                for o in range(items.item[place]["first"], items.item[place]["last"]):
                    option = items.option[o]
                    expected = here[symbol] * option["probability"]
                    counts[o] += expected
                    if option["kind"] == PAIR:
                        visits[cell_of(i, np.int64(option["split"])), option["left"]] += expected
                        visits[cell_of(np.int64(option["split"]), j), option["right"]] += expected
    return True
