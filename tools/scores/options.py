"""Options of scoring by the daemon."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hierogram.storage.options import Option, Options


@dataclass(frozen=True, slots=True)
class ScoringOptions(Options):
    """Scoring of stored pairs by the daemon."""

    share: Annotated[float, Option("Maximum share of one CPU core for scoring. 0 disables scoring.", min=0, max=1)] = (
        0.05
    )
    max_pairs: Annotated[
        int,
        Option(
            "Maximum number of pairs. Larger stores are not scored, because counts of all words and rules must fit in "
            "memory.",
            min=0,
        ),
    ] = 100_000
    pause_seconds: ClassVar[float] = 60.0
    """Pause between two rounds over all pairs."""
