"""A store is verified and repaired in parts, and their boundaries do not affect the result."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from tests.conftest import CopyStore
from tests.daemon.learning.stores import contents, make_trained
from tests.storage.building import integrity, query

from hierogram.daemon.learning.repairing import repair
from hierogram.daemon.learning.verifying import verify
from hierogram.samplers.grammar import keys
from hierogram.storage.store import Store, open_store

VERIFYING, INTEGRITY = "hierogram.daemon.learning.verifying", "hierogram.storage.checks.integrity"
RANGE = 5
"""Rule ids per range if verification reads small parts."""


@pytest.fixture
def learned(store_url: str, copy_store: CopyStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    # Missing rules are named in the order in which parts of the pairs count them.
    monkeypatch.setattr(f"{VERIFYING}._PAIRS_PER_READ", 3)
    copy_store("to be verified", store_url, partial(make_trained, pairs=12))
    with open_store(store_url) as store:
        yield store


def read_in_small_parts(patch: pytest.MonkeyPatch, rules: int) -> None:
    """Make verification read `rules` rules at once, and only a few rows of every other table."""
    for place, number in (
        (f"{VERIFYING}._RULES_AT_ONCE", rules),
        (f"{VERIFYING}._COUNTS_AT_ONCE", 2),
        (f"{INTEGRITY}.IDS_PER_RANGE", RANGE),
        ("hierogram.storage.grammar.counts.IDS_PER_RANGE", RANGE),
        (f"{INTEGRITY}._WORDS_AT_ONCE", 4),
        (f"{INTEGRITY}._ENTRIES_AT_ONCE", 7),
        ("hierogram.storage.database.transactions._VALUES_PER_QUERY", 3),
    ):
        patch.setattr(place, number)


AT_EDGES = f"id % {RANGE} IN (0, {RANGE - 1}) OR id = (SELECT max(id) FROM rules)"
"""SQL condition for the first and last rules of ranges of ids."""
DAMAGE = {
    "nothing": [],
    "every count": ["UPDATE rules SET count = count + 1"],
    "every column": ["UPDATE rules SET length = length + 1, target = target || ' t1', minimal_uses = 9"],
    "every key": ["UPDATE rules SET key_low = -1 - key_low"],
    "every rule": ["DELETE FROM rules"],
    "rules at edges": [f"DELETE FROM rules WHERE {AT_EDGES}"],
    "rules that no pair uses": [
        "INSERT INTO rules SELECT id + 1000, source, target || ' t77', key_high, 77 - key_low, length, scope,"
        f" nonterminals, source_terminals, target_terminals + 1, hiero, 5, 0, 0, 2 FROM rules WHERE {AT_EDGES}"
    ],
    "words of rules": [f"DELETE FROM rule_words WHERE rule_id IN (SELECT id FROM rules WHERE {AT_EDGES})"],
    "words of rules that are gone": ["INSERT INTO rule_words SELECT word_id, rule_id + 70000 FROM rule_words"],
    "keys": ["DELETE FROM rule_key_runs"],
    "vocabulary": [
        "DELETE FROM vocabulary WHERE id % 7 = 0",
        "UPDATE vocabulary SET count = count + 3 WHERE id % 3 = 1",
        "UPDATE vocabulary SET folded = 'x' WHERE id % 5 = 1",
    ],
    "counts of the aligner": [
        "UPDATE aligner_lexicon SET forward = forward + 2",
        "DELETE FROM aligner_words WHERE side = 'target'",
        "UPDATE aligner_jumps SET count = count + 1",
    ],
    "pairs that cannot be read": [
        "UPDATE derivations SET current = substr(current, 2) WHERE pair_id IN (3, 4, 12)",
        "UPDATE sentence_pairs SET alignment = '99-99' WHERE id = 1",
    ],
    "a pair whose rules are gone": ["DELETE FROM derivations WHERE pair_id <> 7", "DELETE FROM rules WHERE count = 1"],
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
def test_verifying_in_parts_finds_the_same_problems_as_one_pass(
    learned: Store, store_url: str, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for statement in DAMAGE[damage]:
        query(store_url, statement)
    at_once = verify(learned)
    assert bool(at_once.problems) == (damage != "nothing")
    for rules in (1, 40):
        with monkeypatch.context() as patch:
            read_in_small_parts(patch, rules)
            assert verify(learned) == at_once


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "problems"),
    [
        ("every count", lambda rules: rules),
        ("every rule", lambda rules: rules),
        # Each rule is reported twice: no pair uses the stored rule, and the recounted rule is missing.
        ("every key", lambda rules: 2 * rules),
    ],
)
def test_verifying_in_parts_reports_every_damaged_rule(
    learned: Store, store_url: str, damage: str, problems, monkeypatch: pytest.MonkeyPatch
) -> None:
    [(rules,)] = query(store_url, "SELECT count(*) FROM rules")
    for statement in DAMAGE[damage]:
        query(store_url, statement)
    read_in_small_parts(monkeypatch, 3)
    of_tables = len(integrity(learned))
    found = verify(learned)
    assert len(found.problems) + found.more_problems == of_tables + problems(rules)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["every rule", "every column", "rules at edges", "rules that no pair uses"])
def test_repairing_in_parts_restores_the_store(
    learned: Store, store_url: str, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(learned)
    for statement in DAMAGE[damage]:
        query(store_url, statement)
    read_in_small_parts(monkeypatch, 3)
    assert repair(learned).remaining_problems == []
    assert verify(learned).problems == []
    assert contents(learned) == before


def test_verifying_in_parts_reports_rules_with_the_same_key(learned: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "ALL_BITS", np.uint64(0x3F << 54))
    monkeypatch.setattr(f"{VERIFYING}._PAIRS_PER_READ", 1)
    at_once = verify(learned)
    assert any("have the same key" in problem for problem in at_once.problems)
    read_in_small_parts(monkeypatch, 1)
    assert verify(learned) == at_once
