"""The rule table compared with a dictionary, with rules that are added, removed and collide."""

from collections import Counter

import numpy as np
import pytest

from hierogram.samplers.counts.models import ModelSettings, build_model, estimate_tables
from hierogram.samplers.counts.table import (
    COUNT,
    KEY_HIGH,
    TOKENS,
    CountTable,
    add,
    empty_table,
    fill_table,
    find,
    key_tag,
    look_up,
    with_room,
)
from hierogram.samplers.grammar.keys import pack_size

LONGEST = 8
MODEL = build_model(ModelSettings(), 100, 100, LONGEST)
CAPACITY = len(empty_table(LONGEST).rows)


def colliding_keys(rng: np.random.Generator, homes: int, rules: int) -> list[tuple[int, int]]:
    """Return keys whose home rows are among the `homes` rows around the table's end."""
    rows = (CAPACITY - homes // 2 + rng.integers(0, homes, rules)) % CAPACITY
    return [(int(rng.integers(1, 1 << 62)), int(row) + k * CAPACITY) for k, row in enumerate(rows)]


def assert_tagged(table: CountTable) -> None:
    """Check that exactly the occupied rows have their key's tag."""
    taken = np.flatnonzero(table.rows[:, COUNT])
    assert np.flatnonzero(table.tags).tolist() == taken.tolist()
    assert table.tags[taken].tolist() == [int(key_tag(high)) for high in table.rows[taken, KEY_HIGH]]


@pytest.mark.parametrize("seed", range(4))
def test_the_rule_table_behaves_like_a_dictionary(seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = colliding_keys(rng, 40, 120)
    lengths = [int(n) for n in rng.integers(0, LONGEST + 1, len(keys))]
    table = empty_table(LONGEST)
    counts: Counter[int] = Counter()
    for _ in range(3000):
        rule = int(rng.integers(len(keys)))
        change = int(rng.integers(-counts[rule], 3)) if rng.random() < 0.7 else -counts[rule]
        high, low = keys[rule]
        assert add(table, MODEL, np.uint64(high), np.uint64(low), np.uint64(lengths[rule]), change)
        counts[rule] += change
        counts += Counter()
    for rule, (high, low) in enumerate(keys):
        row = find(table.rows, np.uint64(high), np.uint64(low))
        assert table.rows[row, COUNT] == counts[rule]
        assert table.rows[row].any() == (counts[rule] > 0)
        assert look_up(table, np.uint64(high), np.uint64(low)) == (row, counts[rule])
    assert_tagged(table)
    assert table.totals.tolist() == [counts.total(), len(counts)]
    for length in range(LONGEST + 1):
        of_length = [n for rule, n in counts.items() if lengths[rule] == length]
        assert table.by_length[length]["tokens"] == sum(of_length)
        assert table.by_length[length]["tables"] == sum(estimate_tables(MODEL, n) for n in of_length)


def test_removed_rules_free_their_slots() -> None:
    table = empty_table(LONGEST)
    for high in range(1, CAPACITY):
        for change in (1, -1):
            assert add(table, MODEL, np.uint64(high), np.uint64(high * 7), np.uint64(2), change)
    assert not table.rows.any()
    assert not table.tags.any()
    assert with_room(table, CAPACITY // 2) is table


def test_a_larger_table_finds_all_rules() -> None:
    rng = np.random.default_rng(0)
    keys = np.array(colliding_keys(rng, 40, 1000), np.uint64)
    counts = rng.integers(1, 5, len(keys))
    sizes = pack_size(*(np.full(len(keys), n, np.int32) for n in (3, 1, 2)))
    small = fill_table(empty_table(LONGEST), MODEL, keys, counts, sizes)
    large = with_room(small, CAPACITY)
    assert len(large.rows) > len(small.rows)
    for table in (small, large):
        assert [int(table.rows[find(table.rows, high, low), COUNT]) for high, low in keys] == counts.tolist()
        assert [look_up(table, high, low)[1] for high, low in keys] == counts.tolist()
        assert_tagged(table)
        assert table.totals[TOKENS] == counts.sum()


@pytest.mark.parametrize(
    ("length", "key", "count", "why"),
    [
        (LONGEST + 1, 7, 1, f"row 1 is damaged: rule length {LONGEST + 1}, the limit is {LONGEST}"),
        (3, 0, 1, "row 1 is damaged: the rule key is 0"),
        (3, 7, -1, "row 1 is damaged: the rule's count falls below zero"),
    ],
)
def test_damaged_counts_are_refused(length: int, key: int, count: int, why: str) -> None:
    keys = np.array([(0, 5), (0, key)], np.uint64)
    sizes = pack_size(np.array([3, length]), np.array([1, 1]), np.array([2, 2]))
    with pytest.raises(ValueError, match=why):
        fill_table(empty_table(LONGEST), MODEL, keys, np.array([1, count]), sizes)


def test_a_negative_count_is_reported() -> None:
    table = empty_table(LONGEST)
    assert not add(table, MODEL, np.uint64(1), np.uint64(2), np.uint64(3), -1)
