"""Symmetrization of both directions, and decoding from their mean posterior, compared with set-based code."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference.alignment import expected_threshold, links_of_means
from tests.samplers.alignment.kernels import from_marginals, to_marginals

from hierogram.samplers.alignment.bitext import make_direction, read_side
from hierogram.samplers.alignment.marginals import (
    BESIDE_RATIO,
    STORE_THRESHOLDS,
    Marginals,
    decode_mean,
    expected_thresholds,
    join_directions,
)
from hierogram.samplers.alignment.options import EXPECTED, POSTERIOR
from hierogram.samplers.alignment.symmetrization import METHODS, LinkList, symmetrize
from hierogram.samplers.exceptions import AlignmentInputError

Links = set[tuple[int, int]]
NEIGHBORS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def by_sets(method: str, forward: Links, backward: Links, height: int, width: int) -> Links:
    """Return the symmetrized links, by the pseudocode of Koehn et al. (2003)."""
    kept = forward & backward
    union = forward | backward
    if method == "intersect":
        return kept
    if method == "union":
        return union

    def source_free(s: int) -> bool:
        return all(link[0] != s for link in kept)

    def target_free(t: int) -> bool:
        return all(link[1] != t for link in kept)

    grown = True
    while grown:
        grown = False
        for s in range(height):
            for t in range(width):
                if (s, t) not in kept:
                    continue
                for dy, dx in NEIGHBORS:
                    new = (s + dy, t + dx)
                    if new in union - kept and (source_free(new[0]) or target_free(new[1])):
                        kept.add(new)
                        grown = True
    if method == "gd":
        return kept
    for direction in (forward, backward):
        for s, t in sorted(direction - kept):
            free = (source_free(s), target_free(t))
            if all(free) if method == "gdfa" else any(free):
                kept.add((s, t))
    return kept


@st.composite
def both_directions(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]]]:
    """Return links of some pairs: the source position of each target word (or -1), and the reverse."""
    forward, backward = [], []
    for _ in range(draw(st.integers(1, 4))):
        height, width = draw(st.integers(0, 7)), draw(st.integers(0, 7))
        forward.append(draw(st.lists(st.integers(-1, height - 1), min_size=width, max_size=width)))
        backward.append(draw(st.lists(st.integers(-1, width - 1), min_size=height, max_size=height)))
    return forward, backward


def flat(sides: list[list[int]]) -> np.ndarray:
    return np.array([k for side in sides for k in side], np.int16)


def offsets(sides: list[list[int]]) -> np.ndarray:
    return np.cumsum([0, *map(len, sides)]).astype(np.int64)


def list_links(links: LinkList) -> list[list[tuple[int, int]]]:
    both = list(zip(links.source.tolist(), links.target.tolist(), strict=True))
    return [both[start:stop] for start, stop in zip(links.offset[:-1], links.offset[1:], strict=True)]


@settings(deadline=None)
@given(both_directions(), st.sampled_from(sorted(METHODS)))
def test_symmetrized_links_equal_the_links_of_set_based_code(
    directions: tuple[list[list[int]], list[list[int]]], method: str
) -> None:
    forward, backward = directions
    found = symmetrize(method, flat(forward), flat(backward), offsets(backward), offsets(forward))
    for links, to_source, to_target in zip(list_links(found), forward, backward, strict=True):
        expected = by_sets(
            method,
            {(s, t) for t, s in enumerate(to_source) if s >= 0},
            {(s, t) for s, t in enumerate(to_target) if t >= 0},
            len(to_target),
            len(to_source),
        )
        assert links == sorted(expected)


def test_each_method_keeps_the_expected_links_of_an_example() -> None:
    # The links are 0-0 in both directions, its neighbor 1-1, the neighbor 1-2 of 1-1, and the far link 3-3 of words
    # without other links.
    forward = np.array([0, 1, 1, 3, -1], np.int16)
    backward = np.array([0, -1, -1, -1], np.int16)
    found = {
        method: list_links(symmetrize(method, forward, backward, np.array([0, 4]), np.array([0, 5])))[0]
        for method in METHODS
    }
    assert found["intersect"] == [(0, 0)]
    assert found["gd"] == [(0, 0), (1, 1), (1, 2)]
    assert found["gdfa"] == found["union"] == [(0, 0), (1, 1), (1, 2), (3, 3)]


@pytest.mark.parametrize("seed", range(20))
def test_likely_links_are_decoded_from_the_mean_of_both_directions(seed: int) -> None:
    random = np.random.default_rng(seed)
    lengths = [(int(random.integers(0, 6)), int(random.integers(0, 6))) for _ in range(5)]
    source = read_side(" ".join("a" * height) for height, _ in lengths)
    target = read_side(" ".join("b" * width) for _, width in lengths)
    rows: list[tuple[np.ndarray, np.ndarray]] = []
    for height, width in lengths:
        of_target = random.dirichlet(np.full(height + 1, 0.2), width)
        of_source = random.dirichlet(np.full(width + 1, 0.2), height)
        rows.append((of_target, of_source))
    samples = 3, 5
    bitexts = make_direction(target, source).bitext, make_direction(source, target).bitext
    marginals = [to_marginals(bitexts[k], [row[k] for row in rows], samples[k]) for k in (0, 1)]
    # Compare with the stored probabilities, which are rounded.
    stored = zip(*map(from_marginals, bitexts, marginals), strict=True)
    rows = [(of_target[:, 1:], of_source[:, 1:]) for of_target, of_source in stored]
    found = list_links(decode_mean(source, target, marginals))
    expected = [sorted(links_of_means(f.tolist(), b.tolist(), *STORE_THRESHOLDS)) for f, b in rows]
    assert found == expected
    assert any(expected)
    means = [
        (f[t][s] + b[s][t]) / 2
        for f, b in rows
        for s, of_source in enumerate(b.tolist())
        for t in range(len(of_source))
    ]
    thresholds = expected_thresholds(source, target, marginals)
    assert thresholds.likely == expected_threshold(means, 100, 1000)
    assert thresholds.beside == BESIDE_RATIO * thresholds.likely
    joined = list_links(join_directions(EXPECTED, [], marginals, source, target))
    assert joined == [sorted(links_of_means(f.tolist(), b.tolist(), *thresholds)) for f, b in rows]
    assert list_links(join_directions(POSTERIOR, [], marginals, source, target)) == expected


def test_the_threshold_keeps_the_links_above_half_of_the_expected_score() -> None:
    source, target = read_side(["a b c d"]), read_side(["x y z"])
    mean = np.array([[0.95, 0, 0], [0, 0.9, 0.05], [0, 0.05, 0.45], [0.02, 0, 0.3]])
    likely, beside = expected_thresholds(source, target, single_pair_marginals(mean))
    kept = mean[mean >= likely]
    score = 2 * kept.sum() / (len(kept) + mean.sum())
    assert kept.tolist() == [0.95, 0.9, 0.45]
    assert 0.3 < score / 2 < 0.45
    assert beside == BESIDE_RATIO * likely


def test_pairs_without_words_have_a_decoding_threshold() -> None:
    nothing = read_side([""])
    assert 0 < expected_thresholds(nothing, nothing, single_pair_marginals(np.zeros((0, 0)))).likely < 1


def single_pair_marginals(mean: np.ndarray) -> list[Marginals]:
    """Return both directions' marginals of one sample with the given means. `mean` has a row for each source word."""
    source, target = (read_side([" ".join("a" * words)]) for words in mean.shape)
    bitexts = make_direction(target, source).bitext, make_direction(source, target).bitext
    return [to_marginals(bitexts[k], [np.pad(own, ((0, 0), (1, 0)))]) for k, own in enumerate((mean.T, mean))]


def test_a_free_word_gets_a_link_next_to_a_likely_link() -> None:
    def decoded(*rows: list[float]) -> list[tuple[int, int]]:
        mean = np.array(rows)
        source, target = read_side(["a b c"[: 2 * len(rows) - 1]]), read_side(["x y z"[: 2 * len(rows[0]) - 1]])
        return list_links(decode_mean(source, target, single_pair_marginals(mean)))[0]

    assert decoded([0.6, 0.3, 0.1]) == [(0, 0), (0, 1)]
    assert decoded([0.1, 0.3, 0.6]) == [(0, 1), (0, 2)]
    assert decoded([0.6], [0.3], [0.3]) == [(0, 0), (1, 0)]
    assert decoded([0.1], [0.3], [0.6]) == [(1, 0), (2, 0)]
    # A link is not added if it is too unlikely, has no neighbor or only a diagonal one, or if both words have links.
    assert decoded([0.6, 0.15]) == [(0, 0)]
    assert decoded([0.6, 0.1, 0.3]) == [(0, 0)]
    assert decoded([0.6, 0.1], [0.1, 0.3]) == [(0, 0)]
    assert decoded([0.6, 0.3], [0.1, 0.6]) == [(0, 0), (1, 1)]


def test_a_pair_with_the_maximum_number_of_links_is_decoded() -> None:
    # Each word has two links above the decoding threshold.
    source, target = read_side(["a b"]), read_side(["x y"])
    even = single_pair_marginals(np.full((2, 2), 0.45))
    assert list_links(decode_mean(source, target, even)) == [[(0, 0), (0, 1), (1, 0), (1, 1)]]


def test_an_unknown_symmetrization_is_refused() -> None:
    nothing = read_side([])
    with pytest.raises(AlignmentInputError, match="unknown symmetrization 'grow'"):
        join_directions("grow", [], [], nothing, nothing)
