"""Options of the aligner. This module imports neither numpy nor numba, so that commands start quickly."""

from dataclasses import dataclass
from typing import Annotated

from hierogram.daemon.shared_options import Seed, Threads
from hierogram.samplers.alignment.models.registry import ALL_MODELS, DEFAULT_MODEL
from hierogram.samplers.alignment.options import EXPECTED, SYMMETRIZATIONS
from hierogram.storage.options import Option

BOTH, FORWARD, BACKWARD = "both", "forward", "backward"
DIRECTIONS = {
    BOTH: "both directions, symmetrized",
    FORWARD: "one source word for each target word",
    BACKWARD: "one target word for each source word",
}
"""Forward is the direction of P(target | source), backward is the reverse."""


@dataclass(frozen=True, slots=True)
class AlignOptions:
    """Options of word alignment, as requested by users. Defaults of None depend on model and corpus."""

    model: Annotated[
        str, Option("Alignment model", values={model.name: model.summary for model in ALL_MODELS.values()})
    ] = DEFAULT_MODEL
    direction: Annotated[str, Option("Direction of the links", values=DIRECTIONS)] = BOTH
    symmetrization: Annotated[
        str, Option("Symmetrization of both directions", values=SYMMETRIZATIONS, flags=("--symmetrize",))
    ] = EXPECTED
    sweeps: Annotated[
        int | None, Option("Sweeps per chain.", min=1, shown="depends on the model and the size of the corpus")
    ] = None
    chains: Annotated[
        int | None,
        Option("Number of chains to average.", min=1, shown="depends on the model and the size of the corpus"),
    ] = None
    seed: Seed = 1
    threads: Threads = None
