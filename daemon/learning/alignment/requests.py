"""Options of the aligner. Importing this module imports neither numpy nor numba."""

from dataclasses import dataclass
from typing import Annotated

from hierogram.daemon.shared_options import Seed, Threads
from hierogram.samplers.alignment.models.registry import DEFAULT_MODEL, every_model
from hierogram.samplers.alignment.options import EXPECTED, SYMMETRIZATIONS
from hierogram.storage.options import Option

BOTH, FORWARD, BACKWARD = "both", "forward", "backward"
DIRECTIONS = {
    BOTH: "both ways, made one",
    FORWARD: "a source word for each target word",
    BACKWARD: "a target word for each source word",
}
"""Forward is the direction of P(target | source), backward is the reverse."""


@dataclass(frozen=True, slots=True)
class Request:
    """Options of aligning; None takes the model's default."""

    model: Annotated[str, Option("Model", values={model.name: model.summary for model in every_model().values()})] = (
        DEFAULT_MODEL
    )
    direction: Annotated[str, Option("Direction", values=DIRECTIONS)] = BOTH
    symmetrization: Annotated[
        str,
        Option(
            "How both directions become one",
            values=SYMMETRIZATIONS,
            flags=("--symmetrize",),
        ),
    ] = EXPECTED
    sweeps: Annotated[int | None, Option("Sweeps of each chain.", min=1, shown="by model and corpus")] = None
    chains: Annotated[int | None, Option("Chains to average over.", min=1, shown="by model and corpus")] = None
    seed: Seed = 1
    threads: Threads = None
