"""Resampling of one pair: local rule numbers, cached rule counts, and scores of options.

A *variable* is a node's edge or cut. An *option* is a value that it may get, with the rules under that value. To draw a
variable, `gibbs` numbers the rules of all options, then calls `read_counts`, `remove_rules` with the current option,
`score` with each option, and `add_rules` with the drawn option. `write_changes` ends the work on a pair. The *local
numbers* of a pair's rules, in the order in which a sweep finds them, index small arrays of counts and lengths, which
are the scratch memory of one worker. A sweep allocates no memory.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import capacity_for, probe, table_mask
from hierogram.samplers.compiled.streams import GOLDEN
from hierogram.samplers.counts.chain import STATISTICS
from hierogram.samplers.counts.models import Model, is_long, log_probability, more_tables, probability
from hierogram.samplers.counts.table import COUNT, LENGTH, CountTable, add, add_row, find, look_up, prefetch_row
from hierogram.samplers.forests.derivations import Batch, make_summary
from hierogram.samplers.forests.forest import PairView, tail_range
from hierogram.samplers.forests.fragments import (
    base_powers,
    compose,
    length_of,
    make_summaries,
    rule_key_from_hashes,
    source_terminals_of,
    summary_size,
    target_terminals_of,
)
from hierogram.samplers.synchronous.draws import LOG_SCALE, SCALE, SCALED, UNSCALE, Scaled, multiply, rescaled

_REGISTERS = (
    *("stamp", "epoch", "found", "counted", "listed", "customers", "overlaid", "logged"),
    *("adds_to_averages", "credited", "encoded", "lost", "below_zero"),
)
REGISTERS = np.dtype([(name, np.int64) for name in _REGISTERS])
"""Registers of a worker.

`stamp`: number of the current pair among the worker's pairs. `epoch`: number that marks valid summaries and lists.
`found`: number of rules of the pair, and `counted` of rules whose count has been read from the table. `listed`,
`overlaid`, `logged`: number of used items of `lists`, and of used rows of `overlay` and `log`. `customers`: number of
customers of all rules, including the changes of the current block. `adds_to_averages`: 1 if the sweep of the pair is
averaged. `credited`, `encoded`: number of credited rules, and of bytes of their fragments. `lost`: uses (1/`ONE_USE`)
that were not credited because `fragments` was full. `below_zero`: 1 if a customer was removed from a rule without any.
"""

RULE = np.dtype(
    [(name, np.uint64) for name in ("source_hash", "target_hash", "key_high", "key_low", "size")]
    + [(name, np.int64) for name in ("count", "initial_count", "row")]
    + [(name, np.int32) for name in ("length", "long")]
)
"""Rule of the current pair: hashes of its sides, key, and packed `size`.

`count` is its count with the changes of the pair, and `initial_count` the count that `read_counts` found in table row
`row`. `long` is 1 if the rule is scored in log space.
"""

CREDIT = np.dtype(
    [("stamp", np.int64), ("uses", np.int64), ("start", np.int32), ("size", np.int32), ("root", np.int32)], align=True
)
"""Expected `uses` of a rule in a pair's sweep, in units of 1/`ONE_USE`, and the pair's `stamp`.

`start`, `size`, `root`: position and number of the fragment's bytes in `fragments`, and its root node.
"""


class Workspace(NamedTuple):
    """Scratch memory of one worker, for pairs of up to n nodes and r rules."""

    # SUMMARY[n+1]: summary of each node.
    summary: NDArray[np.void]
    # RULE[r], uint64[slots]: rules of the current pair by local number, and a hash table from the hashes of their sides
    # to local numbers: the stamp of the pair in the high half, and the local number in the low half.
    rule: NDArray[np.void]
    slots: NDArray[np.uint64]
    # LENGTH[L]: current customers and tables of all rules by rule length.
    by_length: NDArray[np.void]
    # int32[n+1]: local numbers of the rules of an option.
    used: NDArray[np.int32]
    # int32[n+1]: stacks of nodes: of the sweep, of `_list_rules` and of `make_summary`.
    stack: NDArray[np.int32]
    walk: NDArray[np.int32]
    pending: NDArray[np.int32]
    # int32[listed]: lists of the rules in the derivations of nodes.
    lists: NDArray[np.int32]
    # int64[n+1]: number of tables, in units of 2^-32, that each rule of an option adds to the tables of its length.
    change: NDArray[np.int64]
    # int64[2, n+1]: scratch memory of `compose`.
    scratch: NDArray[np.int64]
    # SCALED[options], int32[options]: weight and uppermost rule of each option.
    weight: NDArray[np.void]
    top: NDArray[np.int32]
    # uint64[L+2]: powers of the hash base.
    powers: NDArray[np.uint64]
    # uint64[o, 4], int64[o]: hash table of a block's count changes relative to the frozen table, and its used rows.
    overlay: NDArray[np.uint64]
    overlay_list: NDArray[np.int64]
    # uint64[c, 4]: count changes of all blocks of the worker in a round. Columns: key (two words), change, packed size.
    log: NDArray[np.uint64]
    # REGISTERS[1], STATISTICS[1]: registers and statistics of the worker.
    registers: NDArray[np.void]
    statistics: NDArray[np.void]
    # uint32[N]: table rows that each pair read in its last sweep, up to one per node. All workers share this array.
    rows_read: NDArray[np.uint32]
    # CREDIT[r], int32[r], uint8[bytes]: credit of each rule by local number, local numbers of the credited rules, and
    # their encoded fragments.
    credits: NDArray[np.void]
    credited: NDArray[np.int32]
    fragments: NDArray[np.uint8]


def make_workspace(batch: Batch, overlay_rules: int, logged_rules: int, rows_read: NDArray[np.uint32]) -> Workspace:
    """Return a workspace for `overlay_rules` count changes per block and `logged_rules` per round."""
    overlay = capacity_for(overlay_rules + 1, 1)
    nodes, options = batch.max_nodes, max(2, batch.max_options)
    used, stack, walk, pending = np.zeros((4, nodes + 1), np.int32)
    return Workspace(
        summary=make_summaries(nodes),
        rule=np.zeros(batch.max_rules, RULE),
        slots=np.zeros(capacity_for(batch.max_rules, 1), np.uint64),
        by_length=np.zeros(batch.longest_rule + 1, LENGTH),
        used=used,
        stack=stack,
        walk=walk,
        pending=pending,
        lists=np.zeros(batch.max_listed, np.int32),
        change=np.zeros(nodes + 1, np.int64),
        scratch=np.zeros((2, nodes + 1), np.int64),
        weight=np.zeros(options, SCALED),
        top=np.zeros(options, np.int32),
        powers=base_powers(batch.longest_rule + 2),
        overlay=np.zeros((overlay, 4), np.uint64),
        overlay_list=np.zeros(overlay, np.int64),
        log=np.zeros((logged_rules, 4), np.uint64),
        registers=np.zeros(1, REGISTERS),
        statistics=np.zeros(1, STATISTICS),
        rows_read=rows_read,
        credits=np.zeros(batch.max_rules, CREDIT),
        credited=np.zeros(batch.max_rules, np.int32),
        fragments=np.zeros(64 * nodes + 1024, np.uint8),
    )


_32 = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)


class Resampling(NamedTuple):
    """Context for resampling one pair under a plan."""

    pair: PairView
    table: CountTable
    model: Model
    work: Workspace
    # Capacity - 1 of the pair's hash table in `work.slots`, and mask of the key bits that are used.
    slot_mask: np.uint64
    key_mask: np.uint64
    # Power 1/T of conditional probabilities.
    power: float
    # As in `SweepPlan`.
    density: bool
    avoid_current: bool


@njit_inline
def begin_pair(adds_to_averages, work):
    """Clear the data of the previous pair. `adds_to_averages` is 1 if the sweep of this pair is averaged."""
    work.registers[0]["stamp"] += 1
    work.registers[0]["found"] = 0
    work.registers[0]["counted"] = 0
    work.registers[0]["below_zero"] = 0
    work.registers[0]["epoch"] += 1
    work.registers[0]["listed"] = 0
    work.registers[0]["adds_to_averages"] = adds_to_averages
    work.registers[0]["credited"] = 0
    work.registers[0]["encoded"] = 0
    work.registers[0]["lost"] = 0


@njit_inline
def _ends_search(context, slot, key):
    stamp, source_hash, target_hash = key
    entry = context.work.slots[slot]
    number_rule = context.work.rule[np.int64(entry & _LOW_HALF)]
    return (entry >> _32) != stamp or (
        number_rule["source_hash"] == source_hash and number_rule["target_hash"] == target_hash
    )


@njit_inline
def _find_slot(source_hash, target_hash, context):
    stamp = np.uint64(context.work.registers[0]["stamp"])
    home = ((source_hash * GOLDEN + target_hash) >> _32) & context.slot_mask
    return probe(home, context.slot_mask, _ends_search, context, (stamp, source_hash, target_hash))


@njit_inline
def find_number(source_hash, target_hash, context):
    """Return the local number of the rule with these hashes, or -1 if the pair has no such rule."""
    entry = context.work.slots[_find_slot(source_hash, target_hash, context)]
    if (entry >> _32) == np.uint64(context.work.registers[0]["stamp"]):
        return np.int64(entry & _LOW_HALF)
    return np.int64(-1)


@njit_inline
def assign_number(v, context):
    """Return the local number of the rule at v from v's valid summary. Prefetches the row of a new rule."""
    work = context.work
    source_hash = work.summary[v]["source_hash"]
    target_hash = work.summary[v]["target_hash"]
    stamp = np.uint64(work.registers[0]["stamp"])
    slot = _find_slot(source_hash, target_hash, context)
    if (work.slots[slot] >> _32) == stamp:
        return np.int64(work.slots[slot] & _LOW_HALF)
    number = work.registers[0]["found"]
    work.registers[0]["found"] = number + 1
    work.slots[slot] = (stamp << _32) | np.uint64(number)
    high, low = rule_key_from_hashes(source_hash, target_hash, context.key_mask)
    prefetch_row(context.table, np.int64(low & table_mask(context.table.rows)))
    rule = work.rule[number]
    rule["source_hash"] = source_hash
    rule["target_hash"] = target_hash
    rule["key_high"] = high
    rule["key_low"] = low
    rule["size"] = summary_size(work.summary, v)
    return number


@njit_inline
def read_counts(context):
    """Read the counts of the rules found since the last call, from the table and the block's overlay."""
    work = context.work
    for number in range(work.registers[0]["counted"], work.registers[0]["found"]):
        rule = work.rule[number]
        size = rule["size"]
        length = length_of(size)
        rule["length"] = length
        rule["long"] = is_long(context.model, length, source_terminals_of(size), target_terminals_of(size))
        row, count = look_up(context.table, rule["key_high"], rule["key_low"])
        if work.registers[0]["overlaid"] > 0:
            count += np.int64(work.overlay[find(work.overlay, rule["key_high"], rule["key_low"]), COUNT])
        rule["row"] = row
        rule["count"] = count
        rule["initial_count"] = count
    work.registers[0]["counted"] = work.registers[0]["found"]


@njit_inline
def add_rules(rules, size, context):
    """Add a customer to each of the first `size` local numbers in `rules`. A number may be repeated."""
    for k in range(size):
        rule = context.work.rule[np.int64(rules[k])]
        count = rule["count"]
        rule["count"] = count + 1
        of_length = context.work.by_length[rule["length"]]
        of_length["tokens"] += 1
        of_length["tables"] += more_tables(context.model, count)
        context.work.registers[0]["customers"] += 1


@njit_inline
def remove_rules(rules, size, context):
    """Remove a customer from each of the first `size` rules. Sets `below_zero` if a rule has no customers."""
    for k in range(size):
        rule = context.work.rule[np.int64(rules[k])]
        count = rule["count"]
        if count <= 0:
            context.work.registers[0]["below_zero"] = 1
            continue
        rule["count"] = count - 1
        of_length = context.work.by_length[rule["length"]]
        of_length["tokens"] -= 1
        of_length["tables"] -= more_tables(context.model, count - 1)
        context.work.registers[0]["customers"] -= 1


@njit_inline
def score(rules, size, context):
    """Return ∏ P(rule | counts, previous rules) of the first `size` local numbers. Restores the counts."""
    work, model = context.work, context.model
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
            units = math.ceil(logarithm / LOG_SCALE)
            exponent += np.int64(units)
            numerator *= math.exp(logarithm - units * LOG_SCALE)
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
    return Scaled(numerator / denominator, exponent)


@njit_inline
def _number_rule(v, epoch, context):
    context.work.summary[v]["rule"] = assign_number(v, context)
    context.work.summary[v]["rule_epoch"] = epoch


@njit_inline
def rule_at(v, context):
    """Return the local number of the rule at v, which is computed once per pair and cached in v's summary."""
    summary = context.work.summary
    epoch = np.uint32(context.work.registers[0]["epoch"])
    if summary[v]["rule_epoch"] != epoch:
        if summary[v]["epoch"] != epoch:
            make_summary(v, context.pair, context.work)
        _number_rule(v, epoch, context)
    return np.int64(summary[v]["rule"])


@njit_inline
def _options_below(t, work):
    below = work.summary[t]
    return Scaled(below["options"], np.int64(below["options_exponent"]))


@njit_inline
def _copy_list(t, rules, size, work):
    below = work.summary[t]
    start = np.int64(below["list_start"])
    for k in range(np.int64(below["list_size"])):
        rules[size] = work.lists[start + k]
        size += 1
    return size


@njit_inline
def _list_node(x, first, last, context):
    """Summarize x, and compute its `options` and its list of rules, given the lists of its tails."""
    pair, work = context.pair, context.work
    summary = work.summary[x]
    epoch = np.uint32(work.registers[0]["epoch"])
    if summary["epoch"] != epoch:
        compose(x, pair, work.summary, work.powers, work.scratch)
        summary["epoch"] = epoch
    start = work.registers[0]["listed"]
    end = start
    if pair.cut[x]:
        if summary["rule_epoch"] != epoch:
            _number_rule(x, epoch, context)
        work.lists[end] = summary["rule"]
        end += 1
    options = Scaled(np.float64(np.int64(pair.node[x]["degree"]) << np.int64(pair.node[x]["free"])), 0)
    for i in range(first, last):
        t = pair.tails[i]
        options = rescaled(multiply(options, _options_below(t, work)))
        end = _copy_list(t, work.lists, end, work)
    summary["list_epoch"] = epoch
    summary["list_start"] = start
    summary["list_size"] = end - start
    summary["options"] = options.value
    summary["options_exponent"] = options.exponent
    work.registers[0]["listed"] = end


@njit
def _list_rules(v, context):
    """List the rules of v's derivation in `work.lists`. If v is cut, its rule is first.

    A sweep changes nothing below the sampled node, so each node's rules are listed once, from the lists of its tails.
    """
    work = context.work
    epoch = np.uint32(work.registers[0]["epoch"])
    work.walk[0] = v
    depth = 1
    while depth > 0:
        x = np.int64(work.walk[depth - 1])
        first, last = tail_range(x, context.pair)
        above = depth
        for i in range(first, last):
            t = context.pair.tails[i]
            if work.summary[t]["list_epoch"] != epoch:
                work.walk[depth] = t
                depth += 1
        if depth == above:
            depth -= 1
            _list_node(x, first, last, context)


@njit_inline
def list_below(v, context):
    """Summarize the tails of v's current edge, and list the rules of their derivations, if not done yet."""
    first, last = tail_range(v, context.pair)
    for i in range(first, last):
        t = context.pair.tails[i]
        if context.work.summary[t]["list_epoch"] != np.uint32(context.work.registers[0]["epoch"]):
            _list_rules(t, context)


@njit_inline
def write_rules(v, top, rules, context):
    """Write `top` and listed rules of cut nodes strictly below v to `rules`, top-down in source order.

    `list_below` must come first. Returns the number of rules and the density factor, which is the product of the
    numbers of values of all variables strictly below v [CFGŠ14 eq. 6].
    """
    rules[0] = top
    size = 1
    factor = Scaled(1.0, 0)
    first, last = tail_range(v, context.pair)
    for i in range(first, last):
        t = context.pair.tails[i]
        factor = rescaled(multiply(factor, _options_below(t, context.work)))
        size = _copy_list(t, rules, size, context.work)
    return size, factor


@njit_inline
def remember_rows(first, room, work):
    """Write up to `room` table rows that the pair read to `work.rows_read`. 0 ends a shorter list."""
    size = min(room, work.registers[0]["found"])
    for number in range(size):
        work.rows_read[first + number] = work.rule[number]["row"]
    if size < room:
        work.rows_read[first + size] = 0


@njit_inline
def prefetch_rows(first, room, table, work):
    """Prefetch the rows that `remember_rows` stored in the last sweep, since most rules stay the same."""
    mask = np.uint32(table.rows.shape[0] - 1)
    for k in range(first, first + room):
        row = work.rows_read[k]
        if row == 0:
            break
        prefetch_row(table, np.int64(row & mask))


@njit_inline
def write_changes(direct, context):
    """Add the pair's changes to the table (`direct`) or overlay. Returns False if a count fell below 0."""
    work = context.work
    sound = work.registers[0]["below_zero"] == 0
    for number in range(work.registers[0]["found"]):
        rule = work.rule[number]
        change = rule["count"] - rule["initial_count"]
        if change == 0:
            continue
        if direct:
            sound &= add(context.table, context.model, rule["key_high"], rule["key_low"], rule["size"], change)
        else:
            row, is_new = add_row(work.overlay, rule["key_high"], rule["key_low"], rule["size"])
            if is_new:
                work.overlay_list[work.registers[0]["overlaid"]] = row
                work.registers[0]["overlaid"] += 1
            work.overlay[row, COUNT] = np.uint64(np.int64(work.overlay[row, COUNT]) + change)
    return sound
