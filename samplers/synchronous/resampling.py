"""Resampling one pair: its rules under a number of their own, their counts at hand, options scored.

Each rule that is met is read once from the rule table and gets a number that is local to the pair; from then on counts,
lengths and what the pair itself adds or takes away are small arrays. All this lies in the scratch memory of one worker,
which a sweep fills and empties without allocating any.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import mask_of, probe
from hierogram.samplers.counts.models import Model, is_long, log_probability, more_tables, probability
from hierogram.samplers.counts.table import COUNT, LENGTH, RuleTable, add, add_row, fetch, find, look_up
from hierogram.samplers.forests.batch import Batch
from hierogram.samplers.forests.forest import PairView, tails_of
from hierogram.samplers.forests.fragments import (
    compose,
    key_of_hashes,
    length_of,
    make_summaries,
    powers_of_base,
    size_of,
    source_terminals_of,
    target_terminals_of,
)
from hierogram.samplers.forests.walk import make_summary
from hierogram.samplers.grammar.numbers import CLASSES
from hierogram.samplers.synchronous.draws import LOG_SCALE, SCALE, SCALED, UNSCALE, Scaled, scaled_down, times

REGISTERS = np.dtype(
    [
        ("stamp", np.int64),
        ("epoch", np.int64),
        ("met", np.int64),
        ("counted", np.int64),
        ("listed", np.int64),
        ("customers", np.int64),
        ("overlaid", np.int64),
        ("logged", np.int64),
        ("averaged", np.int64),
        ("credited", np.int64),
        ("encoded", np.int64),
        ("lost", np.int64),
    ]
)
"""The number of the pair that is being resampled and that of its summaries; rules met in it, and how many of them have
their counts read; places taken by lists; customers of all rules; rows taken in the overlay; changes in the log; 1 if
the pair is averaged in this sweep; rules credited in it, bytes of their fragments, uses of those without room for
theirs."""

STATISTICS = np.dtype(
    [
        ("edges_sampled", np.int64),
        ("edges_changed", np.int64),
        ("cuts_sampled", np.int64),
        ("cuts_changed", np.int64),
        ("evaluations", np.int64),
        ("reads", np.int64),
        ("proposed", np.int64),
        ("accepted", np.int64),
    ]
)
"""Variables sampled and changed, rules scored, rules read from the table, Metropolis-Hastings steps."""

RULE = np.dtype(
    [
        ("source_hash", np.uint64),
        ("target_hash", np.uint64),
        ("key_high", np.uint64),
        ("key_low", np.uint64),
        ("size", np.uint64),
        ("count", np.int64),
        ("base", np.int64),
        ("row", np.int64),
        ("length", np.int32),
        ("long", np.int32),
    ]
)
"""A rule of the pair that is being resampled: hashes of both sides, key, size, count now, count when it was first met,
row in the rule table; its length, and 1 if it is to be scored by logarithms."""


CREDIT = np.dtype(
    [("stamp", np.int64), ("uses", np.int64), ("start", np.int32), ("size", np.int32), ("root", np.int32)], align=True
)
"""What a rule of the pair was credited with in this sweep: the number of the pair for which this is valid; uses in
units of 1/`ONE_USE`; where its fragment lies in `fragments`, its bytes, the node at which it begins."""


class Workspace(NamedTuple):
    """Scratch memory of one worker; nothing is allocated during a sweep.

    `summary` SUMMARY[n+1] by node; `rule` RULE[r] by local rule; `places` uint64[m] the local hash map; `by_length`
    LENGTH[L] the counts by length at hand; `used`, `current` int32[n] the rules of an option; `stack`, `walk`,
    `pending` int32[n]; `lists` int32 the rules below each node; `change` int64[n] by how much each rule of an option
    changes its length's tables; `scratch` int64[2, n]; by option, `weight` SCALED and `top` int32 its uppermost rule;
    `powers` uint64 of the hash's base; `overlay` uint64[o, 4] what a block of pairs has added to a frozen table,
    `overlay_list` its taken rows; `log` uint64[c, 4] the changes of all the worker's blocks of a round (key, change,
    size); `saved_edge`, `saved_cut` a pair's variables; `registers` REGISTERS[1]; `statistics` STATISTICS[1];
    `rows_read` uint32[N], shared by all workers: which rows of the table each pair read last, as long as they fit in
    its nodes' places; `credits` CREDIT[r] by local rule, `credited` int32 the rules that were credited, `fragments`
    uint8 the bytes of their fragments, `mass` int64[CLASSES] the uses credited, by number of nonterminals.
    """

    summary: NDArray[np.void]
    rule: NDArray[np.void]
    places: NDArray[np.uint64]
    by_length: NDArray[np.void]
    used: NDArray[np.int32]
    current: NDArray[np.int32]
    stack: NDArray[np.int32]
    walk: NDArray[np.int32]
    pending: NDArray[np.int32]
    lists: NDArray[np.int32]
    change: NDArray[np.int64]
    scratch: NDArray[np.int64]
    weight: NDArray[np.void]
    top: NDArray[np.int32]
    powers: NDArray[np.uint64]
    overlay: NDArray[np.uint64]
    overlay_list: NDArray[np.int64]
    log: NDArray[np.uint64]
    saved_edge: NDArray[np.uint16]
    saved_cut: NDArray[np.uint8]
    registers: NDArray[np.void]
    statistics: NDArray[np.void]
    rows_read: NDArray[np.uint32]
    credits: NDArray[np.void]
    credited: NDArray[np.int32]
    fragments: NDArray[np.uint8]
    mass: NDArray[np.int64]


def power_of_two(least: int) -> int:
    """The smallest power of two that is not below `least`."""
    return 1 << max(0, (int(least) - 1).bit_length())


def make_workspace(batch: Batch, overlay_rules: int, logged_rules: int, rows_read: NDArray[np.uint32]) -> Workspace:
    """A workspace for the pairs of a batch.

    `overlay_rules` bounds the changes of a block, `logged_rules` those of a round.
    """
    overlay = power_of_two(2 * overlay_rules + 2)
    nodes, options = batch.most_nodes, max(2, batch.most_options)
    return Workspace(
        summary=make_summaries(nodes),
        rule=np.zeros(batch.most_rules, RULE),
        places=np.zeros(power_of_two(2 * batch.most_rules), np.uint64),
        by_length=np.zeros(batch.longest_rule + 1, LENGTH),
        used=np.zeros(nodes + 1, np.int32),
        current=np.zeros(nodes + 1, np.int32),
        stack=np.zeros(nodes + 1, np.int32),
        walk=np.zeros(nodes + 1, np.int32),
        pending=np.zeros(nodes + 1, np.int32),
        lists=np.zeros(batch.most_listed, np.int32),
        change=np.zeros(nodes + 1, np.int64),
        scratch=np.zeros((2, nodes + 1), np.int64),
        weight=np.zeros(options, SCALED),
        top=np.zeros(options, np.int32),
        powers=powers_of_base(batch.longest_rule + 2),
        overlay=np.zeros((overlay, 4), np.uint64),
        overlay_list=np.zeros(overlay, np.int64),
        log=np.zeros((logged_rules, 4), np.uint64),
        saved_edge=np.zeros(nodes, np.uint16),
        saved_cut=np.zeros(nodes, np.uint8),
        registers=np.zeros(1, REGISTERS),
        statistics=np.zeros(1, STATISTICS),
        rows_read=rows_read,
        credits=np.zeros(batch.most_rules, CREDIT),
        credited=np.zeros(batch.most_rules, np.int32),
        fragments=np.zeros(64 * nodes + 1024, np.uint8),
        mass=np.zeros(CLASSES, np.int64),
    )


_32 = np.uint64(32)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_LOW_HALF = np.uint64(0xFFFFFFFF)


class Resampling(NamedTuple):
    """A pair that is being resampled, and all that this needs.

    `places_mask` is one less than the places that the pair has in `work.places`; `key_mask` has the bits of keys that
    count; conditionals are raised to `power` = 1/T; options have the density factor where `density` says so; draws
    leave the present values where `leaving` says so.
    """

    pair: PairView
    table: RuleTable
    model: Model
    work: Workspace
    places_mask: np.uint64
    key_mask: np.uint64
    power: float
    density: bool
    leaving: bool


@njit_inline
def forget_summaries(work):
    """Forget all summaries and lists, but not the rules that were met."""
    work.registers[0]["epoch"] += 1
    work.registers[0]["listed"] = 0


@njit_inline
def begin_pair(work):
    """Forget the pair before."""
    work.registers[0]["stamp"] += 1
    work.registers[0]["met"] = 0
    work.registers[0]["counted"] = 0
    forget_summaries(work)


@njit_inline
def _is_place_of(at, place, key):
    """Return whether a place is that of the rule with these hashes, or no other rule of the pair has taken it."""
    stamp, source_hash, target_hash = key
    entry = at.work.places[place]
    known = at.work.rule[np.int64(entry & _LOW_HALF)]
    return (entry >> _32) != stamp or (known["source_hash"] == source_hash and known["target_hash"] == target_hash)


@njit_inline
def _place_of(source_hash, target_hash, at):
    """Where the number of the rule with these hashes is, or goes."""
    stamp = np.uint64(at.work.registers[0]["stamp"])
    home = ((source_hash * _SPREAD + target_hash) >> _32) & at.places_mask
    return probe(home, at.places_mask, _is_place_of, at, (stamp, source_hash, target_hash))


@njit_inline
def met_number(source_hash, target_hash, at):
    """The local number of the rule with these hashes, or -1 where the pair has not met it."""
    entry = at.work.places[_place_of(source_hash, target_hash, at)]
    if (entry >> _32) == np.uint64(at.work.registers[0]["stamp"]):
        return np.int64(entry & _LOW_HALF)
    return np.int64(-1)


@njit_inline
def number_of(v, at):
    """The local number of the rule summed up at v; `read_counts` reads the counts of those that are met first.

    Meanwhile the row of the table is on its way.
    """
    work = at.work
    source_hash = work.summary[v]["source_hash"]
    target_hash = work.summary[v]["target_hash"]
    stamp = np.uint64(work.registers[0]["stamp"])
    place = _place_of(source_hash, target_hash, at)
    if (work.places[place] >> _32) == stamp:
        return np.int64(work.places[place] & _LOW_HALF)
    number = work.registers[0]["met"]
    work.registers[0]["met"] = number + 1
    work.places[place] = (stamp << _32) | np.uint64(number)
    high, low = key_of_hashes(source_hash, target_hash, at.key_mask)
    fetch(at.table, np.int64(low & mask_of(at.table.rows)))
    rule = work.rule[number]
    rule["source_hash"] = source_hash
    rule["target_hash"] = target_hash
    rule["key_high"] = high
    rule["key_low"] = low
    rule["size"] = size_of(work.summary, v)
    return number


@njit_inline
def read_counts(at):
    """Read the counts of the rules that were met since this was last done."""
    work = at.work
    for number in range(work.registers[0]["counted"], work.registers[0]["met"]):
        rule = work.rule[number]
        size = rule["size"]
        length = length_of(size)
        rule["length"] = length
        rule["long"] = is_long(at.model, length, source_terminals_of(size), target_terminals_of(size))
        row, count = look_up(at.table, rule["key_high"], rule["key_low"])
        if work.registers[0]["overlaid"] > 0:
            count += np.int64(work.overlay[find(work.overlay, rule["key_high"], rule["key_low"]), COUNT])
        rule["row"] = row
        rule["count"] = count
        rule["base"] = count
    work.statistics[0]["reads"] += work.registers[0]["met"] - work.registers[0]["counted"]
    work.registers[0]["counted"] = work.registers[0]["met"]


@njit_inline
def add_rules(rules, size, at):
    """A customer more for each of the first `size` rules."""
    for k in range(size):
        rule = at.work.rule[np.int64(rules[k])]
        count = rule["count"]
        rule["count"] = count + 1
        of_length = at.work.by_length[rule["length"]]
        of_length["tokens"] += 1
        of_length["tables"] += more_tables(at.model, count)
        at.work.registers[0]["customers"] += 1


@njit_inline
def remove_rules(rules, size, at):
    """A customer less for each of the first `size` rules."""
    for k in range(size):
        rule = at.work.rule[np.int64(rules[k])]
        count = rule["count"]
        rule["count"] = count - 1
        of_length = at.work.by_length[rule["length"]]
        of_length["tokens"] -= 1
        of_length["tables"] -= more_tables(at.model, count - 1)
        at.work.registers[0]["customers"] -= 1


@njit_inline
def score(rules, size, at):
    """∏ P(rule | rest and the rules before it), the rules scored in order; counts are as before after.

    `rules` int32, its first `size` items are local numbers. The exponent is 0 unless there are long rules or very many.
    """
    work, model = at.work, at.model
    numerator = 1.0
    denominator = 1.0
    exponent = 0
    customers = work.registers[0]["customers"]
    for k in range(size):
        rule = work.rule[rules[k]]
        count = rule["count"]
        length = np.int64(rule["length"])
        source_terminals = source_terminals_of(rule["size"])
        target_terminals = target_terminals_of(rule["size"])
        of_length = work.by_length[length]
        tokens, tables = of_length["tokens"], of_length["tables"]
        if rule["long"]:
            logarithm = log_probability(
                model, count, length, source_terminals, target_terminals, tokens, tables, customers + k
            )
            whole = math.ceil(logarithm / LOG_SCALE)
            exponent += np.int64(whole)
            numerator *= math.exp(logarithm - whole * LOG_SCALE)
        else:
            above, below = probability(
                model, count, length, source_terminals, target_terminals, tokens, tables, customers + k
            )
            numerator *= above
            denominator *= below
        if denominator > SCALE:
            numerator *= UNSCALE
            denominator *= UNSCALE
        while numerator < UNSCALE:
            numerator *= SCALE
            exponent -= 1
        if k + 1 < size:
            change = more_tables(model, count)
            rule["count"] = count + 1
            of_length["tokens"] += 1
            of_length["tables"] += change
            work.change[k] = change
    for k in range(size - 1):
        rule = work.rule[rules[k]]
        of_length = work.by_length[rule["length"]]
        rule["count"] -= 1
        of_length["tokens"] -= 1
        of_length["tables"] -= work.change[k]
    work.statistics[0]["evaluations"] += size
    return Scaled(numerator / denominator, exponent)


@njit_inline
def _number_rule(v, epoch, at):
    """Note the local number of the rule that is summed up at v."""
    at.work.summary[v]["rule"] = number_of(v, at)
    at.work.summary[v]["rule_made"] = epoch


@njit_inline
def rule_at(v, at):
    """Local number of the rule whose left-hand side is v; found once a pair, kept up to date by whoever changes it."""
    summary = at.work.summary
    epoch = np.uint32(at.work.registers[0]["epoch"])
    if summary[v]["rule_made"] != epoch:
        if summary[v]["made"] != epoch:
            make_summary(v, at.pair, at.work)
        _number_rule(v, epoch, at)
    return np.int64(summary[v]["rule"])


@njit_inline
def _options_below(t, work):
    """The number of values that the variables of the derivation below t, listed before, have together."""
    below = work.summary[t]
    return Scaled(below["options"], np.int64(below["options_exponent"]))


@njit_inline
def _copy_list(t, rules, size, work):
    """Append the rules of the derivation below t, listed before, to `rules`; their new number."""
    below = work.summary[t]
    start = np.int64(below["list_start"])
    for k in range(np.int64(below["list_size"])):
        rules[size] = work.lists[start + k]
        size += 1
    return size


@njit_inline
def _list_node(x, first, last, at):
    """Sum up x, list the rules of its derivation, and count the values of its variables; its tails have been listed."""
    pair, work = at.pair, at.work
    own = work.summary[x]
    epoch = np.uint32(work.registers[0]["epoch"])
    if own["made"] != epoch:
        compose(x, pair, work.summary, work.powers, work.scratch)
        own["made"] = epoch
    start = work.registers[0]["listed"]
    end = start
    if pair.cut[x]:
        if own["rule_made"] != epoch:
            _number_rule(x, epoch, at)
        work.lists[end] = own["rule"]
        end += 1
    options = Scaled(np.float64(np.int64(pair.node[x]["degree"]) << np.int64(pair.node[x]["free"])), 0)
    for i in range(first, last):
        t = pair.tails[i]
        options = scaled_down(times(options, _options_below(t, work)))
        end = _copy_list(t, work.lists, end, work)
    own["list_made"] = epoch
    own["list_start"] = start
    own["list_size"] = end - start
    own["options"] = options.value
    own["options_exponent"] = options.exponent
    work.registers[0]["listed"] = end


@njit
def list_rules(v, at):
    """See to it that the rules of v's derivation are listed, its own first if v is cut, and the variables counted.

    All nodes of the derivation are summed up then. Below the node that is being sampled nothing has changed in a sweep,
    so each node is listed once, from its tails' lists. Lists stand one after the other in `work.lists`.
    """
    work = at.work
    epoch = np.uint32(work.registers[0]["epoch"])
    if work.summary[v]["list_made"] == epoch:
        return
    work.walk[0] = v
    depth = 1
    while depth > 0:
        x = np.int64(work.walk[depth - 1])
        first, last = tails_of(x, at.pair)
        above = depth
        for i in range(first, last):
            t = at.pair.tails[i]
            if work.summary[t]["list_made"] != epoch:
                work.walk[depth] = t
                depth += 1
        if depth == above:
            depth -= 1
            _list_node(x, first, last, at)


@njit_inline
def list_below(v, at):
    """See to it that v's tails under its present edge are summed up, and the rules below them listed."""
    first, last = tails_of(v, at.pair)
    for i in range(first, last):
        t = at.pair.tails[i]
        if at.work.summary[t]["list_made"] != np.uint32(at.work.registers[0]["epoch"]):
            list_rules(t, at)


@njit_inline
def rules_from(v, top, rules, at):
    """Fill `rules` with `top` and the rules of all cut nodes strictly below v, listed before, top-down in source order.

    Returns how many there are, and the density factor: the product, over the nodes strictly below v, of the number of
    values of their variables [CFGŠ14 eq. 6].
    """
    rules[0] = top
    size = 1
    factor = Scaled(1.0, 0)
    first, last = tails_of(v, at.pair)
    for i in range(first, last):
        t = at.pair.tails[i]
        factor = scaled_down(times(factor, _options_below(t, at.work)))
        size = _copy_list(t, rules, size, at.work)
    return size, factor


@njit_inline
def remember_rows(first, room, work):
    """Note which rows of the table this pair read, from `work.rows_read[first]` on; ended by 0 if below `room`."""
    size = min(room, work.registers[0]["met"])
    for number in range(size):
        work.rows_read[first + number] = work.rule[number]["row"]
    if size < room:
        work.rows_read[first + size] = 0


@njit_inline
def fetch_rows(first, room, table, work):
    """Ask for the rows that a pair read when it was last resampled, so that they are at hand when its turn comes.

    Most rules of a pair are the same from sweep to sweep; where a row was moved or never noted, nothing is lost.
    """
    mask = np.uint32(table.rows.shape[0] - 1)
    for k in range(first, first + room):
        row = work.rows_read[k]
        if row == 0:
            break
        fetch(table, np.int64(row & mask))


@njit_inline
def hand_over(direct, at):
    """Hand the changed counts over: to the table itself, or to the block's overlay. False: a count fell below 0."""
    work = at.work
    sound = True
    for number in range(work.registers[0]["met"]):
        rule = work.rule[number]
        change = rule["count"] - rule["base"]
        if change == 0:
            continue
        if direct:
            sound &= add(at.table, at.model, rule["key_high"], rule["key_low"], rule["size"], change)
        else:
            row, is_new = add_row(work.overlay, rule["key_high"], rule["key_low"], rule["size"])
            if is_new:
                work.overlay_list[work.registers[0]["overlaid"]] = row
                work.registers[0]["overlaid"] += 1
            work.overlay[row, COUNT] = np.uint64(np.int64(work.overlay[row, COUNT]) + change)
    return sound
