"""History of rules: frequent rules that change on a day are recorded with their expected uses at its start."""

from datetime import UTC, datetime

import pytest
from tests.storage.building import Delta, commit, delta, query

from hierogram.storage.grammar import changes
from hierogram.storage.store import Store


@pytest.fixture
def days(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """List of dates whose last element is today. Tests change it."""
    known = [datetime(2026, 3, 1, 23, 59, tzinfo=UTC)]
    monkeypatch.setattr(changes, "now", lambda: known[-1])
    return known


def grow(source: str, target: str, uses: int) -> Delta:
    """Return a delta that adds `uses` to both the count and the expected uses of a rule."""
    return delta(source, target, uses, uses)


def read_history(store_url: str) -> list[tuple[object, ...]]:
    return query(store_url, "SELECT day, source, expected_uses FROM rule_history ORDER BY day, source")


def test_the_first_change_of_a_day_is_recorded(store: Store, store_url: str, days: list[datetime]) -> None:
    commit(store, [], [grow("a", "x", 20), grow("b", "y", 9), grow("c", "z", 7), grow("d", "w", 30)])
    days.append(datetime(2026, 3, 2, tzinfo=UTC))
    commit(store, [], [grow("a", "x", -5), grow("c", "z", -1), delta("d", "w", 8)])
    commit(store, [], [grow("a", "x", -5)])
    assert read_history(store_url)[3:] == [("2026-03-02", "a", 20)]
    days.append(datetime(2026, 3, 3, tzinfo=UTC))
    commit(store, [], [grow("a", "x", -9), grow("b", "y", -9)])
    assert read_history(store_url)[4:] == [("2026-03-03", "a", 10), ("2026-03-03", "b", 9)]
    assert query(
        store_url,
        "SELECT day, source, expected_uses_before, expected_uses_now, change FROM rule_changes"
        " WHERE day > '2026-03-01' ORDER BY day, change, source",
    ) == [("2026-03-02", "a", 20, 1, -19), ("2026-03-03", "a", 10, 1, -9), ("2026-03-03", "b", 9, 0, -9)]


def test_a_new_rule_starts_at_0_on_its_first_day(store: Store, store_url: str, days: list[datetime]) -> None:
    commit(store, [], [grow("a", "x", 20), grow("b", "y", 5), grow("c", "z", 2)])
    commit(store, [], [grow("a", "x", 10), grow("b", "y", 5)])
    assert read_history(store_url) == [("2026-03-01", "a", 0), ("2026-03-01", "b", 0)]
    days.append(datetime(2026, 3, 2, tzinfo=UTC))
    commit(store, [], [grow("c", "z", 20), grow("d", "w", 4)])
    commit(store, [], [grow("c", "z", 20), grow("d", "w", 9)])
    assert query(
        store_url,
        "SELECT day, source, expected_uses_before, expected_uses_now FROM rule_changes ORDER BY day, source",
    ) == [
        ("2026-03-01", "a", 0, 30), ("2026-03-01", "b", 0, 10), ("2026-03-02", "c", 2, 42), ("2026-03-02", "d", 0, 13)
    ]  # fmt: skip


def test_a_rule_that_reappears_keeps_its_history(store: Store, store_url: str, days: list[datetime]) -> None:
    commit(store, [], [grow("a", "x", 20)])
    days.append(datetime(2026, 3, 2, tzinfo=UTC))
    commit(store, [], [grow("a", "x", -20)])
    commit(store, [], [grow("a", "x", 3)])
    changes = "SELECT source, expected_uses_before, expected_uses_now FROM rule_changes ORDER BY day"
    assert query(store_url, changes) == [("a", 0, 3), ("a", 20, 3)]


def test_history_is_deleted_after_a_year(store: Store, store_url: str, days: list[datetime]) -> None:
    commit(store, [], [grow("a", "x", 20)])
    days.append(datetime(2027, 3, 2, tzinfo=UTC))
    commit(store, [], [grow("b", "y", 20)])
    assert read_history(store_url) == [("2026-03-01", "a", 0), ("2027-03-02", "b", 0)]
    days.append(datetime(2027, 3, 3, tzinfo=UTC))
    commit(store, [], [grow("b", "y", 1)])
    assert read_history(store_url) == [("2027-03-02", "b", 0), ("2027-03-03", "b", 20)]


def test_a_failed_commit_records_no_history(store: Store, store_url: str, days: list[datetime]) -> None:
    from hierogram.storage.exceptions import StoreError

    commit(store, [], [grow("a", "x", 5)])
    with pytest.raises(StoreError, match="would have a negative count"):
        commit(store, [], [grow("a", "x", 5), grow("b", "y", -1)])
    assert read_history(store_url) == []


def test_large_changes_are_marked_as_significant(store: Store, store_url: str, days: list[datetime]) -> None:
    commit(store, [], [grow("a", "x", 20), grow("b", "y", 20)])
    query(store_url, "UPDATE rules SET expected_uses_variance = 2")
    days.append(datetime(2026, 3, 2, tzinfo=UTC))
    commit(store, [], [grow("a", "x", 3), grow("b", "y", 8)])
    rows = query(
        store_url,
        "SELECT source, change, standard_error, significant FROM rule_changes WHERE day = '2026-03-02' ORDER BY source",
    )
    # Each squared error is the sum of two variances of 2, the group variance of 20 uses (4.8), and the group variance
    # of 23 or 28 uses.
    errors = [pytest.approx((4 + 4.8 + group) ** 0.5, abs=1e-3) for group in (5.3377, 6.3181)]
    assert rows == [("a", 3, errors[0], 0), ("b", 8, errors[1], 1)]
