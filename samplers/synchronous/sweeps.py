"""Sweeps over many pairs: `init` makes a state, `step` takes it one sweep further.

Two schemes. *Sequential*: pair after pair against the table itself, the exact Gibbs sampler and the reference.
*Blocks*: rounds of blocks of pairs; within a round every block sees the table as it was at the round's start
plus what the block itself has changed, and the blocks' changes are merged in their order. Blocks of a round may
run on any number of threads with the same result, since random streams belong to pairs and counts are whole
numbers [approximate distributed Gibbs, Newman et al. 2009].
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.compiled.streams import advance, stream, uniform
from hierogram.samplers.counts.models import Model, ModelSettings, build_model
from hierogram.samplers.counts.table import RuleTable, empty_table, with_room
from hierogram.samplers.forests.forest import NODE, Bitext, Forests
from hierogram.samplers.forests.fragments import Words
from hierogram.samplers.synchronous.passes import merge, propose_pairs, sweep_pairs
from hierogram.samplers.synchronous.resampling import rules_bound
from hierogram.samplers.synchronous.workspace import (
    ACCEPTED,
    CUTS_CHANGED,
    CUTS_SAMPLED,
    EDGES_CHANGED,
    EDGES_SAMPLED,
    EPOCH,
    EVALUATIONS,
    LOGGED,
    PROPOSED,
    READS,
    STATISTICS,
    VISIT,
    Workspace,
    make_workspace,
)

GIBBS = 0
METROPOLIS = 1

_STAMPS = 1 << 31
_PAIRS_A_CALL = 1024
_FEWEST_PAIRS = 1024


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
    most_listed: int
    longest_rule: int

    @property
    def size(self) -> int:
        """Number of pairs."""
        return len(self.pairs)


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


@njit
def _bounds(forests, bounds, rules):
    """Bounds on the rules that each pair's visit meets and, cumulated, that its derivation has; the longest list."""
    most_listed = 1
    for pair in range(len(bounds)):
        listed = 0
        for node in range(forests.node_offset[pair], forests.node_offset[pair + 1]):
            listed += np.int64(forests.node[node]["level"])
        most_listed = max(most_listed, listed)
        bounds[pair] = rules_bound(forests, pair)
        last = forests.node_offset[pair + 1]
        rules[pair + 1] = rules[pair] + np.int64(forests.node[last - 1]["level"])
    return most_listed


def make_batch(
    bitext: Bitext,
    words: Words,
    forests: Forests,
    pairs: NDArray[np.int64],
    longest_rule: int,
) -> Batch:
    """A batch of pairs, `pairs` their lasting numbers, `longest_rule` a bound on the length of rules."""
    bounds = np.empty(forests.pairs, np.int64)
    rules = np.zeros(forests.pairs + 1, np.int64)
    most_listed = _bounds(forests, bounds, rules)
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
        most_listed,
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


class CountsError(RuntimeError):
    """A count fell below zero: state and table do not belong together."""


@dataclass(frozen=True, slots=True)
class Spaces:
    """What `step` needs beside its arguments, made once for all sweeps over a batch; it changes how fast they are.

    `workers`: a workspace for each worker; who has time takes the next block of a round. `rows_read` uint32[N]: which
    rows of the table each pair's last visit read, as long as they fit in its nodes' places.
    """

    workers: list[Workspace]
    rows_read: NDArray[np.uint32]


def _most_changes(batch: Batch, pairs: int) -> int:
    """At most so many counts change where so many consecutive pairs are visited: every rule leaves, another comes."""
    starts = np.arange(0, batch.size, pairs)
    ends = np.minimum(starts + pairs, batch.size)
    return 2 * int((batch.derivation_rules[ends] - batch.derivation_rules[starts]).max(initial=1))


def workspaces(batch: Batch, blocks: Blocks | None, workers: int = 1) -> Spaces:
    """The scratch memory that `step` needs for a batch, to be made once and used for every sweep."""
    overlay = logged = 1
    if blocks is not None:
        overlay = _most_changes(batch, blocks.pairs_a_block)
        logged = _most_changes(batch, blocks.pairs_a_block * blocks.blocks_a_round)
    return Spaces(
        [
            make_workspace(
                batch.most_nodes,
                batch.most_rules,
                batch.most_options,
                batch.most_listed,
                batch.longest_rule,
                overlay,
                logged,
            )
            for _ in range(1 if blocks is None else workers)
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
        work.summary["list_made"] = 0


Task = Callable[[int], bool]
Run = Callable[[Task, Iterable[int]], Iterable[bool]]
"""Maps a task over the workers of a round: `map`, or an executor's."""


def _one_after_the_other(task: Task, items: Iterable[int]) -> Iterable[bool]:
    return map(task, items)


def _arguments(
    batch: Batch, state: State, sweeps: NDArray[np.int64], stages: NDArray[np.int16], spaces: Spaces
) -> tuple[object, ...]:
    return (
        batch.forests, batch.bitext, batch.words, state, batch.pairs,
        sweeps, stages, batch.places, spaces.rows_read,
    )  # fmt: skip


def kernel_of(method: int) -> Callable[..., Any]:
    """The kernel that visits pairs by a method."""
    return cast("Callable[..., Any]", sweep_pairs if method == GIBBS else propose_pairs)


def compile_sweep(method: int = GIBBS) -> None:
    """Compile what visits pairs, by visiting none; the cache keeps it."""
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
    spaces = workspaces(batch, None)
    state = State(np.zeros(0, np.uint16), np.zeros(0, np.uint8))
    arguments = _arguments(batch, state, np.zeros(0, np.int64), np.zeros(0, np.int16), spaces)
    table = empty_table(batch.longest_rule)
    kernel_of(method)(True, np.zeros(1, np.int64), 1, 0, *arguments, 0, 0, table, model, spaces.workers[0])


def compile_merging(spaces: Spaces, table: RuleTable, model: Model) -> None:
    """Compile what merges the blocks of a round, by merging nothing."""
    for work in spaces.workers[:1]:
        work.registers[LOGGED] = 0
        merge(work, table, model)


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
    function over the workers of `spaces`, in threads if it likes, and the result is the same for any number of them.
    `report` hears how many pairs are done. Raises `CountsError` where state and counts do not belong together.
    """
    arguments = _arguments(batch, state, sweeps, stages, spaces)
    totals = np.zeros(16, np.int64)
    sound = True
    workers = spaces.workers
    for work in workers:
        _rest_stamps(work)
        work.registers[STATISTICS:] = 0
    visit = kernel_of(method)
    if blocks is None:
        for first in range(0, batch.size, _PAIRS_A_CALL):
            last = min(first + _PAIRS_A_CALL, batch.size)
            table = with_room(table, int(batch.derivation_rules[last] - batch.derivation_rules[first]))
            turns = np.zeros(1, np.int64)
            sound &= visit(True, turns, last - first, seed, *arguments, first, last, table, model, workers[0])
            if report:
                report(last)
    else:
        size = blocks.pairs_a_block
        for start in range(0, batch.size, size * blocks.blocks_a_round):
            end = min(start + size * blocks.blocks_a_round, batch.size)
            table = with_room(table, int(batch.derivation_rules[end] - batch.derivation_rules[start]))

            turns = np.zeros(1, np.int64)

            def work_off(
                worker: int,
                turns: NDArray[np.int64] = turns,
                start: int = start,
                end: int = end,
                table: RuleTable = table,
            ) -> bool:
                return bool(visit(False, turns, size, seed, *arguments, start, end, table, model, workers[worker]))

            sound &= all(list(run(work_off, range(len(workers)))))
            for work in workers:
                sound &= merge(work, table, model)
            if report:
                report(end)
    for work in workers:
        totals += work.registers
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
