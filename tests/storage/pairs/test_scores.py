"""Scores of pairs are replaced, returned in order, found through indexes, and deleted with their pairs."""

from dataclasses import replace
from datetime import UTC, datetime

from tests.storage.building import ingest, integrity, pair, query, withdraw
from tests.storage.plans import assert_no_scan, find_plan, plans

from hierogram.storage.database.connection import make_engine, parse_url
from hierogram.storage.records.pairs import Link, Misfit, PairScore, ScoreRow
from hierogram.storage.store import Store

MOMENT = datetime(2026, 5, 1, 12, 0, 1, tzinfo=UTC)


def score_row(pair_id: int, evidence: float, **values: object) -> ScoreRow:
    score = PairScore(4, 1.5, -2.5, evidence, 0.25, 1, False, Misfit(0, 1.5), None, (Link(0, 0, 0.98),))
    return ScoreRow(pair_id, 7, MOMENT, replace(score, **values), -3.0)


def test_scores_are_replaced_and_returned_in_order(store: Store) -> None:
    ingest(store, [pair("a", "x"), pair("b", "y"), pair("c", "z")])
    store.save_scores([score_row(3, 0.5), score_row(1, -1.0, target_misfit=Misfit(0, 2.0))])
    store.save_scores([score_row(3, 0.75, exact=True, doubt=2.5)])
    assert store.scores() == [
        score_row(1, -1.0, target_misfit=Misfit(0, 2.0)),
        score_row(3, 0.75, exact=True, doubt=2.5),
    ]
    assert [row.pair_id for row in store.scores(1)] == [3]
    assert [row.pair_id for row in store.scores(0, 1)] == [1]
    assert [row.pair_id for row in store.scores_by_id([2, 3])] == [3]
    assert store.scores_by_id([]) == []
    assert integrity(store) == []


def test_withdrawn_pairs_lose_their_score(store: Store) -> None:
    ingest(store, [pair("a", "x"), pair("b", "y")])
    store.save_scores([score_row(1, 0.5), score_row(2, 0.5)])
    withdraw(store, store.pairs_by_id([1]), [])
    # A pair may be withdrawn while its score is computed. Such a score is not stored.
    store.save_scores([score_row(1, 0.5), score_row(99, 0.5)])
    assert [row.pair_id for row in store.scores()] == [2]
    assert integrity(store) == []


def test_scores_of_removed_pairs_are_found_and_repaired(store: Store) -> None:
    ingest(store, [pair("a", "x")])
    store.save_scores([score_row(1, 0.5)])
    with make_engine(parse_url(store.engine.url.render_as_string(hide_password=False))).begin() as connection:
        connection.exec_driver_sql("UPDATE pair_scores SET pair_id = 5")
    assert any("scores of missing pairs" in line for line in integrity(store))
    with store.repairing() as (repair, _):
        assert repair.repair_states()[2] == 1
    assert store.scores() == []


def test_queries_of_scores_use_indexes(store: Store) -> None:
    ingest(store, [pair(f"a{k}", "x") for k in range(50)])
    store.save_scores([score_row(k, k / 50) for k in range(1, 51)])
    with plans() as seen:
        store.scores(10, 5)
        store.scores_by_id([3, 4])
        withdraw(store, store.pairs_by_id([7]), [])
    for entry in seen:
        for table in ("pair_scores", "sentence_pairs"):
            assert_no_scan(entry["plan"], table)
    assert find_plan(seen, "DELETE FROM pair_scores")


def test_the_lowest_evidence_is_found_by_an_index(store: Store, store_url: str) -> None:
    ingest(store, [pair(f"a{k}", "x") for k in range(50)])
    store.save_scores([score_row(k, k / 50) for k in range(1, 51)])
    question = "SELECT pair_id, source, evidence FROM scored_pairs WHERE evidence < 0.1 ORDER BY evidence LIMIT 3"
    assert query(store_url, question) == [(1, "a0", 0.02), (2, "a1", 0.04), (3, "a2", 0.06)]
    engine = make_engine(parse_url(store_url))
    sqlite = store_url.startswith("sqlite")
    with engine.connect() as connection:
        if not sqlite:
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        rows = connection.exec_driver_sql(f"EXPLAIN {'QUERY PLAN' if sqlite else ''} {question}").all()
    engine.dispose()
    plan = "\n".join(str(row[-1]) for row in rows)
    assert "pair_scores_by_evidence" in plan
    for table in ("s", "p", "pair_scores", "sentence_pairs"):
        assert_no_scan(plan, f"{table}\n")
