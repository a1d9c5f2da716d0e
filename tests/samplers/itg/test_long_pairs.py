"""Long pairs: the sparse chart has the sums of the whole chart, and takes bounded memory."""

import tracemalloc

import numpy as np
import pytest
from tests.samplers.itg.corpora import to_batch, to_trees

from hierogram.samplers.grammar.settings import BETA
from hierogram.samplers.itg.charts import make_weights
from hierogram.samplers.itg.charts import sum_inside as sum_whole
from hierogram.samplers.itg.derivations import list_nodes
from hierogram.samplers.itg.model import ItgSettings
from hierogram.samplers.itg.sampler import ItgKernel
from hierogram.samplers.itg.slices import (
    CELLS,
    MAX_CELLS,
    UNSLICED,
    Slices,
    find_required,
    larger_chart,
    make_chart,
    sum_inside,
)
from hierogram.samplers.itg.starts import LEFT_BRANCHING
from hierogram.tools.lab.baselines.itg import make_plan

MEBIBYTE = 1 << 20


@pytest.mark.parametrize(("n", "m"), [(3, 70), (4, 64), (2, 130), (70, 3)])
def test_sums_of_long_sides_equal_sums_of_the_whole_chart(monkeypatch: pytest.MonkeyPatch, n: int, m: int) -> None:
    """Includes a chart that was first too small: its partial sums are discarded."""
    random = np.random.default_rng(n)
    items = make_weights(n, m, 1)
    items.size[:2] = n, m
    items.rules[:2] = 0.4, 0.2
    items.pairs[..., 0] = random.random((n, m)) * (random.random((n, m)) < 0.9)
    items.source_nulls[:], items.target_nulls[:] = random.random(n), random.random(m)
    # The first and the last word of each side must be linked, and the last words to each other.
    items.source_nulls[[0, -1]] = items.target_nulls[[0, -1]] = 0.0
    items.pairs[0, 1:3] = items.pairs[-1, -1] = 0.5
    items.pairs[-1, :-1] = items.pairs[:-1, -1] = 0.0
    whole = np.zeros((n + 1) * (n + 2) // 2 * (m + 1) ** 2)
    sum_whole(whole, items)
    expected = whole[(n * (n + 1) // 2) * (m + 1) ** 2 + m]
    monkeypatch.setattr("hierogram.samplers.itg.slices.INITIAL_CELLS", 1 << 10)
    chart = make_chart(n, m, 0.0, 1)
    chart.emissions.pairs[:], chart.emissions.source_nulls[:] = items.pairs, items.source_nulls
    chart.emissions.target_nulls[:] = items.target_nulls
    find_required(chart.viability, chart.emissions, n, m)
    slices = Slices(UNSLICED, chart.powers, np.uint64(1), n, m, 0.4, 0.2, 1.0, 1.0, chart.current, items)
    while not sum_inside(chart, slices):
        chart = larger_chart(chart)
    assert expected > 0
    # The last cell covers all words.
    assert chart.inside[chart.registers[CELLS] - 1] == pytest.approx(expected, rel=1e-9)


def test_a_pair_of_a_hundred_words_takes_bounded_memory() -> None:
    random = np.random.default_rng(5)
    source, target = random.integers(0, 60, 100), random.integers(0, 60, 100)
    batch = to_batch(((tuple(source.tolist()), tuple(target.tolist())),))
    kernel = ItgKernel(batch, ItgSettings(0.25), BETA)
    state = kernel.init(1, LEFT_BRANCHING)
    before = to_trees(state)
    for number in range(1, 4):
        state, _ = kernel.step(1, state, make_plan(kernel.batch, number))
    assert to_trees(state) != before
    root = list_nodes(state.derivations, 0)[0]
    assert (root["j"], root["y"]) == (100, 100)
    chart = kernel._scratch.chart
    assert len(chart.inside) <= MAX_CELLS
    flat = [part for part in chart if isinstance(part, np.ndarray)]
    assert sum(part.nbytes for part in flat) < 256 * MEBIBYTE


def test_the_largest_chart_of_a_hundred_words_takes_bounded_memory() -> None:
    """Memory is measured at its peak, when the previous smaller chart still exists."""
    tracemalloc.start()
    try:
        chart = make_chart(100, 100, 0.0, 1)
        while len(chart.inside) < MAX_CELLS:
            chart = larger_chart(chart)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(chart.inside) == MAX_CELLS
    assert sum(part.nbytes for part in chart if isinstance(part, np.ndarray)) < most < 256 * MEBIBYTE
