"""Sentence pairs on their way into and out of the store, and their scores."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from hierogram.samplers.grammar.known_links import KnownLinks


UNALIGNED = "unaligned"
"""State of a pair that came without an alignment and has not got one yet."""
WAITING = "waiting"
"""State of a pair that is stored and aligned but has no derivation yet."""
SAMPLING = "sampling"
"""State of a pair that has a derivation and has not burned in."""
SETTLED = "settled"
"""State of a pair that has been through every stage."""
UNSETTLED = (UNALIGNED, WAITING, SAMPLING)
"""States of pairs that are not through the schedule."""
DERIVED = (SAMPLING, SETTLED)
"""States of pairs that have a derivation."""
TBX_ENTRIES, CSV_ENTRIES, TSV_ENTRIES = "tbx", "csv_entries", "tsv_entries"
DICTIONARIES = (TBX_ENTRIES, CSV_ENTRIES, TSV_ENTRIES)
"""Formats of batches whose pairs are entries of dictionaries."""
NOBODY, GIVEN, ALIGNER = "nobody", "given", "aligner"
"""Who aligned a pair: no one yet, whoever made the input, or our aligner."""


@dataclass(frozen=True, slots=True)
class NewPairs:
    """Validated sentence pairs on their way into the store, as columns: entry k of every column is the same pair.

    `sources` and `targets` the texts, `source_lengths` and `target_lengths` their numbers of tokens; `alignments`
    None where the pair is for the aligner; `lines` where the pairs stand in the input, from 1. `occurrences` number
    repeats of the same content within one input from 0, so that a corpus keeps its true repeats and yet the same input
    offered twice is stored once. A pair with an external id (not None) is identified by that within its corpus instead.
    `known` says of the few pairs, by their places, whose links people fix or forbid, which these are.
    """

    sources: Sequence[str]
    targets: Sequence[str]
    alignments: Sequence[str | None]
    source_lengths: Sequence[int]
    target_lengths: Sequence[int]
    lines: Sequence[int]
    external_ids: Sequence[str | None]
    occurrences: Sequence[int]
    known: Mapping[int, KnownLinks] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.sources)

    def at(self, places: Sequence[int]) -> NewPairs:
        """The pairs at these places of the columns, in their order."""
        known = {place: self.known[k] for place, k in enumerate(places) if k in self.known} if self.known else {}
        columns = {name: list(map(getattr(self, name).__getitem__, places)) for name in _COLUMNS}
        return NewPairs(**columns, known=known)


_COLUMNS = tuple(field.name for field in fields(NewPairs) if field.name != "known")


def join_pairs(parts: Sequence[NewPairs]) -> NewPairs:
    """The pairs of all parts, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    columns = {name: list(chain.from_iterable(getattr(part, name) for part in parts)) for name in _COLUMNS}
    starts = zip(accumulate(map(len, parts), initial=0), parts, strict=False)
    return NewPairs(**columns, known={first + k: known for first, part in starts for k, known in part.known.items()})


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


def in_runs(lines: Iterable[RejectedLine]) -> list[RejectedLine]:
    """The lines in order, those one after the other with one reason joined, message and content of the first.

    A line that is there twice counts once for each.
    """
    runs: list[RejectedLine] = []
    for line in sorted(lines, key=lambda line: line.line):
        if runs and runs[-1].reason == line.reason and runs[-1].last_line + 1 == line.line:
            runs[-1] = runs[-1]._replace(lines=runs[-1].lines + line.lines)
        else:
            runs.append(line)
    return runs


@dataclass(frozen=True, slots=True)
class IngestTotals:
    """Numbers of lines of an input, or of one chunk of it, by what became of them."""

    accepted: int = 0
    duplicates: int = 0
    rejected: int = 0

    def __add__(self, other: IngestTotals) -> IngestTotals:
        """Sum, field by field."""
        rejected = self.rejected + other.rejected
        return IngestTotals(self.accepted + other.accepted, self.duplicates + other.duplicates, rejected)


@dataclass(frozen=True, slots=True)
class AddedPairs:
    """Outcome of one chunk of an input.

    `totals` counts all of it; `rejected` holds the pairs that the store itself turned down.
    """

    totals: IngestTotals
    rejected: list[RejectedLine]


class PairRow(NamedTuple):
    """A stored pair with its derivation, as a sampler's batch needs it.

    `current` encodes every variable of the pair's forest, `averages` what it adds to the expected counts of rules
    (both by `hierogram.samplers.forests.derivations`); both are None until the pair has been initialised.
    `alignment` is empty while `aligned_by` is `NOBODY`. `restarts` counts how often its schedule has begun again.
    """

    id: int
    source: str
    target: str
    alignment: str
    state: str
    stage: int
    sweep: int
    current: bytes | None
    averages: bytes | None
    aligned_by: str = GIVEN
    restarts: int = 0


class PairColumns(NamedTuple):
    """Pairs without their texts, in the order of their ids: `ids`, `sweeps` and numbers of `words` on both sides,
    int64[n]."""

    ids: NDArray[np.int64]
    sweeps: NDArray[np.int64]
    words: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LagRow:
    """Number of pairs that are not settled yet, for how many seconds the oldest has been stored (None: none), and their
    numbers by state, of `UNSETTLED`.
    """

    pairs: int
    oldest: float | None
    states: dict[str, int] = field(default_factory=dict)


class PairPlace(NamedTuple):
    """Where a pair came from: its own identifier (None: it has none), its corpus, the input."""

    external_id: str | None
    corpus: str
    origin: str


@dataclass(frozen=True, slots=True)
class PairRecord:
    """A stored pair."""

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
    doubt: float
    log_probability: float
    evidence: float
    unseen: float
    pieces: int
    exact: bool
    source_misfit: float | None
    source_misfit_word: int | None
    target_misfit: float | None
    target_misfit_word: int | None
    links: str
    derivation: float | None
