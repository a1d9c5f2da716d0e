"""Withdrawn pairs are deleted with all their counts. Requests for withdrawals, and selection of pairs."""

import pytest
from tests.storage.building import commit, delta, ingest, integrity, pair, query, read_counts, update, withdraw

from hierogram.storage.exceptions import StoreError
from hierogram.storage.store import Store


def test_a_withdrawn_pair_is_deleted_with_its_derivation_counts_and_words(store: Store, store_url: str) -> None:
    ingest(store, [pair("a b", "x"), pair("b", "y z"), pair("b c", "z")])
    commit(store, [update(1), update(2)], [delta("a b", "x", 1, 2), delta("b", "y z", 1)])
    assert store.vocabulary_sizes() == (3, 3)
    withdraw(store, store.pairs_by_id([1, 3]), [delta("a b", "x", -1, -2)])
    assert [row.id for row in store.pairs()] == [2]
    assert read_counts(store) == {("b", "y z"): (1, 0)}
    assert store.vocabulary_sizes() == (1, 2)
    assert store.status().corpora == {"corpus": 1}
    assert query(store_url, "SELECT token, count FROM vocabulary WHERE side = 'source' ORDER BY token") == [
        ("a", 0),
        ("b", 1),
        ("c", 0),
    ]
    assert integrity(store) == []


def test_a_withdrawn_pair_may_be_added_again(store: Store) -> None:
    ingest(store, [pair("a", "x")])
    withdraw(store, store.pairs_by_id([1]), [])
    ingest(store, [pair("a", "x")])
    assert [row.id for row in store.pairs()] == [2]
    assert store.vocabulary_sizes() == (1, 1)
    assert integrity(store) == []


def test_a_withdrawal_request_is_pending_until_it_is_carried_out(store: Store) -> None:
    ingest(store, [pair("a", "x"), pair("b", "x")])
    assert store.request_withdrawals([2, 99, 2]) == [2]
    assert store.request_withdrawals([2, 1]) == [1, 2]
    assert store.pending_withdrawals(10) == [1, 2]
    assert store.pending_withdrawals(1) == [1]
    assert integrity(store) == []
    withdraw(store, store.pairs_by_id([1]), [])
    assert store.pending_withdrawals(10) == [2]
    assert store.request_withdrawals([1]) == []
    assert integrity(store) == []


def test_a_failed_withdrawal_deletes_nothing(store: Store) -> None:
    ingest(store, [pair("a", "x"), pair("b", "x")])
    rows = store.pairs_by_id([1, 2])
    commit(store, [update(1)], [delta("a", "x", 1)])
    with pytest.raises(StoreError, match="pair 1 was sampled"):
        withdraw(store, rows, [])
    with pytest.raises(StoreError, match="would have a negative count"):
        withdraw(store, store.pairs_by_id([1]), [delta("a", "x", -2)])
    assert [row.id for row in store.pairs()] == [1, 2]
    assert integrity(store) == []


def test_pairs_are_selected_by_corpus_external_id_and_origin(store: Store) -> None:
    ingest(store, [pair("a", "x", external_id="one"), pair("b", "x", external_id="two")], "news")
    ingest(store, [pair("a", "x", external_id="one")], "law")
    assert store.select_pairs(corpus="news") == [1, 2]
    assert store.select_pairs(external_ids=["one"]) == [1, 3]
    assert store.select_pairs(corpus="law", external_ids=["one"], origin="file.txt") == [3]
    assert store.select_pairs(origin="elsewhere") == []
    assert store.select_pairs(corpus="unknown") == []
