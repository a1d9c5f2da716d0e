"""Integrity checks report inconsistent tables and damaged files."""

from pathlib import Path

import pytest
from tests.storage.building import commit, delta, integrity, make_pairs, pair, query, update, withdraw

from hierogram.storage.records.grammar import SweepRecord
from hierogram.storage.records.pairs import RejectedLine
from hierogram.storage.store import Store, open_store

TAMPERING = [
    ("UPDATE sentence_pairs SET corpus_id = 77 WHERE id = 2", "1 pairs without a corpus: 2"),
    ("UPDATE sentence_pairs SET batch_id = 77 WHERE id = 2", "pairs without an ingest batch"),
    ("UPDATE sentence_pairs SET state = 'settled' WHERE id = 3", "state and derivation disagree"),
    ("DELETE FROM derivations WHERE pair_id = 1", "state and derivation disagree"),
    (
        "UPDATE sentence_pairs SET identity = '\\x00' WHERE id = 2",
        "1 pairs whose identity does not match their content",
    ),
    ("UPDATE sentence_pairs SET external_id = 'c' WHERE id = 2", "or external id: 2"),
    ("UPDATE sentence_pairs SET alignment = '' WHERE id = 2", "whose identity does not match their content"),
    ("UPDATE settings SET value = '99' WHERE name = 'discount'", "table settings: discount: must be < 1, got 99.0"),
    ("UPDATE settings SET value = '\"no\"' WHERE name = 'model'", "table settings: model: must be one of pitman-yor"),
    ("UPDATE ingest_batches SET accepted = 9", "accepted pairs differs from stored plus withdrawn pairs: 1"),
    ("UPDATE ingest_batches SET rejected = 0", "count fewer rejected lines than the table rejected_lines contains: 1"),
    ("UPDATE corpora SET pairs = 9", "total differs from the number of their stored pairs: bible"),
    ("DELETE FROM rejected_lines", "store_state.rejected_lines is 1, but should be 0"),
    ("DELETE FROM sweeps", "store_state.sweeps is 1, but should be 0"),
    ("UPDATE rules SET count = count + 1 WHERE source = 'la'", "rule_tokens is 3, but should be 4"),
    ("UPDATE rules SET expected_uses = 9 WHERE source = 'la'", "expected_tokens is 4.0, but should be 9.0"),
    ("DELETE FROM rules WHERE source = 'la'", "1 deleted rules that are still in the word index"),
    ("DELETE FROM rules WHERE source = 'la'", "1 key index entries of deleted rules, or with wrong keys: 1"),
    ("UPDATE rules SET key_low = 5 WHERE source = 'la'", "1 rules missing from the key index: 1"),
    ("DELETE FROM rule_key_runs", "2 rules missing from the key index: 1, 2"),
    ("DELETE FROM rule_words WHERE rule_id = 2", "1 rules indexed under wrong words: 2"),
    ("UPDATE rule_words SET word_id = 999 WHERE word_id = 1", "rules indexed under wrong words"),
    (
        "UPDATE vocabulary SET count = 7 WHERE token = 'la'",
        "words whose count differs from their occurrences in the pairs: la",
    ),
    ("UPDATE vocabulary SET folded = 'LA' WHERE token = 'la'", "words with a wrong folded form: la (source)"),
    ("DELETE FROM vocabulary WHERE token = 'fleur'", "words of pairs missing from the vocabulary: fleur (source)"),
    (
        "INSERT INTO vocabulary VALUES (999, 'target', 'ghost', 1, 'ghost')",
        "their occurrences in the pairs: ghost (target)",
    ),
    ("UPDATE store_state SET waiting = 8", "waiting is 8, but should be 1"),
    ("UPDATE store_state SET last_pair_id = 2", "last_pair_id is 2, but id 3 is in use"),
]


@pytest.fixture
def filled(store: Store) -> Store:
    batch = store.begin_ingest("bible", "a.txt", "bars")
    lines = [pair("la maison", "the house"), pair("la fleur", "the flower"), pair("fin", "end")]
    store.add_pairs(batch, make_pairs(lines), [RejectedLine(4, "empty-side", "no target", b"x |||")])
    store.finish_ingest(batch)
    deltas = [delta("la", "the", 1, 4), delta("maison", "house", 2)]
    commit(store, [update(1), update(2)], deltas, [SweepRecord(1, 2, None, 1, 1, 1, 1, 0.1)])
    return store


def test_a_consistent_store_has_no_problems(filled: Store) -> None:
    assert integrity(filled) == []


@pytest.mark.slow
@pytest.mark.parametrize(("statement", "message"), TAMPERING, ids=[statement for statement, _ in TAMPERING])
def test_inconsistencies_between_tables_are_found(filled: Store, store_url: str, statement: str, message: str) -> None:
    query(store_url, statement)
    assert any(message in problem for problem in integrity(filled)), integrity(filled)


def test_identities_are_verified_for_any_occurrence_number(store: Store, store_url: str) -> None:
    batch = store.begin_ingest("c", "f", "bars")
    often = [pair("a", "b")._replace(occurrence=k) for k in range(60)]
    others = [pair("a", "b")._replace(external_id="1"), pair("a", "b")._replace(alignment=None)]
    store.add_pairs(batch, make_pairs([*often, *others]))
    withdraw(store, store.pairs_by_id(range(1, 60)), [])
    assert [row.id for row in store.pairs()] == [60, 61, 62]
    assert integrity(store) == []
    for number in (60, 61, 62):
        query(store_url, f"UPDATE sentence_pairs SET identity = '\\x0{number % 10}' WHERE id = {number}")
    assert integrity(store) == ["3 pairs whose identity does not match their content or external id: 60, 61, 62"]


def test_all_inconsistent_rows_are_counted_and_some_are_listed(store: Store, store_url: str) -> None:
    batch = store.begin_ingest("c", "f", "bars")
    store.add_pairs(batch, make_pairs([pair(f"s{n}", "t") for n in range(9)]))
    query(store_url, "UPDATE sentence_pairs SET corpus_id = 5")
    assert any("9 pairs without a corpus: 1, 2, 3, 4, 5, …" in problem for problem in integrity(store))


def test_a_damaged_store_file_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    with open_store(str(file), create=True) as store:
        commit(store, [], [delta(f"s{n} [X,1]", f"[X,1] t{n}", 1) for n in range(3_000)])
    damaged = bytearray(file.read_bytes())
    middle = len(damaged) // 2
    damaged[middle : middle + 8192] = b"\xff" * 8192
    file.write_bytes(damaged)
    with open_store(str(file)) as store:
        problems = integrity(store)
    assert problems
    assert all("damaged" in problem for problem in problems)
