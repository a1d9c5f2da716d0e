"""Passes over many pairs: one after the other against the table, or a round of blocks against a frozen table."""

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_inline, prefetch, take_turn
from hierogram.samplers.compiled.streams import stream
from hierogram.samplers.counts.table import COUNT, KEY_HIGH, KEY_LOW, SHAPE, TOKENS, add, fetch
from hierogram.samplers.forests.fragments import view_pair
from hierogram.samplers.synchronous.gibbs import sweep_pair
from hierogram.samplers.synchronous.metropolis import propose_pair
from hierogram.samplers.synchronous.resampling import close_visit, fetch_rows, remember_rows
from hierogram.samplers.synchronous.workspace import LOGGED, OVERLAID, TOTAL

_AHEAD = 8


@njit_inline
def _fetch_lines(array, start, end, items_a_line):
    """Ask for the cache lines of `array[start:end]`."""
    for k in range(start, end, items_a_line):
        prefetch(array, k)


@njit_inline
def _fetch_pair(forests, bitext, words, state, pair):
    """Ask for what a visit to the pair will read first, while the pair before it is being sampled."""
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
    for k in range(work.registers[OVERLAID]):
        for column in range(4):
            work.overlay[work.overlay_list[k], column] = np.uint64(0)
    work.registers[OVERLAID] = 0
    for length in range(len(table.by_length)):
        work.by_length[length]["tokens"] = table.by_length[length]["tokens"]
        work.by_length[length]["tables"] = table.by_length[length]["tables"]
    work.registers[TOTAL] = table.totals[TOKENS]


@njit_inline
def _log_overlay(work):
    """Note the overlay's changes in the worker's log, before the next block begins."""
    for k in range(work.registers[OVERLAID]):
        row = work.overlay_list[k]
        if work.overlay[row, COUNT] != np.uint64(0):
            entry = work.registers[LOGGED]
            for column in range(4):
                work.log[entry, column] = work.overlay[row, column]
            work.registers[LOGGED] = entry + 1


@njit
def sweep_pairs(
    direct,
    turns,
    pairs_a_block,
    seed,
    forests,
    bitext,
    words,
    state,
    pairs,
    sweeps,
    stages,
    places,
    rows_read,
    start,
    end,
    table,
    model,
    work,
):
    """Sweep over blocks of the pairs start..end, as long as `turns` int64[1], the blocks that workers took, leaves any.

    `direct`: counts go to the table after each pair; else the table stays as it is, and changes go to the log.
    """
    sound = True
    work.registers[LOGGED] = 0
    while True:
        first = start + take_turn(turns) * pairs_a_block
        if first >= end:
            break
        last = min(first + pairs_a_block, end)
        _begin(table, work)
        for p in range(first, last):
            if stages[p] <= 0:
                continue
            if p + 1 < last:
                _fetch_pair(forests, bitext, words, state, p + 1)
                ahead = forests.node_offset[p + 1]
                fetch_rows(ahead, forests.node_offset[p + 2] - ahead, rows_read, table)
            view = view_pair(forests, bitext, words, state, p)
            key = stream(seed, pairs[p], sweeps[p])
            sweep_pair(view, key, stages[p], places[p], table, model, work, words.key_mask)
            here = forests.node_offset[p]
            remember_rows(here, forests.node_offset[p + 1] - here, rows_read, work)
            sound &= close_visit(direct, table, model, work)
        if not direct:
            _log_overlay(work)
    return sound


@njit
def propose_pairs(
    direct,
    turns,
    pairs_a_block,
    seed,
    forests,
    bitext,
    words,
    state,
    pairs,
    sweeps,
    stages,
    places,
    rows_read,
    start,
    end,
    table,
    model,
    work,
):
    """As `sweep_pairs`, one Metropolis-Hastings step a pair."""
    sound = True
    work.registers[LOGGED] = 0
    while True:
        first = start + take_turn(turns) * pairs_a_block
        if first >= end:
            break
        last = min(first + pairs_a_block, end)
        _begin(table, work)
        for p in range(first, last):
            if stages[p] <= 0:
                continue
            view = view_pair(forests, bitext, words, state, p)
            key = stream(seed, pairs[p], sweeps[p])
            propose_pair(view, key, places[p], table, model, work, words.key_mask)
            sound &= close_visit(direct, table, model, work)
        if not direct:
            _log_overlay(work)
    return sound


@njit
def merge(work, table, model):
    """Add a worker's log to the table. Counts are whole numbers: the order of workers and blocks does not matter."""
    sound = True
    for k in range(work.registers[LOGGED]):
        if k + _AHEAD < work.registers[LOGGED]:
            fetch(table, np.int64(work.log[k + _AHEAD, KEY_LOW] & np.uint64(table.rows.shape[0] - 1)))
        change = np.int64(work.log[k, COUNT])
        sound &= add(table, model, work.log[k, KEY_HIGH], work.log[k, KEY_LOW], work.log[k, SHAPE], change)
    return sound
