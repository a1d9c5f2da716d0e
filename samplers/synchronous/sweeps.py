"""Sampling kernel of phrase grammars. Sweeps are sequential or in blocks [Newman et al. 2009].

A sequential sweep samples each pair given all previous changes. A sweep in blocks has rounds. The pairs of a block are
sampled given the table at the start of the round and the changes of the block (the *overlay*). The changes of all
blocks (the *log*) are added to the table at the end of the round. The result does not depend on the number of threads
that run the blocks of a round, because each pair has its own random stream and counts are integers (docs/model.md,
section 4).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.intrinsics import fetch_and_increment, prefetch
from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import stream
from hierogram.samplers.counts.chain import ChainState, CountsError, SweepInfo
from hierogram.samplers.counts.deltas import count_rules
from hierogram.samplers.counts.models import Model, ModelSettings, build_model
from hierogram.samplers.counts.table import (
    BELOW_ZERO,
    COUNT,
    TOKENS,
    CountTable,
    add_all,
    empty_table,
    with_room,
)
from hierogram.samplers.forests.averages import empty_averages
from hierogram.samplers.forests.derivations import Batch, empty_state, initial_state, make_batch
from hierogram.samplers.forests.forest import NODE, Bitext, Forests, view_pair
from hierogram.samplers.forests.fragments import WordHashes
from hierogram.samplers.kernel import Report
from hierogram.samplers.synchronous.gibbs import end_credits, sweep_pair
from hierogram.samplers.synchronous.resampling import (
    Resampling,
    Workspace,
    make_workspace,
    prefetch_rows,
    remember_rows,
    write_changes,
)


@njit_inline
def _prefetch_lines(array, start, end, items_per_line):
    for k in range(start, end, items_per_line):
        prefetch(array, k)


@njit_inline
def _prefetch_pair(batch, state, pair):
    forests, bitext, words = batch.forests, batch.bitext, batch.word_hashes
    first, last = forests.node_offset[pair], forests.node_offset[pair + 1]
    _prefetch_lines(forests.node, first, last, 2)
    _prefetch_lines(forests.tails, forests.pair_tail_offset[pair], forests.pair_tail_offset[pair + 1], 32)
    _prefetch_lines(state.edge, first, last, 32)
    _prefetch_lines(state.cut, first, last, 64)
    _prefetch_lines(words.source, bitext.source_offset[pair], bitext.source_offset[pair + 1], 8)
    _prefetch_lines(words.target, bitext.target_offset[pair], bitext.target_offset[pair + 1], 8)


@njit_inline
def begin_block(table, work):
    """Start a block: clear the overlay of the previous block, and copy the table's totals."""
    for k in range(work.registers[0]["overlaid"]):
        for column in range(4):
            work.overlay[work.overlay_list[k], column] = np.uint64(0)
    work.registers[0]["overlaid"] = 0
    for length in range(len(table.by_length)):
        work.by_length[length] = table.by_length[length]
    work.registers[0]["customers"] = table.totals[TOKENS]


@njit_inline
def log_overlay(work):
    """End a block: append the nonzero changes of the overlay to the worker's log."""
    for k in range(work.registers[0]["overlaid"]):
        row = work.overlay_list[k]
        if work.overlay[row, COUNT] != np.uint64(0):
            entry = work.registers[0]["logged"]
            for column in range(4):
                work.log[entry, column] = work.overlay[row, column]
            work.registers[0]["logged"] = entry + 1


class Round(NamedTuple):
    """Queue of pair blocks that the workers share."""

    # Seed of the chain, index of the first pair, index after the last pair, and number of pairs per block.
    key: int
    start: int
    end: int
    pairs_per_block: int
    # int64[1]: number of blocks taken.
    blocks_taken: NDArray[np.int64]
    # True if each pair changes the table. Otherwise the table is frozen, and changes are logged.
    direct: bool


class SweepPlan(NamedTuple):
    """Plan of one sweep over P pairs."""

    # int64[P]: sweep number of each pair, from 1.
    sweeps: NDArray[np.int64]
    # int16[P]: highest node level to sample in each pair, 0 to skip the pair.
    levels: NDArray[np.int16]
    # float64[P]: power 1/T of each pair's conditional probabilities.
    powers: NDArray[np.float64]
    # bool[P]: True for pairs that are added to averages, which requires all levels and T = 1.
    averaged: NDArray[np.bool_]
    # True if option weights include the density factor. Without it, samples have the wrong distribution [CFGŠ14 §4.3].
    density: bool = True
    # True if draws tend to differ from the current values.
    avoid_current: bool = False


@njit_inline
def next_block(round_):
    """Take the next block. Returns its first pair, or a number >= `round_.end` if no block remains."""
    return round_.start + fetch_and_increment(round_.blocks_taken) * round_.pairs_per_block


@njit_inline
def make_resampling(batch, state, p, table, model, work, plan):
    """Return the resampling context of pair p under the plan."""
    return Resampling(
        view_pair(batch, state, p), table, model, work, batch.slot_masks[p], batch.word_hashes.key_mask, plan.powers[p],
        plan.density, plan.avoid_current,
    )  # fmt: skip


@njit
def sweep_pairs(round_, batch, state, averages, plan, table, model, work):
    """Gibbs-sample blocks until the round has no more blocks. Returns False if a count fell below 0."""
    forests = batch.forests
    sound = True
    work.registers[0]["logged"] = 0
    while True:
        first = next_block(round_)
        if first >= round_.end:
            break
        last = min(first + round_.pairs_per_block, round_.end)
        begin_block(table, work)
        for p in range(first, last):
            if plan.levels[p] <= 0:
                continue
            if p + 1 < last:
                _prefetch_pair(batch, state, p + 1)
                ahead = forests.node_offset[p + 1]
                prefetch_rows(ahead, forests.node_offset[p + 2] - ahead, table, work)
            context = make_resampling(batch, state, p, table, model, work, plan)
            stream_state = stream(round_.key, batch.pairs[p], plan.sweeps[p])
            sweep_pair(stream_state, plan.levels[p], plan.averaged[p], context)
            end_credits(averages, p, context)
            first_node = forests.node_offset[p]
            remember_rows(first_node, forests.node_offset[p + 1] - first_node, work)
            sound &= write_changes(round_.direct, context)
        if not round_.direct:
            log_overlay(work)
    return sound


_MAX_STAMP = 1 << 31
_PAIRS_PER_CALL = 1024
_MIN_PAIRS = 1024


@dataclass(frozen=True, slots=True)
class Blocks:
    """Sizes of blocks and rounds. The blocks of a round are sampled with the same frozen table."""

    pairs_per_block: int = 32
    blocks_per_round: int = 64

    @classmethod
    def suited_to(cls, pairs: int) -> "Blocks | None":
        """Return blocks with up to 1/16 of the pairs per round, or None for a batch that is too small."""
        if pairs < _MIN_PAIRS:
            return None
        return cls(min(32, pairs // _MIN_PAIRS))


_SEQUENTIAL = Blocks(_PAIRS_PER_CALL, 1)
"""Blocks of the sequential mode, in which each pair is sampled given all previous changes."""

Task = Callable[[int], bool]
Run = Callable[[Task, Iterable[int]], Iterable[bool]]
"""Function that runs a task for each worker index: `map` or an executor's `map`."""


def merge_changes(changes: NDArray[np.uint64], table: CountTable, model: Model) -> None:
    """Add a worker's changes to a table with room for them. Raises `CountsError` if a count is below 0."""
    if add_all(table, model, changes) >= 0:
        raise CountsError(BELOW_ZERO)


@dataclass(frozen=True, slots=True)
class PhraseKernel:
    """Kernel that sweeps over the pairs of a batch, returned by `build`.

    `resample` is the compiled function that each worker runs in a round, such as `sweep_pairs`. `workers` has one
    workspace per worker. An idle worker takes the next block of the round.
    """

    model: Model
    batch: Batch
    resample: Callable[..., Any]
    blocks: Blocks | None
    run: Run
    workers: list[Workspace]

    def init(self, key: int) -> ChainState:
        """Return the initial state, with all nodes cut and uniformly random edges [CFGŠ14 §5.4.2]."""
        derivations = initial_state(key, self.batch)
        table = count_rules(self.batch, derivations, empty_table(self.batch.longest_rule), self.model, 1)
        return ChainState(derivations, table, empty_averages(self.batch))

    def step(
        self, key: int, state: ChainState, plan: SweepPlan, report: Report | None = None
    ) -> tuple[ChainState, SweepInfo]:
        """Run one sweep. Consumes `state`. Raises `CountsError` if a count falls below 0."""
        self.begin()
        blocks = self.blocks or _SEQUENTIAL
        pairs_per_round = blocks.pairs_per_block * blocks.blocks_per_round
        for start in range(0, self.batch.size, pairs_per_round):
            end = min(start + pairs_per_round, self.batch.size)
            max_new = int(self.batch.derivation_rules[end] - self.batch.derivation_rules[start])
            state = state._replace(table=with_room(state.table, max_new))
            self.sample(key, state, plan, (start, end))
            for changes in self.changes():
                merge_changes(changes, state.table, self.model)
            if report:
                report(end)
        return state, self.info()

    def begin(self) -> None:
        """Start a sweep: reset the statistics of `info`. Only callers of `sample` need it, not of `step`."""
        for work in self.workers:
            if work.registers[0]["stamp"] > _MAX_STAMP or work.registers[0]["epoch"] > _MAX_STAMP:
                work.registers["stamp"] = 0
                work.registers["epoch"] = 0
                work.slots[:] = 0
                work.credits["stamp"] = 0
                work.summary["epoch"] = 0
                work.summary["rule_epoch"] = 0
                work.summary["list_epoch"] = 0
            work.statistics[0] = 0

    def sample(self, key: int, state: ChainState, plan: SweepPlan, pairs: tuple[int, int]) -> None:
        """Run one round over `pairs` (start, exclusive end), and update their derivations and averages.

        `begin` must precede the first round of a sweep. With blocks, the table does not change, and `changes` returns
        the count changes. Otherwise, the table must have room for the new rules of these pairs. Raises `CountsError` if
        a count falls below 0.
        """
        pairs_per_block = (self.blocks or _SEQUENTIAL).pairs_per_block
        round_ = Round(key, *pairs, pairs_per_block, np.zeros(1, np.int64), self.blocks is None)
        derivations, table, averages = state

        def run_worker(worker: int) -> bool:
            work = self.workers[worker]
            return bool(self.resample(round_, self.batch, derivations, averages, plan, table, self.model, work))

        if not all(list(self.run(run_worker, range(len(self.workers))))):
            raise CountsError(BELOW_ZERO)

    def changes(self) -> list[NDArray[np.uint64]]:
        """Return each worker's count changes, valid until the next round. The list is empty without blocks."""
        if self.blocks is None:
            return []
        return [work.log[: int(work.registers[0]["logged"])] for work in self.workers]

    def info(self) -> SweepInfo:
        """Return the statistics of the rounds since `begin`, summed over workers."""
        return SweepInfo(*(int(sum(work.statistics[0][name] for work in self.workers)) for name in SweepInfo._fields))


def build(
    model: Model,
    batch: Batch,
    *,
    resample: Callable[..., Any] = sweep_pairs,
    blocks: Blocks | None = None,
    workers: int = 1,
    run: Run = map,
) -> PhraseKernel:
    """Return the kernel for a batch. Without `blocks`, sampling is exact: sequential in one worker."""
    overlay = logged = 1
    if blocks is None:
        workers = 1
        run = map
    else:
        overlay = _max_changes(batch, blocks.pairs_per_block)
        logged = _max_changes(batch, blocks.pairs_per_block * blocks.blocks_per_round)
    rows_read = np.zeros(batch.forests.nodes, np.uint32)
    spaces = [make_workspace(batch, overlay, logged, rows_read) for _ in range(workers)]
    return PhraseKernel(model, batch, resample, blocks, run, spaces)


def _max_changes(batch: Batch, pairs: int) -> int:
    """Return the maximum number of counts that `pairs` consecutive pairs can change, two per rule."""
    starts = np.arange(batch.size)
    ends = np.minimum(starts + pairs, batch.size)
    return 2 * int((batch.derivation_rules[ends] - batch.derivation_rules[starts]).max(initial=1))


def compile_sweep() -> None:
    """Compile the sampling kernel and store it in the cache, by sweeping over an empty batch."""
    offset = np.zeros(1, np.int64)
    words, links, hashes = np.zeros(0, np.int32), np.zeros(0, np.int16), np.zeros(0, np.uint64)
    bitext = Bitext(words, offset, words, offset, links, links, offset)
    forests = Forests(offset, np.zeros(0, NODE), offset, np.zeros(0, np.uint16))
    batch = make_batch(bitext, WordHashes(hashes, hashes, np.uint64(0)), forests, np.zeros(0, np.int64), 1)
    kernel = build(build_model(ModelSettings(), 1, 1, 1), batch)
    plan = SweepPlan(np.zeros(0, np.int64), np.zeros(0, np.int16), np.zeros(0), np.zeros(0, np.bool_))
    kernel.sample(0, ChainState(empty_state(forests), empty_table(1), empty_averages(batch)), plan, (0, 0))
