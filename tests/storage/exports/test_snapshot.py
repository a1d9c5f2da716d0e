"""A snapshot shows one state of the store, even during later commits, and does not block writers."""

from random import Random

import pytest
from tests.storage.building import commit, delta, ingest, pair, query, read_counts, update
from tests.storage.rows import rule_rows

from hierogram.samplers.grammar.numbers import ONE_USE
from hierogram.storage.records.grammar import CountKind
from hierogram.storage.store import Store, open_store

RULES = [
    delta("la", "the", 6, 1),
    delta("la", "it", 2, 3),
    delta("le", "the", 2),
    delta("[X,1] de [X,2]", "[X,2] [X,1]", 4),
    delta("Z", "z", 0, 5),
    delta("é", "e", 1),
    delta("\U0001f600", "x", 1),
    delta("\uff5e", "x", 1),
    delta("a b c d e f", "long", 9),
]


@pytest.mark.slow
def test_an_open_snapshot_does_not_see_later_commits(store: Store, store_url: str) -> None:
    ingest(store, [pair(f"s{n}", "t") for n in range(50)])
    commit(store, [update(n) for n in range(1, 51)], [delta(f"s{n}", "t", 1) for n in range(12_000)])
    with open_store(store_url) as other, store.snapshot() as snapshot:
        before = snapshot.state().position
        rules = rule_rows(snapshot)
        first = next(rules)
        commit(other, [update(1, b"new", sweep=2)], [delta("s0", "t", -1), delta("s1", "t", 5), delta("zz", "t", 1)])
        ingest(other, [pair("new", "pair")])
        seen = [first, *rules]
        assert len(seen) == 12_000
        assert {row.count for row in seen} == {1}
        pairs = [row for rows in snapshot.iterate_derivations(batch=7) for row in rows]
        assert {row.current for row in pairs} == {b"d"}
        assert len(list(rule_rows(snapshot))) == 12_000
        assert snapshot.state().pairs() == {"unaligned": 0, "waiting": 0, "sampling": 50, "settled": 0}
        assert snapshot.table_problems() == []
        assert snapshot.state().position == before
        assert other.position() > before
    assert store.find_rules("s1", current_sample=True)[0].count == 6


def test_rules_with_given_sides_are_found(store: Store) -> None:
    ingest(store, [pair("s", "t"), pair("s", "u")])
    commit(store, [update(2)], RULES)
    with store.snapshot() as snapshot:
        pair_id, last = snapshot.newest()
        assert (pair_id, last) == (2, len(RULES))
        columns = ("source", "target", f"CASE WHEN id > {last - 2} THEN 1 ELSE 0 END")
        sides = {"source": ["la", "Z", "not there"], "target": ["x"]}
        blocks = list(snapshot.matching_rule_blocks(columns, sides, CountKind.CURRENT_SAMPLE))
        nothing = list(snapshot.matching_rule_blocks(columns, {"source": [], "target": []}, CountKind.CURRENT_SAMPLE))
    assert [rows for rows, _ in blocks] == [4]
    found = sorted(zip(*(column.split("\n") for column in blocks[0][1]), strict=True))
    # Z has no count. The other omitted rules have no requested side.
    assert found == [
        ("la", "it", "0", "2"), ("la", "the", "0", "6"), ("\uff5e", "x", "1", "1"), ("\U0001f600", "x", "0", "1"),
    ]  # fmt: skip
    assert nothing == []


def test_translation_weights_add_an_eighth_of_minimal_uses(store: Store, store_url: str) -> None:
    rules = [delta("a", "x", 1, 1.5, 4), delta("b", "x", 0, 0, 2), delta("b", "y", 2), delta("c", "x", 0, 0.25)]
    commit(store, [], rules)
    uses = {
        CountKind.CURRENT_SAMPLE: {"a": 1, "b": 2},
        CountKind.POSTERIOR_MEAN: {"a": 1.5 * ONE_USE, "c": ONE_USE / 4},
        CountKind.TRANSLATION: {"a": 2 * ONE_USE, "b": ONE_USE / 4, "c": ONE_USE / 4},
    }
    with store.snapshot() as snapshot:
        for kind, found in uses.items():
            blocks = list(snapshot.rule_blocks(["source"], kind))
            columns = [[line for _, block in blocks for line in block[k].split("\n")] for k in (0, 1)]
            assert dict(zip(columns[0], map(int, columns[1]), strict=True)) == found
            assert snapshot.count_rules(kind) == len(found)
    view = "SELECT source, translation_weight, p_source_given_target FROM translation_grammar ORDER BY source"
    assert query(store_url, view) == [("a", 2, 0.8), ("b", 0.25, 0.1), ("c", 0.25, 0.1)]


def test_rule_counts_do_not_depend_on_the_order_of_commits(store: Store) -> None:
    shuffled = RULES * 1
    Random(4).shuffle(shuffled)
    for change in shuffled:
        commit(store, [], [change])
    one_by_one = read_counts(store)
    commit(store, [], [delta(d.source, d.target, -d.count, -d.expected_uses) for d in RULES])
    commit(store, [], RULES)
    assert one_by_one == read_counts(store)


def test_writers_do_not_wait_for_readers(store: Store, store_url: str) -> None:
    commit(store, [], RULES)
    with store.snapshot() as snapshot, open_store(store_url) as other:
        snapshot.state()
        for _ in range(3):
            commit(other, [], [delta("la", "the", 1)])
        assert other.position() == snapshot.state().position + 3


@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_an_iteration_over_a_snapshot_can_be_abandoned(store: Store, batch: int) -> None:
    ingest(store, [pair(f"s{n}", "t") for n in range(5)])
    commit(store, [update(n) for n in range(1, 6)], RULES)
    with store.snapshot() as snapshot:
        assert len(next(snapshot.iterate_derivations(batch))) == min(batch, 5)
        next(rule_rows(snapshot))
    commit(store, [], [delta("la", "the", 1)])
    assert store.find_rules("la", "the", current_sample=True)[0].count == 7
