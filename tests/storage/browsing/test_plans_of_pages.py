"""The queries of pages use indexes in a store of any size."""

from collections.abc import Callable, Iterator

import pytest
from tests.conftest import LastingStore
from tests.storage.building import commit, delta, ingest, pair, query, update
from tests.storage.plans import assert_no_scan, disable_analysis, plans

from hierogram.storage.browsing import looking, progress, words
from hierogram.storage.browsing.reader import Look, Reader
from hierogram.storage.browsing.search import (
    PROBABILITY,
    SURPRISE,
    USE,
    WHOLE,
    Place,
    Query,
    likely_side,
    most_used,
    occurs_on,
    read_phrase,
    search,
)
from hierogram.storage.pairs.pairs import pairs_by_id
from hierogram.storage.pairs.vocabulary import like_words
from hierogram.storage.store import open_store

GROWING = ("rules", "rule_words", "sentence_pairs", "vocabulary", "rule_pairs", "rule_history", "r", "w", "p", "v")
"""Tables that grow with the store, and the aliases that statements use for them."""


@pytest.fixture
def unanalyzed(lasting_store: LastingStore) -> Iterator[Look]:
    """The same store without table statistics, so that Postgres estimates the sizes of its tables."""
    with Reader(lasting_store("unanalyzed pages", make_unanalyzed)) as reader, reader.look() as looking:
        yield looking


@pytest.fixture
def look(lasting_store: LastingStore) -> Iterator[Look]:
    """A store that is large enough for the planners to prefer indexes."""
    with Reader(lasting_store("large", make)) as reader, reader.look() as looking:
        yield looking


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


def like_source(look: Look, token: str) -> object:
    return like_words(look.connection, "source", token, 8)


QUESTIONS: dict[str, Callable[[Look], object]] = {
    "search": lambda look: search(look, read_phrase("s17"), Query()).rules,
    "a phrase": lambda look: search(look, read_phrase("s17 common"), Query()).rules,
    "a gap": lambda look: [search(look, read_phrase("s17 _ common"), Query())],
    "a whole side": lambda look: search(look, read_phrase("s17 common"), Query(match=WHOLE)).rules,
    "another spelling": lambda look: search(look, read_phrase("Ś17 Common"), Query()).rules,
    "another spelling of a side": lambda look: search(look, read_phrase("Ś17 common"), Query(match=WHOLE)).rules,
    "the next page of spellings": lambda look: [search(look, read_phrase("Ś17"), Query(), Place(0.0, 5, 7, near=True))],
    "the likely side": lambda look: [likely_side(look, dict.fromkeys(("source", "target"), read_phrase("Ś17 common")))],
    "on a side": lambda look: [occurs_on(look, "source", read_phrase("Ś17 common"))],
    "words like it": lambda look: like_source(look, "s17x"),
    "words that begin so": lambda look: like_source(look, "s17"),
    "by probability": lambda look: search(look, read_phrase("s17"), Query(order=PROBABILITY)).rules,
    "by surprise": lambda look: search(look, read_phrase("s17 common"), Query(order=SURPRISE, match=WHOLE)).rules,
    "the next page": lambda look: [search(look, read_phrase("s17"), Query(order=USE), Place(0.0, 5, 7))],
    "of a corpus": lambda look: search(look, read_phrase("s17"), Query(corpus="corpus")).rules,
    "most used": lambda look: most_used(look, read_phrase("t17"), "target", 20),
    "a rule": lambda look: looking.find_rule(look, "s17 common", "t17 usual"),
    "rivals": lambda look: looking.rivals(look, "source", "s17 common", 20),
    "the past": lambda look: [looking.past_counts(look, 17)],
    "users": lambda look: looking.indexed_users(look, 17, 0, 20),
    "likely users": lambda look: looking.likely_users(look, ("s17 common", "t17 usual"), 0, 20),
    "pairs": lambda look: pairs_by_id(look.connection, [17, 18]),
    "a pair": lambda look: looking.find_pair(look, 17),
    "neighbours": lambda look: looking.neighbours(look, 17),
    "counts": lambda look: looking.uses_of(look, [("s17 common", "t17 usual")]),
    "a word": lambda look: words.word_count(look, "source", "s17"),
    "dispersion": lambda look: words.dispersion(look, "source", "s17"),
    "pairs of a word": lambda look: words.pairs_with(look, "source", "s17", 5),
    "pairs of a word of the target": lambda look: words.pairs_with(look, "target", "t17", 5),
    "telling words": lambda look: words.telling_words(look, 5),
    "by corpus": lambda look: words.uses_by_corpus(look, [17, 18]),
    "common words": lambda look: words.common_words(look, "target", 5),
    "sweeps": lambda look: [progress.last_sweeps(look, 20)],
    "batches": lambda look: progress.last_batches(look, 5),
    "exports": lambda look: [progress.last_exports(look, 5)],
    "failed files": lambda look: [progress.last_failed_files(look, 5)],
    "deliveries": lambda look: [progress.open_deliveries(look, 5)],
    "the share that is not counted": lambda look: [progress.not_counted(look)],
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_no_page_scans_a_table(look: Look, name: str) -> None:
    with plans() as seen:
        assert QUESTIONS[name](look)
    assert seen
    for entry in seen:
        if name == "common words" or "ORDER BY id LIMIT" in entry["statement"]:
            # In the order of ids, reading only as many rows as needed.
            continue
        for table in GROWING:
            assert_no_scan(entry["plan"], f"{table}\n")
            assert f"Seq Scan on {table} " not in entry["plan"], entry
            assert not entry["plan"].endswith(f"SCAN {table}"), entry


@pytest.mark.parametrize("name", QUESTIONS)
def test_no_page_scans_a_table_without_statistics(unanalyzed: Look, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Tables that are read whole on purpose are small in a large store.
    for limit, number in (("SAMPLED_PAIRS", 100), ("_WINDOWS", 2), ("_FIRST_WORDS", 100)):
        monkeypatch.setattr(words, limit, number)
    with plans(own=True) as seen:
        assert QUESTIONS[name](unanalyzed)
    assert seen
    for entry in seen:
        for table in GROWING:
            if "ORDER BY id LIMIT" not in entry["statement"]:
                assert_no_scan(entry["plan"], f"{table}\n")
            assert f"Seq Scan on {table} " not in entry["plan"], entry
