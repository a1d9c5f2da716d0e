"""Initial states of chains: Model 1, word similarity, and the table of word pairs."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierogram.samplers.alignment.bitext import make_direction, number_bigrams, read_side
from hierogram.samplers.alignment.counts import (
    TOTALS,
    USED,
    empty_pairs,
    free_if_unused,
    has_room,
    larger_pairs,
    lexical,
    link_pair,
    pair_weight,
    smaller_pairs,
    unlink_pair,
)
from hierogram.samplers.alignment.model1 import model1_links, random_links
from hierogram.samplers.alignment.orthography import make_similarity_prior

SENTENCES = [
    ("la maison", "the house"),
    ("la fleur", "the flower"),
    ("une maison bleue", "a blue house"),
    ("la la fleur", "the flower"),
]


def model1_by_dictionary(pairs: list[tuple[str, str]], with_empty_word: bool, iterations: int) -> list[int]:
    table: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
    split = [(f.split(), [*([""] if with_empty_word else []), *e.split()]) for f, e in pairs]
    for _ in range(iterations):
        expected: dict[tuple[str, str], float] = defaultdict(float)
        total: dict[str, float] = defaultdict(float)
        for emitted, words in split:
            for f in emitted:
                mass = sum(table[e, f] for e in words)
                for e in words:
                    expected[e, f] += table[e, f] / mass
                    total[e] += table[e, f] / mass
        table = defaultdict(float, {(e, f): n / total[e] for (e, f), n in expected.items()})
    links = []
    for emitted, words in split:
        for f in emitted:
            scores = [table[e, f] for e in words]
            links.append(scores.index(max(scores)) - with_empty_word)
    return links


@pytest.mark.parametrize("with_empty_word", [False, True])
@pytest.mark.parametrize("iterations", [1, 5])
def test_model_1_matches_a_dictionary_implementation(
    monkeypatch: pytest.MonkeyPatch, with_empty_word: bool, iterations: int
) -> None:
    monkeypatch.setattr("hierogram.samplers.alignment.model1.ITERATIONS", iterations)
    emitted, words = read_side(f for f, _ in SENTENCES), read_side(e for _, e in SENTENCES)
    found = model1_links(make_direction(emitted, words).bitext, len(words.vocabulary), with_empty_word)
    assert found.tolist() == model1_by_dictionary(SENTENCES, with_empty_word, iterations)


def test_model_1_links_more_word_pairs_than_its_initial_table_holds() -> None:
    words = [f"w{k}" for k in range(200)]
    lines = [" ".join(words[k : k + 40]) for k in range(0, 160, 8)] + words
    side = read_side(lines)
    found = model1_links(make_direction(side, side).bitext, len(side.vocabulary), with_empty_word=False)
    positions = [k for line in lines for k in range(len(line.split()))]
    assert found.tolist() == positions


def test_random_links_are_uniform_and_leave_the_requested_share_unlinked() -> None:
    side = read_side(["a b c d"] * 5_000)
    links = random_links(make_direction(side, side).bitext, np.uint64(1), 0.2)
    shares = np.bincount(links + 1, minlength=5) / len(links)
    assert shares.tolist() == pytest.approx([0.2] * 5, abs=0.015)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 400), st.booleans()), max_size=900))
def test_the_table_of_word_pairs_behaves_like_a_dictionary(steps: list[tuple[int, int, bool]]) -> None:
    pairs = empty_pairs()
    totals = np.zeros(4, TOTALS)
    totals["prior"] = 2.0
    counts: dict[tuple[int, int], int] = {}
    for e, f, add in steps:
        if not has_room(pairs, 1):
            pairs = larger_pairs(pairs)
        if add:
            link_pair(pairs, totals, e, f)
            counts[e, f] = counts.get((e, f), 0) + 1
        elif counts.get((e, f)):
            free_if_unused(pairs, unlink_pair(pairs, totals, e, f))
            counts[e, f] -= 1
    linked = {pair: n for pair, n in counts.items() if n}
    assert pairs.registers[USED] == len(linked) == np.count_nonzero(pairs.rows["key"])
    for e in range(4):
        assert totals[e]["links"] == sum(n for (given, _), n in linked.items() if given == e)
        for f in range(401):
            n = linked.get((e, f), 0)
            assert pair_weight(pairs, e, f) == n
    probability = lexical(pairs, totals, 1, 7, 0.5)
    assert probability == (linked.get((1, 7), 0) + 0.5) / (totals[1]["links"] + 2.0)


def test_removing_half_of_the_pairs_keeps_the_other_half() -> None:
    pairs = empty_pairs()
    totals = np.zeros(1, TOTALS)
    numbers = range(700)
    for f in numbers:
        link_pair(pairs, totals, 0, f)
    for f in numbers[::2]:
        free_if_unused(pairs, unlink_pair(pairs, totals, 0, f))
    assert [pair_weight(pairs, 0, f) for f in numbers] == [f % 2 for f in numbers]
    assert pairs.registers[USED] == 350


def test_a_sparse_table_shrinks_once() -> None:
    pairs = empty_pairs(10_000)
    totals = np.zeros(1, TOTALS)
    for f in range(1000):
        link_pair(pairs, totals, 0, f)
    small = smaller_pairs(pairs)
    assert len(small.rows) < len(pairs.rows)
    assert smaller_pairs(small) is small
    assert [pair_weight(small, 0, f) for f in range(1001)] == [1] * 1000 + [0]


def test_pairs_removed_one_by_one_leave_the_other_pairs_in_the_table() -> None:
    pairs = empty_pairs()
    totals = np.zeros(1, TOTALS)
    numbers = np.random.default_rng(1).choice(1 << 30, 700, replace=False).tolist()
    for f in numbers:
        link_pair(pairs, totals, 0, f)
    for gone, f in enumerate(numbers, 1):
        free_if_unused(pairs, unlink_pair(pairs, totals, 0, f))
        if gone % 50 == 0:
            assert [pair_weight(pairs, 0, f) for f in numbers] == [0] * gone + [1] * (700 - gone)
    assert not pairs.filter_bytes.any()


def compute_similarity(one: str, other: str) -> float:
    emitted, words = read_side([one]), read_side([other])
    totals = np.zeros(2, TOTALS)
    pairs = make_similarity_prior(make_direction(emitted, words), 2.0, totals)
    weight = float(pair_weight(pairs, 0, 0))
    assert totals[0]["prior"] == weight
    return weight / 2


def test_similar_spelling_is_favored() -> None:
    assert compute_similarity("1492", "1492") == compute_similarity(",", ",") == 1.0
    assert compute_similarity("Paris", "paris") == 1.0
    assert compute_similarity("gouvernement", "gouverner") == pytest.approx((8 / 12) ** 2)
    assert compute_similarity("gouvernement", "government") == 0.0
    assert compute_similarity("nation", "national") == pytest.approx((6 / 8) ** 2)
    assert compute_similarity("son", "song") == 0.0
    assert compute_similarity("able", "abbey") == 0.0
    assert compute_similarity("λόγος", "λόγου") == pytest.approx((4 / 5) ** 2)


def test_many_favored_pairs_make_the_table_grow() -> None:
    emitted = read_side(" ".join(f"word{k}" for k in range(60)) for _ in range(2))
    words = read_side(" ".join(f"wordy{k}" for k in range(60)) for _ in range(2))
    totals = np.zeros(61, TOTALS)
    pairs = make_similarity_prior(make_direction(emitted, words), 1.0, totals)
    assert pairs.registers[USED] == 60 * 60
    assert totals["prior"][:60].sum() == pytest.approx(pairs.rows["prior"].sum(), rel=1e-5)


def test_bigrams_begin_at_a_start_symbol() -> None:
    numbers, count = number_bigrams(read_side(["a b a b", "a", "b a"]))
    assert count == 4
    assert numbers[0] == numbers[4]
    assert numbers[1] == numbers[3]
    assert numbers[2] == numbers[6]
    assert numbers[5] not in numbers[[0, 1, 2]]
