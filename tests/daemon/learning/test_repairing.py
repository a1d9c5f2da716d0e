"""A damaged store is repaired from its derivations, and irreparable damage is reported."""

import json
from pathlib import Path

import pytest
from tests.daemon.conftest import Run
from tests.daemon.learning.stores import contents, is_consistent, make_trained
from tests.storage.building import query

from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.repairing import repair
from hierogram.daemon.learning.verifying import verify
from hierogram.storage.exceptions import StoreHeldError
from hierogram.storage.store import Store, open_store

USED = "(SELECT min(id) FROM rules WHERE count > 0)"
EXTRA = (
    "INSERT INTO rules SELECT id + 1000000, source, target || ' t77', key_high + 1, key_low, length, scope,"
    f" nonterminals, source_terminals, target_terminals + 1, hiero, 5, 0, 0, 2 FROM rules WHERE id = {USED}"
)
DAMAGE = {
    "count": f"UPDATE rules SET count = count + 1 WHERE id = {USED}",
    "expected uses": f"UPDATE rules SET expected_uses = 77 WHERE id = {USED}",
    "minimal uses": f"UPDATE rules SET minimal_uses = minimal_uses + 1 WHERE id = {USED}",
    "column": f"UPDATE rules SET length = length + 1, scope = 9 WHERE id = {USED}",
    "side": f"UPDATE rules SET target = target || ' t1' WHERE id = {USED}",
    "key": f"UPDATE rules SET key_low = key_low + 1 WHERE id = {USED}",
    "rule deleted": f"DELETE FROM rules WHERE id = {USED}",
    "all rules deleted": "DELETE FROM rules",
    "extra rule": EXTRA,
    "totals": "UPDATE store_state SET rules_in_use = 5, rules_expected = 3, rules_stored = 4, rule_tokens = 6,"
    " expected_tokens = 7, settled = 8, source_types = 9",
    "ids": "UPDATE store_state SET last_rule_id = 1, last_word_id = 2, last_pair_id = 3",
    "key runs emptied": "DELETE FROM rule_key_runs",
    "rule words": f"DELETE FROM rule_words WHERE rule_id = {USED}",
    "words of a rule that is gone": "INSERT INTO rule_words SELECT word_id, rule_id + 1000000 FROM rule_words",
    "vocabulary count": "UPDATE vocabulary SET count = count + 3 WHERE id IN (1, 2)",
    "vocabulary row": "DELETE FROM vocabulary WHERE id = 2",
    "unknown word": "INSERT INTO vocabulary VALUES (9999, 'source', 'ghost', 4, 'ghost')",
    "aligner lexicon": "UPDATE aligner_lexicon SET forward = forward + 2 WHERE source = 's1'",
    "aligner words": "DELETE FROM aligner_words WHERE side = 'target'",
    "aligner jumps": "UPDATE aligner_jumps SET count = 99 WHERE width = 1",
    "corpus": "UPDATE corpora SET pairs = 5",
    "batch": "UPDATE ingest_batches SET accepted = 5",
    "pair_positions": "DELETE FROM pair_positions WHERE pair_id < 4",
}
LOST = {
    "derivation truncated": "UPDATE derivations SET current = substr(current, 2) WHERE pair_id = 7",
    "derivation empty": "UPDATE derivations SET current = substr(current, 1, 0) WHERE pair_id = 7",
    "samples damaged": "UPDATE derivations SET averages = substr(current, 1, 1) WHERE pair_id = 7",
    "derivation lost": "DELETE FROM derivations WHERE pair_id = 7",
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
def test_counts_are_repaired_from_intact_derivations(filled: Store, store_url: str, damage: str) -> None:
    before, words = contents(filled), filled.vocabulary_sizes()
    query(store_url, DAMAGE[damage])
    assert not is_consistent(filled)
    done = repair(filled)
    assert (done.remaining_problems, done.reset_pairs, done.changed) == ([], [], True)
    assert is_consistent(filled)
    assert contents(filled) == before
    assert filled.vocabulary_sizes() == words
    if store_url.startswith("sqlite"):
        # SQLite suffices for later behavior, because repaired stores are equal on both databases.
        assert not repair(filled).changed
        learn(filled, sweeps=1)
        assert is_consistent(filled)


@pytest.mark.slow
@pytest.mark.parametrize("damage", LOST)
def test_pair_without_a_readable_derivation_is_reset(filled: Store, store_url: str, damage: str) -> None:
    query(store_url, LOST[damage])
    assert not is_consistent(filled)
    done = repair(filled)
    assert (done.remaining_problems, done.reset_pairs) == ([], [7])
    assert is_consistent(filled)
    [row] = filled.pairs_by_id([7])
    assert (row.state, row.stage, row.sweep, row.current, row.averages) == ("waiting", 0, 0, None, None)
    learn(filled, sweeps=1)
    assert is_consistent(filled)
    assert filled.count_pairs(["settled"]) == 30


def test_a_derivation_is_kept_if_only_the_state_was_lost(filled: Store, store_url: str) -> None:
    rules, _ = contents(filled)
    query(store_url, "UPDATE sentence_pairs SET state = 'waiting' WHERE id = 3")
    assert not is_consistent(filled)
    done = repair(filled)
    assert (done.resumed_pairs, done.reset_pairs, done.remaining_problems) == (1, [], [])
    assert is_consistent(filled)
    assert contents(filled)[0] == rules
    assert filled.pairs_by_id([3])[0].state == "sampling"


def test_several_kinds_of_damage_at_once_are_repaired(filled: Store, store_url: str) -> None:
    for damage in (
        "count",
        "extra rule",
        "totals",
        "key runs emptied",
        "vocabulary row",
        "aligner words",
        "pair_positions",
    ):
        query(store_url, DAMAGE[damage])
    query(store_url, LOST["derivation truncated"])
    assert repair(filled).remaining_problems == []
    assert is_consistent(filled)


def test_repair_does_not_change_a_consistent_store(filled: Store) -> None:
    before = contents(filled)
    done = repair(filled)
    assert (done.changed, done.remaining_problems) == (False, [])
    assert contents(filled) == before


def test_dry_run_of_repair_changes_nothing(filled: Store, store_url: str) -> None:
    query(store_url, DAMAGE["count"])
    query(store_url, LOST["derivation truncated"])
    before, problems = query(store_url, "SELECT * FROM rules ORDER BY id"), verify(filled)
    done = repair(filled, dry_run=True)
    assert (done.reset_pairs, done.changed) == ([7], True)
    assert query(store_url, "SELECT * FROM rules ORDER BY id") == before
    assert verify(filled) == problems
    # The store's cached values are still correct.
    assert repair(filled).reset_pairs == [7]
    assert is_consistent(filled)


def test_a_failure_during_repair_changes_nothing(
    filled: Store, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query(store_url, DAMAGE["count"])
    before = query(store_url, "SELECT * FROM rules ORDER BY id")
    with monkeypatch.context() as patched:
        patched.setattr("hierogram.storage.checks.repair.Repair.repair_totals", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            repair(filled)
    assert query(store_url, "SELECT * FROM rules ORDER BY id") == before
    repair(filled)
    assert is_consistent(filled)


def test_irreparable_damage_is_reported_and_the_rest_repaired(filled: Store, store_url: str) -> None:
    query(store_url, DAMAGE["count"])
    query(store_url, "UPDATE sentence_pairs SET alignment = '99-99' WHERE id = 5")
    query(store_url, "UPDATE sentence_pairs SET corpus_id = 77 WHERE id = 6")
    query(store_url, "UPDATE sentence_pairs SET alignment = '0-99999' WHERE id = 7")
    problems = verify(filled).problems
    assert "pair 5: its alignment cannot be read: the link 99-99 is out of range" in problems
    assert any(problem.startswith("pair 7: its alignment cannot be read") for problem in problems), problems
    done = repair(filled)
    assert done.reset_pairs == []
    assert done.unaligned_pairs == [5, 7]
    assert any("pairs without a corpus: 6" in problem for problem in done.remaining_problems)
    assert done.rules_corrected


def test_repair_is_refused_while_another_process_writes(filled: Store, store_url: str) -> None:
    filled.take_lease("hierogram serve", 60)
    with open_store(store_url) as other, pytest.raises(StoreHeldError, match="hierogram serve"):
        repair(other)


@pytest.mark.slow
def test_verify_and_repair_commands_report_problems_with_advice(hierogram: Run, filled: Store, store_url: str) -> None:
    query(store_url, DAMAGE["count"])
    query(store_url, LOST["derivation truncated"])
    chosen = ("--store", store_url)
    found = hierogram(*chosen, "verify")
    assert found.code == 1
    assert "pair 7: its derivation cannot be read" in found.out
    assert "run `hierogram repair`" in found.err
    assert "`hierogram backup FILE` creates backups" in found.err
    assert "run `hierogram repair`" in json.loads(hierogram(*chosen, "verify", "--json").out)["advice"]
    seen = hierogram(*chosen, "repair", "--dry-run")
    assert seen.code == 0
    assert seen.out.startswith("would be repaired (dry run):\n")
    assert hierogram(*chosen, "verify").code == 1
    ran = hierogram(*chosen, "repair")
    assert (ran.code, ran.out.splitlines()[0], ran.err) == (0, "repaired:", "")
    assert "1 pair reset because of a missing or invalid derivation, to be learned from scratch: 7" in ran.out
    assert "settled: 30 → 29" in ran.out
    assert hierogram(*chosen, "verify").code == 0
    assert hierogram(*chosen, "repair").out == "no problems found: nothing to repair\n"
    assert json.loads(hierogram(*chosen, "repair", "--json").out)["reset_pairs"] == []
    query(store_url, "UPDATE sentence_pairs SET corpus_id = 77 WHERE id = 6")
    ran = hierogram(*chosen, "repair")
    assert (ran.code, "restore a backup" in ran.err) == (1, True)
    assert "not repaired: 1 pairs without a corpus" in ran.out


@pytest.mark.parametrize("damaged", ["rules", "rules_by_target", "derivations", "rule_words", "sentence_pairs"])
def test_only_the_damage_of_an_unreadable_file_is_reported(tmp_path: Path, damaged: str) -> None:
    file = tmp_path / "x.db"
    make_trained(str(file))
    [(page,)] = query(f"sqlite:///{file}", f"SELECT rootpage FROM sqlite_master WHERE name = '{damaged}'")
    content = bytearray(file.read_bytes())
    content[4096 * (page - 1) : 4096 * page] = b"\xff" * 4096
    file.write_bytes(content)
    with open_store(str(file)) as store:
        found = verify(store)
    assert found.damaged_file
    assert found.problems
    assert all("damaged" in problem for problem in found.problems)
