"""Rounds of alignment: batches of a round do not use each other's links, and rounds grow with the store."""

from pathlib import Path
from typing import Any

import pytest
from tests.daemon.conftest import QUICK
from tests.daemon.learning.alignment.arrivals import put

from hierogram.daemon.learning.alignment import incremental
from hierogram.daemon.learning.alignment.incremental import IncrementalAligner, align_pending
from hierogram.storage.records.aligner import AlignerChange, PairSize
from hierogram.storage.store import Store, open_store

PAIRS = 140
CELLS = 1_500
"""Maximum number of cells of a batch, which has up to about 38 pairs."""


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incremental, "_CELLS_PER_BATCH", CELLS)
    monkeypatch.setattr(incremental, "_PAIRS_PER_COMMIT", 7)


def test_a_round_is_committed_only_after_all_its_batches_are_aligned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    align_one, rounds = incremental.align_new_batch, list[list[tuple[int, int]]]()

    def noted_batch(store: Store, ids: list[int], *given: Any) -> list[AlignerChange]:
        rounds[-1].append((store.count_pairs(["unaligned"]), len(ids)))
        return align_one(store, ids, *given)

    monkeypatch.setattr(incremental, "align_new_batch", noted_batch)
    with open_store(f"sqlite:///{tmp_path}/s.db", create=True, settings=QUICK) as store:
        put(store, 0, PAIRS)
        aligner, done, left = IncrementalAligner(store, 1), -1, PAIRS
        while done:
            rounds.append([])
            done = aligner.align_new(max_batches=32)
            assert {waiting for waiting, _ in rounds[-1]} <= {left}
            left -= sum(pairs for _, pairs in rounds[-1])
    assert max(map(len, rounds)) > 1


@pytest.mark.parametrize(
    ("linked", "realign", "sizes"),
    [
        (0, False, [3]), (3, False, [3]), (5, False, [3]), (6, False, [3, 3]), (9, False, [3, 3, 3]),
        (99, False, [3, 3, 3, 3, 2]), (14, True, [3, 3]), (6, True, [3]), (3, True, [3]), (20, True, [3, 3, 3]),
    ],
)  # fmt: skip
def test_a_round_is_limited_by_the_number_of_linked_pairs(
    linked: int, realign: bool, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incremental, "_CELLS_PER_BATCH", 300)
    pairs = [PairSize(number, 100, 1) for number in range(1, 15)]
    batches = incremental._make_batches(pairs, linked, 32, realign)
    assert [len(batch) for batch in batches] == sizes
    assert [pair_id for batch in batches for pair_id in batch] == list(range(1, sum(sizes) + 1))
    assert incremental._make_batches(pairs, linked, 1, realign) == batches[:1]


def test_a_pair_larger_than_a_batch_is_a_batch_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incremental, "_CELLS_PER_BATCH", 300)
    pairs = [PairSize(1, 400, 1), PairSize(2, 100, 1), PairSize(3, 500, 1)]
    assert incremental._make_batches(pairs, 9, 32, realign=False) == [[1], [2], [3]]


def test_progress_reaches_the_number_of_pairs(tmp_path: Path) -> None:
    reports: list[tuple[int, int]] = []
    with open_store(f"sqlite:///{tmp_path}/s.db", create=True, settings=QUICK) as store:
        put(store, 0, 100)
        align_pending(store, 1, report=lambda done, total: reports.append((done, total)))
    assert reports == sorted(reports)
    assert reports[-1] == (100, 100)
    assert len(set(reports)) > 4


def test_align_new_aligns_one_batch_by_default(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/s.db", create=True, settings=QUICK) as store:
        put(store, 0, PAIRS)
        aligner = IncrementalAligner(store, 1)
        sizes = []
        while number := aligner.align_new():
            sizes.append(number)
        assert len(sizes) > 3
        assert max(sizes) < 40
