"""ITG samplers of one model, with the interface of `hierogram.samplers.kernel`.

    kernel = build(batch, settings, SLICE)
    state = kernel.init(seed, MODEL1)
    state, info = kernel.step(seed, state, make_plan(batch, sweep))

A sweep resamples each pair by slice sampling, by local moves or from its full chart.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, mix, stream, uniform
from hierogram.samplers.exceptions import AlignmentInputError
from hierogram.samplers.grammar import settings as named
from hierogram.samplers.itg.batch import ItgBatch
from hierogram.samplers.itg.charts import (
    SampledDerivation,
    Weights,
    draw_derivation,
    make_sampled_derivation,
    make_weights,
    normalize_emissions,
    sum_inside,
)
from hierogram.samplers.itg.derivations import (
    INVERTED,
    NODE,
    RULE_TYPES,
    STRAIGHT,
    Derivations,
    empty_derivations,
    lay_out,
)
from hierogram.samplers.itg.gibbs import LocalMove, make_local_move, resample_locally
from hierogram.samplers.itg.model import (
    Base,
    ItgCounts,
    ItgSettings,
    add_sequentially,
    copy_emissions,
    count_derivation,
    draw_strengths,
    draw_tables,
    draw_words,
    log_likelihood,
    make_base,
    make_tables,
    weigh_rules,
)
from hierogram.samplers.itg.model1 import Model1, train_model1
from hierogram.samplers.itg.slices import (
    CELLS,
    COMBINATIONS,
    GIVEN_UP,
    LIMIT,
    NO_ROOM,
    SparseChart,
    draw_by_flat_slices,
    draw_by_slices,
    larger_chart,
    make_chart,
)
from hierogram.samplers.itg.starts import LINKS, MODEL1, STARTS, start_pairs
from hierogram.samplers.kernel import Report

SLICE, GIBBS, EXHAUSTIVE, FLAT = "slice", "gibbs", "exhaustive", "flat"
METHODS = (SLICE, GIBBS, EXHAUSTIVE, FLAT)
"""Methods of resampling a pair: Beta slices, local moves, full charts, and flat slices."""
SLICE_METHODS = {named.FLAT: FLAT, named.BETA: SLICE}
"""Method for each slice distribution."""

_SLICE, _GIBBS, _EXHAUSTIVE, _FLAT = range(4)
_RESAMPLED, _PROPOSED, _ACCEPTED, _GIVEN_UP, _CELLS, _COMBINATIONS = range(6)


class ItgState(NamedTuple):
    """State of a chain: derivations, their counts, base distributions and strengths."""

    derivations: Derivations
    counts: ItgCounts
    base: Base


class ItgPlan(NamedTuple):
    """Plan of a sweep: its `number` in the chain, and the sweep number of each pair, int64[P] (0 to skip the pair)."""

    number: int
    sweeps: NDArray[np.int64]


class ItgScratch(NamedTuple):
    """Scratch memory of a sweep. `numbers` int64[6] has the fields of `ItgInfo`."""

    nodes: NDArray[np.void]
    proposed: NDArray[np.void]
    weights: Weights
    chart: SparseChart
    local: LocalMove
    scaled: Weights
    drawn: SampledDerivation
    full_chart: NDArray[np.float64]
    scale: NDArray[np.float64]
    numbers: NDArray[np.int64]


@njit
def _accept(batch, pair, state, scratch, proposal, stream_state):
    """Return True if a proposal (rules, length) is accepted by Metropolis–Hastings [Johnson et al. 2007].

    Counts must exclude the pair's derivation. Afterwards they include the resulting derivation.
    """
    derivations, counts, base = state
    rules, length = proposal
    first = derivations.offset[pair]
    before = derivations.length[pair]
    lay_out(rules, length, scratch.proposed)
    ratio = add_sequentially(batch, pair, base, scratch.proposed, length, counts, scratch.weights)
    count_derivation(batch, pair, scratch.proposed, length, counts, -1)
    current_ratio = add_sequentially(batch, pair, base, scratch.nodes, before, counts, scratch.weights)
    if uniform(advance(stream_state)) * current_ratio >= ratio:
        return False
    count_derivation(batch, pair, scratch.nodes, before, counts, -1)
    count_derivation(batch, pair, scratch.proposed, length, counts, 1)
    derivations.length[pair] = length
    for at in range(length):
        derivations.rules[first + at] = rules[at]
    return True


@njit
def _count_drawn(batch, pair, state, scratch, proposal, stream_state):
    """Accept or reject a drawn derivation (rules, length), and count the rules of the pair's resulting derivation."""
    rules, length = proposal
    derivations = state.derivations
    is_same = length == derivations.length[pair]
    for at in range(length):
        if not is_same:
            break
        is_same = derivations.rules[derivations.offset[pair] + at] == rules[at]
    if is_same:
        count_derivation(batch, pair, scratch.nodes, length, state.counts, 1)
    else:
        scratch.numbers[_PROPOSED] += 1
        if _accept(batch, pair, state, scratch, proposal, stream_state):
            scratch.numbers[_ACCEPTED] += 1


@njit
def _start_visit(batch, pair, state, scratch):
    """Remove the rules of a pair from the counts, and set rule weights. Returns the length of the derivation."""
    derivations = state.derivations
    length = np.int64(derivations.length[pair])
    lay_out(derivations.rules[derivations.offset[pair] :], length, scratch.nodes)
    count_derivation(batch, pair, scratch.nodes, length, state.counts, -1)
    weigh_rules(batch, pair, state.base, state.counts, scratch.weights)
    return length


@njit
def _visit_by_slices(batch, pair, state, scratch, slices, visit):
    """Resample a pair by slices. `slices` is (shape a, True if flat). Returns False if the chart is too small."""
    shape, flat = slices
    length = _start_visit(batch, pair, state, scratch)
    if flat:
        drawn = draw_by_flat_slices(scratch.chart, scratch.weights, shape, scratch.nodes, length, visit)
    else:
        drawn = draw_by_slices(scratch.chart, scratch.weights, shape, scratch.nodes, length, visit)
    if drawn in (NO_ROOM, GIVEN_UP):
        count_derivation(batch, pair, scratch.nodes, length, state.counts, 1)
        if drawn == NO_ROOM:
            return False
        scratch.numbers[_GIVEN_UP] += 1
    else:
        _count_drawn(batch, pair, state, scratch, (scratch.chart.rules, drawn), ~visit)
    scratch.numbers[_CELLS] += scratch.chart.registers[CELLS]
    scratch.numbers[_COMBINATIONS] += scratch.chart.registers[COMBINATIONS]
    return True


@njit
def _visit_exhaustively(batch, pair, state, scratch, visit):
    _start_visit(batch, pair, state, scratch)
    scaled, weights = scratch.scaled, scratch.weights
    n, m = np.int64(scratch.nodes[0]["j"]), np.int64(scratch.nodes[0]["y"])
    scaled.size[0], scaled.size[1] = n, m
    copy_emissions(weights, scaled, n, m)
    scaled.rules[STRAIGHT], scaled.rules[INVERTED] = weights.rules[STRAIGHT], weights.rules[INVERTED]
    normalize_emissions(scaled, scratch.scale)
    sum_inside(scratch.full_chart, scaled)
    drawn, stream_state = draw_derivation(scratch.full_chart, scaled, visit, scratch.drawn)
    _count_drawn(batch, pair, state, scratch, (scratch.drawn.rules, drawn), stream_state)


@njit_inline
def _combinations(n, m):
    """Return an upper bound on the number of combinations of two cells in a full chart."""
    return n * (n + 1) * (n + 2) // 3 * (m + 1) * (m + 2) * (m + 3) // 6


@njit
def sweep_pairs(pairs, batch, state, scratch, plan, methods, key):
    """Resample a range of pairs. Returns the pair that needs a larger chart, or the end of the range.

    `methods` has an index into `METHODS`, the shape a for short pairs, the shape a for long pairs, and the maximum
    number of combinations of two cells in the full chart of a short pair.
    """
    method, short_shape, long_shape, max_combinations = methods
    first, last = pairs
    for pair in range(first, last):
        if plan.sweeps[pair] == 0 or state.derivations.length[pair] == 0:
            continue
        visit = stream(key, batch.pairs[pair], plan.sweeps[pair])
        n = batch.source_offset[pair + 1] - batch.source_offset[pair]
        m = batch.target_offset[pair + 1] - batch.target_offset[pair]
        if method == _GIBBS:
            scratch.numbers[_PROPOSED] += 2 * (n + m) - 1
            scratch.numbers[_ACCEPTED] += resample_locally(batch, pair, state, scratch.local, visit)
        elif method == _EXHAUSTIVE:
            _visit_exhaustively(batch, pair, state, scratch, visit)
        else:
            shape = short_shape if _combinations(n, m) <= max_combinations else long_shape
            if not _visit_by_slices(batch, pair, state, scratch, (shape, method == _FLAT), visit):
                return pair
            if _combinations(n, m) > scratch.chart.registers[LIMIT]:
                # Make local moves for all pairs whose chart might be given up. If local moves were made only after
                # giving up, they would depend on the derivation, and sampling would not be exact.
                resample_locally(batch, pair, state, scratch.local, mix(visit))
        scratch.numbers[_RESAMPLED] += 1
    return last


_PAIRS_PER_REPORT = 512
MAX_CHART = 1 << 25
"""Maximum number of cells of a chart of the exhaustive sampler (256 MiB)."""


class ItgInfo(NamedTuple):
    """Statistics of a sweep."""

    # Number of resampled pairs.
    resampled: int
    # Number of proposals that differ from the current derivation, or number of local moves.
    proposed: int
    # Number of accepted proposals or moves.
    accepted: int
    # Number of charts that were given up.
    given_up: int
    # Number of cells in all sparse charts, and number of combinations of two cells.
    cells: int
    combinations: int


def make_plan(batch: ItgBatch, sweep: int) -> ItgPlan:
    """Return the plan of sweep number `sweep` over all pairs."""
    return ItgPlan(sweep, np.full(batch.size, sweep, np.int64))


@njit
def _count_all(batch, derivations, counts, nodes):
    for pair in range(len(batch.pairs)):
        length = np.int64(derivations.length[pair])
        if length > 0:
            lay_out(derivations.rules[derivations.offset[pair] :], length, nodes)
            count_derivation(batch, pair, nodes, length, counts, 1)


class ItgKernel:
    """Sampler of one batch. Not thread-safe."""

    def __init__(self, batch: ItgBatch, settings: ItgSettings, method: str, model1: Model1 | None) -> None:
        if method not in METHODS:
            raise AlignmentInputError(f"unknown ITG sampler {method!r}: expected {', '.join(METHODS)}")
        long_shape = settings.slice_shape if settings.long_shape is None else settings.long_shape
        shapes = settings.slice_shape, long_shape
        for name, shape in zip(("slice_shape", "long_shape"), shapes, strict=True):
            if not 0 < shape <= 1:
                raise AlignmentInputError(f"{name} must be > 0 and <= 1, got {shape}")
        if method == SLICE and shapes[0] != shapes[1]:
            raise AlignmentInputError(
                f"long_shape must equal slice_shape for the sampler {SLICE!r}, got {shapes[1]} and {shapes[0]}"
            )
        n, m, phrase = batch.longest_source, batch.longest_target, batch.phrases.longest
        self.batch = batch
        self.settings = settings
        self.method = method
        self._methods = METHODS.index(method), *shapes, settings.short_chart
        self.first_base = make_base(batch, model1 or train_model1(batch), settings)
        self._tables = make_tables(batch.emitted_types, batch.source_words, batch.target_words)
        self._scratch = ItgScratch(
            np.zeros(2 * (n + m), NODE),
            np.zeros(2 * (n + m), NODE),
            make_weights(n, m, phrase),
            make_chart(n, m, exponent=1.0 / settings.slice_shape - 1.0, longest_phrase=phrase),
            make_local_move(2 * (n + m), phrase),
            make_weights(n, m, phrase),
            make_sampled_derivation(n, m),
            np.zeros(self._full_chart_size()),
            np.zeros(n + m),
            np.zeros(6, np.int64),
        )

    def _full_chart_size(self) -> int:
        n, m = np.diff(self.batch.source_offset), np.diff(self.batch.target_offset)
        cells = (n + 1) * (n + 2) // 2 * (m + 1) ** 2
        if self.method != EXHAUSTIVE:
            return 1
        max_size = int(cells.max(initial=1))
        if max_size > MAX_CHART:
            pair = int(cells.argmax())
            raise AlignmentInputError(
                f"sentence pair {pair + 1} ({n[pair]} and {m[pair]} words) has a chart of {max_size:,} cells, "
                f"the limit of the exhaustive sampler is {MAX_CHART:,}: remove this pair, or sample by slices"
            )
        return max_size

    def init(
        self,
        key: int,
        start: str = MODEL1,
        links: NDArray[np.int32] | None = None,
        due: NDArray[np.bool_] | None = None,
    ) -> ItgState:
        """Return the initial state. Raises `AlignmentInputError` if the start is unknown, or if M4 has no links.

        `links` int32[N] has one-to-one links for M4: the target position of each source word or -1. `due` bool[P] has
        True for pairs that get a derivation, by default all.
        """
        if start not in STARTS:
            raise AlignmentInputError(f"unknown start {start!r}: expected {', '.join(STARTS)}")
        if start == LINKS and links is None:
            raise AlignmentInputError(f"the start {LINKS!r} requires `links`")
        derivations = empty_derivations(self.batch)
        chosen = np.zeros(1, np.int32) if links is None else links.astype(np.int32)
        chosen_pairs = np.ones(self.batch.size, np.bool_) if due is None else due

        def begin(first: int, last: int) -> int:
            return int(
                start_pairs(
                    first, self.batch, self.first_base, derivations, self._scratch.chart, self._scratch.weights,
                    STARTS.index(start), chosen, chosen_pairs, np.uint64(key),
                )
            )  # fmt: skip

        self._run_blocks(begin, self.batch.size)
        return self.resume(derivations)

    def resume(self, derivations: Derivations, base: Base | None = None) -> ItgState:
        """Return a state with these derivations and base distributions, by default the initial base distributions."""
        counts = ItgCounts(
            np.zeros(self.batch.emitted_types, np.int32),
            np.zeros(self.batch.source_words, np.int32),
            np.zeros(self.batch.target_words, np.int32),
            np.zeros(RULE_TYPES, np.int64),
        )
        _count_all(self.batch, derivations, counts, self._scratch.nodes)
        source_base = base or self.first_base
        copied = source_base._replace(
            source=source_base.source.copy(), target=source_base.target.copy(), strengths=source_base.strengths.copy()
        )
        return ItgState(derivations, counts, copied)

    def step(self, key: int, state: ItgState, plan: ItgPlan, report: Report | None = None) -> tuple[ItgState, ItgInfo]:
        """Resample the pairs of the plan, then the strengths and word distributions that `settings` selects.

        Returns the state, which is changed in place, and statistics.
        """
        seed = np.uint64(key)
        self._scratch.numbers[:] = 0

        def visit(first: int, last: int) -> int:
            return int(sweep_pairs((first, last), self.batch, state, self._scratch, plan, self._methods, seed))

        self._run_blocks(visit, _PAIRS_PER_REPORT, report)
        draw_tables(self.batch, state.base, state.counts, seed, plan.number, self._tables)
        if self.settings.sampled_strengths:
            draw_strengths(state.base, state.counts, self._tables, seed, plan.number)
        if self.settings.sampled_words:
            draw_words(state.base, self._tables, seed, plan.number)
        return state, ItgInfo(*self._scratch.numbers.tolist())

    def log_likelihood(self, state: ItgState) -> float:
        """Return the natural log probability of all derivations, given base distributions and strengths."""
        return float(log_likelihood(self.batch, state.base, state.counts))

    def _run_blocks(self, work: Callable[[int, int], int], pairs_per_call: int, report: Report | None = None) -> None:
        """Call `work` for blocks of pairs. If `work` stops inside a block, enlarge the chart and continue there."""
        pair = 0
        while pair < self.batch.size:
            last = min((pair // pairs_per_call + 1) * pairs_per_call, self.batch.size)
            pair = work(pair, last)
            if pair < last:
                self._scratch = self._scratch._replace(chart=larger_chart(self._scratch.chart))
            elif report is not None:
                report(pair)


def build(
    batch: ItgBatch, settings: ItgSettings | None = None, method: str = SLICE, model1: Model1 | None = None
) -> ItgKernel:
    """Return the sampler of a batch by one of `METHODS`. Raises `AlignmentInputError` if an argument is invalid.

    `model1` is trained on the batch by default.
    """
    return ItgKernel(batch, settings or ItgSettings(), method, model1)
