"""Section `[scores]` of the configuration."""

from hierogram.daemon.configuration import Section, declared
from hierogram.tools.scores.records import KeepOptions


class ScoresSection(Section):
    """Scores of stored pairs under what is learned."""

    share: float = declared(KeepOptions, "share")
    most_pairs: int = declared(KeepOptions, "most_pairs")
    pause_seconds: float = declared(KeepOptions, "pause_seconds")

    def options(self) -> KeepOptions:
        """Return the same as one value."""
        return KeepOptions(**dict(self))
