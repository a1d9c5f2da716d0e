"""Withdrawal removes the counts of pairs, so that the grammar equals the grammar of the remaining pairs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.conftest import LINES, Run, make_store
from tests.daemon.learning.stores import QUICK, fill, some_pairs

from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.verifying import verify
from hierogram.storage.store import Store, open_store


@pytest.fixture
def filled(store_url: str) -> Iterator[Store]:
    with open_store(store_url, create=True, settings=QUICK) as store:
        fill(store, some_pairs(40))
        learn(store, sweeps=3)
        fill(store, some_pairs(50)[40:])
        yield store


def test_learning_withdraws_requested_pairs(filled: Store) -> None:
    filled.request_withdrawals([2, 44])
    learn(filled, sweeps=1)
    assert filled.pairs_by_id([2, 44]) == []
    assert verify(filled).problems == []


@pytest.mark.slow
def test_withdraw_command_withdraws_the_selected_pairs(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "news.bars").write_text("".join(line + "\n" for line in LINES))
    (tmp_path / "more.jsonl").write_text('{"id": "n-1", "source": "la", "target": "the", "alignment": [[0, 0]]}\n')
    make_store(schedule="paper", levels=2, sweeps_per_level=2)
    assert hierogram("ingest", "news.bars").code == 0
    assert hierogram("ingest", "--corpus", "more", "more.jsonl").code == 0
    assert hierogram("learn", "--sweeps", "1").code == 0
    assert hierogram("withdraw", "1", "2").out == "2 pairs withdrawn\n"
    assert hierogram("withdraw", "--external-id", "n-1", "--corpus", "more").out == "1 pair withdrawn\n"
    assert hierogram("withdraw", "--origin", str(tmp_path / "news.bars"), "--json").code == 0
    assert hierogram("verify").code == 0
    assert set(json.loads(hierogram("status", "--json").out)["pairs"].values()) == {0}
    for arguments, code, message in (
        (["withdraw"], 2, "select pairs"),
        (["withdraw", "3", "--corpus", "news"], 2, "select pairs"),
        (["withdraw", "1"], 3, "no pair with these ids found"),
        (["withdraw", "--corpus", "news"], 3, "no matching pair found"),
    ):
        ran = hierogram(*arguments)
        assert (ran.code, message in ran.err) == (code, True), ran


def test_withdraw_command_names_the_writer_of_the_store(hierogram: Run, filled: Store, store_url: str) -> None:
    filled.take_lease("hierogram serve", 60)
    ran = hierogram("--store", store_url, "withdraw", "3")
    assert ran.code == 0
    assert "1 pair will be withdrawn by `hierogram serve` (process" in ran.out
    assert filled.pending_withdrawals(10) == [3]
    ran = hierogram("--store", store_url, "learn")
    assert (ran.code, "the grammar is being written by" in ran.err) == (3, True)
