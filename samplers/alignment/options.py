"""Options of an aligner run, as plain values. Importing this module imports neither numpy nor numba."""

from dataclasses import dataclass
from typing import NamedTuple

from hierogram.samplers.exceptions import AlignmentInputError

EXPECTED, POSTERIOR, GDFA = "expected", "posterior", "gdfa"
SYMMETRIZATIONS = {
    EXPECTED: "links with the highest expected F-score, by the mean probability of both directions",
    POSTERIOR: "links with a high mean probability of both directions, as in stores",
    "intersect": "links in both directions",
    "union": "links in either direction",
    "gd": "grow-diag",
    "gdf": "grow-diag-final",
    GDFA: "grow-diag-final-and",
}
"""Symmetrizations, with texts for help. All but the first two are from Koehn et al. (2003)."""


class AlignmentPlan(NamedTuple):
    """Plan of a sweep.

    `sweep`: number from 1. `stage`: stage 1 or 2 of the warm-up of bhmm-f, or 3 after it. `sampled`: True if the link
    posteriors of the sweep are added to the marginals.
    """

    sweep: int
    stage: int
    sampled: bool


@dataclass(frozen=True, slots=True)
class AlignerOptions:
    """Options of an aligner run. Raises `AlignmentInputError` if out of range or no sweep is sampled.

    - `burn_in`, `thinning`: sweeps after `burn_in` are sampled if their number is a multiple of `thinning`.
    - `lexical`, `jump`, `collocation`: strengths β, α, γ of the Dirichlet priors of [SA16].
    - `fertility`: strength of the fertility priors (bhmm-f).
    - `similarity`: prior count of two words with the same spelling. Similar words get a part of it.
    - `warming`: for bhmm-f, number of sweeps in each of two stages: words only, then words and jumps. For bhmm, number
      of sweeps in which β and α fall to their final values.
    - `unlinked`: prior probability of an unlinked word (bhmm-f).
    - `stems`: two of three chains use stems (`bitext.stem_side`) instead of words.
    """

    model: str
    sweeps: int
    chains: int
    burn_in: int
    thinning: int
    lexical: float
    similarity: float
    warming: int = 0
    jump: float = 1.0
    collocation: float = 0.0001
    fertility: float = 1.0
    unlinked: float = 0.17
    seed: int = 1
    stems: bool = False

    def __post_init__(self) -> None:
        for name, minimum in (("sweeps", 1), ("chains", 1), ("thinning", 1), ("burn_in", 0)):
            if getattr(self, name) < minimum:
                raise AlignmentInputError(f"{name} must be >= {minimum}, got {getattr(self, name)}")
        if self.burn_in >= self.sweeps or not self.is_sampled(self.sweeps - self.sweeps % self.thinning):
            raise AlignmentInputError(
                f"no samples left: {self.sweeps} sweeps with burn_in {self.burn_in} and thinning {self.thinning}: "
                "increase sweeps"
            )

    def is_sampled(self, sweep: int) -> bool:
        """Check if a sweep, numbered from 1, is sampled."""
        return sweep > self.burn_in and sweep % self.thinning == 0

    def uses_stems(self, chain: int) -> bool:
        """Check if a chain, numbered from 0, uses stems instead of words."""
        return self.stems and chain % 3 > 0

    def plan(self, sweep: int) -> AlignmentPlan:
        """Return the plan of a sweep, numbered from 1."""
        stage = 1 + (sweep > self.warming) + (sweep > 2 * self.warming)
        return AlignmentPlan(sweep, stage, self.is_sampled(sweep))
