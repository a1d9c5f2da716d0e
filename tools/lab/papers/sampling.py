"""Draw Figures 5 and 6 of [CFGŠ14], and compare schedules (§5.3) and processes (§5.4.3).

python -m hierogram.tools.lab.papers.sampling figure-5 corpus.zh corpus.en align.gdfa
python -m hierogram.tools.lab.papers.sampling figure-6 corpus.zh corpus.en align.gdfa
python -m hierogram.tools.lab.papers.sampling stratified corpus.zh corpus.en align.gdfa
python -m hierogram.tools.lab.papers.sampling processes corpus.zh corpus.en align.gdfa

Times do not include the compilation of kernels.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.daemon.cli.common import plural
from hierogram.daemon.learning.kinds.kind import PairSchedule
from hierogram.daemon.learning.kinds.pairs import load_pairs
from hierogram.samplers.counts.models import Model
from hierogram.samplers.forests.derivations import Batch
from hierogram.samplers.grammar.schedules import Schedule
from hierogram.samplers.grammar.settings import DIRICHLET, PITMAN_YOR
from hierogram.samplers.synchronous.sweeps import sweep_pairs
from hierogram.storage.records.pairs import WAITING, PairRow
from hierogram.tools.lab.baselines.metropolis import propose_pairs
from hierogram.tools.lab.measures import results
from hierogram.tools.lab.measures.results import BitextFile, Corpus, save_figure, time_call
from hierogram.tools.lab.measures.sampling import (
    EVERY_NODE,
    SETTINGS,
    StorelessChain,
    StorelessChainOptions,
    build_model_for,
    read_batch,
)

_EXAMPLE = PairRow(1, "a b", "c d", "0-0 1-1", WAITING, 0, 0, None, None)
_DEFAULT = StorelessChainOptions(threads=2)


@dataclass(frozen=True, slots=True)
class SamplerSetup:
    """Setup of a sampler: schedule, model, options and kernel of the chains, and maximum of sweeps.

    Sweeps before `counted_from`, which have a temperature other than 1, do not count as reaching a goal.
    """

    label: str
    schedule: PairSchedule
    model: str = PITMAN_YOR
    strength: float = 5.0
    discount: float = 0.5
    chain_options: StorelessChainOptions = _DEFAULT
    resample: Callable[..., Any] = sweep_pairs
    max_sweeps: int = 1_000_000
    counted_from: int = 0


class Point(NamedTuple):
    """State of a chain after a sweep: processor seconds of sampling so far, and natural log-likelihood."""

    label: str
    seed: int
    sweep: int
    seconds: float
    log_likelihood: float


def run(batch: Batch, setups: Sequence[SamplerSetup], sweeps: int, seeds: Sequence[int]) -> Iterator[Point]:
    """Sample with every setup and seed, and yield the points at the start and after each sweep."""
    models = {setup.label: build_model_for(batch, setup.model, setup.strength, setup.discount) for setup in setups}
    # Compile or load the kernels now, so that the measured times exclude it.
    few = load_pairs([_EXAMPLE], SETTINGS).batch
    for setup in setups:
        for _ in _chain(few, models[setup.label], setup, 1, 2):
            pass
    # Alternate between setups, so that other load on the machine affects all of them equally.
    for seed in seeds:
        for setup in setups:
            end = None
            for end in _chain(batch, models[setup.label], setup, seed, sweeps):
                yield end
            if end is not None:
                result = f"log-likelihood {end.log_likelihood:,.0f} after {end.seconds:.1f} s of processor time"
                print(f"{setup.label}, seed {seed}: {result}", file=sys.stderr, flush=True)


def _chain(batch: Batch, model: Model, setup: SamplerSetup, seed: int, sweeps: int) -> Iterator[Point]:
    chain = StorelessChain(model, batch, setup.schedule, replace(setup.chain_options, seed=seed), setup.resample)
    seconds = 0.0
    yield Point(setup.label, seed, 0, 0.0, chain.log_likelihood())
    for sweep in range(1, min(sweeps, setup.max_sweeps) + 1):
        seconds += time_call(chain.sweep, time.process_time)[0]
        yield Point(setup.label, seed, sweep, seconds, chain.log_likelihood())
    chain.close()


def write_table(points: Sequence[Point], path: Path) -> None:
    """Write a CSV file with one line for each chain and sweep."""
    rows = ([*point[:3], f"{point.seconds:.4f}", f"{point.log_likelihood:.3f}"] for point in points)
    results.write_table(path, Point._fields, rows)


def group_curves(points: Sequence[Point]) -> dict[str, NDArray[np.float64]]:
    """Return curves by label: float64[seeds, sweeps + 1, 2] of (seconds, log-likelihood)."""
    chains: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for point in points:
        chain = chains.setdefault(point.label, {}).setdefault(point.seed, [])
        chain.append((point.seconds, point.log_likelihood))
    return {label: np.array(list(by_seed.values())) for label, by_seed in chains.items()}


class GoalReached(NamedTuple):
    """Mean sweeps and seconds until chains reach a log-likelihood (NaN if none does), and their number."""

    sweeps: float
    seconds: float
    seeds: int


def reached(curve: NDArray[np.float64], goal: float | Sequence[float], counted_from: int = 0) -> GoalReached:
    """Return when chains first reach a common goal or their own. Ignores sweeps before `counted_from`."""
    goals = np.broadcast_to(np.asarray(goal, np.float64), len(curve))
    firsts = []
    for chain, chain_goal in zip(curve, goals, strict=True):
        sweeps_at_goal = np.flatnonzero(chain[counted_from:, 1] >= chain_goal)
        if len(sweeps_at_goal):
            firsts.append((counted_from + int(sweeps_at_goal[0]), chain))
    if not firsts:
        return GoalReached(float("nan"), float("nan"), 0)
    sweeps = [sweep for sweep, _ in firsts]
    return GoalReached(float(np.mean(sweeps)), float(np.mean([chain[k, 0] for k, chain in firsts])), len(firsts))


def draw(points: Sequence[Point], path: Path, title: str, first_sweep: int = 0) -> None:
    """Draw mean and range over the seeds, from a first sweep, against sweeps and seconds, as PNG."""
    with save_figure(path, 1, 2, size=(11, 4.2), sharey=True) as panels:
        for (label, curve), style in zip(group_curves(points).items(), cycle(("-", "--", "-.", ":")), strict=False):
            shown_curve = curve[:, first_sweep:]
            middle, low, high = (
                shown_curve.mean(axis=0),
                shown_curve[:, :, 1].min(axis=0),
                shown_curve[:, :, 1].max(axis=0),
            )
            sweeps = np.arange(first_sweep, first_sweep + len(middle))
            for panel, x_values in zip(panels, (sweeps, middle[:, 0]), strict=True):
                panel.plot(x_values, middle[:, 1], style, label=label)
                panel.fill_between(x_values, low, high, alpha=0.2)
        for panel, label in zip(panels, ("sweeps", "sampling, processor seconds"), strict=True):
            panel.set_xlabel(label)
            panel.grid(alpha=0.3)
        panels[0].set_ylabel("log-likelihood")
        panels[1].legend(loc="lower right")
        panels[0].figure.suptitle(title)


_SEQUENTIAL = StorelessChainOptions(sequential=True)
_WITHOUT_DENSITY = StorelessChainOptions(sequential=True, density=False)
_STRENGTH = 100.0
"""α of the paper's experiments on convergence [CFGŠ14 §4.3]."""

FIGURES = {
    "figure-5": (
        SamplerSetup("top-down", EVERY_NODE, DIRICHLET, _STRENGTH, chain_options=_SEQUENTIAL),
        SamplerSetup(
            "Metropolis-Hastings", EVERY_NODE, DIRICHLET, _STRENGTH, chain_options=_SEQUENTIAL, resample=propose_pairs
        ),
    ),
    "figure-6": (
        SamplerSetup("with density factor", EVERY_NODE, DIRICHLET, _STRENGTH, chain_options=_SEQUENTIAL),
        SamplerSetup("without density factor", EVERY_NODE, DIRICHLET, _STRENGTH, chain_options=_WITHOUT_DENSITY),
    ),
    "stratified": (
        SamplerSetup("stratified", Schedule(), chain_options=_SEQUENTIAL),
        SamplerSetup("every level from the first sweep", EVERY_NODE, chain_options=_SEQUENTIAL),
    ),
    "processes": (
        SamplerSetup("Pitman-Yor, by length", Schedule(), chain_options=_SEQUENTIAL),
        SamplerSetup("Dirichlet, by length (d = 0)", Schedule(), chain_options=_SEQUENTIAL, discount=0.0),
        SamplerSetup("length-free Dirichlet, α = 100", Schedule(), DIRICHLET, _STRENGTH, chain_options=_SEQUENTIAL),
    ),
}
"""Setups of Figures 5 and 6, §5.3, and §5.4.3. Each process of §5.4.3 has its own likelihood."""
_FIRST_SWEEP = {"figure-6": 10}
"""First sweep that a figure shows, unless it is the start."""


def report(points: Sequence[Point]) -> str:
    """Return a line for each setup: mean log-likelihoods at the start, after ten sweeps and at the end."""
    rows = []
    for label, curve in group_curves(points).items():
        middle = curve.mean(axis=0)
        early = min(10, len(middle) - 1)
        deviation = curve[:, -1, 1].std(ddof=1) if len(curve) > 1 else np.nan
        rows.append(
            f"{label}: log-likelihood {middle[0, 1]:,.0f} at the start, {middle[early, 1]:,.0f} after "
            f"{plural(early, 'sweep')}, {middle[-1, 1]:,.0f} (standard deviation {deviation:,.0f}) after "
            f"{plural(len(middle) - 1, 'sweep')} in {middle[-1, 0]:.1f} s of processor time"
        )
    return "\n".join(rows)


def main(
    name: Annotated[str, typer.Argument(metavar="FIGURE", help=f"Figure: {', '.join(FIGURES)}.")],
    source: BitextFile,
    target: BitextFile,
    alignment: BitextFile,
    pairs: Annotated[int | None, typer.Option(min=1, help="Use only the first N pairs.")] = None,
    sweeps: Annotated[int, typer.Option(min=2, help="Number of sweeps of each run.")] = 100,
    runs: Annotated[int, typer.Option(min=1, help="Number of runs to average.")] = 5,
    figure: Annotated[
        Path | None, typer.Option(help="PNG file; the table of all points is written next to it.")
    ] = None,
) -> None:
    """Draw log-likelihood against sweeps and seconds, and print the values of each setup."""
    if name not in FIGURES:
        raise typer.BadParameter(f"unknown figure {name!r}: expected {', '.join(FIGURES)}", param_hint="FIGURE")
    batch = read_batch(Corpus(str(source), str(target), str(alignment), pairs))
    points = list(run(batch, FIGURES[name], sweeps, range(1, runs + 1)))
    path = figure or Path(f"{name}.png")
    write_table(points, path.with_suffix(".csv"))
    draw(points, path, f"{batch.size:,} pairs, mean of {runs} runs", min(_FIRST_SWEEP.get(name, 0), sweeps - 1))
    print(report(points))


if __name__ == "__main__":
    typer.run(main)
