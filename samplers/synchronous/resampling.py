"""Resampling one pair: its rules under a number of their own, their counts at hand, options scored.

When a pair is resampled each rule that is met is read once from the rule table and gets a number that is local to the
pair; from then on counts, lengths and what the pair itself adds or takes away are small arrays. Summaries of
fragments below the node that is being sampled do not change in a top-down sweep, so each is made once.
"""

import math
from typing import NamedTuple

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import mask_of, probe
from hierogram.samplers.counts.models import Model, is_long, log_probability, more_tables, probability
from hierogram.samplers.counts.products import LOG_SCALE, SCALE, UNSCALE, Scaled, scaled_down, times
from hierogram.samplers.counts.table import COUNT, RuleTable, add, add_row, fetch, find, look_up
from hierogram.samplers.forests.fragments import key_of_hashes, size_of
from hierogram.samplers.forests.sizes import length_of, source_terminals_of, target_terminals_of
from hierogram.samplers.forests.views import PairView, tails_of
from hierogram.samplers.forests.walk import make_summary
from hierogram.samplers.synchronous.workspace import Workspace

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
    """Whether a place is that of the rule with these hashes, or no other rule of the pair has taken it."""
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
def add_customer(number, at):
    """One more customer for a rule."""
    rule = at.work.rule[number]
    count = rule["count"]
    rule["count"] = count + 1
    of_length = at.work.by_length[rule["length"]]
    of_length["tokens"] += 1
    of_length["tables"] += more_tables(at.model, count)
    at.work.registers[0]["customers"] += 1


@njit_inline
def remove_customer(number, at):
    """One customer less for a rule."""
    rule = at.work.rule[number]
    count = rule["count"]
    rule["count"] = count - 1
    of_length = at.work.by_length[rule["length"]]
    of_length["tokens"] -= 1
    of_length["tables"] -= more_tables(at.model, count - 1)
    at.work.registers[0]["customers"] -= 1


@njit_inline
def add_rules(rules, size, at):
    """A customer more for each of the first `size` rules."""
    for k in range(size):
        add_customer(np.int64(rules[k]), at)


@njit_inline
def remove_rules(rules, size, at):
    """A customer less for each of the first `size` rules."""
    for k in range(size):
        remove_customer(np.int64(rules[k]), at)


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
def make_tails(v, at):
    """See to it that the summaries of v's uncut tails under its present edge are made."""
    first, last = tails_of(v, at.pair)
    for i in range(first, last):
        t = at.pair.tails[i]
        if at.pair.cut[t] == 0 and at.work.summary[t]["made"] != np.uint32(at.work.registers[0]["epoch"]):
            make_summary(np.int64(t), at.pair, at.work)


@njit_inline
def rule_at(v, at):
    """Local number of the rule whose left-hand side is v; found once a pair, kept up to date by whoever changes it."""
    summary = at.work.summary
    epoch = np.uint32(at.work.registers[0]["epoch"])
    if summary[v]["rule_made"] != epoch:
        if summary[v]["made"] != epoch:
            make_summary(v, at.pair, at.work)
        summary[v]["rule"] = number_of(v, at)
        summary[v]["rule_made"] = epoch
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
    """List the rules of x's derivation, those of its tails being listed, and count the values of its variables."""
    pair, work = at.pair, at.work
    start = work.registers[0]["listed"]
    end = start
    if pair.cut[x]:
        work.lists[end] = rule_at(x, at)
        end += 1
    options = Scaled(np.float64(np.int64(pair.node[x]["degree"]) << np.int64(pair.node[x]["free"])), 0)
    for i in range(first, last):
        t = pair.tails[i]
        options = scaled_down(times(options, _options_below(t, work)))
        end = _copy_list(t, work.lists, end, work)
    own = work.summary[x]
    own["list_made"] = np.uint32(work.registers[0]["epoch"])
    own["list_start"] = start
    own["list_size"] = end - start
    own["options"] = options.value
    own["options_exponent"] = options.exponent
    work.registers[0]["listed"] = end


@njit
def list_rules(v, at):
    """See to it that the rules of v's derivation are listed, its own first if v is cut, and the variables counted.

    Below the node that is being sampled nothing has changed in a sweep, so each node is listed once, from its tails'
    lists. Lists stand one after the other in `work.lists`.
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
    """See to it that the rules of v's tails under its present edge are listed."""
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
