"""Draws Figure 1 and fills Table 1 of [BC10]: how fast the ITG's samplers mix, from each start.

    python -m hierogram.tools.papers.slice_sampling corpus.zh corpus.en --pairs 2000 --sweeps 100 --seeds 5

Every row is a sampler and a start: seconds of processor time a sweep, acceptance, ln P of all derivations at the start
and at the end, as the mean and the spread of the seeds. With `--gold`, the error rate of the links of the last half's
samples.
The start M4 takes its links from this package's default aligner.
"""

import csv
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.daemon.alignment.aligning import align
from hierogram.daemon.alignment.evaluation import GoldLinks, evaluate, read_gold
from hierogram.daemon.alignment.files import read_sentences
from hierogram.daemon.alignment.requests import Request
from hierogram.samplers.alignment.bitext import Side, read_side
from hierogram.samplers.alignment.joint import LinkSamples, decode_links
from hierogram.samplers.itg.batch import ItgBatch, make_batch
from hierogram.samplers.itg.model import ItgSettings
from hierogram.samplers.itg.model1 import Model1, train_model1
from hierogram.samplers.itg.sampler import build, plan_of
from hierogram.samplers.itg.starts import LEFT_BRANCHING, LINKS, MODEL1, one_to_one
from hierogram.samplers.itg.summaries.links import add_links, empty_links
from hierogram.samplers.itg.sweeps import EXHAUSTIVE, GIBBS, SLICE

LONGEST = 40
"""Longer pairs are left out, as in the paper."""
STRENGTHS = (1000.0, 100.0, 100.0, 1000.0, 1000.0)
"""The paper samples no strengths: these stay, so that likelihoods can be compared."""

RUNS = (
    (GIBBS, 1.0, LEFT_BRANCHING),
    (GIBBS, 1.0, MODEL1),
    (GIBBS, 1.0, LINKS),
    (SLICE, 0.15, LEFT_BRANCHING),
    (SLICE, 0.10, MODEL1),
    (SLICE, 0.15, MODEL1),
    (SLICE, 0.25, MODEL1),
    (EXHAUSTIVE, 1.0, MODEL1),
)
"""Samplers, a of their slices, and starts: the rows of Table 1, and the sampler that the paper could not run."""


@dataclass(frozen=True, slots=True)
class Bitext:
    """Pairs to sample, Model 1 of them, one-to-one links for M4, and manual links of the first pairs if any."""

    source: Side
    target: Side
    batch: ItgBatch
    model1: Model1
    links: NDArray[np.int32]
    gold: list[GoldLinks]


@dataclass(frozen=True, slots=True)
class Run:
    """One chain: seconds of processor time until each sweep's end, ln P after each sweep (from 0), and what it did."""

    sampler: str
    shape: float
    start: str
    seed: int
    seconds: list[float]
    log_likelihood: list[float]
    acceptance: float
    aer: float | None

    @property
    def name(self) -> str:
        """As the paper names its rows."""
        slices = f" a={self.shape:.2f}" if self.sampler == SLICE else ""
        return f"{self.sampler}{slices} {self.start.upper()}"


def read_bitext(source: Path, target: Path, pairs: int | None, gold: Path | None) -> Bitext:
    """The first pairs of at most `LONGEST` words a side; with manual links all pairs."""
    sides = read_sentences(str(source)), read_sentences(str(target))
    kept = [
        pair for pair in zip(*sides, strict=True)
        if gold is not None or max(len(side.split()) for side in pair) <= LONGEST
    ][:pairs]  # fmt: skip
    sentences = [pair[0] for pair in kept], [pair[1] for pair in kept]
    sides_read = read_side(sentences[0]), read_side(sentences[1])
    batch = make_batch(sides_read[0].words, sides_read[0].offset, sides_read[1].words, sides_read[1].offset)
    aligned = align(*sentences, Request())
    links = []
    for pair in range(batch.size):
        here = slice(int(aligned.links.offset[pair]), int(aligned.links.offset[pair + 1]))
        score = aligned.posterior[here].astype(float)
        words = int(batch.source_offset[pair + 1] - batch.source_offset[pair])
        links.append(one_to_one(aligned.links.source[here], aligned.links.target[here], score, words))
    manual = read_gold(str(gold))[:pairs] if gold is not None else []
    joined = np.concatenate([np.zeros(0, np.int32), *links])
    return Bitext(*sides_read, batch, train_model1(batch), joined, manual)


def sample(bitext: Bitext, run: tuple[str, float, str], seed: int, sweeps: int) -> Run:
    """One chain over all pairs."""
    sampler, shape, start = run
    settings = ItgSettings(shape, STRENGTHS, sampled_strengths=False)
    kernel = build(bitext.batch, settings, sampler, bitext.model1)
    state = kernel.init(seed, start, bitext.links if start == LINKS else None)
    sums = empty_links(bitext.batch)
    seconds, likelihood = [0.0], [kernel.log_likelihood(state)]
    proposed = accepted = 0
    for sweep in range(1, sweeps + 1):
        started = time.process_time()
        state, info = kernel.step(seed, state, plan_of(bitext.batch, sweep))
        seconds.append(seconds[-1] + time.process_time() - started)
        likelihood.append(kernel.log_likelihood(state))
        proposed, accepted = proposed + info.proposed, accepted + info.accepted
        if bitext.gold and sweep > sweeps // 2:
            add_links(bitext.batch, state.derivations, sums)
    aer = None
    if bitext.gold:
        samples = LinkSamples(sums.pairs, sums.chunks, int(sums.samples[0]))
        links, _ = decode_links(samples, bitext.source, bitext.target, implied=False)
        found = [
            frozenset(zip(links.source[a:b].tolist(), links.target[a:b].tolist(), strict=True))
            for a, b in zip(links.offset[:-1].tolist(), links.offset[1:].tolist(), strict=True)
        ]
        aer = evaluate(bitext.gold, found[: len(bitext.gold)]).aer
    return Run(sampler, shape, start, seed, seconds, likelihood, accepted / max(proposed, 1), aer)


def rows_of(runs: list[Run]) -> list[str]:
    """The table, a line for each sampler and start."""
    lines = [
        "| sampler | seconds a sweep | acceptance | ln P at the start | at the end: mean | least | most | AER |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(run.name for run in runs):
        some = [run for run in runs if run.name == name]
        ends = [run.log_likelihood[-1] for run in some]
        seconds = float(np.mean([run.seconds[-1] / (len(run.seconds) - 1) for run in some]))
        rates = [run.aer for run in some if run.aer is not None]
        aer = f"{np.mean(rates):.4f}" if rates else ""
        accepted = np.mean([run.acceptance for run in some])
        lines.append(
            f"| {name} | {seconds:.3f} | {accepted:.4f} | {np.mean([r.log_likelihood[0] for r in some]):,.0f} "
            f"| {np.mean(ends):,.0f} | {min(ends):,.0f} | {max(ends):,.0f} | {aer} |"
        )
    return lines


def draw(runs: list[Run], path: Path) -> None:
    """ln P against sweeps and against seconds, a line for each sampler and start (its first seed), as PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(12, 4.6), sharey=True)
    first = {run.name: run for run in reversed(runs)}
    for name, run in sorted(first.items()):
        panels[0].plot(range(len(run.log_likelihood)), run.log_likelihood, label=name)
        panels[1].plot(run.seconds[1:], run.log_likelihood[1:])
    panels[1].set_xscale("log")
    for panel, label in zip(panels, ("samples", "processor time, s"), strict=True):
        panel.set_xlabel(label)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("log-likelihood")
    panels[0].legend(loc="lower right", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main(
    source: Annotated[Path, typer.Argument(exists=True, dir_okay=False)],
    target: Annotated[Path, typer.Argument(exists=True, dir_okay=False)],
    pairs: Annotated[int | None, typer.Option(min=1, help="Only the first so many pairs.")] = None,
    sweeps: Annotated[int, typer.Option(min=1, help="Sweeps of the slice and local samplers.")] = 100,
    exhaustive: Annotated[int, typer.Option(min=0, help="Sweeps of the exhaustive sampler; 0 leaves it out.")] = 20,
    seeds: Annotated[int, typer.Option(min=1)] = 1,
    gold: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Manual links of all pairs.")] = None,
    figure: Annotated[Path, typer.Option(help="PNG to write; the curves stand beside it as .csv.")] = Path(
        "slices.png"
    ),
) -> None:
    """Sample raw pairs by every sampler from every start; print Table 1, draw Figure 1."""
    bitext = read_bitext(source, target, pairs, gold)
    # Compiling is no part of sampling: a few pairs have it done.
    tiny = replace(bitext, batch=make_batch(*(np.zeros(1, np.int32), np.array([0, 1])) * 2), gold=[])
    tiny = replace(tiny, model1=train_model1(tiny.batch), links=np.zeros(1, np.int32))
    runs = []
    for run in RUNS:
        number = exhaustive if run[0] == EXHAUSTIVE else sweeps
        if number > 0:
            sample(tiny, run, 1, 1)
            runs += [sample(bitext, run, seed, number) for seed in range(1, seeds + 1)]
            print("\n".join(rows_of(runs[-seeds:])[2:]), flush=True)
    with figure.with_suffix(".csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["sampler", "seed", "sweep", "seconds", "log_likelihood"])
        for done in runs:
            for sweep, (spent, value) in enumerate(zip(done.seconds, done.log_likelihood, strict=True)):
                writer.writerow([done.name, done.seed, sweep, f"{spent:.4f}", f"{value:.3f}"])
    draw(runs, figure)
    print("\n".join(rows_of(runs)))


if __name__ == "__main__":
    typer.run(main)
