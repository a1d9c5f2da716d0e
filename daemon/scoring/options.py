"""What may be asked of scores."""

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
    links: Annotated[float, Option("Tell links of at least this probability.", above=0, most=1)] = 0.5
