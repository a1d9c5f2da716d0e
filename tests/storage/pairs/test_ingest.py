"""Ingest stores every pair once and loses no line."""

from collections import Counter

import pytest
from tests.storage.building import ingest, integrity, make_pairs, pair, query

from hierogram.storage.exceptions import StoreError, WriteConflictError
from hierogram.storage.pairs.ingest import MAX_TOKEN_BYTES
from hierogram.storage.records.operations import RequestRow
from hierogram.storage.records.pairs import IngestTotals, RejectedLine
from hierogram.storage.store import Store

LINES = [
    pair("la maison", "the house", "0-0 1-1", line=1),
    pair("la maison", "the house", "0-0 1-1", line=2, occurrence=1),
    pair("la maison", "the house", "0-1", line=3),
    pair("la fleur", "the flower", "0-0 1-1", line=4),
]


def test_input_that_is_ingested_twice_is_stored_once(store: Store) -> None:
    first = store.begin_ingest("bible", "a.txt", "bars")
    assert store.add_pairs(first, make_pairs(LINES))[0] == IngestTotals(accepted=4)
    store.finish_ingest(first)
    again = store.begin_ingest("bible", "copy of a.txt", "bars")
    assert store.add_pairs(again, make_pairs(LINES))[0] == IngestTotals(duplicates=4)
    store.finish_ingest(again)
    assert [row.id for row in store.pairs()] == [1, 2, 3, 4]
    assert [(row.source, row.target, row.alignment) for row in store.pairs()] == [line[:3] for line in LINES]
    assert store.status().corpora == {"bible": 4}


def test_repeats_within_one_chunk_are_stored_once(store: Store) -> None:
    batch = store.begin_ingest("bible", "a.txt", "bars")
    assert store.add_pairs(batch, make_pairs([*LINES, *LINES]))[0] == IngestTotals(accepted=4, duplicates=4)


def test_one_pair_can_be_in_two_corpora(store: Store) -> None:
    ingest(store, LINES, "one")
    ingest(store, LINES, "two")
    assert store.status().corpora == {"one": 4, "two": 4}
    assert integrity(store) == []


def test_a_pair_with_a_known_external_id_is_a_duplicate_or_is_rejected_if_its_text_differs(store: Store) -> None:
    batch = store.begin_ingest("bible", "a.jsonl", "jsonl")
    store.add_pairs(batch, make_pairs([pair("la maison", "the house", external_id="v1")]))
    totals, rejected = store.add_pairs(
        batch,
        make_pairs(
            [
                pair("la maison", "the house", external_id="v1", line=2, occurrence=1),
                pair("la maison", "the home", external_id="v1", line=3),
                pair("la fleur", "the flower", external_id="v2", line=4),
                pair("la fleur", "a flower", external_id="v2", line=5),
            ]
        ),
    )
    assert totals == IngestTotals(accepted=1, duplicates=1, rejected=2)
    assert [(line.line, line.reason) for line in rejected] == [
        (3, "external-id-conflict"),
        (5, "external-id-conflict"),
    ]
    assert rejected[0].content == b"la maison ||| the home ||| 0-0"
    assert [row.target for row in store.pairs()] == ["the house", "the flower"]
    assert store.status().rejected_lines == 2
    assert integrity(store) == []


def test_external_ids_are_unique_per_corpus(store: Store) -> None:
    ingest(store, [pair("un", "one", external_id="1")], "numbers")
    ingest(store, [pair("deux", "two", external_id="1")], "other numbers")
    assert store.count_pairs() == 2


def test_content_cannot_collide_with_an_external_id(store: Store) -> None:
    ingest(
        store,
        [
            pair("ab", "c", "", external_id=None),
            pair("a", "bc", "", external_id=None),
            pair("a", "b", "c"),
            pair("x", "y", "", external_id="c2:ab1:c0:0"),
        ],
    )
    assert store.count_pairs() == 4


def test_a_token_too_long_for_any_index_is_rejected(store: Store) -> None:
    longest = "é" * (MAX_TOKEN_BYTES // 2)
    batch = store.begin_ingest("c", "f", "bars")
    totals, rejected = store.add_pairs(
        batch, make_pairs([pair(f"a {longest}", "b"), pair(f"a {longest}e", "b", line=7)])
    )
    assert totals == IngestTotals(accepted=1, rejected=1)
    assert [(line.line, line.reason) for line in rejected] == [(7, "token-too-long")]


def test_rejected_lines_are_kept_once(store: Store, store_url: str) -> None:
    bad = [
        RejectedLine(3, "field-count", "2 fields", b"a ||| b"),
        RejectedLine(4, "invalid-utf8", "byte 2", b"a\xff ||| b"),
        RejectedLine(9, "invalid-utf8", "byte 1", b"\xff\x00|||"),
    ]
    for _ in range(2):
        batch = store.begin_ingest("c", "file.txt", "bars")
        assert store.add_pairs(batch, make_pairs([]), [*bad, bad[0]])[0] == IngestTotals(rejected=4)
        store.finish_ingest(batch)
    other = store.begin_ingest("c", "other.txt", "bars")
    store.add_pairs(other, make_pairs([]), bad[:1])
    assert query(store_url, "SELECT origin, line, last_line, reason, content FROM rejected_lines ORDER BY id") == [
        ("file.txt", 3, 3, "field-count", b"a ||| b"),
        ("file.txt", 4, 4, "invalid-utf8", b"a\xff ||| b"),
        ("file.txt", 9, 9, "invalid-utf8", b"\xff\x00|||"),
        ("other.txt", 3, 3, "field-count", b"a ||| b"),
    ]
    assert store.status().rejected_lines == 4
    assert query(store_url, "SELECT * FROM rejections ORDER BY reason, origin") == [
        ("field-count", "file.txt", 1),
        ("field-count", "other.txt", 1),
        ("invalid-utf8", "file.txt", 2),
    ]
    assert integrity(store) == []


def read_runs(url: str) -> list[tuple[object, ...]]:
    return query(url, "SELECT batch_id, line, last_line, message FROM rejected_lines ORDER BY line")


def test_consecutive_lines_rejected_for_one_reason_share_a_row(store: Store, store_url: str) -> None:
    first = [RejectedLine(number, "empty-line", f"line {number}", b"") for number in (4, 3, 5, 7)]
    first.append(RejectedLine(6, "field-count", "2 fields", b"a"))
    batch = store.begin_ingest("c", "file.txt", "bars")
    assert store.add_pairs(batch, make_pairs([]), first)[0].rejected == 5
    # The next chunk extends the run of the previous one.
    more = RejectedLine(8, "empty-line", "line 7", b"", lines=3, earlier=1)
    assert store.add_pairs(batch, make_pairs([]), [more])[0].rejected == 3
    store.finish_ingest(batch)
    runs = [(batch, 3, 5, "line 3"), (batch, 6, 6, "2 fields"), (batch, 7, 10, "line 7")]
    assert read_runs(store_url) == runs
    assert store.status().rejected_lines == 8
    assert query(store_url, "SELECT reason, lines FROM rejections ORDER BY reason") == [
        ("empty-line", 7),
        ("field-count", 1),
    ]
    again = store.begin_ingest("c", "file.txt", "bars")
    store.add_pairs(again, make_pairs([]), first)
    store.add_pairs(again, make_pairs([]), [more])
    assert read_runs(store_url) == runs
    # The file has grown by two lines that are rejected for the same reason, in two chunks.
    for line in (11, 12):
        store.add_pairs(again, make_pairs([]), [more._replace(line=line, lines=1, earlier=line - 7)])
    assert read_runs(store_url) == [*runs, (again, 11, 12, "line 7")]
    assert store.status().rejected_lines == 10
    assert integrity(store) == []


def test_batches_record_their_results(store: Store, store_url: str) -> None:
    done = store.begin_ingest("c", "good.txt", "bars")
    store.add_pairs(done, make_pairs(LINES), [RejectedLine(5, "empty-side", "no target", b"a |||")])
    store.add_pairs(done, make_pairs(LINES))
    store.finish_ingest(done)
    failed = store.begin_ingest("c", "cut.gz", "bars")
    store.finish_ingest(failed, "cut.gz ends in the middle")
    columns = "origin, format, state, accepted, duplicates, rejected, error"
    assert query(store_url, f"SELECT {columns} FROM ingest_batches ORDER BY id") == [
        ("good.txt", "bars", "done", 4, 4, 1, None),
        ("cut.gz", "bars", "failed", 0, 0, 0, "cut.gz ends in the middle"),
    ]


def test_a_batch_accepts_pairs_only_while_it_is_open(store: Store) -> None:
    with pytest.raises(StoreError, match="batch 17 not found"):
        store.add_pairs(17, make_pairs(LINES))
    batch = store.begin_ingest("c", "f", "bars")
    store.finish_ingest(batch)
    with pytest.raises(StoreError, match="already done"):
        store.add_pairs(batch, make_pairs(LINES))
    with pytest.raises(StoreError, match="already done"):
        store.finish_ingest(batch)
    assert store.count_pairs() == 0


def test_vocabulary_counts_the_tokens_of_stored_pairs(store: Store, store_url: str) -> None:
    ingest(store, LINES)
    ingest(store, [*LINES, pair("la la la", "the house")])
    pairs = store.pairs()
    expected = Counter(("source", token) for row in pairs for token in row.source.split(" "))
    expected.update(("target", token) for row in pairs for token in row.target.split(" "))
    stored = query(store_url, "SELECT side, token, count FROM vocabulary")
    assert {(side, token): count for side, token, count in stored} == expected
    assert len(stored) == len(expected)
    assert store.vocabulary_sizes() == (3, 3)


def test_a_failing_chunk_stores_nothing(store: Store) -> None:
    batch = store.begin_ingest("c", "f", "bars")
    before = store.position()
    unencodable = pair("a", "lone \ud800 surrogate")
    with pytest.raises(UnicodeEncodeError):
        store.add_pairs(batch, make_pairs([*LINES, unencodable]))
    assert (store.position(), store.count_pairs(), store.vocabulary_sizes()) == (before, 0, (0, 0))
    assert store.add_pairs(batch, make_pairs(LINES))[0] == IngestTotals(accepted=4)
    assert integrity(store) == []


def test_a_request_continues_from_only_its_last_recorded_position(store: Store) -> None:
    batch = store.begin_ingest("corpus", "http", "json")
    request = RequestRow("k", "corpus", 1, b"", False, "{}")
    store.add_pairs(batch, make_pairs([pair("a", "b")]), receipt=lambda *_: (request, None))
    store.add_pairs(batch, make_pairs([pair("c", "d")]), receipt=lambda *_: (request._replace(lines=2), 1))
    for since in (None, 1):
        with pytest.raises(WriteConflictError, match="another process has recorded the request"):
            store.add_pairs(batch, make_pairs([pair("e", "f")]), receipt=lambda *_, since=since: (request, since))
    assert store.find_request("k") == request._replace(lines=2)
    assert store.count_pairs() == 2


def test_the_position_counts_writing_transactions(store: Store) -> None:
    assert store.position() == 0
    batch = store.begin_ingest("c", "f", "bars")
    store.add_pairs(batch, make_pairs(LINES))
    store.finish_ingest(batch)
    store.pairs()
    assert store.position() == 3


def test_pairs_and_tokens_are_counted_by_day(store: Store, store_url: str) -> None:
    ingest(store, LINES)
    added_at = "'2026-02-03 23:59:59+00'" if store_url.startswith("postgres") else "'2026-02-03 23:59:59'"
    query(store_url, f"UPDATE sentence_pairs SET added_at = {added_at} WHERE id <= 3")
    today, *rest = query(store_url, "SELECT * FROM pairs_by_day ORDER BY day DESC")
    assert today[1:] == (1, 2, 2)
    assert rest == [("2026-02-03", 3, 6, 6)]
