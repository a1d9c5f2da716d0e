"""Queries of pages scan no table that grows with the store, whether the store was analyzed or not."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest
from tests.conftest import LastingStore
from tests.storage.building import commit, delta, ingest, pair, query, update
from tests.storage.plans import assert_no_scan, disable_analysis, plans

from hierogram.storage.browsing import details, progress, words
from hierogram.storage.browsing.reader import Reader, ReadTransaction
from hierogram.storage.browsing.search import (
    PROBABILITY,
    SURPRISE,
    USE,
    WHOLE,
    PagePosition,
    Query,
    guess_side,
    most_used_rules,
    phrase_occurs,
    read_phrase,
    search,
)
from hierogram.storage.pairs.pairs import pairs_by_id
from hierogram.storage.pairs.vocabulary import similar_words
from hierogram.storage.store import open_store

GROWING = ("rules", "rule_words", "sentence_pairs", "vocabulary", "rule_pairs", "rule_history", "r", "w", "p", "v")
"""Tables that grow with the store, and the aliases that statements use for them."""


@pytest.fixture(scope="module")
def open_reader() -> Iterator[Callable[[str], Reader]]:
    """Function that opens one reader for each store, because opening takes longer than most tests."""
    with ExitStack() as stack:
        yield cache(lambda url: stack.enter_context(Reader(url)))


@pytest.fixture
def unanalyzed(lasting_store: LastingStore, open_reader: Callable[[str], Reader]) -> Iterator[ReadTransaction]:
    """Read access to a large store that was never analyzed. Postgres then estimates sizes from the files of tables."""
    with open_reader(lasting_store("unanalyzed pages", make_unanalyzed)).read() as transaction:
        yield transaction


@pytest.fixture
def transaction(lasting_store: LastingStore, open_reader: Callable[[str], Reader]) -> Iterator[ReadTransaction]:
    """Read access to a store that is large enough for the planners to prefer indexes."""
    with open_reader(lasting_store("large", make)).read() as transaction:
        yield transaction


def make(url: str) -> None:
    fill(url)
    if not url.startswith("sqlite"):
        query(url, "ANALYZE")


def make_unanalyzed(url: str) -> None:
    open_store(url, create=True).close()
    disable_analysis(url)
    fill(url)


def fill(url: str) -> None:
    with open_store(url, create=True) as store:
        ingest(store, [pair(f"s{n} common", f"t{n} usual") for n in range(4_000)])
        commit(
            store,
            [update(n, state="settled") for n in range(1, 3_900)],
            [delta(f"s{n} common", f"t{n % 1000} usual", 1, (1 + n % 5)) for n in range(4_000)],
        )
    query(url, "INSERT INTO rule_pairs (rule_id, pair_id, uses) SELECT id, id, 1 FROM rules WHERE id < 3000")


def like_source(transaction: ReadTransaction, token: str) -> object:
    return similar_words(transaction.connection, "source", token)


QUESTIONS: dict[str, Callable[[ReadTransaction], object]] = {
    "search": lambda transaction: search(transaction, read_phrase("s17"), Query()).rules,
    "a phrase": lambda transaction: search(transaction, read_phrase("s17 common"), Query()).rules,
    "a gap": lambda transaction: [search(transaction, read_phrase("s17 _ common"), Query())],
    "a whole side": lambda transaction: search(transaction, read_phrase("s17 common"), Query(match=WHOLE)).rules,
    "another spelling": lambda transaction: search(transaction, read_phrase("Ś17 Common"), Query()).rules,
    "another spelling of a side": lambda transaction: (
        search(transaction, read_phrase("Ś17 common"), Query(match=WHOLE)).rules
    ),
    "the next page of spellings": lambda transaction: [
        search(transaction, read_phrase("Ś17"), Query(), PagePosition(0.0, 5, 7, respelled=True))
    ],
    "the likely side": lambda transaction: [
        guess_side(transaction, dict.fromkeys(("source", "target"), read_phrase("Ś17 common")))
    ],
    "a phrase on a side": lambda transaction: [phrase_occurs(transaction, "source", read_phrase("Ś17 common"))],
    "similar words": lambda transaction: like_source(transaction, "s17x"),
    "words with a prefix": lambda transaction: like_source(transaction, "s17"),
    "by probability": lambda transaction: search(transaction, read_phrase("s17"), Query(order=PROBABILITY)).rules,
    "by surprise": lambda transaction: (
        search(transaction, read_phrase("s17 common"), Query(order=SURPRISE, match=WHOLE)).rules
    ),
    "the next page": lambda transaction: [
        search(transaction, read_phrase("s17"), Query(order=USE), PagePosition(0.0, 5, 7))
    ],
    "rules of a corpus": lambda transaction: search(transaction, read_phrase("s17"), Query(corpus="corpus")).rules,
    "most used": lambda transaction: most_used_rules(transaction, read_phrase("t17"), "target", 20),
    "a rule": lambda transaction: details.find_rule(transaction, "s17 common", "t17 usual"),
    "competing rules": lambda transaction: details.find_competing_rules(transaction, "source", "s17 common", 20),
    "history of a rule": lambda transaction: [details.read_rule_history(transaction, 17)],
    "supporting pairs": lambda transaction: details.indexed_supporting_pairs(transaction, 17, 0, 20),
    "likely supporting pairs": lambda transaction: details.likely_supporting_pairs(
        transaction, ("s17 common", "t17 usual"), 0, 20
    ),
    "pairs": lambda transaction: pairs_by_id(transaction.connection, [17, 18]),
    "a pair": lambda transaction: details.find_pair(transaction, 17),
    "neighbors": lambda transaction: details.find_neighbors(transaction, 17),
    "counts": lambda transaction: details.count_uses(transaction, [("s17 common", "t17 usual")]),
    "a word": lambda transaction: words.count_word(transaction, "source", "s17"),
    "dispersion": lambda transaction: words.find_distribution(transaction, "source", "s17"),
    "pairs of a word": lambda transaction: words.pairs_containing(transaction, "source", "s17", 5),
    "pairs of a word of the target": lambda transaction: words.pairs_containing(transaction, "target", "t17", 5),
    "sweeps": lambda transaction: [progress.last_sweeps(transaction, 20)],
    "latest rows": lambda transaction: [transaction.records(sql, limit=5) for sql in progress.LATEST.values()],
    "recent failures": progress.recent_failures,
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_page_queries_scan_no_growing_table(transaction: ReadTransaction, name: str) -> None:
    with plans() as seen:
        assert QUESTIONS[name](transaction)
    assert seen
    for entry in seen:
        if "ORDER BY id LIMIT" in entry["statement"]:
            # This statement reads rows in the order of ids, up to its limit.
            continue
        for table in GROWING:
            assert_no_scan(entry["plan"], f"{table}\n")
            assert f"Seq Scan on {table} " not in entry["plan"], entry
            assert not entry["plan"].endswith(f"SCAN {table}"), entry


@pytest.mark.parametrize("name", QUESTIONS)
def test_page_queries_scan_no_growing_table_even_without_statistics(
    unanalyzed: ReadTransaction, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Words are counted in a sample of pairs. Reduce it, because the default sample is larger than this store.
    monkeypatch.setattr(words, "SAMPLED_PAIRS", 100)
    with plans(own=True) as seen:
        assert QUESTIONS[name](unanalyzed)
    assert seen
    for entry in seen:
        for table in GROWING:
            if "ORDER BY id LIMIT" not in entry["statement"]:
                assert_no_scan(entry["plan"], f"{table}\n")
            assert f"Seq Scan on {table} " not in entry["plan"], entry
