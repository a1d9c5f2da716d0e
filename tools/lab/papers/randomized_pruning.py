"""Draw Figure 4 of [BPK09]: work for a mask relative to the chart, and error of averages over masks.

    hierogram align corpus.zh corpus.en --symmetrize union --score -o links
    python -m hierogram.tools.lab.papers.randomized_pruning corpus.zh corpus.en links -o pruning.png

Masks are compared with tic-tac-toe pruning [Zhang & Gildea 2005]. docs/model.md, section 8, describes both.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
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
    read_corpus,
)
from hierogram.tools.lab.papers.pruning.single_chain import SingleChain

_span_index = cast("Callable[[int, int], int]", span_index)
"""Return the index of span [i, j), as `span_index` does. mypy does not know the types of kernels."""


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
            merit[_span_index(i, j)] = outside[-1] + (inside - outside)[None, :] - (inside - outside)[:, None]
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
    """Return a mask of the whole pair and of bispans within `log_ratio` of their source span's best merit."""
    is_kept = np.asarray(merit >= merit.max(axis=1, keepdims=True) - log_ratio, np.bool_)
    is_kept[_span_index(0, int(np.sqrt(2 * len(merit)) + 0.5) - 1), int(np.sqrt(merit.shape[1]) + 0.5) - 1] = True
    return is_kept


_LOG_RATIOS = (0.0, 1.0, 2.0, 4.0, 6.0, 9.0, 13.0, 20.0, 30.0, 37.0, 45.0, 50.0, 55.0, 60.0)
"""Natural logs of the ratios of tic-tac-toe pruning (see `kept_bispans`)."""
_COUNTS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 192, 256])
"""Numbers of masks per pair at the points of Figure 4 d."""
_MAX_MASKS = 2_000
_MAX_MASKS_WITHOUT_CHART = 100
"""A chain ends after this number of consecutive masks without a new chart."""

COLUMNS = (
    "grammar", "pair", "size", "exact edges", "mask edges", "exact seconds", "mask seconds", "half seconds", "charts",
    "masks", "one mask", "half the work",
)  # fmt: skip


class PrunedPair(NamedTuple):
    """Results of a pair, in the order of `COLUMNS`. Work is measured in edges, and errors are squared."""

    grammar: str
    pair: int
    # Source words times target words.
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
    first_error: float
    half_error: float
    # float64[counts, 2] for each number of masks in `_COUNTS`: work and error.
    by_count: NDArray[np.float64]
    # float64[ratios, 2] for tic-tac-toe pruning at each of `_LOG_RATIOS`: share of the whole work, and error.
    tictactoe: NDArray[np.float64]


def measure(corpus: LinkedCorpus, grammar: str, pair: int, seed: int, uniform: bool = False) -> PrunedPair:
    """Measure a pair of up to `LARGEST` word pairs with the whole chart, masks, and tic-tac-toe pruning."""
    n, m = corpus.size(pair)
    chart = corpus.chart(grammar, pair)
    # Build the whole chart once before measuring, so that its seconds do not include compilation.
    build_whole(chart)
    started = time.process_time()
    graph = build_whole(chart)
    scores = inside_outside(graph)
    exact_seconds = time.process_time() - started
    exact, edges = chart.features(scores.expected), graph.edges
    started = time.process_time()
    kernel = SingleChain(chart, pair, is_uniform=True) if uniform else PruningKernel(chart, pair)
    state = kernel.init(seed)
    # The start also builds charts. Omit the two whole charts.
    start_seconds, start_work = time.process_time() - started, sum(chart.edges_built[2:])
    masks: list[MaskResult] = []
    # Edges of each mask's chart, or 0 if an earlier mask had the same chart, and seconds of each mask.
    work: list[int] = []
    seconds: list[float] = []
    while not work or (
        (start_work + sum(work) < edges / 2 or len(work) < _COUNTS[-1])
        and any(work[-_MAX_MASKS_WITHOUT_CHART:])
        and len(work) < _MAX_MASKS
    ):
        started = time.process_time()
        charts = len(chart.edges_built)
        state, pruned = kernel.step(seed, state, len(work) // kernel.chains + 1)
        seconds += [(time.process_time() - started) / len(pruned)] * len(pruned)
        for mask in pruned:
            # A recurring mask has the same array of derivations, and no new chart.
            is_new = all(mask.drawn is not earlier.drawn for earlier in masks)
            work.append(chart.edges_built[charts] if is_new else 0)
            charts += is_new
            masks.append(mask)
    total_work = start_work + np.cumsum(work)
    # Count whole steps. A step has one mask of each chain.
    steps_to_half = int(np.searchsorted(total_work[kernel.chains - 1 :: kernel.chains], edges / 2)) + 1
    half = min(len(work), steps_to_half * kernel.chains)
    has_chart = np.array(work[:half]) > 0

    @cache
    def error_after(number: int) -> float:
        """Return the error of the mean of the first `number` masks."""
        first = masks[:number]
        mean = np.mean([mask.features for mask in first], axis=0) if uniform else weighted_mean(first)
        return float(((mean - exact) ** 2).sum())

    rules, empty_sides = GRAMMARS[grammar]
    task = unmasked_task(rules, corpus.words(pair), empty_sides)
    return PrunedPair(
        grammar, pair, n * m, edges, float(np.array(work[:half])[has_chart].mean()), exact_seconds,
        float(np.array(seconds[:half])[has_chart].mean()), start_seconds + sum(seconds[:half]), int(has_chart.sum()),
        half, float(((masks[0].features - exact) ** 2).sum()), error_after(half),
        np.array([(total_work[done - 1], error_after(done)) for done in np.minimum(_COUNTS, len(masks)).tolist()]),
        _tictactoe(corpus, pair, task, exact, edges),
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
    for ratio in _LOG_RATIOS:
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


_QUARTERS = 4
"""Number of equal ranges of sizes, from 1 to `LARGEST` word pairs."""


def quarter(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the range of each size, from 0 to 3, or a larger number for a size above `LARGEST`."""
    return np.asarray(-(-sizes * _QUARTERS // LARGEST) - 1, np.int64)


def chosen_pairs(corpus: LinkedCorpus, number: int, seed: int) -> Iterator[int]:
    """Yield up to `number` random pairs with at least two links from each of the four ranges of sizes."""
    sizes, linked = corpus.sizes(), corpus.linked()
    random = np.random.default_rng(seed)
    for k in range(_QUARTERS):
        inside = np.flatnonzero(linked & (quarter(sizes) == k))
        yield from random.permutation(inside)[:number].tolist()


def slope(size: NDArray[np.int64], error: NDArray[np.float64]) -> tuple[float, float]:
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
    cut = np.array([row.tictactoe for row in rows])
    masks[:, :, 0] /= edges.mean()
    cut[:, :, 0] *= edges[:, None] / edges.mean()
    return masks.mean(axis=0), cut.mean(axis=0)


_ERRORS = {"first_error": "one mask", "half_error": "half the work"}
"""Fields of errors, and their names in the figure and the tables."""


def draw(rows: Sequence[PrunedPair], path: Path) -> None:
    """Draw Figure 4 as PNG: (a) seconds, (b) ratio of work, (c) errors by size, (d) errors by work."""
    with save_figure(path, 2, 2, size=(10, 8)) as axes:
        for grammar in GRAMMARS:
            grammar_rows = [row for row in rows if row.grammar == grammar]
            if not grammar_rows:
                continue
            size = np.array([row.size for row in grammar_rows])
            for field, style, label in (("exact_seconds", ".", "whole chart"), ("mask_seconds", "x", "one mask")):
                milliseconds = [1e3 * getattr(row, field) for row in grammar_rows]
                axes[0, 0].semilogy(size, milliseconds, style, label=f"{grammar}: {label}")
            axes[0, 1].semilogy(size, [row.exact_edges / row.mask_edges for row in grammar_rows], ".", label=grammar)
            ranges = np.unique(quarter(size))
            for (field, label), marker in zip(_ERRORS.items(), ("x--", "o-"), strict=True):
                errors = np.array([getattr(row, field) for row in grammar_rows])
                means = [errors[quarter(size) == k].mean() for k in ranges]
                axes[1, 0].plot((ranges + 0.5) * LARGEST / _QUARTERS, means, marker, label=f"{grammar}: {label}")
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
    sizes = np.array([row.size for row in grammar_rows])
    for k in range(_QUARTERS):
        similar = [row for row, its_quarter in zip(grammar_rows, quarter(sizes), strict=True) if its_quarter == k]
        if similar:
            edges = sum(row.exact_edges for row in similar) / sum(row.mask_edges for row in similar)
            median = np.median([row.exact_edges / row.mask_edges for row in similar])
            seconds = sum(row.exact_seconds for row in similar) / sum(row.mask_seconds for row in similar)
            numbers = (
                f"{np.mean([row.size for row in similar]):.0f}", f"{edges:.0f}", f"{median:.0f}", f"{seconds:.1f}",
                f"{np.mean([row.charts for row in similar]):.0f}", f"{np.mean([row.masks for row in similar]):.0f}",
                f"{sum(row.half_seconds for row in similar) / sum(row.exact_seconds for row in similar):.2f}",
                *(f"{np.mean([getattr(row, field) for row in similar]):.4f}" for field in _ERRORS),
            )  # fmt: skip
            print("", *numbers, sep="\t")
    for field, name in _ERRORS.items():
        gradient, deviation = slope(sizes, np.array([getattr(row, field) for row in grammar_rows]))
        print("", f"increase of the error of {name} per 100 word pairs", f"{gradient:.3f} ± {deviation:.3f}", sep="\t")
    masks, cut = by_work(grammar_rows)
    print("", "all pairs: share of work", "error of tic-tac-toe", "error of masks", "number of masks", sep="\t")
    for share, error in cut:
        if number := int((masks[:, 0] <= share).sum()):
            print("", f"{share:.4f}", f"{error:.4f}", f"{masks[number - 1, 1]:.4f}", _COUNTS[number - 1], sep="\t")
    print("", "masks per pair", "share of work", "error of masks", sep="\t")
    for number, (share, error) in zip(_COUNTS, masks, strict=True):
        print("", number, f"{share:.4f}", f"{error:.4f}", sep="\t")


def main(
    source: SourceFile,
    target: TargetFile,
    links: LinksFile,
    pairs: Annotated[int, typer.Option(min=1, help="Maximum number of pairs in each of four size ranges.")] = 25,
    grammars: Annotated[
        str, typer.Option(help="Grammars whose masks are compared with whole charts, separated by commas.")
    ] = "itg,mixed",
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
