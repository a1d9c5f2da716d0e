"""What is said of a pair."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hierogram.storage.records.scores import ScoreRow


@dataclass(frozen=True, slots=True)
class Link:
    """Two words by their positions, and the probability that one rule emits both."""

    source: int
    target: int
    probability: float


@dataclass(frozen=True, slots=True)
class Misfit:
    """The word of a side that belongs least, by its position, and the natural log of the odds that it stands in the
    place of another one."""

    position: int
    odds: float


@dataclass(frozen=True, slots=True)
class PairScore:
    """A pair under what is learned.

    `log_probability`: natural log of the pair's probability, per token of both sides. `evidence`: by how much it is
    more than that of the same words each on its own, per token. `unseen`: the share of words that are explained only by
    rules that no other pair uses. The errors are Monte Carlo standard errors: 0 of exact scores, None where one cannot
    be told. `pieces`: in how many a long pair was cut. `exact`: whether no mask was drawn. `source_misfit`,
    `target_misfit`: the word of each side that belongs least, None where the store is too small to tell. `links`: pairs
    of words that are emitted together, the most probable of each source word first.
    """

    tokens: int
    log_probability: float
    log_probability_error: float | None
    evidence: float
    unseen: float
    unseen_error: float | None
    pieces: int
    exact: bool
    source_misfit: Misfit | None
    target_misfit: Misfit | None
    links: tuple[Link, ...]


def score_of(row: "ScoreRow") -> PairScore:
    """A score that the store keeps."""
    links = []
    for link in row.links.split():
        place, probability = link.split(":")
        source, target = place.split("-")
        links.append(Link(int(source), int(target), float(probability)))
    return PairScore(
        row.tokens,
        row.log_probability,
        row.log_probability_error,
        row.evidence,
        row.unseen,
        row.unseen_error,
        row.pieces,
        row.exact,
        _misfit(row.source_misfit, row.source_misfit_word),
        _misfit(row.target_misfit, row.target_misfit_word),
        tuple(links),
    )


def _misfit(odds: float | None, position: int | None) -> Misfit | None:
    return None if odds is None or position is None else Misfit(position, odds)
