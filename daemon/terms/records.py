"""Terms as they are told."""

from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True, slots=True)
class Rendering:
    """A rendering of a term, and in how many pairs the term has it."""

    text: str
    pairs: int


@dataclass(frozen=True, slots=True)
class Term:
    """A term with its usual rendering `target`.

    `pairs` have the term rendered so, `source_pairs` have the term, `target_pairs` have that phrase on the target side;
    `consistency` is the share of the first in the second. `score` is `ratio` (2 ln λ) by `cohesion`. `renderings` are
    the most frequent ones, the usual one first; `corpora` numbers of pairs with the term; `first`, `last` the days on
    which the first and the last of these pairs were stored.
    """

    source: str
    target: str
    pairs: int
    source_pairs: int
    target_pairs: int
    consistency: float
    score: float
    ratio: float
    cohesion: float
    renderings: tuple[Rendering, ...]
    corpora: dict[str, int]
    first: date
    last: date


@dataclass(frozen=True, slots=True)
class Departure:
    """A pair that has a term, and not its usual rendering.

    `rendering` is what the term's words are linked to: a phrase, or words with `…` between them, or nothing.
    `external_id` is the pair's own identifier, `origin` the input that it was read from.
    """

    term: str
    usual: str
    rendering: str
    pair: int
    external_id: str | None
    corpus: str
    origin: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Terms:
    """The best terms of so many pairs, and pairs that depart from their usual renderings, in the order of the terms."""

    pairs: int
    terms: tuple[Term, ...]
    departures: tuple[Departure, ...]
    languages: tuple[str, ...]
