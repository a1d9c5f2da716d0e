"""Options of scores, and scores as records."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from hierogram.storage.options import Option, Options

if TYPE_CHECKING:
    from hierogram.storage.records.pairs import ScoreRow


@dataclass(frozen=True, slots=True)
class KeepOptions(Options):
    """Options by which the daemon keeps scores of stored pairs."""

    share: Annotated[
        float, Option("Share of one core that scoring may take; 0: pairs are not scored.", min=0, max=1)
    ] = 0.05
    max_pairs: Annotated[
        int,
        Option("Stores of more pairs are not scored: what is known of words and rules has to be in memory.", min=0),
    ] = 100_000
    pause_seconds: ClassVar[float] = 60.0
    """Pause between two rounds over all pairs."""


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

    `doubt`: how doubtful the pair is, all in all. `log_probability`: natural log of the pair's probability, per token
    of both sides. `evidence`: by how much it is more than that of the same words each on its own, per token. `unseen`:
    the share of words that are explained only by rules that no other pair uses. `pieces`: in how many a long pair was
    cut. `exact`: whether it is one: else derivations across cuts are left out, and the probability is a lower bound.
    `source_misfit`, `target_misfit`: the word of each side that belongs least, None where the store is too small to
    tell. `links`: pairs of words that are emitted together, the most probable of each source word first.
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
    """Return a score that the store keeps."""
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
