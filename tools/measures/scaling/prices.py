"""Measure what blocks cost in likelihood: chains of several seeds under several blocks, beside sequential ones.

python -m hierogram.tools.measures.scaling.prices corpus.zh corpus.en align.gdfa --pairs 5000 -o prices.json

Each chain is written down when it is done, and one that is there already is not run again.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer

from hierogram.daemon.learning.kinds.kind import TrialOptions
from hierogram.daemon.learning.kinds.pairs import load_pairs
from hierogram.daemon.learning.kinds.synchronous import PhraseTrial, schedule_of
from hierogram.daemon.workers.options import parse_blocks
from hierogram.samplers.forests.batch import Batch
from hierogram.samplers.grammar.settings import PITMAN_YOR, RANDOM
from hierogram.samplers.synchronous.sweeps import Blocks
from hierogram.tools.measures.results import BitextFile, Corpus, Kept
from hierogram.tools.measures.sampling import SETTINGS, default_model, read_rows

SEQUENTIAL = "sequential"


class PricedChain(NamedTuple):
    """One chain: how it was sampled (`SEQUENTIAL` or blocks as in 32x64), its seed, and where it ended: natural-log
    likelihood of all rule tokens, rules in use."""

    scheme: str
    seed: int
    log_likelihood: float
    rules: int


def run(batch: Batch, scheme: str, seed: int, sweeps: int) -> PricedChain:
    """Return a chain by the store's default model and schedule."""
    blocks = None if scheme == SEQUENTIAL else Blocks(*parse_blocks(scheme))
    how = TrialOptions(seed, RANDOM, exact=blocks is None, blocks=blocks)
    model = default_model(batch, PITMAN_YOR, SETTINGS.strength)
    trial = PhraseTrial(model, batch, schedule_of(SETTINGS), how)
    for _ in range(sweeps):
        trial.sweep()
    chain = PricedChain(scheme, seed, trial.log_likelihood(), trial.table.rule_types)
    trial.close()
    return chain


def prices(chains: Sequence[PricedChain]) -> Iterator[tuple[str, float, float, float]]:
    """Yield each scheme in the order in which they come, with the mean and standard deviation of the log-likelihood,
    and by how many of sequential sampling's standard deviations the mean is above that of sequential sampling."""
    found = {chain.scheme: np.array([c.log_likelihood for c in chains if c.scheme == chain.scheme]) for chain in chains}
    base = found[SEQUENTIAL]
    spread = float(base.std(ddof=1))
    for scheme, values in found.items():
        mean = float(values.mean())
        yield scheme, mean, float(values.std(ddof=1)), (mean - float(base.mean())) / spread


def main(
    source: BitextFile,
    target: BitextFile,
    alignment: BitextFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="Chains, JSON.")] = Path("prices.json"),
    schemes: Annotated[str, typer.Option(help="Blocks, separated by commas.")] = "4x64,20x16,313x16",
    pairs: Annotated[int, typer.Option(min=2, help="The first n pairs.")] = 5000,
    sweeps: Annotated[int, typer.Option(min=1, help="Sweeps of each chain.")] = 100,
    seeds: Annotated[int, typer.Option(min=2, help="Chains of each scheme.")] = 5,
) -> None:
    """Sample a corpus in sequence and in blocks, and say what that changes of the log-likelihood."""
    rows = read_rows(Corpus(str(source), str(target), str(alignment), pairs))
    batch = load_pairs(rows, SETTINGS).batch
    kept = Kept(output)
    chains = [
        PricedChain(*kept.find(f"{scheme}, seed {seed}", partial(run, batch, scheme, seed, sweeps)))
        for seed in range(1, seeds + 1)
        for scheme in (SEQUENTIAL, *schemes.split(","))
    ]
    for scheme, mean, deviation, excess in prices(chains):
        print(
            f"{scheme}: log-likelihood {mean:,.0f} ± {deviation:,.0f}, "
            f"{excess:+.2f} standard deviations of sequential sampling"
        )


if __name__ == "__main__":
    typer.run(main)
