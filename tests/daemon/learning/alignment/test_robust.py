"""Uncounted pairs do not change the links of other pairs, and copies of a pair hardly do."""

from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.daemon.conftest import Run
from tests.daemon.learning.alignment.languages import invented_corpus

from hierogram.daemon.learning.alignment.aligning import align, assign_roles, select_sentences
from hierogram.daemon.learning.alignment.options import AlignOptions
from hierogram.samplers.alignment.bitext import read_side
from hierogram.storage.records.pairs import parse_links
from hierogram.tools.alignment_scores import GoldLinks, evaluate


def roles(*pairs: tuple[str, str]) -> tuple[list[int], list[int], list[int]]:
    found = assign_roles(read_side(s for s, _ in pairs), read_side(t for _, t in pairs))
    return found.counted.tolist(), found.uncounted.tolist(), found.same_as.tolist()


def test_pairs_with_an_empty_side_or_extreme_length_are_not_counted() -> None:
    usual = [("a b", "x y"), ("a", "x"), ("b", "y")]
    assert roles(*usual, ("a", "x " * 9), ("a", "x " * 10), ("b " * 10, "y"), ("", "x"), ("a", "")) == (
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        list(range(8)),
    )


def test_extreme_lengths_are_relative_to_the_corpus() -> None:
    # In a text without spaces, each sentence is one word.
    pairs = [(f"s{k}", " ".join(f"t{j}" for j in range(k, k + 20))) for k in range(9)]
    assert roles(*pairs)[:2] == (list(range(9)), [])
    assert roles(*pairs, ("a b", "x"))[1] == [9]
    # Surplus copies of a pair do not count.
    usual = [(f"a{k}", f"x{k}") for k in range(9)]
    assert roles(*usual, *[("a", "x " * 20)] * 100)[0] == list(range(9))


def test_pairs_are_counted_if_all_of_them_lack_a_side() -> None:
    assert roles(("a", ""), ("", "x")) == ([0, 1], [], [0, 1])
    assert roles() == ([], [], [])


def test_copies_of_a_pair_count_less_than_linearly() -> None:
    pairs = [("a", "x"), ("b", "y"), *[("A", "x")] * 40]
    counted, _, same_as = roles(*pairs)
    # Copies 1 to 4, 8, 16 and 32 of 41 are counted.
    assert counted == [0, 1, 2, 3, 4, 8, 16, 32]
    assert {k: 0 for k in range(42) if k not in counted} == {k: p for k, p in enumerate(same_as) if p != k}


def test_selected_pairs_have_only_their_own_words() -> None:
    side = read_side(["a b", "", "c", "d a"])
    some = select_sentences(side, np.array([0, 3]))
    assert [side.vocabulary[word] for word in some.words] == ["a", "b", "d", "a"]
    assert some.offset.tolist() == [0, 2, 4]
    assert select_sentences(side, np.arange(4)) is side


@pytest.fixture(scope="module")
def corpus() -> tuple[list[str], list[str], list[frozenset[tuple[int, int]]]]:
    source, target, gold = invented_corpus(300)
    return source, target, [frozenset(parse_links(line)) for line in gold]


QUICK = AlignOptions(sweeps=20, chains=3, threads=1)
Corpus = tuple[list[str], list[str], list[frozenset[tuple[int, int]]]]


def error(source: list[str], target: list[str], gold: list[frozenset[tuple[int, int]]]) -> float:
    found = [frozenset((s, t) for s, t, _ in pair) for pair in align(source, target, QUICK)]
    return evaluate([GoldLinks(links, links) for links in gold], found[: len(gold)]).aer


@pytest.mark.parametrize("direction", ["both", "forward", "backward"])
def test_uncounted_pairs_are_aligned_without_changing_other_links(corpus: Corpus, direction: str) -> None:
    source, target, _ = corpus
    request = AlignOptions(sweeps=20, chains=3, threads=1, direction=direction)
    random = Random(1)
    words = " ".join(target).split()
    apart = [(source[k].split()[0], " ".join(random.choices(words, k=200))) for k in range(60)]
    # This target begins with the true translation and is 21 times as long as it.
    apart.append((source[0], " ".join([target[0], *random.choices(words, k=20 * len(target[0].split()))])))
    plain = list(align(source, target, request).lines())
    found = list(align([*source, *(s for s, _ in apart)], [*target, *(t for _, t in apart)], request).lines())
    assert found[:300] == plain
    assert found[-1]
    # The position of the added pairs among the others does not matter.
    mixed = ([source[:150], [s for s, _ in apart], source[150:]], [target[:150], [t for _, t in apart], target[150:]])
    found = list(align(*([line for part in side for line in part] for side in mixed), request).lines())
    assert found[:150] + found[211:] == plain
    assert found[210]


def test_copies_of_a_pair_have_its_links_and_cause_few_errors(corpus: Corpus) -> None:
    source, target, gold = corpus
    wrong = " ".join(reversed(target[1].split()))
    many = [*source, *[source[0]] * 3_000], [*target, *[wrong] * 3_000]
    assert error(*many, gold) < error(source, target, gold) + 0.02
    lines = list(align(*many, QUICK).lines())
    # The aligner counts about a dozen copies. All other copies have the links of the first one.
    assert sum(line == lines[300] for line in lines[300:]) > 2_980


def test_a_line_too_long_to_align_is_skipped_and_reported(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a b\n" + "a " * 40_000 + "\nb\n")
    (tmp_path / "t").write_text("x y\nx\ny\n")
    ran = hierogram("align", "s", "t", "--sweeps", "5")
    assert ran.code == 0
    assert ran.out.count("\n") == 3
    assert ran.out.split("\n")[1] == ""
    assert "pair 2: not aligned: 40,000 words, the limit is 32,767" in ran.err
    aligned = align(["a b", "a"], ["x y", "x " * 33_000], QUICK)
    assert aligned.skipped == {1: 33_000}
    assert aligned.to_words(["a b", "a"], ["x y", "x"]).skipped == aligned.skipped
