"""Human links are stored and deleted with their pairs, and found through indexes."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.conftest import CopyStore
from tests.storage.building import ingest, integrity, make_pairs, pair
from tests.storage.plans import assert_no_scan, plans

from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.records.aligner import AlignerChange
from hierogram.storage.store import Store, open_store

PAIRS = 3_000
FIXED = KnownLinks(frozenset({(0, 0)}), frozenset({(1, 0)}))


@pytest.fixture
def store(store_url: str, copy_store: CopyStore) -> Iterator[Store]:
    copy_store("corrected", store_url, make)
    with open_store(store_url) as opened:
        yield opened


def make(url: str) -> None:
    with open_store(url, create=True) as store:
        batch = store.begin_ingest("c", "file.jsonl", "jsonl")
        pairs = make_pairs(pair(f"s{n} a", f"t{n}", line=n) for n in range(1, PAIRS + 1))
        store.add_pairs(batch, replace(pairs, human_links=dict.fromkeys(range(PAIRS), FIXED)))
        store.finish_ingest(batch)


def test_links_ingested_with_pairs_are_recorded_as_pending(store: Store) -> None:
    assert store.human_links([1, PAIRS]) == {1: FIXED, PAIRS: FIXED}
    assert not store.is_corrected(1)
    assert len(store.pending_corrections(PAIRS + 1)) == PAIRS
    assert store.text_aligner_counts((), [("s7 a", "t7"), ("s7", "t7")]).human_links == {("s7 a", "t7"): FIXED}
    assert integrity(store) == []


@pytest.mark.slow
def test_lookups_of_human_links_scan_no_table(store: Store) -> None:
    store.commit_alignments(AlignerChange(applied_corrections=[(n, 1) for n in range(1, PAIRS - 1)]))
    with plans() as seen:
        assert store.human_links([17, 18])
        assert store.text_aligner_counts((), [("s7 a", "t7")]).human_links
        assert [one.id for one in store.pending_corrections(1)] == [PAIRS - 1]
        assert store.corrections_by_pair([17])
        assert store.is_corrected(17)
        assert store.set_human_links(17, KnownLinks(), "test")
        store.commit_alignments(AlignerChange(applied_corrections=[(17, 2)]))
    assert len(seen) > 10
    for entry in seen:
        for table in ("human_links", "link_corrections", "sentence_pairs"):
            # A scan of this index is allowed, because the index contains only the pending links.
            assert_no_scan(
                entry["plan"].replace("SCAN link_corrections USING INDEX link_corrections_pending", ""), table
            )
    assert store.corrections_by_pair([17]) == []


def test_human_links_are_deleted_with_their_pair(store: Store) -> None:
    from tests.storage.building import withdraw

    withdraw(store, store.pairs_by_id([5]))
    assert store.human_links([5]) == {}
    assert store.corrections_by_pair([5]) == []
    assert integrity(store) == []


def test_a_pair_that_is_ingested_again_keeps_its_human_links(store: Store) -> None:
    batch = store.begin_ingest("c", "again.jsonl", "jsonl")
    pairs = make_pairs([pair("s1 a", "t1", line=1), pair("new", "t", line=2)])
    known = {0: KnownLinks(frozenset({(1, 0)})), 1: KnownLinks(frozenset({(0, 0)}))}
    assert store.add_pairs(batch, replace(pairs, human_links=known))[0].duplicates == 1
    store.finish_ingest(batch)
    assert store.human_links([1]) == {1: FIXED}
    assert store.human_links([PAIRS + 1]) == {PAIRS + 1: KnownLinks(frozenset({(0, 0)}))}
    ingest(store, [pair("plain", "t")])
    assert integrity(store) == []
