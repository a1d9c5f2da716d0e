"""Tuning: decode, put the candidates into pools, train, decode again; the weights that translated best are taken.

Training is pairwise ranking optimization [Hopkins & May 2011]: weights that put better candidates above worse ones.

Candidates say little of weights far from those that found them. So each step begins at the best weights so far, and
goes no further than that a share of all sentences changes its translation, among the candidates so far. This share
grows with each round that is better than all before it, and shrinks with each that is not. After each training the
weight of target words alone is fitted, by which translations are made as long as their references.

No list shows what the weights that made it keep away. So a round ends early where it loses much against the start, and
teaches by what it has found until then. Where rounds find little that is new, the next one begins at the start again.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import UsageError, install_extra
from hierogram.tools.translation.tuning.bleu import (
    LENGTH,
    REFERENCE,
    SIZE,
    Bleu,
    References,
    Words,
    bleu_of,
    sentence_bleu,
)
from hierogram.tools.translation.tuning.options import TuningOptions

_LENGTH_HALVINGS = 30
_FURTHEST = 0.5
"""The weight changes by at most this share of the largest weight at once: lists tell of what is near."""


Ranked = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
"""The candidates of one sentence: scores, words, and words of the closest reference, float64[k] each."""


def length_ratio(lists: Sequence[Ranked], change: float) -> float:
    """Return the words of the best candidates by those of their references, if each word's weight were changed so."""
    words = references = 0.0
    for scores, own, closest in lists:
        best = int(np.argmax(scores + change * own))
        words += own[best]
        references += closest[best]
    return float(words / references) if references else 1.0


def fit_length(lists: Sequence[Ranked], largest: float, ratio: float) -> float:
    """Return the change of the words' weight at which the best candidates have `ratio` times their references' words.

    Where the lists cannot show it, it goes as far as half the `largest` weight; 0 where they have it already.
    """
    if length_ratio(lists, 0.0) == ratio:
        return 0.0
    low, high = -_FURTHEST * largest, _FURTHEST * largest
    # The more a word weighs, the longer is the best candidate of each list.
    for _ in range(_LENGTH_HALVINGS):
        middle = (low + high) / 2
        if length_ratio(lists, middle) < ratio:
            low = middle
        else:
            high = middle
    return (low + high) / 2


_REGULARIZATION = 1.0
"""Strength of the squared weights, of features that vary by 1, against the sum over all pairs."""


DRAWN_PAIRS, KEPT_PAIRS = 5_000, 50
"""Pairs of candidates drawn for each sentence, and the number of them kept [Hopkins & May 2011]."""
MIN_GAP = 0.05
"""Minimum difference in sentence BLEU, 0 to 1, between the candidates of a pair."""


def draw_pairs(random: np.random.Generator, scores: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sample pairs of better and worse candidates of one sentence, and keep those with the largest gaps.

    `scores` float64[k] are sentence BLEU. No pair is returned if all scores are nearly equal.
    """
    one, other = random.integers(len(scores), size=(2, DRAWN_PAIRS))
    gaps = scores[one] - scores[other]
    far = np.flatnonzero(np.abs(gaps) >= MIN_GAP)
    far = far[np.argsort(-np.abs(gaps[far]), kind="stable")][:KEPT_PAIRS]
    better = gaps[far] > 0
    return np.where(better, one[far], other[far]), np.where(better, other[far], one[far])


def logistic_loss(weights: NDArray[np.float64], differences: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Return −Σ log P(the better candidate of a pair ranks higher) + ½ λ |w|², and its gradient float64[F].

    `differences` float64[n, F]: features of the better candidate minus those of the worse, scaled to unit variance.
    """
    margins = differences @ weights
    # Probability that the worse candidate ranks higher.
    wrong = 1 / (1 + np.exp(np.clip(margins, -500, 500)))
    value = np.logaddexp(0, -margins).sum() + _REGULARIZATION / 2 * (weights @ weights)
    return float(value), _REGULARIZATION * weights - wrong @ differences


def need_scipy() -> None:
    """Raise `UsageError` where scipy is not installed."""
    try:
        import scipy.optimize  # noqa: F401
    except ImportError as error:
        raise UsageError(f"tuning needs scipy: {install_extra('tune')}") from error


def train(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights of a logistic regression that ranks the better candidate of each pair higher.

    `differences` float64[n, F]: features of the better candidate minus those of the worse. A feature that never differs
    gets weight 0. Raises `UsageError` if scipy is not installed.
    """
    need_scipy()
    from scipy.optimize import minimize

    scale = np.sqrt((differences**2).mean(axis=0))
    scaled, start = differences / np.where(scale > 0, scale, 1), np.zeros(differences.shape[1])
    found = minimize(logistic_loss, start, (scaled,), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return np.where(scale > 0, found.x / np.where(scale > 0, scale, 1), 0.0)


def as_wide(
    trained: NDArray[np.float64], last: NDArray[np.float64], differences: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the trained weights scaled so that they set pairs no further apart than the last ones, and are no larger.

    The first is the root mean square of w · x over the pairs x, `differences` float64[n, F]; the second the sum of
    absolute weights: a feature that hardly varies in pairs may be trained to a weight as large as it likes, though in
    other translations it varies. A feature that was not trained (0) keeps its weight.
    """
    known = trained != 0
    new, wide = np.linalg.norm(differences @ trained), np.linalg.norm(differences @ last)
    size = np.abs(last[known]).sum()
    if not new:
        return last
    scale = min(wide / new if wide else 1.0, (size or 1.0) / np.abs(trained).sum())
    return np.where(known, trained * scale, last)


_SETTLED = 0.01
"""A smaller change, as a share of the largest weight that changes, is none."""


_SHARES = (0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
"""Shares of the trained weights that are tried."""
_STARTS = 3
"""Number of times that tuning starts from the first weights; again if rounds find few new candidates."""
_TRUSTED = 0.25
"""Share of the sentences that may change their translation in the first step."""
_WIDER, _NARROWER, _NARROWEST = 1.5, 0.5, 0.02
_MOST_LOST = 2.0
"""A round ends where its sentences so far cost more points of BLEU than this, the others taken as in the first one."""
_FEW = 0.5
"""New candidates a sentence, of a round that is no better, below which there is little to find near the best one."""
_STEP_HALVINGS = 6
"""A step that is too long is halved at most this number of times, then it is left out."""


class KBest(NamedTuple):
    """Translations of one sentence, best first: words, and features float64[k, F]."""

    words: Sequence[Words]
    features: NDArray[np.float64]


Decode = Callable[[NDArray[np.float64]], Iterable[KBest]]
"""From weights float64[F] to the candidates of each sentence that is tuned on, in order; not all may be asked for."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """One round: the weights that were decoded with, their BLEU, the number of candidates that were new.

    `sentences` were translated, the others count for BLEU as in the first round.
    """

    weights: NDArray[np.float64]
    bleu: Bleu
    new: int
    sentences: int


class Tuned(NamedTuple):
    """The weights that gave the best BLEU, all rounds in order, and which of them is the best (0: the start)."""

    weights: NDArray[np.float64]
    history: list[Iteration]
    best: int


class _Pool:
    """All candidates of one sentence so far: features float64[F] and statistics float64[10] of each."""

    def __init__(self, references: References) -> None:
        self.features: list[NDArray[np.float64]] = []
        self.statistics: list[NDArray[np.float64]] = []
        self._known: set[tuple[Words, bytes]] = set()
        self.of = cache(references.statistics)

    def add(self, candidates: KBest) -> int:
        """Take candidates; return how many are new."""
        before = len(self._known)
        for words, features in zip(candidates.words, candidates.features, strict=True):
            # Sums in other orders differ in their last digits.
            key = (words, np.round(features, 6).tobytes())
            if key not in self._known:
                self._known.add(key)
                self.features.append(features)
                self.statistics.append(self.of(words))
        return len(self._known) - before

    def differences(self, random: np.random.Generator) -> NDArray[np.float64]:
        """Return features of better candidates less those of worse ones, float64[n, F]."""
        features = np.array(self.features)
        better, worse = draw_pairs(random, sentence_bleu(np.array(self.statistics)))
        return features[better] - features[worse]


class _Lists:
    """The candidates of all sentences so far, to be ranked by any weights."""

    def __init__(self, pools: Sequence[_Pool]) -> None:
        self._lists = [(np.array(pool.features), np.array(pool.statistics)) for pool in pools if pool.features]

    def first(self, weights: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the place of the candidate of each sentence that weights put first, int64[s]."""
        return np.array([int(np.argmax(features @ weights)) for features, _ in self._lists], np.int64)

    def quality(self, first: NDArray[np.int64], length: float) -> tuple[float, float]:
        """Return BLEU of the candidates at these places, fitted, and their mean sentence BLEU: the former may be 0."""
        rows = np.array([statistics[k] for k, (_, statistics) in zip(first, self._lists, strict=True)])
        return fitted(bleu_of(rows.sum(axis=0)), length), float(sentence_bleu(rows).mean())

    def ranked(self, weights: NDArray[np.float64]) -> list[Ranked]:
        """Return scores and lengths of the candidates under weights."""
        return [(features @ weights, own[:, LENGTH], own[:, REFERENCE]) for features, own in self._lists]


def fitted(bleu: Bleu, length: float) -> float:
    """Return BLEU, less the share by which a text is longer or shorter than `length` times its references (0: any)."""
    if not length or not bleu.ratio:
        return bleu.score
    return bleu.score * min(bleu.ratio / length, length / bleu.ratio)


def step(
    lists: _Lists,
    best: NDArray[np.float64],
    trained: NDArray[np.float64],
    trusted: float,
    options: TuningOptions,
    words: int | None,
) -> NDArray[np.float64]:
    """Return the next weights float64[F]: between the best ones so far and the trained ones.

    The share of the trained weights whose first candidates have the best BLEU is taken. A step that changes the first
    candidate of more than `trusted` (0 to 1) of the sentences is halved until it does not; then the weight of
    `words` is fitted.

    Where all these steps change no candidate, as of few sentences with the same words, decoding would repeat itself:
    then of longer steps the one that changes fewest sentences is taken, if its first candidates are better.
    """
    before = lists.first(best)
    length = options.length if words is not None else 0.0
    chosen, highest = best, (-1.0, -1.0)
    longer, fewest = best, 2.0
    for share in _SHARES:
        for halved in range(_STEP_HALVINGS + 1):
            weights = best + share / 2**halved * (trained - best)
            changed = float((lists.first(weights) != before).mean())
            if changed > trusted:
                if changed < fewest:
                    longer, fewest = weights, changed
                continue
            if words is not None and length:
                weights[words] += fit_length(lists.ranked(weights), float(np.abs(weights).max()), length)
            if (quality := lists.quality(lists.first(weights), length)) > highest:
                chosen, highest = weights, quality
            break
    if (lists.first(chosen) == before).all() and lists.quality(lists.first(longer), length) > highest:
        return longer
    return chosen


def _decoded(
    decode: Decode, weights: NDArray[np.float64], pools: Sequence[_Pool], start: NDArray[np.float64] | None
) -> tuple[Iteration, NDArray[np.float64]]:
    """Put the candidates under weights into the pools; return the round, and statistics of its translations.

    `start` float64[s, 10] are those of the first round (None: it is this one).
    """
    total = np.zeros(SIZE) if start is None else start.sum(axis=0)
    least = bleu_of(total).score - _MOST_LOST
    rows: list[NDArray[np.float64]] = []
    new = 0
    for pool, candidates in zip(pools, decode(weights), strict=True):
        row = pool.of(candidates.words[0] if candidates.words else ())
        total += row if start is None else row - start[len(rows)]
        rows.append(row)
        new += pool.add(candidates)
        if start is not None and bleu_of(total).score < least:
            break
    return Iteration(weights, bleu_of(total), new, len(rows)), np.array(rows)


def tune(
    decode: Decode,
    references: Sequence[Sequence[Words]],
    weights: NDArray[np.float64],
    options: TuningOptions,
    words: int | None = None,
) -> Tuned:
    """Tune weights float64[F], from where they are, to BLEU against one or more references of each sentence.

    The weight of the feature `words` (its place; None: there is none) is fitted to the length of the references after
    each training, as the options say.

    The same arguments give the same weights. It ends early where no candidate is new and weights hardly
    change, or no two candidates differ enough.
    """
    pools = [_Pool(References(texts)) for texts in references]
    history: list[Iteration] = []
    # Of the rounds since the present start.
    best = 0
    starts = 1
    length = options.length if words is not None else 0.0
    trusted = _TRUSTED
    of_start: NDArray[np.float64] | None = None
    while True:
        made, rows = _decoded(decode, weights, pools, of_start)
        of_start = rows if of_start is None else of_start
        history.append(made)
        number = len(history)
        if number > 1:
            better = fitted(history[-1].bleu, length) > fitted(history[best].bleu, length)
            trusted = min(1.0, trusted * _WIDER) if better else max(_NARROWEST, trusted * _NARROWER)
            best = number - 1 if better else best
            if not better and made.new < _FEW * len(pools) and starts < _STARTS:
                starts += 1
                best, trusted = 0, _TRUSTED
        if number > options.iterations:
            break
        random = [np.random.default_rng([options.seed, number, k]) for k in range(len(pools))]
        found = [pool.differences(own) for pool, own in zip(pools, random, strict=True) if len(pool.features) > 1]
        if not sum(map(len, found)):
            break
        differences = np.concatenate(found)
        start = history[best].weights
        trained = as_wide(train(differences), start, differences)
        last, weights = weights, step(_Lists(pools), start, trained, trusted, options, words)
        # Weights that are not trained do not count.
        changed = weights != last
        settled = np.abs(weights - last).max() < _SETTLED * np.abs(weights[changed]).max() if changed.any() else True
        if not made.new and settled and starts == _STARTS:
            break
    best = max(range(len(history)), key=lambda number: history[number].bleu.score)
    return Tuned(history[best].weights, history, best)
