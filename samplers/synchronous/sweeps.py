"""Sweeps over many pairs: the kernel of phrases.

Two schemes. *Sequential*: pair after pair against the table itself, the exact Gibbs sampler and the reference.
*Blocks*: rounds of blocks of pairs; within a round every block sees the table as it was at the round's start
plus what the block itself has changed, and the blocks' changes are merged in their order. Blocks of a round may
run on any number of threads with the same result, since random streams belong to pairs and counts are whole
numbers [approximate distributed Gibbs, Newman et al. 2009].
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.counts.chain import ChainState, CountsError, SweepInfo
from hierogram.samplers.counts.deltas import count_rules
from hierogram.samplers.counts.models import Model, ModelSettings, build_model
from hierogram.samplers.counts.table import RuleTable, empty_table, with_room
from hierogram.samplers.forests.averages import NO_AVERAGES
from hierogram.samplers.forests.batch import Batch, State, initial_state
from hierogram.samplers.forests.forest import NODE, Bitext, Forests
from hierogram.samplers.forests.fragments import Words
from hierogram.samplers.synchronous.passes import Round, SweepPlan, merge, propose_pairs, sweep_pairs
from hierogram.samplers.synchronous.workspace import Workspace, make_workspace

GIBBS = 0
METROPOLIS = 1

_STAMPS = 1 << 31
_PAIRS_A_CALL = 1024
_FEWEST_PAIRS = 1024


@dataclass(frozen=True, slots=True)
class Blocks:
    """The block scheme: `pairs_a_block` pairs a block, `blocks_a_round` blocks against one frozen table."""

    pairs_a_block: int = 32
    blocks_a_round: int = 64

    @classmethod
    def suited_to(cls, pairs: int) -> "Blocks | None":
        """Blocks whose rounds take in about a sixteenth of the pairs; None (sequential) for small batches."""
        if pairs < _FEWEST_PAIRS:
            return None
        return cls(min(32, pairs // 1024), 64)


_ONE_AT_A_TIME = Blocks(_PAIRS_A_CALL, 1)
"""Calls of the kernel where there are no blocks: pairs see each other's changes within them, too."""
_BELOW_ZERO = "a rule's count fell below zero: state and counts do not belong together"

Task = Callable[[int], bool]
Run = Callable[[Task, Iterable[int]], Iterable[bool]]
"""Maps a task over the workers of a round: `map`, or an executor's."""

Report = Callable[[int], None]
"""Hears how many pairs of a sweep are done."""


def _one_after_the_other(task: Task, items: Iterable[int]) -> Iterable[bool]:
    return map(task, items)


def merge_changes(changes: NDArray[np.uint64], table: RuleTable, model: Model) -> None:
    """Add the changes of a round to the table, which has room for them; raises `CountsError`."""
    if not merge(changes, table, model):
        raise CountsError(_BELOW_ZERO)


@dataclass(frozen=True, slots=True)
class PhraseKernel:
    """Sweeps over the pairs of a batch by one method; see `build`.

    `workers`: a workspace for each worker; who has time takes the next block of a round.
    """

    model: Model
    batch: Batch
    method: int
    blocks: Blocks | None
    run: Run
    workers: list[Workspace]

    def init(self, key: int) -> ChainState:
        """Every node cut, a uniformly random edge at each node [CFGŠ14 §5.4.2]; the table has these rules alone."""
        derivations = initial_state(key, self.batch)
        table = empty_table(self.batch.longest_rule)
        return ChainState(derivations, count_rules(self.batch, derivations, table, self.model))

    def step(
        self, key: int, state: ChainState, plan: SweepPlan, report: Report | None = None
    ) -> tuple[ChainState, SweepInfo]:
        """One sweep; consumes `state` (changes its arrays in place) and returns the new one.

        The result is the same for any number of workers. Raises `CountsError` where derivations and counts do not
        belong together.
        """
        self.begin()
        pairs_a_round = self.pairs_a_round
        for start in range(0, self.batch.size, pairs_a_round):
            end = min(start + pairs_a_round, self.batch.size)
            state = state._replace(table=with_room(state.table, _most_new(self.batch, start, end)))
            self.sample(key, state, plan, (start, end))
            for changes in self.changes():
                merge_changes(changes, state.table, self.model)
            if report:
                report(end)
        return state, self.info()

    @property
    def pairs_a_round(self) -> int:
        """Pairs between two times that the table changes for all workers."""
        blocks = self.blocks or _ONE_AT_A_TIME
        return blocks.pairs_a_block * blocks.blocks_a_round

    def begin(self) -> None:
        """Begin a sweep: what `info` tells starts at zero."""
        for work in self.workers:
            _rest_stamps(work)
            work.statistics[0] = 0

    def sample(self, key: int, state: ChainState, plan: SweepPlan, pairs: tuple[int, int]) -> None:
        """One round over the pairs from the first to before the last, which changes their derivations and averages.

        In blocks the table stays as it is, and `changes` tells what the round changes in it. Raises `CountsError`.
        """
        start, end = pairs
        blocks = self.blocks or _ONE_AT_A_TIME
        resample = kernel_of(self.method)
        round_ = Round(key, start, end, blocks.pairs_a_block, np.zeros(1, np.int64), self.blocks is None)
        derivations, table, averages = state

        def work_off(worker: int) -> bool:
            work = self.workers[worker]
            return bool(resample(round_, self.batch, derivations, averages, plan, table, self.model, work))

        if not all(list(self.run(work_off, range(len(self.workers))))):
            raise CountsError(_BELOW_ZERO)

    def changes(self) -> list[NDArray[np.uint64]]:
        """What the last round changed of the counts, by worker, as `merge` takes it; valid until the next round."""
        if self.blocks is None:
            return []
        return [work.log[: int(work.registers[0]["logged"])] for work in self.workers]

    def info(self) -> SweepInfo:
        """What was done since the sweep began."""
        return SweepInfo(*(int(sum(work.statistics[0][name] for work in self.workers)) for name in SweepInfo._fields))

    def compile_merging(self, table: RuleTable) -> None:
        """Compile what merges the blocks of a round, by merging nothing."""
        if self.blocks is not None:
            merge_changes(np.zeros((0, 4), np.uint64), table, self.model)


def build(
    model: Model,
    batch: Batch,
    *,
    method: int = GIBBS,
    blocks: Blocks | None = None,
    workers: int = 1,
    run: Run = _one_after_the_other,
) -> PhraseKernel:
    """The kernel that sweeps over a batch, with the scratch memory for all sweeps.

    Without `blocks` pairs are taken one after the other (exact); with them `run` maps a function over the workers, in
    threads if it likes.
    """
    overlay = logged = 1
    if blocks is None:
        workers = 1
        run = _one_after_the_other
    else:
        overlay = _most_changes(batch, blocks.pairs_a_block)
        logged = _most_changes(batch, blocks.pairs_a_block * blocks.blocks_a_round)
    rows_read = np.zeros(batch.forests.nodes, np.uint32)
    spaces = [make_workspace(batch, overlay, logged, rows_read) for _ in range(workers)]
    return PhraseKernel(model, batch, method, blocks, run, spaces)


def _most_new(batch: Batch, start: int, end: int) -> int:
    """At most so many rules come where pairs start..end are resampled."""
    return int(batch.derivation_rules[end] - batch.derivation_rules[start])


def _most_changes(batch: Batch, pairs: int) -> int:
    """At most so many counts change where so many consecutive pairs are resampled: every rule leaves, another comes."""
    starts = np.arange(batch.size)
    ends = np.minimum(starts + pairs, batch.size)
    return 2 * int((batch.derivation_rules[ends] - batch.derivation_rules[starts]).max(initial=1))


def _rest_stamps(work: Workspace) -> None:
    """Start the numbers of pairs again before they leave 32 bits."""
    if work.registers[0]["stamp"] > _STAMPS or work.registers[0]["epoch"] > _STAMPS:
        work.registers["stamp"] = 0
        work.registers["epoch"] = 0
        work.places[:] = 0
        work.credits["stamp"] = 0
        work.summary["made"] = 0
        work.summary["rule_made"] = 0
        work.summary["list_made"] = 0


def kernel_of(method: int) -> Callable[..., Any]:
    """The compiled function that resamples pairs by a method."""
    return cast("Callable[..., Any]", sweep_pairs if method == GIBBS else propose_pairs)


def compile_sweep(method: int = GIBBS) -> None:
    """Compile what resamples pairs, by resampling none; the cache keeps it."""
    offset = np.zeros(1, np.int64)
    words, links, hashes = np.zeros(0, np.int32), np.zeros(0, np.int16), np.zeros(0, np.uint64)
    batch = Batch(
        Bitext(words, offset, words, offset, links, links, offset),
        Words(hashes, hashes, np.uint64(0)),
        Forests(offset, np.zeros(0, NODE), offset, np.zeros(0, np.uint16)),
        pairs=np.zeros(0, np.int64), places=hashes, derivation_rules=offset,
        most_nodes=1, most_rules=16, most_options=2, most_listed=1, longest_rule=1,
    )  # fmt: skip
    model = build_model(ModelSettings(), 1, 1, batch.longest_rule)
    work = build(model, batch).workers[0]
    state = State(np.zeros(0, np.uint16), np.zeros(0, np.uint8))
    plan = SweepPlan(np.zeros(0, np.int64), np.zeros(0, np.int16))
    nothing = Round(0, 0, 0, 1, np.zeros(1, np.int64), True)
    kernel_of(method)(nothing, batch, state, NO_AVERAGES, plan, empty_table(batch.longest_rule), model, work)
