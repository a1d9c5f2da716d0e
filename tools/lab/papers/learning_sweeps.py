"""Measure translation quality by the number of learning sweeps.

    python -m hierogram.tools.lab.papers.learning_sweeps corpus.es corpus.en --work sweeps --chains 4

Each chain learns in steps, and translates the test sentences after each step with the default grammar, weights and
language model. The same command continues an interrupted run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from statistics import mean, stdev
from typing import Annotated

import typer

import hierogram as hg
from hierogram.daemon.cli.common import print_table
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.text.lines import write_lines
from hierogram.storage.options import Option
from hierogram.tools.lab.measures.results import Figures, time_call
from hierogram.tools.lab.papers.translations import (
    Experiment,
    ExperimentOptions,
    begin_experiment,
    time_translations,
)
from hierogram.tools.translation.options import EvaluationOptions


@dataclass(frozen=True, kw_only=True)
class SweepOptions(ExperimentOptions):
    """Options of the measurement."""

    chains: Annotated[int, Option("Number of stores with different seeds.", min=1)] = 4
    sweeps: Annotated[
        tuple[str, ...], Option("Numbers of sweeps after the burn-in, ascending.", metavar="NUMBERS")
    ] = ("10", "14", "20", "30", "50", "74")  # fmt: skip

    @property
    def numbers(self) -> list[int]:
        """`sweeps` as integers."""
        return [*map(int, self.sweeps)]


@with_options
def main(
    files: Annotated[list[str], typer.Argument(metavar="SOURCE TARGET [ALIGNMENT]", help="A tokenized bitext.")],
    sweep_options: SweepOptions,
) -> None:
    """Learn stores, translate after each number of sweeps, and print the scores."""
    experiment = begin_experiment(files, sweep_options)
    bitext = experiment.aligned_files()
    chains = [measure_chain(experiment, bitext, sweep_options, chain) for chain in range(1, sweep_options.chains + 1)]
    print_scores(sweep_options.numbers, chains)


def measure_chain(
    experiment: Experiment, bitext: Sequence[str], sweep_options: SweepOptions, chain: int
) -> list[Figures]:
    """Return the figures of one store after each number of sweeps. `chain` is its seed. Cached."""
    names = [f"chain {chain}, {number} sweeps" for number in sweep_options.numbers]
    if not all(name in experiment.cache for name in names):
        path = sweep_options.work / f"chain-{chain}.db"
        for old in sweep_options.work.glob(f"{path.name}*"):
            old.unlink()
        with hg.open(path, create=True, seed=chain) as store:
            store.add(*bitext)
            before = 0
            for name, number in zip(names, sweep_options.numbers, strict=True):
                learning = store.learn(number - before, threads=sweep_options.threads, likelihood_every=1_000)
                seconds, report = time_call(learning.run)
                before = number
                learned: Figures = {"learning_seconds": seconds, "log_likelihood": report.log_likelihood_after}
                translate = partial(measure_store, experiment, store, sweep_options, name, learned)
                experiment.cache.get_or_make(name, translate)
    return [experiment.cache[name] for name in names]


def measure_store(
    experiment: Experiment, store: hg.GrammarStore, sweep_options: SweepOptions, name: str, learned: Figures
) -> Figures:
    """Translate the test sentences. Returns `learned`, rules, scores and processor seconds per sentence."""
    translator = hg.Decoder(store).translator()
    lines, seconds = time_translations(translator, experiment.parts.test.sources, sweep_options.threads)
    write_lines(sweep_options.work / f"{name}.out", lines)
    bleu, chrf = experiment.evaluate([(name, lines)], EvaluationOptions(metrics=("bleu", "chrf"), tokenizer="none"), 1)
    return learned | {
        "rules": int(translator.grammar.packed.rules),
        "bleu": bleu.scores[0].score,
        "chrf": chrf.scores[0].score,
        "seconds": seconds,
    }


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean, or 0 for a single value."""
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0


def print_scores(numbers: Sequence[int], chains: Sequence[Sequence[Figures]]) -> None:
    """Print mean scores by number of sweeps, and mean differences from the last score of the same chain."""
    rows = []
    for k, number in enumerate(numbers):
        cells = [f"{number}", f"{mean(chain[k]['rules'] for chain in chains):,.0f}"]
        for metric in ("bleu", "chrf"):
            values = [chain[k][metric] for chain in chains]
            differences = [chain[k][metric] - chain[-1][metric] for chain in chains]
            cells.append(f"{mean(values):.2f} ± {standard_error(values):.2f}")
            cells.append(f"{mean(differences):+.2f} ± {standard_error(differences):.2f}")
        seconds = [sum(figures["learning_seconds"] for figures in chain[: k + 1]) for chain in chains]
        rows.append([*cells, f"{mean(seconds):.0f}"])
    columns = ["sweeps", "rules", "BLEU", "BLEU minus last", "chrF", "chrF minus last", "learning, s"]
    print_table(columns, rows, numeric=range(len(columns)))


if __name__ == "__main__":
    typer.run(main)
