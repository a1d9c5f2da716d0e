"""What is said of a pair."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """Two words by their positions, and the probability that one rule emits both."""

    source: int
    target: int
    probability: float


@dataclass(frozen=True, slots=True)
class PairScore:
    """A pair under what is learned.

    `log_probability`: natural log of the pair's probability, per token of both sides. `evidence`: by how much it is
    more than that of the same words each on its own, per token. `unseen`: the share of words that are explained only by
    rules that no other pair uses. The errors are Monte Carlo standard errors: 0 of exact scores, None where one cannot
    be told. `pieces`: in how many a long pair was cut. `exact`: whether no mask was drawn. `links`: pairs of words that
    are emitted together, the most probable of each source word first.
    """

    tokens: int
    log_probability: float
    log_probability_error: float | None
    evidence: float
    unseen: float
    unseen_error: float | None
    pieces: int
    exact: bool
    links: tuple[Link, ...]
