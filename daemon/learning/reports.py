"""What learning did."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LearnReport:
    """What learning did: pairs and sweeps, time, and the grammar before and after.

    The *before* figures are those of the initial state of the pairs that were new, counted together with what was there
    (every node a rule of its own); `curve` holds (sweep, log-likelihood) as far as computed. A run that is not
    `finished` was asked to stop. `burn_in` of the sweeps took new pairs, or trees, through their schedule.
    """

    pairs: int
    sweeps: int
    pair_sweeps: int
    seconds: float
    sampling_seconds: float
    rules_before: int
    tokens_before: int
    log_likelihood_before: float
    rules_after: int
    tokens_after: int
    log_likelihood_after: float
    curve: list[tuple[int, float]] = field(default_factory=list)
    finished: bool = True
    burn_in: int = 0
