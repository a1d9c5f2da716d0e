"""Compare averages over sweeps and means over thinned draws with the expected uses of a long run.

    python -m hierogram.tools.lab.measures.averages corpus.zh corpus.en align.gdfa --pairs 3000

Prints the squared error of each estimate of one chain from the long run of another chain, summed over rules, and the
overlap of the rules with at least half a use in both chains: the share of common rules, the share of uses of common
rules, and the Jaccard index. The last column is the Jaccard index of these rules in the estimate and in the long run.
"""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.counts.deltas import count_rules
from hierogram.samplers.counts.table import COUNT, KEY_HIGH, KEY_LOW, empty_table
from hierogram.samplers.forests.averages import Averages
from hierogram.samplers.forests.derivations import Batch
from hierogram.samplers.forests.fragments import rule_key_from_hashes
from hierogram.samplers.grammar.keys import ALL_BITS
from hierogram.samplers.grammar.numbers import ONE_USE
from hierogram.samplers.grammar.schedules import stratified_schedule
from hierogram.samplers.synchronous.sweeps import Blocks, SweepPlan, build
from hierogram.tools.lab.comparison.pruning import hash_rows
from hierogram.tools.lab.measures.results import BitextFile, Corpus, markdown_table
from hierogram.tools.lab.measures.sampling import model_over, read_batch

_THINNING = 10
_DRAWS = (8, 16, 32, 64)
_MIN_USES = 0.5


class Uses(NamedTuple):
    """Uses of R rules: `keys` uint64[R, 2], and `means` float64[R], which may be sums of means."""

    keys: NDArray[np.uint64]
    means: NDArray[np.float64]


def sum_uses(parts: Sequence[Uses]) -> Uses:
    """Sum the uses of each rule over the parts."""
    keys, rule = _number_keys(np.concatenate([part.keys for part in parts]))
    sums = np.bincount(rule, np.concatenate([part.means for part in parts]), len(keys))
    return Uses(keys, sums.astype(np.float64))


def _number_keys(keys: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """Return the distinct keys, and the index of each row's key in them."""
    _, first, number = np.unique(hash_rows(keys), return_index=True, return_inverse=True)
    return keys[first], number


@njit
def _write_keys(source: NDArray[np.uint64], target: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
    for k in range(len(source)):
        keys[k, 0], keys[k, 1] = rule_key_from_hashes(source[k], target[k], ALL_BITS)


def averaged_uses(averages: Averages) -> Uses:
    """Return the expected uses of all rules with averages, without rounding."""
    counts = averages.entry_counts
    pairs = np.repeat(np.arange(len(counts)), counts)
    rows = np.repeat(averages.first[:-1] - np.cumsum(counts) + counts, counts) + np.arange(len(pairs))
    entry = averages.entry[rows]
    means = entry["uses"] / (averages.sweeps[pairs] * float(ONE_USE))
    keys = np.zeros((len(entry), 2), np.uint64)
    _write_keys(entry["source_hash"], entry["target_hash"], keys)
    return sum_uses([Uses(keys, means)])


def align_means(one: Uses, other: Uses) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both means of each rule in either set. The mean of a missing rule is 0."""
    keys, rule = _number_keys(np.concatenate((one.keys, other.keys)))
    first, second = np.zeros(len(keys)), np.zeros(len(keys))
    first[rule[: len(one.keys)]] = one.means
    second[rule[len(one.keys) :]] = other.means
    return first, second


def overlap(one: Uses, other: Uses) -> tuple[float, float, float]:
    """Return common shares of rules and uses, and the Jaccard index, for rules with at least half a use."""
    first, second = align_means(one, other)
    here, there = first >= _MIN_USES, second >= _MIN_USES
    both = here & there
    uses = (first[both].sum() + second[both].sum()) / (first[here].sum() + second[there].sum())
    jaccard = both.sum() / (here | there).sum()
    return float(2 * both.sum() / (here.sum() + there.sum())), float(uses), float(jaccard)


def run_chain(batch: Batch, seed: int, sweeps: int) -> dict[str, Uses]:
    """Return a chain's estimates by name: averages after 8, 16, … sweeps, and means of thinned draws."""
    model, schedule = model_over(batch), stratified_schedule()
    kernel = build(model, batch, blocks=Blocks.suited_to(batch.size))
    state = kernel.init(seed)
    draws = empty_table(batch.longest_rule)
    estimates: dict[str, Uses] = {}
    for number in range(1, schedule.burn_in + sweeps + 1):
        numbers = np.full(batch.size, number, np.int64)
        averaged = number - schedule.burn_in
        plan = SweepPlan(
            numbers, schedule.stages(numbers), schedule.powers(numbers), np.full(batch.size, averaged > 0),
            avoid_current=schedule.avoid_current,
        )  # fmt: skip
        state, _ = kernel.step(seed, state, plan)
        if averaged > 0 and averaged % _THINNING == 0 and averaged <= _THINNING * _DRAWS[-1]:
            draws = count_rules(batch, state.derivations, draws, model, 1)
            if (drawn := averaged // _THINNING) in _DRAWS:
                rows = draws.rows[draws.tags > 0]
                means = rows[:, COUNT].astype(np.float64) / drawn
                estimates[f"{drawn} draws"] = Uses(rows[:, [KEY_HIGH, KEY_LOW]].copy(), means)
        if averaged >= 8 and averaged & (averaged - 1) == 0:
            estimates[f"{averaged} sweeps"] = averaged_uses(state.averages)
    return estimates


def main(
    source: BitextFile,
    target: BitextFile,
    alignment: BitextFile,
    pairs: Annotated[int, typer.Option(help="Use only the first N pairs.")] = 3_000,
    sweeps: Annotated[int, typer.Option(help="Averaged sweeps of the long runs, a power of two.")] = 1_024,
    seed: Annotated[int, typer.Option(help="Seed of the first chain.")] = 1,
) -> None:
    """Compare averages over sweeps with means over draws, and print a table."""
    batch = read_batch(Corpus(str(source), str(target), str(alignment), pairs))
    one, other = (run_chain(batch, seed + k, sweeps) for k in range(2))
    truth = other[f"{sweeps} sweeps"]
    rows = []
    for name, uses in one.items():
        rule_share, use_share, jaccard = overlap(uses, other[name])
        mean, true = align_means(uses, truth)
        shares = f"{rule_share:.1%}", f"{use_share:.1%}", f"{jaccard:.3f}", f"{overlap(uses, truth)[2]:.3f}"
        rows.append([name, f"{((mean - true) ** 2).sum():,.0f}", *shares])
    columns = ("estimate", "squared error", "common rules", "common uses", "Jaccard", "Jaccard with the long run")
    print(markdown_table(columns, rows))


if __name__ == "__main__":
    typer.run(main)
