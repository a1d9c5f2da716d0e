"""Compare `bhmm` chains that start from different links, by mean ln P and share of linked words.

    python -m hierogram.tools.lab.papers.alignment_starts corpus.es corpus.en --pairs 300

Target words are emitted, as in `hierogram align --direction forward`. P is the joint probability of links and words,
including the normalization of jumps. Chains have independent random numbers.
"""

import time
from math import lgamma
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.daemon.text.lines import read_sentences
from hierogram.samplers.alignment.bitext import Direction, make_direction, read_side
from hierogram.samplers.alignment.chain import UNLINKED, AlignmentChain, jump_share
from hierogram.samplers.alignment.model1 import model1_links
from hierogram.samplers.alignment.models.registry import options_for
from hierogram.samplers.alignment.models.sampler import AlignmentKernel, chain_seed
from hierogram.samplers.alignment.options import AlignerOptions
from hierogram.tools.lab.measures.results import BitextFile

MODEL1, HALF, UNLINKED_START = "model1", "half", "nothing"
STARTS = (MODEL1, HALF, UNLINKED_START)
"""Starts: the links of IBM Model 1, a random half of these links, and no links."""
_PARTS = 5
"""Number of parts of a chain. The means of each part are printed."""


def _log_products(start: float, factors: NDArray[np.generic]) -> float:
    """Return the sum of ln(start · (start + 1) · …) over products with the given numbers of factors."""
    values, times = np.unique(factors, return_counts=True)
    return sum(
        float(n) * (lgamma(start + x) - lgamma(start)) for x, n in zip(values.tolist(), times.tolist(), strict=True)
    )


def log_likelihood(chain: AlignmentChain, options: AlignerOptions, emitted_types: int) -> float:
    """Return the natural log of the joint probability of all links and words under `bhmm`.

    `emitted_types` is the number of distinct emitted words.
    """
    rows = chain.pairs.rows
    jumps = chain.jumps[:-1]
    log_p = _log_products(options.lexical, rows["count"][rows["key"] != 0])
    log_p -= _log_products(options.lexical * emitted_types, chain.totals["links"])
    shares = np.array([jump_share(chain.jumps, k) for k in range(len(jumps))])
    log_p += float(jumps @ np.log(shares))
    log_p -= _log_products(options.jump * len(jumps), jumps.sum(keepdims=True))
    return log_p + _log_products(options.jump, jumps)


def first_links(direction: Direction, start: str, seed: int) -> NDArray[np.int16]:
    """Return the links of a start, int16[N]: the position that each word is linked to, or `UNLINKED`."""
    links = model1_links(direction.bitext, len(direction.conditioning.vocabulary))
    if start == UNLINKED_START:
        links[:] = UNLINKED
    elif start == HALF:
        links[np.random.default_rng(seed).random(len(links)) < 0.5] = UNLINKED
    return links


def main(
    source: BitextFile,
    target: BitextFile,
    pairs: Annotated[int, typer.Option(min=1, help="Use only the first N pairs.")] = 2000,
    sweeps: Annotated[int | None, typer.Option(min=_PARTS, help="Sweeps of each chain.", show_default="2000")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the chains.")] = 1,
) -> None:
    """Run a chain from each start, and print the means of each fifth of its sweeps."""
    sides = [read_side(read_sentences(str(path))[:pairs]) for path in (source, target)]
    direction = make_direction(sides[1], sides[0])
    options = options_for("bhmm", pairs, sweeps)
    kernel = AlignmentKernel(options, direction)
    print("start", "sweep", "mean ln P", "linked words", "CPU seconds", sep="\t")
    for number, start in enumerate(STARTS):
        key = chain_seed(seed, 0, number)
        state, spent = kernel.init(key, first_links(direction, start, seed)), 0.0
        scores: list[tuple[float, float]] = []
        for sweep in range(1, options.sweeps + 1):
            started = time.process_time()
            state, _ = kernel.step(key, state, options.plan(sweep))
            spent += time.process_time() - started
            likely = log_likelihood(state.chain, options, len(direction.emitted.vocabulary))
            scores.append((likely, float(np.mean(state.chain.links != UNLINKED))))
            if sweep % (options.sweeps // _PARTS) == 0:
                likely, share = np.mean(scores, axis=0)
                print(start, sweep, f"{likely:.0f}", f"{share:.3f}", f"{spent:.1f}", sep="\t", flush=True)
                scores = []


if __name__ == "__main__":
    typer.run(main)
