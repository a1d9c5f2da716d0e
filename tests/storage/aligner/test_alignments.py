"""Alignments, links and counts of the aligner: atomic writes, refused changes, and lookups through indexes."""

import pytest
from tests.storage.building import NewPair, align, aligner_counts, commit, delta, ingest, integrity, pair, update
from tests.storage.plans import assert_no_scan, plans

from hierogram.storage.exceptions import StoreError
from hierogram.storage.records.aligner import (
    AlignerChange,
    AlignerCounts,
    FertilityCounts,
    PairAlignment,
    PairLinks,
    PairSize,
)
from hierogram.storage.store import Store


def raw(source: str, target: str, line: int = 1) -> NewPair:
    return NewPair(source, target, None, len(source.split(" ")), len(target.split(" ")), line)


def change(pair_id: int = 1, sweep: int = 1, since: int | None = None, weight: int = 1) -> AlignerChange:
    return AlignerChange(
        [("a", "x", weight, weight), ("", "b", 0, weight), ("b", "", 0, weight)],
        [FertilityCounts("source", "a", weight, 0, weight, 0, 0, 0, 0, 0, 0)],
        [("forward", 1, 2 * weight), ("backward", -1, weight)],
        [PairAlignment(pair_id, "0-0", "0.98")],
        [PairLinks(pair_id, b"\0\0", b"\0\0\xff\xff", sweep, since)],
    )


def test_an_aligned_pair_waits_to_be_sampled(store: Store) -> None:
    ingest(store, [raw("a b", "x"), raw("c", "y")])
    align(store, change())
    first, second = store.pairs()
    assert (first.alignment, first.state, first.aligned_by) == ("0-0", "waiting", "aligner")
    assert (second.alignment, second.state, second.aligned_by) == ("", "unaligned", "none")
    assert (first.link_probabilities, second.link_probabilities) == ("0.98", None)
    record = store.find_pair(1)
    assert record is not None
    assert (record.alignment, record.link_probabilities) == ("0-0", "0.98")
    assert store.status().pairs == {"unaligned": 1, "waiting": 1, "sampling": 0, "settled": 0}
    (links,) = store.links_by_id([1, 2])
    assert (links.id, links.forward, links.backward, links.sweep) == (1, b"\0\0", b"\0\0\xff\xff", 1)
    assert store.stalest_alignments(5) == [PairSize(1, 2, 1)]
    assert store.unaligned_pairs(5) == [PairSize(2, 1, 0)]
    assert integrity(store) == []


def test_aligner_counts_add_up_and_are_deleted_at_zero(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest(store, [raw("a b", "x"), raw("a b", "x", 2), raw("a b", "x z", 3)])
    align(store, change())
    align(store, change(2))
    assert aligner_counts(store) == AlignerCounts(
        [("", "b", 0, 2), ("a", "x", 2, 2), ("b", "", 0, 2)],
        [FertilityCounts("source", "a", 2, 0, 2, 0, 0, 0, 0, 0, 0)],
        [("backward", -1, 2), ("forward", 1, 4)],
    )
    counts = store.aligner_counts((["a", "unknown", ""], ["z", ""]))
    assert (counts.lexicon, counts.words) == ([], [FertilityCounts("source", "a", 2, 0, 2, 0, 0, 0, 0, 0, 0)])
    assert sorted(store.aligner_counts((["b", ""], ["b", ""])).lexicon) == [("", "b", 0, 2), ("b", "", 0, 2)]
    for few in (0, 100):
        monkeypatch.setattr("hierogram.storage.aligner.aligner._MAX_LOOKUPS", few)
        counts = store.aligner_counts((["b"], ["z", ""]), (["a", "b"], ["x"]))
        assert sorted(counts.lexicon) == [("a", "x", 2, 2), ("b", "", 0, 2)]
        assert [row.word for row in counts.words] == ["a"]
    for pair_id in (1, 2):
        withdrawal = change(pair_id, weight=-1)
        withdrawal.alignments, withdrawal.links, withdrawal.withdrawn = [], [], [pair_id]
        align(store, withdrawal)
    assert aligner_counts(store) == AlignerCounts([], [], [])
    assert store.stalest_alignments(5) == []


def test_a_change_that_would_make_a_count_negative_is_refused(store: Store) -> None:
    ingest(store, [raw("a b", "x")])
    with pytest.raises(StoreError, match="run `hierogram verify`"):
        align(store, change(weight=-1))
    assert store.pairs()[0].state == "unaligned"
    assert aligner_counts(store) == AlignerCounts([], [], [])


def test_removed_or_already_aligned_pairs_are_refused(store: Store) -> None:
    ingest(store, [raw("a b", "x")])
    with pytest.raises(StoreError, match="was withdrawn"):
        align(store, change(7))
    align(store, change())
    with pytest.raises(StoreError, match="pair 1 was aligned by another process"):
        align(store, change())
    with pytest.raises(StoreError, match="by another process"):
        align(store, change(sweep=3, since=2))
    align(store, change(sweep=2, since=1))
    assert store.stalest_alignments(1)[0].sweep == 2
    missing = change(7)
    missing.alignments = []
    with pytest.raises(StoreError, match="was withdrawn"):
        align(store, missing)


def test_alignments_and_derivations_change_in_one_transaction(store: Store) -> None:
    ingest(store, [raw("a b", "x")])
    align(store, change())
    commit(store, [update(1, b"one", state="settled", sweep=9)], [delta("a b", "x", 1)])
    again = change(sweep=2, since=1)
    again.alignments = [PairAlignment(1, "1-0", "0.75")]
    with pytest.raises(StoreError, match="would have a negative count"):
        align(store, again, [update(1, b"two")], [delta("a b", "x", -2)])
    row = store.pairs()[0]
    assert (row.alignment, row.current, row.state, row.link_probabilities) == ("0-0", b"one", "settled", "0.98")
    align(store, again, [update(1, b"two")], [delta("a b", "x", -1), delta("b", "x", 1)])
    row = store.pairs()[0]
    assert (row.alignment, row.current, row.state, row.link_probabilities) == ("1-0", b"two", "sampling", "0.75")
    assert store.stalest_alignments(5) == []


def test_given_alignments_train_once_and_are_never_realigned(store: Store) -> None:
    ingest(store, [pair("a b", "x"), raw("c", "y"), pair("d", "z")])
    assert [row.id for row in store.uncounted_alignments(0, 5)] == [1, 3]
    align(store, AlignerChange(links=[PairLinks(1, b"\0\0", b"\0\0\0\0", 0, None)]))
    assert [row.id for row in store.uncounted_alignments(0, 5)] == [3]
    assert store.uncounted_alignments(3, 5) == []
    assert store.stalest_alignments(5) == []
    assert store.pairs()[0].aligned_by == "given"


def test_lookups_of_the_aligner_use_indexes(store: Store) -> None:
    ingest(store, [raw(f"s{n}", f"t{n}", n + 1) for n in range(3_000)])
    all_pairs = AlignerChange()
    for n in range(3_000):
        all_pairs.alignments.append(PairAlignment(n + 1, "0-0"))
        all_pairs.links.append(PairLinks(n + 1, b"\0\0", b"\0\0", 1 + n % 7, None))
        all_pairs.lexicon.append((f"s{n}", f"t{n}", 1, 1))
        all_pairs.words.append(FertilityCounts("source", f"s{n}", 1, 0, 1, 0, 0, 0, 0, 0, 0))
    align(store, all_pairs)
    with plans() as seen:
        assert len(store.aligner_counts((["s17", "s18"], ["t17"])).lexicon) == 1
        # These words form more pairs than are looked up one by one.
        many = [[f"{side}{n}" for n in range(17, 100)] for side in "st"]
        assert len(store.aligner_counts(many).lexicon) == 83
        assert len(store.stalest_alignments(3)) == 3
        assert store.unaligned_pairs(3) == []
        assert store.uncounted_alignments(2_990, 5) == []
    for entry in seen:
        for table in ("aligner_lexicon", "aligner_words", "pair_links", "sentence_pairs"):
            assert_no_scan(entry["plan"], table)
    stalest = next(entry["plan"] for entry in seen if "ORDER BY pair_links.sweep" in entry["statement"])
    assert "pair_links_by_sweep" in stalest
    assert "TEMP B-TREE" not in stalest
