"""Stores of every kind of grammar: learn, count, add, withdraw, repair."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tests.conftest import CopyStore
from tests.daemon.learning.every_kind import CASES, Case
from tests.daemon.learning.stores import contents
from tests.storage.building import query
from tests.storage.rows import rule_rows

from hierogram.daemon.learning.kinds.kind import find_kind
from hierogram.daemon.learning.learner import Learner, withdraw_all
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.repairing import repair
from hierogram.daemon.learning.verifying import verify
from hierogram.samplers.grammar import keys
from hierogram.storage.store import Store, open_store

ON_ONE_DATABASE = {"itg of phrases"}
"""Variants of a kind that are tested on one database only, since both databases get the same data."""


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.database("sqlite")] * (name in ON_ONE_DATABASE)) for name in CASES]
)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture
def burn_in(case: Case) -> int:
    return find_kind(case.settings).schedule(case.settings).burn_in


@pytest.fixture
def filled(case: Case, store_url: str, copy_store: CopyStore) -> Iterator[Store]:
    """A store of each kind that has not learned yet. Parametrized by database."""

    def make(url: str) -> None:
        with open_store(url, create=True, settings=case.settings) as store:
            case.fill(store)

    copy_store(f"filled with {case.settings.grammar} {case.settings.phrase_words}", store_url, make)
    with open_store(store_url) as store:
        yield store


def uses(store: Store) -> int:
    with store.snapshot() as snapshot:
        return sum(row.count for row in rule_rows(snapshot))


def derivations(store: Store) -> dict[int, bytes]:
    with store.snapshot() as snapshot:
        return {row.id: row.current for rows in snapshot.iterate_derivations() for row in rows}


@pytest.mark.slow
def test_counts_equal_a_recount_after_every_run(filled: Store, case: Case, burn_in: int) -> None:
    pairs = filled.count_pairs(["waiting"])
    first = learn(filled, sweeps=6)
    assert (first.pairs, first.sweeps, first.pair_sweeps) == (pairs, burn_in + 6, (burn_in + 6) * pairs)
    case.add(filled)
    learn(filled, sweeps=1)
    again = learn(filled, sweeps=1)
    status, report = filled.status(), verify(filled)
    assert report.problems == []
    assert report.pairs == filled.count_pairs(["settled"]) == filled.count_pairs() > pairs
    assert 0 < report.rule_tokens / 4 < report.expected_tokens < report.rule_tokens * 4
    assert (again.rules_in_use_after, again.tokens_after) == (status.rules_in_use, status.rule_tokens)
    assert again.tokens_after == report.rule_tokens == uses(filled)
    assert status.last_log_likelihood == pytest.approx(again.log_likelihood_after)


@pytest.mark.database("sqlite")
def test_new_pairs_are_sampled_given_the_other_pairs(filled: Store, case: Case, burn_in: int) -> None:
    learn(filled, sweeps=2)
    before = derivations(filled)
    case.add(filled)
    new = filled.count_pairs(["waiting"])
    done = learn(filled, sweeps=0)
    assert (done.sweeps, done.pair_sweeps) == (burn_in, new * burn_in)
    after = derivations(filled)
    assert {number: after[number] for number in before} == before
    assert len(after) == len(before) + new
    assert verify(filled).problems == []


@pytest.mark.slow
def test_withdrawal_leaves_the_counts_of_the_remaining_pairs(filled: Store, case: Case) -> None:
    learn(filled, sweeps=3)
    case.add(filled)
    pairs, new = filled.count_pairs(), filled.count_pairs(["waiting"])
    numbers = [row.id for row in filled.pairs()]
    assert withdraw_all(filled, [1, 7, numbers[-1], 1_000], lambda _done: None) == 3
    report = verify(filled)
    assert (report.problems, report.pairs, filled.count_pairs()) == ([], pairs - new - 2, pairs - 3)
    assert withdraw_all(filled, numbers, lambda _done: None) == pairs - 3
    report = verify(filled)
    assert (report.problems, report.rules, filled.vocabulary_sizes()) == ([], 0, (0, 0))
    # A withdrawn pair that is added again is stored again.
    case.fill(filled)
    assert filled.count_pairs() == pairs - new
    learn(filled, sweeps=1)
    assert verify(filled).problems == []
    assert filled.status().rules_in_use > 0


def test_withdrawals_update_the_rule_table_of_the_learner(filled: Store, case: Case) -> None:
    learn(filled, sweeps=3)
    case.add(filled)
    new = filled.pairs(states=["waiting"])
    with Learner(filled) as learner:
        learner.open(filled.pairs(states=["settled"]))
        learner.withdraw([*filled.pairs_by_id([3, 4, 5]), *new])
        learner.open(filled.pairs())
        with Learner(filled) as another:
            another.open(filled.pairs())
            assert learner.chain.rule_types == another.chain.rule_types == filled.status().rules_in_use > 0
            assert learner.chain.rule_tokens == another.chain.rule_tokens == filled.status().rule_tokens
            assert learner.measure() == pytest.approx(another.measure())


@pytest.mark.slow
def test_rules_that_share_a_key_are_separated_by_another_salt(
    case: Case, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With so few bits in a key, rules collide under many salts: the first and some of the following ones.
    monkeypatch.setattr(keys, "ALL_BITS", np.uint64(case.key_bits))
    with open_store(store_url, create=True, settings=replace(case.settings, seed=2)) as store:
        case.fill(store)
        learn(store, sweeps=2)
        assert store.settings().key_salt > 0
        assert verify(store).problems == []


def test_learning_from_an_empty_store_samples_no_pair(case: Case, store_url: str) -> None:
    with open_store(store_url, create=True, settings=case.settings) as store:
        assert learn(store, sweeps=2).pairs == 0


@pytest.mark.slow
def test_a_damaged_store_is_repaired(filled: Store, store_url: str) -> None:
    learn(filled, sweeps=3)
    before = contents(filled)
    query(store_url, "DELETE FROM rules WHERE id < 4")
    query(store_url, "UPDATE vocabulary SET count = 77 WHERE id = 1")
    query(store_url, "DELETE FROM rule_words")
    assert verify(filled).problems
    assert repair(filled).remaining_problems == []
    assert verify(filled).problems == []
    assert contents(filled) == before
    query(store_url, "UPDATE derivations SET current = substr(current, 2) WHERE pair_id = 5")
    query(store_url, "UPDATE derivations SET averages = substr(averages, 1, 2) WHERE pair_id = 6")
    assert repair(filled).reset_pairs == [5, 6]
    learn(filled, sweeps=1)
    assert verify(filled).problems == []
