"""Options of convergence diagnosis."""

from dataclasses import dataclass
from typing import Annotated

from hierogram.daemon.shared_options import Seed
from hierogram.storage.options import Option


@dataclass(frozen=True, slots=True)
class ChainOptions:
    """Number, length and pairs of the chains."""

    chains: Annotated[
        int, Option("Number of chains. They start in turn from cut, joined and random derivations.", min=2)
    ] = 4
    sweeps: Annotated[int, Option("Sweeps per chain after burn-in.", min=8)] = 200
    pairs: Annotated[int, Option("Number of pairs to use, starting with the first.", min=1)] = 3_000
    seed: Seed = 1
    threads: Annotated[int, Option("Number of threads. Results do not depend on it.", min=1)] = 1
