"""What has changed, as it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

RULE_NEW, RULE_GONE, RULE_MOVED, RULES_CHANGED = "rule-new", "rule-gone", "rule-moved", "rules-changed"
PAIRS_REJECTED, EXPORT_DONE, EXPORT_FAILED = "pairs-rejected", "export-done", "export-failed"
EVENT_KINDS = {
    RULE_NEW: "a rule is expected to be used eight times or more",
    RULE_GONE: "one that was is expected to be used less than four times",
    RULE_MOVED: "its expected uses have moved by more than twice the error, and by a tenth",
    RULES_CHANGED: "so many rules in one commit that they are only counted",
    PAIRS_REJECTED: "lines of an input could not be stored",
    EXPORT_DONE: "an export is written",
    EXPORT_FAILED: "an export has failed",
}


class Event(NamedTuple):
    """Something that changed. `id` grows in the order of commits; what does not concern a kind is None.

    `mean_before`, `mean_now` and `error` (that of the difference) are expected uses of the rule. `number` counts lines
    or rules; `detail` has the rest by name.
    """

    id: int
    at: datetime
    kind: str
    rule_id: int | None
    source: str | None
    target: str | None
    mean_before: float | None
    mean_now: float | None
    error: float | None
    number: int | None
    detail: dict[str, Any] | None

    def plain(self) -> dict[str, Any]:
        """The event for JSON, without what does not concern its kind."""
        values = {name: value for name, value in self._asdict().items() if value is not None}
        return values | {"at": self.at.isoformat().replace("+00:00", "Z")}


class NewEvent(NamedTuple):
    """An event before it is stored; fields as in `Event`."""

    kind: str
    rule_id: int | None = None
    source: str | None = None
    target: str | None = None
    mean_before: float | None = None
    mean_now: float | None = None
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
