"""Expected uses of rules, credited at the draws of cuts [BPK09 §3.3; Rao-Blackwell].

Before the cut of a node is drawn, the probability that a rule begins there is known, given everything else. The rule
that would begin there is credited with that probability, whatever is drawn; where a cut is forced, with a whole use.
Nothing that is credited is drawn, and no random number is used.
"""

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.forests.averages import class_of, encode_fragment, end_sweep, enter_rule, lose_uses
from hierogram.samplers.grammar.uses import CLASSES, ONE_USE
from hierogram.samplers.synchronous.resampling import met_number, read_counts, rule_at

_ONCE = 1


@njit_inline
def begin_credits(averaged, work):
    """Forget the credits of the pair before; whether this one is averaged in this sweep."""
    work.registers[0]["averaged"] = averaged
    work.registers[0]["credited"] = 0
    work.registers[0]["encoded"] = 0
    work.registers[0]["lost"] = 0
    for k in range(CLASSES):
        work.mass[k] = 0


@njit
def credit(number, v, probability, at):
    """Credit the rule of the fragment at v, as it stands, with a probability, rounded to 1/`ONE_USE`."""
    work = at.work
    uses = np.int64(probability * ONE_USE + 0.5)
    if uses == 0:
        return
    work.mass[class_of(work.summary[v]["nonterminals"])] += uses
    entry = work.credits[number]
    if entry["stamp"] != work.registers[0]["stamp"]:
        start = work.registers[0]["encoded"]
        end = encode_fragment(v, at.pair, work.walk, work.fragments, start)
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
def credit_cut(v, lower, joined, at):
    """Credit the rule that begins at v where its cut is drawn to be one, which has the probability 1 - `joined`."""
    if at.work.registers[0]["averaged"]:
        credit(lower, v, 1.0 - joined, at)


@njit_inline
def credit_forced(v, at):
    """Credit the rule that begins at v because its cut has no choice."""
    if at.work.registers[0]["averaged"]:
        credit(rule_at(v, at), v, 1.0, at)


@njit_inline
def _is_shared(number, at):
    """1 if the rule is used twice at least in all derivations."""
    return np.int32(at.work.rule[number]["count"] > _ONCE)


@njit
def end_credits(averages, pair, at):
    """Add what was credited in the sweep that ends to the pair's averages."""
    work = at.work
    if not work.registers[0]["averaged"]:
        return
    read_counts(at)
    stamp = work.registers[0]["stamp"]
    first = averages.first[pair]
    for k in range(first, first + averages.taken[pair]):
        entry = averages.entry[k]
        number = met_number(entry["source_hash"], entry["target_hash"], at)
        if number < 0:
            continue
        entry["shared"] |= _is_shared(number, at)
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
                _is_shared(number, at), work.fragments[new["start"] : new["start"] + new["size"]],
            )  # fmt: skip
    if work.registers[0]["lost"] > 0:
        lose_uses(averages, pair, work.registers[0]["lost"])
    for k in range(CLASSES):
        averages.total[pair, k] += work.mass[k]
    end_sweep(averages, pair)
