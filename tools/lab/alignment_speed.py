"""Time per link of the aligners' two link samplers against sentence length.

    python -m hierogram.tools.lab.alignment_speed

The draw from two candidates takes the same time at any length, the draw from all positions grows with it.
"""

import json
import time
from typing import Annotated

import numpy as np
import typer

LENGTHS = (10, 20, 40, 80, 160)
_WORDS = 20_000
_SWEEPS = 3


def measure_links(model: str, candidates: int, length: int, links: int) -> float:
    """Return nanoseconds a link, the least of several sweeps over sentences of one length.

    Their words are as unequally frequent as in a language.
    """
    from hierogram.samplers.alignment.bitext import make_direction, read_side
    from hierogram.samplers.alignment.models.sampler import build, chain_seed
    from hierogram.samplers.alignment.options import AlignerOptions

    random = np.random.default_rng(length)
    # Zipf's law by inversion: the k-th word is as frequent as 1/k.
    drawn = np.exp(random.random((2, links // length, length)) * np.log(_WORDS)).astype(int)
    sides = [read_side([" ".join(map(str, sentence)) for sentence in side]) for side in drawn]
    direction = make_direction(*sides)
    options = AlignerOptions(
        model=model,
        sweeps=10**6,
        chains=1,
        burn_in=10**5,
        thinning=1,
        candidates=candidates,
        lexical=0.001,
        similarity=0,
    )
    kernel, key = build(options, direction), chain_seed(1, 0, 0)
    state = kernel.init(key)
    least = float("inf")
    for sweep in range(1, _SWEEPS + 2):
        started = time.perf_counter()
        state, _ = kernel.step(key, state, options.plan(sweep))
        # The first sweep compiles, and meets counts that are still far from any that later sweeps meet.
        if sweep > 1:
            least = min(least, time.perf_counter() - started)
    return least / len(state.chain.links) * 1e9


def speed(
    links: Annotated[int, typer.Option(min=1_000, help="Links at each length.")] = 100_000,
    candidates: Annotated[int, typer.Option(min=2, help="Candidates of the constant-time draw.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON for programs.")] = False,
) -> None:
    """Measure nanoseconds a link at several sentence lengths, for each model and link sampler."""
    from hierogram.samplers.alignment.models.registry import MODELS
    from hierogram.samplers.alignment.options import ALL_POSITIONS

    results = []
    if not as_json:
        print(f"{'model':<8} {'drawn from':<12}" + "".join(f"{length:>8}" for length in LENGTHS))
    for model in MODELS:
        for number in (candidates, ALL_POSITIONS):
            row = [measure_links(model, number, length, links) for length in LENGTHS]
            results += [
                {"model": model, "candidates": number, "length": length, "nanoseconds": nanoseconds}
                for length, nanoseconds in zip(LENGTHS, row, strict=True)
            ]
            if not as_json:
                print(
                    f"{model:<8} {number or 'all':<12}" + "".join(f"{nanoseconds:8.0f}" for nanoseconds in row),
                    flush=True,
                )
    if as_json:
        print(json.dumps(results, indent=2))


if __name__ == "__main__":
    typer.run(speed)
