"""Weight tuning: decode, pool candidates, train, repeat, and return the weights with the best BLEU.

Training is pairwise ranking optimization [Hopkins & May 2011], which learns weights that rank better candidates above
worse ones. Candidates are uninformative about weights that differ much from the weights that produced the candidates.
So each step starts from the best weights so far, and may change the best pooled candidate of a limited share of the
sentences. At the end, the weights get the scale with which the consensus of the candidates has the highest BLEU.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.decoding.consensus import CANDIDATES, index_most_similar, pairwise_chrf
from hierogram.tools.translation.tuning.options import TuningOptions

Words = tuple[str, ...]
Floats = NDArray[np.float64]

ORDER = 4
"""Length of the longest n-grams, in words."""
SIZE = 2 * ORDER + 2
LENGTH, REFERENCE = 2 * ORDER, 2 * ORDER + 1
"""Columns of the candidate's length and of its reference's length."""


class References:
    """References of one sentence."""

    def __init__(self, references: Sequence[Words]) -> None:
        self._lengths = sorted({len(reference) for reference in references})
        self._most: Counter[Words] = Counter()
        for reference in references:
            self._most |= _ngrams(reference)

    def statistics(self, words: Words) -> Floats:
        """Return a candidate's statistics for BLEU, float64[10]: matches and totals by order, and two lengths."""
        statistics = np.zeros(SIZE)
        for ngram, number in _ngrams(words).items():
            statistics[len(ngram) - 1] += min(number, self._most[ngram])
        statistics[ORDER:LENGTH] = [max(0, len(words) - n) for n in range(ORDER)]
        statistics[LENGTH] = len(words)
        statistics[REFERENCE] = min(self._lengths, key=lambda length: (abs(length - len(words)), length))
        return statistics


def _ngrams(words: Words) -> Counter[Words]:
    return Counter(words[k : k + n] for n in range(1, ORDER + 1) for k in range(len(words) - n + 1))


class Bleu(NamedTuple):
    """BLEU of a text, 0 to 100, and its length divided by the length of its references."""

    score: float
    ratio: float


def corpus_bleu(statistics: Floats) -> Bleu:
    """Compute BLEU from the summed statistics of all sentences [Papineni et al. 2002], without smoothing."""
    matches, totals = statistics[:ORDER], statistics[ORDER:LENGTH]
    length, reference = statistics[LENGTH], statistics[REFERENCE]
    ratio = float(length / reference) if reference else 1.0
    if not matches.all():
        return Bleu(0.0, ratio)
    penalty = min(0.0, 1 - reference / length)
    return Bleu(100 * float(np.exp(np.log(matches / totals).mean() + penalty)), ratio)


def sentence_bleu(statistics: Floats) -> Floats:
    """Compute BLEU+1 (0 to 1) of candidates from statistics float64[k, 10].

    One is added to the counts of n-grams of two or more words [Lin & Och 2004], and to the reference length in the
    brevity penalty. Without the latter, tuning makes translations too short [Nakov, Guzmán & Vogel 2012].
    """
    added = np.array([0.0, 1.0, 1.0, 1.0])
    matches, totals = statistics[:, :ORDER] + added, statistics[:, ORDER:LENGTH] + added
    lengths = np.maximum(statistics[:, LENGTH], 1)
    with np.errstate(divide="ignore"):
        precision = np.log(matches / np.maximum(totals, 1)).mean(axis=1)
    penalty = np.minimum(0.0, 1 - (statistics[:, REFERENCE] + 1) / lengths)
    return np.asarray(np.exp(precision + penalty), np.float64)


_LENGTH_HALVINGS = 30
_MAX_CHANGE = 0.5
"""Maximum change of the weight of words, relative to the largest weight."""

Ranked = tuple[Floats, Floats, Floats]
"""Candidates of one sentence: scores, lengths, and lengths of the closest reference, float64[k] each."""


def length_ratio(lists: Sequence[Ranked], change: float) -> float:
    """Return the length ratio of best candidates to references after a `change` of the weight of words."""
    words = references = 0.0
    for scores, lengths, closest in lists:
        best = int(np.argmax(scores + change * lengths))
        words += lengths[best]
        references += closest[best]
    return float(words / references) if references else 1.0


def fit_length(lists: Sequence[Ranked], largest: float, ratio: float) -> float:
    """Return the change of the weight of words that brings the length ratio closest to `ratio`.

    The change is limited to `_MAX_CHANGE` times `largest`, the largest absolute weight.
    """
    if length_ratio(lists, 0.0) == ratio:
        return 0.0
    low, high = -_MAX_CHANGE * largest, _MAX_CHANGE * largest
    # The lengths of the best candidates increase with the weight of words, so bisection works.
    for _ in range(_LENGTH_HALVINGS):
        middle = (low + high) / 2
        if length_ratio(lists, middle) < ratio:
            low = middle
        else:
            high = middle
    return (low + high) / 2


_REGULARIZATION = 1.0
"""Strength λ of L2 regularization, for features of unit variance and a loss summed over pairs."""
DRAWN_PAIRS, KEPT_PAIRS = 5_000, 50
"""Numbers of candidate pairs that are drawn and kept for each sentence [Hopkins & May 2011]."""
MIN_GAP = 0.05
"""Minimum difference in sentence BLEU, 0 to 1, between the candidates of a pair."""


def draw_pairs(random: np.random.Generator, scores: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sample pairs of better and worse candidates by sentence BLEU, and keep the largest gaps."""
    first, second = random.integers(len(scores), size=(2, DRAWN_PAIRS))
    gaps = scores[first] - scores[second]
    far = np.flatnonzero(np.abs(gaps) >= MIN_GAP)
    far = far[np.argsort(-np.abs(gaps[far]), kind="stable")][:KEPT_PAIRS]
    better = gaps[far] > 0
    return np.where(better, first[far], second[far]), np.where(better, second[far], first[far])


def logistic_loss(weights: Floats, differences: Floats) -> tuple[float, Floats]:
    """Return −Σ log P(the better candidate ranks higher) + ½ λ |w|², and its gradient float64[F].

    `differences` float64[n, F] are features of the better minus the worse candidate, scaled to unit variance.
    """
    margins = differences @ weights
    error_probability = 1 / (1 + np.exp(np.clip(margins, -500, 500)))
    value = np.logaddexp(0, -margins).sum() + _REGULARIZATION / 2 * (weights @ weights)
    return float(value), _REGULARIZATION * weights - error_probability @ differences


def train(differences: Floats) -> Floats:
    """Return weights that rank better candidates higher, and 0 for features that never differ."""
    from scipy.optimize import minimize

    scale = np.sqrt((differences**2).mean(axis=0))
    scaled, start = differences / np.where(scale > 0, scale, 1), np.zeros(differences.shape[1])
    solution = minimize(logistic_loss, start, (scaled,), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return np.where(scale > 0, solution.x / np.where(scale > 0, scale, 1), 0.0)


def rescale_weights(trained: Floats, best: Floats, differences: Floats) -> Floats:
    """Return the trained weights, scaled to the best weights so far.

    A feature that was not trained (0) keeps its weight from `best`. Neither the norm of the margins, `differences`
    float64[n, F] @ weights, nor the sum of the trained features' absolute weights exceeds its value for `best`. A
    feature that hardly varies in the pairs would otherwise get a huge weight.
    """
    is_trained = trained != 0
    new, wide = np.linalg.norm(differences @ trained), np.linalg.norm(differences @ best)
    size = np.abs(best[is_trained]).sum()
    if not new:
        return best
    scale = min(wide / new if wide else 1.0, (size or 1.0) / np.abs(trained).sum())
    return np.where(is_trained, trained * scale, best)


_MIN_CHANGE = 0.01
"""Minimum change of weights that counts, as a share of the largest weight that changes."""
_SHARES = (0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
"""Tried shares of the trained weights in the interpolation with the best weights."""
_MAX_STARTS = 3
"""Maximum number of starts from the starting weights. Few new candidates cause a restart."""
_MAX_CHANGED_SHARE = 0.25
"""Maximum share of sentences whose translation the first step may change."""
_GROWTH, _SHRINKAGE, _MIN_CHANGED_SHARE = 1.5, 0.5, 0.02
"""Factors of the maximum changed share after rounds with and without improvement, and its lower limit."""
_MAX_LOST = 2.0
"""Maximum loss of BLEU points in a round against the start. A round with a larger loss stops."""
_MIN_NEW_CANDIDATES = 0.5
"""Tuning restarts after a round without improvement that has fewer new candidates per sentence."""
_STEP_HALVINGS = 6
"""Maximum number of times that a step is halved before it is skipped."""
_SCALES = (1.0, 0.5, 2.0, 4.0, 8.0, 16.0)
"""Factors of the tuned weights that are tried. The first factor with the highest BLEU is used."""


class NBest(NamedTuple):
    """N-best list of one sentence: words, and features float64[k, F]."""

    words: Sequence[Words]
    features: Floats


Decode = Callable[[Floats], Iterable[NBest]]
"""Decoder: yields n-best lists of sentences in order, given weights float64[F]. May be stopped early."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """Tuning round: its weights, their BLEU, and the number of new candidates."""

    weights: Floats
    bleu: Bleu
    new: int
    sentences: int
    """Number of translated sentences. The rest count toward BLEU as in the first round."""


class Tuned(NamedTuple):
    """Weights of the best round times `scale`, all rounds, and the best round's index (0 is the start)."""

    weights: Floats
    scale: float
    history: list[Iteration]
    best: int


class _Pool:
    """All candidates of one sentence: words, features float64[F] and statistics float64[10] of each."""

    def __init__(self, references: References) -> None:
        self.words: list[Words] = []
        self.features: list[Floats] = []
        self.statistics: list[Floats] = []
        self._known: set[tuple[Words, bytes]] = set()
        self.statistics_of = cache(references.statistics)

    def add(self, candidates: NBest) -> int:
        before = len(self._known)
        for words, features in zip(candidates.words, candidates.features, strict=True):
            # Round features, because sums in another order differ in their last digits.
            key = (words, np.round(features, 6).tobytes())
            if key not in self._known:
                self._known.add(key)
                self.words.append(words)
                self.features.append(features)
                self.statistics.append(self.statistics_of(words))
        return len(self._known) - before

    def consensus_statistics(self, weights: Floats) -> Floats:
        """Return the statistics of the consensus candidate for each scale of the weights, float64[scale, 10]."""
        if not self.words:
            return np.tile(self.statistics_of(()), (len(_SCALES), 1))
        scores = np.array(self.features) @ weights
        likeliest = {self.words[k]: k for k in np.argsort(scores, kind="stable").tolist()}
        kept = sorted(likeliest.values(), key=scores.__getitem__, reverse=True)[:CANDIDATES]
        similarity = pairwise_chrf([self.words[k] for k in kept])
        rows = [kept[index_most_similar(similarity, scale * scores[kept])] for scale in _SCALES]
        return np.array([self.statistics[row] for row in rows])

    def differences(self, random: np.random.Generator) -> Floats:
        """Return features of better candidates minus features of worse candidates, float64[n, F]."""
        features = np.array(self.features)
        better, worse = draw_pairs(random, sentence_bleu(np.array(self.statistics)))
        return features[better] - features[worse]


class _CandidateLists:
    def __init__(self, pools: Sequence[_Pool]) -> None:
        self._lists = [(np.array(pool.features), np.array(pool.statistics)) for pool in pools if pool.features]

    def first(self, weights: Floats) -> NDArray[np.int64]:
        """Return the index of each sentence's best candidate under `weights`, int64[s]."""
        return np.array([int(np.argmax(features @ weights)) for features, _ in self._lists], np.int64)

    def quality(self, first: NDArray[np.int64], length: float) -> tuple[float, float]:
        """Return length-adjusted BLEU, and mean sentence BLEU for ties, of the candidates `first`."""
        rows = np.array([statistics[k] for k, (_, statistics) in zip(first, self._lists, strict=True)])
        return length_adjusted(corpus_bleu(rows.sum(axis=0)), length), float(sentence_bleu(rows).mean())

    def ranked(self, weights: Floats) -> list[Ranked]:
        return [(features @ weights, columns[:, LENGTH], columns[:, REFERENCE]) for features, columns in self._lists]


def length_adjusted(bleu: Bleu, length: float) -> float:
    """Return BLEU, reduced if the length ratio differs from `length`, unless `length` is 0."""
    if not length or not bleu.ratio:
        return bleu.score
    return bleu.score * min(bleu.ratio / length, length / bleu.ratio)


def step(
    lists: _CandidateLists, best: Floats, trained: Floats, max_changed: float, length: float, words: int | None
) -> Floats:
    """Return weights float64[F] of the step with the best length-adjusted BLEU of the pooled candidates.

    Steps from the best weights so far toward the trained weights are tried. A step is halved while it changes the best
    candidate of a larger share of the sentences than `max_changed`, unless all halved steps change none.
    """
    before = lists.first(best)
    chosen, highest = best, (-1.0, -1.0)
    longer, fewest = best, 2.0
    for share in _SHARES:
        for halved in range(_STEP_HALVINGS + 1):
            weights = best + share / 2**halved * (trained - best)
            changed = float((lists.first(weights) != before).mean())
            if changed > max_changed:
                if changed < fewest:
                    longer, fewest = weights, changed
                continue
            if words is not None and length:
                weights[words] += fit_length(lists.ranked(weights), float(np.abs(weights).max()), length)
            if (quality := lists.quality(lists.first(weights), length)) > highest:
                chosen, highest = weights, quality
            break
    # If no step changes a candidate, use the longer step that changes the fewest sentences if it has better candidates.
    if (lists.first(chosen) == before).all() and lists.quality(lists.first(longer), length) > highest:
        return longer
    return chosen


def _decode_round(
    decode: Decode, weights: Floats, pools: Sequence[_Pool], start: Floats | None
) -> tuple[Iteration, Floats]:
    """Decode a round and pool its candidates. Returns the round and its statistics, float64[s, 10]."""
    total = np.zeros(SIZE) if start is None else start.sum(axis=0)
    min_score = corpus_bleu(total).score - _MAX_LOST
    rows: list[Floats] = []
    new = 0
    for pool, candidates in zip(pools, decode(weights), strict=True):
        row = pool.statistics_of(candidates.words[0] if candidates.words else ())
        total += row if start is None else row - start[len(rows)]
        rows.append(row)
        new += pool.add(candidates)
        if start is not None and corpus_bleu(total).score < min_score:
            break
    return Iteration(weights, corpus_bleu(total), new, len(rows)), np.array(rows)


def tune(
    decode: Decode,
    references: Sequence[Sequence[Words]],
    weights: Floats,
    options: TuningOptions,
    words: int | None = None,
) -> Tuned:
    """Tune weights float64[F] to BLEU, starting from `weights`. Results are deterministic.

    `words` is the index of the feature that counts target words, or None. After each training, the weight of this
    feature is fitted to the length ratio `options.length`, unless the ratio is 0.
    """
    pools = [_Pool(References(texts)) for texts in references]
    history: list[Iteration] = []
    # Index of the best round since the last start.
    best = 0
    starts = 1
    length = options.length if words is not None else 0.0
    max_changed = _MAX_CHANGED_SHARE
    start_rows: Floats | None = None
    while True:
        iteration, rows = _decode_round(decode, weights, pools, start_rows)
        start_rows = rows if start_rows is None else start_rows
        history.append(iteration)
        number = len(history)
        if number > 1:
            better = length_adjusted(iteration.bleu, length) > length_adjusted(history[best].bleu, length)
            max_changed *= _GROWTH if better else _SHRINKAGE
            max_changed = min(1.0, max(_MIN_CHANGED_SHARE, max_changed))
            best = number - 1 if better else best
            if not better and iteration.new < _MIN_NEW_CANDIDATES * len(pools) and starts < _MAX_STARTS:
                starts += 1
                best, max_changed = 0, _MAX_CHANGED_SHARE
        if number > options.iterations:
            break
        pool_differences = [
            pool.differences(np.random.default_rng([options.seed, number, k]))
            for k, pool in enumerate(pools)
            if len(pool.features) > 1
        ]
        if not sum(map(len, pool_differences)):
            break
        differences = np.concatenate(pool_differences)
        start = history[best].weights
        trained = rescale_weights(train(differences), start, differences)
        last, weights = weights, step(_CandidateLists(pools), start, trained, max_changed, length, words)
        # Compare with weights that changed, because a large untrained weight would make every change look small.
        changed = weights != last
        settled = np.abs(weights - last).max() < _MIN_CHANGE * np.abs(weights[changed]).max() if changed.any() else True
        if not iteration.new and settled and starts == _MAX_STARTS:
            break
    best = max(range(len(history)), key=lambda number: history[number].bleu.score)
    weights = history[best].weights
    totals = sum((pool.consensus_statistics(weights) for pool in pools), np.zeros((len(_SCALES), SIZE)))
    scale = _SCALES[int(np.argmax([corpus_bleu(row).score for row in totals]))]
    return Tuned(weights * scale, scale, history, best)
