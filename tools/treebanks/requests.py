"""Options of the parser, declared once: importing this module imports neither numpy nor numba."""

from dataclasses import dataclass
from typing import Annotated

from hierogram.daemon.shared_options import CurrentSample, Seed
from hierogram.samplers.grammar.settings import BASES
from hierogram.storage.options import Option

MPD, MPP, MER = "mpd", "mpp", "mer"
METHODS = {
    MER: "tree of most expected rules",
    MPD: "tree of the best derivation",
    MPP: "tree drawn most often",
}
"""Ways to choose a tree, and what they mean [CGB09 §5]."""

_MPP_DRAWS = 1000


@dataclass(frozen=True, slots=True)
class ParseRequest:
    """Options of parsing; None takes the default of the method, or what the grammar's store says."""

    method: Annotated[str, Option("Tree to choose", values=METHODS)] = MER
    draws: Annotated[
        int | None,
        Option(
            "Derivations to draw; 0 takes exact expectations for mer.",
            min=0,
            shown="0 for mer, 1000 for mpp",
        ),
    ] = None
    root: Annotated[str | None, Option("Label over whole sentences.", shown="TOP, or as in the store")] = (
        None
    )
    base: Annotated[
        str | None,
        Option(
            "Base distribution that fragments are smoothed with",
            values=BASES,
            shown="that of the store's training; pcfg for a file",
        ),
    ] = None
    seed: Seed = 1
    current_sample: CurrentSample = False

    @property
    def draws_taken(self) -> int:
        """Return how many derivations of a sentence are drawn."""
        if self.draws is not None:
            return self.draws
        return _MPP_DRAWS if self.method == MPP else 0
