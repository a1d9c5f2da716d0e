"""One visit to a pair: its rules under a number of their own, their counts at hand, options scored.

A visit reads each rule that it meets once from the rule table and gives it a number that is local to the
visit; from then on counts, lengths and what the pair itself adds or takes away are small arrays. Summaries of
fragments below the node that is being sampled do not change in a top-down sweep, so each is made once.
"""

import math

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.counts.models import is_long, log_probability, more_tables, probability
from hierogram.samplers.counts.table import (
    COUNT,
    KEY_HIGH,
    KEY_LOW,
    SHAPE,
    add,
    fetch,
    find,
    look_up,
    shape_length,
    shape_source_terminals,
    shape_target_terminals,
)
from hierogram.samplers.forests.forest import NO_TAIL
from hierogram.samplers.forests.fragments import key_of_hashes, shape_of
from hierogram.samplers.forests.walk import make_summary

FOLD = 2.0**256
"""Products are kept within 64-bit floats: numbers of this size are taken out, and counted."""
LOG_FOLD = 256 * math.log(2.0)
_UNFOLD = 1.0 / FOLD
_32 = np.uint64(32)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_LOW_HALF = np.uint64(0xFFFFFFFF)


@njit_inline
def open_epoch(work):
    """Forget all summaries and lists, but not the rules that were met."""
    work.registers[0]["epoch"] += 1
    work.registers[0]["listed"] = 0


@njit_inline
def open_visit(work):
    """Forget the last visit."""
    work.registers[0]["visit"] += 1
    work.registers[0]["met"] = 0
    work.registers[0]["counted"] = 0
    open_epoch(work)


@njit_inline
def number_of(row, places_mask, table, work, key_mask):
    """The local number of the rule summed up in a row; `read_counts` reads the counts of those that are met first.

    Meanwhile the row of the table is on its way.
    """
    source_hash = work.summary[row]["source_hash"]
    target_hash = work.summary[row]["target_hash"]
    visit = np.uint64(work.registers[0]["visit"])
    place = ((source_hash * _SPREAD + target_hash) >> _32) & places_mask
    while True:
        entry = work.places[place]
        if (entry >> _32) != visit:
            break
        known = np.int64(entry & _LOW_HALF)
        if work.rule[known]["source_hash"] == source_hash and work.rule[known]["target_hash"] == target_hash:
            return known
        place = (place + np.uint64(1)) & places_mask
    number = work.registers[0]["met"]
    work.registers[0]["met"] = number + 1
    work.places[place] = (visit << _32) | np.uint64(number)
    high, low = key_of_hashes(source_hash, target_hash, key_mask)
    fetch(table, np.int64(low & np.uint64(table.rows.shape[0] - 1)))
    rule = work.rule[number]
    rule["source_hash"] = source_hash
    rule["target_hash"] = target_hash
    rule["key_high"] = high
    rule["key_low"] = low
    rule["shape"] = shape_of(work.summary, row)
    return number


@njit_inline
def read_counts(table, model, work):
    """Read the counts of the rules that were met since this was last done."""
    for number in range(work.registers[0]["counted"], work.registers[0]["met"]):
        rule = work.rule[number]
        shape = rule["shape"]
        length = shape_length(shape)
        rule["length"] = length
        rule["long"] = is_long(model, length, shape_source_terminals(shape), shape_target_terminals(shape))
        row, count = look_up(table, rule["key_high"], rule["key_low"])
        if work.registers[0]["overlaid"] > 0:
            count += np.int64(work.overlay[find(work.overlay, rule["key_high"], rule["key_low"]), COUNT])
        rule["row"] = row
        rule["count"] = count
        rule["base"] = count
    work.statistics[0]["reads"] += work.registers[0]["met"] - work.registers[0]["counted"]
    work.registers[0]["counted"] = work.registers[0]["met"]


@njit_inline
def seat(number, model, work):
    """One more customer for a rule."""
    rule = work.rule[number]
    count = rule["count"]
    rule["count"] = count + 1
    kind = work.by_length[rule["length"]]
    kind["tokens"] += 1
    kind["tables"] += more_tables(model, count)
    work.registers[0]["customers"] += 1


@njit_inline
def unseat(number, model, work):
    """One customer less for a rule."""
    rule = work.rule[number]
    count = rule["count"]
    rule["count"] = count - 1
    kind = work.by_length[rule["length"]]
    kind["tokens"] -= 1
    kind["tables"] -= more_tables(model, count - 1)
    work.registers[0]["customers"] -= 1


@njit_inline
def score(rules, size, model, work):
    """∏ P(rule | rest and the rules before it), the rules scored in order; counts are as before after.

    `rules` int32, its first `size` items are local numbers. Returns (value, folds), the product being
    value * FOLD**folds and value less than FOLD; folds is 0 unless there are long rules or very many.
    """
    numerator = 1.0
    denominator = 1.0
    folds = 0
    total = work.registers[0]["customers"]
    for k in range(size):
        rule = work.rule[rules[k]]
        count = rule["count"]
        length = np.int64(rule["length"])
        shape = rule["shape"]
        kind = work.by_length[length]
        if rule["long"]:
            logarithm = log_probability(
                model,
                count,
                length,
                shape_source_terminals(shape),
                shape_target_terminals(shape),
                kind["tokens"],
                kind["tables"],
                total + k,
            )
            whole = math.ceil(logarithm / LOG_FOLD)
            folds += np.int64(whole)
            numerator *= math.exp(logarithm - whole * LOG_FOLD)
        else:
            above, below = probability(
                model,
                count,
                length,
                shape_source_terminals(shape),
                shape_target_terminals(shape),
                kind["tokens"],
                kind["tables"],
                total + k,
            )
            numerator *= above
            denominator *= below
        if denominator > FOLD:
            numerator *= _UNFOLD
            denominator *= _UNFOLD
        while numerator < _UNFOLD:
            numerator *= FOLD
            folds -= 1
        if k + 1 < size:
            change = more_tables(model, count)
            rule["count"] = count + 1
            kind["tokens"] += 1
            kind["tables"] += change
            work.change[k] = change
    for k in range(size - 1):
        rule = work.rule[rules[k]]
        kind = work.by_length[rule["length"]]
        rule["count"] -= 1
        kind["tokens"] -= 1
        kind["tables"] -= work.change[k]
    work.statistics[0]["evaluations"] += size
    return numerator / denominator, folds


@njit_inline
def make_tails(v, view, work):
    """See to it that the summaries of v's uncut tails under its present edge are made."""
    arity = np.int64(view.node[v]["arity"])
    first = np.int64(view.node[v]["tail_offset"]) + np.int64(view.edge[v]) * arity
    for i in range(arity):
        t = view.tails[first + i]
        if t == NO_TAIL:
            break
        if view.cut[t] == 0 and work.summary[t]["made"] != np.uint32(work.registers[0]["epoch"]):
            make_summary(np.int64(t), view, work)


@njit_inline
def rule_at(v, view, places_mask, table, work, key_mask):
    """Local number of the rule whose left-hand side is v; made once a visit, kept up to date by whoever changes it."""
    visit = np.uint32(work.registers[0]["epoch"])
    if work.summary[v]["rule_made"] != visit:
        if work.summary[v]["made"] != visit:
            make_summary(v, view, work)
        work.summary[v]["rule"] = number_of(v, places_mask, table, work, key_mask)
        work.summary[v]["rule_made"] = visit
    return np.int64(work.summary[v]["rule"])


@njit
def list_rules(v, view, places_mask, table, work, key_mask):
    """See to it that the rules of v's derivation are listed, its own first if v is cut, and the variables counted.

    Below the node that is being sampled nothing has changed in a sweep, so each node is listed once, from its tails'
    lists. Lists stand one after the other in `work.lists`.
    """
    epoch = np.uint32(work.registers[0]["epoch"])
    if work.summary[v]["list_made"] == epoch:
        return
    work.walk[0] = v
    depth = 1
    while depth > 0:
        x = np.int64(work.walk[depth - 1])
        arity = np.int64(view.node[x]["arity"])
        first = np.int64(view.node[x]["tail_offset"]) + np.int64(view.edge[x]) * arity
        waiting = depth
        for i in range(arity):
            t = view.tails[first + i]
            if t == NO_TAIL:
                break
            if work.summary[t]["list_made"] != epoch:
                work.walk[depth] = t
                depth += 1
        if depth > waiting:
            continue
        depth -= 1
        start = work.registers[0]["listed"]
        size = 0
        if view.cut[x]:
            work.lists[start] = rule_at(x, view, places_mask, table, work, key_mask)
            size = 1
        options = np.float64(np.int64(view.node[x]["degree"]) << np.int64(view.node[x]["free"]))
        folds = 0
        for i in range(arity):
            t = view.tails[first + i]
            if t == NO_TAIL:
                break
            below = work.summary[t]
            options *= below["options"]
            folds += np.int64(below["options_folds"])
            if options > FOLD:
                options *= _UNFOLD
                folds += 1
            tail_start = np.int64(below["list_start"])
            for k in range(np.int64(below["list_size"])):
                work.lists[start + size] = work.lists[tail_start + k]
                size += 1
        own = work.summary[x]
        own["list_made"] = epoch
        own["list_start"] = start
        own["list_size"] = size
        own["options"] = options
        own["options_folds"] = folds
        work.registers[0]["listed"] = start + size


@njit_inline
def list_below(v, view, places_mask, table, work, key_mask):
    """See to it that the rules of v's tails under its present edge are listed."""
    arity = np.int64(view.node[v]["arity"])
    first = np.int64(view.node[v]["tail_offset"]) + np.int64(view.edge[v]) * arity
    for i in range(arity):
        t = view.tails[first + i]
        if t == NO_TAIL:
            break
        if work.summary[t]["list_made"] != np.uint32(work.registers[0]["epoch"]):
            list_rules(t, view, places_mask, table, work, key_mask)


@njit_inline
def gather_below(v, rules, size, view, work):
    """Append the rules of all cut nodes strictly below v, listed before, top-down in source order; the density factor.

    Returns (size, factor, folds): the number of rules in `rules`, and the product, over the nodes strictly below v, of
    the number of values of their variables [CFGŠ14 eq. 6], which is factor * FOLD**folds.
    """
    factor = 1.0
    folds = 0
    arity = np.int64(view.node[v]["arity"])
    first = np.int64(view.node[v]["tail_offset"]) + np.int64(view.edge[v]) * arity
    for i in range(arity):
        t = view.tails[first + i]
        if t == NO_TAIL:
            break
        below = work.summary[t]
        factor *= below["options"]
        folds += np.int64(below["options_folds"])
        if factor > FOLD:
            factor *= _UNFOLD
            folds += 1
        start = np.int64(below["list_start"])
        for k in range(np.int64(below["list_size"])):
            rules[size] = work.lists[start + k]
            size += 1
    return size, factor, folds


@njit_inline
def remember_rows(first, room, work):
    """Note which rows of the table this visit read, from `work.rows_read[first]` on; ended by 0 if below `room`."""
    size = min(room, work.registers[0]["met"])
    for number in range(size):
        work.rows_read[first + number] = work.rule[number]["row"]
    if size < room:
        work.rows_read[first + size] = 0


@njit_inline
def fetch_rows(first, room, table, work):
    """Ask for the rows that a pair's last visit read, so that they are at hand when its turn comes.

    Most rules of a pair are the same from sweep to sweep; where a row was moved or never noted, nothing is lost.
    """
    mask = np.uint32(table.rows.shape[0] - 1)
    for k in range(first, first + room):
        row = work.rows_read[k]
        if row == 0:
            break
        fetch(table, np.int64(row & mask))


@njit_inline
def close_visit(direct, table, model, work):
    """Hand the changed counts over: to the table itself, or to the block's overlay. False: a count fell below 0."""
    sound = True
    for number in range(work.registers[0]["met"]):
        change = work.rule[number]["count"] - work.rule[number]["base"]
        if change == 0:
            continue
        high = work.rule[number]["key_high"]
        low = work.rule[number]["key_low"]
        if direct:
            sound &= add(table, model, high, low, work.rule[number]["shape"], change)
        else:
            row = find(work.overlay, high, low)
            if work.overlay[row, KEY_LOW] == np.uint64(0) and work.overlay[row, KEY_HIGH] == np.uint64(0):
                work.overlay[row, KEY_HIGH] = high
                work.overlay[row, KEY_LOW] = low
                work.overlay[row, COUNT] = np.uint64(0)
                work.overlay[row, SHAPE] = work.rule[number]["shape"]
                work.overlay_list[work.registers[0]["overlaid"]] = row
                work.registers[0]["overlaid"] += 1
            work.overlay[row, COUNT] = np.uint64(np.int64(work.overlay[row, COUNT]) + change)
    return sound
