"""The key runs, which find rules by key, agree with the rules after any commit, merge, rollback or rekeying."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.storage.building import commit, delta, integrity, make_key, query, read_counts
from tests.storage.rows import rule_rows

from hierogram.storage.checks import integrity as checks
from hierogram.storage.grammar import changes as grammar
from hierogram.storage.grammar import key_index
from hierogram.storage.grammar.key_index import (
    decode_run,
    encode_run,
    find_matches,
    key_fingerprints,
    make_run,
    merge_runs,
)
from hierogram.storage.records.columns import KeyRun
from hierogram.storage.store import Store, open_store

FINGERPRINTS = st.integers(0, 5)


def as_run(entries: list[tuple[int, int]]) -> KeyRun:
    return make_run(np.array([f for f, _ in entries], np.uint32), np.array([i for _, i in entries], np.int64))


def as_set(run: KeyRun) -> set[tuple[int, int]]:
    return set(zip(run.fingerprints.tolist(), run.rule_ids.tolist(), strict=True))


@given(st.lists(FINGERPRINTS), st.lists(FINGERPRINTS))
def test_every_entry_with_a_fingerprint_is_found(entries: list[int], fingerprints: list[int]) -> None:
    run = as_run([(fingerprint, n + 1) for n, fingerprint in enumerate(entries)])
    indices, rows = find_matches(run, np.array(fingerprints, np.uint32))
    found = sorted(zip(indices.tolist(), run.rule_ids[rows].tolist(), strict=True))
    assert found == sorted((n, k + 1) for n, a in enumerate(fingerprints) for k, b in enumerate(entries) if a == b)


@given(st.data(), st.lists(FINGERPRINTS), st.lists(FINGERPRINTS), st.booleans())
def test_merging_cancels_deleted_entries(data: st.DataObject, old: list[int], new: list[int], oldest: bool) -> None:
    before = [(fingerprint, n + 1) for n, fingerprint in enumerate(old)]
    earlier = [(fingerprint, 100 + n) for n, fingerprint in enumerate(data.draw(st.lists(FINGERPRINTS)))]
    deleted = data.draw(st.lists(st.sampled_from([*before, *earlier]), unique=True)) if before or earlier else []
    added = [(fingerprint, 200 + n) for n, fingerprint in enumerate(new)]
    run = merge_runs(as_run(before), as_run([*added, *((f, -i) for f, i in deleted)]), is_oldest=oldest)
    assert np.all(np.diff(run.fingerprints.astype(np.int64)) >= 0)
    unmatched = set() if oldest else {(f, -i) for f, i in deleted if (f, i) in earlier}
    assert as_set(run) == {*before, *added} - set(deleted) | unmatched
    assert len(run.rule_ids) == len(as_set(run))
    again = decode_run(encode_run(run))
    assert again.fingerprints.tolist() == run.fingerprints.tolist()
    assert again.rule_ids.tolist() == run.rule_ids.tolist()


def test_merging_keeps_deletions_of_entries_in_older_runs() -> None:
    older, newer = as_run([(1, 3)]), as_run([(1, -7)])
    assert as_set(merge_runs(older, newer, is_oldest=False)) == {(1, 3), (1, -7)}
    assert as_set(merge_runs(older, newer, is_oldest=True)) == {(1, 3)}


def test_fingerprints_have_the_documented_format() -> None:
    keys = np.array([(0, 0), (1, 0), (-1, 0), (5 << 32, 3), (5, 5)], np.int64)
    assert key_fingerprints(keys).tolist() == [0, 1, 0, 6, 0]


def three_bits(keys: NDArray[np.int64]) -> NDArray[np.uint32]:
    return (keys[:, 0] & 7).astype(np.uint32)


ONE_DATABASE = pytest.mark.database("sqlite")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("largest", "crowded"),
    [
        pytest.param(16_000_000, False, marks=ONE_DATABASE),
        pytest.param(16_000_000, True, marks=ONE_DATABASE),
        pytest.param(25, False, marks=ONE_DATABASE),
        (25, True),
    ],
)
def test_rules_are_found_by_key_after_any_commits(
    store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch, largest: int, crowded: bool
) -> None:
    monkeypatch.setattr(key_index, "_MAX_RUN", largest)
    if crowded:
        for module in (key_index, checks):
            monkeypatch.setattr(module, "key_fingerprints", three_bits)
    random = Random(5)
    counts: dict[tuple[str, str], int] = {}
    most = 0
    with open_store(store_url) as other:
        for number in range(40):
            changes = {}
            for rule in random.sample([(f"s{n}", "t") for n in range(120)], random.choice([1, 5, 30])):
                changes[rule] = -counts[rule] if rule in counts and random.random() < 0.5 else random.randint(1, 3)
            commit(random.choice([store, other]), [], [delta(*rule, change) for rule, change in changes.items()])
            for rule, change in changes.items():
                counts[rule] = counts.get(rule, 0) + change
            counts = {rule: count for rule, count in counts.items() if count}
            assert {rule: (count, 0) for rule, count in counts.items()} == read_counts(store), number
            assert integrity(store) == []
            most = max(most, len(query(store_url, "SELECT id FROM rule_key_runs")))
    entries = [number for (number,) in query(store_url, "SELECT entries FROM rule_key_runs ORDER BY id")]
    assert most > 1
    assert sum(entries) >= len(counts)
    if largest == 25:
        assert max(entries) <= 40
    else:
        assert most <= 5


def test_rolled_back_keys_are_not_cached(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(store, [], [delta("a", "x", 1)])

    def fail(*_: object) -> None:
        raise RuntimeError("interrupted")

    with monkeypatch.context() as patched:
        patched.setattr(grammar, "append_sweeps", fail)
        with pytest.raises(RuntimeError, match="interrupted"):
            commit(store, [], [delta("b", "y", 1), delta("c", "y", 1)])
    commit(store, [], [delta("d", "y", 1)])
    commit(store, [], [delta("b", "y", 2), delta("d", "y", 2)])
    assert read_counts(store) == {("a", "x"): (1, 0), ("b", "y"): (2, 0), ("d", "y"): (3, 0)}
    assert integrity(store) == []


def test_new_keys_are_split_into_several_runs(store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(store, [], [delta(f"s{n}", "t", 1) for n in range(60)])
    monkeypatch.setattr(key_index, "_MAX_RUN", 25)
    with store.snapshot() as snapshot:
        keys = [(row.id, *make_key(row.target, row.source)) for row in rule_rows(snapshot)]
    store.rekey(3, keys)
    assert query(store_url, "SELECT entries FROM rule_key_runs ORDER BY id") == [(25,), (25,), (10,)]
    assert integrity(store) == []
    commit(store, [], [delta(f"s{n}", "t", 1, key=make_key("t", f"s{n}")) for n in range(60)])
    assert set(read_counts(store).values()) == {(2, 0)}
    with open_store(store_url) as another:
        commit(another, [], [delta("s7", "t", 1, key=make_key("t", "s7"))])
    assert read_counts(store)["s7", "t"] == (3, 0)


def test_wrong_bits_in_the_ids_of_the_last_range_are_found(
    store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(store, [], [delta("a", "x", 1)])
    monkeypatch.setattr(checks, "SLICES", 1)
    assert integrity(store) == []
    [(content,)] = query(store_url, "SELECT content FROM rule_key_runs")
    assert isinstance(content, bytes)
    run = decode_run(content)
    damaged = encode_run(KeyRun(run.fingerprints, run.rule_ids | 1 << 40))
    query(store_url, "UPDATE rule_key_runs SET content = :damaged", damaged=damaged)
    assert "1 rules missing from the key index: 1" in integrity(store)
