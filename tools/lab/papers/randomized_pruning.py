"""Draw Figure 4 of [BPK09]: work for a mask relative to the chart, and error of averages over masks.

    hierogram align corpus.zh corpus.en --symmetrize union --score -o links
    python -m hierogram.tools.lab.papers.randomized_pruning corpus.zh corpus.en links -o pruning.png

Masks are compared with tic-tac-toe pruning [Zhang & Gildea 2005]. docs/model.md, section 8, describes both.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Annotated, NamedTuple, cast

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.daemon.progress import progress
from hierogram.samplers.charts.hypergraph import inside_outside, total_weight
from hierogram.samplers.charts.pair_graphs import PairBuilder, PairGraph, expected_emissions
from hierogram.samplers.charts.pairs import PairTask, span_index, unmasked_task
from hierogram.samplers.charts.pruning.chain import MaskResult, PruningKernel, weighted_mean
from hierogram.samplers.compiled.jit import njit_allocating
from hierogram.tools.lab.measures.results import save_figure, write_table
from hierogram.tools.lab.papers.pruning.pairs import (
    GRAMMARS,
    LARGEST,
    MAX_EDGES,
    LinkedCorpus,
    LinksFile,
    SourceFile,
    TargetFile,
    build_whole,
    itg_edges,
    read_corpus,
)
from hierogram.tools.lab.papers.pruning.single_chain import SingleChain

_cell = cast("Callable[[int, int], int]", span_index)
"""Number of a span [i, j)."""


def figures_of_merit(target: NDArray[np.float64], source: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log of each bispan's figure of merit, float64[spans, (m+1)²].

    Source span [i, j) is row j(j+1)/2 + i, and target span [x, y) is column x(m+1) + y. `target` float64[n+1, m] is
    P(e_x | f_i), and `source` float64[n, m+1] is P(f_i | e_x). The empty word is last.
    """
    n, m = len(source), target.shape[1]
    merit = np.full(((n + 1) * (n + 2) // 2, m + 1, m + 1), -np.inf)
    sums = np.concatenate([np.zeros((1, m)), np.cumsum(target[:-1], axis=0)])
    for j in range(n + 1):
        for i in range(j + 1):
            inside, outside = _cumulate_logs(sums[j] - sums[i], sums[n], target[-1], j - i, n)
            merit[_cell(i, j)] = outside[-1] + (inside - outside)[None, :] - (inside - outside)[:, None]
    across = np.concatenate([np.zeros((n, 1)), np.cumsum(source[:, :-1], axis=1)], axis=1)
    ends = np.array([(i, j) for j in range(n + 1) for i in range(j + 1)])
    for y in range(m + 1):
        for x in range(y + 1):
            inside, outside = _cumulate_logs(across[:, y] - across[:, x], across[:, m], source[:, -1], y - x, m)
            gain = inside - outside
            merit[:, x, y] += outside[-1] + gain[ends[:, 1]] - gain[ends[:, 0]]
    merit[:, np.tril(np.ones((m + 1, m + 1), np.bool_), -1)] = -np.inf
    return merit.reshape(len(merit), -1)


def _cumulate_logs(
    within: NDArray[np.float64], total: NDArray[np.float64], null: NDArray[np.float64], size: int, words: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return cumulative log probabilities float64[words + 1] of words, given a span of the other side.

    The first array is given the words inside the span of `size` words, the second given the words outside.
    """
    inside = np.log((within + null) / (size + 1))
    outside = np.log((np.maximum(total - within, 0) + null) / (words - size + 1))
    return np.concatenate(([0], np.cumsum(inside))), np.concatenate(([0], np.cumsum(outside)))


def kept_bispans(merit: NDArray[np.float64], log_ratio: float) -> NDArray[np.bool_]:
    """Return a mask of the whole pair and of bispans within `log_ratio` of their source span's best."""
    is_kept = np.asarray(merit >= merit.max(axis=1, keepdims=True) - log_ratio, np.bool_)
    is_kept[_cell(0, int(np.sqrt(2 * len(merit)) + 0.5) - 1), int(np.sqrt(merit.shape[1]) + 0.5) - 1] = True
    return is_kept


_RATIOS = (0.0, 1.0, 2.0, 4.0, 6.0, 9.0, 13.0, 20.0, 30.0, 37.0, 45.0, 50.0, 55.0, 60.0)
"""Natural logs of the thresholds of tic-tac-toe pruning."""
_BUDGETS = 2.0 ** -np.arange(10, 0, -1)
"""Budgets as shares of the whole chart's edges."""
_COUNTS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 192, 256])
"""Numbers of masks per pair at the points of Figure 4 d."""
_MAX_STEPS = 2_000
_MAX_MASKS_WITHOUT_CHART = 100
"""A chain ends after this number of consecutive masks without a new chart."""
_NEAR = 0.08
"""Maximum difference of the size of a pair from the size of its group, relative to the latter."""

COLUMNS = (
    "grammar", "pair", "size", "exact edges", "mask edges", "exact seconds", "mask seconds", "half seconds", "charts",
    "masks", "one mask", "half the work",
)  # fmt: skip


class PrunedPair(NamedTuple):
    """Results of a pair. Work is measured in edges, and errors are squared."""

    grammar: str
    pair: int
    size: int
    # Edges and processor seconds of the whole chart, and their means over filled charts of masks.
    exact_edges: int
    mask_edges: float
    exact_seconds: float
    mask_seconds: float
    # Masks until half of the whole chart's work is reached: seconds, number of filled charts, and number of masks.
    half_seconds: float
    charts: int
    masks: int
    # Error of the first mask, and of the mean of the masks until half of the work.
    one: float
    half: float
    # float64[budgets]: error of the masks within each budget; NaN if the first mask exceeds the budget.
    by_budget: NDArray[np.float64]
    # float64[counts, 2] for each number of masks in `_COUNTS`: work and error.
    by_count: NDArray[np.float64]
    # float64[ratios, 3] for each tic-tac-toe threshold: share of the whole work, error, and error of the masks within
    # that share or half the work, whichever is smaller; NaN if the first mask exceeds this limit.
    tictactoe: NDArray[np.float64]


def measure(corpus: LinkedCorpus, grammar: str, pair: int, seed: int, uniform: bool = False) -> PrunedPair:
    """Measure a pair of up to `LARGEST` word pairs with the whole chart, masks, and tic-tac-toe pruning."""
    n, m = corpus.size(pair)
    chart = corpus.chart(grammar, pair)
    build_whole(chart)
    started = time.process_time()
    graph = build_whole(chart)
    scores = inside_outside(graph)
    exact_seconds = time.process_time() - started
    exact, edges = chart.features(scores.expected), graph.edges
    started = time.process_time()
    kernel = SingleChain(chart, pair, is_uniform=True) if uniform else PruningKernel(chart, pair)
    state = kernel.init(seed)
    # Omit the two whole charts.
    start_seconds, first = time.process_time() - started, sum(chart.edges_built[2:])
    steps: list[MaskResult] = []
    work: list[int] = []
    seconds: list[float] = []
    while not work or (
        (first + sum(work) < edges / 2 or len(work) < _COUNTS[-1])
        and any(work[-_MAX_MASKS_WITHOUT_CHART:])
        and len(work) < _MAX_STEPS
    ):
        started = time.process_time()
        charts = len(chart.edges_built)
        state, pruned = kernel.step(seed, state, len(work) // kernel.chains + 1)
        seconds += [(time.process_time() - started) / len(pruned)] * len(pruned)
        for mask in pruned:
            # A recurring mask has the same array of derivations, and no new chart.
            is_new = all(mask.drawn is not step.drawn for step in steps)
            work.append(chart.edges_built[charts] if is_new else 0)
            charts += is_new
            steps.append(mask)
    spent = first + np.array(list(accumulate(work)))
    # Count whole steps. A step has one mask of each chain.
    half = min(
        len(work), (int(np.searchsorted(spent[kernel.chains - 1 :: kernel.chains], edges / 2)) + 1) * kernel.chains
    )
    made = np.array(work[:half]) > 0

    @cache
    def error_after(done: int) -> float:
        """Return the error of the mean of the first `done` masks."""
        averaged_steps = steps[:done]
        mean = np.mean([step.features for step in averaged_steps], axis=0) if uniform else weighted_mean(averaged_steps)
        return float(((mean - exact) ** 2).sum())

    def error(share: float) -> float:
        """Return the error of the masks within a share of the whole work, or NaN if the first mask exceeds it."""
        done = int(np.searchsorted(spent[:half], share * edges, side="right"))
        return error_after(done) if done else np.nan

    make, empty = GRAMMARS[grammar]
    task = unmasked_task(make(), corpus.words(pair), empty)
    return PrunedPair(
        grammar, pair, n * m, edges, float(np.array(work[:half])[made].mean()), exact_seconds,
        float(np.array(seconds[:half])[made].mean()), start_seconds + sum(seconds[:half]), int(made.sum()), half,
        float(((steps[0].features - exact) ** 2).sum()), error_after(half),
        np.array([error(share) for share in _BUDGETS]),
        np.array([(spent[done - 1], error_after(done)) for done in np.minimum(_COUNTS, len(steps)).tolist()]),
        np.array([(share, kept, error(share)) for share, kept in _tictactoe(corpus, pair, task, exact, edges)]),
    )  # fmt: skip


@njit_allocating
def exclude_bispans(pair_graph: PairGraph, kept: NDArray[np.bool_]) -> int:
    """Set the weights of edges over excluded bispans to 0. Returns the number of remaining edges.

    `kept` bool[spans, (m+1)²] has the layout of `figures_of_merit`. A bispan without edges is also excluded.
    """
    graph, bispan = pair_graph.graph, pair_graph.bispan
    words = bispan[len(bispan) - 1, 3]
    has_edges = np.zeros(len(bispan), np.bool_)
    number = 0
    for item in range(len(bispan)):
        i, j, x, y = bispan[item]
        for edge in range(graph.first[item], graph.first[item + 1]):
            remains = kept[span_index(i, j), x * (words + 1) + y]
            for tail in range(graph.tail_first[edge], graph.tail_first[edge + 1]):
                remains = remains and has_edges[graph.tails[tail]]
            if remains:
                has_edges[item] = True
                number += 1
            else:
                graph.weight[edge] = 0.0
    return number


def _tictactoe(
    corpus: LinkedCorpus, pair: int, task: PairTask, exact: NDArray[np.float64], edges: int
) -> NDArray[np.float64]:
    """Return the share of the whole work, and the error, at each ratio, float64[ratios, 2]."""
    merit = figures_of_merit(*corpus.model1_probabilities(pair))
    whole = PairBuilder(MAX_EDGES).build(task)
    points = []
    for ratio in _RATIOS:
        graph = whole.graph._replace(weight=whole.graph.weight.copy())
        pair_graph = whole._replace(graph=graph)
        kept_edges = exclude_bispans(pair_graph, kept_bispans(merit, ratio))
        features = np.zeros(len(exact))
        if total_weight(pair_graph.graph) > 0:
            expected = inside_outside(pair_graph.graph).expected
            words = expected_emissions(pair_graph, expected, task)
            uses = np.bincount(pair_graph.graph.rule[: pair_graph.graph.edges], expected, len(task.rules.weight))
            features = np.concatenate([words.links.ravel(), words.source_nulls, words.target_nulls, uses])
        points.append((kept_edges / edges, float(((features - exact) ** 2).sum())))
    return np.array(points)


def chosen_pairs(corpus: LinkedCorpus, number: int, seed: int) -> Iterator[int]:
    """Yield up to `number` random pairs with at least two links from each of four equal size ranges."""
    sizes, linked = corpus.sizes(), corpus.linked()
    random = np.random.default_rng(seed)
    for part in range(4):
        inside = np.flatnonzero(linked & (sizes > part * LARGEST / 4) & (sizes <= (part + 1) * LARGEST / 4))
        yield from random.permutation(inside)[:number].tolist()


class Saving(NamedTuple):
    """Mean results of pairs of similar size."""

    size: int
    pairs: int
    exact_edges: float
    mask_edges: float
    # Median ratio of whole-chart edges to mask edges.
    median: float
    mask_seconds: float
    # Mean share of the shorter side's words that have a variable.
    linked: float


def measure_savings(corpus: LinkedCorpus, grammar: str, size: int, pairs: int, seed: int) -> Saving:
    """Measure three masks for each of up to `pairs` random pairs of about this size."""
    near = np.abs(corpus.sizes() - size) <= _NEAR * size
    chosen = np.random.default_rng(seed).permutation(np.flatnonzero(near & corpus.linked()))[:pairs].tolist()
    exact, masks, seconds, share = [], [], 0.0, 0.0
    for pair in chosen:
        chart = corpus.chart(grammar, pair)
        exact.append(itg_edges(*corpus.size(pair)) if grammar == "itg" else build_whole(chart).edges)
        kernel = SingleChain(chart, pair)
        state = kernel.init(seed)
        started, charts = time.process_time(), len(chart.edges_built)
        for plan in (1, 2, 3):
            state, _ = kernel.step(seed, state, plan)
        seconds += (time.process_time() - started) / 3
        masks.append(sum(chart.edges_built[charts:]) / 3)
        share += len(corpus.links[pair]) / min(corpus.size(pair))
    number = max(1, len(chosen))
    exact_edges, mask_edges = np.array(exact, np.float64), np.array(masks)
    median = float(np.median(exact_edges / mask_edges)) if len(chosen) else 0.0
    edges = exact_edges.sum() / number, mask_edges.sum() / number
    return Saving(size, len(chosen), *edges, median, seconds / number, share / number)


def slope(size: NDArray[np.float64], error: NDArray[np.float64]) -> tuple[float, float]:
    """Return the increase of the error per 100 word pairs by least squares, and its robust standard error."""
    centered = size - size.mean()
    gradient = float((centered * error).sum() / (centered**2).sum())
    residuals = error - error.mean() - gradient * centered
    return 100 * gradient, 100 * float(np.sqrt(((centered * residuals) ** 2).sum())) / float((centered**2).sum())


def by_work(rows: Sequence[PrunedPair]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the points of Figure 4 d: share of the work of all whole charts, and mean error.

    The first array, float64[counts, 2], is by number of masks per pair. The second, float64[ratios, 2], is by ratio of
    tic-tac-toe pruning.
    """
    edges = np.array([row.exact_edges for row in rows], np.float64)
    masks = np.array([row.by_count for row in rows])
    cut = np.array([row.tictactoe[:, :2] for row in rows])
    masks[:, :, 0] /= edges.mean()
    cut[:, :, 0] *= edges[:, None] / edges.mean()
    return masks.mean(axis=0), cut.mean(axis=0)


def draw(rows: Sequence[PrunedPair], path: Path) -> None:
    """Draw Figure 4 as PNG: (a) seconds, (b) ratio of work, (c) errors by size, (d) errors by work."""
    with save_figure(path, 2, 2, size=(10, 8)) as axes:
        for grammar in GRAMMARS:
            grammar_rows = [row for row in rows if row.grammar == grammar]
            if not grammar_rows:
                continue
            size = np.array([row.size for row in grammar_rows])
            axes[0, 0].semilogy(
                size, [1e3 * row.exact_seconds for row in grammar_rows], ".", label=f"{grammar}: whole chart"
            )
            axes[0, 0].semilogy(
                size, [1e3 * row.mask_seconds for row in grammar_rows], "x", label=f"{grammar}: one mask"
            )
            axes[0, 1].semilogy(size, [row.exact_edges / row.mask_edges for row in grammar_rows], ".", label=grammar)
            part = np.minimum((size - 1) * 4 // LARGEST, 3)
            middle = [(k + 0.5) * LARGEST / 4 for k in range(4) if (part == k).any()]
            for name, marker in (("one", "x--"), ("half", "o-")):
                means = [np.mean([getattr(row, name) for row, p in zip(grammar_rows, part, strict=True) if p == k])
                         for k in range(4) if (part == k).any()]  # fmt: skip
                axes[1, 0].plot(
                    middle, means, marker, label=f"{grammar}: {'one mask' if name == 'one' else 'half the work'}"
                )
            masks, cut = by_work(grammar_rows)
            axes[1, 1].loglog(masks[:, 0], masks[:, 1], "o-", label=f"{grammar}: masks")
            axes[1, 1].loglog(cut[:, 0], cut[:, 1], "x--", label=f"{grammar}: tic-tac-toe")
        titles = ("a: milliseconds", "b: edges, whole chart over one mask", "c: squared error", "d: squared error")
        for axis, title, below in zip(axes.flat, titles, (*["word pairs"] * 3, "share of the whole work"), strict=True):
            axis.set_title(title)
            axis.set_xlabel(below)
            axis.legend(fontsize=7)


def _print_tables(grammar: str, grammar_rows: Sequence[PrunedPair]) -> None:
    print(
        grammar, "mean word pairs", "exact/mask edges", "median exact/mask edges", "exact/mask seconds", "charts",
        "masks", "half/exact seconds", "error of one mask", "error at half the work", sep="\t",
    )  # fmt: skip
    for k in range(4):
        part = [row for row in grammar_rows if k * LARGEST / 4 < row.size <= (k + 1) * LARGEST / 4]
        if part:
            edges = sum(row.exact_edges for row in part) / sum(row.mask_edges for row in part)
            median = np.median([row.exact_edges / row.mask_edges for row in part])
            seconds = sum(row.exact_seconds for row in part) / sum(row.mask_seconds for row in part)
            errors = [np.mean([getattr(row, name) for row in part]) for name in ("one", "half")]
            size = np.mean([row.size for row in part])
            numbers = (
                f"{size:.0f}", f"{edges:.0f}", f"{median:.0f}", f"{seconds:.1f}",
                f"{np.mean([row.charts for row in part]):.0f}", f"{np.mean([row.masks for row in part]):.0f}",
                f"{sum(row.half_seconds for row in part) / sum(row.exact_seconds for row in part):.2f}",
                *(f"{e:.4f}" for e in errors),
            )  # fmt: skip
            print("", *numbers, sep="\t")
    sizes, one, half = (
        np.array([getattr(row, field) for row in grammar_rows], np.float64) for field in ("size", "one", "half")
    )
    within = np.array([row.by_budget[-1] for row in grammar_rows])
    within = np.where(np.isnan(within), one, within)
    for name, series in (("one mask", one), ("half the work", half), ("masks within half the work", within)):
        gradient, deviation = slope(sizes, series)
        print("", f"increase of the error of {name} per 100 word pairs", f"{gradient:.3f} ± {deviation:.3f}", sep="\t")
    masks, cut = by_work(grammar_rows)
    print("", "all pairs: share of work", "error of tic-tac-toe", "error of masks", "number of masks", sep="\t")
    for share, error in cut:
        if number := int((masks[:, 0] <= share).sum()):
            print("", f"{share:.4f}", f"{error:.4f}", f"{masks[number - 1, 1]:.4f}", _COUNTS[number - 1], sep="\t")
    print("", "masks per pair", "share of work", "error of masks", sep="\t")
    for number, (share, error) in zip(_COUNTS, masks, strict=True):
        print("", number, f"{share:.4f}", f"{error:.4f}", sep="\t")
    by_budget = np.array([row.by_budget for row in grammar_rows])
    print("", "each pair: share of work", "error of masks", "pairs with a mask", sep="\t")
    for share, errors in zip(_BUDGETS, by_budget.T, strict=True):
        finite_errors = errors[~np.isnan(errors)]
        mean = f"{finite_errors.mean():.4f}" if len(finite_errors) else ""
        print("", f"{share:.4f}", mean, len(finite_errors), sep="\t")
    tictactoe = "error of tic-tac-toe", "error of tic-tac-toe for pairs with a mask"
    print("", "each pair: share of work", *tictactoe, "error of masks", "pairs with a mask", sep="\t")
    for ratio in np.array([row.tictactoe for row in grammar_rows]).transpose(1, 0, 2):
        finite_ratios = ratio[~np.isnan(ratio[:, 2])]
        means = [*ratio[:, :2].mean(axis=0), *(finite_ratios[:, 1:].mean(axis=0) if len(finite_ratios) else ())]
        cells = [f"{mean:.4f}" for mean in means] + ([] if len(finite_ratios) else ["", ""])
        print("", *cells, len(finite_ratios), sep="\t")


def main(
    source: SourceFile,
    target: TargetFile,
    links: LinksFile,
    pairs: Annotated[int, typer.Option(min=1, help="Maximum number of pairs in each of four size ranges.")] = 25,
    grammars: Annotated[
        str, typer.Option(help="Grammars whose masks are compared with whole charts, separated by commas.")
    ] = "itg,mixed",
    near: Annotated[
        str,
        typer.Option(
            help="Pair sizes (source words × target words) at which to print the savings of ITG masks, separated by "
            "commas."
        ),
    ] = "121,400,900",
    uniform: Annotated[bool, typer.Option(help="Select links uniformly and use plain means, as in the paper.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the selected pairs and of the masks.")] = 1,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="PNG file; a table is written next to it.")
    ] = Path("pruning.png"),
) -> None:
    """Measure masks and tic-tac-toe pruning, print tables, and draw Figure 4."""
    corpus = read_corpus(source, target, links)
    chosen = list(chosen_pairs(corpus, pairs, seed))
    named = [grammar for grammar in grammars.split(",") if grammar]
    sizes = [("itg", int(size)) for size in near.split(",") if size]
    sizes += [(grammar, LARGEST) for grammar in named if grammar != "itg"]
    columns = ("grammar", "word pairs", "pairs", "exact edges", "mask edges", "exact/mask edges")
    print(*columns, "median exact/mask edges", "ms per mask", "linked words", sep="\t")
    for grammar, size in sizes:
        savings = measure_savings(corpus, grammar, size, 2 * pairs if grammar == "itg" else pairs, seed)
        if savings.pairs:
            ratio = savings.exact_edges / savings.mask_edges
            edges = f"{savings.exact_edges:.0f}", f"{savings.mask_edges:.0f}", f"{ratio:.0f}"
            rest = f"{savings.median:.0f}", f"{1e3 * savings.mask_seconds:.2f}", f"{savings.linked:.2f}"
            print(grammar, size, savings.pairs, *edges, *rest, sep="\t", flush=True)
    rows = []
    tasks = [(grammar, pair) for grammar in named for pair in chosen]
    with progress("measure", "pairs") as bar:
        for grammar, pair in tasks:
            rows.append(measure(corpus, grammar, pair, seed, uniform))
            bar.update(len(rows), len(tasks), len(rows))
    write_table(output.with_suffix(".tsv"), COLUMNS, (row[: len(COLUMNS)] for row in rows), "\t")
    draw(rows, output)
    for grammar in named:
        _print_tables(grammar, [row for row in rows if row.grammar == grammar])


if __name__ == "__main__":
    typer.run(main)
