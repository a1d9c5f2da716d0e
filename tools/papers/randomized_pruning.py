"""Draws Figure 4 of [BPK09]: what one mask costs beside the whole chart, and how far averages over masks are off.

    hierogram align corpus.zh corpus.en --symmetrize intersect -o links
    python -m hierogram.tools.papers.randomized_pruning corpus.zh corpus.en links -o pruning.png

Pairs of up to 130 word pairs are drawn, as many from each fourth of that range. Features are the expected emissions of
words, together and alone, and the expected uses of rules; the error is Σ (E - Ẽ)², averaged over pairs. Work is the
edges of charts, the same on every machine; seconds of processor time are told beside it. Weights of emissions are those
of Model 1, both ways; the variables are the given links, one-to-one.
"""

import csv
import time
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.daemon.alignment.evaluation import read_links
from hierogram.daemon.alignment.files import read_sentences
from hierogram.samplers.charts.bitexts import Builder, expected_emissions
from hierogram.samplers.charts.hypergraph import score, total_of
from hierogram.samplers.charts.pairs import ANY, Mask, Rules, Task, Words, make_rules
from hierogram.samplers.charts.pruning.chain import PruningKernel
from hierogram.samplers.charts.pruning.systems import PairSystem
from hierogram.samplers.charts.pruning.tictactoe import figures_of_merit, kept_bispans
from hierogram.samplers.itg.batch import ItgBatch, make_batch
from hierogram.samplers.itg.model1 import Model1, train_model1

LARGEST = 130
"""Word pairs of the largest pairs whose chart is also filled as a whole, as in the paper."""
_X1, _X2, _X3 = -1, -2, -3
_RATIOS = (0.0, 1.0, 2.0, 4.0, 6.0, 9.0, 13.0, 20.0)
"""Natural logs of the ratios at which tic-tac-toe pruning cuts."""
_BUDGETS = 2.0 ** -np.arange(10, 0, -1)
"""Shares of the whole chart's edges."""
_MOST_MASKS = 400

COLUMNS = (
    "grammar", "pair", "size", "exact edges", "mask edges", "exact seconds", "mask seconds", "one mask", "half the work"
)  # fmt: skip


class Row(NamedTuple):
    """A pair: edges and seconds of the whole chart and of one mask; errors of one mask and at half the whole work; the
    errors by budget (NaN where one mask is more), and work and error of tic-tac-toe pruning."""

    grammar: str
    pair: int
    size: int
    exact_edges: int
    mask_edges: float
    exact_seconds: float
    mask_seconds: float
    one: float
    half: float
    by_budget: NDArray[np.float64]
    tictactoe: NDArray[np.float64]


def itg_rules() -> Rules:
    """An ITG: words together and alone, two nonterminals straight and inverted."""
    sides = [([ANY], [ANY]), ([ANY], []), ([], [ANY]), ([_X1, _X2], [_X1, _X2]), ([_X1, _X2], [_X2, _X1])]
    return make_rules(sides, np.array([1, 1, 1, 0.4, 0.1]), empty_sides=True)


def mixed_rules() -> Rules:
    """Up to three nonterminals, straight or inverted, perhaps with a pair of words somewhere between them."""
    sides: list[tuple[list[int], list[int]]] = [([ANY], [ANY])]
    sides += [([ANY, _X1], [_X1]), ([_X1, ANY], [_X1]), ([_X1], [ANY, _X1]), ([_X1], [_X1, ANY])]
    for symbols in ([_X1], [_X1, _X2], [_X1, _X2, _X3]):
        for order in (symbols, symbols[::-1])[: len(symbols)]:
            if len(symbols) > 1:
                sides.append((symbols, order))
            for k in range(len(symbols) + 1):
                at = k if order is symbols else len(symbols) - k
                sides.append(([*symbols[:k], ANY, *symbols[k:]], [*order[:at], ANY, *order[at:]]))
    return make_rules(sides, np.array([1.0] + [0.1] * (len(sides) - 1)), empty_sides=False)


GRAMMARS = {"itg": (itg_rules, True), "mixed": (mixed_rules, False)}


class Corpus(NamedTuple):
    """Pairs with their Model 1 and one-to-one links."""

    batch: ItgBatch
    model1: Model1
    links: list[NDArray[np.int32]]

    def size(self, pair: int) -> tuple[int, int]:
        """Words of both sides."""
        batch = self.batch
        return (
            int(batch.source_offset[pair + 1] - batch.source_offset[pair]),
            int(batch.target_offset[pair + 1] - batch.target_offset[pair]),
        )

    def given(self, pair: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """P(e_x | f_i) float64[n+1, m] and P(f_i | e_x) float64[n, m+1], the empty word last."""
        n, m = self.size(pair)
        batch, model = self.batch, self.model1
        types = batch.types[batch.cell_offset[pair] : batch.cell_offset[pair + 1]].reshape(n, m)
        source = batch.source[batch.source_offset[pair] : batch.source_offset[pair + 1]]
        target = batch.target[batch.target_offset[pair] : batch.target_offset[pair + 1]]
        return (
            np.vstack([model.target[types], model.null_target[target]]),
            np.column_stack([model.source[types], model.null_source[source]]),
        )

    def words(self, pair: int) -> Words:
        """The pair with emissions [P(e|f) P(f|e)]^½, words alone from the empty word; scaled."""
        target, source = self.given(pair)
        pairs = np.sqrt(target[:-1] * source[:, :-1])
        alone, others = np.sqrt(source[:, -1]) * 0.1, np.sqrt(target[-1]) * 0.1
        return Words(
            np.zeros(len(alone), np.int32),
            np.zeros(len(others), np.int32),
            pairs,
            alone,
            others,
            2 / np.sqrt(np.maximum(pairs.max(axis=1), alone**2)),
            2 / np.sqrt(np.maximum(pairs.max(axis=0), others**2)),
        )


def _read_side(name: str) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    numbers: dict[str, int] = {}
    lines = [[numbers.setdefault(word, len(numbers)) for word in line.split()] for line in read_sentences(name)]
    words = np.array([word for line in lines for word in line], np.int32)
    return words, np.cumsum([0, *map(len, lines)], dtype=np.int64)


def read_corpus(source: str, target: str, links: str) -> Corpus:
    """Reads pairs and their links; of links that share a word the first is kept."""
    batch = make_batch(*_read_side(source), *_read_side(target))
    kept = []
    for line in read_links(links):
        chosen: list[tuple[int, int]] = []
        for i, x in sorted(line):
            if all(i != a and x != b for a, b in chosen):
                chosen.append((i, x))
        kept.append(np.array(chosen, np.int32).reshape(-1, 2))
    return Corpus(batch, train_model1(batch), kept)


def measure(corpus: Corpus, grammar: str, pair: int, seed: int) -> Row:
    """A pair of up to `LARGEST` word pairs, by the whole chart, by masks, and by tic-tac-toe pruning."""
    make, empty = GRAMMARS[grammar]
    rules, words = make(), corpus.words(pair)
    n, m = corpus.size(pair)
    system = PairSystem(rules, words, corpus.links[pair], empty)
    nothing = np.zeros(system.variables, np.bool_)
    system.build(nothing, nothing)
    begun = time.process_time()
    graph = system.build(nothing, nothing)
    scores = score(graph)
    exact_seconds = time.process_time() - begun
    exact, edges = system.features(scores.expected), graph.edges
    kernel = PruningKernel(system, pair)
    state = kernel.init(seed)
    features: list[NDArray[np.float64]] = []
    work: list[int] = []
    begun = time.process_time()
    while sum(work) < edges / 2 and len(work) < _MOST_MASKS:
        state, pruned = kernel.step(seed, state, len(work) + 1)
        features.append(pruned.features)
        work.append(pruned.edges)
    mask_seconds = (time.process_time() - begun) / len(work)
    means = np.cumsum(features, axis=0) / np.arange(1, len(work) + 1)[:, None]
    errors = ((means - exact) ** 2).sum(axis=1)
    spent = np.array(list(accumulate(work)))
    done = np.searchsorted(spent, _BUDGETS * edges, side="right") - 1
    return Row(
        grammar, pair, n * m, edges, float(np.mean(work)), exact_seconds, mask_seconds, float(errors[0]),
        float(errors[-1]), np.where(done >= 0, errors[done], np.nan), _tictactoe(corpus, pair, Task(
            rules, words, Mask(np.zeros((n, m), np.int8), np.zeros((0, 0), np.bool_)), empty
        ), exact, edges),
    )  # fmt: skip


def _tictactoe(corpus: Corpus, pair: int, task: Task, exact: NDArray[np.float64], edges: int) -> NDArray[np.float64]:
    """Share of the whole work, and error, at each ratio, float64[ratios, 2]; without a derivation, of no features."""
    merit = figures_of_merit(*corpus.given(pair))
    builder = Builder()
    found = []
    for ratio in _RATIOS:
        some = task._replace(mask=task.mask._replace(kept=kept_bispans(merit, ratio)))
        bitext = builder.build(some)
        features = np.zeros(len(exact))
        if total_of(bitext.graph) > 0:
            expected = score(bitext.graph).expected
            words = expected_emissions(bitext, expected, some)
            uses = np.bincount(bitext.graph.rule[: bitext.graph.edges], expected, len(task.rules.weight))
            features = np.concatenate([words.links.ravel(), words.source_nulls, words.target_nulls, uses])
        found.append((bitext.graph.edges / edges, ((features - exact) ** 2).sum()))
    return np.array(found)


def chosen_pairs(corpus: Corpus, number: int, seed: int) -> Iterator[int]:
    """So many pairs of each fourth of the range of sizes, with two links at least."""
    sizes = np.array([np.prod(corpus.size(pair)) for pair in range(corpus.batch.size)])
    linked = np.array([len(links) > 1 for links in corpus.links])
    random = np.random.default_rng(seed)
    for part in range(4):
        inside = np.flatnonzero(linked & (sizes > part * LARGEST / 4) & (sizes <= (part + 1) * LARGEST / 4))
        yield from random.permutation(inside)[:number].tolist()


def draw(rows: Sequence[Row], path: Path) -> None:
    """The figure: a, seconds; b, ratio of work; c, errors by size; d, errors by work."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(10, 8))
    for grammar in GRAMMARS:
        own = [row for row in rows if row.grammar == grammar]
        if not own:
            continue
        size = np.array([row.size for row in own])
        axes[0, 0].semilogy(size, [1e3 * row.exact_seconds for row in own], ".", label=f"{grammar}: whole chart")
        axes[0, 0].semilogy(size, [1e3 * row.mask_seconds for row in own], "x", label=f"{grammar}: one mask")
        axes[0, 1].semilogy(size, [row.exact_edges / row.mask_edges for row in own], ".", label=grammar)
        part = np.minimum((size - 1) * 4 // LARGEST, 3)
        middle = [(k + 0.5) * LARGEST / 4 for k in range(4) if (part == k).any()]
        for name, marker in (("one", "x--"), ("half", "o-")):
            means = [np.mean([getattr(row, name) for row, p in zip(own, part, strict=True) if p == k])
                     for k in range(4) if (part == k).any()]  # fmt: skip
            axes[1, 0].plot(
                middle, means, marker, label=f"{grammar}: {'one mask' if name == 'one' else 'half the work'}"
            )
        seen = np.array([row.by_budget for row in own])
        whole = ~np.isnan(seen).any(axis=0)
        axes[1, 1].loglog(_BUDGETS[whole], seen[:, whole].mean(axis=0), "o-", label=f"{grammar}: masks")
        cut = np.mean([row.tictactoe for row in own], axis=0)
        axes[1, 1].loglog(cut[:, 0], cut[:, 1], "x--", label=f"{grammar}: tic-tac-toe")
    titles = ("a: milliseconds", "b: edges, whole chart over one mask", "c: squared error", "d: squared error")
    for axis, title, below in zip(axes.flat, titles, (*["word pairs"] * 3, "share of the whole work"), strict=True):
        axis.set_title(title)
        axis.set_xlabel(below)
        axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main(
    source: Annotated[str, typer.Argument(metavar="SRC", help="Source sentences, one a line.")],
    target: Annotated[str, typer.Argument(metavar="TGT", help="Their translations, line for line.")],
    links: Annotated[str, typer.Argument(metavar="LINKS", help="Their links in both directions, Pharaoh lines.")],
    pairs: Annotated[int, typer.Option(min=1, help="Pairs of each fourth of the sizes.")] = 25,
    seed: Annotated[int, typer.Option(help="Seed.")] = 1,
    table: Annotated[Path, typer.Option(metavar="FILE", help="Table to write.")] = Path("pruning.tsv"),
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Figure.")] = Path("pruning.png"),
) -> None:
    """Measures and draws."""
    corpus = read_corpus(source, target, links)
    rows = []
    for pair in chosen_pairs(corpus, pairs, seed):
        for grammar in GRAMMARS:
            rows.append(measure(corpus, grammar, pair, seed))
    with table.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow(COLUMNS)
        writer.writerows(row[:9] for row in rows)
    draw(rows, output)
    for grammar in GRAMMARS:
        own = [row for row in rows if row.grammar == grammar]
        print(grammar, "size", "exact/mask edges", "exact/mask seconds", "one mask", "half the work", sep="\t")
        for k in range(4):
            part = [row for row in own if k * LARGEST / 4 < row.size <= (k + 1) * LARGEST / 4]
            if part:
                edges = sum(row.exact_edges for row in part) / sum(row.mask_edges for row in part)
                seconds = sum(row.exact_seconds for row in part) / sum(row.mask_seconds for row in part)
                errors = [np.mean([getattr(row, name) for row in part]) for name in ("one", "half")]
                size = np.mean([row.size for row in part])
                print("", f"{size:.0f}", f"{edges:.0f}", f"{seconds:.1f}", *(f"{e:.4f}" for e in errors), sep="\t")
        seen = np.array([row.by_budget for row in own])
        print("", "share of work", "masks", sep="\t")
        for share, errors in zip(_BUDGETS, seen.T, strict=True):
            told = errors[~np.isnan(errors)]
            print("", f"{share:.4f}", f"{told.mean():.4f}" if len(told) else "", f"{len(told)} pairs", sep="\t")
        print("", "share of work", "tic-tac-toe", sep="\t")
        for share, error in np.mean([row.tictactoe for row in own], axis=0):
            print("", f"{share:.4f}", f"{error:.4f}", sep="\t")


if __name__ == "__main__":
    typer.run(main)
