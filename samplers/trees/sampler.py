"""Sampler of tree-substitution grammars: Gibbs steps for cuts and edges [CGB09 §4; CFGŠ14 §2].

A sweep samples the trees one by one given the counts of all other trees, so the sampler is exact (docs/model.md,
section 6). Before a tree is sampled, its nodes are summarized bottom up. A change of a cut then recomputes only the
summaries up to the root of the fragment. An *option* is a value of a node's edge or cut, with the fragments under that
value. In the rule table, the length of a fragment is its root label, so that the table has the total of each label.

A tree here is the current tree of a pair's forest: a treebank tree, or one parse of an ambiguous sentence. Nodes are
numbered within the forest.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.powers import log_rising
from hierogram.samplers.compiled.streams import advance, draw_beta, draw_normal, draw_tables, stream, uniform
from hierogram.samplers.counts.chain import STATISTICS, CountsError, SweepInfo
from hierogram.samplers.counts.table import COUNT, CountTable, add, empty_table, find, with_room
from hierogram.samplers.forests.derivations import Batch, State
from hierogram.samplers.forests.forest import PairView, node_label, push_tails, tail_range, view_pair
from hierogram.samplers.forests.fragments import SUMMARY, base_powers, compose, make_summaries, summary_key
from hierogram.samplers.kernel import Report
from hierogram.samplers.trees.models import LabelProcesses, TreeModel, TreeState, log_base, set_label

FRAGMENT = np.dtype([("high", np.uint64), ("low", np.uint64), ("label", np.uint64), ("log_base", np.float64)])
"""Fragment of an option: its key (`high`, `low`), its root label, and ln P0 (`log_base`)."""


class TreeSpace(NamedTuple):
    """Scratch memory for resampling a tree of a forest of up to n nodes."""

    # SUMMARY[n+1], float64[n]: summary of each node, and ln P0 of its fragment.
    summary: NDArray[np.void]
    log_bases: NDArray[np.float64]
    # int32[n], uint8[n]: parent of each node, and 1 if the node is in the current tree.
    parent: NDArray[np.int32]
    on_tree: NDArray[np.uint8]
    # int32[n]: nodes of the current tree, heads before tails, and all nodes of the forest in random order.
    order: NDArray[np.int32]
    sampling_order: NDArray[np.int32]
    # SUMMARY[n], float64[n]: summaries and ln P0 before a change, by position on the path upward from a node.
    saved: NDArray[np.void]
    saved_log_bases: NDArray[np.float64]
    # FRAGMENT[n+1]: fragments of an option.
    option: NDArray[np.void]
    # int32[n], int32[n+1]: nodes of the subtree of a node, and a stack of nodes.
    subtree: NDArray[np.int32]
    stack: NDArray[np.int32]
    # uint64[longest rule + 3], int64[2, n+1]: powers of the hash base, and scratch memory of `compose`.
    powers: NDArray[np.uint64]
    scratch: NDArray[np.int64]
    # float64[options], STATISTICS[1]: natural log of the weight of each option, and statistics.
    log_weight: NDArray[np.float64]
    statistics: NDArray[np.void]


class TreeResampling(NamedTuple):
    """Context for resampling a tree. `first_node` is the number of its first node in the batch."""

    tree: PairView
    first_node: int
    table: CountTable
    labels: LabelProcesses
    model: TreeModel
    space: TreeSpace
    key_mask: np.uint64


@njit_inline
def _tree_at(batch, state, tree, model, space):
    return TreeResampling(
        view_pair(batch, state.derivations, tree),
        batch.forests.node_offset[tree],
        state.table,
        state.labels,
        model,
        space,
        batch.word_hashes.key_mask,
    )


@njit_inline
def _summarize(v, context):
    """Compute the summary and ln P0 of node v. Those of its uncut tails must be valid."""
    space = context.space
    compose(v, context.tree, space.summary, space.powers, space.scratch)
    space.log_bases[v] = log_base(v, context)


@njit
def _summarize_tree(context):
    view, space = context.tree, context.space
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
        _summarize(np.int64(space.order[k]), context)
    return size


@njit_inline
def _find_fragment_root(v, context):
    """Return the root of the fragment above v, its nearest cut ancestor. v is not the tree's root."""
    x = np.int64(context.space.parent[v])
    while context.tree.cut[x] == 0:
        x = np.int64(context.space.parent[x])
    return x


@njit_inline
def _log_mass(count, log_base_mass):
    """Return ln (`count` + α P0), even if `count` is 0 and α P0 underflows. `log_base_mass` is ln α P0."""
    if count <= 0:
        return log_base_mass
    return math.log(count + math.exp(log_base_mass))


@njit_inline
def _add_fragment(k, change, context):
    fragment = context.space.option[k]
    return add(context.table, context.model, fragment["high"], fragment["low"], fragment["label"], change)


@njit
def _add_option(size, context, change):
    sound = True
    for k in range(size):
        sound &= _add_fragment(k, change, context)
    return sound


@njit_inline
def _fragment_count(fragment, table):
    return np.int64(table.rows[find(table.rows, fragment["high"], fragment["low"]), COUNT])


@njit_inline
def _enter_fragment(k, v, context):
    """Store the fragment at v, whose summary must be valid, as fragment k of the option."""
    fragment = context.space.option[k]
    high, low = summary_key(context.space.summary, v, context.key_mask)
    fragment["high"] = high
    fragment["low"] = low
    fragment["label"] = np.uint64(node_label(v, context.tree))
    fragment["log_base"] = context.space.log_bases[v]


@njit
def _list_option(v, fragment_root, context):
    """Write the fragments under v's current edge to `option`: at `fragment_root`, then below v.

    Recomputes the summaries below v and up to `fragment_root`. Returns the number of fragments, and the natural log of
    the density factor, the product of the numbers of values of all variables strictly below v [CFGŠ14 eq. 6].
    """
    view, space = context.tree, context.space
    space.subtree[0] = v
    size = 1
    done = 0
    log_factor = 0.0
    while done < size:
        x = np.int64(space.subtree[done])
        done += 1
        if x != v:
            log_factor += math.log(np.float64(np.int64(view.node[x]["degree"]) << np.int64(view.node[x]["free"])))
        first, last = tail_range(x, view)
        for i in range(first, last):
            space.subtree[size] = view.tails[i]
            size += 1
    fragments = 1
    for k in range(size - 1, 0, -1):
        x = np.int64(space.subtree[k])
        _summarize(x, context)
        if view.cut[x]:
            _enter_fragment(fragments, x, context)
            fragments += 1
    x = v
    _summarize(x, context)
    while x != fragment_root:
        x = np.int64(space.parent[x])
        _summarize(x, context)
    _enter_fragment(0, fragment_root, context)
    return fragments, log_factor


@njit
def _score_option(size, context):
    """Return ln ∏ P(fragment | counts, previous fragments) of the option's first `size` fragments."""
    table, option, labels = context.table, context.space.option, context.labels
    total = 0.0
    for k in range(size):
        fragment = option[k]
        label = np.int64(fragment["label"])
        count = _fragment_count(fragment, table)
        tokens = table.by_length[label]["tokens"]
        for j in range(k):
            if option[j]["label"] == fragment["label"]:
                tokens += 1
                if option[j]["high"] == fragment["high"] and option[j]["low"] == fragment["low"]:
                    count += 1
        total += _log_mass(count, labels.log_strength[label] + fragment["log_base"])
        total -= math.log(tokens + labels.strength[label])
    return total


@njit_inline
def _summarize_up_to(v, fragment_root, context):
    space = context.space
    steps = 0
    x = np.int64(space.parent[v])
    while True:
        space.saved[steps] = space.summary[x]
        space.saved_log_bases[steps] = space.log_bases[x]
        steps += 1
        _summarize(x, context)
        if x == fragment_root:
            return steps
        x = np.int64(space.parent[x])


_JOINED, _UPPER, _LOWER = range(3)
"""Indices into `TreeSpace.option` for a cut: fragment without the cut, above it, and below it."""


@njit_inline
def _log_odds(current_cut, context):
    """Return ln(P(upper) P(lower) / P(joined)). Excludes the current fragments from the counts."""
    labels, table, option = context.labels, context.table, context.space.option
    joined, upper, lower = option[_JOINED], option[_UPPER], option[_LOWER]
    # The joined and the upper fragment have the same root, and therefore the same label.
    upper_label, lower_label = np.int64(upper["label"]), np.int64(lower["label"])
    is_same = 1 if upper["low"] == lower["low"] and upper["high"] == lower["high"] else 0
    joined_count = _fragment_count(joined, table) - (1 - current_cut)
    upper_count = _fragment_count(upper, table) - current_cut * (1 + is_same)
    # The lower fragment is drawn after the upper fragment, so its counts include the upper fragment.
    lower_count = _fragment_count(lower, table) - current_cut
    lower_tokens = np.int64(table.by_length[lower_label]["tokens"]) - current_cut
    if current_cut == 0:
        lower_count += is_same
    joined_log = _log_mass(joined_count, labels.log_strength[upper_label] + joined["log_base"])
    split_log = _log_mass(upper_count, labels.log_strength[upper_label] + upper["log_base"])
    split_log += _log_mass(lower_count, labels.log_strength[lower_label] + lower["log_base"])
    split_log -= math.log(lower_tokens + labels.strength[lower_label])
    return split_log - joined_log


@njit_inline
def _sample_cut(v, u, temperature, context):
    """Sample the cut at v from P^(1/T) [CGB09 eq. 3 and 4]. Returns False if a count fell below 0."""
    view, space = context.tree, context.space
    current_cut = np.int64(view.cut[v])
    fragment_root = _find_fragment_root(v, context)
    _enter_fragment(_UPPER if current_cut else _JOINED, fragment_root, context)
    view.cut[v] = 1 - current_cut
    steps = _summarize_up_to(v, fragment_root, context)
    _enter_fragment(_JOINED if current_cut else _UPPER, fragment_root, context)
    _enter_fragment(_LOWER, v, context)
    log_odds = _log_odds(current_cut, context)
    choice = 0 if 1.0 / (1.0 + math.exp(log_odds / temperature)) > u else 1
    space.statistics[0]["cuts_sampled"] += 1
    if choice == current_cut:
        view.cut[v] = current_cut
        x = np.int64(space.parent[v])
        for k in range(steps):
            space.summary[x] = space.saved[k]
            space.log_bases[x] = space.saved_log_bases[k]
            x = np.int64(space.parent[x])
        return True
    space.statistics[0]["cuts_changed"] += 1
    change = 1 - 2 * current_cut
    sound = _add_fragment(_JOINED, -change, context)
    sound &= _add_fragment(_UPPER, change, context)
    sound &= _add_fragment(_LOWER, change, context)
    return sound


@njit
def _draw(log_weights, size, u):
    largest = -np.inf
    for j in range(size):
        largest = max(largest, log_weights[j])
    total = 0.0
    for j in range(size):
        total += math.exp(log_weights[j] - largest)
        log_weights[j] = total
    choice = 0
    while choice < size - 1 and log_weights[choice] <= u * total:
        choice += 1
    return choice


@njit
def _sample_edge(v, u, temperature, context):
    """Sample v's edge by P^(1/T) · density factor [CFGŠ14 eq. 6]. Returns False if a count fell below 0."""
    view, space = context.tree, context.space
    current_edge = np.int64(view.edge[v])
    edges = np.int64(view.node[v]["degree"])
    fragment_root = v if view.cut[v] else _find_fragment_root(v, context)
    size, _ = _list_option(v, fragment_root, context)
    sound = _add_option(size, context, -1)
    for j in range(edges):
        view.edge[v] = j
        size, log_factor = _list_option(v, fragment_root, context)
        space.log_weight[j] = _score_option(size, context) / temperature + log_factor
    choice = _draw(space.log_weight, edges, u)
    view.edge[v] = choice
    size, _ = _list_option(v, fragment_root, context)
    sound &= _add_option(size, context, 1)
    space.statistics[0]["edges_sampled"] += 1
    if choice != current_edge:
        space.statistics[0]["edges_changed"] += 1
        _summarize_tree(context)
    return sound


@njit
def _shuffle(state, size, sampling_order):
    for k in range(size):
        sampling_order[k] = k
    for k in range(size - 1, 0, -1):
        state = advance(state)
        j = np.int64(uniform(state) * (k + 1))
        sampling_order[k], sampling_order[j] = sampling_order[j], sampling_order[k]
    return state


@njit
def _sweep_tree(context, stream_state, temperature):
    """Resample a tree's edges and cuts in random order of nodes. Returns False if a count fell below 0."""
    view, space = context.tree, context.space
    nodes = len(view.node)
    _summarize_tree(context)
    stream_state = _shuffle(stream_state, nodes, space.sampling_order)
    sound = True
    for k in range(nodes):
        v = np.int64(space.sampling_order[k])
        if space.on_tree[v] == 0:
            continue
        if view.node[v]["degree"] > 1:
            stream_state = advance(stream_state)
            sound &= _sample_edge(v, uniform(stream_state), temperature, context)
        if view.node[v]["free"]:
            stream_state = advance(stream_state)
            sound &= _sample_cut(v, uniform(stream_state), temperature, context)
    return sound


PRIOR_SHAPE, PRIOR_SCALE = 0.001, 1000.0
"""Shape and scale of the Gamma prior of α_c [CGB09 §4]."""
PROPOSAL_VARIANCE = 0.3
"""Variance of the Metropolis–Hastings steps of ln α_c."""
MIN_STRENGTH = 1e-200
"""Minimum strength. The sampler rejects smaller proposals."""

_STRENGTHS, _EXPANSIONS = 1, 2
"""High bits of the pair numbers of the streams of strengths and of expansion probabilities.

The label is in the low bits. The stream of the tables has 2 * `_EXPANSIONS` as high bits.
"""


class FragmentUses(NamedTuple):
    """Distinct fragments: root label, uses, ln P0, and the tree and node of one use, given in the batch."""

    label: NDArray[np.int32]
    uses: NDArray[np.int64]
    log_base: NDArray[np.float64]
    tree: NDArray[np.int32]
    node: NDArray[np.int32]


@njit
def _list_fragments(batch, state, model, space, seen, fragments):
    table = state.table
    size = 0
    for tree in range(len(batch.pairs)):
        context = _tree_at(batch, state, tree, model, space)
        view = context.tree
        nodes = _summarize_tree(context)
        root = len(view.node) - 1
        for k in range(nodes):
            v = np.int64(space.order[k])
            if v != root and view.cut[v] == 0:
                continue
            high, low = summary_key(space.summary, v, context.key_mask)
            row = find(table.rows, high, low)
            if seen[row]:
                continue
            seen[row] = 1
            fragments.label[size], fragments.uses[size] = node_label(v, view), np.int64(table.rows[row, COUNT])
            fragments.log_base[size], fragments.tree[size], fragments.node[size] = space.log_bases[v], tree, v
            size += 1


@njit
def _count_decisions(batch, state, stack, fragments, stream_state, expanded, stopped):
    """Count the expansions and stops of each label in all draws from the base distribution."""
    for e in range(len(fragments.label)):
        base_mass = math.exp(state.labels.log_strength[fragments.label[e]] + fragments.log_base[e])
        tables, stream_state = draw_tables(fragments.uses[e], base_mass, stream_state)
        view = view_pair(batch, state.derivations, np.int64(fragments.tree[e]))
        stack[0] = fragments.node[e]
        depth = 1
        while depth > 0:
            depth -= 1
            first, last = tail_range(np.int64(stack[depth]), view)
            for i in range(first, last):
                t = view.tails[i]
                label = node_label(t, view)
                if view.cut[t]:
                    stopped[label] += tables
                else:
                    expanded[label] += tables
                    stack[depth] = t
                    depth += 1


@njit
def _log_likelihood_of_label(c, strength, log_strength, groups):
    """Return ln (Γ(α)/Γ(n + α) ∏ Γ(n_e + α P0(e)) / Γ(α P0(e))) over the n uses of fragments e of label c."""
    fragments, starts = groups
    total = 0
    result = 0.0
    for e in range(starts[c], starts[c + 1]):
        log_base_mass = log_strength + fragments.log_base[e]
        result += log_rising(math.exp(log_base_mass), log_base_mass, fragments.uses[e])
        total += fragments.uses[e]
    if total > 0:
        result -= log_rising(strength, log_strength, total)
    return result


@njit
def _move_strengths(key, sweep, groups, labels):
    _, starts = groups
    for c in range(1, len(labels.strength)):
        if starts[c + 1] == starts[c]:
            continue
        stream_state = stream(key, np.int64(_STRENGTHS << 32) + c, sweep)
        noise, stream_state = draw_normal(stream_state)
        now = labels.log_strength[c]
        new = now + math.sqrt(PROPOSAL_VARIANCE) * noise
        stream_state = advance(stream_state)
        if new < math.log(MIN_STRENGTH):
            continue
        # The random walk is on ln α, whose prior density is the density of α times α.
        ratio = PRIOR_SHAPE * (new - now) - (math.exp(new) - math.exp(now)) / PRIOR_SCALE
        ratio += _log_likelihood_of_label(c, math.exp(new), new, groups)
        ratio -= _log_likelihood_of_label(c, math.exp(now), now, groups)
        if math.log(1.0 - uniform(stream_state)) < ratio:
            set_label(labels, c, math.exp(new), labels.expansion_probability[c])


@njit
def _move_expansions(key, sweep, expanded, stopped, labels):
    for c in range(1, len(labels.strength)):
        stream_state = stream(key, np.int64(_EXPANSIONS << 32) + c, sweep)
        beta, stream_state = draw_beta(1.0 + expanded[c], 1.0 + stopped[c], stream_state)
        set_label(labels, c, labels.strength[c], beta)


_TREES_PER_CALL = 64
"""Trees per call of a kernel. Before each call, the table gets room for the fragments that it can add."""
_ROOM_PER_NODE = 3
"""Table rows per node: two for the fragments that a change of its cut adds, and one in reserve."""


class TreePlan(NamedTuple):
    """Plan of one sweep over P trees."""

    # Number of the sweep in the chain, from 1. It is part of the keys of the label parameters' random streams.
    number: int
    # int64[P]: sweep number of each tree, from 1. It is part of the keys of the trees' random streams.
    sweeps: NDArray[np.int64]
    # float64[P]: temperature T > 0 of each tree, or 0 to skip the tree.
    temperatures: NDArray[np.float64]


@njit
def _count(first, last, batch, state, model, space):
    for tree in range(first, last):
        context = _tree_at(batch, state, tree, model, space)
        view = context.tree
        root = len(view.node) - 1
        for k in range(_summarize_tree(context)):
            v = np.int64(space.order[k])
            if v == root or view.cut[v]:
                high, low = summary_key(space.summary, v, context.key_mask)
                add(context.table, model, high, low, np.uint64(node_label(v, view)), 1)


@njit
def _sweep(key, first, last, batch, state, plan, model, space):
    sound = True
    for tree in range(first, last):
        if plan.temperatures[tree] > 0.0:
            context = _tree_at(batch, state, tree, model, space)
            stream_state = stream(key, batch.pairs[tree], plan.sweeps[tree])
            sound &= _sweep_tree(context, stream_state, plan.temperatures[tree])
    return sound


@dataclass(frozen=True, slots=True)
class TreeKernel:
    """Sampling kernel of a treebank, returned by `build`."""

    model: TreeModel
    batch: Batch
    space: TreeSpace

    def resume(self, derivations: State, labels: LabelProcesses) -> TreeState:
        """Return a state that shares the derivations, copies the processes, and counts all fragments."""
        table = empty_table(len(labels.strength))
        state = TreeState(derivations, table, LabelProcesses(*(values.copy() for values in labels)))
        for first in range(0, self.batch.size, _TREES_PER_CALL):
            last = min(first + _TREES_PER_CALL, self.batch.size)
            new = int(self.batch.derivation_rules[last] - self.batch.derivation_rules[first])
            state = state._replace(table=with_room(state.table, new))
            _count(first, last, self.batch, state, self.model, self.space)
        return state

    def step(
        self, key: int, state: TreeState, plan: TreePlan, report: Report | None = None
    ) -> tuple[TreeState, SweepInfo]:
        """Sample trees, then label parameters. Consumes `state`. Raises `CountsError` if a count is below 0."""
        self.space.statistics[0] = 0
        for first in range(0, self.batch.size, _TREES_PER_CALL):
            last = min(first + _TREES_PER_CALL, self.batch.size)
            # A change of a cut adds up to two fragments, and a change of an edge up to one per node of an option.
            state = state._replace(table=with_room(state.table, _room(self.batch, first, last)))
            if not _sweep(key, first, last, self.batch, state, plan, self.model, self.space):
                raise CountsError(
                    f"the count of a fragment fell below zero in trees {first} to {last - 1} of the batch: "
                    "derivations and counts do not match: recount the fragments with `TreeKernel.resume`"
                )
            if report:
                report(last)
        fragments = self.list_fragments(state)
        self.move_strengths(key, plan.number, state, fragments)
        self.move_expansions(key, plan.number, state, fragments)
        return state, SweepInfo(*map(int, self.space.statistics[0]))

    def list_fragments(self, state: TreeState) -> FragmentUses:
        """Return the distinct fragments of all derivations, in the order of their first use."""
        number, seen = state.table.rule_types, np.zeros(len(state.table.rows), np.uint8)
        label, tree, node = np.empty((3, number), np.int32)
        fragments = FragmentUses(label, np.empty(number, np.int64), np.empty(number), tree, node)
        _list_fragments(self.batch, state, self.model, self.space, seen, fragments)
        return fragments

    def move_strengths(self, key: int, sweep: int, state: TreeState, fragments: FragmentUses) -> None:
        """Run a Metropolis–Hastings step for α_c of each label with fragments, which must be current."""
        _move_strengths(key, sweep, _group_by_label(fragments, state), state.labels)

    def move_expansions(self, key: int, sweep: int, state: TreeState, fragments: FragmentUses) -> None:
        """Sample β_c of every label, in place. The arguments are as in `move_strengths`."""
        expanded, stopped = np.zeros((2, len(state.labels.strength)), np.int64)
        stream_state = np.uint64(stream(key, _EXPANSIONS << 33, sweep))
        _count_decisions(self.batch, state, self.space.stack, fragments, stream_state, expanded, stopped)
        _move_expansions(key, sweep, expanded, stopped, state.labels)

    def log_likelihood(self, state: TreeState) -> float:
        """Return ln P of all fragments of all derivations, given the label parameters."""
        groups, labels = _group_by_label(self.list_fragments(state), state), state.labels
        total = 0.0
        for c in range(1, len(labels.strength)):
            total += _log_likelihood_of_label(c, labels.strength[c], labels.log_strength[c], groups)
        return total


def _group_by_label(fragments: FragmentUses, state: TreeState) -> tuple[FragmentUses, NDArray[np.int64]]:
    """Return the fragments sorted by label, and each label's first index, int64[L + 1]."""
    order = np.argsort(fragments.label, kind="stable")
    by_label = FragmentUses._make(column[order] for column in fragments)
    return by_label, np.searchsorted(by_label.label, np.arange(len(state.labels.strength) + 1))


def build(model: TreeModel, batch: Batch) -> TreeKernel:
    """Return the kernel of a treebank, with scratch memory for all sweeps."""
    nodes = batch.max_nodes
    space = TreeSpace(
        summary=make_summaries(nodes),
        log_bases=np.zeros(nodes),
        parent=np.zeros(nodes, np.int32),
        on_tree=np.zeros(nodes, np.uint8),
        order=np.zeros(nodes, np.int32),
        sampling_order=np.zeros(nodes, np.int32),
        saved=np.zeros(nodes, SUMMARY),
        saved_log_bases=np.zeros(nodes),
        option=np.zeros(nodes + 1, FRAGMENT),
        subtree=np.zeros(nodes, np.int32),
        stack=np.zeros(nodes + 1, np.int32),
        powers=base_powers(batch.longest_rule + 2),
        scratch=np.zeros((2, nodes + 1), np.int64),
        log_weight=np.zeros(batch.max_options),
        statistics=np.zeros(1, STATISTICS),
    )
    return TreeKernel(model, batch, space)


def _room(batch: Batch, first: int, last: int) -> int:
    forests = batch.forests
    nodes = forests.node[int(forests.node_offset[first]) : int(forests.node_offset[last])]
    ambiguous = nodes["degree"] > 1
    # An option of an edge has at most `level` fragments at and below its node, and one fragment at the fragment root
    # above.
    levels = nodes["level"].astype(np.int64)
    return int(_ROOM_PER_NODE * len(nodes) + levels[ambiguous].sum() + ambiguous.sum())
