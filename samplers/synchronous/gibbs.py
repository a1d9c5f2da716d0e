"""Top-down Gibbs sampler of a pair's derivation [CFGŠ14 §2, Algorithms 1 and 4], and expected uses.

The state of a pair is an edge and a cut for each node of its forest. Each draw of a cut adds the conditional
probability of the cut to the expected uses of the rule that would begin at the node (Rao-Blackwell) [BPK09 §3.3;
docs/model.md, section 4]. This is the *credit* of the rule in the sweep. The *head* of a node is the root of the rule
that contains the node: the node itself if it is cut, or else its nearest cut ancestor.
"""

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, uniform
from hierogram.samplers.forests.averages import add_missed_uses, encode_fragment, end_sweep, enter_rule
from hierogram.samplers.forests.derivations import make_summary
from hierogram.samplers.forests.forest import tail_range
from hierogram.samplers.forests.fragments import compose
from hierogram.samplers.grammar.numbers import ONE_USE
from hierogram.samplers.synchronous.draws import draw_binary, draw_option, multiply, raise_product, value_at_scale
from hierogram.samplers.synchronous.resampling import (
    add_rules,
    assign_number,
    begin_pair,
    find_number,
    list_below,
    read_counts,
    remove_rules,
    rule_at,
    score,
    write_rules,
)


@njit
def _credit(number, v, probability, context):
    """Add a linear probability to the credit of the rule at node v, whose local number is `number`."""
    work = context.work
    uses = np.int64(probability * ONE_USE + 0.5)
    if uses == 0:
        return
    entry = work.credits[number]
    if entry["stamp"] != work.registers[0]["stamp"]:
        start = work.registers[0]["encoded"]
        end = encode_fragment(v, context.pair, work.walk, work.fragments, start)
        if end < 0:
            work.registers[0]["lost"] += uses
            return
        work.registers[0]["encoded"] = end
        work.credited[work.registers[0]["credited"]] = number
        work.registers[0]["credited"] += 1
        entry["stamp"] = work.registers[0]["stamp"]
        entry["uses"] = 0
        entry["start"] = start
        entry["size"] = end - start
        entry["root"] = v
    entry["uses"] += uses


@njit_inline
def _is_shared(number, context):
    return np.int32(context.work.rule[number]["count"] > 1)


@njit
def end_credits(averages, pair, context):
    """Add the credits of `sweep_pair` to the pair's averages, if the plan averages the pair."""
    work = context.work
    if not work.registers[0]["adds_to_averages"]:
        return
    read_counts(context)
    stamp = work.registers[0]["stamp"]
    first = averages.first[pair]
    for k in range(first, first + averages.entry_counts[pair]):
        entry = averages.entry[k]
        number = find_number(entry["source_hash"], entry["target_hash"], context)
        if number < 0:
            continue
        entry["shared"] |= _is_shared(number, context)
        if work.credits[number]["stamp"] == stamp:
            entry["uses"] += work.credits[number]["uses"]
            work.credits[number]["uses"] = 0
    for k in range(work.registers[0]["credited"]):
        number = np.int64(work.credited[k])
        new = work.credits[number]
        if new["uses"] > 0:
            rule = work.rule[number]
            enter_rule(
                averages, pair, (rule["source_hash"], rule["target_hash"]), new["root"], new["uses"],
                _is_shared(number, context), work.fragments[new["start"] : new["start"] + new["size"]],
            )  # fmt: skip
    if work.registers[0]["lost"] > 0:
        add_missed_uses(averages, pair, work.registers[0]["lost"])
    end_sweep(averages, pair)


@njit_inline
def _find_head(v, context):
    while context.pair.cut[v] == 0:
        v = np.int64(context.work.summary[v]["parent"])
    return v


@njit_inline
def _compose(v, context):
    compose(v, context.pair, context.work.summary, context.work.powers, context.work.scratch)


@njit_inline
def _compose_below(head, v, context):
    x = v
    while x != head:
        _compose(x, context)
        x = np.int64(context.work.summary[x]["parent"])


@njit_inline
def _summarize_options(v, head, context):
    """Set `work.top` to the number of the rule at `head` under each edge of v. Lists the rules below v."""
    pair, work = context.pair, context.work
    current_edge = np.int64(pair.edge[v])
    last_summarized = current_edge
    work.top[current_edge] = rule_at(head, context)
    for j in range(np.int64(pair.node[v]["degree"])):
        pair.edge[v] = j
        list_below(v, context)
        if j != current_edge:
            _compose_below(head, v, context)
            _compose(head, context)
            work.top[j] = assign_number(head, context)
            last_summarized = j
    return last_summarized


@njit_inline
def _tempered(probability, context):
    """Return an option's probability, raised to the power 1/T."""
    if context.power != 1.0:
        return raise_product(probability, context.power)
    return probability


@njit_inline
def _list_edge_rules(v, j, context):
    context.pair.edge[v] = j
    return write_rules(v, context.work.top[j], context.work.used, context)


@njit_inline
def _sample_edge(v, u, context):
    """Draw the edge of v by P(rules of the edge)^(1/T) · density factor [CFGŠ14 eq. 6]."""
    current_edge = np.int64(context.pair.edge[v])
    degree = np.int64(context.pair.node[v]["degree"])
    head = _find_head(v, context)
    last_summarized = _summarize_options(v, head, context)
    read_counts(context)
    work = context.work
    size, _ = _list_edge_rules(v, current_edge, context)
    remove_rules(work.used, size, context)
    for j in range(degree):
        size, factor = _list_edge_rules(v, j, context)
        weight = _tempered(score(work.used, size, context), context)
        if context.density:
            weight = multiply(weight, factor)
        work.weight[j]["value"] = weight.value
        work.weight[j]["exponent"] = weight.exponent
    choice = draw_option(work.weight, degree, current_edge, u, context.avoid_current)
    size, _ = _list_edge_rules(v, choice, context)
    add_rules(work.used, size, context)
    work.statistics[0]["edges_sampled"] += 1
    work.statistics[0]["edges_changed"] += 1 if choice != current_edge else 0
    work.summary[head]["rule"] = work.top[choice]
    if choice != last_summarized:
        _compose_below(head, v, context)


@njit_inline
def _summarize(v, context):
    if context.pair.node[v]["degree"] > 1:
        # Compose only v, because `_sample_edge` has just summarized the tails.
        _compose(v, context)
    else:
        make_summary(v, context.pair, context.work)


@njit_inline
def _flip_cut(v, head, current_cut, context):
    current_rule = rule_at(head, context)
    _summarize(v, context)
    lower = assign_number(v, context)
    context.pair.cut[v] = 1 - current_cut
    _compose_below(head, np.int64(context.work.summary[v]["parent"]), context)
    _compose(head, context)
    flipped_rule = assign_number(head, context)
    read_counts(context)
    if current_cut:
        return flipped_rule, current_rule, lower
    return current_rule, flipped_rule, lower


@njit_inline
def _list_cut(joined, upper, lower, cut, work):
    work.used[0] = upper if cut else joined
    work.used[1] = lower
    return 1 + np.int64(cut)


@njit_inline
def _sample_cut(v, u, context):
    """Draw the cut of v. An averaged sweep credits the lower rule with the probability of a cut."""
    work = context.work
    current_cut = context.pair.cut[v]
    parent = np.int64(work.summary[v]["parent"])
    head = _find_head(parent, context)
    joined, upper, lower = _flip_cut(v, head, current_cut, context)
    remove_rules(work.used, _list_cut(joined, upper, lower, current_cut, work), context)
    joined_weight = _tempered(score(work.used, _list_cut(joined, upper, lower, 0, work), context), context)
    split_weight = _tempered(score(work.used, _list_cut(joined, upper, lower, 1, work), context), context)
    total = joined_weight.value + value_at_scale(split_weight, joined_weight)
    if work.registers[0]["adds_to_averages"]:
        _credit(lower, v, 1.0 - joined_weight.value / total, context)
    choice = draw_binary(joined_weight.value, total, np.int64(current_cut), u, context.avoid_current)
    add_rules(work.used, _list_cut(joined, upper, lower, choice, work), context)
    context.pair.cut[v] = choice
    work.statistics[0]["cuts_sampled"] += 1
    work.statistics[0]["cuts_changed"] += 1 if choice != current_cut else 0
    work.summary[head]["rule"] = work.used[0]
    if choice == 1:
        work.summary[v]["rule"] = lower
        work.summary[v]["rule_epoch"] = np.uint32(work.registers[0]["epoch"])
    if choice == current_cut:
        _compose_below(head, parent, context)


@njit_inline
def sweep_pair(stream_state, max_level, adds_to_averages, context):
    """Sample the edge and cut of each node of the derivation with a level up to `max_level`, top-down."""
    pair, work = context.pair, context.work
    begin_pair(adds_to_averages, work)
    root = len(pair.node) - 1
    work.stack[0] = root
    work.summary[root]["parent"] = -1
    depth = 1
    while depth > 0:
        depth -= 1
        v = np.int64(work.stack[depth])
        if pair.node[v]["level"] <= max_level:
            if pair.node[v]["degree"] > 1:
                stream_state = advance(stream_state)
                _sample_edge(v, uniform(stream_state), context)
            if pair.node[v]["free"]:
                stream_state = advance(stream_state)
                _sample_cut(v, uniform(stream_state), context)
            elif work.registers[0]["adds_to_averages"]:
                number = rule_at(v, context)
                # Recompute the summary, because `_sample_edge` may have summarized v under another edge.
                _summarize(v, context)
                _credit(number, v, 1.0, context)
        first, last = tail_range(v, pair)
        for i in range(last - 1, first - 1, -1):
            t = pair.tails[i]
            work.stack[depth] = t
            work.summary[t]["parent"] = v
            depth += 1
