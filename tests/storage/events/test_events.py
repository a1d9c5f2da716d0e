"""Events and webhook deliveries: causes, order, limits, and retries."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pytest
from tests.storage.building import Delta, commit, count_deliveries, delta, make_deltas, make_pairs, query
from tests.storage.plans import assert_no_scan, find_plan, plans

from hierogram.storage.exceptions import StoreError
from hierogram.storage.grammar import changes
from hierogram.storage.records.operations import Event, Webhook
from hierogram.storage.records.pairs import RejectedLine
from hierogram.storage.store import Store

HOOK = Webhook("5ca1ab1e", "http://example.org:80")


def shift(source: str, uses: float, variance: float = 0.0) -> Delta:
    """Return a delta of a rule's expected uses, rounded to 1/4096, and of the variance of their error."""
    change = delta(source, source.upper(), 0, round(4096 * uses) / 4096)
    return change._replace(expected_uses_variance=variance)


def event_rows(events: Sequence[Event]) -> list[tuple[object, ...]]:
    return [(event.kind, event.source, event.expected_uses_before, event.expected_uses_now) for event in events]


def test_rules_that_appear_change_or_disappear_cause_events(store: Store) -> None:
    commit(store, [], [shift("a", 20, 2), shift("b", 7.9), shift("c", 8), shift("d", 1000)])
    first = store.events()
    assert event_rows(first.events) == [
        ("rule-added", "a", None, 20.0),
        ("rule-added", "c", None, 8.0),
        ("rule-added", "d", None, 1000.0),
    ]
    [rule] = store.find_rules("a")
    error = pytest.approx((2 + (0.018 * 20**2 + 2**2) / (1 + 20 / 15)) ** 0.5)
    assert (first.events[0].target, first.events[0].standard_error, rule.expected_uses_error) == ("A", error, error)
    # The next commit changes each rule by less than twice its error or a tenth of its uses. With the later commits the
    # sums of changes exceed both.
    commit(store, [], [shift("a", 7), shift("c", 0.7), shift("d", 90)])
    commit(store, [], [shift("a", 2)])
    commit(store, [], [shift("c", 2.3), shift("d", 20)])
    assert event_rows(store.events(first.last).events) == [
        ("rule-updated", "a", 20.0, 29.0),
        ("rule-updated", "c", 8.0, pytest.approx(11.0, abs=0.001)),
        ("rule-updated", "d", 1000.0, 1110.0),
    ]
    # A reported rule remains reported until its uses are below four.
    last = store.events().last
    commit(store, [], [shift("c", -6.9)])
    commit(store, [], [shift("c", -0.2), shift("a", -29)])
    assert event_rows(store.events(last).events) == [
        ("rule-updated", "c", pytest.approx(11.0, abs=0.001), pytest.approx(4.1, abs=0.001)),
        ("rule-removed", "a", 29.0, 0.0),
        ("rule-removed", "c", pytest.approx(4.1, abs=0.001), pytest.approx(3.9, abs=0.001)),
    ]
    commit(store, [], [shift("a", 9)])
    assert event_rows(store.events().events[-1:]) == [("rule-added", "a", None, 9.0)]


@pytest.mark.slow
def test_replayed_events_give_the_current_uses(store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After any commit, replayed events give the uses of reported rules within twice their error or a tenth.

    Rules that are not reported have fewer than eight uses.
    """
    monkeypatch.setattr(changes, "MAX_EVENTS", 1_000_000)
    random.seed(4)
    uses = dict.fromkeys("abcdefgh", 0.0)
    replayed: dict[str, float] = {}
    position = 0
    for _ in range(60):
        rows = []
        for name in random.sample(sorted(uses), 4):
            after = max(0.0, round(uses[name] + random.choice([-9, -2, -0.5, 0.5, 3, 12]), 2))
            rows.append(shift(name, after - uses[name], 0.01))
            uses[name] = after
        commit(store, [], rows)
        page = store.events(position)
        for event in page.events:
            assert event.source is not None
            assert event.expected_uses_now is not None
            assert event.expected_uses_before == replayed.get(event.source)
            assert (event.kind == "rule-added") == (event.source not in replayed)
            replayed[event.source] = event.expected_uses_now
            if event.kind == "rule-removed":
                del replayed[event.source]
        position = page.last
        for name, number in uses.items():
            if name in replayed:
                assert number >= 4
                group = sum((0.018 * uses**2 + 0.2 * 1.2**2) / (1 + uses / 15) for uses in (replayed[name], number))
                assert abs(replayed[name] - number) <= max(0.1 * replayed[name], 2 * (120 * 0.01 + group) ** 0.5) + 0.01
            else:
                assert number < 8 + 0.01
    assert position > 50
    stored = query(
        store_url, "SELECT r.source, t.expected_uses FROM reported_rules AS t JOIN rules AS r ON r.id = t.rule_id"
    )
    assert dict(stored) == replayed


def test_events_follow_from_the_summed_changes_of_a_commit(store: Store) -> None:
    store.commit([(None, make_deltas([shift("a", 30)])), (None, make_deltas([shift("a", -25), shift("b", 9)]))])
    assert event_rows(store.events().events) == [("rule-added", "b", None, 9.0)]


def test_many_changes_are_summarized_in_one_event(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MAX_EVENTS", 3)
    commit(store, [], [shift(name, 10) for name in "abc"])
    commit(store, [], [shift("a", 10), shift("b", -10), *(shift(name, 10) for name in "defg")])
    [*single, summary] = store.events().events
    assert len(single) == 3
    assert (summary.kind, summary.count, summary.detail) == (
        "rules-changed",
        6,
        {"added": 4, "removed": 1, "updated": 1},
    )
    # The summarized rules are also recorded as reported.
    commit(store, [], [shift("d", 5)])
    assert event_rows(store.events(summary.id).events) == [("rule-updated", "d", 10.0, 15.0)]


def test_rejected_lines_are_reported_as_events_once(store: Store) -> None:
    lines = [RejectedLine(2, "empty-side", "no target", b"x", 3), RejectedLine(9, "utf-8", "not UTF-8", b"\xff")]
    for _ in range(2):
        batch = store.begin_ingest("default", "file.txt", "pipes")
        store.add_pairs(batch, make_pairs([]), lines)
    found = store.events().events
    assert [(event.kind, event.count) for event in found] == [("pairs-rejected", 3), ("pairs-rejected", 1)]
    assert found[0].detail is not None
    assert {name: found[0].detail[name] for name in ("reason", "line", "message", "corpus")} == {
        "reason": "empty-side", "line": 2, "message": "no target", "corpus": "default"
    }  # fmt: skip


def test_finished_and_failed_exports_are_reported_as_events(store: Store) -> None:
    done = store.record_export("g", "/g", "cdec", "nightly")
    store.finish_export(done, rules=7, bytes=70, sha256="ab", position=1)
    failed = store.record_export("h", "/h", "cdec")
    store.finish_export(failed, error="no room")
    first, second = store.events().events
    assert (first.kind, first.count) == ("export-done", 7)
    assert first.detail == {
        "export": done, "name": "g", "path": "/g", "format": "cdec", "job": "nightly", "rules": 7, "bytes": 70,
        "sha256": "ab", "position": 1,
    }  # fmt: skip
    assert (second.kind, second.detail) == (
        "export-failed",
        {"export": failed, "name": "h", "path": "/h", "format": "cdec", "error": "no room"},
    )
    assert abs((datetime.now(UTC) - first.at).total_seconds()) < 60


def test_rolled_back_changes_are_not_reported(store: Store) -> None:
    commit(store, [], [shift("a", 10)])
    with pytest.raises(StoreError, match="would have a negative count"):
        store.commit([(None, make_deltas([shift("b", 10)])), (None, make_deltas([shift("a", -99)]))])
    page = store.events()
    assert (event_rows(page.events), page.last) == ([("rule-added", "a", None, 10.0)], 1)
    commit(store, [], [shift("b", 10)])
    assert store.events(1).events[0].id == 2


def test_a_repair_forgets_reported_rules_that_it_removes(store: Store, store_url: str) -> None:
    commit(store, [], [shift("a", 10), shift("b", 10)])
    none = np.zeros(0, np.int64)
    with store.repairing() as (repair, _):
        repair.repair_rules(make_deltas([]), none, none, none, np.array([1]))
    assert store.find_rules("a") == []
    assert query(store_url, "SELECT rule_id FROM reported_rules") == [(2,)]


def test_a_late_reader_gets_the_number_of_missed_events(store: Store) -> None:
    assert store.events() == ([], 1, 0, 0)
    for name in "abcdef":
        commit(store, [], [shift(name, 10)])
    assert (store.events(6).events, store.events(6).missed) == ([], 0)
    store.set_event_limit(2)
    page = store.events(1)
    assert ([event.id for event in page.events], page.oldest, page.last, page.missed) == ([5, 6], 5, 6, 3)
    assert (store.events(4).missed, store.events().missed, store.events(5, 1).missed) == (0, 0, 0)
    commit(store, [], [shift("g", 10), shift("h", 10), shift("i", 10)])
    assert [event.id for event in store.events(0).events] == [8, 9]
    assert [event.id for event in store.events(limit=1).events] == [8]


def test_events_are_selected_by_kind(store: Store) -> None:
    commit(store, [], [shift("a", 10), shift("b", 10)])
    commit(store, [], [shift("a", -10)])
    assert [event.id for event in store.events(kinds=["rule-removed"]).events] == [3]
    assert [event.id for event in store.events(1, kinds=["rule-removed", "rule-added"]).events] == [2, 3]


def test_queries_of_events_use_indexes(store: Store) -> None:
    commit(store, [], [shift("a", 10), shift("b", 10)])
    with plans() as seen:
        store.events(1)
        store.events(1, kinds=["export-done"])
        commit(store, [], [shift("a", 10), shift("b", -9)])
        store.queue_deliveries(HOOK, ["rule-added"])
        store.due_deliveries(HOOK, 1.0, 60.0)
    for entry in seen:
        for table in ("events", "reported_rules", "webhook_deliveries"):
            assert_no_scan(entry["plan"], table)
    assert find_plan(seen, "SELECT reported_rules")


def test_deliveries_are_queued_retried_and_recorded(store: Store, store_url: str) -> None:
    kinds = ["rule-added"]
    commit(store, [], [shift("a", 10)])
    # A new webhook starts with the events after its creation.
    assert store.queue_deliveries(HOOK, kinds) == 0
    commit(store, [], [shift("b", 10), shift("c", 10)])
    commit(store, [], [shift("b", -10)])
    assert (store.queue_deliveries(HOOK, kinds), store.queue_deliveries(HOOK, kinds)) == (2, 0)
    first, second = store.due_deliveries(HOOK, 100.0, 60.0)
    assert (first.event_id, second.event_id, first.attempts) == (2, 3, 0)
    assert '"source": "b"' in first.body
    store.record_delivery(first, 500, "answered 500", 160.0)
    store.record_delivery(second, 200, None, None)
    assert store.due_deliveries(HOOK, 159.0, 60.0) == []
    [again] = store.due_deliveries(HOOK, 160.0, 60.0)
    assert (again.event_id, again.attempts) == (2, 1)
    store.record_delivery(again, None, "no answer", None)
    assert store.due_deliveries(HOOK, 1e12, 60.0) == []
    assert count_deliveries(store) == {"waiting": 0, "done": 1, "failed": 1}
    rows = query(store_url, "SELECT event_id, state, attempts, status, error FROM webhook_deliveries ORDER BY event_id")
    assert rows == [(2, "failed", 2, None, "no answer"), (3, "done", 1, 200, None)]


def test_many_deliveries_are_queued_in_batches(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hierogram.storage.events.feed._EVENTS_AT_ONCE", 2)
    kinds = ["rule-added"]
    store.queue_deliveries(HOOK, kinds)
    commit(store, [], [shift(name, 10) for name in "abcde"])
    assert [store.queue_deliveries(HOOK, kinds) for _ in range(4)] == [2, 2, 1, 0]
    assert [delivery.event_id for delivery in store.due_deliveries(HOOK, 1.0, 60.0)] == [1, 2, 3, 4, 5]


def test_old_finished_deliveries_are_deleted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hierogram.storage.events.feed._MAX_FINISHED", 2)
    store.queue_deliveries(HOOK, ["rule-added"])
    for name in "abcdef":
        commit(store, [], [shift(name, 10)])
        store.queue_deliveries(HOOK, ["rule-added"])
        [delivery] = store.due_deliveries(HOOK, 1.0, 60.0)
        store.record_delivery(delivery, 200, None, None)
    assert count_deliveries(store)["done"] == 3


def test_a_delivery_scheduled_by_a_fast_clock_still_becomes_due(store: Store) -> None:
    store.queue_deliveries(HOOK, ["rule-added"])
    commit(store, [], [shift("a", 10), shift("b", 10)])
    store.queue_deliveries(HOOK, ["rule-added"])
    first, second = store.due_deliveries(HOOK, 1_000.0, 60.0)
    two_years = 2 * 365 * 86_400.0
    store.record_delivery(first, 500, "answered 500", two_years + 30.0)
    store.record_delivery(second, 500, "answered 500", 1_030.0)
    # The fast clock is two years ahead. By this clock, the first delivery waits for its retry pause of 30 seconds.
    assert [one.event_id for one in store.due_deliveries(HOOK, two_years, 60.0)] == [second.event_id]
    assert [one.event_id for one in store.due_deliveries(HOOK, 1_000.0, 60.0)] == [first.event_id]
    assert [one.event_id for one in store.due_deliveries(HOOK, 1_030.0, 60.0)] == [second.event_id, first.event_id]


def test_webhooks_have_separate_queues(store: Store, store_url: str) -> None:
    other = HOOK._replace(name="0ddba11")
    for hook in (HOOK, other):
        store.queue_deliveries(hook, ["rule-added"])
    commit(store, [], [shift("a", 10)])
    assert (store.queue_deliveries(HOOK, ["rule-added"]), store.queue_deliveries(other, ["rule-added"])) == (1, 1)
    [delivery] = store.due_deliveries(other, 1.0, 60.0)
    store.record_delivery(delivery, 200, None, None)
    assert store.due_deliveries(other, 1.0, 60.0) == []
    assert len(store.due_deliveries(HOOK, 1.0, 60.0)) == 1
    assert query(store_url, "SELECT name, origin FROM webhooks ORDER BY name") == [
        ("0ddba11", "http://example.org:80"),
        ("5ca1ab1e", "http://example.org:80"),
    ]
