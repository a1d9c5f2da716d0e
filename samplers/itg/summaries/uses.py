"""Which rules derivations and averages use, as numbers, and by how much they change the counts of rules.

A rule's number: straight, inverted, then the null emissions of all source and of all target words of a batch, then its
types of word pairs.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.exceptions import DerivationError
from hierogram.samplers.forests.averages import class_of, error_variance, expected_uses, mean_uses
from hierogram.samplers.forests.derivations import get_number
from hierogram.samplers.grammar.columns import Blobs
from hierogram.samplers.grammar.uses import CLASSES, ONE_SQUARE, ONE_USE, SWEEPS_A_DRAW
from hierogram.samplers.itg.batch import ItgBatch
from hierogram.samplers.itg.derivations import NODE, lay_out
from hierogram.samplers.itg.summaries.averages import BINARY, first_place, next_entry, place_of


class RuleUses(NamedTuple):
    """Uses of rules, m of them: `rules` int64[m] their numbers, `pairs` int64[m] the pairs' places in the batch;
    `counts`, `sampled`, `variances` int64[m] what each changes of the rule's count, of its expected uses and of the
    variance of their error, in units of 1/`ONE_USE` and of 1/`ONE_SQUARE`.
    """

    rules: NDArray[np.int64]
    pairs: NDArray[np.int64]
    counts: NDArray[np.int64]
    sampled: NDArray[np.int64]
    variances: NDArray[np.int64]


@njit_inline
def _rule_at(batch, pair, place, words):
    """The number of the rule at a place of a pair; `words` are the different ones of the batch's sides."""
    s, t = batch.source_offset[pair], batch.target_offset[pair]
    n, m = batch.source_offset[pair + 1] - s, batch.target_offset[pair + 1] - t
    if place < BINARY:
        return place
    if place < BINARY + n:
        return BINARY + np.int64(batch.source[s + place - BINARY])
    if place < BINARY + n + m:
        return BINARY + words[0] + np.int64(batch.target[t + place - BINARY - n])
    return BINARY + words[0] + words[1] + np.int64(batch.types[batch.cell_offset[pair] + place - BINARY - n - m])


@njit
def _put(found, at, rule, pair, weights):
    found.rules[at] = rule
    found.pairs[at] = pair
    found.counts[at] = weights[0]
    found.sampled[at] = weights[1]
    found.variances[at] = weights[2]
    return at + 1


@njit
def _list_trees(batch, trees, chosen, first, words, found, nodes):
    """The uses of the chosen pairs' derivations; how many there are, and the first pair that does not fit, or -1."""
    taken = 0
    for k in range(len(chosen)):
        length = trees.offsets[k + 1] - trees.offsets[k]
        if chosen[k] == 0 or length == 0:
            continue
        pair = first + k
        n = batch.source_offset[pair + 1] - batch.source_offset[pair]
        m = batch.target_offset[pair + 1] - batch.target_offset[pair]
        if length > len(nodes) or not lay_out(trees.content[trees.offsets[k] :], length, nodes):
            return taken, k
        if nodes[0]["j"] != n or nodes[0]["y"] != m:
            return taken, k
        # A pair that has averaged over nothing expects to use what it uses now.
        alone = chosen[k] == 2
        weights = 1, ONE_USE if alone else 0, SWEEPS_A_DRAW * ONE_SQUARE if alone else 0
        for at in range(length):
            rule = _rule_at(batch, pair, place_of(nodes[at], n, m), words)
            taken = _put(found, taken, rule, pair, weights)
    return taken, -1


@njit
def _count_entries(batch, records, first):
    """The entries of all records, and the first pair whose record does not fit, or -1."""
    number = 0
    for k in range(len(records.offsets) - 1):
        position, last = records.offsets[k], records.offsets[k + 1]
        if position == last:
            continue
        sweeps, position = get_number(records.content, position, last)
        if sweeps < 1:
            return number, k
        at, end = first_place(batch, first + k), first_place(batch, first + k + 1)
        while position < last:
            at, _, position = next_entry(records.content, position, last, at, end)
            if at < 0:
                return number, k
            number += 1
    return number, -1


@njit
def _list_records(batch, records, first, words, found, left_out):
    """What counts of all records, and into `left_out` what does not; how many rules there are."""
    taken = 0
    for k in range(len(records.offsets) - 1):
        position, last = records.offsets[k], records.offsets[k + 1]
        if position == last:
            continue
        pair = first + k
        begin, end = first_place(batch, pair), first_place(batch, pair + 1)
        sweeps, position = get_number(records.content, position, last)
        at = begin
        while position < last:
            at, uses, position = next_entry(records.content, position, last, at, end)
            mean = expected_uses(uses * ONE_USE, sweeps, True)
            if mean > 0:
                rule = _rule_at(batch, pair, at - begin, words)
                taken = _put(found, taken, rule, pair, (0, mean, error_variance(mean, sweeps)))
            else:
                left_out[class_of(BINARY if at - begin < BINARY else 0)] += mean_uses(uses * ONE_USE, sweeps)
    return taken


def _room(size: int) -> RuleUses:
    return RuleUses(*(np.empty(size, np.int64) for _ in range(5)))


def uses_of_trees(batch: ItgBatch, trees: Blobs, chosen: NDArray[np.int8], first: int = 0) -> RuleUses:
    """The uses of derivations, as `derivations.encode` gives them, of the pairs from `first` on.

    `chosen` int8[p]: 0 where a pair is left out, 2 where it expects to use what it uses now, else 1. Raises
    `DerivationError` where bytes are no derivation of their pair.
    """
    found = _room(len(trees.content))
    longest = 2 * (batch.longest_source + batch.longest_target)
    words = batch.source_words, batch.target_words
    taken, wrong = _list_trees(batch, trees, chosen, first, words, found, np.zeros(longest, NODE))
    if wrong >= 0:
        raise DerivationError(f"the derivation of pair number {wrong} of the batch does not fit its words")
    return RuleUses(*(column[:taken] for column in found))


def uses_of_records(batch: ItgBatch, records: Blobs, first: int = 0) -> tuple[RuleUses, NDArray[np.int64]]:
    """What records of averages, of the pairs from `first` on, count for; and what they expect to use beside that, by
    number of nonterminals, int64[CLASSES], in units of 1/`ONE_USE`.

    Raises `DerivationError` where a record does not fit its pair.
    """
    number, wrong = _count_entries(batch, records, first)
    if wrong >= 0:
        raise DerivationError(f"the averages of pair number {wrong} of the batch do not fit its words")
    found = _room(number)
    left_out = np.zeros(CLASSES, np.int64)
    taken = _list_records(batch, records, first, (batch.source_words, batch.target_words), found, left_out)
    return RuleUses(*(column[:taken] for column in found)), left_out


def added_up(parts: list[RuleUses]) -> RuleUses:
    """The uses of each rule added up, by its number, where they do not cancel out; `pairs` are those of the first."""
    columns = zip(_room(0), *parts, strict=True)
    every = RuleUses(*(np.concatenate(column) for column in columns))
    order = np.argsort(every.rules, kind="stable")
    rules = every.rules[order]
    begins = np.flatnonzero(np.diff(rules, prepend=-1))
    sums = [np.add.reduceat(column[order], begins) if len(begins) else column for column in every[2:]]
    kept = np.any([column != 0 for column in sums], axis=0)
    return RuleUses(rules[begins][kept], every.pairs[order][begins][kept], *(column[kept] for column in sums))
