"""Records of store status, leases, requests and events."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args

from hierogram.storage.records.pairs import SETTLED, UNSETTLED


@dataclass(slots=True)
class StoreState:
    """Row of `store_state`: positions, last assigned ids, and running totals.

    The totals are stored so that `status` does not count pairs and rules. Rules with ids above
    `last_rule_id_at_day_start` are new on `last_change_day`.
    """

    position: int = 0
    grammar_position: int = 0
    last_pair_id: int = 0
    last_rule_id: int = 0
    last_word_id: int = 0
    unaligned: int = 0
    waiting: int = 0
    sampling: int = 0
    settled: int = 0
    source_types: int = 0
    target_types: int = 0
    rules_in_use: int = 0
    rules_expected: int = 0
    rules_stored: int = 0
    rule_tokens: int = 0
    expected_tokens: float = 0.0
    rejected_lines: int = 0
    sweeps: int = 0
    last_change_day: str = ""
    last_rule_id_at_day_start: int = 0

    def add(self, total: str, number: int) -> None:
        """Add to a total, such as the number of pairs in a state, by name."""
        setattr(self, total, getattr(self, total) + number)

    def pairs(self) -> dict[str, int]:
        """Return the numbers of pairs by state, for all states."""
        return {state: getattr(self, state) for state in (*UNSETTLED, SETTLED)}


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """Size of a store, and progress of sampling.

    `rules_in_use` counts the rules of the current derivations, `rules_expected` the rules with expected uses, and
    `rules_stored` also the rules that occur only in minimal derivations. `rule_tokens` is the number of rule uses in
    the current derivations, `expected_tokens` the sum of expected uses. `deliveries` counts stored webhook deliveries
    by state. `wal_bytes` is the size of the write-ahead log of an SQLite store, None for Postgres.
    """

    url: str
    schema: str
    position: int
    pairs: dict[str, int] = field(default_factory=dict)
    rules_in_use: int = 0
    rules_expected: int = 0
    rules_stored: int = 0
    rule_tokens: int = 0
    rejected_lines: int = 0
    sweeps: int = 0
    expected_tokens: float = 0.0
    last_log_likelihood: float | None = None
    corpora: dict[str, int] = field(default_factory=dict)
    failed_files: int = 0
    deliveries: dict[str, int] = field(default_factory=dict)
    damaged_pairs: int = 0
    wal_bytes: int | None = None

    @property
    def unsettled(self) -> dict[str, int]:
        """Number of pairs in each unsettled state."""
        return {state: self.pairs.get(state, 0) for state in UNSETTLED}


class Lease(NamedTuple):
    """Lease with its expiry. `process` identifies the holder. `host` and `pid` are for messages."""

    name: str
    token: str
    host: str
    pid: int
    process: str
    command: str
    acquired_at: datetime
    expires_at: datetime


class RequestRow(NamedTuple):
    """Idempotent request: number and digest of its stored lines, and its response as JSON."""

    key: str
    corpus: str
    lines: int
    digest: bytes
    done: bool
    response: str


EventKind = Literal[
    "rule-added", "rule-removed", "rule-updated", "rules-changed", "pairs-rejected", "pairs-damaged", "file-failed",
    "export-done", "export-failed", "loop-failed",
]  # fmt: skip
(
    RULE_ADDED, RULE_REMOVED, RULE_UPDATED, RULES_CHANGED, PAIRS_REJECTED, PAIRS_DAMAGED, FILE_FAILED, EXPORT_DONE,
    EXPORT_FAILED, LOOP_FAILED,
) = get_args(EventKind)  # fmt: skip
EVENT_KINDS = {
    RULE_ADDED: "a rule reached eight expected uses",
    RULE_REMOVED: "a reported rule fell below four expected uses",
    RULE_UPDATED: "the expected uses of a reported rule changed by more than 10 % and twice their error",
    RULES_CHANGED: "a commit changed too many rules to list each of them",
    PAIRS_REJECTED: "lines of an input were rejected",
    PAIRS_DAMAGED: "pairs are damaged in the store, and are not sampled until they are repaired",
    FILE_FAILED: "a spool file could not be ingested and was moved to `failed/`",
    EXPORT_DONE: "an export was written",
    EXPORT_FAILED: "an export failed",
    LOOP_FAILED: "a loop of the daemon failed",
}
"""Meanings of the kinds of events, for help texts."""


@dataclass(frozen=True, slots=True)
class NewEvent:
    """Change of the store. Fields that do not apply to the kind are None.

    `standard_error` is the Monte Carlo standard error of the difference of a rule's expected uses. `count` is a number
    of pairs, lines or rules. `detail` contains the other values by name.
    """

    kind: EventKind
    rule_id: int | None = None
    source: str | None = None
    target: str | None = None
    expected_uses_before: float | None = None
    expected_uses_now: float | None = None
    standard_error: float | None = None
    count: int | None = None
    detail: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(NewEvent):
    """Stored event. `id` increases by 1 with each event, in commit order. `at` is the time in UTC."""

    id: int
    at: datetime

    def plain(self) -> dict[str, Any]:
        """Return the event as a JSON object, without fields that are None."""
        first = {"id": self.id, "at": self.at.isoformat().replace("+00:00", "Z")}
        return first | {name: value for name, value in asdict(self).items() if value is not None and name not in first}


class EventPage(NamedTuple):
    """Page of events, in order.

    `oldest` is the id of the first stored event (`last` + 1 if no event is stored), `last` the id of the last event.
    `missed` is the number of events after the requested id that have been deleted.
    """

    events: list[Event]
    oldest: int
    last: int
    missed: int


class Webhook(NamedTuple):
    """Webhook: a name derived from its secret URL, and the origin of the URL (scheme, host and port)."""

    name: str
    origin: str


class Delivery(NamedTuple):
    """Event to send to the webhook of this name: number of earlier attempts, and the request body as JSON."""

    webhook: str
    event_id: int
    attempts: int
    body: str
