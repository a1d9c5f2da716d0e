"""Possible positions of rule sides: all that enumeration finds are kept, and most others are excluded."""

from itertools import product

import numpy as np
import pytest

from hierogram.samplers.charts.bitexts import make_reach
from hierogram.samplers.charts.pairs import ANY, PairWords, make_rules

X1, X2 = -1, -2
SIDES = [[], [0], [0, 1], [ANY, 1], [X1], [X1, 0], [0, X1, 1], [X1, 0, 1, X2], [X2, X1], [1, X1, X2], [X1, ANY], [5]]


def ends(side: list[int], words: list[int], start: int, least: int) -> set[int]:
    """Return all ends of a side that starts at a position."""
    found = {start}
    for symbol in side:
        if symbol < 0 and symbol != ANY:
            found = {end for at in found for end in range(at + least, len(words) + 1)}
        else:
            found = {at + 1 for at in found if at < len(words) and symbol in (ANY, words[at])}
    return found


@pytest.mark.parametrize("empty_sides", [False, True])
def test_no_possible_position_is_excluded(empty_sides: bool) -> None:
    source, target = [0, 1, 0, 0, 1], [1, 1, 0, 1]
    sides = list(product(SIDES, SIDES))
    rules = make_rules(sides, np.ones(len(sides)), empty_sides)
    n, m = len(source), len(target)
    words = PairWords(
        np.array(source, np.int32), np.array(target, np.int32), np.ones((n, m)), np.ones(n), np.ones(m), np.ones(n),
        np.ones(m),
    )  # fmt: skip
    reach = make_reach(rules, words, empty_sides)
    least, exact = 0 if empty_sides else 1, 0
    for rule, pair in enumerate(sides):
        for found, side, text in ((reach.source, pair[0], source), (reach.target, pair[1], target)):
            for start in range(len(text) + 1):
                first = min(ends(side, text, start, least), default=len(text) + 1)
                assert found[rule, start] <= first
                exact += found[rule, start] == first
    assert exact > 0.97 * len(sides) * (n + m + 2)
    for start in range(n + 1):
        listed = reach.rule[reach.first[start] : reach.first[start + 1]].tolist()
        assert listed == [
            rule
            for rule in range(len(sides))
            if reach.source[rule, start] <= n and any(reach.target[rule, x] <= m for x in range(m + 1))
        ]
