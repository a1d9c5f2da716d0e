"""Scores of pairs, as the store keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime


class ScoreRow(NamedTuple):
    """The score of a pair. `position` is the store's when it was made.

    Misfits are the natural log of the odds that the word of that side which fits least stands in the place of another;
    None where the store was too small to tell. `links` has probable links with their probabilities, as `0-0:0.98
    1-2:0.75`. `derivation`: the mean natural log of the probabilities of the rules of the pair's derivation, by which
    it is seen whether these have changed; None where it had none. The rest is as in `docs/scores.md`.
    """

    pair_id: int
    position: int
    scored_at: datetime
    tokens: int
    log_probability: float
    log_probability_error: float | None
    evidence: float
    unseen: float
    unseen_error: float | None
    pieces: int
    exact: bool
    source_misfit: float | None
    source_misfit_word: int | None
    target_misfit: float | None
    target_misfit_word: int | None
    links: str
    derivation: float | None
