"""The command of planted noise: the corruption, areas under the curve, and its table."""

from pathlib import Path

import numpy as np
import pytest
from tests.tools.lab.programs import run_lab

from hierogram.tools.lab.papers.planted_noise import (
    COPIED,
    CUT,
    JUNK,
    MOST_NOISES,
    NEGATED,
    NOISES,
    NUMBERS,
    OTHER,
    REPLACED,
    SHIFTED,
    SWAPPED,
    add_noise,
    area,
)


def test_the_area_under_the_curve_is_the_share_of_correctly_ordered_pairs() -> None:
    random = np.random.default_rng(1)
    doubt = random.integers(0, 6, 40).astype(float)
    corrupted = random.random(40) < 0.3
    pairs = [(a, b) for a in doubt[corrupted] for b in doubt[~corrupted]]
    wanted = np.mean([1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs])
    assert area(doubt, corrupted) == pytest.approx(wanted)
    assert area(corrupted.astype(float), corrupted) == 1


def test_pairs_are_corrupted_in_each_way() -> None:
    source = [[f"s{k}", f"{k}"] for k in range(120)]
    target = [[f"t{k}-{j}" for j in range(1 + k % 9)] + ["is", f"{k}"] for k in range(120)]
    other = [["o1"], ["o2", "o3"]]
    noisy = add_noise(source, target, other, 5, 1)
    assert np.bincount(noisy.noise[noisy.noise >= 0]).tolist() == [5] * len(NOISES)
    pairs = {noise: np.flatnonzero(noisy.noise == index).tolist() for index, noise in enumerate(NOISES)}
    for k in range(120):
        changed = noisy.source[k] != source[k], noisy.target[k] != target[k]
        assert changed == (noisy.noise[k] == NOISES.index(SWAPPED), noisy.noise[k] >= 0)
    assert all(noisy.target[k] in other for k in pairs[OTHER])
    assert sorted(str(noisy.target[k]) for k in pairs[SHIFTED]) == sorted(str(target[k]) for k in pairs[SHIFTED])
    for k in pairs[CUT]:
        assert noisy.target[k] == target[k][: len(target[k]) // 3]
    assert all((noisy.source[k], noisy.target[k]) == (target[k], source[k]) for k in pairs[SWAPPED])
    assert all(noisy.target[k] == source[k] for k in pairs[COPIED])
    assert all(len(noisy.target[k]) == len(target[k]) for k in pairs[JUNK])
    for k in pairs[NUMBERS]:
        assert [len(word) for word in noisy.target[k]] == [len(word) for word in target[k]]
        assert noisy.target[k][-1] != target[k][-1]
    assert all(noisy.target[k] == [*target[k][:-1], "not", target[k][-1]] for k in pairs[NEGATED])
    for k in pairs[REPLACED]:
        different = sum(a != b for a, b in zip(noisy.target[k], target[k], strict=True))
        assert different == max(1, round(len(target[k]) / 5))


def test_the_command_prints_areas_under_the_curve(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    lines = [[str(word) for word in random.integers(20, size=5)] for _ in range(160)]
    for name, mark in (("source", "f"), ("target", "e")):
        (tmp_path / name).write_text("".join(" ".join(mark + word for word in line) + "\n" for line in lines))
    arguments = [str(tmp_path / "source"), str(tmp_path / "target"), "--pairs", "160", "--each", "8"]
    output = run_lab("papers.planted_noise", *arguments)
    rows = [line.split("\t") for line in output.splitlines() if "\t" in line]
    assert rows[0][0] == "ROC area by corruption"
    assert [row[0] for row in rows[1:]] == [JUNK, CUT, SHIFTED, SWAPPED, COPIED, NUMBERS, REPLACED, MOST_NOISES]
    for row in rows[1:]:
        assert all(0 <= float(value) <= 1 for value in row[1:])
    areas = {row[0]: dict(zip(rows[0][1:], map(float, row[1:]), strict=True)) for row in rows[1:]}
    # Each source word has one translation, so a pair with the target of another pair has little evidence.
    assert areas[SHIFTED]["evidence"] > 0.9
    assert areas[MOST_NOISES]["doubt"] > 0.8
