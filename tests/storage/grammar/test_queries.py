"""Rule lookups and views compared with plain Python over the same rules. Status and recorded exports."""

from collections import Counter
from random import Random

import pytest
from tests.storage.building import NONTERMINAL, commit, delta, export_rows, ingest, pair, query

from hierogram.storage.records.grammar import RuleRow, SweepRecord
from hierogram.storage.store import Store

SOURCES = ["la", "la maison", "la [X,1]", "[X,1] maison", "[X,1] de [X,2]", "Émile", "emile", "de la", "z"]
TARGETS = ["the", "the house", "the [X,1]", "[X,1] house", "[X,2] of [X,1]", "Zoë", "zoe", "of the", "house"]


def grammar(seed: int) -> dict[tuple[str, str], tuple[int, int]]:
    """Return random rules, many of them with equal counts. The second number of each rule is not used."""
    random = Random(seed)
    return {
        (source, target): (random.choice([0, 1, 1, 1, 2, 7]), random.choice([0, 3]))
        for source in SOURCES
        for target in TARGETS
        if random.random() < 0.6
    }


@pytest.fixture
def rules(store: Store) -> dict[tuple[str, str], int]:
    """Counts of the stored rules, which equal their expected uses."""
    counts = grammar(3)
    commit(store, [], [delta(*rule, count, count) for rule, (count, _) in counts.items() if count])
    return {rule: count for rule, (count, _) in counts.items() if count}


def best_first(counts: dict[tuple[str, str], int]) -> list[tuple[str, str]]:
    return sorted(counts, key=lambda rule: (-counts[rule], rule[0].encode(), rule[1].encode()))


def sides(rows: list[RuleRow]) -> list[tuple[str, str]]:
    return [(row.source, row.target) for row in rows]


def words(side: str) -> set[str]:
    return {symbol for symbol in side.split(" ") if not NONTERMINAL.match(symbol)}


def totals(counts: dict[tuple[str, str], int], side: int) -> Counter[str]:
    total: Counter[str] = Counter()
    for rule, count in counts.items():
        total[rule[side]] += count
    return total


def test_respelled_rules_differ_from_the_query(store: Store) -> None:
    ingest(store, [pair("Été", "x"), pair("été", "x"), pair("ete", "x")])
    commit(store, [], [delta(source, "x", 1, 1) for source in ("Été", "été", "ete")])
    assert sides(store.find_rules("été", respelled=True)) == [("ete", "x"), ("Été", "x")]
    assert sides(store.find_rules(words=["ete"], respelled=True)) == [("Été", "x"), ("été", "x")]


def test_rules_are_found_by_exact_side(store: Store, rules: dict[tuple[str, str], int]) -> None:
    for source in SOURCES:
        expected = {rule: count for rule, count in rules.items() if rule[0] == source}
        assert sides(store.find_rules(source)) == best_first(expected)
    for target in TARGETS:
        expected = {rule: count for rule, count in rules.items() if rule[1] == target}
        assert sides(store.find_rules(target=target)) == best_first(expected)
    for rule in rules:
        assert sides(store.find_rules(*rule)) == [rule]
    assert store.find_rules("LA") == []


def test_probabilities_are_relative_frequencies(store: Store, rules: dict[tuple[str, str], int]) -> None:
    by_source, by_target = totals(rules, 0), totals(rules, 1)
    for row in store.find_rules(limit=1000):
        assert row.p_target_given_source == row.count / by_source[row.source]
        assert row.p_source_given_target == row.count / by_target[row.target]


def test_rules_are_found_by_words(store: Store, rules: dict[tuple[str, str], int]) -> None:
    for query_words in (["la"], ["maison", "la"], ["house", "maison"], ["de", "the"], ["Émile"]):
        on_either = {rule: n for rule, n in rules.items() if words(rule[0]) | words(rule[1]) >= set(query_words)}
        assert sides(store.find_rules(words=query_words, limit=1000)) == best_first(on_either)
        assert on_either
    assert store.find_rules(words=["la", "unheard-of"]) == []


def test_conditions_of_a_lookup_are_combined(store: Store, rules: dict[tuple[str, str], int]) -> None:
    expected = {
        rule: n
        for rule, n in rules.items()
        if rule[0] == "[X,1] de [X,2]" and "of" in words(rule[1]) and "de" in words(rule[0])
    }
    assert expected
    assert sides(store.find_rules("[X,1] de [X,2]", words=["de", "of"])) == best_first(expected)


def test_consecutive_pages_contain_all_rules(store: Store, rules: dict[tuple[str, str], int]) -> None:
    found: list[RuleRow] = []
    after = None
    while page := store.find_rules(limit=7, after=after):
        found += page
        after = (page[-1].expected_uses, page[-1].source, page[-1].target)
    assert sides(found) == best_first(rules)
    assert store.find_rules("la", limit=0) == []


@pytest.mark.parametrize(("view", "uses"), [("rule_table", "expected_uses"), ("current_sample_rule_table", "count")])
def test_the_view_of_all_rules_has_counts_and_probabilities(
    store: Store, store_url: str, rules: dict[tuple[str, str], int], view: str, uses: str
) -> None:
    by_source, by_target = totals(rules, 0), totals(rules, 1)
    rows = query(
        store_url,
        f"SELECT source, target, {uses}, p_target_given_source, p_source_given_target FROM {view}",
    )
    assert {row[:2]: row[2:] for row in rows} == {
        (source, target): (count, count / by_source[source], count / by_target[target])
        for (source, target), count in rules.items()
    }
    assert len(rows) == len(rules)


def test_the_view_of_rules_by_word_has_counts_and_probabilities(
    store: Store, store_url: str, rules: dict[tuple[str, str], int]
) -> None:
    by_source = totals(rules, 0)
    rows = query(store_url, "SELECT token, side, source, target, count, p_target_given_source FROM word_rules")
    expected = {
        (word, side, *rule, count, count / by_source[rule[0]])
        for rule, count in rules.items()
        for side, text in (("source", rule[0]), ("target", rule[1]))
        for word in words(text)
    }
    assert set(rows) == expected
    assert len(rows) == len(expected)


def test_means_are_returned_unless_the_current_sample_is_requested(store: Store, store_url: str) -> None:
    commit(store, [], [delta("la", "the", 3, 0.5), delta("la", "it", 1, 1.5), delta("la", "to", 1)])
    query(store_url, "UPDATE rules SET expected_uses_variance = 0.25 WHERE target = 'it'")
    found = store.find_rules("la")
    # Errors are the square roots of 0.25 + (0.018 · 1.5² + 0.25²) / (1 + 1.5 / 15) and 0.018 · 0.5² / (1 + 0.5 / 15).
    rows = [("it", 1.5, pytest.approx(0.58621, abs=1e-5), 1), ("the", 0.5, pytest.approx(0.06599, abs=1e-5), 3)]
    assert [(rule.target, rule.expected_uses, rule.expected_uses_error, rule.count) for rule in found] == rows
    assert [rule.p_target_given_source for rule in found] == [0.75, 0.25]
    drawn = store.find_rules("la", current_sample=True)
    assert [(rule.target, rule.count, rule.p_target_given_source) for rule in drawn] == [
        ("the", 3, 0.6),
        ("it", 1, 0.2),
        ("to", 1, 0.2),
    ]
    first = (1.5, "la", "it")
    assert [rule.target for rule in store.find_rules("la", after=first)] == ["the"]
    columns = "target, expected_uses, expected_uses_error, count"
    for view in ("rule_table", "averaged_grammar"):
        assert query(store_url, f"SELECT {columns.replace('count', '1')} FROM {view} ORDER BY target") == [
            (target, uses, error, 1) for target, uses, error, _ in rows
        ]
    assert query(store_url, f"SELECT {columns} FROM rule_table ORDER BY target") == rows


def test_status_reports_the_last_known_log_likelihood(store: Store) -> None:
    assert store.status().last_log_likelihood is None
    for log_likelihood in (-20.0, -10.5, None):
        commit(store, [], [], [SweepRecord(1, 1, log_likelihood, 1, 1, 1, 1, 0.5)])
    assert store.status().last_log_likelihood == -10.5
    assert store.status().sweeps == 3


def test_exports_are_recorded(store: Store) -> None:
    first = store.record_export("nightly", "/tmp/a.zst", "hierogram")
    second = store.record_export("nightly", "/tmp/b.zst", "hierogram")
    store.finish_export(first, rules=10, bytes=2_000, sha256="ab" * 32, position=1, manifest="{}")
    store.finish_export(second, error="disk full")
    newest, oldest = export_rows(store)
    assert (newest.id, newest.state, newest.error, newest.rules) == (second, "failed", "disk full", None)
    assert (oldest.state, oldest.rules, oldest.bytes, oldest.position) == ("done", 10, 2_000, 1)
    assert oldest.finished_at is not None
    assert oldest.finished_at >= oldest.started_at
    assert oldest.started_at.utcoffset() is not None
    assert export_rows(store)[0].id == second
