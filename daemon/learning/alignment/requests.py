"""Options of the aligner, declared once: importing this module imports neither numpy nor numba."""

from dataclasses import dataclass
from typing import Annotated

from hierogram.samplers.alignment.models.registry import DEFAULT_MODEL, described_default, every_model
from hierogram.samplers.alignment.options import POSTERIOR, SYMMETRIZATIONS
from hierogram.samplers.grammar.settings import FLAT, SLICES
from hierogram.storage.options import Option

BOTH, FORWARD, BACKWARD = "both", "forward", "backward"
DIRECTIONS = {
    BOTH: "both ways, made one",
    FORWARD: "a source word for each target word",
    BACKWARD: "a target word for each source word",
}
"""Forward is the direction of P(target | source), backward the other one."""


@dataclass(frozen=True, slots=True)
class Request:
    """Options of aligning; None takes the model's default."""

    model: Annotated[str, Option("Model", values={model.name: model.summary for model in every_model().values()})] = (
        DEFAULT_MODEL
    )
    direction: Annotated[str, Option("Direction", values=DIRECTIONS, expert=True)] = BOTH
    symmetrization: Annotated[
        str,
        Option(
            "How both directions become one",
            values=SYMMETRIZATIONS,
            flags=("--symmetrize",),
        ),
    ] = POSTERIOR
    sweeps: Annotated[int | None, Option("Sweeps of each chain.", least=1, shown="by model and corpus")] = None
    chains: Annotated[int | None, Option("Chains to average over.", least=1, shown="by model and corpus")] = None
    candidates: Annotated[
        int | None,
        Option(
            "Positions that a link is drawn from: 2 or more for constant time, 0 for all.",
            least=0,
            shown=described_default("candidates"),
            expert=True,
        ),
    ] = None
    similarity: Annotated[
        float | None,
        Option("Prior for words spelled alike; 0: none.", least=0, shown=described_default("similarity"), expert=True),
    ] = None
    stems: Annotated[
        bool | None,
        Option("Of three chains two know words by their first letters.", shown=described_default("stems"), expert=True),
    ] = None
    seed: Annotated[int, Option("Seed of the random streams.")] = 1
    threads: Annotated[
        int | None, Option("Threads; the result does not depend on them.", least=1, shown="one a core")
    ] = None
    chunks: Annotated[
        bool, Option("With itg: link words without a link of their own to the word that their chunk has.", expert=True)
    ] = False
    slices: Annotated[str, Option("With itg: slice variables", values=SLICES, expert=True)] = FLAT
    keep_case: Annotated[bool, Option("Words that differ in case alone are different words.", expert=True)] = False
