"""Mutations of stored derivations and averages, 100,000 for each kind of grammar.

    python -m tests.daemon.campaigns.damaged_pairs --mutations 100000 [--kind phrases] [--seed 1] [--bounds]

`--bounds` compiles the kernels with numba's index checks, in a separate cache, so that an index outside an array
raises an error instead of reading other memory.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.daemon.learning.every_kind import CASES
from tests.daemon.learning.mutations import Fuzz, Outcome, learn_pairs

_BOUNDS = "NUMBA_BOUNDSCHECK"
_ROUNDS_PER_SWEEP = 8
"""A sweep takes longer than all other kernels, so only one round in eight includes a sweep."""


def run(kind: str, mutations: int, seed: int) -> tuple[Outcome, float]:
    """Damage at least `mutations` derivations of a kind. Returns the outcome and the seconds."""
    with tempfile.TemporaryDirectory() as folder:
        rows, settings = learn_pairs(kind, f"sqlite:///{Path(folder) / 'some.db'}")
    fuzz = Fuzz(rows, settings, seed)
    started = time.perf_counter()
    number = 0
    while fuzz.outcome.derivations < mutations:
        fuzz.round(sweep=number % _ROUNDS_PER_SWEEP == 0)
        number += 1
    return fuzz.outcome, time.perf_counter() - started


def main() -> None:
    """Run the campaign with the options of the command line, and print a line for each kind of grammar."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mutations", type=int, default=100_000, help="Mutations for each kind of grammar.")
    parser.add_argument("--kind", choices=list(CASES), help="The only kind of grammar to run.")
    parser.add_argument("--seed", type=int, default=1, help="Seed of the mutations.")
    parser.add_argument("--bounds", action="store_true", help="Check every index of the kernels.")
    options = parser.parse_args()
    if options.bounds and os.environ.get(_BOUNDS) != "1":
        # Numba reads the variable when it is imported.
        cache = os.environ.get("HIEROGRAM_CACHE") or str(Path.home() / ".cache" / "hierogram-bounds")
        environment = os.environ | {_BOUNDS: "1", "HIEROGRAM_CACHE": cache}
        os.execve(sys.executable, [sys.executable, "-m", "tests.daemon.campaigns.damaged_pairs", *sys.argv[1:]],
                  environment)  # fmt: skip
    for kind in [options.kind] if options.kind else CASES:
        done, seconds = run(kind, options.mutations, options.seed)
        print(
            f"{kind}: {done.derivations:,} derivations, {done.derivations_that_fit:,} of them still fit;"
            f" {done.averages:,} averages, {done.averages_that_fit:,} of them still fit; {seconds:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
