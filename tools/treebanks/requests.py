"""Options of the parser."""

from dataclasses import dataclass
from typing import Annotated

from hierogram.daemon.shared_options import CurrentSample, Seed
from hierogram.storage.options import Option
from hierogram.storage.records.settings import BASES

MPD, MPP, MER = "mpd", "mpp", "mer"
METHODS = {
    MER: "tree with the largest expected counts of productions",
    MPD: "tree of the best derivation",
    MPP: "most frequently sampled tree",
}
"""Objectives of parsing [CGB09 §5]."""

MPP_DRAWS = 1000


@dataclass(frozen=True, slots=True)
class ParseRequest:
    """Options of parsing. None selects the default of the method or of the store."""

    method: Annotated[str, Option("Objective of parsing", values=METHODS)] = MER
    draws: Annotated[
        int | None,
        Option(
            "Derivations to sample per sentence. 0 uses exact expectations for mer.",
            min=0,
            shown="0 for mer, 1000 for mpp",
        ),
    ] = None
    root: Annotated[str | None, Option("Root label of whole sentences.", shown="TOP, or the label of the store")] = None
    base: Annotated[
        str | None,
        Option(
            "Base distribution for smoothing fragments",
            values=BASES,
            shown="as in training; pcfg for a file",
        ),
    ] = None
    seed: Seed = 1
    current_sample: CurrentSample = False
