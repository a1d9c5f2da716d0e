"""Passes over many pairs: one after the other against the table, or a round of blocks against a frozen table."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.intrinsics import prefetch, take_turn
from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import mask_of
from hierogram.samplers.compiled.streams import stream
from hierogram.samplers.counts.table import COUNT, KEY_HIGH, KEY_LOW, SIZE, TOKENS, add, fetch
from hierogram.samplers.forests.averages import add_tree
from hierogram.samplers.forests.views import view_pair
from hierogram.samplers.grammar.schedules import NO_POWERS
from hierogram.samplers.synchronous.averaging import begin_credits, end_credits
from hierogram.samplers.synchronous.gibbs import sweep_pair
from hierogram.samplers.synchronous.metropolis import propose_pair
from hierogram.samplers.synchronous.resampling import Resampling, fetch_rows, hand_over, remember_rows

_AHEAD = 8


@njit_inline
def _fetch_lines(array, start, end, items_a_line):
    """Ask for the cache lines of `array[start:end]`."""
    for k in range(start, end, items_a_line):
        prefetch(array, k)


@njit_inline
def _fetch_pair(batch, state, pair):
    """Ask for what resampling the pair will read first, while the pair before it is being resampled."""
    forests, bitext, words = batch.forests, batch.bitext, batch.words
    first, last = forests.node_offset[pair], forests.node_offset[pair + 1]
    _fetch_lines(forests.node, first, last, 2)
    _fetch_lines(forests.tails, forests.pair_tail_offset[pair], forests.pair_tail_offset[pair + 1], 32)
    _fetch_lines(state.edge, first, last, 32)
    _fetch_lines(state.cut, first, last, 64)
    _fetch_lines(words.source, bitext.source_offset[pair], bitext.source_offset[pair + 1], 8)
    _fetch_lines(words.target, bitext.target_offset[pair], bitext.target_offset[pair + 1], 8)


@njit_inline
def _begin(table, work):
    """Take the table's counts by length over and forget the last block."""
    for k in range(work.registers[0]["overlaid"]):
        for column in range(4):
            work.overlay[work.overlay_list[k], column] = np.uint64(0)
    work.registers[0]["overlaid"] = 0
    for length in range(len(table.by_length)):
        work.by_length[length]["tokens"] = table.by_length[length]["tokens"]
        work.by_length[length]["tables"] = table.by_length[length]["tables"]
    work.registers[0]["customers"] = table.totals[TOKENS]


@njit_inline
def _log_overlay(work):
    """Note the overlay's changes in the worker's log, before the next block begins."""
    for k in range(work.registers[0]["overlaid"]):
        row = work.overlay_list[k]
        if work.overlay[row, COUNT] != np.uint64(0):
            entry = work.registers[0]["logged"]
            for column in range(4):
                work.log[entry, column] = work.overlay[row, column]
            work.registers[0]["logged"] = entry + 1


class Round(NamedTuple):
    """Blocks of pairs that workers share out among themselves.

    `key` the chain's seed; blocks of `pairs_a_block` of the pairs `start`..`end`; `turns` int64[1] the blocks that
    workers have taken; `direct`: counts go to the table after each pair, else the table stays as it is, and changes go
    to the log.
    """

    key: int
    start: int
    end: int
    pairs_a_block: int
    turns: NDArray[np.int64]
    direct: bool


NOT_AVERAGED = np.zeros(0, np.bool_)
"""Of a sweep: none of its pairs is averaged."""


class SweepPlan(NamedTuple):
    """One sweep: `sweeps` int64[P] the number of each pair's sweep, from 1; `stages` int16[P] the highest level that
    may change in it (0: the pair is left alone); `powers` float64[P] the power 1/T of each pair's conditionals, or
    float64[0] where all are 1. Without `density` options lack the density factor, so that the sampler's target is a
    wrong one [CFGŠ14 §4.3]. `averaged` bool[P] which pairs' expected uses are added to their averages, only where
    every level is sampled at T = 1, or bool[0] for none. `leaving`: draws leave the variables' present values.
    """

    sweeps: NDArray[np.int64]
    stages: NDArray[np.int16]
    powers: NDArray[np.float64] = NO_POWERS
    density: bool = True
    averaged: NDArray[np.bool_] = NOT_AVERAGED
    leaving: bool = False


@njit_inline
def _next_block(block):
    """The first pair of the next block that no worker has taken; the round's end, or more, where none is left."""
    return block.start + take_turn(block.turns) * block.pairs_a_block


@njit_inline
def _resampling(batch, state, p, table, model, work, plan):
    """Pair p, to be resampled as the plan says."""
    power = plan.powers[p] if len(plan.powers) > 0 else 1.0
    return Resampling(
        view_pair(batch, state, p), table, model, work, batch.places[p], batch.words.key_mask, power, plan.density,
        plan.leaving,
    )  # fmt: skip


@njit_inline
def _is_averaged(plan, p):
    """Whether the pair's expected uses are added to its averages."""
    return len(plan.averaged) > 0 and plan.averaged[p]


@njit
def sweep_pairs(block, batch, state, averages, plan, table, model, work):
    """Sweep over blocks of a round as long as there are any left."""
    forests = batch.forests
    sound = True
    work.registers[0]["logged"] = 0
    while True:
        first = _next_block(block)
        if first >= block.end:
            break
        last = min(first + block.pairs_a_block, block.end)
        _begin(table, work)
        for p in range(first, last):
            if plan.stages[p] <= 0:
                continue
            if p + 1 < last:
                _fetch_pair(batch, state, p + 1)
                ahead = forests.node_offset[p + 1]
                fetch_rows(ahead, forests.node_offset[p + 2] - ahead, table, work)
            at = _resampling(batch, state, p, table, model, work, plan)
            begin_credits(_is_averaged(plan, p), work)
            sweep_pair(stream(block.key, batch.pairs[p], plan.sweeps[p]), plan.stages[p], at)
            end_credits(averages, p, at)
            here = forests.node_offset[p]
            remember_rows(here, forests.node_offset[p + 1] - here, work)
            sound &= hand_over(block.direct, at)
        if not block.direct:
            _log_overlay(work)
    return sound


@njit
def propose_pairs(block, batch, state, averages, plan, table, model, work):
    """As `sweep_pairs`, one Metropolis-Hastings step a pair."""
    sound = True
    work.registers[0]["logged"] = 0
    while True:
        first = _next_block(block)
        if first >= block.end:
            break
        _begin(table, work)
        for p in range(first, min(first + block.pairs_a_block, block.end)):
            if plan.stages[p] <= 0:
                continue
            at = _resampling(batch, state, p, table, model, work, plan)
            propose_pair(stream(block.key, batch.pairs[p], plan.sweeps[p]), at)
            if _is_averaged(plan, p):
                add_tree(averages, p, at.pair, work, work.fragments)
            sound &= hand_over(block.direct, at)
        if not block.direct:
            _log_overlay(work)
    return sound


@njit
def merge(changes, table, model):
    """Add what blocks have changed to the table: `changes` uint64[n, 4] as its rows, with changes in the counts' place.

    Counts are whole numbers: the order of workers and blocks does not matter. False: a count fell below zero.
    """
    sound = True
    for k in range(len(changes)):
        if k + _AHEAD < len(changes):
            fetch(table, np.int64(changes[k + _AHEAD, KEY_LOW] & mask_of(table.rows)))
        change = np.int64(changes[k, COUNT])
        sound &= add(table, model, changes[k, KEY_HIGH], changes[k, KEY_LOW], changes[k, SIZE], change)
    return sound
