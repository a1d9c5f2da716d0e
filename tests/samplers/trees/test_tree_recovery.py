"""The synthetic problem of [CGB09 §6]: 50 trees of a grammar that no CFG can stand for; its rules are found again."""

import pytest
from tests.tools.lab.programs import printed

from hierogram.tools.lab.papers.ten_rules import RULES, fragments_of, treebank


def test_there_are_ten_rules() -> None:
    assert len(RULES) == 10
    assert len(treebank(seed=3)) == 50


@pytest.mark.slow
def test_a_seed_finds_them() -> None:
    assert set(fragments_of(seed=1, sweeps=2000)) == RULES


@pytest.mark.campaign
def test_nine_seeds_of_ten_find_them() -> None:
    assert int(printed("papers.ten_rules").split(" seeds end")[0].split("\n")[-1].split(" of ")[0]) >= 9
