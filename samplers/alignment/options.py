"""Options of a run of the aligner, as plain values: importing this module imports neither numpy nor numba."""

from dataclasses import dataclass
from typing import NamedTuple

from hierogram.samplers.exceptions import AlignmentInputError
from hierogram.samplers.grammar.settings import FLAT

ALL_POSITIONS = 0
"""As a number of candidates: a link is drawn from all positions."""

POSTERIOR, GDFA = "posterior", "gdfa"
SYMMETRIZATIONS = {
    POSTERIOR: "the links that are likely in the mean of both directions",
    "intersect": "the links of both directions",
    "union": "those of either",
    "gd": "grow-diag",
    "gdf": "grow-diag-final",
    GDFA: "grow-diag-final-and",
}
"""How both directions become one alignment, and what this means; all but the first by the field's names
(Koehn et al. 2003)."""


class AlignmentPlan(NamedTuple):
    """One sweep of a chain: its number from 1, its stage of warming up, 1 to 3 (3: none), and whether it is sampled."""

    sweep: int
    stage: int
    sampled: bool


@dataclass(frozen=True, slots=True)
class AlignerOptions:
    """Everything that a run of one direction depends on.

    `sweeps` of each of `chains` chains; a sample each `thinning` sweeps after `burn_in`; a link is drawn from
    `candidates` positions, or from all (0). `lexical`, `jump`, `collocation`, `fertility`: strengths of the Dirichlet
    priors β, α, γ and the fertilities'; `unlinked`: prior probability of an unlinked word (bhmm-f); `similarity`: what
    the prior adds for words of the same spelling, and in proportion for similar ones. `warming`: sweeps by words alone,
    then as many by words and jumps (bhmm-f); sweeps in which the strengths β and α fall to these (bhmm). `stems`: of
    three chains two know words by their stems alone. `slices`: slice variables (itg). Raises `AlignmentInputError`
    where no sample would be taken.
    """

    model: str
    sweeps: int
    chains: int
    burn_in: int
    thinning: int
    candidates: int
    lexical: float
    similarity: float
    warming: int = 0
    jump: float = 1.0
    collocation: float = 0.0001
    fertility: float = 1.0
    unlinked: float = 0.17
    seed: int = 1
    stems: bool = False
    slices: str = FLAT

    def __post_init__(self) -> None:
        for name, least in (("sweeps", 1), ("chains", 1), ("thinning", 1), ("burn_in", 0), ("candidates", 0)):
            if getattr(self, name) < least:
                raise AlignmentInputError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if self.candidates == 1:
            raise AlignmentInputError("a link cannot be drawn from 1 candidate: give 2 or more, or 0 for all")
        if self.burn_in >= self.sweeps or not self.is_sampled(self.sweeps - self.sweeps % self.thinning):
            raise AlignmentInputError(
                f"of {self.sweeps} sweeps none would be sampled after {self.burn_in}, each {self.thinning}: ask more"
            )

    def is_sampled(self, sweep: int) -> bool:
        """Return whether a sample is taken at the sweep, numbered from 1."""
        return sweep > self.burn_in and sweep % self.thinning == 0

    def knows_stems(self, chain: int) -> bool:
        """Return whether the chain, numbered from 0, knows words by their stems alone."""
        return self.stems and chain % 3 > 0

    def plan(self, sweep: int) -> AlignmentPlan:
        """Return what is done in the sweep, numbered from 1."""
        stage = 1 + (sweep > self.warming) + (sweep > 2 * self.warming)
        return AlignmentPlan(sweep, stage, self.is_sampled(sweep))
