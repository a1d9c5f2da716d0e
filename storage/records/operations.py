"""State of a store, who does what with it, and what has changed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args

from hierogram.storage.records.pairs import UNSETTLED

CLASSES_OF_RULES = ("0", "1", "2", "3+")
"""Numbers of nonterminals, as rules are told apart by them."""


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """Size of a store, and how far sampling has come.

    `rules_in_use`: rules of the present derivations. `rules_expected`: rules that are expected to be used.
    `rules_stored`: all rules, including those that only minimal derivations use. `rule_tokens`: uses of rules in the
    present derivations. `expected_tokens`: expected uses of all rules. `left_out`: expected uses of rules that are too
    rare in a pair to be counted, by number of nonterminals, one of `CLASSES_OF_RULES`. `failed_files`: inputs of the
    spool that were set apart. `deliveries`: recent events for webhooks, by state. `log_bytes`: size of the log beside
    an SQLite store's file; None for Postgres.
    """

    url: str
    schema: str
    position: int
    pairs: dict[str, int] = field(default_factory=dict)
    rules_in_use: int = 0
    rules_expected: int = 0
    rules_stored: int = 0
    rule_tokens: int = 0
    rejected: int = 0
    sweeps: int = 0
    expected_tokens: float = 0.0
    left_out: dict[str, float] = field(default_factory=dict)
    last_log_likelihood: float | None = None
    corpora: dict[str, int] = field(default_factory=dict)
    failed_files: int = 0
    deliveries: dict[str, int] = field(default_factory=dict)
    log_bytes: int | None = None

    @property
    def behind(self) -> dict[str, int]:
        """Return how many pairs are in which of the states `UNSETTLED`."""
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
    """A recorded export: the file that it wrote, and the store position that it shows.

    `path` is the file of the rules; of a run that has not succeeded, the file or the folder of versions that it was to
    write. `state` is running, done or failed; times are UTC. `last_event` is the last event of the store at `position`.
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
    last_event: int | None


EventKind = Literal[
    "rule-new", "rule-gone", "rule-moved", "rules-changed", "pairs-rejected", "file-failed", "export-done",
    "export-failed", "loop-failed",
]  # fmt: skip
(
    RULE_NEW, RULE_GONE, RULE_MOVED, RULES_CHANGED, PAIRS_REJECTED, FILE_FAILED, EXPORT_DONE, EXPORT_FAILED,
    LOOP_FAILED,
) = get_args(EventKind)  # fmt: skip
EVENT_KINDS = {
    RULE_NEW: "a rule is expected to be used eight times or more",
    RULE_GONE: "one that was is expected to be used less than four times",
    RULE_MOVED: "its expected uses have moved by more than twice the error, and by a tenth",
    RULES_CHANGED: "so many rules in one commit that they are only counted",
    PAIRS_REJECTED: "lines of an input could not be stored",
    FILE_FAILED: "a file of the spool could not be read, and was set apart",
    EXPORT_DONE: "an export is written",
    EXPORT_FAILED: "an export has failed",
    LOOP_FAILED: "a loop of the daemon has failed",
}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that changed. `id` grows in the order of commits; what does not concern a kind is None.

    `error` is the Monte-Carlo standard error of the difference of a rule's expected uses. `number` counts lines or
    rules; `detail` has the rest by name.
    """

    id: int
    at: datetime
    kind: EventKind
    rule_id: int | None = None
    source: str | None = None
    target: str | None = None
    expected_uses_before: float | None = None
    expected_uses_now: float | None = None
    error: float | None = None
    number: int | None = None
    detail: dict[str, Any] | None = None

    def plain(self) -> dict[str, Any]:
        """Return the event for JSON, without what does not concern its kind."""
        values = {name: value for name, value in asdict(self).items() if value is not None}
        return values | {"at": self.at.isoformat().replace("+00:00", "Z")}


class NewEvent(NamedTuple):
    """An event before it is stored; fields as in `Event`."""

    kind: str
    rule_id: int | None = None
    source: str | None = None
    target: str | None = None
    expected_uses_before: float | None = None
    expected_uses_now: float | None = None
    error: float | None = None
    number: int | None = None
    detail: dict[str, Any] | None = None


class EventPage(NamedTuple):
    """Some events, in order. `oldest` is the id of the first that is kept (one above `last` where there is none).

    `last` is the id of the last event. `missed` counts events after the position asked for that
    are no longer kept.
    """

    events: list[Event]
    oldest: int
    last: int
    missed: int


class Delivery(NamedTuple):
    """An event that is to be sent to a webhook, and how often that was tried."""

    url: str
    event_id: int
    attempts: int
    body: str
