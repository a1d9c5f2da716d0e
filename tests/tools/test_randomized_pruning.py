"""The command of Figure 4: its grammars, and what it measures of small pairs."""

from pathlib import Path

import numpy as np
import pytest
from tests.daemon.conftest import LINES

from hierogram.tools.papers.randomized_pruning import GRAMMARS, chosen_pairs, draw, measure, mixed_rules, read_corpus


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    columns = zip(*(line.split(" ||| ") for line in LINES), strict=True)
    names = []
    for name, lines in zip(("zh", "en", "links"), columns, strict=True):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
        names.append(str(tmp_path / name))
    return names


def test_rules_have_each_nonterminal_once_on_both_sides() -> None:
    rules = mixed_rules()
    for rule in range(len(rules.weight)):
        sides = [
            sorted(symbol for symbol in symbols[first[rule] : first[rule + 1]].tolist() if -10 < symbol < 0)
            for symbols, first in ((rules.source, rules.source_first), (rules.target, rules.target_first))
        ]
        assert sides[0] == sides[1] == list(range(-len(sides[0]), 0))
    assert len(rules.weight) == 5 + 2 + 2 * (1 + 3) + 2 * (1 + 4)


def test_what_is_measured_fits_together(files: list[str], tmp_path: Path) -> None:
    corpus = read_corpus(*files)
    pairs = list(chosen_pairs(corpus, 3, seed=1))
    assert len(pairs) == len(set(pairs)) >= 4
    rows = [measure(corpus, grammar, pair, 1) for grammar in GRAMMARS for pair in pairs]
    for row in rows:
        assert 0 < row.mask_edges <= row.exact_edges
        assert min(row.one, row.half) >= 0
        assert row.tictactoe[-1, 1] == pytest.approx(0, abs=0.01)
        assert (np.diff(row.tictactoe[:, 0]) >= 0).all()
    draw(rows, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
