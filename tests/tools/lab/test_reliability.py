"""Calibration of decoded links, against manual links."""

from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
from tests.tools.lab.programs import run_lab

from hierogram.tools.alignment_scores import GoldLinks
from hierogram.tools.lab.reliability import Bin, judge, make_bins

GOLD = [
    GoldLinks(frozenset({(0, 0)}), frozenset({(0, 0), (1, 1)})),
    GoldLinks(frozenset(), frozenset()),
]


def test_only_decoded_links_of_pairs_with_manual_links_are_judged() -> None:
    aligned = [[(0, 0, 0.95), (1, 1, 0.65)], [(0, 1, 0.61)], [(0, 0, 0.99)]]
    probabilities, is_correct = judge(aligned, GOLD)
    assert probabilities.tolist() == [0.95, 0.65, 0.61]
    assert is_correct.tolist() == [True, True, False]
    assert make_bins(probabilities, is_correct) == [Bin(2, pytest.approx(0.63), 0.5), Bin(1, 0.95, 1.0)]


def test_a_probability_of_one_is_in_the_last_bin() -> None:
    assert make_bins(np.array([1.0, 0.9]), np.array([True, False])) == [Bin(2, 0.95, 0.5)]


@pytest.mark.slow
def test_the_reliability_command_prints_a_table_for_a_corpus(tmp_path: Path) -> None:
    folder = tmp_path / "gold-fr-en"
    folder.mkdir()
    (folder / "corpus.fr").write_text("le chat dort\nle chien dort\n" * 8)
    (folder / "corpus.en").write_text("the cat sleeps\nthe dog sleeps\n" * 8)
    (folder / "gold.talp").write_text("0-0 1-1 2p2\n" * 5)
    with chdir(tmp_path):
        output_lines = run_lab("reliability", "gold-fr-en").splitlines()
    assert output_lines[0].startswith("gold-fr-en: ")
    assert output_lines[1] == "| links | mean probability | share of correct links |"
    assert len(output_lines) > 3
