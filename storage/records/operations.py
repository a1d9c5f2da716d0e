"""How a store stands, and who does what with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from hierogram.storage.records.pairs import UNSETTLED

if TYPE_CHECKING:
    from datetime import datetime


CLASSES_OF_RULES = ("0", "1", "2", "3+")
"""Numbers of nonterminals, as rules are told apart by them."""


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """How much a store holds and how far sampling has come.

    `expected_tokens`: how often its rules are expected to be used in all; `sampled_tokens` is that in eight samples, as
    earlier versions told it. `left_out`: how often rules are expected to be used that are too rare in a pair to count,
    by how many nonterminals they have, one of `CLASSES_OF_RULES`. `log_bytes`: size of the log beside an SQLite store's
    file; None for Postgres.
    """

    url: str
    schema: str
    position: int
    pairs: dict[str, int] = field(default_factory=dict)
    rules: int = 0
    rule_tokens: int = 0
    sampled_tokens: int = 0
    rejected: int = 0
    sweeps: int = 0
    expected_tokens: float = 0.0
    left_out: dict[str, float] = field(default_factory=dict)
    last_log_likelihood: float | None = None
    corpora: dict[str, int] = field(default_factory=dict)
    log_bytes: int | None = None

    @property
    def behind(self) -> dict[str, int]:
        """How many pairs are in which of the states `UNSETTLED`."""
        return {state: self.pairs.get(state, 0) for state in UNSETTLED}


class Claim(NamedTuple):
    """Who has a claim on what, until when; `process` tells the holder from all others, `host` and `pid` tell people."""

    name: str
    token: str
    host: str
    pid: int
    process: str
    command: str
    since: datetime
    expires_at: datetime


class RequestRow(NamedTuple):
    """A request that its client may repeat under the same key: how far it was taken in, and the answer.

    `digest` is that of its first `lines` lines; `answer` JSON, final where the request is `done`.
    """

    key: str
    corpus: str
    lines: int
    digest: bytes
    done: bool
    answer: str


class ExportRow(NamedTuple):
    """A recorded export: what was written where, and the store position that it shows.

    `state` is running, done or failed; the times are UTC.
    """

    id: int
    name: str
    path: str
    format: str
    started_at: datetime
    finished_at: datetime | None
    state: str
    rules: int | None
    bytes: int | None
    sha256: str | None
    position: int | None
    error: str | None
    manifest: str | None
    job: str | None
    process: str | None
    seconds: float | None
