"""Searches for similar sentences: results and their order, and indexes in a store that was never analyzed."""

import re
from collections.abc import Iterator
from random import Random

import pytest
from tests.conftest import CopyStore
from tests.storage.building import commit, delta, ingest, pair
from tests.storage.plans import assert_no_scan, plans

from hierogram.samplers.grammar.kinds import SOURCE
from hierogram.storage.browsing.reader import Reader, ReadTransaction
from hierogram.storage.browsing.similar_pairs import find_rules_by_source, find_similar_pairs, find_source_sides
from hierogram.storage.pairs.vocabulary import find_words
from hierogram.storage.store import Store, open_store

GROWING = ("rules", "rule_words", "sentence_pairs", "vocabulary", "pair_words", "r", "w", "p")


@pytest.fixture
def transaction(store_url: str, copy_store: CopyStore) -> Iterator[ReadTransaction]:
    """Read access to a store on which ANALYZE was not run."""
    copy_store("unanalyzed", store_url, make)
    with Reader(store_url) as reader, reader.read() as transaction:
        yield transaction


def make(url: str) -> None:
    with open_store(url, create=True) as store:
        ingest(store, [pair(f"s{n} common", f"t{n} usual") for n in range(4_000)])
        commit(store, [], [delta(f"s{n} common", f"t{n % 1000} usual", 1, 1) for n in range(4_000)])


def test_similarity_searches_scan_no_table(transaction: ReadTransaction) -> None:
    with plans() as seen:
        known = find_words(transaction.connection, ["s17", "common", "never"])[SOURCE]
        words = [known.get(word) for word in ("s17", "common", "never")]
        assert set(find_source_sides(transaction, words)) == {"s17 common"}
        assert find_rules_by_source(transaction, ["s17 common", "s18 common"], 3)
        assert "s17 common" in [found.source for found in find_similar_pairs(transaction, known, 20)[0]]
    assert len(seen) >= 6
    for entry in seen:
        for table in GROWING:
            assert_no_scan(entry["plan"], table)


def test_every_matching_side_of_several_words_is_found(store: Store, store_url: str) -> None:
    draw = Random(3)
    words = [f"w{n}" for n in range(12)]
    ingest(store, [pair(" ".join(draw.choices(words, k=6)), "x") for _ in range(40)])
    sides = set()
    for _ in range(400):
        length = draw.randint(1, 4)
        symbols = draw.choices(words[: draw.randint(1, 12)], k=length)
        if draw.random() < 0.5:
            symbols.insert(draw.randint(0, length), "[X,1]")
        sides.add(" ".join(symbols))
    commit(store, [], [delta(side, "x [X,1]" if "[X,1]" in side else "x", 1, 1) for side in sorted(sides)])
    checked = 0
    with Reader(store_url) as reader, reader.read() as transaction:
        for _ in range(30):
            sentence = draw.choices(words, k=draw.randint(1, 7))
            known = find_words(transaction.connection, sentence)[SOURCE]
            found = find_source_sides(transaction, [known.get(word) for word in sentence])
            for side in sides:
                symbols = side.split(" ")
                pattern = " ".join("[^ ]+( [^ ]+)*" if symbol == "[X,1]" else symbol for symbol in symbols)
                matches = re.search(f" {pattern} ", f" {' '.join(sentence)} ")
                if matches and len(symbols) - symbols.count("[X,1]") > 1:
                    assert found[side] == 1
                    checked += 1
    assert checked > 30


def test_rules_by_source_have_probabilities_and_are_ordered_by_expected_uses(store: Store, store_url: str) -> None:
    ingest(store, [pair("a", "x")])
    commit(
        store,
        [],
        [delta("a", "x", 1, 3), delta("a", "y", 1, 5), delta("a", "z", 0, 0.25),
         delta("a", "v", 1, 0)],
    )  # fmt: skip
    with Reader(store_url) as reader, reader.read() as transaction:
        [found] = find_rules_by_source(transaction, ["a", "b"], 2).values()
        assert [(one.other, one.expected_uses) for one in found] == [("y", 5.0), ("x", 3.0)]
        assert [one.probability for one in found] == pytest.approx([5 / 8.25, 3 / 8.25])
        assert find_rules_by_source(transaction, [], 2) == {}


def test_rare_words_count_more_and_every_word_finds_its_pairs(store: Store, store_url: str) -> None:
    ingest(store, [pair(f"common w{n}", "x") for n in range(30)] + [pair("rare other", "x"), pair("rare common", "x")])
    with Reader(store_url) as reader, reader.read() as transaction:
        found, _ = find_similar_pairs(transaction, find_words(transaction.connection, ["common", "rare"])[SOURCE], 2)
        assert [one.source for one in found[:2]] == ["rare common", "rare other"]
        assert sum(one.source.startswith("common") for one in found) == 22
        assert find_similar_pairs(transaction, find_words(transaction.connection, ["never"])[SOURCE], 2) == ([], [])
