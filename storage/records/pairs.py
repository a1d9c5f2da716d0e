"""Records of sentence pairs, ingest results and scores."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hierogram.samplers.grammar.known_links import KnownLinks


UNALIGNED, WAITING, SAMPLING, SETTLED = "unaligned", "waiting", "sampling", "settled"
"""States of a pair: not aligned, aligned but without a derivation, in burn-in, and after burn-in."""
UNSETTLED = (UNALIGNED, WAITING, SAMPLING)
DERIVED = (SAMPLING, SETTLED)
"""States of pairs with a derivation."""
TBX_ENTRIES, CSV_ENTRIES, TSV_ENTRIES = "tbx", "csv_entries", "tsv_entries"
DICTIONARIES = (TBX_ENTRIES, CSV_ENTRIES, TSV_ENTRIES)
"""Batch formats whose pairs are dictionary entries."""
NO_ALIGNMENT, GIVEN, ALIGNER = "none", "given", "aligner"
"""Origin of a pair's alignment: not aligned yet, given in the input, or computed by the aligner."""


@dataclass(frozen=True, slots=True)
class NewPairs:
    """Validated sentence pairs to store, as columns: entry k of all columns belongs to the same pair.

    `sources` and `targets` are texts, `source_lengths` and `target_lengths` their lengths in tokens. `alignments` are
    None for pairs to be aligned. `lines` are line numbers in the input, from 1. `occurrences` number the repeats of the
    same content within one input, from 0, so that repeats in a corpus are kept, but an input that is added twice is
    stored once. A pair with an external id is identified by its corpus and this id instead. `human_links` are fixed and
    forbidden links, by index of the pair.
    """

    sources: Sequence[str]
    targets: Sequence[str]
    alignments: Sequence[str | None]
    source_lengths: Sequence[int]
    target_lengths: Sequence[int]
    lines: Sequence[int]
    external_ids: Sequence[str | None]
    occurrences: Sequence[int]
    human_links: Mapping[int, KnownLinks] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sources)

    def at(self, indices: Sequence[int]) -> NewPairs:
        """Return the pairs at the given indices, in the given order."""
        human_links = {}
        if self.human_links:
            human_links = {index: self.human_links[k] for index, k in enumerate(indices) if k in self.human_links}
        columns = {name: list(map(getattr(self, name).__getitem__, indices)) for name in _COLUMNS}
        return NewPairs(**columns, human_links=human_links)


_COLUMNS = tuple(field.name for field in fields(NewPairs) if field.name != "human_links")


def join_pairs(parts: Sequence[NewPairs]) -> NewPairs:
    """Return the pairs of all parts, in order."""
    if len(parts) == 1:
        return parts[0]
    columns = {name: list(chain.from_iterable(getattr(part, name) for part in parts)) for name in _COLUMNS}
    starts = zip(accumulate(map(len, parts), initial=0), parts, strict=False)
    human_links = {first + k: links for first, part in starts for k, links in part.human_links.items()}
    return NewPairs(**columns, human_links=human_links)


class RejectedLine(NamedTuple):
    """Rejected line, or a run of consecutive lines that were rejected for the same reason.

    `line` is the number of the first line, `lines` the number of lines. `reason` is a short code, `message` a sentence
    for users, `content` the line, possibly truncated. If the run continues a run of an earlier chunk of the input,
    `earlier` is the number of lines before `line`. Message and content belong to the first line of the whole run.
    """

    line: int
    reason: str
    message: str
    content: bytes
    lines: int = 1
    earlier: int = 0

    @property
    def last_line(self) -> int:
        """Number of the last line."""
        return self.line + self.lines - 1

    @property
    def first_line(self) -> int:
        """Number of the first line, including lines of earlier chunks."""
        return self.line - self.earlier


def join_runs(lines: Iterable[RejectedLine]) -> list[RejectedLine]:
    """Sort rejected lines, and merge runs with the same reason. Keeps the first message and content."""
    runs: list[RejectedLine] = []
    for line in sorted(lines, key=lambda line: line.line):
        if runs and runs[-1].reason == line.reason and runs[-1].last_line + 1 == line.line:
            runs[-1] = runs[-1]._replace(lines=runs[-1].lines + line.lines)
        else:
            runs.append(line)
    return runs


@dataclass(frozen=True, slots=True)
class IngestTotals:
    """Numbers of accepted, duplicate and rejected lines of an input or a chunk."""

    accepted: int = 0
    duplicates: int = 0
    rejected: int = 0

    def __add__(self, other: IngestTotals) -> IngestTotals:
        rejected = self.rejected + other.rejected
        return IngestTotals(self.accepted + other.accepted, self.duplicates + other.duplicates, rejected)


_ID_MULTIPLIER, _CRC_MASK = 0x9E3779B1, 0xFFFFFFFF


def compute_checksum(pair_id: int, current: bytes, averages: bytes) -> int:
    """Return the checksum of a pair's id, derivation and averages. The id detects exchanged rows."""
    return crc32(current, crc32(averages, (pair_id * _ID_MULTIPLIER + len(averages)) & _CRC_MASK))


class DamagedPair(NamedTuple):
    """Pair that cannot be sampled, and the reason."""

    id: int
    reason: str


def parse_links(alignment: str) -> list[tuple[int, int]]:
    """Return the links (source, target) of a stored alignment, such as `0-0 1-2`, in its order."""
    return [(int(source), int(target)) for source, _, target in (link.partition("-") for link in alignment.split())]


class PairRow(NamedTuple):
    """Stored pair with its derivation, for sampling.

    `current` encodes all variables of the pair's forest, `averages` its contribution to the expected uses of rules, see
    `hierogram.samplers.forests.derivations`. Both are None until the pair is initialized. `alignment` is empty while
    `aligned_by` is `NO_ALIGNMENT`. `restarts` is the number of restarts of the pair's schedule. `checksum` is the
    checksum of `current` and `averages`, or None without a derivation, or if the pair was not read from a store.
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
    checksum: int | None = None
    link_probabilities: str | None = None

    def is_intact(self) -> bool:
        """Check if the derivation matches its checksum, if any, or is missing in a state without derivations."""
        if self.current is None or self.averages is None:
            return self.state not in DERIVED
        return self.checksum in (None, compute_checksum(self.id, self.current, self.averages))


@dataclass(frozen=True, slots=True)
class LagRow:
    """Numbers of unsettled pairs, in total and by state, and the age of the oldest pair, or None."""

    pairs: int
    oldest_seconds: float | None
    states: dict[str, int] = field(default_factory=dict)


class PairOrigin(NamedTuple):
    """Origin of a pair: its external id or None, its corpus, and its input."""

    external_id: str | None
    corpus: str
    origin: str


@dataclass(frozen=True, slots=True)
class PairRecord:
    """Stored pair. `link_probabilities` are space-separated, or None if the aligner did not align it."""

    id: int
    corpus: str
    external_id: str | None
    source: str
    target: str
    alignment: str
    link_probabilities: str | None
    state: str
    stage: int
    sweep: int
    added_at: datetime


@dataclass(frozen=True, slots=True)
class Link:
    """Link of two words by position, and the probability that one rule emits both words."""

    source: int
    target: int
    probability: float


@dataclass(frozen=True, slots=True)
class Misfit:
    """Least probable word of a side: its position, and the natural log-odds that it replaces another word."""

    position: int
    log_odds: float


@dataclass(frozen=True, slots=True)
class PairScore:
    """Score of a pair under the learned grammar.

    `doubt` is the larger deviation of `evidence` or `log_probability` below the median of the store, plus penalties for
    differing numbers and copied words. `log_probability` is the natural logarithm of the pair's probability, per token
    of both sides. `evidence` is the excess of `log_probability` over the log-probability of the same words without
    rules for both sides. `unseen` is the expected share of words emitted by the base distribution. `pieces` is the
    number of pieces of a long pair. If `exact` is False, derivations across the cuts are missing, and the probability
    is a lower bound. `source_misfit` and `target_misfit` are the words that fit least, or None in a small store.
    `links` are pairs of words that one rule emits, for each source word in order of probability.
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


class ScoreRow(NamedTuple):
    """Stored score of a pair, and the mean natural log-probability of the rules in its derivation, if any."""

    pair_id: int
    position: int
    scored_at: datetime
    score: PairScore
    derivation_log_probability: float | None
