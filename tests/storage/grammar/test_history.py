"""What uses were expected: the first change of a day is remembered, of rules that are often used."""

from datetime import UTC, datetime

import pytest
from tests.storage.building import Delta, commit, delta, query

from hierogram.storage.grammar import changes
from hierogram.storage.store import Store


@pytest.fixture
def days(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """The last of these is today."""
    known = [datetime(2026, 3, 1, 23, 59, tzinfo=UTC)]
    monkeypatch.setattr(changes, "now", lambda: known[-1])
    return known


def used(source: str, target: str, uses: int) -> Delta:
    """A rule that is used so often more, and expected to be."""
    return delta(source, target, uses, uses)


def remembered(store_url: str) -> list[tuple[object, ...]]:
    return query(store_url, "SELECT day, source, expected_uses FROM rule_history ORDER BY day, source")


def test_the_first_change_of_a_day_is_remembered(store: Store, store_url: str, days: list[datetime]) -> None:
    commit(store, [], [used("a", "x", 20), used("b", "y", 9), used("c", "z", 7), used("d", "w", 30)])
    assert remembered(store_url) == []
    commit(store, [], [used("a", "x", -5), used("c", "z", -1), delta("d", "w", 8)])
    commit(store, [], [used("a", "x", -5)])
    assert remembered(store_url) == [("2026-03-01", "a", 20)]
    days.append(datetime(2026, 3, 2, tzinfo=UTC))
    commit(store, [], [used("a", "x", -9), used("b", "y", -9)])
    assert remembered(store_url) == [("2026-03-01", "a", 20), ("2026-03-02", "a", 10), ("2026-03-02", "b", 9)]
    assert query(
        store_url,
        "SELECT day, source, expected_uses_before, expected_uses_now, change FROM rule_changes"
        " ORDER BY day, change, source",
    ) == [("2026-03-01", "a", 20, 1, -19), ("2026-03-02", "a", 10, 1, -9), ("2026-03-02", "b", 9, 0, -9)]


def test_a_rule_that_came_back_is_the_same_rule(store: Store, store_url: str, days: list[datetime]) -> None:
    commit(store, [], [used("a", "x", 20)])
    commit(store, [], [used("a", "x", -20)])
    commit(store, [], [used("a", "x", 3)])
    assert query(store_url, "SELECT source, expected_uses_before, expected_uses_now FROM rule_changes") == [
        ("a", 20, 3)
    ]


def test_after_a_year_it_is_forgotten(store: Store, store_url: str, days: list[datetime]) -> None:
    commit(store, [], [used("a", "x", 20), used("b", "y", 20)])
    commit(store, [], [used("a", "x", 1)])
    days.append(datetime(2027, 3, 2, tzinfo=UTC))
    commit(store, [], [used("b", "y", 1)])
    assert remembered(store_url) == [("2026-03-01", "a", 20), ("2027-03-02", "b", 20)]
    days.append(datetime(2027, 3, 3, tzinfo=UTC))
    commit(store, [], [used("b", "y", 1)])
    assert remembered(store_url) == [("2027-03-02", "b", 20), ("2027-03-03", "b", 21)]


def test_a_commit_that_fails_remembers_nothing(store: Store, store_url: str, days: list[datetime]) -> None:
    from hierogram.storage.exceptions import CountError

    commit(store, [], [used("a", "x", 20)])
    with pytest.raises(CountError):
        commit(store, [], [used("a", "x", -5), used("b", "y", -1)])
    assert remembered(store_url) == []


def test_what_moves_by_more_than_its_error_is_news(store: Store, store_url: str, days: list[datetime]) -> None:
    commit(store, [], [used("a", "x", 20), used("b", "y", 20)])
    query(store_url, "UPDATE rules SET expected_uses_variance = 2")
    commit(store, [], [used("a", "x", 3), used("b", "y", 5)])
    rows = query(store_url, "SELECT source, change, error, news FROM rule_changes ORDER BY source")
    assert rows == [("a", 3, 2, 0), ("b", 5, 2, 1)]
