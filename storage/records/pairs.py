"""Sentence pairs on their way into and out of the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

UNALIGNED = "unaligned"
"""State of a pair that came without an alignment and has not got one yet."""
WAITING = "waiting"
"""State of a pair that is stored and aligned but has no derivation yet."""
SAMPLING = "sampling"
"""State of a pair on its way through the stratified schedule."""
SETTLED = "settled"
"""State of a pair that has been through every stage."""
UNSETTLED = (UNALIGNED, WAITING, SAMPLING)
"""States of pairs that are not through the schedule."""
NOBODY, GIVEN, ALIGNER = "nobody", "given", "aligner"
"""Who aligned a pair: no one yet, whoever made the input, or our aligner."""


class NewPair(NamedTuple):
    """A validated sentence pair on its way into the store.

    `occurrence` numbers repeats of the same content within one input from 0, so that a corpus keeps its
    true repeats and yet the same input offered twice is stored once. A pair with an `external_id` is
    identified by that id within its corpus instead. Without an `alignment` (None) it is for the aligner.
    """

    source: str
    target: str
    alignment: str | None
    source_length: int
    target_length: int
    line: int
    external_id: str | None = None
    occurrence: int = 0


class RejectedLine(NamedTuple):
    """A line that was not stored, or several one after the other for one reason: where, why, and what the first said.

    `line` is the number of the first, `lines` how many there are. `reason` is a short code, `message` a sentence for
    people, `content` the bytes as they came, cut to a bound. Of lines that go on with what was handed over before, as
    chunks of an input do, `earlier` is how many came before `line`, and message and content are those of their first.
    """

    line: int
    reason: str
    message: str
    content: bytes
    lines: int = 1
    earlier: int = 0

    @property
    def last_line(self) -> int:
        """The number of the last of the lines."""
        return self.line + self.lines - 1

    @property
    def first_line(self) -> int:
        """The number of the first of the lines, those that were handed over before included."""
        return self.line - self.earlier


@dataclass(frozen=True, slots=True)
class IngestTotals:
    """What became of the lines of an input, or of one chunk of it."""

    accepted: int = 0
    duplicates: int = 0
    rejected: int = 0

    def __add__(self, other: IngestTotals) -> IngestTotals:
        """Sum, field by field."""
        return IngestTotals(
            self.accepted + other.accepted,
            self.duplicates + other.duplicates,
            self.rejected + other.rejected,
        )


@dataclass(frozen=True, slots=True)
class AddedPairs:
    """What became of one chunk of an input.

    `totals` counts all of it; `rejected` holds the pairs that the store itself turned down.
    """

    totals: IngestTotals
    rejected: list[RejectedLine]


class PairRow(NamedTuple):
    """A stored pair with its derivation, as a sampler's batch needs it.

    `current` encodes every variable of the pair's forest, `ring` the last thinned samples, oldest first
    (both by `hierogram.samplers.forests.derivations`); both are None until the pair has been initialised.
    `alignment` is empty while `aligned_by` is `NOBODY`. `restarts` counts how often its schedule has begun anew.
    """

    id: int
    source: str
    target: str
    alignment: str
    state: str
    stage: int
    sweep: int
    current: bytes | None
    ring: bytes | None
    aligned_by: str = GIVEN
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class LagRow:
    """How many pairs are not settled yet, for how many seconds the oldest of them has been stored (None: none), and how
    many are in which of the states `UNSETTLED`.
    """

    pairs: int
    oldest: float | None
    states: dict[str, int] = field(default_factory=dict)


class PairRecord(NamedTuple):
    """A stored pair as people ask for it."""

    id: int
    corpus: str
    external_id: str | None
    source: str
    target: str
    alignment: str
    state: str
    stage: int
    sweep: int
    added_at: datetime
