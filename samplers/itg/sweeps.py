"""One sweep of the ITG samplers: how each pair is visited, by slices, by local moves or by its whole chart."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, mix, stream, uniform
from hierogram.samplers.itg.cells import SparseChart
from hierogram.samplers.itg.charts import Drawn, Items, draw_derivation, level_out, sum_inside
from hierogram.samplers.itg.derivations import Derivations, lay_out
from hierogram.samplers.itg.gibbs import Local, resample_locally
from hierogram.samplers.itg.model import (
    Base,
    Counts,
    Weights,
    add_in_turn,
    copy_emissions,
    count_derivation,
    weigh_rules,
)
from hierogram.samplers.itg.sparse import (
    CELLS,
    COMBINATIONS,
    GIVEN_UP,
    MOST,
    NO_ROOM,
    draw_by_flat_slices,
    draw_by_slices,
)

SLICE, GIBBS, EXHAUSTIVE, FLAT = "slice", "gibbs", "exhaustive", "flat"
METHODS = (SLICE, GIBBS, EXHAUSTIVE, FLAT)
"""By slices; by local moves; by whole charts; by flat slices."""

_SLICE, _GIBBS, _EXHAUSTIVE, _FLAT = range(4)
_RESAMPLED, _PROPOSED, _ACCEPTED, _GIVEN_UP, _CELLS, _COMBINATIONS = range(6)


class ItgState(NamedTuple):
    """A chain: the derivations, the counts that follow from them, and the base distributions and strengths."""

    derivations: Derivations
    counts: Counts
    base: Base


class ItgPlan(NamedTuple):
    """One sweep: its `number` in the chain, and the number of each pair's own sweep, int64[P], 0 to leave it out."""

    number: int
    sweeps: NDArray[np.int64]


class Scratch(NamedTuple):
    """What a sweep works in: `whole` float64 is the chart of the exhaustive sampler, `scale` float64[n + m];
    `numbers` int64[6] adds up what was done.
    """

    nodes: NDArray[np.void]
    proposed: NDArray[np.void]
    weights: Weights
    chart: SparseChart
    local: Local
    items: Items
    drawn: Drawn
    whole: NDArray[np.float64]
    scale: NDArray[np.float64]
    numbers: NDArray[np.int64]


@njit
def _accept(batch, pair, state, scratch, proposal, random):
    """Count the present derivation or the proposed one, by Metropolis-Hastings.

    [Johnson, Griffiths & Goldwater 2007]. `proposal` is the rules and length of the proposed one; whether it was
    accepted. Both were drawn, or weighed, by the weights in `scratch`, under which the pair's own rules are not
    counted.
    """
    derivations, counts, base = state
    rules, length = proposal
    first = derivations.offset[pair]
    before = derivations.length[pair]
    lay_out(rules, length, scratch.proposed)
    ratio = add_in_turn(batch, pair, base, scratch.proposed, length, counts, scratch.weights)
    count_derivation(batch, pair, scratch.proposed, length, counts, -1)
    present = add_in_turn(batch, pair, base, scratch.nodes, before, counts, scratch.weights)
    if uniform(advance(random)) * present >= ratio:
        return False
    count_derivation(batch, pair, scratch.nodes, before, counts, -1)
    count_derivation(batch, pair, scratch.proposed, length, counts, 1)
    derivations.length[pair] = length
    for at in range(length):
        derivations.rules[first + at] = rules[at]
    return True


@njit
def _is_same(derivations, pair, rules, length):
    """Whether a drawn derivation is the one that stands."""
    same = length == derivations.length[pair]
    for at in range(length):
        if not same:
            break
        same = derivations.rules[derivations.offset[pair] + at] == rules[at]
    return same


@njit
def _settle(batch, pair, state, scratch, proposal, random):
    """After a draw, with the pair's own rules not counted: count the derivation that stands then."""
    rules, length = proposal
    if _is_same(state.derivations, pair, rules, length):
        count_derivation(batch, pair, scratch.nodes, length, state.counts, 1)
    else:
        scratch.numbers[_PROPOSED] += 1
        if _accept(batch, pair, state, scratch, proposal, random):
            scratch.numbers[_ACCEPTED] += 1


@njit
def _resample_locally(batch, pair, state, scratch, random):
    """A pass of the local sampler over a pair: how many moves it accepted."""
    derivations = state.derivations
    first, last = derivations.offset[pair], derivations.offset[pair + 1]
    rules = derivations.rules[first:last]
    length, accepted = resample_locally(
        batch, pair, state.base, state.counts, scratch.local, rules, np.int64(derivations.length[pair]), random
    )
    derivations.length[pair] = length
    return accepted


@njit
def _take_items(scratch, n, m):
    """The weights of a pair as what the whole chart parses."""
    items, weights = scratch.items, scratch.weights
    items.size[0], items.size[1] = n, m
    copy_emissions(weights, items, n, m)
    items.rules[0], items.rules[1] = weights.rules[0], weights.rules[1]
    level_out(items, scratch.scale)


@njit
def _begin(batch, pair, state, scratch):
    """Take a pair's own rules out of the counts and weigh all that it could have; its length."""
    derivations = state.derivations
    length = np.int64(derivations.length[pair])
    lay_out(derivations.rules[derivations.offset[pair] :], length, scratch.nodes)
    count_derivation(batch, pair, scratch.nodes, length, state.counts, -1)
    weigh_rules(batch, pair, state.base, state.counts, scratch.weights)
    return length


@njit
def _visit_by_slices(batch, pair, state, scratch, slices, visit):
    """Resample a pair by slices: their a, and whether they are flat; whether its chart found room."""
    shape, flat = slices
    length = _begin(batch, pair, state, scratch)
    if flat:
        drawn = draw_by_flat_slices(scratch.chart, scratch.weights, shape, scratch.nodes, length, visit)
    else:
        drawn = draw_by_slices(scratch.chart, scratch.weights, shape, scratch.nodes, length, visit)
    if drawn in (NO_ROOM, GIVEN_UP):
        count_derivation(batch, pair, scratch.nodes, length, state.counts, 1)
        if drawn == NO_ROOM:
            return False
        scratch.numbers[_GIVEN_UP] += 1
    else:
        _settle(batch, pair, state, scratch, (scratch.chart.rules, drawn), ~visit)
    scratch.numbers[_CELLS] += scratch.chart.registers[CELLS]
    scratch.numbers[_COMBINATIONS] += scratch.chart.registers[COMBINATIONS]
    return True


@njit
def _visit_whole(batch, pair, state, scratch, visit):
    """Resample a pair from its whole chart."""
    _begin(batch, pair, state, scratch)
    _take_items(scratch, np.int64(scratch.nodes[0]["j"]), np.int64(scratch.nodes[0]["y"]))
    sum_inside(scratch.whole, scratch.items)
    drawn, random = draw_derivation(scratch.whole, scratch.items, visit, scratch.drawn)
    _settle(batch, pair, state, scratch, (scratch.drawn.rules, drawn), random)


@njit_inline
def _products(n, m):
    """How many products the whole chart of so many words takes, at most."""
    return n * (n + 1) * (n + 2) // 3 * (m + 1) * (m + 2) * (m + 3) // 6


@njit
def sweep_pairs(pairs, batch, state, scratch, plan, how, key):
    """Resample some pairs, the first to the last + 1; the pair whose chart found no room, or the last + 1.

    `how` is the place of the method in `METHODS`, a of the slices of short pairs and of long ones, and the most
    products of a short pair's whole chart.
    """
    method, of_short, of_long, most = how
    first, last = pairs
    for pair in range(first, last):
        if plan.sweeps[pair] == 0 or state.derivations.length[pair] == 0:
            continue
        visit = stream(key, batch.pairs[pair], plan.sweeps[pair])
        n = batch.source_offset[pair + 1] - batch.source_offset[pair]
        m = batch.target_offset[pair + 1] - batch.target_offset[pair]
        if method == _GIBBS:
            scratch.numbers[_PROPOSED] += 2 * (n + m) - 1
            scratch.numbers[_ACCEPTED] += _resample_locally(batch, pair, state, scratch, visit)
        elif method == _EXHAUSTIVE:
            _visit_whole(batch, pair, state, scratch, visit)
        else:
            shape = of_short if _products(n, m) <= most else of_long
            if not _visit_by_slices(batch, pair, state, scratch, (shape, method == _FLAT), visit):
                return pair
            if _products(n, m) > scratch.chart.registers[MOST]:
                # Whether a chart is given up depends on the derivation: only what always follows is exact.
                _resample_locally(batch, pair, state, scratch, mix(visit))
        scratch.numbers[_RESAMPLED] += 1
    return last
