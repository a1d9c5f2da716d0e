"""The synthetic problem of [CGB09 §6]: the rules of a grammar that no CFG can represent are recovered from 50 trees."""

import pytest
from tests.tools.lab.programs import run_lab

from hierogram.tools.lab.papers.ten_rules import RULES, learn_fragments, treebank


def test_the_synthetic_problem_has_ten_rules_and_50_trees() -> None:
    assert len(RULES) == 10
    assert len(treebank(seed=3)) == 50


@pytest.mark.slow
def test_one_seed_recovers_the_rules() -> None:
    assert set(learn_fragments(seed=1, sweeps=2000)) == RULES


@pytest.mark.campaign
def test_nine_of_ten_seeds_recover_the_rules() -> None:
    assert int(run_lab("papers.ten_rules").split(" seeds end")[0].split("\n")[-1].split(" of ")[0]) >= 9
