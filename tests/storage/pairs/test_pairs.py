"""Lookups of pairs by id, state and age, and the lag of sampling."""

from tests.storage.building import NewPair, commit, ingest, pair, query, update

from hierogram.storage.records.pairs import LagRow, compute_checksum
from hierogram.storage.store import Store


def fill(store: Store) -> None:
    ingest(store, [pair(f"s{n}", f"t{n}") for n in range(1, 7)])
    commit(
        store,
        [
            update(2, b"two", state="sampling", sweep=5),
            update(3, b"three", state="settled", sweep=3),
            update(5, b"five", state="settled", sweep=5),
            update(6, b"six", state="sampling", sweep=1),
        ],
        [],
    )


def test_pairs_are_in_id_order_from_any_start(store: Store) -> None:
    fill(store)
    assert [row.id for row in store.pairs()] == [1, 2, 3, 4, 5, 6]
    assert [row.id for row in store.pairs(after_id=2, limit=3)] == [3, 4, 5]
    assert store.pairs(after_id=6) == []


def test_pairs_by_state_are_listed_and_counted(store: Store) -> None:
    fill(store)
    assert [row.id for row in store.pairs(states=["waiting"])] == [1, 4]
    assert [row.id for row in store.pairs(after_id=2, states=["sampling", "settled"])] == [3, 5, 6]
    assert [row.id for row in store.pairs(limit=3, states=["settled", "waiting", "settled"])] == [1, 3, 4]
    assert store.pairs(states=[]) == []
    assert store.count_pairs() == 6
    assert store.count_pairs(["settled"]) == 2
    assert store.count_pairs(["waiting", "sampling", "waiting"]) == 4
    assert store.count_pairs([]) == 0


def test_a_pair_includes_its_derivation_and_progress(store: Store) -> None:
    fill(store)
    waiting, settled = store.pairs_by_id([3, 4])[::-1]
    assert waiting == (4, "s4", "t4", "0-0", "waiting", 0, 0, None, None, "given", 0, None, None)
    checksum = compute_checksum(3, b"three", b"uses of three")
    assert settled == (3, "s3", "t3", "0-0", "settled", 1, 3, b"three", b"uses of three", "given", 0, checksum, None)
    assert isinstance(settled.current, bytes)


def test_pairs_by_id_omits_missing_pairs(store: Store) -> None:
    fill(store)
    assert [row.id for row in store.pairs_by_id([6, 99, 1, 6, -3])] == [1, 6]
    assert [row.id for row in store.pairs_by_id(range(25_000))] == [1, 2, 3, 4, 5, 6]


def test_the_stalest_pairs_come_first(store: Store) -> None:
    fill(store)
    for sampled in ([6, 2], [4], [2, 5]):
        commit(store, [update(pair_id, state="settled", sweep=1) for pair_id in sampled], [])
    assert [row.id for row in store.stalest_pairs(10)] == [3, 6, 4, 2, 5]
    assert [row.id for row in store.stalest_pairs(3)] == [3, 6, 4]


def test_the_lag_has_the_number_and_age_of_unsettled_pairs(store: Store, store_url: str) -> None:
    assert store.lag() == LagRow(0, None, {"unaligned": 0, "waiting": 0, "sampling": 0})
    fill(store)
    lag = store.lag()
    assert lag.pairs == store.count_pairs(["waiting", "sampling"])
    query(store_url, "UPDATE sentence_pairs SET added_at = '2000-01-01 00:00:00' WHERE id = 1")
    assert (lag.oldest_seconds or 0) < 3600 < 7e8 < (store.lag().oldest_seconds or 0)


def test_derivations_are_iterated_in_batches(store: Store) -> None:
    fill(store)
    with store.snapshot() as snapshot:
        batches = [[row.id for row in rows] for rows in snapshot.iterate_derivations(batch=3)]
    assert batches == [[2, 3, 5], [6]]


def test_unaligned_pairs_are_not_sampled_but_count_in_the_lag(store: Store) -> None:
    ingest(store, [pair("a", "b"), NewPair("c", "d", None, 1, 1, 2)])
    assert store.lag().pairs == 2
    commit(store, [update(1, state="settled")], [])
    assert [row.id for row in store.stalest_pairs(5)] == [1]
    lag = store.lag()
    assert lag.pairs == 1
    assert lag.oldest_seconds is not None
