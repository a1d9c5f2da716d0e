"""Coverage of intervals around expected uses, against a direct count, and the uses of chains of every kind."""

from pathlib import Path

import numpy as np
import pytest
from tests.daemon.learning.every_kind import CASES
from tests.daemon.learning.stores import QUICK, fill, some_pairs
from tests.tools.lab.programs import run_lab

from hierogram.storage.store import open_store
from hierogram.tools.lab.measures.coverage import (
    ReportedUses,
    Uses,
    align_uses,
    measure,
    measure_coverage,
    sample,
    sum_uses,
)


def keys(*numbers: int) -> np.ndarray:
    return np.array([(number, 7 * number) for number in numbers], np.uint64)


def test_interval_coverage_equals_a_direct_count() -> None:
    means = [Uses(keys(1, 2, 3), np.array([0.2, 1.0, 0.06])), Uses(keys(1, 2), np.array([0.2, 1.2]))]
    means.append(Uses(keys(2, 1, 4), np.array([0.8, 0.2, 0.01])))
    reported = [
        ReportedUses(keys(1, 2), np.array([0.25, 1.5]), np.array([0.03, 0.1])),
        ReportedUses(keys(2, 9), np.array([0.9, 0.3]), np.array([0.01, 0.01])),
        ReportedUses(keys(1, 2), np.array([0.1, 1.1]), np.array([0.02, 0.01])),
    ]
    table = {row.min_uses: row for row in measure_coverage(reported, means)}
    # Rule 1 has 0.2 uses in each chain: inside the first interval, not reported by the second, outside the third.
    assert (table[0.1].rules, table[0.1].covered) == (1, 0.5)
    # For rule 2, the other chains have means of 1, 0.9 and 1.1: the first chain, with 1.5, is wrong.
    assert (table[0.7].rules, table[0.7].covered) == (1, pytest.approx(2 / 3))
    assert table[0.3].rules == table[1.5].rules == 0


def test_uses_of_the_same_rule_are_added() -> None:
    parts = [Uses(keys(5, 3, 5), np.array([1.0, 2.0, 4.0])), Uses(keys(3), np.array([0.5]))]
    summed = sum_uses(parts)
    assert dict(zip(summed.keys[:, 0].tolist(), summed.uses.tolist(), strict=True)) == {3: 2.5, 5: 5.0}
    first, second = align_uses(summed, Uses(keys(8), np.array([9.0])))
    assert sorted(zip(first.tolist(), second.tolist(), strict=True)) == [(0.0, 9.0), (2.5, 0.0), (5.0, 0.0)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_total_expected_uses_match_the_chain_for_every_kind_of_store(kind: str, tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'some.db'}", create=True, settings=CASES[kind].settings) as store:
        CASES[kind].fill(store)
        [young, old], means = measure(store, 2, (10, 40))
        [first, *others] = sample(store, 2, (40,))
        assert store.count_pairs(["settled"]) == 0
    assert young.means.sum() == pytest.approx(means.uses.sum(), rel=0.3)
    assert old.means.sum() == pytest.approx(means.uses.sum(), rel=0.15)
    # The uses are means over the derivations of 40 sweeps.
    assert means.uses.sum() == pytest.approx(sum(int(current.count.sum()) for current, _ in (first, *others)) / 40)
    assert first[1] is None
    last = others[-1][1]
    assert last is not None
    # Chains of phrases mix. Averages of other kinds have a variance of at least half a use per use.
    uses, variances = last.expected_uses, last.expected_uses_variance
    assert (variances.sum() < uses.sum() / 2) if kind == "phrases" else (variances >= uses / 2).all()


@pytest.mark.slow
def test_the_coverage_command_prints_rows_for_each_age(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'some.db'}"
    with open_store(url, create=True, settings=QUICK) as store:
        fill(store, some_pairs(12))
    output_lines = run_lab("measures.coverage", url, "--seeds", "3", "--ages", "5,20").splitlines()
    assert output_lines[0].startswith("| pairs | sweeps | uses reported |")
    assert {line.split(" | ")[1] for line in output_lines[2:]} == {"5", "20"}
    assert all("%" in line for line in output_lines[2:])
