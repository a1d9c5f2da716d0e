"""The sampler of tree-substitution grammars: cuts and edges by Gibbs [CGB09 §4; CFGŠ14 §2], then the labels' priors.

A sweep takes the trees one after the other against the very counts of all others, so the sampler is exact;
docs/model.md, section 6. All of a tree's nodes are summed up when its turn comes, from the leaves up; from then on a
change of a variable makes again only the summaries that lie between it and the root of its fragment. In the rule table
the place of a rule's length is taken by the label of its root.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, stream, uniform
from hierogram.samplers.compiled.variates import draw_beta, draw_normal
from hierogram.samplers.counts.chain import CountsError, SweepInfo, log_rising
from hierogram.samplers.counts.table import COUNT, RuleTable, add, empty_table, find, with_room
from hierogram.samplers.forests.batch import Batch, State, initial_state
from hierogram.samplers.forests.forest import PairView, label_of, push_tails, tails_of, view_pair
from hierogram.samplers.forests.fragments import SUMMARY, compose, key_of, make_summaries, powers_of_base
from hierogram.samplers.grammar.settings import JOINED
from hierogram.samplers.trees.models import LabelProcesses, TreeBatch, TreeModel, TreeState, log_base, set_label

STATISTICS = np.dtype(
    [
        ("edges_sampled", np.int64),
        ("edges_changed", np.int64),
        ("cuts_sampled", np.int64),
        ("cuts_changed", np.int64),
    ]
)
"""Variables sampled and changed."""

FRAGMENT = np.dtype([("high", np.uint64), ("low", np.uint64), ("label", np.uint64), ("log_base", np.float64)])
"""A fragment of an option: key, root label, ln P0."""


class TreeSpace(NamedTuple):
    """Scratch memory for resampling a tree of at most n nodes; nothing is allocated during a sweep.

    By node: `summary` SUMMARY[n], `below` float64[n] ln P0 of the fragment below it, `parent` int32[n], `on_tree`
    uint8[n] (1 where the present tree has it). `order` int32[n] the tree's nodes, heads before tails; `turn` int32[n]
    the nodes in the order in which they are sampled; `saved`, `saved_below` a path's summaries; `option` FRAGMENT[n+1]
    the fragments of an option; `subtree` int32[n]; `stack` int32[n+1]; `powers` uint64 of the hash's base; `scratch`
    int64[2, n+1]; `weight` float64 of options; `statistics` STATISTICS[1].
    """

    summary: NDArray[np.void]
    below: NDArray[np.float64]
    parent: NDArray[np.int32]
    on_tree: NDArray[np.uint8]
    order: NDArray[np.int32]
    turn: NDArray[np.int32]
    saved: NDArray[np.void]
    saved_below: NDArray[np.float64]
    option: NDArray[np.void]
    subtree: NDArray[np.int32]
    stack: NDArray[np.int32]
    powers: NDArray[np.uint64]
    scratch: NDArray[np.int64]
    weight: NDArray[np.float64]
    statistics: NDArray[np.void]


class TreeResampling(NamedTuple):
    """A tree that is being resampled: its view, its first node's number in the batch, and all that this needs."""

    tree: PairView
    first_node: int
    table: RuleTable
    model: TreeModel
    space: TreeSpace
    key_mask: np.uint64


def tree_space(batch: Batch) -> TreeSpace:
    """The scratch memory for a batch of trees, made once for all sweeps."""
    nodes = batch.most_nodes
    return TreeSpace(
        summary=make_summaries(nodes),
        below=np.zeros(nodes),
        parent=np.zeros(nodes, np.int32),
        on_tree=np.zeros(nodes, np.uint8),
        order=np.zeros(nodes, np.int32),
        turn=np.zeros(nodes, np.int32),
        saved=np.zeros(nodes, SUMMARY),
        saved_below=np.zeros(nodes),
        option=np.zeros(nodes + 1, FRAGMENT),
        subtree=np.zeros(nodes, np.int32),
        stack=np.zeros(nodes + 1, np.int32),
        powers=powers_of_base(batch.longest_rule + 2),
        scratch=np.zeros((2, nodes + 1), np.int64),
        weight=np.zeros(batch.most_options),
        statistics=np.zeros(1, STATISTICS),
    )


@njit_inline
def tree_at(batch, state, tree, model, space):
    """A tree of the batch whose turn it is; `state` is of the whole chain."""
    return TreeResampling(
        view_pair(batch, state.derivations, tree),
        batch.forests.node_offset[tree],
        state.table,
        model,
        space,
        batch.words.key_mask,
    )


@njit_inline
def sum_up(v, at):
    """Make the summary of v, those of its uncut tails being valid."""
    space = at.space
    compose(v, at.tree, space.summary, space.powers, space.scratch)
    space.below[v] = log_base(v, at)


@njit
def lay_out(at):
    """Find the present tree of a forest, and sum up the fragments below all of its nodes; how many nodes it has."""
    view, space = at.tree, at.space
    root = len(view.node) - 1
    space.on_tree[: root + 1] = 0
    space.stack[0] = root
    space.parent[root] = -1
    depth = 1
    size = 0
    while depth > 0:
        depth -= 1
        v = np.int64(space.stack[depth])
        space.on_tree[v] = 1
        space.order[size] = v
        size += 1
        above = depth
        depth = push_tails(v, view, space.stack, depth)
        for k in range(above, depth):
            space.parent[space.stack[k]] = v
    for k in range(size - 1, -1, -1):
        sum_up(np.int64(space.order[k]), at)
    return size


@njit_inline
def head_of(v, at):
    """The root of the fragment that v, a node other than the root of its tree, is part of or a frontier of."""
    x = np.int64(at.space.parent[v])
    while at.tree.cut[x] == 0:
        x = np.int64(at.space.parent[x])
    return x


@njit_inline
def log_mass(count, log_fresh):
    """ln (n + e^log_fresh), also where e^log_fresh underflows and n = 0."""
    if count <= 0:
        return log_fresh
    return math.log(count + math.exp(log_fresh))


@njit
def count_tree(at, change):
    """Add `change` to the count of each fragment of the present tree; False: a count fell below 0."""
    view, space = at.tree, at.space
    size = lay_out(at)
    root = len(view.node) - 1
    sound = True
    for k in range(size):
        v = np.int64(space.order[k])
        if v == root or view.cut[v]:
            high, low = key_of(space.summary, v, at.key_mask)
            sound &= add(at.table, at.model, high, low, np.uint64(label_of(v, view)), change)
    return sound


@njit
def add_option(size, at, change):
    """Add `change` to the counts of the first `size` fragments of the option; False: a count fell below 0."""
    sound = True
    for k in range(size):
        fragment = at.space.option[k]
        sound &= add(at.table, at.model, fragment["high"], fragment["low"], fragment["label"], change)
    return sound


@njit_inline
def _enter_fragment(k, v, at):
    """Make the fragment that is summed up at v number k of the option."""
    fragment = at.space.option[k]
    high, low = key_of(at.space.summary, v, at.key_mask)
    fragment["high"] = high
    fragment["low"] = low
    fragment["label"] = np.uint64(label_of(v, at.tree))
    fragment["log_base"] = at.space.below[v]


@njit
def list_option(v, head, at):
    """List the fragments of the tree that v's present edge leads to: that of `head`, and those rooted below v.

    Summaries below v and on the way up to `head` are made anew. Returns (fragments, log_factor): the density factor is
    the product of the numbers of values of the variables of nodes strictly below v [CFGŠ14 eq. 6], natural-log.
    """
    view, space = at.tree, at.space
    space.subtree[0] = v
    size = 1
    done = 0
    log_factor = 0.0
    while done < size:
        x = np.int64(space.subtree[done])
        done += 1
        if x != v:
            log_factor += math.log(np.float64(np.int64(view.node[x]["degree"]) << np.int64(view.node[x]["free"])))
        first, last = tails_of(x, view)
        for i in range(first, last):
            space.subtree[size] = view.tails[i]
            size += 1
    fragments = 1
    for k in range(size - 1, 0, -1):
        x = np.int64(space.subtree[k])
        sum_up(x, at)
        if view.cut[x]:
            _enter_fragment(fragments, x, at)
            fragments += 1
    x = v
    sum_up(x, at)
    while x != head:
        x = np.int64(space.parent[x])
        sum_up(x, at)
    _enter_fragment(0, head, at)
    return fragments, log_factor


@njit
def score_option(size, at):
    """ln ∏ P(fragment | rest and the fragments before it) of the option's first `size` fragments."""
    table, option, labels = at.table, at.space.option, at.model.labels
    total = 0.0
    for k in range(size):
        fragment = option[k]
        label = np.int64(fragment["label"])
        count = np.int64(table.rows[find(table.rows, fragment["high"], fragment["low"]), COUNT])
        tokens = table.by_length[label]["tokens"]
        for j in range(k):
            if option[j]["label"] == fragment["label"]:
                tokens += 1
                if option[j]["high"] == fragment["high"] and option[j]["low"] == fragment["low"]:
                    count += 1
        total += log_mass(count, labels.log_strength[label] + fragment["log_base"])
        total -= math.log(tokens + labels.strength[label])
    return total


class Fragment(NamedTuple):
    """A fragment at a cut: key, root label, ln P0."""

    high: np.uint64
    low: np.uint64
    label: int
    log_base: float


@njit_inline
def _fragment_at(v, at):
    high, low = key_of(at.space.summary, v, at.key_mask)
    return Fragment(high, low, label_of(v, at.tree), at.space.below[v])


@njit_inline
def _count_of(fragment, table):
    return np.int64(table.rows[find(table.rows, fragment.high, fragment.low), COUNT])


@njit_inline
def _add_fragment(fragment, at, change):
    """Add `change` to a fragment's count; False: it fell below 0."""
    return add(at.table, at.model, fragment.high, fragment.low, np.uint64(fragment.label), change)


@njit_inline
def _sum_up_to(v, head, at):
    """Make the summaries anew above v up to and with `head`, and save the old ones; how many there are."""
    space = at.space
    steps = 0
    x = np.int64(space.parent[v])
    while True:
        space.saved[steps] = space.summary[x]
        space.saved_below[steps] = space.below[x]
        steps += 1
        sum_up(x, at)
        if x == head:
            return steps
        x = np.int64(space.parent[x])


@njit_inline
def _log_odds(joined, upper, lower, present, at):
    """ln of P of the upper and the lower fragment over P of the joined one, the present ones being taken out."""
    labels, table = at.model.labels, at.table
    same = 1 if upper.low == lower.low and upper.high == lower.high else 0
    joined_count = _count_of(joined, table) - (1 - present)
    upper_count = _count_of(upper, table) - present * (1 + same)
    # The lower fragment sees the upper one, which was drawn before it.
    lower_count = _count_of(lower, table) - present
    lower_tokens = np.int64(table.by_length[lower.label]["tokens"]) - present
    if present == 0:
        lower_count += same
    joined_log = log_mass(joined_count, labels.log_strength[joined.label] + joined.log_base)
    split_log = log_mass(upper_count, labels.log_strength[upper.label] + upper.log_base)
    split_log += log_mass(lower_count, labels.log_strength[lower.label] + lower.log_base)
    split_log -= math.log(lower_tokens + labels.strength[lower.label])
    return split_log - joined_log


@njit_inline
def sample_cut(v, u, temperature, at):
    """Draw whether v roots a fragment of its own, by P of one joined fragment against two [CGB09 eq. 3 and 4].

    False: a count fell below 0.
    """
    view, space = at.tree, at.space
    present = np.int64(view.cut[v])
    head = head_of(v, at)
    now = _fragment_at(head, at)
    view.cut[v] = 1 - present
    steps = _sum_up_to(v, head, at)
    other = _fragment_at(head, at)
    lower = _fragment_at(v, at)
    upper, joined = (now, other) if present else (other, now)
    log_odds = _log_odds(joined, upper, lower, present, at)
    choice = 0 if 1.0 / (1.0 + math.exp(log_odds / temperature)) > u else 1
    space.statistics[0]["cuts_sampled"] += 1
    if choice == present:
        view.cut[v] = present
        x = np.int64(space.parent[v])
        for k in range(steps):
            space.summary[x] = space.saved[k]
            space.below[x] = space.saved_below[k]
            x = np.int64(space.parent[x])
        return True
    space.statistics[0]["cuts_changed"] += 1
    change = 1 - 2 * present
    sound = _add_fragment(joined, at, -change)
    sound &= _add_fragment(upper, at, change)
    sound &= _add_fragment(lower, at, change)
    return sound


@njit
def _draw(log_weights, size, u):
    """The first option whose cumulated weight exceeds u of the sum; the weights are overwritten."""
    most = -np.inf
    for j in range(size):
        most = max(most, log_weights[j])
    total = 0.0
    for j in range(size):
        total += math.exp(log_weights[j] - most)
        log_weights[j] = total
    choice = 0
    while choice < size - 1 and log_weights[choice] <= u * total:
        choice += 1
    return choice


@njit
def sample_edge(v, u, temperature, at):
    """Draw the edge of v by P of the fragments that each leads to, times its density factor [CFGŠ14 eq. 6].

    Returns False if a count fell below 0.
    """
    view, space = at.tree, at.space
    present = np.int64(view.edge[v])
    edges = np.int64(view.node[v]["degree"])
    head = v if view.cut[v] else head_of(v, at)
    size, _ = list_option(v, head, at)
    sound = add_option(size, at, -1)
    for j in range(edges):
        view.edge[v] = j
        size, log_factor = list_option(v, head, at)
        space.weight[j] = score_option(size, at) / temperature + log_factor
    choice = _draw(space.weight, edges, u)
    view.edge[v] = choice
    size, _ = list_option(v, head, at)
    sound &= add_option(size, at, 1)
    space.statistics[0]["edges_sampled"] += 1
    if choice != present:
        space.statistics[0]["edges_changed"] += 1
        lay_out(at)
    return sound


@njit
def shuffle(state, size, turn):
    """Fill `turn` with 0..size-1 in random order; returns the stream's state."""
    for k in range(size):
        turn[k] = k
    for k in range(size - 1, 0, -1):
        state = advance(state)
        j = np.int64(uniform(state) * (k + 1))
        turn[k], turn[j] = turn[j], turn[k]
    return state


@njit
def sweep_tree(at, random, temperature):
    """One sweep over a tree's nodes in random order; `random` is the tree's stream.

    False: a count fell below 0.
    """
    view, space = at.tree, at.space
    nodes = len(view.node)
    lay_out(at)
    random = shuffle(random, nodes, space.turn)
    sound = True
    for k in range(nodes):
        v = np.int64(space.turn[k])
        if space.on_tree[v] == 0:
            continue
        if view.node[v]["degree"] > 1:
            random = advance(random)
            sound &= sample_edge(v, uniform(random), temperature, at)
        if view.node[v]["free"]:
            random = advance(random)
            sound &= sample_cut(v, uniform(random), temperature, at)
    return sound


PRIOR_SHAPE = 0.001
PRIOR_SCALE = 1000.0
PROPOSAL_VARIANCE = 0.3
LEAST_STRENGTH = 1e-200
"""A strength below this is never proposed."""

_STRENGTHS, _EXPANSIONS = 1, 2
"""What a stream draws, as its second key."""


class FragmentUses(NamedTuple):
    """Each fragment in use once: its root label int32, how often it is used int64, and ln P0 float64."""

    label: NDArray[np.int32]
    uses: NDArray[np.int64]
    log_base: NDArray[np.float64]


class BaseDraws(NamedTuple):
    """The decisions of all draws from the base, by label: `expanded`, `stopped` int64[L]; `drawn` whether any are made.

    `random` is the stream that draws how many draws there were.
    """

    expanded: NDArray[np.int64]
    stopped: NDArray[np.int64]
    drawn: bool
    random: np.uint64


@njit
def _add_decisions(v, at, tables, draws):
    """Add `tables` for each nonterminal below the root of v's fragment to its label's expansions or stops."""
    view, stack = at.tree, at.space.stack
    stack[0] = v
    depth = 1
    while depth > 0:
        depth -= 1
        first, last = tails_of(np.int64(stack[depth]), view)
        for i in range(first, last):
            t = view.tails[i]
            label = label_of(t, view)
            if view.cut[t]:
                draws.stopped[label] += tables
            else:
                draws.expanded[label] += tables
                stack[depth] = t
                depth += 1


@njit
def draw_tables(count, strength, log_fresh, state):
    """Say how many of a fragment's customers drew it from the base distribution, e^log_fresh = α P0; and the stream."""
    fresh = math.exp(log_fresh)
    tables = 1
    for seated in range(1, count):
        state = advance(state)
        if uniform(state) * (seated + fresh) < fresh:
            tables += 1
    return tables, state


@njit
def _list_fragments(batch, state, model, space, seen, draws, fragments):
    """Fill `fragments` with every fragment once, and add up the decisions of their base draws; how many there are."""
    table, labels = state.table, model.labels
    random = draws.random
    size = 0
    for tree in range(len(batch.pairs)):
        at = tree_at(batch, state, tree, model, space)
        view = at.tree
        nodes = lay_out(at)
        root = len(view.node) - 1
        for k in range(nodes):
            v = np.int64(space.order[k])
            if v != root and view.cut[v] == 0:
                continue
            high, low = key_of(space.summary, v, at.key_mask)
            row = find(table.rows, high, low)
            if seen[row]:
                continue
            seen[row] = 1
            c = label_of(v, view)
            n = np.int64(table.rows[row, COUNT])
            fragments.label[size] = c
            fragments.uses[size] = n
            fragments.log_base[size] = space.below[v]
            size += 1
            if draws.drawn:
                tables, random = draw_tables(n, labels.strength[c], labels.log_strength[c] + space.below[v], random)
                _add_decisions(v, at, tables, draws)
    return size


def _fragments(
    batch: Batch, state: TreeState, model: TreeModel, space: TreeSpace, random: np.uint64 | None
) -> tuple[FragmentUses, BaseDraws]:
    """The fragments, and by label the expansions and stops of base draws (where there is a stream to draw them)."""
    rules, labels = state.table.rule_types, len(state.labels.strength)
    fragments = FragmentUses(np.empty(rules, np.int32), np.empty(rules, np.int64), np.empty(rules))
    stream_ = np.uint64(0) if random is None else random
    draws = BaseDraws(np.zeros(labels, np.int64), np.zeros(labels, np.int64), random is not None, stream_)
    seen = np.zeros(len(state.table.rows), np.uint8)
    _list_fragments(batch, state, model, space, seen, draws, fragments)
    return fragments, draws


def _grouped(
    batch: Batch, state: TreeState, model: TreeModel, space: TreeSpace
) -> tuple[FragmentUses, NDArray[np.int64]]:
    """The fragments of all derivations by label, in the order in which they are met; where each label's begin."""
    fragments, _ = _fragments(batch, state, model, space, None)
    order = np.argsort(fragments.label, kind="stable")
    by_label = FragmentUses(fragments.label[order], fragments.uses[order], fragments.log_base[order])
    return by_label, np.searchsorted(by_label.label, np.arange(len(state.labels.strength) + 1))


@njit
def _log_likelihood_of_label(c, strength, log_strength, grouped):
    """ln of Γ(α)/Γ(n + α) ∏ Γ(n_e + α P0(e)) / Γ(α P0(e)) over the fragments of a label."""
    fragments, starts = grouped
    total = 0
    result = 0.0
    for e in range(starts[c], starts[c + 1]):
        log_fresh = log_strength + fragments.log_base[e]
        result += log_rising(math.exp(log_fresh), log_fresh, fragments.uses[e])
        total += fragments.uses[e]
    if total > 0:
        result -= log_rising(strength, log_strength, total)
    return result


@njit
def _move_strengths(key, sweep, grouped, labels, variance):
    accepted = 0
    _, starts = grouped
    for c in range(1, len(labels.strength)):
        if starts[c + 1] == starts[c]:
            continue
        random = stream(key, np.int64(_STRENGTHS << 32) + c, sweep)
        noise, random = draw_normal(random)
        now = labels.log_strength[c]
        new = now + math.sqrt(variance) * noise
        random = advance(random)
        if new < math.log(LEAST_STRENGTH):
            continue
        # A walk of ln α: the prior's density of ln α is that of α times α.
        ratio = PRIOR_SHAPE * (new - now) - (math.exp(new) - math.exp(now)) / PRIOR_SCALE
        ratio += _log_likelihood_of_label(c, math.exp(new), new, grouped)
        ratio -= _log_likelihood_of_label(c, math.exp(now), now, grouped)
        if math.log(1.0 - uniform(random)) < ratio:
            set_label(labels, c, math.exp(new), labels.expansion_probability[c])
            accepted += 1
    return accepted


@njit
def _move_expansions(key, sweep, draws, labels):
    for c in range(1, len(labels.strength)):
        random = stream(key, np.int64(_EXPANSIONS << 32) + c, sweep)
        beta, random = draw_beta(1.0 + draws.expanded[c], 1.0 + draws.stopped[c], random)
        set_label(labels, c, labels.strength[c], beta)


def move_strengths(key: int, sweep: int, batch: Batch, state: TreeState, model: TreeModel, space: TreeSpace) -> int:
    """Propose a new α_c for every label, in place; returns how many were accepted.

    The draws are functions of (key, label, sweep); labels are named by their numbers in the batch.
    """
    grouped = _grouped(batch, state, model, space)
    return int(_move_strengths(key, sweep, grouped, state.labels, PROPOSAL_VARIANCE))


def move_expansions(key: int, sweep: int, batch: Batch, state: TreeState, model: TreeModel, space: TreeSpace) -> None:
    """Draw every β_c, in place; the draws are keyed as those of `move_strengths`."""
    random = np.uint64(stream(key, _EXPANSIONS << 33, sweep))
    _, draws = _fragments(batch, state, model, space, random)
    _move_expansions(key, sweep, draws, state.labels)


@njit
def _log_likelihood(grouped, labels):
    total = 0.0
    for c in range(1, len(labels.strength)):
        total += _log_likelihood_of_label(c, labels.strength[c], labels.log_strength[c], grouped)
    return total


_TREES_A_CALL = 64
_ROOM_A_NODE = 3


class TreePlan(NamedTuple):
    """One sweep: its `number` in the chain, from 1; `sweeps` int64[P] the number of each tree's sweep, from 1;
    `temperatures` float64[P] each tree's T ≥ 1, or 0 for a tree that is left alone.

    The number names the random streams of the labels' parameters, `sweeps` those of the trees.
    """

    number: int
    sweeps: NDArray[np.int64]
    temperatures: NDArray[np.float64]


@njit
def _count(first, last, batch, state, model, space, change):
    sound = True
    for tree in range(first, last):
        sound &= count_tree(tree_at(batch, state, tree, model, space), change)
    return sound


@njit
def _sweep(key, first, last, batch, state, plan, model, space):
    sound = True
    for tree in range(first, last):
        if plan.temperatures[tree] > 0.0:
            at = tree_at(batch, state, tree, model, space)
            random = stream(key, batch.pairs[tree], plan.sweeps[tree])
            sound &= sweep_tree(at, random, plan.temperatures[tree])
    return sound


@dataclass(frozen=True, slots=True)
class TreeKernel:
    """Sweeps over a treebank; see `build`."""

    model: TreeModel
    batch: Batch
    space: TreeSpace

    def init(self, key: int) -> TreeState:
        """Whole trees as fragments, a uniformly random edge at each node, the labels' processes of the model."""
        return self.resume(initial_state(key, self.batch, JOINED), self.model.labels)

    def resume(self, derivations: State, labels: LabelProcesses) -> TreeState:
        """The state that has these derivations and the labels' processes given (a copy)."""
        table = empty_table(len(labels.strength))
        state = TreeState(derivations, table, LabelProcesses(*(values.copy() for values in labels)))
        model = self._model_of(state)
        for first in range(0, self.batch.size, _TREES_A_CALL):
            last = min(first + _TREES_A_CALL, self.batch.size)
            new = int(self.batch.derivation_rules[last] - self.batch.derivation_rules[first])
            state = state._replace(table=with_room(state.table, new))
            _count(first, last, self.batch, state, model, self.space, 1)
        return state

    def step(
        self, key: int, state: TreeState, plan: TreePlan, report: Callable[[int], None] | None = None
    ) -> tuple[TreeState, SweepInfo]:
        """One sweep over the trees whose temperature is above 0, then new parameters of all labels.

        Consumes `state` (changes its arrays in place) and returns the new one. `report` hears how many trees are done.
        Raises `CountsError` where derivations and counts do not belong together.
        """
        state, info = self.sweep(key, state, plan, report)
        model = self._model_of(state)
        move_strengths(key, plan.number, self.batch, state, model, self.space)
        move_expansions(key, plan.number, self.batch, state, model, self.space)
        return state, info

    def sweep(
        self, key: int, state: TreeState, plan: TreePlan, report: Callable[[int], None] | None = None
    ) -> tuple[TreeState, SweepInfo]:
        """As `step`, the labels' parameters left as they are."""
        self.space.statistics[0] = 0
        model = self._model_of(state)
        for first in range(0, self.batch.size, _TREES_A_CALL):
            last = min(first + _TREES_A_CALL, self.batch.size)
            # A change of a cut brings up to two new fragments; one of an edge as many as nodes, one option at a time.
            state = state._replace(table=with_room(state.table, _room(self.batch, first, last)))
            if not _sweep(key, first, last, self.batch, state, plan, model, self.space):
                raise CountsError("a fragment's count fell below zero: state and counts do not belong together")
            if report:
                report(last)
        edges, edges_changed, cuts, cuts_changed = (int(number) for number in self.space.statistics[0])
        return state, SweepInfo(edges, edges_changed, cuts, cuts_changed, 2 * edges + 3 * cuts)

    def log_likelihood(self, state: TreeState) -> float:
        """ln P of all fragments of all derivations, given the labels' parameters."""
        grouped = _grouped(self.batch, state, self._model_of(state), self.space)
        return float(_log_likelihood(grouped, state.labels))

    def _model_of(self, state: TreeState) -> TreeModel:
        return self.model._replace(labels=state.labels)


def build(model: TreeModel, trees: TreeBatch) -> TreeKernel:
    """The kernel that sweeps over a treebank, with the scratch memory for all sweeps."""
    return TreeKernel(model, trees.batch, tree_space(trees.batch))


def _room(batch: Batch, first: int, last: int) -> int:
    """At most so many new rows a sweep over trees first..last takes."""
    forests = batch.forests
    nodes = forests.node[int(forests.node_offset[first]) : int(forests.node_offset[last])]
    ambiguous = nodes["degree"] > 1
    below = nodes["level"].astype(np.int64)
    return int(_ROOM_A_NODE * len(nodes) + below[ambiguous].sum() + ambiguous.sum())
