"""Measure how often 95 % intervals of expected uses contain the true uses, over seeds.

    hierogram --store store.db ingest corpus.zh corpus.en align.gdfa
    python -m hierogram.tools.lab.measures.coverage sqlite:///store.db --seeds 8

New chains sample the pairs of the store. The true uses for a chain are the mean uses of all other chains over the
largest number of sweeps. They are compared with the expected uses and errors that a store would contain after each
number of sweeps.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import ChainConfig, EmptyCounts, StoredSamples, SweepRequest, find_kind
from hierogram.samplers.grammar.columns import Blobs, empty_blobs
from hierogram.storage.records.columns import RuleDeltas
from hierogram.storage.records.uncertainty import standard_errors
from hierogram.storage.store import Store, open_store
from hierogram.tools.lab.measures.averages import Uses, align_means, sum_uses
from hierogram.tools.lab.measures.results import markdown_table

BOUNDS = (0.05, 0.1, 0.3, 0.7, 1.5, 10.0, np.inf)
"""Bounds of the bins, in true uses."""
_MAX_PARTS = 16
_NOMINAL = 1.959964
"""Half the width, in standard deviations, of an interval that contains 95 % of a normal distribution."""


class ReportedUses(NamedTuple):
    """Expected uses of R rules of a store, with standard errors. `keys` is uint64[R, 2]."""

    keys: NDArray[np.uint64]
    means: NDArray[np.float64]
    errors: NDArray[np.float64]


class Coverage(NamedTuple):
    """Results for the rules of a bin of true uses."""

    min_uses: float
    # Number of rules with true uses in the bin, mean over chains.
    rules: int
    # Root mean square of the reported errors, and of the actual errors.
    reported_error: float
    actual_error: float
    # Share of reported rules with an interval that contains the true uses, and share of rules that are reported.
    covered: float
    reported_share: float


def sample(store: Store, seed: int, ages: Sequence[int]) -> Iterator[tuple[RuleDeltas, RuleDeltas | None]]:
    """Yield the current rules after each averaged sweep of a new chain, and at `ages` the averaged rules."""
    settings = replace(store.settings(), seed=seed)
    kind = find_kind(settings)
    loaded = kind.load([row._replace(current=None, averages=None) for row in store.pairs()], settings)
    all_pairs = np.ones(loaded.batch.size, np.bool_)
    state = kind.draw_initial_state(loaded, settings, all_pairs, None)
    no_averages = empty_blobs(loaded.batch.size)
    averages = loaded.read_averages(no_averages)

    def count(records: Blobs) -> RuleDeltas:
        deltas: RuleDeltas = loaded.rule_deltas(None, StoredSamples(state, records))
        return deltas

    chain = kind.chain(EmptyCounts(settings, store.vocabulary_sizes()), ChainConfig())
    try:
        chain.add_pairs(loaded, state, ~all_pairs)
        sweep = chain.sweep(loaded)
        burn_in = kind.schedule(settings).burn_in
        for number in range(1, burn_in + max(ages) + 1):
            averaged = number - burn_in
            numbers = np.full(loaded.batch.size, number)
            request = SweepRequest(numbers, all_pairs, np.full(loaded.batch.size, averaged > 0))
            state, _ = sweep(state, averages, request, lambda _: None)
            if averaged > 0:
                averaged_rules = count(loaded.write_averages(averages)) if averaged in ages else None
                yield count(no_averages), averaged_rules
    finally:
        chain.close()


def measure(store: Store, seed: int, ages: Sequence[int]) -> tuple[list[ReportedUses], Uses]:
    """Return averages after each number of sweeps in `ages`, and mean uses over all averaged sweeps."""
    found, parts = [], []
    for current, averaged in sample(store, seed, ages):
        parts.append(Uses(current.keys, current.count.astype(np.float64)))
        if len(parts) == _MAX_PARTS:
            parts = [sum_uses(parts)]
        if averaged is not None:
            # Omit rules of the current derivations that have no averages.
            counted = averaged.expected_uses > 0
            means, variances = averaged.expected_uses[counted], averaged.expected_uses_variance[counted]
            found.append(ReportedUses(averaged.keys[counted], means, standard_errors(means, variances)))
    total = sum_uses(parts)
    return found, total._replace(means=total.means / max(ages))


def measure_coverage(found: Sequence[ReportedUses], truths: Sequence[Uses]) -> list[Coverage]:
    """Return the results of each bin. The true uses for a chain are the means of all other chains."""
    total = sum_uses(list(truths))
    counts = [np.zeros((len(found), 5)) for _ in BOUNDS[1:]]
    for k, (one, own) in enumerate(zip(found, truths, strict=True)):
        others = sum_uses([total, own._replace(means=-own.means)])
        means, truth = align_means(Uses(one.keys, one.means), others)
        errors, _ = align_means(Uses(one.keys, one.errors), others)
        truth = truth / (len(found) - 1)
        # Widen the intervals, because the true uses are also means of chains and have errors.
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
        root_mean_squares = (reported / counted) ** 0.5, (real / counted) ** 0.5
        table.append(
            Coverage(least, round(number / len(found)), *root_mean_squares, right / counted, counted / max(number, 1.0))
        )
    return table


def main(
    store: Annotated[str, typer.Argument(metavar="URL", help="Store with pairs. It is not changed.")],
    seeds: Annotated[int, typer.Option(min=3, help="Number of chains.")] = 8,
    ages: Annotated[
        str, typer.Option(help="Numbers of averaged sweeps, ascending, separated by commas.")
    ] = "50,250,1000",
) -> None:
    """Measure how often 95 % intervals of expected uses contain the true uses."""
    sweeps = [int(age) for age in ages.split(",")]
    with open_store(store) as opened:
        size = opened.count_pairs()
        found, truths = zip(*(measure(opened, seed, sweeps) for seed in range(1, seeds + 1)), strict=True)
    columns = ("pairs", "sweeps", "uses reported", "true uses from", "rules per chain", "RMS reported error")
    rows = []
    for age, age_uses in zip(sweeps, zip(*found, strict=True), strict=True):
        share = sum(one.means.sum() for one in age_uses) / sum(truth.means.sum() for truth in truths)
        for row in measure_coverage(age_uses, truths):
            if row.rules:
                errors = f"{row.reported_error:.3f}", f"{row.actual_error:.3f}"
                shares = f"{row.covered:.1%}", f"{row.reported_share:.1%}"
                rows.append(
                    [f"{size:,}", f"{age:,}", f"{share:.1%}", f"{row.min_uses:g}", f"{row.rules:,}", *errors, *shares]
                )
    print(markdown_table([*columns, "RMS actual error", "coverage of intervals", "rules reported"], rows))


if __name__ == "__main__":
    typer.run(main)
