"""Sweeps over many pairs: `init` makes a state, `step` takes it one sweep further.

Two schemes. *Sequential*: pair after pair against the table itself, the exact Gibbs sampler and the reference.
*Blocks*: rounds of blocks of pairs; within a round every block sees the table as it was at the round's start
plus what the block itself has changed, and the blocks' changes are merged in their order. Blocks of a round may
run on any number of threads with the same result, since random streams belong to pairs and counts are whole
numbers [approximate distributed Gibbs, Newman et al. 2009].
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.accelerate import njit, njit_allocating, njit_inline, prefetch
from hierogram.samplers.forest import Bitext, Forests
from hierogram.samplers.fragments import Words, view_pair
from hierogram.samplers.gibbs import sweep_pair
from hierogram.samplers.metropolis import propose_pair
from hierogram.samplers.models import Model
from hierogram.samplers.streams import advance, stream, uniform
from hierogram.samplers.table import COUNT, KEY_HIGH, KEY_LOW, SHAPE, TOKENS, RuleTable, add, with_room
from hierogram.samplers.visit import (
    ACCEPTED,
    CUTS_CHANGED,
    CUTS_SAMPLED,
    EDGES_CHANGED,
    EDGES_SAMPLED,
    EPOCH,
    EVALUATIONS,
    OVERLAID,
    PROPOSED,
    READS,
    STATISTICS,
    TOTAL,
    VISIT,
    Workspace,
    close_visit,
    fetch_rows,
    make_workspace,
    remember_rows,
    rules_bound,
)

GIBBS = 0
METROPOLIS = 1

_STAMPS = 1 << 31
_PAIRS_A_CALL = 1024
_FEWEST_PAIRS = 1024
_AHEAD = 8


class State(NamedTuple):
    """All variables of a batch: `edge` uint16[N] the incoming edge, `cut` uint8[N] 1 at a rule's boundary."""

    edge: NDArray[np.uint16]
    cut: NDArray[np.uint8]


class SweepInfo(NamedTuple):
    """What one sweep did: variables sampled and changed, rules scored, rules read from the table, MH steps."""

    edges_sampled: int
    edges_changed: int
    cuts_sampled: int
    cuts_changed: int
    evaluations: int
    reads: int
    proposed: int
    accepted: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Pairs that are sampled together: forests and words, and what follows from them.

    `pairs` int64[P] names each pair for its random stream;
    `places` uint64[P] sizes a visit's hash map; `derivation_rules` int64[P+1] cumulates the most rules that each
    pair's derivation can have; `longest_rule` bounds the length of a rule.
    """

    bitext: Bitext
    words: Words
    forests: Forests
    pairs: NDArray[np.int64]
    places: NDArray[np.uint64]
    derivation_rules: NDArray[np.int64]
    most_nodes: int
    most_rules: int
    most_options: int
    longest_rule: int

    @property
    def size(self) -> int:
        """Number of pairs."""
        return len(self.pairs)


@dataclass(frozen=True, slots=True)
class Blocks:
    """The block scheme: `pairs_a_block` pairs a block, `blocks_a_round` blocks against one frozen table."""

    pairs_a_block: int = 128
    blocks_a_round: int = 16

    @classmethod
    def suited_to(cls, pairs: int) -> "Blocks | None":
        """Blocks whose rounds take in about a sixteenth of the pairs; None (sequential) for small batches."""
        if pairs < _FEWEST_PAIRS:
            return None
        return cls(min(128, pairs // 256), 16)


@njit_allocating
def _bounds(forests):
    pairs = len(forests.node_offset) - 1
    bounds = np.empty(pairs, np.int64)
    rules = np.zeros(pairs + 1, np.int64)
    for pair in range(pairs):
        bounds[pair] = rules_bound(forests, pair)
        last = forests.node_offset[pair + 1]
        rules[pair + 1] = rules[pair] + np.int64(forests.node[last - 1]["level"])
    return bounds, rules


def make_batch(
    bitext: Bitext,
    words: Words,
    forests: Forests,
    pairs: NDArray[np.int64],
    longest_rule: int,
) -> Batch:
    """A batch of pairs, `pairs` their lasting numbers, `longest_rule` a bound on the length of rules."""
    bounds, rules = _bounds(forests)
    most_rules = int(bounds.max(initial=16))
    places = np.array([1 << int(2 * b - 1).bit_length() for b in bounds], np.uint64) - np.uint64(1)
    return Batch(
        bitext,
        words,
        forests,
        np.asarray(pairs, np.int64),
        places,
        rules,
        int(np.diff(forests.node_offset).max(initial=1)),
        most_rules,
        int(forests.node["degree"].max(initial=2)),
        longest_rule,
    )


@njit
def _initial(seed, forests, pairs, edge):
    for p in range(len(pairs)):
        state = stream(seed, pairs[p], 0)
        for v in range(forests.node_offset[p], forests.node_offset[p + 1]):
            if forests.node[v]["degree"] > 1:
                state = advance(state)
                edge[v] = np.int64(uniform(state) * np.float64(forests.node[v]["degree"]))


def init(seed: int, batch: Batch) -> State:
    """The initial state: every node cut, a uniformly random edge at each node [CFGŠ14 §5.4.2]."""
    edge = np.zeros(batch.forests.nodes, np.uint16)
    _initial(seed, batch.forests, batch.pairs, edge)
    return State(edge, np.ones(batch.forests.nodes, np.uint8))


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


@njit
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
    for k in range(STATISTICS, len(work.registers)):
        work.registers[k] = 0


@njit
def _sweep_pairs(
    direct,
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
    first,
    last,
    table,
    model,
    work,
):
    """Sweep over pairs first..last; `direct`: counts go to the table after each pair, else stay in the overlay."""
    _begin(table, work)
    sound = True
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
    return sound


@njit
def _propose_pairs(
    direct,
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
    first,
    last,
    table,
    model,
    work,
):
    """As `_sweep_pairs`, one Metropolis-Hastings step a pair."""
    _begin(table, work)
    sound = True
    for p in range(first, last):
        if stages[p] <= 0:
            continue
        view = view_pair(forests, bitext, words, state, p)
        key = stream(seed, pairs[p], sweeps[p])
        propose_pair(view, key, places[p], table, model, work, words.key_mask)
        sound &= close_visit(direct, table, model, work)
    return sound


@njit
def _merge(work, table, model):
    """Add a block's overlay to the table."""
    sound = True
    for k in range(work.registers[OVERLAID]):
        if k + _AHEAD < work.registers[OVERLAID]:
            low = work.overlay[work.overlay_list[k + _AHEAD], KEY_LOW]
            prefetch(table.rows, np.int64(low & np.uint64(table.rows.shape[0] - 1)))
        row = work.overlay_list[k]
        change = np.int64(work.overlay[row, COUNT])
        if change != 0:
            sound &= add(
                table,
                model,
                work.overlay[row, KEY_HIGH],
                work.overlay[row, KEY_LOW],
                work.overlay[row, SHAPE],
                change,
            )
    return sound


class CountsError(RuntimeError):
    """A count fell below zero: state and table do not belong together."""


@dataclass(frozen=True, slots=True)
class Spaces:
    """What `step` needs beside its arguments, made once for all sweeps over a batch; it changes how fast they are.

    `workers`: one workspace for each block of a round. `rows_read` uint32[N]: which rows of the table each pair's last
    visit read, as long as they fit in its nodes' places.
    """

    workers: list[Workspace]
    rows_read: NDArray[np.uint32]


def workspaces(batch: Batch, blocks: Blocks | None) -> Spaces:
    """The scratch memory that `step` needs for a batch, to be made once and used for every sweep."""
    most, count = 1, 1
    if blocks is not None:
        starts = np.arange(0, batch.size, blocks.pairs_a_block)
        ends = np.minimum(starts + blocks.pairs_a_block, batch.size)
        most = 2 * int((batch.derivation_rules[ends] - batch.derivation_rules[starts]).max(initial=1))
        count = min(blocks.blocks_a_round, max(1, len(starts)))
    return Spaces(
        [
            make_workspace(batch.most_nodes, batch.most_rules, batch.most_options, batch.longest_rule, most)
            for _ in range(count)
        ],
        np.zeros(batch.forests.nodes, np.uint32),
    )


def _rest_stamps(work: Workspace) -> None:
    """Start the numbers of visits again before they leave 32 bits."""
    if work.registers[VISIT] > _STAMPS or work.registers[EPOCH] > _STAMPS:
        work.registers[VISIT] = 0
        work.registers[EPOCH] = 0
        work.places[:] = 0
        work.summary["made"] = 0
        work.summary["rule_made"] = 0


Task = Callable[[int], bool]
Run = Callable[[Task, Iterable[int]], Iterable[bool]]
"""Maps a task over the blocks of a round: `map`, or an executor's."""


def _one_after_the_other(task: Task, items: Iterable[int]) -> Iterable[bool]:
    return map(task, items)


def step(
    seed: int,
    batch: Batch,
    state: State,
    table: RuleTable,
    model: Model,
    sweeps: NDArray[np.int64],
    stages: NDArray[np.int16],
    spaces: Spaces,
    *,
    method: int = GIBBS,
    blocks: Blocks | None = None,
    run: Run = _one_after_the_other,
    report: Callable[[int], None] | None = None,
) -> tuple[State, RuleTable, SweepInfo]:
    """One sweep over a batch; consumes `state` and `table` (changes their arrays in place) and returns the new ones.

    `sweeps` int64[P] numbers each pair's sweep from 1, `stages` int16[P] is the highest level that may change in it
    (0: the pair is left alone). Without `blocks` pairs are taken one after the other (exact); with them `run` maps a
    function over the blocks of a round, in threads if it likes, and the result is the same. `report` hears how many
    pairs are done. Raises `CountsError` where state and counts do not belong together.
    """
    arguments = (
        batch.forests, batch.bitext, batch.words, state, batch.pairs,
        sweeps, stages, batch.places, spaces.rows_read,
    )  # fmt: skip
    visit = _sweep_pairs if method == GIBBS else _propose_pairs
    totals = np.zeros(16, np.int64)
    sound = True
    for work in spaces.workers:
        _rest_stamps(work)
    if blocks is None:
        work = spaces.workers[0]
        for first in range(0, batch.size, _PAIRS_A_CALL):
            last = min(first + _PAIRS_A_CALL, batch.size)
            table = with_room(table, int(batch.derivation_rules[last] - batch.derivation_rules[first]))
            sound &= visit(True, seed, *arguments, first, last, table, model, work)
            totals += work.registers
            if report:
                report(last)
    else:
        workers = spaces.workers
        a_round = blocks.pairs_a_block * blocks.blocks_a_round
        for start in range(0, batch.size, a_round):
            end = min(start + a_round, batch.size)
            table = with_room(table, int(batch.derivation_rules[end] - batch.derivation_rules[start]))
            count = -(-(end - start) // blocks.pairs_a_block)

            def block(b: int, start: int = start, end: int = end, table: RuleTable = table) -> bool:
                first = start + b * blocks.pairs_a_block
                last = min(first + blocks.pairs_a_block, end)
                return bool(visit(False, seed, *arguments, first, last, table, model, workers[b]))

            sound &= all(list(run(block, range(count))))
            for b in range(count):
                sound &= _merge(workers[b], table, model)
                totals += workers[b].registers
            if report:
                report(end)
    if not sound:
        raise CountsError("a rule's count fell below zero: state and counts do not belong together")
    return (
        state,
        table,
        SweepInfo(
            int(totals[EDGES_SAMPLED]),
            int(totals[EDGES_CHANGED]),
            int(totals[CUTS_SAMPLED]),
            int(totals[CUTS_CHANGED]),
            int(totals[EVALUATIONS]),
            int(totals[READS]),
            int(totals[PROPOSED]),
            int(totals[ACCEPTED]),
        ),
    )
