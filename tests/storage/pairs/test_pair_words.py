"""Index of pairs by source words: it grows and shrinks with the pairs, and damage is found and repaired."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as some
from tests.storage.building import ingest, integrity, pair, query, withdraw

from hierogram.storage.pairs.pair_index import POSITION_BITS, decode_pairs, make_postings
from hierogram.storage.store import Store

WORDS = "abcdefg"


def stored_postings(url: str) -> dict[str, list[int]]:
    """Return the ids of the indexed pairs of each source word."""
    tokens = dict(query(url, "SELECT id, token FROM vocabulary WHERE side = 'source'"))
    postings: dict[str, list[int]] = defaultdict(list)
    for block, word, content in query(url, "SELECT block, word_id, pairs FROM pair_words ORDER BY block"):
        postings[tokens[word]] += decode_pairs(block, bytes(content)).tolist()
    return dict(postings)


def expected_postings(store: Store) -> dict[str, list[int]]:
    postings: dict[str, list[int]] = defaultdict(list)
    for row in store.pairs():
        for word in set(row.source.split(" ")):
            postings[word].append(row.id)
    return dict(postings)


@given(some.lists(some.lists(some.sampled_from(WORDS), min_size=1, max_size=6), max_size=8), some.integers(1, 1 << 40))
def test_postings_hold_each_pair_and_word_once(texts: list[list[str]], first: int) -> None:
    ids = {word: 5 + n for n, word in enumerate(WORDS)}
    pair_ids = [first + 9_000 * n for n in range(len(texts))]
    rows = list(make_postings(pair_ids, [" ".join(text) for text in texts], lambda _: ids))
    assert rows == sorted(rows)
    found = {(word, pair_id) for block, word, content in rows for pair_id in decode_pairs(block, content).tolist()}
    assert found == {(ids[word], pair_id) for pair_id, text in zip(pair_ids, texts, strict=True) for word in text}
    assert sum(len(content) for _, _, content in rows) == 2 * len(found)
    for block, _, content in rows:
        assert (decode_pairs(block, content) - (block << POSITION_BITS)).astype("<u2").tobytes() == content


@pytest.mark.slow
def test_the_index_of_pairs_grows_by_pairs_and_blocks_and_shrinks(store: Store, store_url: str) -> None:
    ingest(store, [pair("a b a", "x"), pair("b c", "x")])
    ingest(store, [pair("a d", "x")])
    assert stored_postings(store_url) == expected_postings(store) == {"a": [1, 3], "b": [1, 2], "c": [2], "d": [3]}
    many = 1 << POSITION_BITS
    ingest(store, [pair(f"a w{n % 50}", "y", line=n, external_id=str(n)) for n in range(many)])
    assert stored_postings(store_url) == expected_postings(store)
    blocks = query(store_url, "SELECT DISTINCT block FROM pair_words ORDER BY block")
    assert [row[0] for row in blocks] == [0, 1]
    withdraw(store, store.pairs_by_id([2, 3, many, many + 1]))
    postings = stored_postings(store_url)
    assert postings == expected_postings(store)
    assert "c" not in postings
    assert "d" not in postings
    assert integrity(store) == []


def test_errors_in_the_index_of_pairs_are_found_and_repaired(store: Store, store_url: str) -> None:
    from hierogram.daemon.learning.repairing import repair

    ingest(store, [pair("a b", "x"), pair("b c", "x")])
    before = stored_postings(store_url)
    for damage in ("DELETE FROM pair_words WHERE word_id = 1", "UPDATE pair_words SET block = 3 WHERE word_id = 2"):
        query(store_url, damage)
        assert any("indexed under wrong words" in line for line in integrity(store))
        assert repair(store).pair_word_blocks > 0
        assert integrity(store) == []
        assert stored_postings(store_url) == before


def test_wrong_anchors_of_rules_are_found_and_repaired(store: Store, store_url: str) -> None:
    from hierogram.daemon.learning.repairing import repair

    ingest(store, [pair("a b", "x", "0-0 1-0")])
    query(store_url, "INSERT INTO rule_words (word_id, rule_id) VALUES (-5, 7)")
    assert integrity(store) != []
    repair(store)
    assert integrity(store) == []


def test_frequent_words_have_the_first_numbers(store: Store, store_url: str) -> None:
    ingest(store, [pair("z a", "x"), pair("z b", "x"), pair("z c a", "x")])
    tokens = query(store_url, "SELECT token FROM vocabulary WHERE side = 'source' ORDER BY id")
    assert [row[0] for row in tokens] == ["z", "a", "b", "c"]


def test_positions_of_pairs_in_a_block_take_two_bytes() -> None:
    assert decode_pairs(1, b"\0\0\2\1").tolist() == [1 << POSITION_BITS, (1 << POSITION_BITS) + 258]
