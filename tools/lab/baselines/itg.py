"""ITG samplers that [BC10] compares with slices: local moves, and draws from full charts."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.compiled.streams import stream
from hierogram.samplers.exceptions import AlignmentInputError
from hierogram.samplers.grammar.settings import BETA
from hierogram.samplers.grammar.settings import FLAT as FLAT_SLICES
from hierogram.samplers.itg.batch import ItgBatch
from hierogram.samplers.itg.charts import (
    RuleWeights,
    SampledDerivation,
    draw_derivation,
    make_sampled_derivation,
    make_weights,
    scale_emissions,
    split_cell,
    sum_inside,
)
from hierogram.samplers.itg.derivations import INVERTED, STRAIGHT
from hierogram.samplers.itg.gibbs import resample_locally
from hierogram.samplers.itg.model import ItgSettings, Model1
from hierogram.samplers.itg.sampler import (
    ACCEPTED,
    PROPOSED,
    ItgKernel,
    ItgPlan,
    ItgState,
    accept_or_reject,
    start_visit,
)

SLICE, GIBBS, EXHAUSTIVE, FLAT = "slice", "gibbs", "exhaustive", "flat"
METHODS = (SLICE, GIBBS, EXHAUSTIVE, FLAT)
"""Methods of resampling a pair: Beta slices, local moves, full charts, and flat slices."""
MAX_CHART = 1 << 25
"""Maximum number of cells of a chart of the exhaustive sampler (256 MiB)."""


class FullChart(NamedTuple):
    """Scratch memory of the exhaustive sampler. `scale` has the factors of `_normalize_emissions`."""

    weights: RuleWeights
    chart: NDArray[np.float64]
    scale: NDArray[np.float64]
    drawn: SampledDerivation


@njit
def _copy_emissions(weights, to, n, m):
    for i in range(n):
        to.source_nulls[i] = weights.source_nulls[i]
        for x in range(m):
            for shape in range(weights.pairs.shape[2]):
                to.pairs[i, x, shape] = weights.pairs[i, x, shape]
    for x in range(m):
        to.target_nulls[x] = weights.target_nulls[x]


@njit
def _normalize_emissions(weights, scale):
    """Scale emissions to at most 1, and write the factor of each word to `scale` float64[n + m]."""
    n, m = weights.size[0], weights.size[1]
    for i in range(n):
        best = weights.source_nulls[i] * weights.source_nulls[i]
        for x in range(m):
            best = max(best, weights.pairs[i, x, 0])
        scale[i] = 1.0 / np.sqrt(best)
    for x in range(m):
        best = weights.target_nulls[x] * weights.target_nulls[x]
        for i in range(n):
            best = max(best, weights.pairs[i, x, 0])
        scale[n + x] = 1.0 / np.sqrt(best)
    scale_emissions(weights, n, m, scale)


@njit
def _visit_exhaustively(batch, pair, state, scratch, full, visit):
    start_visit(batch, pair, state, scratch)
    scaled, weights = full.weights, scratch.weights
    n, m = np.int64(scratch.nodes[0]["j"]), np.int64(scratch.nodes[0]["y"])
    scaled.size[0], scaled.size[1] = n, m
    _copy_emissions(weights, scaled, n, m)
    scaled.rules[STRAIGHT], scaled.rules[INVERTED] = weights.rules[STRAIGHT], weights.rules[INVERTED]
    _normalize_emissions(scaled, full.scale)
    sum_inside(full.chart, scaled)
    drawn, stream_state = draw_derivation(split_cell, (full.chart, scaled), (n, m), visit, full.drawn)
    accept_or_reject(batch, pair, state, scratch, (full.drawn.rules, drawn), stream_state)


@njit
def _sweep_pairs(pairs, batch, state, scratch, full, plan, key):
    """Resample a range of pairs from their full charts, or by local moves if `full` is None."""
    first, last = pairs
    for pair in range(first, last):
        if plan.sweeps[pair] == 0 or state.derivations.length[pair] == 0:
            continue
        visit = stream(key, batch.pairs[pair], plan.sweeps[pair])
        if full is None:
            n = batch.source_offset[pair + 1] - batch.source_offset[pair]
            m = batch.target_offset[pair + 1] - batch.target_offset[pair]
            scratch.statistics[PROPOSED] += 2 * (n + m) - 1
            scratch.statistics[ACCEPTED] += resample_locally(batch, pair, state, scratch.local, visit)
        else:
            _visit_exhaustively(batch, pair, state, scratch, full, visit)


class LocalKernel(ItgKernel):
    """Sampler of one batch by local moves [BC10 §3]. Counts the moves as proposals."""

    full: FullChart | None = None
    """Scratch memory of `ExhaustiveKernel`, or None for local moves."""

    def sweep_pairs(self, pairs: tuple[int, int], state: ItgState, plan: ItgPlan, key: np.uint64) -> int:
        """Resample a range of pairs. Returns the end of the range."""
        _sweep_pairs(pairs, self.batch, state, self._scratch, self.full, plan, key)
        return pairs[1]


class ExhaustiveKernel(LocalKernel):
    """Sampler of one batch from full charts."""

    def __init__(self, batch: ItgBatch, settings: ItgSettings, slices: str, model1: Model1 | None = None) -> None:
        """Raise `AlignmentInputError` if the chart of a pair has more than `MAX_CHART` cells."""
        super().__init__(batch, settings, slices, model1)
        n, m = np.diff(batch.source_offset), np.diff(batch.target_offset)
        cells = (n + 1) * (n + 2) // 2 * (m + 1) ** 2
        max_size = int(cells.max(initial=1))
        if max_size > MAX_CHART:
            pair = int(cells.argmax())
            raise AlignmentInputError(
                f"sentence pair {pair + 1} ({n[pair]} and {m[pair]} words) has a chart of {max_size:,} cells, "
                f"the limit of the exhaustive sampler is {MAX_CHART:,}: remove this pair, or sample by slices"
            )
        longest = batch.longest_source, batch.longest_target
        self.full = FullChart(
            make_weights(*longest, batch.phrases.longest),
            np.zeros(max_size),
            np.zeros(sum(longest)),
            make_sampled_derivation(*longest),
        )


def make_plan(batch: ItgBatch, sweep: int) -> ItgPlan:
    """Return the plan of sweep number `sweep` over all pairs."""
    return ItgPlan(sweep, np.full(batch.size, sweep, np.int64))


def build(batch: ItgBatch, settings: ItgSettings, method: str, model1: Model1 | None = None) -> ItgKernel:
    """Return a sampler by one of `METHODS`. Raises `AlignmentInputError` if an argument is invalid."""
    if method not in METHODS:
        raise AlignmentInputError(f"unknown ITG sampler {method!r}: expected {', '.join(METHODS)}")
    kernel = {GIBBS: LocalKernel, EXHAUSTIVE: ExhaustiveKernel}.get(method, ItgKernel)
    return kernel(batch, settings, BETA if method == SLICE else FLAT_SLICES, model1)
