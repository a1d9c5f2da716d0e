"""Compare the log-likelihoods of sampling in blocks and of sequential sampling, over several seeds.

    python -m hierogram.tools.lab.measures.block_losses corpus.zh corpus.en align.gdfa --pairs 5000 -o block_losses.json

Each finished chain is cached in the output file.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Annotated

import typer

from hierogram.daemon.learning.kinds.synchronous import make_schedule
from hierogram.daemon.workers.options import parse_blocks
from hierogram.samplers.forests.derivations import Batch
from hierogram.samplers.grammar.settings import RANDOM
from hierogram.tools.lab.measures.results import BitextFile, Corpus, ResultCache
from hierogram.tools.lab.measures.sampling import SETTINGS, PhraseTrial, TrialOptions, model_over, read_batch

SEQUENTIAL = "sequential"


def run(batch: Batch, scheme: str, seed: int, sweeps: int) -> float:
    """Sample a chain sequentially, or in blocks such as 32x64. Returns the final log-likelihood."""
    blocks = None if scheme == SEQUENTIAL else parse_blocks(scheme)
    options = TrialOptions(seed, RANDOM, exact=blocks is None, blocks=blocks)
    trial = PhraseTrial(model_over(batch), batch, make_schedule(SETTINGS), options)
    for _ in range(sweeps):
        trial.sweep()
    end = trial.log_likelihood()
    trial.close()
    return end


def block_losses(ends: Mapping[str, Sequence[float]]) -> Iterator[tuple[str, float, float, float]]:
    """Yield scheme, mean, standard deviation, and gain over `SEQUENTIAL` in its standard deviations."""
    base = ends[SEQUENTIAL]
    for scheme, values in ends.items():
        yield scheme, mean(values), stdev(values), (mean(values) - mean(base)) / stdev(base)


def main(
    source: BitextFile,
    target: BitextFile,
    alignment: BitextFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="JSON file of final log-likelihoods.")] = Path(
        "block_losses.json"
    ),
    schemes: Annotated[
        str, typer.Option(help="Numbers of pairs per block x blocks per round, separated by commas.")
    ] = "4x64,20x16,313x16",
    pairs: Annotated[int, typer.Option(min=2, help="Use only the first N pairs.")] = 5000,
    sweeps: Annotated[int, typer.Option(min=1, help="Number of sweeps of each chain.")] = 100,
    seeds: Annotated[int, typer.Option(min=2, help="Number of chains of each scheme.")] = 5,
) -> None:
    """Sample a corpus sequentially and in blocks, and report the change of the log-likelihood."""
    batch = read_batch(Corpus(str(source), str(target), str(alignment), pairs))
    cache = ResultCache(output)
    ends = {
        scheme: [
            cache.find(f"{scheme}, seed {seed}", partial(run, batch, scheme, seed, sweeps))
            for seed in range(1, seeds + 1)
        ]
        for scheme in (SEQUENTIAL, *schemes.split(","))
    }
    for scheme, middle, deviation, excess in block_losses(ends):
        print(
            f"{scheme}: final log-likelihood {middle:,.0f} ± {deviation:,.0f}, "
            f"gain {excess:+.2f} standard deviations of sequential sampling"
        )


if __name__ == "__main__":
    typer.run(main)
