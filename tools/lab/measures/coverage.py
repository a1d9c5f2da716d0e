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
from hierogram.tools.lab.comparison.pruning import hash_rows
from hierogram.tools.lab.measures.results import markdown_table

BOUNDS = (0.05, 0.1, 0.3, 0.7, 1.5, 10.0, np.inf)
"""Bounds of the bins, in true uses."""
_MAX_PARTS = 16
"""Number of sets of uses in memory at which they are summed."""
_NOMINAL = 1.959964
"""Half the width, in standard deviations, of an interval that contains 95 % of a normal distribution."""


class Uses(NamedTuple):
    """Uses of R rules, each rule once or several times: `keys` uint64[R, 2], `uses` float64[R]."""

    keys: NDArray[np.uint64]
    uses: NDArray[np.float64]


def sum_uses(parts: Sequence[Uses]) -> Uses:
    """Return each rule of the parts once, with the sum of its uses."""
    keys, rule = _number_keys(np.concatenate([part.keys for part in parts]))
    sums = np.bincount(rule, np.concatenate([part.uses for part in parts]), len(keys))
    return Uses(keys, sums.astype(np.float64))


def align_uses(first: Uses, second: Uses) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the uses of each rule of either set in both sets. The uses of a missing rule are 0."""
    keys, rule = _number_keys(np.concatenate((first.keys, second.keys)))
    first_uses, second_uses = np.zeros(len(keys)), np.zeros(len(keys))
    first_uses[rule[: len(first.keys)]] = first.uses
    second_uses[rule[len(first.keys) :]] = second.uses
    return first_uses, second_uses


def _number_keys(keys: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """Return the distinct keys, and the index of each row's key in them."""
    _, first, number = np.unique(hash_rows(keys), return_index=True, return_inverse=True)
    return keys[first], number


class ReportedUses(NamedTuple):
    """Expected uses of R rules of a store, with standard errors. `keys` is uint64[R, 2]."""

    keys: NDArray[np.uint64]
    means: NDArray[np.float64]
    errors: NDArray[np.float64]


class Coverage(NamedTuple):
    """Coverage of the intervals of the rules in one bin of true uses."""

    # Lower bound of the bin.
    min_uses: float
    # Number of rules with true uses in the bin, mean over chains.
    rules: int
    # Share of the intervals that contain the true uses, among rules with reported uses; 0 without such rules.
    covered: float


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
    """Run a chain. Returns expected uses at each of `ages`, and mean uses over all averaged sweeps."""
    reported, parts = [], []
    for current, averaged in sample(store, seed, ages):
        parts.append(Uses(current.keys, current.count.astype(np.float64)))
        if len(parts) == _MAX_PARTS:
            parts = [sum_uses(parts)]
        if averaged is not None:
            # Omit rules of the current derivations that have no averages.
            counted = averaged.expected_uses > 0
            means, variances = averaged.expected_uses[counted], averaged.expected_uses_variance[counted]
            reported.append(ReportedUses(averaged.keys[counted], means, standard_errors(means, variances)))
    total = sum_uses(parts)
    return reported, Uses(total.keys, total.uses / max(ages))


def measure_coverage(reported: Sequence[ReportedUses], means: Sequence[Uses]) -> list[Coverage]:
    """Return the results of each bin, given uses and means of each chain.

    The true uses for a chain are the means of the other chains, at least one.
    """
    chains = len(reported)
    total = sum_uses(means)
    # Numbers of rules in the bin, of those with reported uses, and of those with the true uses in the interval.
    counts = np.zeros((len(BOUNDS) - 1, 3))
    for chain, chain_means in zip(reported, means, strict=True):
        others = sum_uses([total, Uses(chain_means.keys, -chain_means.uses)])
        expected, truth = align_uses(Uses(chain.keys, chain.means), others)
        errors, _ = align_uses(Uses(chain.keys, chain.errors), others)
        truth = truth / (chains - 1)
        # Widen the intervals, because the true uses are also means of chains and have errors.
        is_covered = np.abs(expected - truth) <= _NOMINAL * errors * np.sqrt(chains / (chains - 1))
        for row, low, high in zip(counts, BOUNDS, BOUNDS[1:], strict=False):
            in_bin = (truth >= low) & (truth < high)
            is_reported = in_bin & (expected > 0)
            row += in_bin.sum(), is_reported.sum(), (is_covered & is_reported).sum()
    return [
        Coverage(low, round(rules / chains), covered / max(intervals, 1.0))
        for low, (rules, intervals, covered) in zip(BOUNDS, counts.tolist(), strict=False)
    ]


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
        reported, means = zip(*(measure(opened, seed, sweeps) for seed in range(1, seeds + 1)), strict=True)
    rows = []
    for age, age_reported in zip(sweeps, zip(*reported, strict=True), strict=True):
        share = sum(chain.means.sum() for chain in age_reported) / sum(chain.uses.sum() for chain in means)
        for row in measure_coverage(age_reported, means):
            if row.rules:
                counts = f"{size:,}", f"{age:,}", f"{share:.1%}", f"{row.min_uses:g}", f"{row.rules:,}"
                rows.append([*counts, f"{row.covered:.1%}"])
    columns = ("pairs", "sweeps", "uses reported", "true uses from", "rules per chain", "coverage of intervals")
    print(markdown_table(columns, rows))


if __name__ == "__main__":
    typer.run(main)
