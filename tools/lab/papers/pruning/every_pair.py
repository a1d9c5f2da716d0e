"""Measure one pass of randomized pruning: one mask of every pair of a corpus [BPK09 §4].

    hierogram align corpus.zh corpus.en --symmetrize union --score -o links
    python -m hierogram.tools.lab.papers.pruning.every_pair corpus.zh corpus.en links -o pass.json

Draws a first derivation of each pair below 1,000 word pairs, builds and scores one mask, and draws from the mask.
Seconds are processor time. The time of reading and Model 1 is reported separately. The same command continues an
interrupted run.
"""

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from hierogram.daemon.progress import progress
from hierogram.tools.lab.measures.results import ResultCache
from hierogram.tools.lab.papers.pruning.pairs import LinkedCorpus, LinksFile, SourceFile, TargetFile, read_corpus
from hierogram.tools.lab.papers.pruning.single_chain import SingleChain

_MAX_SIZE = 1_000
"""Only pairs with fewer word pairs are measured, as in the paper."""
_PAIRS_PER_RESULT = 1_000
"""Number of pairs per cached result."""


def sample(corpus: LinkedCorpus, pair: int, seed: int) -> tuple[int, int, float]:
    """Draw a derivation and a mask of a pair. Returns word pairs, edges of the mask, processor seconds."""
    started = time.process_time()
    chart = corpus.chart("itg", pair)
    kernel = SingleChain(chart, pair)
    state = kernel.init(seed)
    kernel.step(seed, state, 1)
    return int(np.prod(corpus.size(pair))), chart.edges_built[-1], time.process_time() - started


def main(
    source: SourceFile,
    target: TargetFile,
    links: LinksFile,
    every: Annotated[int, typer.Option(min=1, help="Measure every N-th pair.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the samples.")] = 1,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="JSON file of results.")] = Path(
        "pass.json"
    ),
) -> None:
    """Measure one mask of every pair, and print the totals."""
    started = time.process_time()
    corpus = read_corpus(source, target, links)
    reading = time.process_time() - started
    sizes = corpus.sizes()
    pairs = np.flatnonzero((sizes > 0) & (sizes < _MAX_SIZE))[::every].tolist()
    cache, rows = ResultCache(output), list[tuple[int, int, float]]()
    # Compile or load the kernels now, so that the measured times exclude compilation.
    for pair in pairs[:2]:
        sample(corpus, pair, seed)
    with progress("sample", "pairs") as bar:
        for chunk in (pairs[first : first + _PAIRS_PER_RESULT] for first in range(0, len(pairs), _PAIRS_PER_RESULT)):
            name = f"seed {seed}, {len(chunk)} pairs from {chunk[0]} to {chunk[-1]}"

            def make(pairs: list[int] = chunk) -> list[tuple[int, int, float]]:
                return [sample(corpus, pair, seed) for pair in pairs]

            rows += cache.get_or_make(name, make)
            bar.update(len(rows), len(pairs), len(rows))
    word_pairs, edges, seconds = np.array(rows, np.float64).reshape(-1, 3).T
    columns = ["pairs", "mean word pairs", "mean mask edges", "CPU seconds", "mean ms per pair", "median ms per pair"]
    print(*columns, "longest pair, s", "reading, s", sep="\t")
    totals = f"{word_pairs.mean():.0f}", f"{edges.mean():.0f}", f"{seconds.sum():.1f}", f"{1e3 * seconds.mean():.2f}"
    print(len(rows), *totals, f"{1e3 * np.median(seconds):.2f}", f"{seconds.max():.2f}", f"{reading:.1f}", sep="\t")


if __name__ == "__main__":
    typer.run(main)
