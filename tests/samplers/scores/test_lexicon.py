"""Word features are computed from the other pairs alone, and equal the features of the twin."""

import numpy as np
import pytest
from tests.reference.scores import lexicon as twin
from tests.reference.scores.lexicon import LinkedPair

from hierogram.samplers.scores.lexicon import (
    FEATURES,
    Lexicon,
    LinkCounts,
    PairContribution,
    SideCounts,
    count_neighbors,
    fill_facts,
    fill_features,
    make_facts,
)

WORDS = 5


def random_pairs(seed: int) -> list[LinkedPair]:
    random = np.random.default_rng(seed)
    pairs = []
    for _ in range(6):
        n, m = random.integers(1, 6, 2)
        links = [(int(i), int(x)) for i, x in np.argwhere(random.random((n, m)) < 0.3)]
        pairs.append(LinkedPair(random.integers(0, WORDS, n).tolist(), random.integers(0, WORDS, m).tolist(), links))
    # Each word occurs in a pair. Some words and some links occur in only one pair.
    every = list(range(WORDS))
    return [*pairs, LinkedPair(every, every, []), LinkedPair([WORDS, 0, WORDS], [1, WORDS], [(0, 1), (2, 1), (1, 0)])]


def count_lexicon(pairs: list[LinkedPair]) -> Lexicon:
    links = twin.count_links(pairs)
    sides, around = [], []
    for side in (0, 1):
        tokens = np.array([word for pair in pairs for word in pair.side(side)], np.int32)
        first = np.cumsum([0, *(len(pair.side(side)) for pair in pairs)])
        bound = [pair.side(side)[k] for pair in pairs for k in {link[side] for link in pair.links}]
        size = WORDS + 1
        ends = np.array([link[side] for link in links], np.int64)
        sides.append(
            SideCounts(
                np.bincount(tokens, minlength=size),
                np.bincount(np.array(bound, np.int64), minlength=size),
                np.bincount(ends, list(links.values()), size).astype(np.int64),
                np.bincount(ends, minlength=size),
                len(tokens),
                len(bound),
            )
        )
        around.append(count_neighbors(tokens, first, size))
    seen = sorted(links)
    counts = LinkCounts(
        np.searchsorted([f for f, _ in seen], np.arange(WORDS + 2)),
        np.array([e for _, e in seen], np.int32),
        np.array([links[link] for link in seen], np.int32),
    )
    return Lexicon((sides[0], sides[1]), counts, (around[0], around[1]))


def of_pair(pair: LinkedPair, known: bool) -> tuple[np.ndarray, np.ndarray, PairContribution]:
    source, target = np.array(pair.source, np.int32), np.array(pair.target, np.int32)
    links = np.array(pair.links, np.int32).reshape(-1, 2)
    if not known:
        return source, target, PairContribution((source[:0], target[:0]), (links[:0, 0].copy(), links[:0, 1].copy()))
    return source, target, PairContribution((source, target), (links[:, 0].copy(), links[:, 1].copy()))


@pytest.mark.parametrize("seed", range(4))
def test_features_come_from_the_other_pairs_only(seed: int) -> None:
    pairs = random_pairs(seed)
    lexicon = count_lexicon(pairs)
    new = LinkedPair([0, WORDS - 1, 0], [1, 1, 2, 3], [])
    for place, pair in [*enumerate(pairs), (-1, new)]:
        others = [other for k, other in enumerate(pairs) if k != place]
        source, target, own = of_pair(pair, place >= 0)
        n, m = len(source), len(target)
        facts = make_facts(8, 40)
        fill_facts(source, target, own, lexicon, facts)
        np.testing.assert_allclose(facts.joint[:n, :m], twin.together(others, pair), rtol=1e-12)
        for side, size in ((0, n), (1, m)):
            words = pair.side(side)
            np.testing.assert_allclose(facts.unigram[side, :size], twin.alone(others, words, side), rtol=1e-12)
            np.testing.assert_allclose(facts.nulls[side, :size], twin.nulls(others, words, side), rtol=1e-12)
            np.testing.assert_allclose(
                facts.neighbors[side, :size], twin.neighbors(others, words, side), rtol=1e-10, atol=1e-12
            )
            features = np.empty((size, FEATURES))
            fill_features(side, (n, m), facts, features)
            np.testing.assert_allclose(features, twin.features(others, pair, side), rtol=1e-10, atol=1e-12)


def test_words_absent_from_stored_pairs_have_the_features_of_the_twin() -> None:
    pairs = random_pairs(9)
    facts = make_facts(4, 4)
    source, target = np.array([-1, 0], np.int32), np.array([-1], np.int32)
    empty = np.zeros(0, np.int32)
    fill_facts(source, target, PairContribution((empty, empty), (empty, empty)), count_lexicon(pairs), facts)
    pair = LinkedPair([-1, 0], [-1], [])
    np.testing.assert_allclose(facts.unigram[0, :2], twin.alone(pairs, pair.source, 0))
    np.testing.assert_allclose(facts.joint[:2, :1], twin.together(pairs, pair))
    np.testing.assert_allclose(facts.neighbors[1, :1], twin.neighbors(pairs, pair.target, 1))
