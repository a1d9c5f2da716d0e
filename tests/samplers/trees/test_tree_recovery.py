"""The synthetic problem of [CGB09 §6]: 50 trees of a grammar that no CFG can stand for; its rules are found again."""

from random import Random

import pytest

from hierogram.daemon.learning.kinds.trees import sample_treebank
from hierogram.samplers.grammar.schedules import Annealing

RULES = {
    "(S (A))",
    "(S (B))",
    *(f"({head} ({below}) ({below}))" for head in "AB" for below in "AB"),
    *(f"({head} ({below} {head.lower()}) ({below} {head.lower()}))" for head in "AB" for below in "AB"),
}
"""Figure 3: S expands to A or B; their two children are both A or both B, and where these are words, the words agree
with the grandparent. All rules of a label are equally likely."""

LONGEST = 200


def tree(random: Random, label: str) -> str:
    """A random tree below a label."""
    below = random.choice("AB")
    if random.random() < 0.5:
        return f"({label} {tree(random, below)} {tree(random, below)})"
    return f"({label} ({below} {label.lower()}) ({below} {label.lower()}))"


def treebank(seed: int, trees: int = 50) -> list[str]:
    """Random trees of at most `LONGEST` words."""
    random = Random(seed)
    found: list[str] = []
    while len(found) < trees:
        try:
            text = f"(S {tree(random, random.choice('AB'))})"
        except RecursionError:
            continue
        if text.count(" a)") + text.count(" b)") <= LONGEST:
            found.append(text)
    return found


def recovered(seed: int, sweeps: int) -> bool:
    """Whether annealing from T = 3 ends in exactly the ten rules."""
    chain = sample_treebank(treebank(seed), base="uniform", seed=seed, annealing=Annealing(sweeps, 3.0), sweeps=0)
    return {fragment.fragment for fragment in chain.fragments()} == RULES


def test_there_are_ten_rules() -> None:
    assert len(RULES) == 10


def test_a_seed_finds_them() -> None:
    assert recovered(seed=1, sweeps=2000)


@pytest.mark.campaign
def test_nine_seeds_of_ten_find_them() -> None:
    assert sum(recovered(seed, sweeps=2000) for seed in range(10)) >= 9
