"""Rows in a worker's own tables become part of a commit like rows in memory, or are dropped."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.storage.building import (
    Delta,
    Update,
    delta,
    deltas_of,
    ingest,
    key_of,
    pair,
    query,
    update,
    updates_of,
)

from hierogram.storage.exceptions import (
    CountError,
    LeaseLostError,
    PairChangedError,
    PairMissingError,
    RuleKeyCollisionError,
    StoreError,
)
from hierogram.storage.records import WrittenPart
from hierogram.storage.store import Store, open_store

pytestmark = pytest.mark.database("postgres")

WORDS = ["la", "maison", "fleur", "fin", "Œuvre"]
TABLES = {
    "rules": "id",
    "rule_words": "word_id, rule_id",
    "derivations": "pair_id",
    "pair_positions": "pair_id",
    "sentence_pairs": "id",
    "store_state": "id",
    "rule_history": "day, rule_id",
    "reported_rules": "rule_id",
    "vocabulary": "id",
    "rule_key_runs": "id",
}
"""All tables that a commit writes, and the order of rows."""
PAIRS = [pair(" ".join(WORDS), "the house flower end opus"), pair("la fin", "the end"), pair("fin", "end")]


@pytest.fixture
def token(store: Store) -> Iterator[str]:
    """The token of a lease on the store."""
    store.take_lease("test", 60)
    lease = store.lease()
    assert lease is not None
    yield lease.token
    store.release_lease()


def write(store: Store, token: str, number: str, updates: Iterable[Update], deltas: Iterable[Delta]) -> WrittenPart:
    """Write a part like another process."""
    with open_store(store.engine.url.render_as_string(hide_password=False)) as worker:
        return worker.write_part(token, number, updates_of(updates), deltas_of(deltas))


def worker_tables(store: Store) -> list[tuple[object, ...]]:
    url = store.engine.url.render_as_string(hide_password=False)
    return query(url, r"SELECT tablename FROM pg_tables WHERE tablename LIKE 'worker\_%'")


def contents(store: Store) -> dict[str, list[tuple[object, ...]]]:
    left_out = {"sentence_pairs": {"added_at"}, "store_state": {"position"}, "rule_key_runs": {"id"}}
    found = {}
    with store.engine.connect() as connection:
        for table, order in TABLES.items():
            rows = connection.exec_driver_sql(f"SELECT * FROM {table} ORDER BY {order}").mappings().all()
            found[table] = [
                tuple(value for name, value in row.items() if name not in left_out.get(table, ())) for row in rows
            ]
    return found


def changes(random: Random, counts: Counter[tuple[str, str]], expected: Counter[tuple[str, str]]) -> list[Delta]:
    """Return changes of some rules, which are added, grow, shrink and are deleted."""
    deltas = []
    for _ in range(40):
        source = " ".join(random.choices([*WORDS, "[X,1]"], k=random.randint(1, 3)))
        target = " ".join(random.choices(["the", "end", "opus"], k=random.randint(1, 2)))
        rule = source, target
        if any((one.source, one.target) == rule for one in deltas):
            continue
        more = random.choice([-counts[rule], random.randint(0, 2), 0])
        uses = random.choice([-expected[rule], random.randint(0, 48) / 4, random.randint(0, 3) / 4, 0])
        counts[rule] += more
        expected[rule] += uses
        if more or uses:
            deltas.append(delta(*rule, more, uses))
    return sorted(deltas, key=lambda one: (one.source.encode(), one.target))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_parts_in_tables_equal_parts_in_memory(store: Store, token: str, seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    counts, expected = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    with open_store(f"sqlite:///{tmp_path}/s.db", create=True) as other:
        other.take_lease("test", 60)
        for one in (store, other):
            ingest(one, PAIRS)
        for turn in range(6):
            parts = [
                (
                    [update(number, bytes([turn, number]), state="settled", sweep=turn + 1)],
                    changes(random, counts, expected),
                )
                for number in (1, 2)
            ]
            other.commit([(updates_of(updates), deltas_of(deltas)) for updates, deltas in parts])
            store.commit(
                [
                    write(store, token, f"{turn}_{number}", updates, deltas)
                    for number, (updates, deltas) in enumerate(parts)
                ]
            )
            ours, theirs = contents(store), contents(other)
            for table in TABLES:
                assert ours[table] == theirs[table], table
            assert store.integrity() == []
            assert worker_tables(store) == []
    assert any(number > 8 for number in expected.values())


@pytest.mark.slow
def test_many_rows_are_all_written(store: Store, token: str) -> None:
    ingest(store, PAIRS)
    rules = [delta(f"w{number}", "ü" * (number % 5 + 1), 1, number / 4) for number in range(20_000)]
    with pytest.raises(StoreError, match="is missing from the vocabulary"):
        write(store, token, "a", [update(1)], rules)
    assert worker_tables(store) == []
    rules = [delta("la", f"the {'[X,1] ' * (number % 3)}end [X,{number}]", 0, 0.25) for number in range(40_000)]
    store.commit([write(store, token, "b", [update(1)], rules)])
    with store.snapshot() as snapshot:
        found = [(rule.source, rule.target, rule.expected_uses) for rule in snapshot.iterate_all_rule_rows()]
    assert sorted(found) == sorted((rule.source, rule.target, 0.25) for rule in rules)
    assert store.integrity() == []


def test_invalid_parts_are_refused_and_change_nothing(store: Store, token: str) -> None:
    ingest(store, PAIRS)
    store.commit([write(store, token, "a", [update(1)], [delta("la", "the", 2, 1)])])
    before = contents(store)
    for number, (updates, deltas, error, said) in enumerate(
        (
            ([update(7)], [], PairMissingError, "pair 7"),
            ([update(1)._replace(since=3)], [], PairChangedError, "pair 1 was read at sweep 3"),
            ([update(1)], [delta("fin", "end", 1), delta("la", "the", -3)], CountError, "'la ||| the' would become -1"),
            ([update(1)], [delta("fin", "end", 1, key=key_of("la", "the"))], RuleKeyCollisionError, "fin"),
        )
    ):
        part = write(store, token, f"x{number}", updates, deltas)
        with pytest.raises(error, match=said):
            store.commit([part])
        assert contents(store) == before
    assert len(worker_tables(store)) == 12
    store.release_lease()
    assert worker_tables(store) == []


def test_tables_of_an_old_claim_are_dropped_by_the_next_one(store: Store, token: str) -> None:
    ingest(store, PAIRS)
    write(store, token, "a", [update(1)], [delta("la", "the", 2, 1)])
    # As if the process with the lease was killed.
    store.renew_lease(-1)
    with open_store(store.engine.url.render_as_string(hide_password=False)) as other:
        assert len(worker_tables(store)) == 3
        other.take_lease("another", 60)
        assert worker_tables(store) == []
        with pytest.raises(LeaseLostError):
            write(store, token, "b", [update(1)], [])
        other.release_lease()
    assert worker_tables(store) == []


def test_a_part_without_rules_is_accepted(store: Store, token: str) -> None:
    ingest(store, PAIRS)
    part = write(store, token, "a", [update(3, state="settled")], [])
    assert np.array_equal(part.changes.counts, [])
    store.commit([part])
    assert [row.state for row in store.pairs()] == ["waiting", "waiting", "settled"]
