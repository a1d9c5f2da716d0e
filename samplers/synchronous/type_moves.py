"""Type-based moves: all sites of one type drawn together [Liang, Jordan & Klein 2010]; docs/model.md, section 4."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, mix, stream, uniform
from hierogram.samplers.counts.chain import ChainState, CountsError
from hierogram.samplers.counts.models import Model
from hierogram.samplers.counts.table import RuleTable, add, look_up, with_room
from hierogram.samplers.forests.batch import Batch, State
from hierogram.samplers.forests.forest import tails_of, view_pair
from hierogram.samplers.forests.fragments import compose, key_of, size_of, source_terminals_of, target_terminals_of
from hierogram.samplers.forests.walk import WalkSpace, make_summary, walk_space
from hierogram.samplers.grammar.numbers import MOST_TYPE_MOVES

PIVOTS = 1 << 62
"""The random streams of moves are those of a pair with this number plus that of the batch's first pair."""
JOINED, UPPER, LOWER = 0, 1, 2


class Sites(NamedTuple):
    """The sites of a batch as its derivations stand, by node of all pairs one after the other.

    `types` uint64[N], 0 where a node is no site; `heads` int64[N] the node at which the rule above a node begins, -1 at
    roots and off the derivation.
    """

    types: NDArray[np.uint64]
    heads: NDArray[np.int64]


class SiteSpace(NamedTuple):
    """Scratch memory: that of a walk, and the rules of a site: `keys` uint64[3, 2], `sizes` uint64[3]."""

    walk: WalkSpace
    keys: NDArray[np.uint64]
    sizes: NDArray[np.uint64]


@njit_inline
def _note_rule(v, which, key_mask, space):
    high, low = key_of(space.walk.summary, v, key_mask)
    space.keys[which, 0] = high
    space.keys[which, 1] = low
    space.sizes[which] = size_of(space.walk.summary, v)


@njit_inline
def _compose_up_to(v, head, view, work):
    """Make the summaries on the way from v's parent up to the head anew."""
    x = v
    while x != head:
        x = np.int64(work.summary[x]["parent"])
        compose(x, view, work.summary, work.powers, work.scratch)


@njit_inline
def _note_rules(v, head, view, key_mask, space):
    """Note the three rules of the site v; the parents up to the head are known."""
    work = space.walk
    present = view.cut[v]
    make_summary(head, view, work)
    make_summary(v, view, work)
    _note_rule(v, LOWER, key_mask, space)
    _note_rule(head, UPPER if present else JOINED, key_mask, space)
    view.cut[v] = 1 - present
    _compose_up_to(v, head, view, work)
    _note_rule(head, JOINED if present else UPPER, key_mask, space)
    view.cut[v] = present
    _compose_up_to(v, head, view, work)


@njit_inline
def _type_of(space):
    """A number for the three rules that were noted; never 0."""
    value = np.uint64(0)
    for which in range(3):
        value = mix(value + space.keys[which, 0])
        value = mix(value + space.keys[which, 1])
    return value | np.uint64(1)


@njit
def _note_pair(pair, wanted, batch, state, sites, space):
    """Note the sites of a pair; stop at the node `wanted` of it, whose rules are noted then (-1: none)."""
    view = view_pair(batch, state, pair)
    work = space.walk
    first = batch.forests.node_offset[pair]
    root = len(view.node) - 1
    for v in range(len(view.node)):
        sites.types[first + v] = np.uint64(0)
        sites.heads[first + v] = -1
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
                _note_rules(v, head - first, view, batch.words.key_mask, space)
                sites.types[first + v] = _type_of(space)
                if v == wanted:
                    return
        tail, last = tails_of(v, view)
        while tail < last:
            t = np.int64(view.tails[tail])
            work.stack[depth] = t
            work.summary[t]["parent"] = v
            depth += 1
            tail += 1


@njit
def _note_pairs(pairs, batch, state, sites, space):
    for k in range(len(pairs)):
        _note_pair(pairs[k], -1, batch, state, sites, space)


@dataclass(frozen=True, slots=True)
class SiteRules:
    """The rules (joined, upper, lower) of a type: `keys` uint64[3, 2], `sizes` uint64[3]."""

    keys: NDArray[np.uint64]
    sizes: NDArray[np.uint64]

    @property
    def equal_parts(self) -> bool:
        """Return whether the upper rule is the lower one."""
        return bool((self.keys[UPPER] == self.keys[LOWER]).all())


class TypeInfo(NamedTuple):
    """Numbers of a step: pivots that were sites, moves of two and more sites, cuts that changed, draws that were taken
    back because other sites would have come into the move."""

    pivots: int
    moves: int
    changed: int
    taken_back: int


def log_weights(model: Model, rules: SiteRules, rest: NDArray[np.int64], total: int, sites: int) -> NDArray[np.float64]:
    """ln of the weight of m = 0..n split sites among n: C(n, m) times the probability of each such choice.

    `rest` int64[3] counts of the three rules, and `total` that of all, without those of the sites. float64[n + 1].
    """
    split = np.arange(sites + 1)
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, sites + 1)))))
    weights = logs[sites] - logs[split] - logs[sites - split]
    weights += _rising(model, rules, rest, JOINED, sites)[sites - split]
    if rules.equal_parts:
        weights += _rising(model, rules, rest, UPPER, 2 * sites)[2 * split]
    else:
        weights += _rising(model, rules, rest, UPPER, sites)[split] + _rising(model, rules, rest, LOWER, sites)[split]
    denominators = np.cumsum(np.log(total + model.strength + np.arange(2 * sites)))
    weights -= denominators[sites + split - 1]
    return np.asarray(weights - weights.max())


def _rising(model: Model, rules: SiteRules, rest: NDArray[np.int64], which: int, most: int) -> NDArray[np.float64]:
    """ln of the rising factorials of a rule's count and base mass, of 0 to `most` factors."""
    size = rules.sizes[which]
    log_mass = np.log(model.strength) + float(source_terminals_of(size)) * model.log_source
    log_mass += float(target_terminals_of(size)) * model.log_target
    count = float(rest[which])
    with np.errstate(divide="ignore"):
        factors = np.logaddexp(np.log(count + np.arange(most)), log_mass)
    return np.concatenate(([0.0], np.cumsum(factors)))


class _Draws:
    """A stream's draws."""

    def __init__(self, key: int, pair: int, number: int) -> None:
        self._state = np.uint64(stream(key, PIVOTS + pair, number))

    def uniform(self) -> float:
        self._state = np.uint64(advance(self._state))
        return float(uniform(self._state))


class TypeSampler:
    """Type-based moves over the derivations of a batch."""

    def __init__(self, model: Model, batch: Batch) -> None:
        """Raises `ValueError` where the model is no Dirichlet process."""
        if model.pitman_yor:
            raise ValueError("type-based moves need an exchangeable model: a Dirichlet process")
        self._model = model
        self._batch = batch
        nodes = batch.forests.nodes
        self._sites = Sites(np.zeros(nodes, np.uint64), np.full(nodes, -1, np.int64))
        self._space = SiteSpace(walk_space(batch), np.zeros((3, 2), np.uint64), np.zeros(3, np.uint64))
        self._free = np.flatnonzero(batch.forests.node["free"])

    def step(self, key: int, state: ChainState, number: int, pivots: int) -> tuple[ChainState, TypeInfo]:
        """So many moves, one pivot each; consumes `state`.

        Move i of step n has the random stream of sweep n * MOST_TYPE_MOVES + i of a pair that the first one names.

        Pivots are drawn among all free cuts, whether they are on a derivation or not, so that the choice does not
        depend on the state.
        """
        derivations, table, averages = state
        self._note(derivations, np.arange(self._batch.size))
        found = np.zeros(4, np.int64)
        for pivot in range(pivots if len(self._free) else 0):
            draws = _Draws(key, int(self._batch.pairs[0]), number * MOST_TYPE_MOVES + pivot)
            node = int(self._free[int(draws.uniform() * len(self._free))])
            table = with_room(table, 3)
            found += self._move(node, draws, derivations, table)
        return ChainState(derivations, table, averages), TypeInfo(*found.tolist())

    def _note(self, derivations: State, pairs: NDArray[np.int64]) -> None:
        _note_pairs(pairs, self._batch, derivations, self._sites, self._space)

    def _pairs_of(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.unique(np.searchsorted(self._batch.forests.node_offset, nodes, "right") - 1)

    def _taken(self, pivot: int, derivations: State) -> NDArray[np.int64]:
        """The sites of a move: the pivot, then those of its type, ascending, that share no rule with others before."""
        types, heads = self._sites
        alike = np.flatnonzero(types == types[pivot])
        used: set[int] = set()
        taken = []
        for node in (pivot, *alike[alike != pivot].tolist()):
            own = {int(heads[node]), node} if derivations.cut[node] else {int(heads[node])}
            if used.isdisjoint(own):
                used |= own
                taken.append(node)
        return np.array(taken, np.int64)

    def _rules(self, pivot: int, derivations: State) -> SiteRules:
        pair = int(self._pairs_of(np.array([pivot]))[0])
        wanted = pivot - int(self._batch.forests.node_offset[pair])
        _note_pair(pair, wanted, self._batch, derivations, self._sites, self._space)
        rules = SiteRules(self._space.keys.copy(), self._space.sizes.copy())
        self._note(derivations, np.array([pair]))
        return rules

    def _move(self, pivot: int, draws: _Draws, derivations: State, table: RuleTable) -> NDArray[np.int64]:
        """One move: what it did, as `TypeInfo` has it."""
        if self._sites.types[pivot] == 0:
            return np.zeros(4, np.int64)
        sites = self._taken(pivot, derivations)
        if len(sites) < 2:
            return np.array([1, 0, 0, 0])
        rules = self._rules(pivot, derivations)
        before = derivations.cut[sites].copy()
        after = self._draw(rules, before, draws, table)
        changed = int((before != after).sum())
        if not changed:
            return np.array([1, 1, 0, 0])
        pairs = self._pairs_of(sites[before != after])
        derivations.cut[sites] = after
        self._note(derivations, pairs)
        if not np.array_equal(self._taken(pivot, derivations), sites):
            derivations.cut[sites] = before
            self._note(derivations, pairs)
            return np.array([1, 1, 0, 1])
        self._count(rules, int(after.sum()) - int(before.sum()), table)
        return np.array([1, 1, changed, 0])

    def _draw(self, rules: SiteRules, before: NDArray[np.uint8], draws: _Draws, table: RuleTable) -> NDArray[np.uint8]:
        """Return how many sites are split, then which."""
        sites, split = len(before), int(before.sum())
        own = np.array([sites - split, split, split])
        if rules.equal_parts:
            own[UPPER] = own[LOWER] = 2 * split
        rest = np.array([look_up(table, high, low)[1] for high, low in rules.keys], np.int64) - own
        weights = np.cumsum(np.exp(log_weights(self._model, rules, rest, table.rule_tokens - sites - split, sites)))
        wanted = int(np.searchsorted(weights, draws.uniform() * weights[-1], "right"))
        after = np.zeros(sites, np.uint8)
        left = min(wanted, sites)
        for k in range(sites):
            if draws.uniform() * (sites - k) < left:
                after[k] = 1
                left -= 1
        return after

    def _count(self, rules: SiteRules, more_split: int, table: RuleTable) -> None:
        sound = True
        for which, change in ((JOINED, -more_split), (UPPER, more_split), (LOWER, more_split)):
            if change:
                high, low = rules.keys[which]
                sound &= bool(add(table, self._model, high, low, rules.sizes[which], change))
        if not sound:
            raise CountsError("a rule's count fell below zero: derivations and counts do not belong together")
