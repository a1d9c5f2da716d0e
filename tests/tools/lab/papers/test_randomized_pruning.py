"""Commands for the figure and the table of [BPK09] §4: grammars, and measurements on small pairs."""

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from tests.daemon.conftest import LINES
from tests.tools.lab.programs import run_lab

from hierogram.daemon.exceptions import InputError
from hierogram.samplers.alignment.models.itg import itg_rules
from hierogram.samplers.charts.pairs import PairWords
from hierogram.samplers.charts.pruning.pair_charts import PairChart
from hierogram.tools.lab.papers.pruning.pairs import GRAMMARS, build_whole, mixed_rules, read_corpus
from hierogram.tools.lab.papers.randomized_pruning import by_work, chosen_pairs, measure, quarter, slope


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    columns = zip(*(line.split(" ||| ") for line in LINES), strict=True)
    names = []
    for name, lines in zip(("zh", "en", "links"), columns, strict=True):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
        names.append(str(tmp_path / name))
    return names


def test_mixed_rules_have_all_orders_and_all_positions_of_words() -> None:
    rules = mixed_rules()
    rule_sides = set()
    for rule in range(len(rules.weight)):
        sides = tuple(
            tuple(symbols[first[rule] : first[rule + 1]].tolist()) for symbols, first, _ in (rules.source, rules.target)
        )
        nonterminals = [[symbol for symbol in side if -10 < symbol < 0] for side in sides]
        assert sorted(nonterminals[0]) == sorted(nonterminals[1])
        assert nonterminals[0] == sorted(nonterminals[0], reverse=True)
        assert all(len(side) - len(own) <= 1 for side, own in zip(sides, nonterminals, strict=True))
        rule_sides.add(sides)
    # k nonterminals have k! orders, and each side has no word or a word at one of k + 1 places. The rule X → X is
    # excluded. A rule without nonterminals has a word on each side.
    wanted = 1 + sum(len(list(permutations(range(k)))) * ((k + 2) ** 2 - (k == 1)) for k in (1, 2, 3))
    assert len(rule_sides) == len(rules.weight) == wanted


def count_itg_edges(source: int, target: int) -> int:
    """Return the number of edges in the whole ITG chart of a pair, given the numbers of words.

    An edge with two nonterminals is a span and a split on each side, such that no part is empty on both sides. Other
    edges are word pairs, or a word at a position of the other side.
    """

    def splits(words: int) -> int:
        return (words + 1) * (words + 2) * (words + 3) // 6

    def spans(words: int) -> int:
        return (words + 1) * (words + 2) // 2

    # Subtract splits in which the left part is empty on both sides, one per pair of spans, and likewise the right
    # part. Add splits with two empty parts again, because they are subtracted twice.
    separate = splits(source) * splits(target) - 2 * spans(source) * spans(target) + (source + 1) * (target + 1)
    return 2 * separate + source * target + source * (target + 1) + (source + 1) * target


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (4, 3)])
def test_a_whole_chart_has_all_edges(size: tuple[int, int]) -> None:
    n, m = size
    words = PairWords(
        np.zeros(n, np.int32), np.zeros(m, np.int32), np.ones((n, m)), np.ones(n), np.ones(m), np.ones(n), np.ones(m)
    )
    chart = PairChart(itg_rules(), words, np.zeros((0, 2), np.int32))
    assert build_whole(chart).edges == count_itg_edges(n, m)


def test_the_most_probable_one_to_one_links_are_read(files: list[str]) -> None:
    sizes = read_corpus(*files).sizes()
    pair = int(sizes.argmax())
    links = [["0-0 1-0 1-1 2-1 2-2 ||| 0.4 0.9 0.5 0.6 0.05"] if k == pair else [""] for k in range(len(LINES))]
    Path(files[2]).write_text("".join(f"{line[0]}\n" for line in links))
    assert read_corpus(*files).links[pair].tolist() == [[1, 0], [2, 1]]
    Path(files[2]).write_text("0-0\n")
    with pytest.raises(InputError, match="expected 9 lines, one for each pair, got 1"):
        read_corpus(*files)


def test_sizes_are_divided_into_equal_ranges() -> None:
    sizes = np.array([1, 32, 33, 65, 66, 97, 98, 130, 131])
    assert quarter(sizes).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4]


@pytest.mark.slow
def test_measured_edges_and_errors_are_consistent(files: list[str]) -> None:
    corpus = read_corpus(*files)
    pairs = list(chosen_pairs(corpus, 3, seed=1))
    assert len(pairs) == len(set(pairs)) >= 4
    rows = [measure(corpus, grammar, pair, 1) for grammar in GRAMMARS for pair in pairs]
    for row in rows:
        assert 0 < row.mask_edges <= row.exact_edges
        assert min(row.first_error, row.half_error) >= 0
        assert row.tictactoe[-1, 1] == pytest.approx(0, abs=0.01)
        assert (np.diff(row.tictactoe[:, 0]) >= 0).all()
        assert (np.diff(row.by_count[:, 0]) >= 0).all()
        assert row.by_count[0, 0] > row.mask_edges / 10
        assert row.by_count[0, 1] == pytest.approx(row.first_error)
        assert row.by_count[-1, 1] == pytest.approx(0, abs=0.01)


@pytest.mark.slow
def test_uniform_selections_use_plain_means(files: list[str]) -> None:
    corpus = read_corpus(*files)
    pair = max(chosen_pairs(corpus, 3, seed=1), key=lambda one: len(corpus.links[one]))
    row, other = (measure(corpus, "itg", pair, 1, uniform) for uniform in (True, False))
    assert row.by_count[0, 1] == pytest.approx(row.first_error)
    assert row.by_count[-1, 1] < row.first_error / 2
    assert row.exact_edges == other.exact_edges
    assert not np.array_equal(row.by_count, other.by_count)


@pytest.mark.slow
def test_larger_pairs_contribute_more_to_the_work_but_not_to_the_error(files: list[str]) -> None:
    corpus = read_corpus(*files)
    small = measure(corpus, "itg", next(chosen_pairs(corpus, 1, seed=1)), 1)
    large = small._replace(
        exact_edges=3 * small.exact_edges, by_count=small.by_count * [9, 2], tictactoe=small.tictactoe * [2, 5]
    )
    masks, cut = by_work([small, large])
    edges = small.exact_edges
    np.testing.assert_allclose(masks[:, 0], small.by_count[:, 0] * 10 / (4 * edges))
    np.testing.assert_allclose(masks[:, 1], small.by_count[:, 1] * 1.5)
    np.testing.assert_allclose(cut[:, 0], small.tictactoe[:, 0] * 7 / 4)
    np.testing.assert_allclose(cut[:, 1], small.tictactoe[:, 1] * 3)


def test_the_slope_and_its_error_are_unbiased() -> None:
    random = np.random.default_rng(1)
    size = random.uniform(10, 130, 400)
    slopes = [slope(size, 1 + 0.02 * size + random.normal(0, size / 50)) for _ in range(300)]
    values, errors = np.array(slopes).T
    assert values.mean() == pytest.approx(2, abs=0.05)
    assert values.std() == pytest.approx(errors.mean(), rel=0.15)


@pytest.mark.slow
def test_the_commands_print_results_and_draw_a_figure(files: list[str], tmp_path: Path) -> None:
    figure = tmp_path / "f.png"
    output = run_lab("papers.randomized_pruning", *files, "--pairs", "2", "-o", figure)
    assert "increase of the error of half the work" in output
    assert figure.stat().st_size > 10_000
    cache = tmp_path / "pass.json"
    output = run_lab("papers.pruning.every_pair", *files, "-o", cache)
    assert output.splitlines()[1].startswith(f"{len(LINES)}\t")
    # Finished work is not repeated: the seconds are the earlier ones.
    before = cache.read_text()
    run_lab("papers.pruning.every_pair", *files, "-o", cache)
    assert cache.read_text() == before
