"""Tuning finds planted weights, and its parts follow their definitions."""

from collections.abc import Iterable
from random import Random

import numpy as np
import pytest
from tests.tools.translation.tuning.decoder import ListDecoder, select_best

from hierogram.tools.translation import tuning
from hierogram.tools.translation.options import TuningOptions
from hierogram.tools.translation.tuning import (
    STATISTICS,
    CandidateLengths,
    Floats,
    NBest,
    References,
    _CandidateLists,
    _Pool,
    corpus_bleu,
    draw_pairs,
    fit_length,
    length_ratio,
    logistic_loss,
    rescale_weights,
    sentence_bleu,
    step,
    train,
    tune,
)

PLANTED = [1.0, -0.5, 0.25, 0.0, 2.0]
OPTIONS = TuningOptions(iterations=8)


def cosine(one, other) -> float:
    return float(np.dot(one, other) / np.linalg.norm(one) / np.linalg.norm(other))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_planted_weights_are_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "DRAWN_PAIRS", 500)
    decode = ListDecoder(PLANTED, sentences=60, candidates=120, seed=seed, noise=0.3)
    start = np.array([0.0, 1.0, 0.0, 1.0, 0.1])
    options = TuningOptions(iterations=8, seed=seed)
    tuned = tune(decode, decode.references, start, options)
    assert cosine(tuned.weights, PLANTED) > 0.98
    assert tuned.history[0].bleu.score < 60 < 80 < max(iteration.bleu.score for iteration in tuned.history)
    planted = tune(decode, decode.references, np.array(PLANTED), TuningOptions(iterations=1)).history[0]
    assert max(iteration.bleu.score for iteration in tuned.history) > planted.bleu.score - 1


def test_the_same_seed_gives_the_same_weights() -> None:
    decode = ListDecoder(PLANTED, sentences=10, candidates=30, seed=1, noise=0.3)
    one, other, third = (
        tune(decode, decode.references, np.ones(5), TuningOptions(iterations=2, seed=seed)) for seed in (4, 4, 5)
    )
    assert np.array_equal(one.weights, other.weights)
    assert not np.array_equal(one.history[-1].weights, third.history[-1].weights)


def test_tuning_ends_without_new_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = ListDecoder(PLANTED, sentences=5, candidates=20, seed=1, noise=0.3)
    options = TuningOptions(iterations=50)
    monkeypatch.setattr(tuning, "DRAWN_PAIRS", 20_000)
    monkeypatch.setattr(tuning, "KEPT_PAIRS", 190)
    tuned = tune(decode, decode.references, np.ones(5), options)
    assert {iteration.new_candidates for iteration in tuned.history[1:]} == {0}
    assert 2 < len(tuned.history) < 51
    same_words = [NBest([("a",), ("a",)], np.array([[1.0], [2.0]]))]
    assert len(tune(lambda weights: same_words, [[("a",)]], np.ones(1), OPTIONS).history) == 1
    nothing = [NBest([], np.zeros((0, 1)))]
    [only] = tune(lambda weights: nothing, [[("a",)]], np.ones(1), OPTIONS).history
    assert (only.bleu.score, only.bleu.ratio) == (0, 0)


def test_weights_of_the_best_round_are_used() -> None:
    rounds = [["a b c d e", "x"], ["a b c d e f", "y"], ["a b c d", "z"], ["a b", "w"]]
    left = iter(rounds)

    def decode(weights):
        words = [tuple(text.split()) for text in next(left)]
        return [NBest(words, np.array([[float(len(words[0])), 1.0], [0.0, 2.0]]))]

    tuned = tune(decode, [[tuple("abcdef")]], np.ones(2), TuningOptions(iterations=3))
    assert [round(iteration.bleu.score) for iteration in tuned.history] == [82, 100, 61, 0]
    assert np.array_equal(tuned.weights, tuned.scale * tuned.history[1].weights)


def test_bleu_of_a_text_equals_sacrebleu() -> None:
    from sacrebleu.metrics import BLEU

    random = Random(3)
    for references in (1, 3):
        texts = [[f"w{random.randrange(9)}" for _ in range(random.randint(1, 15))] for _ in range(60 * references)]
        sources = [texts[k::60] for k in range(60)]
        words = [[random.choice(part[0]) if random.random() < 0.2 else w for w in part[0][:-1]] for part in sources]
        total = np.zeros(STATISTICS)
        for part, candidate in zip(sources, words, strict=True):
            total += References([tuple(text) for text in part]).statistics(tuple(candidate))
        streams = [[" ".join(part[k]) for part in sources] for k in range(references)]
        metric = BLEU(tokenize="none", smooth_method="none", force=True)
        expected = metric.corpus_score([" ".join(candidate) for candidate in words], streams)
        assert corpus_bleu(total).score == pytest.approx(expected.score)
        assert corpus_bleu(total).ratio == pytest.approx(expected.sys_len / expected.ref_len)


def test_bleu_of_a_sentence_follows_its_definition() -> None:
    references = References([("the", "cat", "sat", "on", "the", "mat"), ("a", "cat")])
    found = sentence_bleu(np.array([references.statistics(tuple(text.split())) for text in (
        "the cat sat on the mat", "the the the cat", "dog", "", "the cat sat on the mat there now",
    )]))  # fmt: skip
    # Brevity: 6 words, and a reference length of 6 + 1. All n-grams match: 6/6, 5/5, 4/4, 3/3.
    assert found[0] == pytest.approx(np.exp(1 - 7 / 6))
    # Three of 4 words match, and one of 3 bigrams. The shorter of two equally close references counts.
    assert found[1] == pytest.approx((3 / 4 * 2 / 4 * 1 / 3 * 1 / 2) ** 0.25)
    assert found[2] == found[3] == 0
    assert found[4] == pytest.approx((6 / 8 * 6 / 8 * 5 / 7 * 4 / 6) ** 0.25)


def test_short_translations_lose_more_than_in_bleu() -> None:
    references = References([tuple("abcdefgh")])
    short, whole = (references.statistics(tuple(text)) for text in ("abcdefg", "abcdefgx"))
    unsmoothed = corpus_bleu(short).score / corpus_bleu(whole).score
    found = sentence_bleu(np.array([short, whole]))
    assert found[0] / found[1] < unsmoothed
    assert found[0] < found[1]


def test_pairs_with_the_largest_gaps_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    scores = np.linspace(0, 1, 21)
    better, worse = draw_pairs(random, scores)
    gaps = scores[better] - scores[worse]
    assert len(gaps) == tuning.KEPT_PAIRS
    assert gaps.min() > 0.8
    assert np.array_equal(gaps, np.sort(gaps)[::-1])
    monkeypatch.setattr(tuning, "KEPT_PAIRS", 5_000)
    better, worse = draw_pairs(random, np.array([0.5, 0.5, 0.52, 0.58]))
    assert {*zip(better.tolist(), worse.tolist(), strict=True)} == {(3, 0), (3, 1), (3, 2)}
    assert len(draw_pairs(random, np.full(5, 0.3))[0]) == 0


def test_trained_weights_are_rescaled_and_constant_features_keep_theirs() -> None:
    random = np.random.default_rng(2)
    differences = random.normal(size=(4_000, 3)) * [1, 100, 0]
    differences[differences @ [2, -0.01, 0] + random.logistic(size=4_000) < 0] *= -1
    trained = train(differences)
    assert trained == pytest.approx([2, -0.01, 0], abs=0.15)
    assert trained[1] == pytest.approx(-0.01, abs=0.002)
    last = np.array([3.0, 1.0, 7.0])
    wide = rescale_weights(trained, last, differences)
    assert wide[2] == 7
    assert wide[0] / wide[1] == pytest.approx(trained[0] / trained[1])
    # The tighter of two bounds applies: the spread of the pairs, or the sum of absolute weights.
    assert np.abs(wide[:2]).sum() == pytest.approx(4)
    assert np.linalg.norm(differences @ wide) < np.linalg.norm(differences @ last)
    narrow = np.array([0.5, 0.5, 7.0])
    both = rescale_weights(np.array([1.0, 50.0, 0.0]), np.array([50.0, 0.5, 7.0]), differences)
    assert np.linalg.norm(differences @ both) == pytest.approx(np.linalg.norm(differences @ np.array([50.0, 0.5, 7.0])))
    assert np.abs(rescale_weights(trained, narrow, differences)[:2]).sum() == pytest.approx(1)
    assert np.abs(rescale_weights(trained, np.zeros(3), differences)).sum() == pytest.approx(1)
    assert np.array_equal(rescale_weights(np.zeros(3), last, differences), last)


def test_the_gradient_equals_numerical_differences_of_the_loss() -> None:
    random = np.random.default_rng(5)
    differences = random.normal(size=(40, 4))
    for weights in random.normal(size=(5, 4)) * 2:
        value, gradient = logistic_loss(weights, differences)
        plain = sum(np.log1p(np.exp(-margin)) for margin in differences @ weights) + weights @ weights / 2
        assert value == pytest.approx(plain)
        for k, unit in enumerate(np.eye(4) * 1e-6):
            up, down = (logistic_loss(weights + sign * unit, differences)[0] for sign in (1, -1))
            assert gradient[k] == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-5)
    # Large margins do not overflow.
    value, gradient = logistic_loss(np.full(4, 1e4), differences)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def make_pool(name: str, wrong: Iterable[int], features: Floats) -> _Pool:
    """Return a pool with a reference of eight words. Candidate k has `wrong[k]` wrong words at its start."""
    reference = tuple(f"{name}{j}" for j in range(8))
    pool = _Pool(References([reference]))
    words = [tuple("x" if j < number else word for j, word in enumerate(reference)) for number in wrong]
    pool.add(NBest(words, features))
    return pool


def test_a_step_changes_no_more_sentences_than_are_allowed() -> None:
    random = np.random.default_rng(6)
    columns = [np.stack([random.normal(size=6), -np.arange(6.0)], axis=1) for _ in range(60)]
    lists = _CandidateLists([make_pool(f"w{k}", range(6), features) for k, features in enumerate(columns)])
    best, trained = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    shares = []
    for max_changed in (0.05, 0.2, 0.5, 1.0):
        weights = step(lists, best, trained, max_changed, 0.0, None)
        shares.append(float((lists.find_best(weights) != lists.find_best(best)).mean()))
        assert 0 < shares[-1] <= max_changed
    assert shares == sorted(shares)
    assert shares[-1] > 0.7


def test_a_step_may_change_sentences_with_equal_features_together() -> None:
    # Four sentences whose candidates have equal features: a step that changes one changes all.
    features = np.array([[1.0, -5.0], [0.0, -3.0]])
    lists = _CandidateLists([make_pool(f"w{k}", (5, 3), features) for k in range(4)])
    best, trained = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    weights = step(lists, best, trained, 0.25, 0.0, None)
    assert lists.find_best(weights).tolist() == [1, 1, 1, 1]
    # In the opposite direction the longer step would be worse, and nothing changes.
    assert lists.find_best(step(lists, trained, best, 0.25, 0.0, None)).tolist() == [1, 1, 1, 1]


class TrapDecoder:
    """A decoder of lists whose last feature is misleading, although lists from a good start do not show it.

    About 30 % of the first eight candidates of a list have a little of it, and fewer wrong words. All later candidates
    have much of it and no correct word.
    """

    def __init__(self, seed: int, sentences: int = 80) -> None:
        random = Random(seed)
        self.calls: list[int] = []
        self.references = [[tuple(f"w{k}{j}" for j in range(12))] for k in range(sentences)]
        self._lists = []
        for [reference] in self.references:
            words, rows = [], []
            for rank in range(30):
                lies = float(random.random() < 0.3) if rank < 8 else 16.0
                wrong = random.randint(2, 4) - 2 * int(lies) if rank < 8 else 12
                places = set(random.sample(range(12), wrong))
                words.append(tuple("x" if place in places else word for place, word in enumerate(reference)))
                rows.append([-wrong + random.gauss(0, 2.0), random.gauss(0, 1), lies])
            self._lists.append(NBest(words, np.array(rows)))

    def __call__(self, weights):
        self.calls.append(0)
        for candidates in self._lists:
            self.calls[-1] += 1
            yield select_best(candidates, weights, 8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7, 8, 9])
@pytest.mark.parametrize("start", [(1.0, 0.2, 0.0), (0.5, -0.1, 0.0), (3.0, 0.5, -0.5), (1.0, 0.0, -1.0)])
def test_no_round_is_far_below_the_start(start: tuple[float, ...], seed: int) -> None:
    """A round stops at the sentence where it has lost two points of BLEU, even if the lists support its weights."""
    decode = TrapDecoder(seed)
    tuned = tune(decode, decode.references, np.array(start), TuningOptions(iterations=8, seed=seed))
    scores = [iteration.bleu.score for iteration in tuned.history]
    assert scores[0] > 40
    a_sentence = 2 * 100 / len(decode.references)
    assert min(scores) > scores[0] - 2 - a_sentence, scores
    assert max(scores) == scores[tuned.best]
    assert [iteration.sentences for iteration in tuned.history] == decode.calls
    early = [iteration for iteration in tuned.history if iteration.sentences < len(decode.references)]
    assert all(iteration.bleu.score < scores[0] - 2 for iteration in early)
    # This start avoids the misleading feature, which no list shows.
    assert bool(early) or start != (3.0, 0.5, -0.5)


@pytest.mark.parametrize("seed", [1, 2])
def test_no_round_is_far_below_a_good_start(seed: int) -> None:
    decode = ListDecoder(PLANTED, sentences=60, candidates=60, seed=seed, noise=1.0)
    tuned = tune(decode, decode.references, np.array(PLANTED), TuningOptions(iterations=6, seed=seed))
    scores = [iteration.bleu.score for iteration in tuned.history]
    assert min(scores) > scores[0] - 2, scores
    assert tuned.history[tuned.best].bleu.score == max(scores)


@pytest.mark.slow
@pytest.mark.parametrize("starts", [1, 2, 3])
def test_tuning_restarts_if_rounds_find_few_new_candidates(starts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    decode = ListDecoder(PLANTED, sentences=20, candidates=40, seed=2, noise=0.3)
    begun = []

    def noted(lists, best, trained, max_changed, length, words):
        begun.append((best, max_changed))
        return step(lists, best, trained, max_changed, length, words)

    monkeypatch.setattr("hierogram.tools.translation.tuning.step", noted)
    monkeypatch.setattr(tuning, "DRAWN_PAIRS", 500)
    monkeypatch.setattr("hierogram.tools.translation.tuning._MAX_STARTS", starts)
    first = np.array([0.0, 1.0, 0.0, 1.0, 0.1])
    options = TuningOptions(iterations=30)
    tuned = tune(decode, decode.references, first, options)
    assert sum(best is first and max_changed == begun[0][1] for best, max_changed in begun) == starts
    # The best round of all starts is used.
    scores = [iteration.bleu.score for iteration in tuned.history]
    assert scores[tuned.best] == max(scores)
    assert np.array_equal(tuned.weights, tuned.scale * tuned.history[tuned.best].weights)


def test_tuning_reports_that_the_starting_weights_are_best() -> None:
    texts = iter(["a b c d e f", "a b c d e x", "a b c d e y", "a b c d e z"])

    def decode(weights):
        words = [tuple(next(texts).split()), tuple("abx")]
        return [NBest(words, np.array([[1.0, 1.0], [0.0, 2.0]]))]

    tuned = tune(decode, [[tuple("abcdef")]], np.ones(2), TuningOptions(iterations=3))
    assert tuned.best == 0
    assert np.array_equal(tuned.weights, np.full(2, tuned.scale))


@pytest.mark.parametrize(("reference", "scale"), [("she has some fresh bread", 1), ("we eat fresh bread here", 4)])
def test_weights_are_scaled_for_the_consensus(reference: str, scale: int) -> None:
    """Several translations have similar probabilities, and the most probable one is either wrong or right."""
    texts = ["we eat fresh bread here", "she has some fresh bread", "she has fresh bread", "she has some bread"]
    candidates = NBest([tuple(text.split()) for text in texts], np.array([[0.5], [0.3], [0.0], [0.0]]))
    tuned = tune(lambda weights: [candidates], [[tuple(reference.split())]], np.ones(1), TuningOptions(iterations=1))
    assert (tuned.scale, tuned.weights.tolist()) == (scale, [scale])


def random_lists(random: np.random.Generator) -> list[CandidateLengths]:
    """Return lists in which shorter candidates score better."""
    lists = []
    for _ in range(50):
        words = random.integers(4, 13, size=40).astype(float)
        lists.append((-0.3 * words + random.normal(size=40), words, np.full(40, 8.0)))
    return lists


def test_the_weight_of_words_is_fitted_to_the_length_of_references() -> None:
    lists = random_lists(np.random.default_rng(3))
    assert length_ratio(lists, 0.0) < 0.8
    for ratio in (0.9, 1.0, 1.1):
        change = fit_length(lists, 5.0, ratio)
        assert length_ratio(lists, change) == pytest.approx(ratio, abs=0.025)
        assert length_ratio(lists, change - 0.05) <= length_ratio(lists, change) <= length_ratio(lists, change + 0.05)
    # All candidates of these lists are as long as their references, so no length is fitted.
    same_words = [(np.arange(3.0), np.full(3, 8.0), np.full(3, 8.0))]
    assert fit_length(same_words, 5.0, 1.0) == 0
    # The change is at most half of the largest weight.
    assert fit_length(lists, 0.02, 1.0) == pytest.approx(0.01)
    assert fit_length(lists, 0.02, 0.5) == pytest.approx(-0.01)
    assert length_ratio([(np.zeros(1), np.zeros(1), np.zeros(1))], 1.0) == 1.0


@pytest.mark.slow
def test_the_length_reaches_its_target_while_other_weights_are_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hierogram.tools.translation.tuning._MAX_STARTS", 1)
    random = np.random.default_rng(4)
    texts = [tuple(f"w{k}{j}" for j in range(10)) for k in range(40)]
    lists = []
    for text in texts:
        # The first feature is the length; only the second one indicates correct words.
        words = [text[: 10 - cut] + ("x",) * more for cut in range(6) for more in range(3)]
        right = np.array([sum(word != "x" for word in own) - sum(word == "x" for word in own) for own in words])
        features = np.stack([[len(own) for own in words], right + random.normal(size=len(words))], axis=1)
        lists.append(NBest(words, features.astype(float)))

    def decode(weights):
        return [select_best(candidates, weights, 8) for candidates in lists]

    start = np.array([-2.0, 1.0])
    for length, lowest, highest in ((1.0, 0.95, 1.05), (0.8, 0.75, 0.85)):
        options = TuningOptions(iterations=6, length=length)
        tuned = tune(decode, [[text] for text in texts], start, options, words_index=0)
        assert tuned.history[0].bleu.ratio < 0.7
        assert lowest < tuned.history[-1].bleu.ratio < highest
    free = tune(decode, [[text] for text in texts], start, TuningOptions(iterations=6, length=0), words_index=0)
    plain = tune(decode, [[text] for text in texts], start, TuningOptions(iterations=6))
    assert [round(own.bleu.ratio, 6) for own in free.history] == [round(own.bleu.ratio, 6) for own in plain.history]
