"""Measure how often intervals of two standard errors around expected uses contain the true uses, over seeds.

    python -m hierogram.tools.lab.measures.coverage corpus.zh corpus.en align.gdfa --pairs 300 --seeds 8

The truth of a chain is the mean of the exact sums of the other chains after the largest number of sweeps. It is
compared with the values of a store of this age: the written records of the chain, with their errors.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.samplers.counts.deltas import add_fragments, empty_deltas
from hierogram.samplers.forests.averages import SWEEPS_PER_PRUNING, Averages, empty_averages
from hierogram.samplers.forests.derivations import Batch
from hierogram.samplers.forests.records import list_fragments, write_averages
from hierogram.samplers.grammar.numbers import ONE_SQUARE, ONE_USE
from hierogram.storage.records.uncertainty import standard_errors
from hierogram.tools.lab.measures.averages import Uses, align_means, averaged_uses, sum_uses, sweeping
from hierogram.tools.lab.measures.results import Corpus
from hierogram.tools.lab.measures.sampling import read_batch

BOUNDS = (0.05, 0.1, 0.3, 0.7, 1.5, 10.0, np.inf)
"""Bounds of the bins by true expected uses."""
_PARTS_AT_ONCE = 16
_NOMINAL = 1.959964
"""Standard errors on either side of an interval that contains 95 % of a normal distribution."""


class Shown(NamedTuple):
    """Rules that a store shows: `keys` uint64[R, 2], expected uses and their errors float64[R]."""

    keys: NDArray[np.uint64]
    means: NDArray[np.float64]
    errors: NDArray[np.float64]


class Coverage(NamedTuple):
    """Rules of a bin.

    Their number; root mean square of the reported and of the real error; share of the reported rules whose interval
    contains the true uses, and share of rules that are reported.
    """

    min_uses: float
    rules: int
    reported: float
    real: float
    covered: float
    shown: float


def shown(batch: Batch, corpus: Corpus, seed: int, ages: Sequence[int]) -> Iterator[Shown]:
    """Yield the estimates of a store after each number of averaged sweeps."""
    for averaged, state, _ in sweeping(batch, corpus, seed, max(ages)):
        if averaged not in ages:
            continue
        deltas = add_fragments(empty_deltas(), batch, list_fragments(write_averages(state.averages)))
        means = deltas.sampled[: deltas.entries] / ONE_USE
        errors = standard_errors(means, deltas.variances[: deltas.entries] / ONE_SQUARE)
        yield Shown(deltas.keys[: deltas.entries].copy(), means, errors)


def exact(batch: Batch, corpus: Corpus, seed: int, sweeps: int) -> Uses:
    """Return the mean uses of a chain from sums over averages. Averages are reset before a rule is dropped."""
    room = 4 * np.diff(empty_averages(batch).first)
    parts: list[Uses] = []

    def add(averages: Averages) -> None:
        uses = averaged_uses(averages)
        parts.append(uses._replace(means=uses.means * (int(averages.sweeps.max()) / sweeps)))
        if len(parts) == _PARTS_AT_ONCE:
            parts[:] = [sum_uses(parts)]

    def reset_averages(averages: Averages) -> Averages:
        if averages.sweeps.max() != SWEEPS_PER_PRUNING - 1:
            return averages
        add(averages)
        return empty_averages(batch, room)

    for _, state, _ in sweeping(batch, corpus, seed, sweeps, reset_averages):
        averages = state.averages
    add(averages)
    return sum_uses(parts)


def rows(found: Sequence[Shown], truths: Sequence[Uses]) -> list[Coverage]:
    """Return a row for each bin. `truths` are the means of each chain; a chain is compared with all other chains."""
    total = sum_uses(list(truths))
    counts = [np.zeros((len(found), 5)) for _ in BOUNDS[1:]]
    for k, (one, own) in enumerate(zip(found, truths, strict=True)):
        others = sum_uses([total, own._replace(means=-own.means)])
        means, truth = align_means(Uses(one.keys, one.means), others)
        errors, _ = align_means(Uses(one.keys, one.errors), others)
        truth = truth / (len(found) - 1)
        # The true uses are also means of chains, so differences include their error.
        held = np.abs(means - truth) <= _NOMINAL * errors * np.sqrt(len(found) / (len(found) - 1))
        for numbers, least, most in zip(counts, BOUNDS, BOUNDS[1:], strict=False):
            chosen = (truth >= least) & (truth < most)
            seen = chosen & (means > 0)
            squares = (errors[seen] ** 2).sum(), ((means - truth)[seen] ** 2).sum()
            numbers[k] = chosen.sum(), seen.sum(), (held & seen).sum(), *squares
    table = []
    for numbers, least in zip(counts, BOUNDS, strict=False):
        number, counted, right, reported, real = map(float, numbers.sum(axis=0))
        counted = max(counted, 1.0)
        errors_of = (reported / counted) ** 0.5, (real / counted) ** 0.5
        table.append(
            Coverage(least, round(number / len(found)), *errors_of, right / counted, counted / max(number, 1.0))
        )
    return table


def main(
    source: Annotated[Path, typer.Argument(help="Source sides, a sentence a line.")],
    target: Annotated[Path, typer.Argument(help="Target sides.")],
    alignment: Annotated[Path, typer.Argument(help="Links.")],
    pairs: Annotated[int, typer.Option(help="Use only the first N pairs.")] = 300,
    seeds: Annotated[int, typer.Option(min=3, help="Chains.")] = 8,
    ages: Annotated[str, typer.Option(help="Averaged sweeps of the stores, in ascending order.")] = "50,250,1000",
) -> None:
    """Measure how often intervals around expected uses contain the true uses."""
    corpus = Corpus(str(source), str(target), str(alignment), pairs=pairs, threads=1)
    batch = read_batch(corpus)
    sweeps = [int(age) for age in ages.split(",")]
    found = [list(shown(batch, corpus, seed, sweeps)) for seed in range(1, seeds + 1)]
    truths = [exact(batch, corpus, seed, sweeps[-1]) for seed in range(1, seeds + 1)]
    columns = "pairs", "sweeps", "uses shown", "true uses from", "rules", "reported error", "real error", "coverage"
    typer.echo(f"| {' | '.join(columns)} | rules shown |")
    typer.echo("|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for age, of_age in zip(sweeps, zip(*found, strict=True), strict=True):
        share = sum(one.means.sum() for one in of_age) / sum(truth.means.sum() for truth in truths)
        for row in rows(of_age, truths):
            if row.rules:
                cells = f"{row.rules:,} | {row.reported:.3f} | {row.real:.3f} | {row.covered:.1%} | {row.shown:.1%}"
                typer.echo(f"| {batch.size:,} | {age:,} | {share:.1%} | {row.min_uses:g} | {cells} |")


if __name__ == "__main__":
    typer.run(main)
