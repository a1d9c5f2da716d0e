"""What may be asked of scores, and how the daemon keeps them."""

from dataclasses import dataclass
from typing import Annotated

from hierogram.storage.options import Option


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """How pairs are scored, and which are told."""

    below: Annotated[
        float | None, Option("Tell only pairs whose evidence is below this.", metavar="EVIDENCE", shown="all")
    ] = None
    masks: Annotated[int, Option("Masks a pair, where it is not scored exactly.", least=2, most=10_000)] = 12
    exact: Annotated[
        int, Option("Score pairs exactly up to this product of both sides' words.", least=0, most=2_500)
    ] = 100
    misfit: Annotated[
        float | None,
        Option(
            "Tell only pairs with a word that does not belong: with at least these log-odds.",
            metavar="ODDS",
            shown="all",
        ),
    ] = None
    links: Annotated[float, Option("Tell links of at least this probability.", above=0, most=1)] = 0.5


@dataclass(frozen=True, slots=True)
class KeepOptions:
    """How the daemon keeps scores of stored pairs."""

    share: Annotated[
        float, Option("Share of one core that scoring may take; 0: pairs are not scored.", least=0, most=1)
    ] = 0.05
    most_pairs: Annotated[
        int,
        Option("Stores of more pairs are not scored: what is known of words and rules has to be in memory.", least=0),
    ] = 100_000
    pause_seconds: Annotated[float, Option("Seconds between two rounds over all pairs.", least=0)] = 60.0
