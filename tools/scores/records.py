"""Options of scores, and the records of scores."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from hierogram.storage.options import Option, Options

if TYPE_CHECKING:
    from hierogram.storage.records.pairs import ScoreRow


@dataclass(frozen=True, slots=True)
class KeepOptions(Options):
    """Scoring of stored pairs by the daemon."""

    share: Annotated[float, Option("Maximum share of one CPU core for scoring; 0 disables scoring.", min=0, max=1)] = (
        0.05
    )
    max_pairs: Annotated[
        int,
        Option(
            "Do not score stores of more pairs, because scoring needs statistics of all words and rules in memory.",
            min=0,
        ),
    ] = 100_000
    pause_seconds: ClassVar[float] = 60.0
    """Pause between two rounds over all pairs."""


@dataclass(frozen=True, slots=True)
class Link:
    """Link of two words by position, with the probability that one rule emits both."""

    source: int
    target: int
    probability: float


@dataclass(frozen=True, slots=True)
class Misfit:
    """The word of a side that fits least, by position, and its log-odds: natural logarithm of the odds that it replaces
    another word.
    """

    position: int
    odds: float


@dataclass(frozen=True, slots=True)
class PairScore:
    """Score of a pair under the learned grammar.

    `doubt` summarizes the other numbers; higher is worse. `log_probability` is the natural logarithm of the pair's
    probability, per token of both sides. `evidence` is its excess over the log-probability of the same words without
    rules for both sides, per token. `unseen` is the share of words that only rules without another pair explain.
    `pieces` is
    the number of pieces of a long pair. If `exact` is False, derivations across the cuts are missing and the
    probability is
    a lower bound. `source_misfit` and `target_misfit` are the words that fit least, or None in a small store. `links`
    are
    words that one rule emits, for each source word in order of probability.
    """

    tokens: int
    doubt: float
    log_probability: float
    evidence: float
    unseen: float
    pieces: int
    exact: bool
    source_misfit: Misfit | None
    target_misfit: Misfit | None
    links: tuple[Link, ...]


def score_of(row: "ScoreRow") -> PairScore:
    """Return a stored row as a score."""
    links = []
    for link in row.links.split():
        place, probability = link.split(":")
        source, target = place.split("-")
        links.append(Link(int(source), int(target), float(probability)))
    return PairScore(
        row.tokens,
        row.doubt,
        row.log_probability,
        row.evidence,
        row.unseen,
        row.pieces,
        row.exact,
        _misfit(row.source_misfit, row.source_misfit_word),
        _misfit(row.target_misfit, row.target_misfit_word),
        tuple(links),
    )


def _misfit(odds: float | None, position: int | None) -> Misfit | None:
    return None if odds is None or position is None else Misfit(position, odds)
