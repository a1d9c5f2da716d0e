"""The ITG samplers: slice, local and exhaustive, over one model; the interface is `hierogram.samplers.kernel`.

kernel = build(batch, settings, SLICE)
state = kernel.init(seed, MODEL1)
state, info = kernel.step(seed, state, plan_of(batch, sweep))
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.exceptions import AlignmentInputError
from hierogram.samplers.itg.base import Tables, draw_strengths, draw_tables, draw_words, make_tables
from hierogram.samplers.itg.batch import ItgBatch
from hierogram.samplers.itg.cells import larger_chart, make_chart
from hierogram.samplers.itg.charts import make_drawn, make_items
from hierogram.samplers.itg.derivations import (
    NODE,
    RULE_TYPES,
    Derivations,
    empty_derivations,
    lay_out,
    longest_derivation,
)
from hierogram.samplers.itg.gibbs import make_local
from hierogram.samplers.itg.model import (
    Base,
    Counts,
    ItgSettings,
    Weights,
    count_derivation,
    empty_counts,
    log_likelihood,
    make_base,
)
from hierogram.samplers.itg.model1 import Model1, train_model1
from hierogram.samplers.itg.starts import LINKS, MODEL1, STARTS, start_pairs, start_room
from hierogram.samplers.itg.sweeps import (
    EXHAUSTIVE,
    METHODS,
    SLICE,
    ItgPlan,
    ItgState,
    Scratch,
    sweep_pairs,
)

_PAIRS_A_REPORT = 512
MOST_CHART = 1 << 25
"""Cells of the largest chart of the exhaustive sampler: 256 MiB."""


class ItgInfo(NamedTuple):
    """What a sweep did: pairs resampled; derivations proposed that were others than those before, and accepted (of the
    local sampler, moves accepted); charts that were given up; cells and combinations of the charts.
    """

    resampled: int
    proposed: int
    accepted: int
    given_up: int
    cells: int
    combinations: int

    @property
    def acceptance(self) -> float:
        """The share of proposals that were accepted."""
        return self.accepted / self.proposed if self.proposed else 1.0


def make_weights(longest_source: int, longest_target: int) -> Weights:
    """Room for the weights of one pair."""
    n, m = longest_source, longest_target
    return Weights(np.zeros((n, m)), np.zeros(n), np.zeros(m), np.zeros(RULE_TYPES))


def plan_of(batch: ItgBatch, sweep: int) -> ItgPlan:
    """The plan of a sweep over all pairs."""
    return ItgPlan(sweep, np.full(batch.size, sweep, np.int64))


@njit
def _count_all(batch, derivations, counts, nodes):
    """Count the derivations of all pairs."""
    for pair in range(len(batch.pairs)):
        length = np.int64(derivations.length[pair])
        if length > 0:
            lay_out(derivations.rules[derivations.offset[pair] :], length, nodes)
            count_derivation(batch, pair, nodes, length, counts, 1)


def count_all(batch: ItgBatch, derivations: Derivations) -> Counts:
    """The counts that follow from derivations."""
    counts = empty_counts(batch)
    _count_all(batch, derivations, counts, np.zeros(longest_derivation(derivations), NODE))
    return counts


class ItgKernel:
    """A sampler of one batch; one thread at a time may use it."""

    def __init__(self, batch: ItgBatch, settings: ItgSettings, method: str, model1: Model1 | None) -> None:
        if method not in METHODS:
            raise AlignmentInputError(f"no ITG sampler is called {method!r}: there are {', '.join(METHODS)}")
        of_long = settings.slice_shape if settings.long_shape is None else settings.long_shape
        shapes = settings.slice_shape, of_long
        for shape in shapes:
            if not 0 < shape <= 1:
                raise AlignmentInputError(f"the shape of slices is {shape}: it must be above 0, at most 1")
        if method == SLICE and shapes[0] != shapes[1]:
            raise AlignmentInputError("only flat slices have another shape in long pairs")
        n, m = batch.longest_source, batch.longest_target
        self.batch = batch
        self.settings = settings
        self.method = method
        self._how = METHODS.index(method), *shapes, settings.short_chart
        self.first_base = make_base(batch, model1 or train_model1(batch), settings)
        self._tables = make_tables(len(batch.type_source), batch.source_words, batch.target_words)
        self._scratch = Scratch(
            np.zeros(2 * (n + m), NODE),
            np.zeros(2 * (n + m), NODE),
            make_weights(n, m),
            make_chart(n, m, exponent=1.0 / settings.slice_shape - 1.0),
            make_local(2 * (n + m)),
            make_items(n, m),
            make_drawn(n, m),
            np.zeros(self._whole()),
            np.zeros(n + m),
            np.zeros(6, np.int64),
        )

    def _whole(self) -> int:
        """Cells of the largest whole chart that is needed."""
        n, m = np.diff(self.batch.source_offset), np.diff(self.batch.target_offset)
        cells = (n + 1) * (n + 2) // 2 * (m + 1) ** 2
        if self.method != EXHAUSTIVE:
            return 1
        most = int(cells.max(initial=1))
        if most > MOST_CHART:
            at = int(cells.argmax())
            raise AlignmentInputError(
                f"sentence pair {at + 1} of {n[at]} and {m[at]} words has a chart of {most:,} cells: the exhaustive "
                f"sampler takes {MOST_CHART:,} at most; leave it out, or sample by slices"
            )
        return most

    def init(
        self,
        key: int,
        start: str = MODEL1,
        links: NDArray[np.int32] | None = None,
        due: NDArray[np.bool_] | None = None,
    ) -> ItgState:
        """The initial state: LB, M1, or M4 from `links`, int32[N] target positions of source words or -1, one-to-one.

        Only the pairs that are `due`, bool[P], get a derivation (None: all). Raises `AlignmentInputError` where there
        is no such start.
        """
        if start not in STARTS or (start == LINKS and links is None):
            raise AlignmentInputError(
                f"no start is called {start!r}: there are {', '.join(STARTS)}, the last from links"
            )
        derivations = empty_derivations(self.batch)
        n, m = self.batch.longest_source, self.batch.longest_target
        room = start_room(n, m)
        chosen = np.zeros(1, np.int32) if links is None else links.astype(np.int32)
        number = STARTS.index(start)
        seed = np.uint64(key)
        how = number, chosen, np.ones(self.batch.size, np.bool_) if due is None else due

        def begin(first: int, last: int) -> int:
            chart = self._scratch.chart
            return int(start_pairs(first, self.batch, self.first_base, derivations, chart, room, how, seed))

        self._over_pairs(begin, self.batch.size)
        return self.resume(derivations)

    def resume(self, derivations: Derivations, base: Base | None = None) -> ItgState:
        """The state with these derivations, and base distributions if they are known."""
        of = base or self.first_base
        own = of._replace(source=of.source.copy(), target=of.target.copy(), strengths=of.strengths.copy())
        return ItgState(derivations, count_all(self.batch, derivations), own)

    def step(
        self, key: int, state: ItgState, plan: ItgPlan, report: Callable[[int], None] | None = None
    ) -> tuple[ItgState, ItgInfo]:
        """One sweep over the pairs of the plan, then new base distributions and strengths, all in place.

        `report` hears how many pairs are done.
        """
        seed = np.uint64(key)
        self._scratch.numbers[:] = 0

        def visit(first: int, last: int) -> int:
            return int(sweep_pairs((first, last), self.batch, state, self._scratch, plan, self._how, seed))

        self._over_pairs(visit, _PAIRS_A_REPORT, report)
        self.draw_base(key, state, plan.number)
        return state, ItgInfo(*self._scratch.numbers.tolist())

    def draw_base(self, key: int, state: ItgState, number: int) -> Tables:
        """Draw the base distributions and the strengths, if they are sampled, given the derivations; the tables."""
        seed = np.uint64(key)
        draw_tables(self.batch, state.base, state.counts, seed, number, self._tables)
        if self.settings.sampled_strengths:
            draw_strengths(state.base, state.counts, self._tables, seed, number)
        if self.settings.sampled_words:
            draw_words(state.base, self._tables, seed, number)
        return self._tables

    def log_likelihood(self, state: ItgState) -> float:
        """ln P of all derivations given the base distributions and strengths."""
        return float(log_likelihood(self.batch, state.base, state.counts))

    def _over_pairs(
        self, work: Callable[[int, int], int], some: int, report: Callable[[int], None] | None = None
    ) -> None:
        """Go through all pairs, some at a time; where the chart lacks room, give it more and go on at that pair."""
        at = 0
        while at < self.batch.size:
            last = min((at // some + 1) * some, self.batch.size)
            at = work(at, last)
            if at < last:
                self._scratch = self._scratch._replace(chart=larger_chart(self._scratch.chart))
            elif report is not None:
                report(at)


def build(
    batch: ItgBatch, settings: ItgSettings | None = None, method: str = SLICE, model1: Model1 | None = None
) -> ItgKernel:
    """The sampler of a batch by one of `METHODS`; Model 1 is trained on the batch if it is not given.

    Raises `AlignmentInputError`.
    """
    return ItgKernel(batch, settings or ItgSettings(), method, model1)
