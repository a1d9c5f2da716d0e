"""Sampler of ITG derivations by slices, with the interface of `hierogram.samplers.kernel`.

    kernel = ItgKernel(batch, settings, FLAT)
    state = kernel.init(seed, MODEL1)
    state, info = kernel.step(seed, state, ItgPlan(sweep, np.full(batch.size, sweep)))

A *visit* resamples the derivation of one pair in one sweep.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, mix, stream, uniform
from hierogram.samplers.exceptions import AlignmentInputError
from hierogram.samplers.grammar.settings import BETA, FLAT
from hierogram.samplers.itg.batch import ItgBatch
from hierogram.samplers.itg.charts import RuleWeights, make_weights
from hierogram.samplers.itg.derivations import NODE, RULE_TYPES, Derivations, build_nodes, empty_derivations
from hierogram.samplers.itg.gibbs import LocalMove, make_local_move, resample_locally
from hierogram.samplers.itg.model import (
    Base,
    ItgCounts,
    ItgSettings,
    Model1,
    Tables,
    add_sequentially,
    count_derivation,
    draw_all_tables,
    draw_strengths,
    draw_words,
    log_likelihood,
    make_base,
    train_model1,
    weigh_rules,
)
from hierogram.samplers.itg.slices import (
    GIVEN_UP,
    LIMIT,
    NO_ROOM,
    SparseChart,
    draw_by_flat_slices,
    draw_by_slices,
    larger_chart,
    make_chart,
)
from hierogram.samplers.itg.starts import MODEL1, start_pairs
from hierogram.samplers.kernel import Report

PROPOSED, ACCEPTED, _GIVEN_UP = range(3)
"""Indices of `ItgScratch.statistics`, in the order of `ItgInfo`."""


class ItgState(NamedTuple):
    """State of a chain: derivations, their counts, base distributions and strengths. Steps change it."""

    derivations: Derivations
    counts: ItgCounts
    base: Base


class ItgPlan(NamedTuple):
    """Plan of a sweep: its `number` in the chain, and each pair's sweep number, int64[P] (0: skip)."""

    number: int
    sweeps: NDArray[np.int64]


class ItgScratch(NamedTuple):
    """Scratch memory of a sweep.

    `nodes` NODE[] are the nodes of the pair's current derivation, and `proposed` of the drawn one. `weights` are the
    rule weights of the pair. `statistics` int64[3] has the fields of `ItgInfo`.
    """

    nodes: NDArray[np.void]
    proposed: NDArray[np.void]
    weights: RuleWeights
    chart: SparseChart
    local: LocalMove
    statistics: NDArray[np.int64]


@njit
def accept_or_reject(batch, pair, state, scratch, proposal, stream_state):
    """Accept or reject a drawn derivation (rule codes, length), and count the rules of the pair again.

    `start_visit` must come first. A derivation that differs from the current one is accepted by Metropolis–Hastings
    [Johnson et al. 2007].
    """
    derivations, counts, base = state
    rules, length = proposal
    first, before = derivations.offset[pair], derivations.length[pair]
    is_same = length == before
    for at in range(length):
        is_same = is_same and derivations.rules[first + at] == rules[at]
    if is_same:
        count_derivation(batch, pair, scratch.nodes, length, counts, 1)
        return
    scratch.statistics[PROPOSED] += 1
    build_nodes(rules, length, scratch.proposed)
    ratio = add_sequentially(batch, pair, base, scratch.proposed, length, counts, scratch.weights)
    count_derivation(batch, pair, scratch.proposed, length, counts, -1)
    current_ratio = add_sequentially(batch, pair, base, scratch.nodes, before, counts, scratch.weights)
    if uniform(advance(stream_state)) * current_ratio >= ratio:
        return
    scratch.statistics[ACCEPTED] += 1
    count_derivation(batch, pair, scratch.nodes, before, counts, -1)
    count_derivation(batch, pair, scratch.proposed, length, counts, 1)
    derivations.length[pair] = length
    for at in range(length):
        derivations.rules[first + at] = rules[at]


@njit
def start_visit(batch, pair, state, scratch):
    """Remove a pair's rules from the counts, and set `nodes` and `weights`. Returns the number of rules."""
    derivations = state.derivations
    length = np.int64(derivations.length[pair])
    build_nodes(derivations.rules[derivations.offset[pair] :], length, scratch.nodes)
    count_derivation(batch, pair, scratch.nodes, length, state.counts, -1)
    weigh_rules(batch, pair, state.base, state.counts, scratch.weights)
    return length


@njit_inline
def _combinations(n, m):
    """Return an upper bound on the number of combinations of two cells in a full chart."""
    return n * (n + 1) * (n + 2) // 3 * (m + 1) * (m + 2) * (m + 3) // 6


@njit
def _sweep_pairs(pairs, batch, state, scratch, plan, slices, key):
    """Resample a range of pairs. Returns the pair that needs a larger chart, or the end of the range.

    `slices` has True for flat slices, the shape a for short pairs, the shape a for long pairs, and the maximum number
    of combinations of two cells in the full chart of a short pair.
    """
    flat, short_shape, long_shape, max_combinations = slices
    first, last = pairs
    for pair in range(first, last):
        if plan.sweeps[pair] == 0 or state.derivations.length[pair] == 0:
            continue
        visit = stream(key, batch.pairs[pair], plan.sweeps[pair])
        n = batch.source_offset[pair + 1] - batch.source_offset[pair]
        m = batch.target_offset[pair + 1] - batch.target_offset[pair]
        shape = short_shape if _combinations(n, m) <= max_combinations else long_shape
        length = start_visit(batch, pair, state, scratch)
        if flat:
            drawn = draw_by_flat_slices(scratch.chart, scratch.weights, shape, scratch.nodes, length, visit)
        else:
            drawn = draw_by_slices(scratch.chart, scratch.weights, shape, scratch.nodes, length, visit)
        if drawn in (NO_ROOM, GIVEN_UP):
            count_derivation(batch, pair, scratch.nodes, length, state.counts, 1)
            if drawn == NO_ROOM:
                return pair
            scratch.statistics[_GIVEN_UP] += 1
        else:
            accept_or_reject(batch, pair, state, scratch, (scratch.chart.drawn.rules, drawn), ~visit)
        if _combinations(n, m) > scratch.chart.registers[LIMIT]:
            # Make local moves for all pairs whose chart might be given up. If local moves were made only after giving
            # up, they would depend on the derivation, and sampling would not be exact.
            resample_locally(batch, pair, state, scratch.local, mix(visit))
    return last


_PAIRS_PER_REPORT = 512


class ItgInfo(NamedTuple):
    """Statistics of a sweep.

    `proposed`: drawn derivations that differ from the current one. `accepted`: accepted draws. `given_up`:
    visits that kept the current derivation because no chart could be used (`slices.GIVEN_UP`).
    """

    proposed: int
    accepted: int
    given_up: int


@njit
def _count_all(batch, derivations, counts, nodes):
    for pair in range(len(batch.pairs)):
        length = np.int64(derivations.length[pair])
        if length > 0:
            build_nodes(derivations.rules[derivations.offset[pair] :], length, nodes)
            count_derivation(batch, pair, nodes, length, counts, 1)


class ItgKernel:
    """Sampler of one batch with slices `FLAT` or `BETA`. Not thread-safe.

    By default, Model 1 is trained on the batch. Raises `AlignmentInputError` if a shape of `settings` is invalid.
    """

    def __init__(self, batch: ItgBatch, settings: ItgSettings, slices: str, model1: Model1 | None = None) -> None:
        long_shape = settings.slice_shape if settings.long_shape is None else settings.long_shape
        shapes = settings.slice_shape, long_shape
        for name, shape in zip(("slice_shape", "long_shape"), shapes, strict=True):
            if not 0 < shape <= 1:
                raise AlignmentInputError(f"{name} must be > 0 and <= 1, got {shape}")
        if slices == BETA and shapes[0] != shapes[1]:
            raise AlignmentInputError(
                f"long_shape must equal slice_shape for {BETA} slices, got {shapes[1]} and {shapes[0]}"
            )
        n, m, phrase = batch.longest_source, batch.longest_target, batch.phrases.longest
        self.batch = batch
        self.settings = settings
        self._slices = slices == FLAT, *shapes, settings.short_chart
        self.initial_base = make_base(batch, model1 or train_model1(batch), settings)
        words = np.zeros(batch.source_words), np.zeros(batch.target_words)
        self._tables = Tables(np.zeros(len(self.initial_base.lexical), np.int32), np.zeros(3, np.int64), *words)
        self._scratch = ItgScratch(
            np.zeros(2 * (n + m), NODE),
            np.zeros(2 * (n + m), NODE),
            make_weights(n, m, phrase),
            make_chart(n, m, 1.0 / settings.slice_shape - 1.0, phrase),
            make_local_move(2 * (n + m), phrase),
            np.zeros(3, np.int64),
        )

    def init(self, key: int, start: str | NDArray[np.int32] = MODEL1, due: NDArray[np.bool_] | None = None) -> ItgState:
        """Return the initial state.

        `start` is `LEFT_BRANCHING`, `MODEL1`, or one-to-one links for M4, int32[N]: the target position of each source
        word or -1. `due` bool[P] has True for pairs that get a derivation, by default all. Other pairs have none, and
        sweeps skip them.
        """
        derivations = empty_derivations(self.batch)
        by_model1, links = (start == MODEL1, np.zeros(0, np.int32)) if isinstance(start, str) else (False, start)
        chosen_pairs = np.ones(self.batch.size, np.bool_) if due is None else due
        arguments = by_model1, links, chosen_pairs, np.uint64(key)
        self._run_blocks(
            lambda first, last: int(
                start_pairs(first, self.batch, self.initial_base, derivations, self._scratch.chart, *arguments)
            ),
            self.batch.size,
        )
        return self.resume(derivations)

    def resume(self, derivations: Derivations, base: Base | None = None) -> ItgState:
        """Return a state that shares the derivations and copies `base`, by default the initial one."""
        counts = ItgCounts(np.zeros(len(self.initial_base.lexical), np.int32), np.zeros(RULE_TYPES, np.int64))
        _count_all(self.batch, derivations, counts, self._scratch.nodes)
        source_base = base or self.initial_base
        copied = source_base._replace(
            source=source_base.source.copy(), target=source_base.target.copy(), strengths=source_base.strengths.copy()
        )
        return ItgState(derivations, counts, copied)

    def step(self, key: int, state: ItgState, plan: ItgPlan, report: Report | None = None) -> tuple[ItgState, ItgInfo]:
        """Resample planned pairs, then strengths and word distributions as in `settings`. Consumes `state`."""
        seed = np.uint64(key)
        self._scratch.statistics[:] = 0
        self._run_blocks(
            lambda first, last: self.sweep_pairs((first, last), state, plan, seed), _PAIRS_PER_REPORT, report
        )
        draw_all_tables(self.batch, state.base, state.counts, seed, plan.number, self._tables)
        if self.settings.sampled_strengths:
            draw_strengths(state.base, state.counts, self._tables, seed, plan.number)
        if self.settings.sampled_words:
            draw_words(state.base, self._tables, seed, plan.number)
        return state, ItgInfo(*self._scratch.statistics.tolist())

    def sweep_pairs(self, pairs: tuple[int, int], state: ItgState, plan: ItgPlan, key: np.uint64) -> int:
        """Resample a range of pairs. Returns the pair that needs a larger chart, or the end of the range."""
        return int(_sweep_pairs(pairs, self.batch, state, self._scratch, plan, self._slices, key))

    def log_likelihood(self, state: ItgState) -> float:
        """Return the natural log probability of all derivations, given base distributions and strengths."""
        return float(log_likelihood(self.batch, state.base, state.counts))

    def _run_blocks(self, work: Callable[[int, int], int], pairs_per_call: int, report: Report | None = None) -> None:
        pair = 0
        while pair < self.batch.size:
            last = min((pair // pairs_per_call + 1) * pairs_per_call, self.batch.size)
            pair = work(pair, last)
            if pair < last:
                self._scratch = self._scratch._replace(chart=larger_chart(self._scratch.chart))
            elif report is not None:
                report(pair)
