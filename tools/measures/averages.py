"""How far expected uses are from those of a long run: averages over sweeps, against means over retained draws.

python -m hierogram.tools.measures.averages corpus.zh corpus.en align.gdfa --pairs 3000

Two chains by the default schedule. What one of them says after so many sweeps is compared with what the other says at
the end of all: the squared error summed over rules. Of the rules with half a use or more it is told how many both
have: their share of each grammar's rules and of their uses (means), and of the rules that either has (Jaccard).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NamedTuple, cast

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.samplers.counts.chain import ChainState
from hierogram.samplers.counts.deltas import count_rules
from hierogram.samplers.counts.table import COUNT, KEY_HIGH, KEY_LOW, RuleTable, empty_table
from hierogram.samplers.forests.averages import Averages, empty_averages
from hierogram.samplers.forests.batch import Batch, initial_state
from hierogram.samplers.forests.fragments import key_of_hashes
from hierogram.samplers.grammar.schedules import quick_schedule
from hierogram.samplers.grammar.settings import RANDOM
from hierogram.samplers.grammar.uses import ONE_USE
from hierogram.samplers.synchronous.passes import SweepPlan
from hierogram.samplers.synchronous.sweeps import Blocks, build
from hierogram.tools.measures.results import Corpus
from hierogram.tools.measures.sampling import load

_THINNING = 10
_DRAWS = (8, 16, 32, 64)
_LEAST = 0.5


class Uses(NamedTuple):
    """Expected uses of rules: `keys` uint64[R, 2], `means` float64[R]."""

    keys: NDArray[np.uint64]
    means: NDArray[np.float64]


def averaged_uses(averages: Averages) -> Uses:
    """What the averages expect, of all pairs together, all entries counted."""
    size = averages.taken
    places = np.repeat(averages.first[:-1] - np.cumsum(size) + size, size) + np.arange(int(size.sum()))
    entry = averages.entry[places]
    means = entry["uses"] / (np.repeat(averages.sweeps, size) * float(ONE_USE))
    mask = np.uint64(0xFFFFFFFFFFFFFFFF)
    hashes = zip(entry["source_hash"], entry["target_hash"], strict=True)
    key = cast("Callable[..., tuple[int, int]]", key_of_hashes)
    keys = np.array([key(source, target, mask) for source, target in hashes], np.uint64).reshape(-1, 2)
    found, rule = np.unique(keys, axis=0, return_inverse=True)
    sums: NDArray[np.float64] = np.bincount(rule.ravel(), means, len(found)).astype(np.float64)
    return Uses(found, sums)


def drawn_uses(table: RuleTable, draws: int) -> Uses:
    """The counts of so many draws, divided by their number."""
    rows = table.rows[table.tags > 0]
    return Uses(rows[:, [KEY_HIGH, KEY_LOW]].copy(), rows[:, COUNT].astype(np.float64) / draws)


def together(one: Uses, other: Uses) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both means of each rule that either has."""
    keys, rule = np.unique(np.concatenate((one.keys, other.keys)), axis=0, return_inverse=True)
    rule = rule.ravel()
    first, second = np.zeros(len(keys)), np.zeros(len(keys))
    first[rule[: len(one.keys)]] = one.means
    second[rule[len(one.keys) :]] = other.means
    return first, second


def squared_error(one: Uses, other: Uses) -> float:
    """The squared difference, summed over rules."""
    first, second = together(one, other)
    return float(((first - second) ** 2).sum())


class Shared(NamedTuple):
    """Of rules with half a use or more: the share of a grammar's rules that both have, of its uses, and Jaccard."""

    rules: float
    uses: float
    jaccard: float


def shared(one: Uses, other: Uses) -> Shared:
    """What two grammars share."""
    first, second = together(one, other)
    here, there = first >= _LEAST, second >= _LEAST
    both = here & there
    uses = (first[both].sum() + second[both].sum()) / (first[here].sum() + second[there].sum())
    jaccard = both.sum() / (here | there).sum()
    return Shared(float(2 * both.sum() / (here.sum() + there.sum())), float(uses), float(jaccard))


def chain(batch: Batch, corpus: Corpus, seed: int, sweeps: int) -> dict[str, Uses]:
    """What a chain says after so many sweeps, by name: averages after powers of two, and thinned draws."""
    _, model = load(corpus)
    kernel = build(model, batch, blocks=Blocks.suited_to(batch.size))
    derivations = initial_state(seed, batch, RANDOM)
    state = ChainState(derivations, count_rules(batch, derivations, empty_table(batch.longest_rule), model))
    schedule = quick_schedule()
    draws = empty_table(batch.longest_rule)
    found: dict[str, Uses] = {}
    for number in range(1, schedule.burn_in + sweeps + 1):
        averaged = number - schedule.burn_in
        if averaged == 1:
            state = state._replace(averages=empty_averages(batch))
        numbers = np.full(batch.size, number, np.int64)
        plan = SweepPlan(
            numbers, schedule.stages(numbers), schedule.powers(numbers), True, np.full(batch.size, averaged > 0),
            schedule.leaving,
        )  # fmt: skip
        state, _ = kernel.step(seed, state, plan)
        if averaged > 0 and averaged % _THINNING == 0 and averaged <= _THINNING * _DRAWS[-1]:
            draws = count_rules(batch, state.derivations, draws, model)
            if averaged // _THINNING in _DRAWS:
                found[f"{averaged // _THINNING} draws"] = drawn_uses(draws, averaged // _THINNING)
        if averaged >= 8 and averaged & (averaged - 1) == 0:
            found[f"{averaged} sweeps"] = averaged_uses(state.averages)
    return found


def main(
    source: Annotated[Path, typer.Argument(help="Source sides, a sentence a line.")],
    target: Annotated[Path, typer.Argument(help="Target sides.")],
    alignment: Annotated[Path, typer.Argument(help="Links.")],
    pairs: Annotated[int, typer.Option(help="Pairs to take.")] = 3_000,
    sweeps: Annotated[int, typer.Option(help="Sweeps of the long runs, a power of two.")] = 1_024,
    seed: Annotated[int, typer.Option(help="Seed of the first chain.")] = 1,
) -> None:
    """Compare averages over sweeps with means over draws."""
    corpus = Corpus(str(source), str(target), str(alignment), pairs=pairs, seed=seed, threads=1)
    batch, _ = load(corpus)
    one, other = (chain(batch, corpus, seed + k, sweeps) for k in range(2))
    truth = other[f"{sweeps} sweeps"]
    typer.echo("| | squared error | two chains share: rules | uses | Jaccard | with the long run: Jaccard |")
    typer.echo("|---|---:|---:|---:|---:|---:|")
    for name, uses in one.items():
        two, long = shared(uses, other[name]), shared(uses, truth)
        cells = f"{two.rules:.1%} | {two.uses:.1%} | {two.jaccard:.3f} | {long.jaccard:.3f}"
        typer.echo(f"| {name} | {squared_error(uses, truth):,.0f} | {cells} |")


if __name__ == "__main__":
    typer.run(main)
