"""Counts of given links equal the counts of chains. A chain with other pairs' counts equals a chain over all pairs."""

from random import Random

import numpy as np
import pytest
from tests.samplers.alignment.kernels import pair_counts, same_counts

from hierogram.samplers.alignment import prior_counts
from hierogram.samplers.alignment.bitext import Direction, Side, fold, make_direction, read_side
from hierogram.samplers.alignment.chain import SINGLE_WIDTHS
from hierogram.samplers.alignment.models.sampler import AlignmentKernel
from hierogram.samplers.alignment.options import AlignerOptions
from hierogram.samplers.alignment.prior_counts import (
    MAX_EVENT,
    PriorCounts,
    count_direction_links,
    split_directions,
    subtract_counts,
)
from hierogram.samplers.alignment.symmetrization import LinkList
from hierogram.samplers.exceptions import AlignmentInputError
from hierogram.samplers.grammar.rules import split_line

LENGTHS = [(3, 2), (1, 1), (5, 120), (2, 4), (4, 4), (3, 130)]


def options(model: str = "bhmm-f") -> AlignerOptions:
    return AlignerOptions(model=model, sweeps=2, chains=1, burn_in=0, thinning=1, lexical=0.1, similarity=0.0)


def random_direction(random: Random) -> tuple[Direction, np.ndarray]:
    """Return pairs over six words per side, and random links. Some jumps are wider than `SINGLE_WIDTHS`."""
    emitted = [" ".join(random.choice("abcdef") for _ in range(n)) for n, _ in LENGTHS]
    conditioning = [" ".join(random.choice("uvwxyz") for _ in range(m)) for _, m in LENGTHS]
    links = [random.choice([-1, *range(m)]) for n, m in LENGTHS for _ in range(n)]
    return make_direction(read_side(emitted), read_side(conditioning)), np.array(links, np.int16)


def part(side: Side, first: int, last: int) -> Side:
    """Return the sentences of pairs [first, last), with the same word numbers."""
    start, stop = side.offset[first], side.offset[last]
    return Side(side.words[start:stop], side.offset[first : last + 1] - start, side.vocabulary)


def read_word_counts(prior: PriorCounts) -> dict[tuple[int, int], int]:
    pairs = zip(prior.conditioning.tolist(), prior.emitted.tolist(), strict=True)
    return dict(zip(pairs, prior.counts.tolist(), strict=True))


@pytest.mark.parametrize("words", [1, 7, 12])
def test_counting_in_parts_gives_the_same_counts(words: int, monkeypatch: pytest.MonkeyPatch) -> None:
    direction, links = random_direction(Random(3))
    weight = [2, 1, -1, 0, 3, 1]
    whole = counts_for(direction, links, weight)
    monkeypatch.setattr(prior_counts, "_WORDS_AT_ONCE", words)
    for column, expected in zip(counts_for(direction, links, weight), whole, strict=True):
        assert np.array_equal(column, expected)


def counts_for(direction: Direction, links: np.ndarray, weight: list[int] | None = None) -> PriorCounts:
    weights = np.array(weight or [1] * direction.bitext.pairs, np.int64)
    return count_direction_links(
        direction.bitext, links, weight=weights, conditioning_vocabulary=len(direction.conditioning.vocabulary)
    )


@pytest.mark.parametrize("seed", range(5))
def test_prior_counts_replace_the_other_pairs_in_a_chain(seed: int) -> None:
    direction, links = random_direction(Random(seed))
    emitted, conditioning = direction.emitted, direction.conditioning
    cut = 4
    old, new = (
        make_direction(part(emitted, *bounds), part(conditioning, *bounds))
        for bounds in ((0, cut), (cut, len(LENGTHS)))
    )
    words = int(emitted.offset[cut])
    known = counts_for(old, links[:words])._replace(emitted_words=len(emitted.vocabulary))
    nothing = counts_for(old, links[:words], [0] * cut)._replace(emitted_words=len(emitted.vocabulary))
    beside = AlignmentKernel(options(), new, known).init(1, links[words:]).chain
    together = AlignmentKernel(options(), direction, nothing).init(1, links).chain
    assert same_counts(beside, together)
    assert pair_counts(together)


def test_counts_of_pairs_are_subtracted() -> None:
    direction, links = random_direction(Random(7))
    all_pairs, some = counts_for(direction, links), counts_for(direction, links, [1, 0, 1, 0, 0, 1])
    others = subtract_counts(all_pairs, some)
    expected = counts_for(direction, links, [0, 1, 0, 1, 1, 0])
    assert read_word_counts(others) == read_word_counts(expected)
    assert np.array_equal(others.link_counts, expected.link_counts)
    assert np.array_equal(others.fertility, expected.fertility)
    assert np.array_equal(others.jumps, expected.jumps)
    wide = np.abs(np.arange(-MAX_EVENT, MAX_EVENT + 1)) > SINGLE_WIDTHS
    assert all_pairs.jumps[wide].any()


def test_subtracting_counts_of_pairs_that_were_not_counted_is_refused() -> None:
    direction, links = random_direction(Random(7))
    with pytest.raises(AlignmentInputError, match="run `hierogram verify`"):
        subtract_counts(
            counts_for(direction, links, [0, 1, 0, 1, 1, 0]), counts_for(direction, links, [1, 0, 1, 0, 0, 1])
        )


def test_prior_counts_are_rejected_for_models_other_than_bhmm_f() -> None:
    direction, links = random_direction(Random(1))
    with pytest.raises(AlignmentInputError, match="require the model bhmm-f, got bhmm"):
        AlignmentKernel(options("bhmm"), direction, counts_for(direction, links))


def test_each_word_keeps_its_link_nearest_to_the_diagonal() -> None:
    links = LinkList(
        np.array([0, 0, 1, 3, 3, 0, 1], np.int16), np.array([0, 3, 3, 0, 2, 1, 0], np.int16), np.array([0, 5, 7])
    )
    source, target = read_side(["a b c d", "a b"]), read_side(["w x y z", "w x"])
    forward, backward = split_directions(links, source, target)
    assert backward.tolist() == [0, 3, -1, 2, 1, 0]
    assert forward.tolist() == [0, -1, 3, 1, 1, 0]


def test_only_spaces_and_tabs_separate_words() -> None:
    assert split_line(" a\u00a0b \tc\u3000d\r") == ["a\u00a0b", "c\u3000d"]
    assert split_line("") == []
    assert read_side(["A\u00a0b a\u00a0B"]).vocabulary == ("a\u00a0b",)


def test_lowercasing_makes_no_word_longer_than_stores_allow() -> None:
    grows = "\u0130" * 512
    assert len(grows.encode()) == 1024
    assert fold(grows) == grows
    assert fold("\u0130X") == "i\u0307x"
