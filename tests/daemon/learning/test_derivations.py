"""The pairs that use a rule: the index equals the counts, and only recently sampled pairs are reindexed."""

import json

from tests.daemon.conftest import LINES, Run
from tests.daemon.serving.turns import ManualTurns
from tests.storage.building import query

from hierogram.daemon.learning.indexing import index_occurrences
from hierogram.daemon.learning.learning import learn
from hierogram.storage.store import Store

UNEQUAL = """SELECT r.id, r.count, sum(s.uses) FROM rules AS r LEFT JOIN rule_support AS s ON s.rule_id = r.id
 GROUP BY r.id, r.count HAVING r.count <> coalesce(sum(s.uses), 0)"""


def clear_index(url: str) -> None:
    for table in ("rule_pairs", "indexed_pairs"):
        query(url, f"DELETE FROM {table}")


def test_learning_fills_rule_support_with_uses_that_sum_to_the_counts(learned: Store, learned_url: str) -> None:
    assert query(learned_url, UNEQUAL) == []
    assert query(learned_url, "SELECT min(current), count(DISTINCT pair_id) FROM rule_support") == [(1, len(LINES))]
    rows = query(learned_url, "SELECT rule_source, source FROM rule_support")
    for rule, sentence in rows:
        words = [symbol for symbol in str(rule).split() if not symbol.startswith("[X,")]
        assert set(words) <= set(str(sentence).split())
    assert index_occurrences(learned) == 0
    learn(learned, sweeps=2)
    assert query(learned_url, UNEQUAL) == []
    assert query(learned_url, "SELECT min(current) FROM rule_support") == [(1,)]


def test_a_daemon_fills_rule_support(learned: Store, learned_url: str) -> None:
    clear_index(learned_url)
    with ManualTurns(learned, idle_share=0.0) as turns:
        assert turns.turns.run_turn()
        assert learned.count_unindexed() == 0
        assert not turns.turns.run_turn()
    clear_index(learned_url)
    with ManualTurns(learned, idle_share=1.0, commit_seconds=1.0) as turns:
        turns.turns.run_turn()
        assert learned.count_unindexed() == 0
        assert query(learned_url, UNEQUAL) == []


def test_recently_sampled_pairs_are_reindexed(learned: Store, learned_url: str) -> None:
    with ManualTurns(learned, idle_share=1.0, commit_seconds=1e-6) as turns:
        turns.turns.run_turn()
    assert query(learned_url, "SELECT max(current) FROM rule_support") == [(0,)]
    assert learned.count_unindexed() == len(LINES)
    assert index_occurrences(learned) == len(LINES)
    assert query(learned_url, UNEQUAL) == []
    assert query(learned_url, "SELECT min(current) FROM rule_support") == [(1,)]


def test_a_pair_sampled_after_it_was_read_is_not_indexed(learned: Store, learned_url: str) -> None:
    clear_index(learned_url)
    position, rows = learned.unindexed_pairs(limit=3)
    ids = [row.id for row in rows]
    with ManualTurns(learned, idle_share=1.0, commit_seconds=1e-6) as turns:
        turns.turns.run_turn()
    # On a slow machine, the turn may also have indexed pairs.
    clear_index(learned_url)
    salt = learned.settings().key_salt
    assert learned.index_pairs(ids, position, [], salt) == 0
    assert learned.index_pairs(ids, learned.position(), [], salt + 1) == 0
    assert query(learned_url, "SELECT count(*) FROM indexed_pairs") == [(0,)]
    assert learned.index_pairs([*ids, 999_999], learned.position(), [], salt) == 3
    assert [row.id for row in learned.unindexed_pairs(after_id=0, limit=2)[1]] == [ids[2] + 1, ids[2] + 2]


def test_rules_command_shows_pairs_that_use_a_rule(learned: Store, learned_url: str, hierogram: Run) -> None:
    # The uses in the pairs of a rule add up to its count.
    rules = query(learned_url, "SELECT source, target, count FROM rules WHERE count > 0 ORDER BY id LIMIT 4")
    at = ("--store", learned_url)
    for source, target, count in rules:
        ran = hierogram(
            "rules", "--pairs", f"{source} ||| {target}", "--store", learned_url, "--json", "--limit", "100"
        )
        pairs = json.loads(ran.out)
        assert sum(pair["uses"] for pair in pairs) == count
        assert all(f"{pair['source']} ||| {pair['target']} ||| {pair['alignment']}" in LINES for pair in pairs)
    assert hierogram("rules", "--pairs", "--store", learned_url).out == "0 pairs indexed\n"
    source, target, _ = rules[0]
    assert hierogram("rules", "--pairs", str(source), "|||", str(target), *at).out.startswith("pair\tcorpus")
    ran = hierogram("rules", "--pairs", "unheard ||| of", "--store", learned_url)
    assert (ran.code, ran.out) == (0, "")
    assert "no current derivation uses unheard ||| of" in ran.err
    assert hierogram("rules", "--pairs", "no bar", "--store", learned_url).code == 2
