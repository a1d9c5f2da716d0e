"""Lookups, views and small writes scan no table that grows with the store."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import CopyStore, LastingStore
from tests.storage.building import commit, delta, ingest, make_key, make_pairs, pair, query, update, withdraw
from tests.storage.plans import assert_no_scan, disable_analysis, find_plan, plans

from hierogram.storage.database.connection import make_engine, parse_url
from hierogram.storage.records.grammar import CountKind
from hierogram.storage.store import Store, open_store

QUESTIONS: dict[str, Callable[[Store], object]] = {
    "rules of a side": lambda store: store.find_rules("s17 common"),
    "rules of both sides": lambda store: store.find_rules("s17 common", "t17 usual"),
    "rules of a word": lambda store: store.find_rules(words=["s17"]),
    "rules of words": lambda store: store.find_rules(words=["s17", "common", "usual"]),
    "the next rules": lambda store: [store.find_rules(words=["s17"], after=(9.0, "s17 common", "t17 usual"))],
    "respelled rules": lambda store: store.find_rules("Ś17 common", respelled=True),
    "similar words": lambda store: store.similar_words("s17x"),
    "pairs by id": lambda store: store.pairs_by_id([17, 18]),
    "a pair": lambda store: store.find_pair(17),
    "pairs of a state": lambda store: store.pairs(after_id=10, limit=20, states=["waiting"]),
    "the next pairs": lambda store: store.pairs(after_id=10, limit=20),
    "stale pairs": lambda store: store.stalest_pairs(20),
    "waiting pairs": lambda store: store.lag().oldest_seconds is not None,
    "pairs to be indexed": lambda store: store.unindexed_pairs(10, 20),
    "pairs of a rule": lambda store: [store.supporting_pairs("s17 common", "t17 usual")],
    "scores": lambda store: [store.scores_by_id([17, 18]), store.scores(17, 20)],
    "links": lambda store: [store.links_by_id([17, 18]), store.stalest_alignments(20)],
    "counts of words": lambda store: [store.aligner_counts((["s17"], ["t17"]))],
    "human links": lambda store: [store.human_links([17]), store.corrections_by_pair([17]), store.is_corrected(17)],
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_lookups_scan_no_table_without_statistics(lasting_store: LastingStore, name: str) -> None:
    with open_store(lasting_store("unanalyzed rules", make_unanalyzed)) as store, plans(own=True) as seen:
        assert QUESTIONS[name](store)
    assert seen
    for entry in seen:
        for table in ("rules", "rule_words", "vocabulary", "sentence_pairs", "derivations"):
            assert_no_scan(entry["plan"], table)


def make_unanalyzed(url: str) -> None:
    open_store(url, create=True).close()
    disable_analysis(url)
    with open_store(url) as store:
        fill(store)


def make_big(url: str) -> None:
    """Make a store that is large enough for the planners to prefer indexes.

    ANALYZE is run only on Postgres, which also runs it automatically. On SQLite few users run it.
    """
    with open_store(url, create=True) as store:
        fill(store)
    if not url.startswith("sqlite"):
        query(url, "ANALYZE")


@pytest.fixture
def big_url(lasting_store: LastingStore) -> str:
    return lasting_store("big", make_big)


@pytest.fixture
def big(big_url: str) -> Iterator[Store]:
    """Large store that tests share and must not write to."""
    with open_store(big_url) as store:
        yield store


@pytest.fixture
def big_copy(store_url: str, copy_store: CopyStore) -> Iterator[Store]:
    """Copy of the large store. Tests may write to it."""
    copy_store("big", store_url, make_big)
    with open_store(store_url) as store:
        yield store


def fill(store: Store) -> None:
    ingest(store, [pair(f"s{n} common", f"t{n} usual") for n in range(4_000)])
    commit(
        store,
        [update(n, state="settled", sweep=n % 97) for n in range(1, 3_900)],
        [delta(f"s{n} common", f"t{n % 1000} usual", 1 + n % 5, 1 + n % 5) for n in range(4_000)],
    )


@pytest.mark.parametrize("sides", [{"source": "s17 common"}, {"target": "t17 usual"}])
def test_lookups_of_rules_by_exact_side_use_indexes(big: Store, sides: dict[str, str]) -> None:
    with plans() as seen:
        assert big.find_rules(**sides)
    plan = find_plan(seen, "FROM rules")
    assert "rules_by_source" in plan
    assert "rules_by_target" in plan
    assert_no_scan(plan, "rules")


def test_lookups_of_rules_with_given_sides_use_indexes(big: Store) -> None:
    sides = {"source": [f"s{n} common" for n in range(40)], "target": [f"t{n} usual" for n in range(30)]}
    with big.snapshot() as snapshot, plans() as seen:
        assert list(snapshot.matching_rule_blocks(("source",), sides, CountKind.CURRENT_SAMPLE))
    plan = find_plan(seen, "FROM rules", "UNION")
    assert "rules_by_source" in plan
    assert "rules_by_target" in plan
    assert_no_scan(plan, "rules")


def test_lookups_use_indexes_with_statistics(big_copy: Store, store_url: str) -> None:
    query(store_url, "ANALYZE")
    with open_store(store_url) as store, plans() as seen:
        assert store.find_rules("s17 common", "t17 usual")
        assert len(store.stalest_pairs(20)) == 20
        assert len(store.pairs(after_id=10, limit=20, states=["waiting"])) == 20
    assert_no_scan(find_plan(seen, "FROM rules"), "rules")
    assert "pair_positions_by_position" in find_plan(seen, "pair_positions")
    for entry in seen:
        assert_no_scan(entry["plan"], "sentence_pairs")


def test_lookups_of_rules_by_word_use_indexes(big: Store) -> None:
    with plans() as seen:
        assert len(big.find_rules(words=["s17", "common", "usual"])) == 1
    assert "vocabulary_by_token" in next(entry["plan"] for entry in seen if "FROM vocabulary" in entry["statement"])
    plan = find_plan(seen, "FROM rules", "rule_words")
    assert_no_scan(plan, "rules")
    assert_no_scan(plan, "rule_words")


def test_lookups_of_pairs_by_state_and_age_use_indexes(big: Store) -> None:
    with plans() as seen:
        assert len(big.pairs(after_id=10, limit=20, states=["waiting", "sampling"])) == 20
    for entry in seen:
        assert "sentence_pairs_by_state" in entry["plan"] or "sentence_pairs_pkey" in entry["plan"]
        assert_no_scan(entry["plan"], "sentence_pairs")
        assert "TEMP B-TREE" not in entry["plan"]
        assert "Sort" not in entry["plan"]
    with plans() as seen:
        assert len(big.stalest_pairs(20)) == 20
    plan = find_plan(seen, "pair_positions")
    assert "pair_positions_by_position" in plan
    for table in ("sentence_pairs", "derivations"):
        assert_no_scan(plan, table)
    with plans() as seen:
        assert big.lag().pairs > 0
    for entry in seen:
        assert_no_scan(entry["plan"], "sentence_pairs")
        assert "TEMP B-TREE" not in entry["plan"]
        assert "Sort" not in entry["plan"]


def test_withdrawals_scan_no_table(big_copy: Store) -> None:
    assert big_copy.request_withdrawals([5, 6, 3_999]) == [5, 6, 3_999]
    with plans() as seen:
        assert big_copy.pending_withdrawals(10) == [5, 6, 3_999]
    assert "withdrawals_pending" in find_plan(seen, "withdrawals")
    rows = big_copy.pairs_by_id([5, 6, 3_999])
    with plans() as seen:
        withdraw(big_copy, rows, [])
    assert len(seen) >= 8
    for entry in seen:
        for table in ("sentence_pairs", "derivations", "pair_positions", "withdrawals", "vocabulary"):
            assert_no_scan(entry["plan"], table)


def test_a_small_commit_scans_no_table(big_copy: Store) -> None:
    with plans() as seen:
        commit(
            big_copy,
            [update(n, sweep=200) for n in range(5, 15)],
            [
                *(delta(f"s{n} common", f"t{n} usual", 2) for n in range(20, 30)),
                *(delta(f"s{n} common", f"t{n} usual", 0, 2) for n in range(30, 40)),
                *(delta(f"s{n} common", f"t{n} usual", -1 - n % 5) for n in range(40, 50)),
                *(delta(f"new{n}", "usual", 1) for n in range(10)),
            ],
        )
    assert re.search(
        "SEARCH rules USING INTEGER PRIMARY KEY|rules_pkey", find_plan(seen, "SELECT rules.id", "staged_ids")
    )
    tables = ("sentence_pairs", "derivations", "rules", "rule_words", "vocabulary")
    assert len(seen) >= 10
    for entry in seen:
        for table in tables:
            assert_no_scan(entry["plan"], table)


def test_a_small_ingest_scans_no_table(big_copy: Store) -> None:
    batch = big_copy.begin_ingest("corpus", "more.txt", "bars")
    with plans() as seen:
        big_copy.add_pairs(batch, make_pairs([pair("s17 common", "unseen"), pair("s18 common", "t18 usual")]))
    assert "sentence_pairs_by_identity" in find_plan(seen, "JOIN sentence_pairs AS p")
    for entry in seen:
        for table in ("sentence_pairs", "vocabulary"):
            assert_no_scan(entry["plan"], table)


def test_the_public_views_use_indexes(big_url: str) -> None:
    explain = "EXPLAIN QUERY PLAN" if big_url.startswith("sqlite") else "EXPLAIN"
    for condition in (
        "rule_table WHERE source = 's17 common' ORDER BY count DESC LIMIT 5",
        "rule_table WHERE target = 't17 usual' ORDER BY count DESC LIMIT 5",
        "word_rules WHERE token = 's17'",
    ):
        plan = "\n".join(str(row[-1]) for row in query(big_url, f"{explain} SELECT * FROM {condition}"))
        for table in ("rules", "r", "s", "t", "rule_words", "w", "vocabulary", "v"):
            assert_no_scan(plan, f"{table}\n")
            assert "Seq Scan" not in plan


def test_changed_rules_are_found_by_id(big_url: str) -> None:
    """A search by sides instead of ids takes 1 ms per change in a store of a million rules."""
    sqlite = big_url.startswith("sqlite")
    explain, by_id = (
        ("EXPLAIN QUERY PLAN", "s USING INTEGER PRIMARY KEY") if sqlite else ("EXPLAIN", "(id = h.rule_id)")
    )
    rows = query(big_url, f"{explain} SELECT * FROM rule_changes WHERE day = '2026-03-01'")
    assert by_id in "\n".join(str(row[-1]) for row in rows)


@pytest.mark.parametrize(
    "question",
    [
        "current_sample_by_source WHERE source = 's17 common'",
        "current_sample_by_target WHERE target = 't17 usual'",
        "rule_support WHERE rule_source = 's17 common' AND rule_target = 't17 usual'",
        "rule_support WHERE pair_id = 17",
        "rule_changes WHERE day = '2026-03-01'",
    ],
)
def test_views_of_one_side_pair_or_day_read_only_its_rows(big_url: str, question: str) -> None:
    sqlite = big_url.startswith("sqlite")
    engine = make_engine(parse_url(big_url))
    with engine.connect() as connection:
        if not sqlite:
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        rows = connection.exec_driver_sql(f"EXPLAIN {'QUERY PLAN' if sqlite else ''} SELECT * FROM {question}").all()
    engine.dispose()
    plan = "\n".join(str(row[-1]) for row in rows)
    # The table of corpora is not checked, because it is small in every store.
    tables = ("rules", "rule_pairs", "sentence_pairs", "indexed_pairs", "pair_positions", "rule_history")
    for table in (*tables, "r", "u", "p", "i", "v", "h"):
        assert f"SCAN {table}" not in plan, plan
    for table in tables:
        assert f"Seq Scan on {table}" not in plan, plan
    if not sqlite:
        # Postgres may also scan a whole index. The requested value must be the index condition.
        assert "Index Cond" in plan, plan


def test_unindexed_pairs_are_found_and_indexed_without_a_scan(big_copy: Store) -> None:
    with plans() as seen:
        assert len(big_copy.unindexed_pairs(after_id=10, limit=20)[1]) == 20
    plan = find_plan(seen, "indexed_pairs")
    for table in ("sentence_pairs", "pair_positions", "indexed_pairs", "derivations"):
        assert_no_scan(plan, table)
    with plans() as seen:
        big_copy.index_pairs(range(5, 15), big_copy.position(), [(7, *make_key("s7 common", "t7 usual"), 1)], 0)
    assert len(seen) >= 6
    for entry in seen:
        for table in ("rules", "rule_pairs", "sentence_pairs", "pair_positions", "indexed_pairs"):
            assert_no_scan(entry["plan"], table)


def test_a_pair_is_stored_without_a_temporary_index(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    open_store(url, create=True).close()
    columns = query(url, "SELECT name FROM pragma_table_info('sentence_pairs')")
    program = query(url, f"EXPLAIN INSERT INTO sentence_pairs VALUES ({', '.join('1' for _ in columns)})")
    steps = {row[1] for row in program}
    assert "Insert" in steps
    assert not steps & {"OpenEphemeral", "OpenAutoindex"}
