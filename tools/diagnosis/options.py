"""Options of a diagnosis."""

from dataclasses import dataclass
from typing import Annotated

from hierogram.daemon.shared_options import Seed, Threads
from hierogram.storage.options import Option


@dataclass(frozen=True, slots=True)
class ChainOptions:
    """Which chains are run, and what is written down of them."""

    chains: Annotated[int, Option("Chains, each with a seed of its own; cut, joined and random in turn.", min=2)] = 4
    sweeps: Annotated[int, Option("Sweeps of each chain after its burn-in.", min=8)] = 200
    pairs: Annotated[int, Option("Only the first so many pairs of the store.", min=1)] = 3_000
    seed: Seed = 1
    threads: Threads = None
