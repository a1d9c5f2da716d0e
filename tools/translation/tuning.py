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
from hierogram.tools.translation.fixed_words import Words
from hierogram.tools.translation.options import TuningOptions

Floats = NDArray[np.float64]

ORDER = 4
"""Length of the longest n-grams, in words."""
STATISTICS = 2 * ORDER + 2
"""Number of statistics of a candidate for BLEU, see `References.statistics`."""
LENGTH, REFERENCE_LENGTH = 2 * ORDER, 2 * ORDER + 1
"""Indices of the statistics that are lengths in words: of the candidate, and of its reference."""


class References:
    """Reference translations of one sentence."""

    def __init__(self, references: Sequence[Words]) -> None:
        self._lengths = sorted({len(reference) for reference in references})
        self._most: Counter[Words] = Counter()
        for reference in references:
            self._most |= _ngrams(reference)

    def statistics(self, words: Words) -> Floats:
        """Return matches and totals by order, length, and closest reference length, float64[10]."""
        statistics = np.zeros(STATISTICS)
        for ngram, number in _ngrams(words).items():
            statistics[len(ngram) - 1] += min(number, self._most[ngram])
        statistics[ORDER:LENGTH] = [max(0, len(words) - n) for n in range(ORDER)]
        statistics[LENGTH] = len(words)
        statistics[REFERENCE_LENGTH] = min(self._lengths, key=lambda length: (abs(length - len(words)), length))
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
    length, reference = statistics[LENGTH], statistics[REFERENCE_LENGTH]
    ratio = float(length / reference) if reference else 1.0
    if not matches.all():
        return Bleu(0.0, ratio)
    penalty = min(0.0, 1 - reference / length)
    return Bleu(100 * float(np.exp(np.log(matches / totals).mean() + penalty)), ratio)


def sentence_bleu(statistics: Floats) -> Floats:
    """Compute BLEU+1 (0 to 1) of k candidates, float64[k], from their statistics, float64[k, 10].

    One is added to the counts of n-grams of two or more words [Lin & Och 2004], and to the reference length in the
    brevity penalty. Without the latter, tuning makes translations too short [Nakov, Guzmán & Vogel 2012].
    """
    added = np.array([0.0, 1.0, 1.0, 1.0])
    matches, totals = statistics[:, :ORDER] + added, statistics[:, ORDER:LENGTH] + added
    lengths = np.maximum(statistics[:, LENGTH], 1)
    with np.errstate(divide="ignore"):
        precision = np.log(matches / np.maximum(totals, 1)).mean(axis=1)
    penalty = np.minimum(0.0, 1 - (statistics[:, REFERENCE_LENGTH] + 1) / lengths)
    return np.asarray(np.exp(precision + penalty), np.float64)


_LENGTH_HALVINGS = 30
_MAX_WORD_WEIGHT_CHANGE = 0.5
"""Maximum change of the weight of the word count, as a multiple of the largest absolute weight."""


CandidateLengths = tuple[Floats, Floats, Floats]
"""Scores, lengths and closest reference lengths of the k candidates of one sentence, float64[k] each."""


def length_ratio(lists: Sequence[CandidateLengths], change: float) -> float:
    """Return the length ratio of best candidates to references after a `change` of the word weight."""
    words = references = 0.0
    for scores, lengths, reference_lengths in lists:
        best = int(np.argmax(scores + change * lengths))
        words += lengths[best]
        references += reference_lengths[best]
    return float(words / references) if references else 1.0


def fit_length(lists: Sequence[CandidateLengths], largest: float, ratio: float) -> float:
    """Return the change of the weight of the word count that brings the length ratio closest to `ratio`.

    The change is limited to `_MAX_WORD_WEIGHT_CHANGE` times `largest`, the largest absolute weight.
    """
    if length_ratio(lists, 0.0) == ratio:
        return 0.0
    low, high = -_MAX_WORD_WEIGHT_CHANGE * largest, _MAX_WORD_WEIGHT_CHANGE * largest
    # The lengths of the best candidates increase with the weight of the word count, so bisection works.
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


_MIN_WEIGHT_CHANGE = 0.01
"""Tuning may stop if no weight changes by this share of the largest weight that changes."""
_SHARES = (0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
"""Shares of the trained weights in the interpolations with the best weights that each step tries."""
_MAX_STARTS = 3
"""Maximum number of starts from the starting weights, see `_MIN_NEW_CANDIDATES`."""
_MAX_CHANGED_SHARE = 0.25
"""Maximum share of sentences whose best pooled candidate the first step may change."""
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
    """N-best list of one sentence: words of k candidates, best first, and features float64[k, F]."""

    words: Sequence[Words]
    features: Floats


Decode = Callable[[Floats], Iterable[NBest]]
"""Decoder: yields n-best lists of sentences in order, given weights float64[F]. May be stopped early."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """Tuning round: its weights, their BLEU, and the number of candidates that no earlier round had."""

    weights: Floats
    bleu: Bleu
    new_candidates: int
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
        self._keys: set[tuple[Words, bytes]] = set()
        self.compute_statistics = cache(references.statistics)

    def add(self, candidates: NBest) -> int:
        """Add the candidates that are not in the pool. Returns their number."""
        before = len(self._keys)
        for words, features in zip(candidates.words, candidates.features, strict=True):
            # Round features, because sums in another order differ in their last digits.
            key = (words, np.round(features, 6).tobytes())
            if key not in self._keys:
                self._keys.add(key)
                self.words.append(words)
                self.features.append(features)
                self.statistics.append(self.compute_statistics(words))
        return len(self._keys) - before

    def consensus_statistics(self, weights: Floats) -> Floats:
        """Return the statistics of the consensus candidate for each of `_SCALES`, float64[scales, 10]."""
        if not self.words:
            return np.tile(self.compute_statistics(()), (len(_SCALES), 1))
        scores = np.array(self.features) @ weights
        likeliest = {self.words[k]: k for k in np.argsort(scores, kind="stable").tolist()}
        kept = sorted(likeliest.values(), key=scores.__getitem__, reverse=True)[:CANDIDATES]
        similarity = pairwise_chrf([self.words[k] for k in kept])
        rows = [kept[index_most_similar(similarity, scale * scores[kept])] for scale in _SCALES]
        return np.array([self.statistics[row] for row in rows])

    def differences(self, random: np.random.Generator) -> Floats:
        """Return features of better minus worse candidates of sampled pairs, float64[n, F], see `draw_pairs`."""
        features = np.array(self.features)
        better, worse = draw_pairs(random, sentence_bleu(np.array(self.statistics)))
        return features[better] - features[worse]


class _CandidateLists:
    def __init__(self, pools: Sequence[_Pool]) -> None:
        self._lists = [(np.array(pool.features), np.array(pool.statistics)) for pool in pools if pool.features]

    def find_best(self, weights: Floats) -> NDArray[np.int64]:
        """Return the index of each sentence's best candidate under `weights`, int64[s]."""
        return np.array([int(np.argmax(features @ weights)) for features, _ in self._lists], np.int64)

    def quality(self, chosen: NDArray[np.int64], target_ratio: float) -> tuple[float, float]:
        """Return the length-adjusted BLEU of the candidates `chosen`, and their mean sentence BLEU, for ties."""
        rows = np.array([statistics[k] for k, (_, statistics) in zip(chosen, self._lists, strict=True)])
        return length_adjusted(corpus_bleu(rows.sum(axis=0)), target_ratio), float(sentence_bleu(rows).mean())

    def lengths(self, weights: Floats) -> list[CandidateLengths]:
        return [
            (features @ weights, statistics[:, LENGTH], statistics[:, REFERENCE_LENGTH])
            for features, statistics in self._lists
        ]


def length_adjusted(bleu: Bleu, target_ratio: float) -> float:
    """Return BLEU, reduced if the length ratio differs from `target_ratio`, unless `target_ratio` is 0."""
    if not target_ratio or not bleu.ratio:
        return bleu.score
    return bleu.score * min(bleu.ratio / target_ratio, target_ratio / bleu.ratio)


def step(
    lists: _CandidateLists,
    best: Floats,
    trained: Floats,
    max_changed: float,
    target_ratio: float,
    words_index: int | None,
) -> Floats:
    """Return weights float64[F] of the step with the best length-adjusted BLEU of the pooled candidates.

    Steps from the best weights so far toward the trained weights are tried. A step is halved while it changes the best
    candidate of a larger share of the sentences than `max_changed`, unless all halved steps change none.
    """
    before = lists.find_best(best)
    chosen, highest = best, (-1.0, -1.0)
    longer, fewest = best, 2.0
    for share in _SHARES:
        for halved in range(_STEP_HALVINGS + 1):
            weights = best + share / 2**halved * (trained - best)
            changed = float((lists.find_best(weights) != before).mean())
            if changed > max_changed:
                if changed < fewest:
                    longer, fewest = weights, changed
                continue
            if words_index is not None and target_ratio:
                largest = float(np.abs(weights).max())
                weights[words_index] += fit_length(lists.lengths(weights), largest, target_ratio)
            if (quality := lists.quality(lists.find_best(weights), target_ratio)) > highest:
                chosen, highest = weights, quality
            break
    # If no step changes a candidate, use the longer step that changes the fewest sentences if it has better candidates.
    is_unchanged = (lists.find_best(chosen) == before).all()
    if is_unchanged and lists.quality(lists.find_best(longer), target_ratio) > highest:
        return longer
    return chosen


def _decode_round(
    decode: Decode, weights: Floats, pools: Sequence[_Pool], start: Floats | None
) -> tuple[Iteration, Floats]:
    """Decode a round and pool its candidates. Returns the round and its statistics, float64[s, 10]."""
    total = np.zeros(STATISTICS) if start is None else start.sum(axis=0)
    min_score = corpus_bleu(total).score - _MAX_LOST
    rows: list[Floats] = []
    new = 0
    for pool, candidates in zip(pools, decode(weights), strict=True):
        row = pool.compute_statistics(candidates.words[0] if candidates.words else ())
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
    words_index: int | None = None,
) -> Tuned:
    """Tune weights float64[F] to BLEU, starting from `weights`. Results are deterministic.

    `words_index` is the index of the feature that counts target words, or None. After each training, the weight of this
    feature is fitted to the length ratio `options.length`, unless the ratio is 0.
    """
    pools = [_Pool(References(texts)) for texts in references]
    history: list[Iteration] = []
    # Index of the best round since the last start.
    best = 0
    starts = 1
    target_ratio = options.length if words_index is not None else 0.0
    max_changed = _MAX_CHANGED_SHARE
    start_rows: Floats | None = None
    while True:
        iteration, rows = _decode_round(decode, weights, pools, start_rows)
        start_rows = rows if start_rows is None else start_rows
        history.append(iteration)
        number = len(history)
        if number > 1:
            best_bleu = length_adjusted(history[best].bleu, target_ratio)
            better = length_adjusted(iteration.bleu, target_ratio) > best_bleu
            max_changed *= _GROWTH if better else _SHRINKAGE
            max_changed = min(1.0, max(_MIN_CHANGED_SHARE, max_changed))
            best = number - 1 if better else best
            if not better and iteration.new_candidates < _MIN_NEW_CANDIDATES * len(pools) and starts < _MAX_STARTS:
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
        last, weights = weights, step(_CandidateLists(pools), start, trained, max_changed, target_ratio, words_index)
        # Compare with weights that changed, because a large untrained weight would make every change look small.
        changed = weights != last
        largest = np.abs(weights[changed]).max(initial=0.0)
        settled = not changed.any() or np.abs(weights - last).max() < _MIN_WEIGHT_CHANGE * largest
        if not iteration.new_candidates and settled and starts == _MAX_STARTS:
            break
    best = max(range(len(history)), key=lambda number: history[number].bleu.score)
    weights = history[best].weights
    totals = sum((pool.consensus_statistics(weights) for pool in pools), np.zeros((len(_SCALES), STATISTICS)))
    scale = _SCALES[int(np.argmax([corpus_bleu(row).score for row in totals]))]
    return Tuned(weights * scale, scale, history, best)
