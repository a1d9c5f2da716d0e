"""What may be asked of the aligner, as plain values: importing this module imports neither numpy nor numba."""

from dataclasses import dataclass

from hierogram.samplers.alignment.models.registry import DEFAULT_MODEL

BOTH, FORWARD, BACKWARD = "both", "forward", "backward"
DIRECTIONS = (BOTH, FORWARD, BACKWARD)
"""Forward: each target word gets at most one source word, as in P(target | source); backward: the other way about."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to align and how; None takes the model's default. `similarity`: the prior for words spelled alike."""

    model: str = DEFAULT_MODEL
    direction: str = BOTH
    symmetrization: str = "gdfa"
    sweeps: int | None = None
    chains: int | None = None
    candidates: int | None = None
    similarity: float | None = None
    seed: int = 1
    threads: int | None = None
    keep_case: bool = False
