"""A commit changes derivations, rule counts and the word index together, or nothing."""

from collections import Counter
from random import Random

import pytest
from sqlalchemy import event
from tests.storage.building import (
    align,
    commit,
    delta,
    ingest,
    integrity,
    make_key,
    make_pairs,
    pair,
    query,
    read_counts,
    update,
    withdraw,
)
from tests.storage.rows import rule_rows

from hierogram.storage.exceptions import RuleKeyCollisionError, StoreError
from hierogram.storage.grammar import word_index
from hierogram.storage.records.aligner import AlignerChange
from hierogram.storage.records.grammar import SweepRecord
from hierogram.storage.store import Store

SWEEP = SweepRecord(1, 2, -12.5, edges_sampled=8, edges_changed=3, cuts_sampled=7, cuts_changed=2, seconds=0.25)

PAIRS = [pair("la maison", "the house"), pair("la fleur", "the flower"), pair("fin", "end")]


def words_of_rules(url: str) -> set[tuple[object, ...]]:
    return set(
        query(
            url,
            "SELECT v.side, v.token, r.source, r.target FROM rule_words AS w"
            " JOIN vocabulary AS v ON v.id = w.word_id LEFT JOIN rules AS r ON r.id = w.rule_id",
        )
    )


def test_only_reproducible_commits_skip_the_sync(store: Store) -> None:
    options = store.engine.get_execution_options()
    executed: list[str] = []

    @event.listens_for(options.get("hierogram_writer", store.engine), "before_cursor_execute")
    def note(_c: object, _cursor: object, statement: str, *_: object) -> None:
        if "synchronous" in statement:
            executed.append(statement)

    def since_last() -> list[str]:
        noted = list(executed)
        executed.clear()
        return noted

    # Postgres syncs every commit: the server can fail while its client continues, and the client must not lose a commit
    # that was reported as stored.
    sqlite = store.engine.dialect.name == "sqlite"
    waits = ["PRAGMA synchronous=FULL"] if sqlite else []
    does_not = ["PRAGMA synchronous=NORMAL"] if sqlite else []
    batch = store.begin_ingest("c", "o", "f")
    assert since_last() == waits
    store.add_pairs(batch, make_pairs(PAIRS))
    assert since_last() == waits
    commit(store, [update(1)], [delta("la", "the", 1)])
    assert since_last() == does_not
    align(store, AlignerChange())
    assert since_last() == does_not
    withdraw(store, store.pairs_by_id([2]), [])
    assert since_last() == waits


def test_new_rules_are_stored_with_all_their_data(store: Store, store_url: str) -> None:
    ingest(store, PAIRS)
    rule = delta("la [X,1] la", "the [X,1]", 2, 5)
    commit(store, [update(1)], [rule], [SWEEP])
    with store.snapshot() as snapshot:
        (stored,) = rule_rows(snapshot)
    assert (stored.key_high, stored.key_low) == make_key("la [X,1] la", "the [X,1]")
    assert (stored.source, stored.target) == ("la [X,1] la", "the [X,1]")
    assert (stored.length, stored.scope, stored.nonterminals) == (3, 0, 1)
    assert (stored.source_terminals, stored.target_terminals, stored.hiero) == (2, 1, True)
    assert (stored.count, stored.expected_uses) == (2, 5)
    assert words_of_rules(store_url) == {
        ("source", "la", rule.source, rule.target),
        ("target", "the", rule.source, rule.target),
    }
    (sweep,) = query(
        store_url,
        "SELECT stage, pairs, log_likelihood, edges_sampled, edges_changed, cuts_sampled, cuts_changed, seconds,"
        " log_likelihood_before FROM sweeps",
    )
    assert sweep == tuple(SWEEP)
    status = store.status()
    assert (status.rules_in_use, status.rule_tokens, status.expected_tokens, status.sweeps) == (1, 2, 5, 1)
    assert status.last_log_likelihood == -12.5
    assert status.pairs == {"unaligned": 0, "waiting": 2, "sampling": 1, "settled": 0}
    assert integrity(store) == []


def test_counts_add_up_over_commits_and_within_one(store: Store) -> None:
    commit(store, [], [delta("a", "x", 2), delta("a", "x", 3, 1), delta("b", "y", 1)])
    commit(store, [], [delta("a", "x", -4, 2), delta("b", "y", 0, 4)])
    assert read_counts(store) == {("a", "x"): (1, 3), ("b", "y"): (1, 4)}
    assert integrity(store) == []


def test_rules_without_counts_are_deleted_with_their_words(store: Store, store_url: str) -> None:
    commit(store, [], [delta("a b", "x", 2, 1), delta("a c", "x y", 1), delta("a", "x", 1, 1)])
    commit(store, [], [delta("a b", "x", -2, -1), delta("a c", "x y", -1), delta("a", "x", -1)])
    assert read_counts(store) == {("a", "x"): (0, 1)}
    assert words_of_rules(store_url) == {("source", "a", "a", "x"), ("target", "x", "a", "x")}
    assert store.find_rules(source="a", current_sample=True) == []
    assert store.status().rules_in_use == 0
    commit(store, [], [delta("a", "x", 0, -1), delta("a b", "x", 1)])
    assert read_counts(store) == {("a b", "x"): (1, 0)}
    assert integrity(store) == []


def test_rules_with_only_minimal_uses_are_stored_but_hidden(store: Store, store_url: str) -> None:
    commit(store, [], [delta("a b", "x", 1, 1, 2), delta("a c", "x y", 0, 0, 1)])
    commit(store, [], [delta("a b", "x", -1, -1, 1), delta("a c", "x y", 0, 0, 1)])
    assert query(store_url, "SELECT source, minimal_uses FROM rules ORDER BY source") == [("a b", 3), ("a c", 2)]
    assert integrity(store) == []
    assert (store.status().rules_in_use, store.find_rules(words=["a"]), store.find_rules("a c")) == (0, [], [])
    assert query(store_url, "SELECT count(*) FROM rule_table") == [(0,)]
    with pytest.raises(StoreError, match="minimal_uses -1"):
        commit(store, [], [delta("a c", "x y", 1, 1, -3)])
    commit(store, [], [delta("a c", "x y", 0, 0, -2), delta("a b", "x", 0, 0, -3)])
    assert read_counts(store) == {}
    assert words_of_rules(store_url) == set()


def test_words_of_rules_in_use_are_indexed(store: Store, store_url: str) -> None:
    commit(store, [], [delta("a", "x", 0, 0.25), delta("b", "y", 1)])
    assert {row[2] for row in words_of_rules(store_url)} == {"b"}
    assert integrity(store) == []
    for change in (1, -1, 2):
        commit(store, [], [delta("a", "x", change), delta("b", "y", 1)])
        assert {row[2] for row in words_of_rules(store_url)} == {"a", "b"}
        assert integrity(store) == []
    commit(store, [], [delta("a", "x", -2, -0.25)])
    assert {row[2] for row in words_of_rules(store_url)} == {"b"}


def test_words_of_rules_with_half_an_expected_use_are_indexed(store: Store, store_url: str) -> None:
    commit(store, [], [delta("a", "x", 0, 0.5), delta("b", "y", 0, 0.5 - 1 / 4096)])
    assert {row[2] for row in words_of_rules(store_url)} == {"a"}
    assert [rule.source for rule in store.find_rules(words=["x"])] == ["a"]
    commit(store, [], [delta("b", "y", 0, 1 / 4096), delta("a", "x", 0, -1 / 4096)])
    assert {row[2] for row in words_of_rules(store_url)} == {"a", "b"}
    assert integrity(store) == []
    commit(store, [], [delta("a", "x", 0, 1 / 4096 - 0.5), delta("b", "y", 0, 7 / 4096)])
    assert {row[2] for row in words_of_rules(store_url)} == {"b"}
    assert integrity(store) == []


def test_changes_that_cancel_out_leave_no_rule(store: Store) -> None:
    commit(store, [], [delta("a", "x", 1), delta("a", "x", -1), delta("b", "y", 0, 0)])
    assert read_counts(store) == {}
    assert integrity(store) == []


def test_a_commit_finds_its_own_new_words(store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_index, "_RULES_PER_BATCH", 2)
    commit(store, [], [delta("a b", "x", 1), delta("b c", "y", 1), delta("c a", "x y", 1), delta("d a", "z", 1)])
    words = query(store_url, "SELECT side, token FROM vocabulary ORDER BY id")
    assert sorted(words) == [("source", token) for token in "abcd"] + [("target", token) for token in "xyz"]
    assert {rule.source for rule in store.find_rules(words=["a"], current_sample=True)} == {"a b", "c a", "d a"}


def test_escaped_terminals_are_found_as_words(store: Store, store_url: str) -> None:
    commit(store, [], [delta(r"\[X,1] [X,1] \\n", r"\\ [X,1] [X,1]x [X,0]", 1)])
    for word in ("[X,1]", r"\n", "\\", "[X,1]x", "[X,0]"):
        assert len(store.find_rules(words=[word], current_sample=True)) == 1
    assert query(store_url, "SELECT side FROM vocabulary WHERE token = '[X,1]'") == [("source",)]
    assert integrity(store) == []


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([delta("c", "z", -1)], "would have a negative count"),
        ([delta("a", "x", -3)], "would have a negative count"),
        ([delta("a", "x", 0, -1)], "would have a negative count"),
        ([delta("a", "other", 1, key=make_key("a", "x"))], "have the same key"),
        ([delta("other", "x", 1, key=make_key("a", "x"))], "have the same key"),
        ([delta("c", "z", 1), delta("c", "w", 1, key=make_key("c", "z"))], "have the same key"),
    ],
)
def test_an_invalid_change_rolls_back_its_whole_commit(store: Store, bad: list, message: str) -> None:
    ingest(store, PAIRS)
    commit(store, [update(1, b"first")], [delta("a", "x", 2)], [SWEEP])
    status, pairs, counts = store.status(), store.pairs(), read_counts(store)
    with pytest.raises(StoreError, match=message):
        commit(store, [update(1, b"second", sweep=2), update(2)], [delta("n", "m", 4), *bad], [SWEEP, SWEEP])
    assert (store.status(), store.pairs(), read_counts(store)) == (status, pairs, counts)
    assert integrity(store) == []
    commit(store, [update(1, b"second", sweep=2)], [delta("n", "m", 4)], [SWEEP])
    assert read_counts(store) == {("a", "x"): (2, 0), ("n", "m"): (4, 0)}


def test_a_collision_names_both_rules(store: Store) -> None:
    commit(store, [], [delta("la maison", "the house", 1)])
    with pytest.raises(RuleKeyCollisionError, match=r"'la maison \|\|\| the house' and 'fin \|\|\| end'"):
        commit(store, [], [delta("fin", "end", 1, key=make_key("la maison", "the house"))])


@pytest.mark.parametrize("updates", [[update(1), update(9)], [update(1), update(1, b"again")]])
def test_each_update_must_name_a_different_stored_pair(store: Store, updates: list) -> None:
    ingest(store, PAIRS)
    with pytest.raises(StoreError, match=r"pair 9 was withdrawn|pair 1 has two new derivations"):
        commit(store, updates, [delta("a", "x", 1)])
    assert read_counts(store) == {}
    assert store.count_pairs(["waiting"]) == 3


def test_a_derivation_replaces_the_previous_one(store: Store) -> None:
    ingest(store, PAIRS)
    commit(store, [update(1, b"first"), update(3, b"third")], [])
    commit(store, [update(1, b"second", state="settled", sweep=4)], [])
    first, second, third = store.pairs()
    assert (first.current, first.averages, first.state, first.sweep) == (b"second", b"uses of second", "settled", 4)
    assert (second.current, second.state) == (None, "waiting")
    assert third.current == b"third"
    assert store.status().pairs == {"unaligned": 0, "waiting": 1, "sampling": 1, "settled": 1}


def test_the_progress_of_a_run_is_written_with_its_sweeps(store: Store) -> None:
    run = store.begin_run(3)
    position = store.position()
    store.commit([], [SWEEP], run=run._replace(sweeps_done=1))
    assert (store.position(), store.status().sweeps) == (position + 1, 1)
    assert store.unfinished_run() == run._replace(sweeps_done=1)


def test_a_pair_sampled_since_it_was_read_is_not_indexed(store: Store) -> None:
    ingest(store, PAIRS)
    commit(store, [update(1)], [])
    position, [row] = store.unindexed_pairs()
    salt = store.settings().key_salt
    assert store.index_pairs([row.id], position, [], salt) == 1
    commit(store, [update(1, b"again", sweep=2)], [])
    assert store.index_pairs([row.id], position, [], salt) == 0


def test_two_samplers_of_one_pair_cannot_both_commit(store: Store) -> None:
    ingest(store, PAIRS)
    commit(store, [update(1, b"mine")._replace(expected_sweep=0)], [delta("a", "x", 1)])
    late = [update(1, b"yours")._replace(expected_sweep=0), update(2)._replace(expected_sweep=0)]
    with pytest.raises(StoreError, match="pair 1 was read at sweep 0, but is at sweep 1 now"):
        commit(store, late, [delta("b", "y", 1)])
    assert read_counts(store) == {("a", "x"): (1, 0)}
    assert [row.current for row in store.pairs()] == [b"mine", None, None]
    commit(store, [update(1, b"mine again", sweep=2)._replace(expected_sweep=1)], [])
    assert store.pairs()[0].current == b"mine again"


def test_rule_counts_contain_every_rule_in_use(store: Store) -> None:
    empty = store.rule_counts()
    assert empty.keys.shape == (0, 2)
    assert len(empty.counts) == 0
    deltas = [delta("a", "x", 3), delta("[X,1] a b", "x [X,1]", 1, 2), delta("c", "z", 0, 5)]
    deltas.append(delta("low", "key", 7, key=(-(2**63), 2**63 - 1)))
    commit(store, [], deltas)
    counts = store.rule_counts()
    assert [str(a.dtype) for a in (counts.keys, counts.counts, counts.lengths)] == ["uint64", "int64", "int32"]
    found = {
        (int(high), int(low)): (int(count), int(length), int(source), int(target))
        for (high, low), count, length, source, target in zip(
            counts.keys, counts.counts, counts.lengths, counts.source_terminals, counts.target_terminals, strict=True
        )
    }
    assert found == {
        (d.key_high % 2**64, d.key_low % 2**64): (d.count, d.length, d.source_terminals, d.target_terminals)
        for d in deltas
        if d.count
    }


def test_rekeying_moves_every_rule_at_once(store: Store) -> None:
    commit(store, [], [delta("a", "x", 1), delta("b", "y", 2)])
    with store.snapshot() as snapshot:
        rows = list(rule_rows(snapshot))
    swapped = [(a.id, b.key_high, b.key_low) for a, b in (rows, rows[::-1])]
    store.rekey(17, swapped)
    assert store.settings().key_salt == 17
    commit(store, [], [delta("a", "x", 1, key=make_key("b", "y"))])
    assert read_counts(store) == {("a", "x"): (2, 0), ("b", "y"): (2, 0)}
    with pytest.raises(RuleKeyCollisionError):
        commit(store, [], [delta("a", "x", 1)])
    assert integrity(store) == []


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [(1, 5, 5)],
        [(1, 5, 5), (1, 6, 6)],
        [(1, 5, 5), (2, 5, 5)],
        [(1, 5, 5), (9, 6, 6)],
        [(1, 5, 5), (2, 6, 6), (3, 7, 7)],
    ],
)
def test_rekeying_requires_one_new_key_for_each_rule(store: Store, keys: list[tuple[int, int, int]]) -> None:
    commit(store, [], [delta("a", "x", 1), delta("b", "y", 2)])
    with pytest.raises(StoreError, match=r"one to one \(2 rules, "):
        store.rekey(17, keys)
    assert store.settings().key_salt == 0
    commit(store, [], [delta("a", "x", 1), delta("b", "y", 1)])
    assert read_counts(store) == {("a", "x"): (2, 0), ("b", "y"): (3, 0)}


def test_long_sides_are_stored_and_found(store: Store) -> None:
    source = " ".join(f"longissimum{n}" for n in range(2_000))
    target = " ".join(f"tam{n}" for n in range(2_000))
    commit(store, [], [delta(source, target, 1), delta(source, "brief", 3)])
    rules = store.find_rules(source=source, current_sample=True)
    assert [(rule.count, rule.p_target_given_source) for rule in rules] == [(3, 0.75), (1, 0.25)]
    assert store.find_rules(target=target, current_sample=True)[0].source == source
    assert integrity(store) == []


@pytest.mark.slow
def test_counts_after_any_commits_equal_a_counter(store: Store) -> None:
    random = Random(11)
    symbols = ["a", "b", "c", "[X,1]", "[X,2]"]
    rules = [(" ".join(random.sample(symbols, 3)), random.choice("xyz")) for _ in range(60)]
    counts: Counter[tuple[str, str]] = Counter()
    sampled: Counter[tuple[str, str]] = Counter()
    for _ in range(40):
        deltas = []
        for rule in random.choices(rules, k=30):
            count = random.randint(-counts[rule], 3)
            expected_uses = random.randint(-sampled[rule], 2)
            counts[rule] += count
            sampled[rule] += expected_uses
            deltas.append(delta(*rule, count, expected_uses))
        commit(store, [], deltas)
        expected = {rule: (counts[rule], sampled[rule]) for rule in rules if counts[rule] or sampled[rule]}
        assert read_counts(store) == expected
    assert len(expected) < len(set(rules))
    assert integrity(store) == []
