"""Options of a diagnosis, and of questions for rules."""

from dataclasses import dataclass
from typing import Annotated

from hierogram.storage.options import Option


@dataclass(frozen=True, slots=True)
class ChainOptions:
    """Which chains are run, and what is written down of them."""

    chains: Annotated[int, Option("Chains, each with a seed of its own; cut, joined and random in turn.", least=2)] = 4
    sweeps: Annotated[int, Option("Sweeps of each chain after its burn-in.", least=8)] = 200
    warm_up: Annotated[
        int | None, Option("Sweeps of burn-in, of which nothing is kept.", least=0, shown="the schedule's", expert=True)
    ] = None
    every: Annotated[int, Option("Sweeps from one draw to the next.", least=1, expert=True)] = 2
    pairs: Annotated[int, Option("Only the first so many pairs of the store.", least=1)] = 3_000
    watched: Annotated[int, Option("Rules whose counts are watched, the most frequent ones.", least=0, expert=True)] = (
        2_000
    )
    links: Annotated[
        int,
        Option("Links that are watched in chains of the aligner, where the store aligned pairs.", least=0, expert=True),
    ] = 1_000
    seed: Annotated[int, Option("Seed of the first chain.", least=0)] = 1
    threads: Annotated[int, Option("Threads of the sampler.", least=1)] = 1


@dataclass(frozen=True, kw_only=True)
class RuleQuery:
    """Rules with these sides, most often used first."""

    source: Annotated[str | None, Option("Source side of the rules, exactly.", metavar="SIDE")] = None
    target: Annotated[str | None, Option("Target side of the rules, exactly.", metavar="SIDE")] = None
    limit: Annotated[int, Option("Rules to show, at most.", least=1)] = 20
