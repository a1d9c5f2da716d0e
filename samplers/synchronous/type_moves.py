"""Type-based moves: joint draws of all sites of a type [Liang et al. 2010] (docs/model.md, section 4).

A site is a node of a derivation with a free cut. Three rules determine its type: the joined rule without the cut, and
the upper and lower rules with the cut. A move draws a free cut as the pivot. If it is a site, the move resamples the
cuts of all sites of its type that share no rule use. A *split* site is cut.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, mix, stream, uniform
from hierogram.samplers.counts.chain import ChainState, CountsError
from hierogram.samplers.counts.models import Model
from hierogram.samplers.counts.table import BELOW_ZERO, CountTable, add, look_up, with_room
from hierogram.samplers.forests.derivations import Batch, State, WalkSpace, make_summary, walk_space
from hierogram.samplers.forests.forest import push_tails, view_pair
from hierogram.samplers.forests.fragments import (
    compose,
    source_terminals_of,
    summary_key,
    summary_size,
    target_terminals_of,
)
from hierogram.samplers.grammar.numbers import MAX_TYPE_MOVES

PIVOT_STREAMS = 1 << 62
"""Random streams of moves have the pair number `PIVOT_STREAMS` + number of the batch's first pair."""
JOINED, UPPER, LOWER = 0, 1, 2
"""Indices of the rules of a site."""


class Sites(NamedTuple):
    """Sites of a batch under its current derivations. Nodes are numbered across all pairs."""

    # uint64[N]: hash of the site type of each node, 0 if the node is not a site.
    types: NDArray[np.uint64]
    # int64[N]: nearest cut ancestor of each node, which is the root of its upper rule. -1 for roots and for nodes
    # outside the derivation.
    heads: NDArray[np.int64]


class SiteSpace(NamedTuple):
    """Scratch memory for sites: `keys` uint64[3, 2] and packed `sizes` uint64[3] of a site's rules."""

    walk: WalkSpace
    keys: NDArray[np.uint64]
    sizes: NDArray[np.uint64]


@njit_inline
def _store_rule(v, which, key_mask, space):
    high, low = summary_key(space.walk.summary, v, key_mask)
    space.keys[which, 0] = high
    space.keys[which, 1] = low
    space.sizes[which] = summary_size(space.walk.summary, v)


@njit_inline
def _compose_up_to(v, head, view, work):
    x = v
    while x != head:
        x = np.int64(work.summary[x]["parent"])
        compose(x, view, work.summary, work.powers, work.scratch)


@njit_inline
def _store_rules(v, head, view, key_mask, space):
    """Store the three rules of site v in `space`. The parents from v up to `head` must be set."""
    work = space.walk
    current_cut = view.cut[v]
    make_summary(head, view, work)
    make_summary(v, view, work)
    _store_rule(v, LOWER, key_mask, space)
    _store_rule(head, UPPER if current_cut else JOINED, key_mask, space)
    view.cut[v] = 1 - current_cut
    _compose_up_to(v, head, view, work)
    _store_rule(head, JOINED if current_cut else UPPER, key_mask, space)
    view.cut[v] = current_cut
    _compose_up_to(v, head, view, work)


@njit_inline
def _site_type(space):
    value = np.uint64(0)
    for which in range(3):
        value = mix(value + space.keys[which, 0])
        value = mix(value + space.keys[which, 1])
    return value | np.uint64(1)


@njit
def _find_sites(pairs, last_node, batch, state, sites, space):
    """Update `sites` for pairs. Stops after node `last_node`, whose rules are then in `space`, unless -1."""
    work = space.walk
    for pair in pairs:
        view = view_pair(batch, state, pair)
        first = batch.forests.node_offset[pair]
        root = len(view.node) - 1
        sites.types[first : first + root + 1] = np.uint64(0)
        sites.heads[first : first + root + 1] = -1
        work.registers[0]["epoch"] += 1
        work.stack[0] = root
        depth = 1
        while depth > 0:
            depth -= 1
            v = np.int64(work.stack[depth])
            if v != root:
                parent = np.int64(work.summary[v]["parent"])
                head = first + parent if parent == root or view.cut[parent] else sites.heads[first + parent]
                sites.heads[first + v] = head
                if view.node[v]["free"]:
                    _store_rules(v, head - first, view, batch.word_hashes.key_mask, space)
                    sites.types[first + v] = _site_type(space)
                    if first + v == last_node:
                        return
            above = depth
            depth = push_tails(v, view, work.stack, depth)
            for k in range(above, depth):
                work.summary[work.stack[k]]["parent"] = v


@dataclass(frozen=True, slots=True)
class SiteRules:
    """Joined, upper and lower rules of a site type: `keys` uint64[3, 2] and packed `sizes` uint64[3]."""

    keys: NDArray[np.uint64]
    sizes: NDArray[np.uint64]

    @property
    def equal_parts(self) -> bool:
        """True if the upper rule equals the lower rule, so that a split site uses this rule twice."""
        return bool((self.keys[UPPER] == self.keys[LOWER]).all())


def log_weights(
    model: Model, rules: SiteRules, other_counts: NDArray[np.int64], total: int, sites: int
) -> NDArray[np.float64]:
    """Return the natural log weight of each number m = 0..n of split sites, float64[n + 1], maximum 0.

    The weight of m is the number C(n, m) of choices of m sites, times the probability of one choice. `other_counts`
    int64[3] are the counts of the three rules, and `total` is the count of all rules. Both exclude the n `sites`.
    """
    split = np.arange(sites + 1)
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, sites + 1)))))
    weights = logs[sites] - logs[split] - logs[sites - split]
    weights += _rising(model, rules, other_counts, JOINED, sites)[sites - split]
    if rules.equal_parts:
        weights += _rising(model, rules, other_counts, UPPER, 2 * sites)[2 * split]
    else:
        weights += (
            _rising(model, rules, other_counts, UPPER, sites)[split]
            + _rising(model, rules, other_counts, LOWER, sites)[split]
        )
    denominators = np.cumsum(np.log(total + model.strength + np.arange(2 * sites)))
    weights -= denominators[sites + split - 1]
    return np.asarray(weights - weights.max())


def _rising(
    model: Model, rules: SiteRules, other_counts: NDArray[np.int64], which: int, limit: int
) -> NDArray[np.float64]:
    """Return ln (x (x + 1) … (x + k - 1)) for k = 0..`limit`. x is the other count of a rule plus α P0."""
    size = rules.sizes[which]
    log_mass = np.log(model.strength) + float(source_terminals_of(size)) * model.log_source
    log_mass += float(target_terminals_of(size)) * model.log_target
    count = float(other_counts[which])
    with np.errstate(divide="ignore"):
        factors = np.logaddexp(np.log(count + np.arange(limit)), log_mass)
    return np.concatenate(([0.0], np.cumsum(factors)))


def _uniform_numbers(key: int, pair: int, move: int) -> Iterator[float]:
    state = np.uint64(stream(key, PIVOT_STREAMS + pair, move))
    while True:
        state = np.uint64(advance(state))
        yield float(uniform(state))


class TypeSampler:
    """Sampler of type-based moves over the derivations of a batch. The model must be a Dirichlet process."""

    def __init__(self, model: Model, batch: Batch) -> None:
        self._model = model
        self._batch = batch
        nodes = batch.forests.nodes
        self._sites = Sites(np.zeros(nodes, np.uint64), np.full(nodes, -1, np.int64))
        self._space = SiteSpace(walk_space(batch), np.zeros((3, 2), np.uint64), np.zeros(3, np.uint64))
        self._free = np.flatnonzero(batch.forests.node["free"])

    def step(self, key: int, state: ChainState, sweep: int, pivots: int) -> ChainState:
        """Return the state after `pivots` moves, each with a random pivot. Consumes `state`.

        `sweep` is the number of the last sweep, after which all pairs must be at T = 1. Move i after `sweep` uses the
        random stream of sweep `sweep` * MAX_TYPE_MOVES + i of pair `PIVOT_STREAMS` + number of the first pair. Pivots
        are drawn uniformly from all free cuts, inside and outside the derivations, so that the choice of a pivot does
        not depend on the state. Raises `CountsError` if a count falls below 0.
        """
        derivations, table, averages = state
        self._update_sites(derivations, np.arange(self._batch.size))
        for pivot in range(pivots if len(self._free) else 0):
            draws = _uniform_numbers(key, int(self._batch.pairs[0]), sweep * MAX_TYPE_MOVES + pivot)
            node = int(self._free[int(next(draws) * len(self._free))])
            table = with_room(table, 3)
            self._move(node, draws, derivations, table)
        return ChainState(derivations, table, averages)

    def _update_sites(self, derivations: State, pairs: NDArray[np.int64]) -> None:
        _find_sites(pairs, -1, self._batch, derivations, self._sites, self._space)

    def _pairs_of(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.unique(np.searchsorted(self._batch.forests.node_offset, nodes, "right") - 1)

    def _select_sites(self, pivot: int, derivations: State) -> NDArray[np.int64]:
        """Return the pivot, then each site of its type that shares no rule use with the sites before it."""
        types, heads = self._sites
        alike = np.flatnonzero(types == types[pivot])
        used: set[int] = set()
        selected = []
        for node in (pivot, *alike[alike != pivot].tolist()):
            own_heads = {int(heads[node]), node} if derivations.cut[node] else {int(heads[node])}
            if used.isdisjoint(own_heads):
                used |= own_heads
                selected.append(node)
        return np.array(selected, np.int64)

    def _site_rules(self, pivot: int, derivations: State) -> SiteRules:
        pair = self._pairs_of(np.array([pivot]))
        _find_sites(pair, pivot, self._batch, derivations, self._sites, self._space)
        rules = SiteRules(self._space.keys.copy(), self._space.sizes.copy())
        self._update_sites(derivations, pair)
        return rules

    def _move(self, pivot: int, draws: Iterator[float], derivations: State, table: CountTable) -> None:
        """Run one move. Rejects a draw that would change the selection of sites."""
        if self._sites.types[pivot] == 0:
            return
        sites = self._select_sites(pivot, derivations)
        if len(sites) < 2:
            return
        rules = self._site_rules(pivot, derivations)
        before = derivations.cut[sites].copy()
        after = self._draw_cuts(rules, before, draws, table)
        if np.array_equal(before, after):
            return
        pairs = self._pairs_of(sites[before != after])
        derivations.cut[sites] = after
        self._update_sites(derivations, pairs)
        if not np.array_equal(self._select_sites(pivot, derivations), sites):
            derivations.cut[sites] = before
            self._update_sites(derivations, pairs)
            return
        self._change_counts(rules, int(after.sum()) - int(before.sum()), table)

    def _draw_cuts(
        self, rules: SiteRules, before: NDArray[np.uint8], draws: Iterator[float], table: CountTable
    ) -> NDArray[np.uint8]:
        sites, split = len(before), int(before.sum())
        group_sizes = np.array([sites - split, split, split])
        if rules.equal_parts:
            group_sizes[UPPER] = group_sizes[LOWER] = 2 * split
        other_counts = np.array([look_up(table, high, low)[1] for high, low in rules.keys], np.int64) - group_sizes
        weights = np.cumsum(
            np.exp(log_weights(self._model, rules, other_counts, table.rule_tokens - sites - split, sites))
        )
        split_sites = int(np.searchsorted(weights, next(draws) * weights[-1], "right"))
        after = np.zeros(sites, np.uint8)
        remaining = min(split_sites, sites)
        for k in range(sites):
            if next(draws) * (sites - k) < remaining:
                after[k] = 1
                remaining -= 1
        return after

    def _change_counts(self, rules: SiteRules, more_split: int, table: CountTable) -> None:
        sound = True
        for which, change in ((JOINED, -more_split), (UPPER, more_split), (LOWER, more_split)):
            if change:
                high, low = rules.keys[which]
                sound &= bool(add(table, self._model, high, low, rules.sizes[which], change))
        if not sound:
            raise CountsError(BELOW_ZERO)
