"""Compare schedules by their final log-likelihood, and by the sweeps and seconds until a goal.

    python -m hierogram.tools.lab.papers.schedules corpus.zh corpus.en align.gdfa --figure schedules.png

The goal of each seed is the log-likelihood after 100 sweeps with the schedule of [CFGŠ14 §5.3]: ten sweeps for each of
seven levels, then sweeps over all levels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from hierogram.daemon.cli.flags import with_options
from hierogram.samplers.grammar.schedules import Schedule, quick_schedule, stratified_schedule
from hierogram.samplers.grammar.settings import RANDOM
from hierogram.storage.options import Option
from hierogram.tools.lab.measures.results import BitextFile, Corpus, markdown_table
from hierogram.tools.lab.measures.sampling import EVERY_NODE, StorelessChainOptions, read_batch
from hierogram.tools.lab.papers.sampling import Point, SamplerSetup, draw, group_curves, reached, run, write_table

PAPER = "ten sweeps a level, 7 levels"
_PAPER_SWEEPS = 100
_RISING = Schedule(1, 13)
_COOLING = f"T from {quick_schedule().start} to 1 in {quick_schedule().sweeps} sweeps"


def make_setups(threads: int, max_sweeps: int) -> dict[str, SamplerSetup]:
    """Return the setups by name. `max_sweeps` limits the sweeps of all setups except the paper's."""
    cut = StorelessChainOptions(threads=threads)
    random_cuts = replace(cut, start=RANDOM)
    quick = quick_schedule()
    return {
        "paper": SamplerSetup(PAPER, Schedule(), chain_options=cut),
        "rising": SamplerSetup("one sweep a level, 13 levels", _RISING, chain_options=cut, max_sweeps=max_sweeps),
        "cut": SamplerSetup("every level, all cut", EVERY_NODE, chain_options=cut, max_sweeps=max_sweeps),
        "random": SamplerSetup(
            "every level, random cuts", EVERY_NODE, chain_options=random_cuts, max_sweeps=max_sweeps
        ),
        "drawn": SamplerSetup(
            f"quick, plain Gibbs draws: {_COOLING}",
            replace(quick, avoid_current=False),
            chain_options=random_cuts,
            max_sweeps=max_sweeps,
            counted_from=quick.sweeps,
        ),
        "quick": SamplerSetup(
            f"quick: {_COOLING}", quick, chain_options=random_cuts, max_sweeps=max_sweeps, counted_from=quick.sweeps
        ),
        "stratified": SamplerSetup(
            f"stratified: two levels a sweep, {_COOLING}",
            stratified_schedule(),
            chain_options=cut,
            max_sweeps=max_sweeps,
            counted_from=quick.sweeps,
        ),
    }


def table(points: Sequence[Point], counted_from: Mapping[str, int]) -> str:
    """Return a Markdown table of sweeps and seconds to the goal, and of the final log-likelihood.

    `counted_from` maps labels of setups to `SamplerSetup.counted_from`. The final log-likelihood is the mean over the
    last quarter of the sweeps, with its standard deviation over chains.
    """
    curves = group_curves(points)
    last = min(_PAPER_SWEEPS, curves[PAPER].shape[1] - 1)
    goals = curves[PAPER][:, last, 1]
    baseline = float(curves[PAPER][:, last, 0].mean())
    columns = "schedule", "sweeps to the goal", "CPU seconds", f"of the paper's {last} sweeps", "seeds at the goal"
    rows = []
    for label, curve in curves.items():
        first = reached(curve, goals.tolist(), counted_from.get(label, 0))
        settled = curve[:, -(curve.shape[1] // 4) :, 1].mean(axis=1)
        costs = f"{first.sweeps:.0f}", f"{first.seconds:.1f}", f"{first.seconds / baseline:.0%}"
        seeds = f"{first.seeds} of {len(curve)}"
        rows.append([label, *costs, seeds, f"{settled.mean():,.0f}", f"{settled.std():,.0f}"])
    return markdown_table([*columns, "final log-likelihood", "standard deviation"], rows)


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """Options of the comparison."""

    pairs: Annotated[int | None, Option("Use only the first N pairs.", min=1)] = None
    sweeps: Annotated[int, Option("Sweeps with the paper's schedule.", min=2)] = _PAPER_SWEEPS
    other_sweeps: Annotated[int, Option("Sweeps with the other schedules.", min=2)] = 50
    only: Annotated[
        tuple[str, ...],
        Option(
            "Schedules to compare with the paper's.",
            values=("rising", "cut", "random", "drawn", "quick", "stratified"),
            shown="all",
        ),
    ] = ()
    seeds: Annotated[int, Option("Number of chains of each schedule.", min=1)] = 5
    threads: Annotated[int, Option("Threads of the sampler.", min=1)] = 2


@with_options
def main(
    source: BitextFile,
    target: BitextFile,
    alignment: BitextFile,
    figure: Annotated[Path, typer.Option(help="PNG file; the table of all points is written next to it.")] = Path(
        "schedules.png"
    ),
    *,
    options: ScheduleOptions,
) -> None:
    """Sample a bitext by each schedule, and draw the log-likelihood."""
    batch = read_batch(Corpus(str(source), str(target), str(alignment), options.pairs))
    setups = make_setups(options.threads, options.other_sweeps)
    chosen = [setup for name, setup in setups.items() if name == "paper" or not options.only or name in options.only]
    points = list(run(batch, chosen, options.sweeps, range(1, options.seeds + 1)))
    write_table(points, figure.with_suffix(".csv"))
    title = f"{batch.size:,} pairs, Pitman-Yor process, {options.seeds} seeds"
    draw(points, figure, title, min(5, options.sweeps - 1, options.other_sweeps - 1))
    print(table(points, {setup.label: setup.counted_from for setup in chosen}))


if __name__ == "__main__":
    typer.run(main)
