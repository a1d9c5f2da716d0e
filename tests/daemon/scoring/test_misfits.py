"""Words that do not belong: a sentence's own neighbours are not counted, and replaced words are told from others."""

import numpy as np
import pytest

from hierogram.daemon.scoring.misfits import Classifier, Contexts, Fit, features_of, learn, spoil

SENTENCES = [[0, 1, 2], [0, 1, 3], [0, 1, 0, 1, 2], [3]]


def contexts(sentences: list[list[int]], words: int = 4) -> Contexts:
    tokens = np.array([word for sentence in sentences for word in sentence], np.int32)
    return Contexts(tokens, np.cumsum([0, *map(len, sentences)]), words)


@pytest.mark.parametrize("left_out", range(4))
def test_what_a_sentence_has_added_is_left_out(left_out: int) -> None:
    alone = np.array([0.4, 0.3, 0.2, 0.1])
    others = [sentence for k, sentence in enumerate(SENTENCES) if k != left_out]
    for asked in ([0, 1, 2], [3, 3], [0, -1, 2], [1]):
        weights = alone[np.array(asked)]
        found = contexts(SENTENCES).fit(asked, SENTENCES[left_out], weights)
        np.testing.assert_allclose(found, contexts(others).fit(asked, [], weights), atol=1e-12)


def test_neighbours_are_counted() -> None:
    """By hand: after 0 there are four words, 1 each time; before 2 there are two, 1 both times."""
    alone = np.array([0.25, 0.25, 0.25])
    found = contexts(SENTENCES).fit([0, 1, 2], [], alone)
    after_0 = (4 + 2 * 0.25) / (4 + 2)
    before_2 = (2 + 2 * 0.25) / (2 + 2)
    between = (2 + (after_0 + before_2) / 2) / (2 + 1)
    np.testing.assert_allclose(found[1], np.log(np.array([after_0, before_2, between]) / 0.25))
    # Of three sentences that begin with 0, of four in all.
    assert found[0, 0] == pytest.approx(np.log((3 + 0.5) / (4 + 2) / 0.25))
    assert found[2, 1] == pytest.approx(np.log((2 + 0.5) / (4 + 2) / 0.25))


def test_features_of_a_word_that_nothing_links_are_lower() -> None:
    together = np.array([[5.0, 0.0], [0.0, 0.0]])
    fit = Fit(
        together,
        (np.array([6.0, 3.0]), np.array([6.0, 3.0])),
        (np.full(2, 0.1), np.full(2, 0.1)),
        (np.zeros((2, 3)), np.zeros((2, 3))),
    )
    for side in (0, 1):
        features = features_of(fit, side)
        assert (features[0, 3:7] > features[1, 3:7]).all()
        assert features[0, 4] == pytest.approx(np.log((5 + 0.1) / 7 / 0.1))


def test_features_follow_the_equations() -> None:
    """docs/model.md, section 8, word by word."""
    random = np.random.default_rng(4)
    together = random.integers(0, 5, (3, 2)).astype(float)
    links = together.sum(axis=1) + np.arange(3), together.sum(axis=0) + np.arange(2)
    alone = random.uniform(0.01, 0.2, 3), random.uniform(0.01, 0.2, 2)
    neighbours = random.normal(size=(3, 3)), random.normal(size=(2, 3))
    fit = Fit(together, links, alone, neighbours)
    for side, sizes in ((1, (3, 2)), (0, (2, 3))):
        c = together if side else together.T
        u, v = alone[side], alone[1 - side]
        q = [[(c[i, j] + v[i]) / (links[side][j] + 1) for j in range(sizes[1])] for i in range(sizes[0])]
        for j in range(sizes[1]):
            given = [(c[i, j] + u[j]) / (links[1 - side][i] + 1) / u[j] for i in range(sizes[0])]
            back = [q[i][j] / v[i] for i in range(sizes[0])]
            share = 0.02 + sum(q[i][j] / sum(q[i]) for i in range(sizes[0]))
            wanted = np.log([np.mean(given), max(given), max(back), share, u[j], sizes[1]])
            np.testing.assert_allclose(features_of(fit, side)[j], [*neighbours[side][j], *wanted])


def test_a_classifier_tells_what_it_was_taught() -> None:
    random = np.random.default_rng(1)
    kept, replaced = random.normal(1, 1, (2000, 9)), random.normal(-1, 1, (400, 9))
    classifier = Classifier(kept, replaced)
    assert (classifier.odds(random.normal(1, 1, (500, 9))) < 0).mean() > 0.95
    assert (classifier.odds(random.normal(-1, 1, (500, 9))) > 0).mean() > 0.95
    # As if one in two were replaced: nothing is known of what lies between.
    assert abs(np.median(classifier.odds(random.normal(0, 0.1, (500, 9))))) < 1


def test_of_too_few_words_nothing_is_learned() -> None:
    rows = [np.zeros((1, 9))] * 4
    assert learn(rows, rows) is None
    assert learn([], []) is None


@pytest.mark.parametrize("length", [1, 4, 10, 33])
def test_a_fifth_of_the_words_is_replaced(length: int) -> None:
    random = np.random.default_rng(2)
    words = [int(word) for word in random.integers(5, size=length)]
    spoiled, places = spoil(words, np.arange(5, dtype=np.int32), random)
    assert len(places) == max(1, round(length / 5))
    assert [k for k in range(length) if spoiled[k] != words[k]] == sorted(places)


def test_where_all_words_are_the_same_none_is_replaced() -> None:
    assert spoil([3, 3], np.full(9, 3, np.int32), np.random.default_rng(1)) == ([3, 3], [])
