"""Compare sampling in blocks with sequential sampling, by number of pairs.

    python -m hierogram.tools.lab.measures.blocks corpus.zh corpus.en align.gdfa -o blocks.png

A corpus consists of adjacent pairs of the bitext. Two chains sample each corpus sequentially. Two other chains sample
it in blocks of one pair, 64 per round, like stores of 1,024 pairs. *Distances* are total variation distances between
the shares of rules in all uses, from 0 to 1.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.pairs import load_pairs
from hierogram.samplers.counts.table import COUNT, KEY_LOW
from hierogram.samplers.forests.derivations import Batch
from hierogram.samplers.grammar.schedules import Schedule
from hierogram.samplers.synchronous.sweeps import Blocks
from hierogram.tools.lab.measures.results import BitextFile, Corpus, save_figure, write_table
from hierogram.tools.lab.measures.sampling import (
    SETTINGS,
    StorelessChain,
    StorelessChainOptions,
    build_model_for,
    read_rows,
)

_BLOCKS = Blocks(1, 64)
_CHAINS = 2
"""Number of chains of each scheme, sequential or in blocks."""
_MAX_CORPORA = 200
_SWEEPS_PER_STATE = 5
"""Number of sweeps between two states that are included in means, after the first third of a chain."""


class ChainMeans(NamedTuple):
    """Means of a chain: natural log-likelihood, sorted keys of R rules, and their shares of uses."""

    log_likelihood: float
    keys: NDArray[np.uint64]
    shares: NDArray[np.float64]


class BlockDifference(NamedTuple):
    """Difference between sampling one corpus in blocks and sequentially."""

    pairs: int
    # Log-likelihood in blocks minus sequential log-likelihood, in nats per pair.
    gain: float
    # Mean distance of a chain in blocks from a sequential chain, and of two chains of the same scheme.
    distance: float
    distance_within_scheme: float


def total_variation(first: ChainMeans, second: ChainMeans) -> float:
    """Return the total variation distance between the shares of rules, from 0 to 1."""
    keys = np.union1d(first.keys, second.keys)
    shares = np.zeros((2, len(keys)))
    for row, means in zip(shares, (first, second), strict=True):
        row[np.searchsorted(keys, means.keys)] = means.shares
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def sample(batch: Batch, blocks: Blocks | None, sweeps: int, seed: int) -> ChainMeans:
    """Run a chain, sequentially if `blocks` is None. Returns means over its last two thirds."""
    options = StorelessChainOptions(seed, threads=2, sequential=blocks is None, blocks=blocks)
    chain = StorelessChain(build_model_for(batch), batch, Schedule(), options)
    likelihoods: list[float] = []
    state_keys: list[NDArray[np.uint64]] = []
    state_shares: list[NDArray[np.float64]] = []
    for number in range(1, sweeps + 1):
        chain.sweep()
        if 3 * number > sweeps and number % _SWEEPS_PER_STATE == 0:
            table = chain.state.table
            rules = table.rows[np.flatnonzero(table.tags)]
            likelihoods.append(chain.log_likelihood())
            state_keys.append(rules[:, KEY_LOW])
            state_shares.append(rules[:, COUNT] / rules[:, COUNT].sum())
    chain.close()
    keys, indices = np.unique(np.concatenate(state_keys), return_inverse=True)
    shares = np.bincount(indices, np.concatenate(state_shares), len(keys)) / len(state_shares)
    return ChainMeans(float(np.mean(likelihoods)), keys, shares)


def compare(batch: Batch, sweeps: int, seed: int) -> BlockDifference:
    """Sample one corpus sequentially and in blocks by chains with seeds from `seed`, and compare them."""
    seeds = range(seed, seed + 2 * _CHAINS)
    sequential = [sample(batch, None, sweeps, chain_seed) for chain_seed in seeds[:_CHAINS]]
    in_blocks = [sample(batch, _BLOCKS, sweeps, chain_seed) for chain_seed in seeds[_CHAINS:]]
    gain = sum(means.log_likelihood for means in in_blocks) - sum(means.log_likelihood for means in sequential)
    return BlockDifference(
        batch.size,
        gain / (_CHAINS * batch.size),
        float(np.mean([total_variation(first, second) for first in sequential for second in in_blocks])),
        float(np.mean([total_variation(*sequential), total_variation(*in_blocks)])),
    )


def measure(corpus: Corpus, sizes: Sequence[int], sweeps: int) -> Iterator[BlockDifference]:
    """Yield the results for up to 200 corpora of each size, without sizes above the bitext's."""
    rows = read_rows(corpus)
    for size in sizes:
        for first in range(0, min(_MAX_CORPORA * size, len(rows) - size + 1), size):
            yield compare(load_pairs(rows[first : first + size], SETTINGS).batch, sweeps, corpus.seed)


def summary(differences: Sequence[BlockDifference], size: int) -> dict[str, float]:
    """Return means and standard errors (`NAME_error`) of the results for corpora of `size` pairs."""
    rows = np.array([difference for difference in differences if difference.pairs == size])
    means = rows.mean(axis=0)
    errors = rows.std(axis=0, ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else np.full(4, np.nan)
    figures: dict[str, float] = {"pairs": size, "corpora": len(rows)}
    for column, name in enumerate(BlockDifference._fields[1:], 1):
        figures[name] = float(means[column])
        figures[f"{name}_error"] = float(errors[column])
    return figures


def draw(table: Sequence[dict[str, float]], path: Path) -> None:
    """Draw the log-likelihood gain of blocks and the distances against the number of pairs, as PNG."""
    with save_figure(path, 1, 2, size=(11, 4.2)) as (first_panel, second_panel):
        columns = {name: np.array([row[name] for row in table]) for name in table[0]}
        size = columns["pairs"]
        first_panel.errorbar(size, columns["gain"], 2 * columns["gain_error"], fmt="o-", capsize=3)
        first_panel.axhline(0, color="gray", linewidth=0.8)
        first_panel.set_ylabel("log-likelihood, blocks minus sequential, nats per pair")
        for name, style, label in (
            ("distance", "o-", "blocks and sequential"),
            ("distance_within_scheme", "s--", "two chains of one scheme"),
        ):
            second_panel.errorbar(size, columns[name], 2 * columns[f"{name}_error"], fmt=style, capsize=3, label=label)
        second_panel.set_ylabel("total variation of rules' shares")
        second_panel.legend()
        for panel in (first_panel, second_panel):
            panel.set_xscale("log")
            panel.set_xlabel("pairs")
            panel.axvline(1024, color="gray", linestyle=":", linewidth=0.8)
            panel.grid(alpha=0.3)


def main(
    source: BitextFile,
    target: BitextFile,
    alignment: BitextFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="PNG file; the table is written next to it.")] = Path(
        "blocks.png"
    ),
    sizes: Annotated[str, typer.Option(help="Corpus sizes in pairs, separated by commas.")] = "10,30,100,300,1000",
    pairs: Annotated[int, typer.Option(min=1, help="Use only the first N pairs.")] = 6000,
    sweeps: Annotated[int, typer.Option(min=15, help="Sweeps of each chain.")] = 300,
    seed: Annotated[int, typer.Option(help="Seed of the first chain.")] = 1,
) -> None:
    """Sample corpora of several sizes sequentially and in blocks, and draw the difference."""
    corpus = Corpus(str(source), str(target), str(alignment), pairs, seed)
    differences = list(measure(corpus, [int(size) for size in sizes.split(",")], sweeps))
    measured_sizes = dict.fromkeys(difference.pairs for difference in differences)
    rows = [summary(differences, size) for size in measured_sizes]
    write_table(output.with_suffix(".csv"), list(rows[0]), (row.values() for row in rows))
    draw(rows, output)
    for row in rows:
        gain = f"log-likelihood gain of blocks {row['gain']:+.4f} ± {row['gain_error']:.4f} nats per pair"
        distances = f"{row['distance']:.3f} between schemes, {row['distance_within_scheme']:.3f} within a scheme"
        print(f"{row['pairs']:,} pairs, {row['corpora']} corpora: {gain}; total variation {distances}")


if __name__ == "__main__":
    typer.run(main)
