"""A daemon records damaged pairs by id and continues with other pairs."""

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from structlog.testing import capture_logs
from tests.daemon.learning.every_kind import CASES
from tests.daemon.learning.stores import QUICK, fill, some_pairs
from tests.daemon.serving.conftest import until
from tests.daemon.serving.turns import LOG, ManualTurns
from tests.storage.building import query

from hierogram.daemon.configuration import Configuration
from hierogram.daemon.exports.exporting import export
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.repairing import repair
from hierogram.daemon.learning.verifying import verify
from hierogram.daemon.serving.sampling import SamplingLoop
from hierogram.daemon.serving.supervision import HealthRegistry, Heartbeat
from hierogram.storage.store import Store, open_store

DAMAGE = "UPDATE derivations SET current = averages WHERE pair_id IN ({ids})"
"""SQL for both databases that overwrites derivations."""


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with open_store(store_url, create=True, settings=QUICK) as opened:
        fill(opened, some_pairs(30))
        learn(opened, sweeps=2)
        yield opened


def damage(store: Store, *ids: int) -> None:
    url = store.engine.url.render_as_string(hide_password=False)
    query(url, DAMAGE.format(ids=", ".join(map(str, ids))))


@pytest.mark.slow
def test_other_pairs_are_sampled_until_the_damaged_ones_are_repaired(store: Store) -> None:
    damage(store, 4, 17)
    before = {row.id: row.sweep for row in store.pairs()}
    with capture_logs() as logs, ManualTurns(store, idle_share=1.0) as turns:
        for _ in range(3):
            turns.turns.run_turn()
    damaged = [line for line in logs if line["event"] == "damaged pair: run `hierogram repair`"]
    assert [line["pair"] for line in damaged] == [4, 17]
    assert all("its derivation" in line["reason"] for line in damaged)
    assert [pair.id for pair in store.damaged_pairs()] == [4, 17]
    after = {row.id: row.sweep for row in store.pairs()}
    assert {k for k in after if after[k] == before[k]} == {4, 17}
    fill(store, some_pairs(34)[30:])
    with ManualTurns(store, idle_share=1.0) as turns:
        turns.settle()
    assert store.count_pairs(["settled"]) == 34
    # The rules of these pairs are still counted, which is reported as well.
    assert [line.split(":")[0] for line in verify(store).problems[:2]] == ["pair 4", "pair 17"]
    assert (repair(store).reset_pairs, store.damaged_pairs()) == ([4, 17], [])
    with ManualTurns(store, idle_share=1.0) as turns:
        turns.settle()
        turns.turns.run_turn()
    assert store.count_pairs(["settled"]) == 34
    assert verify(store).problems == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [name for name in CASES if name != "phrases"])
def test_damaged_trees_and_itg_pairs_are_recorded_and_the_others_sampled(kind: str, store_url: str) -> None:
    case = CASES[kind]
    with open_store(store_url, create=True, settings=replace(case.settings)) as store:
        case.fill(store)
        learn(store, sweeps=2)
        damage(store, 3)
        case.add(store)
        with ManualTurns(store, idle_share=1.0) as turns:
            turns.settle()
            sweeps = {row.id: row.sweep for row in store.pairs()}
            turns.turns.run_turn()
        assert [pair.id for pair in store.damaged_pairs()] == [3]
        assert {k for k, row in ((row.id, row) for row in store.pairs()) if row.sweep == sweeps[k]} == {3}
        assert repair(store).remaining_problems == []
        learn(store, sweeps=1)
        assert verify(store).problems == []


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_damage_found_during_withdrawal_does_not_end_the_loop(store: Store) -> None:
    damage(store, 5)
    store.request_withdrawals([5, 6])
    health, stop, beat = HealthRegistry(), threading.Event(), Heartbeat()
    configuration = Configuration.model_validate({"sampling": {"threads": 1, "commit_seconds": 0.05}})
    loop = SamplingLoop(store, lambda: configuration, health, LOG)
    failed: list[BaseException] = []

    def run() -> None:
        try:
            loop.run(stop, beat)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        # Pair 6 is withdrawn, pair 5 cannot be until it is repaired.
        until(lambda: failed or not store.pairs_by_id([6]))
    finally:
        stop.set()
        thread.join()
    assert failed == []
    assert [row.id for row in store.pairs_by_id([5, 6])] == [5]
    assert store.status().damaged_pairs == 1
    repair(store)
    with ManualTurns(store) as turns:
        turns.turns.run_turn()
    assert store.pairs_by_id([5]) == []
    assert verify(store).problems == []


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_store_with_damaged_pairs_is_exported(store: Store, tmp_path_factory: pytest.TempPathFactory) -> None:
    damage(store, 5)
    path = tmp_path_factory.mktemp("out") / "rules.txt"
    report = export(store, path, ExportOptions(format="cdec"))
    assert report.rules > 0
