"""Learning a store: the result does not depend on threads or interruptions, and counts are consistent."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from tests.daemon.learning.stores import QUICK, contents, fill, some_pairs
from tests.storage.rows import rule_rows

from hierogram.daemon.learning.learner import LearnOptions, withdraw_all
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.verifying import verify
from hierogram.storage.database.connection import parse_url
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store, open_store


@pytest.fixture
def filled(store_url: str) -> Iterator[Store]:
    with open_store(store_url, create=True, settings=QUICK) as store:
        fill(store, some_pairs(60))
        yield store


def change(url: str, statement: str) -> None:
    """Damage one row of a store through SQL."""
    engine = create_engine(parse_url(url))
    with engine.begin() as connection:
        assert connection.execute(text(statement)).rowcount == 1
    engine.dispose()


def minimal_uses(store: Store) -> list[tuple[str, str, int]]:
    with store.snapshot() as snapshot:
        rules = rule_rows(snapshot)
        return [(rule.source, rule.target, rule.minimal_uses) for rule in rules if rule.minimal_uses]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ("UPDATE rules SET count = count + 1 WHERE id = (SELECT min(id) FROM rules WHERE count > 0)", "count is"),
        ("UPDATE rules SET expected_uses = expected_uses / 2 WHERE id = (SELECT max(id) FROM rules)", "expected_uses"),
        ("UPDATE rules SET expected_uses_variance = 0 WHERE id = (SELECT max(id) FROM rules)", "uses_variance"),
        ("UPDATE rules SET minimal_uses = minimal_uses + 1 WHERE id = (SELECT max(id) FROM rules)", "minimal_uses is"),
        ("UPDATE rules SET length = length + 1 WHERE id = (SELECT min(id) FROM rules)", "length is"),
        (
            "DELETE FROM derivations WHERE pair_id = (SELECT min(pair_id) FROM derivations)",
            "not used by any derivation",
        ),
        ("UPDATE derivations SET averages = current WHERE pair_id = (SELECT max(pair_id) FROM derivations)", "pair 60"),
    ],
    ids=[
        "count",
        "expected uses",
        "variance of uses",
        "minimal uses",
        "length",
        "derivation lost",
        "expected uses damaged",
    ],
)
def test_verify_reports_a_single_planted_error(filled: Store, store_url: str, damage: str, complaint: str) -> None:
    learn(filled, sweeps=2)
    assert verify(filled).problems == []
    change(store_url, damage)
    assert any(complaint in problem for problem in verify(filled).problems)


@pytest.mark.slow
def test_the_result_of_learning_does_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    results = []
    for threads in (1, 2, 3):
        with open_store(f"sqlite:///{tmp_path}/{threads}.db", create=True, settings=QUICK) as store:
            fill(store, some_pairs(1_100))
            report = learn(store, sweeps=2, options=LearnOptions(threads))
            results.append((report.log_likelihood_after, *contents(store)))
    assert results[0] == results[1] == results[2]


def test_minimal_uses_depend_only_on_the_stored_pairs(filled: Store, tmp_path: Path) -> None:
    learn(filled, sweeps=2)
    fill(filled, some_pairs(70)[60:])
    withdraw_all(filled, list(range(1, 31)), lambda _done: None)
    learn(filled, sweeps=1)
    again = Settings(seed=9, schedule="quick", burn_in=1)
    with open_store(f"sqlite:///{tmp_path}/again.db", create=True, settings=again) as other:
        fill(other, some_pairs(70)[30:])
        learn(other, sweeps=0)
        found = [sorted(minimal_uses(store)) for store in (filled, other)]
    assert found[0] == found[1]
    assert len(found[0]) > 30


def test_a_run_in_parts_equals_a_single_run(tmp_path: Path) -> None:
    results = []
    for parts in ((5,), (0, 2, 1, 2)):
        with open_store(f"sqlite:///{tmp_path}/{len(parts)}.db", create=True, settings=QUICK) as store:
            fill(store, some_pairs(40))
            for sweeps in parts:
                learn(store, sweeps=sweeps)
            results.append(contents(store))
    assert results[0] == results[1]


def test_an_interrupted_run_leaves_a_consistent_store_and_can_continue(filled: Store) -> None:
    class EndedError(Exception):
        pass

    def end(progress: object) -> None:
        raise EndedError

    with pytest.raises(EndedError):
        learn(filled, sweeps=2, options=LearnOptions(report=end))
    assert verify(filled).problems == []
    learn(filled, sweeps=2)
    assert verify(filled).problems == []
    assert filled.count_pairs(["settled"]) == 60
