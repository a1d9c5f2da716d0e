"""Figures 5 and 6 of [CFGŠ14], and two comparisons of its §5: stratified sampling, and the two processes.

python -m hierogram.tools.papers.sampling figure-5 corpus.zh corpus.en align.gdfa
python -m hierogram.tools.papers.sampling figure-6 corpus.zh corpus.en align.gdfa
python -m hierogram.tools.papers.sampling stratified corpus.zh corpus.en align.gdfa
python -m hierogram.tools.papers.sampling processes corpus.zh corpus.en align.gdfa

As in the paper, pairs are sampled one after the other, without blocks, and curves are means over five runs. The clock
runs while pairs are sampled, not while kernels are compiled.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from hierogram.daemon.learning.kinds.trials import TrialOptions
from hierogram.samplers.grammar.schedules import Schedule
from hierogram.samplers.grammar.settings import DIRICHLET, PITMAN_YOR
from hierogram.samplers.synchronous.sweeps import METROPOLIS
from hierogram.tools.measures.results import Corpus
from hierogram.tools.papers.curves import Point, Way, curves_of, draw, read_batch, run, write_table

_EXACT = TrialOptions(exact=True)
_EVERY = Schedule(0, 0)
_STRENGTH = 100.0
"""α of the paper's experiments on convergence [CFGŠ14 §4.3]."""

FIGURE_5 = (
    Way("top-down", _EVERY, DIRICHLET, _STRENGTH, _EXACT),
    Way("Metropolis-Hastings", _EVERY, DIRICHLET, _STRENGTH, replace(_EXACT, method=METROPOLIS)),
)
FIGURE_6 = (
    Way("with density factor", _EVERY, DIRICHLET, _STRENGTH, _EXACT),
    Way("without density factor", _EVERY, DIRICHLET, _STRENGTH, replace(_EXACT, density=False)),
)
STRATIFIED = (
    Way("stratified", Schedule(), how=_EXACT),
    Way("every level from the first sweep", _EVERY, how=_EXACT),
)
PROCESSES = (
    Way("Pitman-Yor, by length", Schedule(), PITMAN_YOR, 5.0, _EXACT),
    Way("Dirichlet, α = 100", Schedule(), DIRICHLET, _STRENGTH, _EXACT),
)

app = typer.Typer(help=__doc__, add_completion=False, pretty_exceptions_enable=False)

Source = Annotated[Path, typer.Argument(exists=True, dir_okay=False)]
Pairs = Annotated[int | None, typer.Option(min=1, help="Only the first so many pairs.")]
Sweeps = Annotated[int, typer.Option(min=2, help="Sweeps of each run.")]
Runs = Annotated[int, typer.Option(min=1, help="Runs that are averaged.")]
Output = Annotated[Path | None, typer.Option(help="PNG to write; the table of all points is beside it.")]


def report(points: Sequence[Point]) -> str:
    """Where each way stands at the beginning, after ten sweeps and at the end: means over the runs."""
    rows = []
    for label, curve in curves_of(points).items():
        middle = curve.mean(axis=0)
        early = min(10, len(middle) - 1)
        deviation = curve[:, -1, 1].std(ddof=1) if len(curve) > 1 else np.nan
        rows.append(
            f"{label}: {middle[0, 1]:,.0f}, {middle[early, 1]:,.0f} after {early} sweeps, {middle[-1, 1]:,.0f} "
            f"(deviation {deviation:,.0f}) after {len(middle) - 1} in {middle[-1, 0]:.1f} s"
        )
    return "\n".join(rows)


def _make(ways: Sequence[Way], corpus: Corpus, sweeps: int, runs: int, path: Path, first_sweep: int = 0) -> None:
    batch = read_batch(corpus)
    points = list(run(batch, ways, sweeps, range(1, runs + 1)))
    write_table(points, path.with_suffix(".csv"))
    draw(points, path, f"{batch.size:,} pairs, mean of {runs} runs", min(first_sweep, sweeps - 1))
    print(report(points))


@app.command("figure-5")
def figure_5(
    source: Source, target: Source, alignment: Source, pairs: Pairs = None, sweeps: Sweeps = 100, runs: Runs = 5,
    figure: Output = None,
) -> None:  # fmt: skip
    """Top-down sampling beside Metropolis-Hastings, Dirichlet process with α = 100."""
    corpus = Corpus(str(source), str(target), str(alignment), pairs)
    _make(FIGURE_5, corpus, sweeps, runs, figure or Path("figure-5.png"))


@app.command("figure-6")
def figure_6(
    source: Source, target: Source, alignment: Source, pairs: Pairs = None, sweeps: Sweeps = 100, runs: Runs = 5,
    figure: Output = None,
) -> None:  # fmt: skip
    """With and without the density factor; the first ten sweeps are left out."""
    corpus = Corpus(str(source), str(target), str(alignment), pairs)
    _make(FIGURE_6, corpus, sweeps, runs, figure or Path("figure-6.png"), first_sweep=10)


@app.command()
def stratified(
    source: Source, target: Source, alignment: Source, pairs: Pairs = None, sweeps: Sweeps = 100, runs: Runs = 5,
    figure: Output = None,
) -> None:  # fmt: skip
    """Stratified sampling beside every level from the first sweep [CFGŠ14 §5.3]."""
    corpus = Corpus(str(source), str(target), str(alignment), pairs)
    _make(STRATIFIED, corpus, sweeps, runs, figure or Path("stratified.png"))


@app.command()
def processes(
    source: Source, target: Source, alignment: Source, pairs: Pairs = None, sweeps: Sweeps = 100, runs: Runs = 5,
    figure: Output = None,
) -> None:  # fmt: skip
    """The Pitman-Yor process beside the Dirichlet process [CFGŠ14 §5.4.3]; each has a likelihood of its own."""
    corpus = Corpus(str(source), str(target), str(alignment), pairs)
    _make(PROCESSES, corpus, sweeps, runs, figure or Path("processes.png"))


if __name__ == "__main__":
    app()
