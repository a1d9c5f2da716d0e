"""Scores of pairs under the grammar and a base distribution, and misfits: words that do not belong.

docs/model.md, section 8, defines both.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.progress import Phases
from hierogram.samplers.charts.dense import NEEDED
from hierogram.samplers.scores import scorer as kernels
from hierogram.samplers.scores.lexicon import FEATURES, make_facts
from hierogram.samplers.scores.scorer import Classifiers, PairsToScore, ScorerCapacities, ScoreResults, ScorerScratch
from hierogram.storage.database.transactions import now
from hierogram.storage.records.pairs import Link, Misfit, PairRow, PairScore, ScoreRow
from hierogram.storage.store import Store
from hierogram.tools.scores.learned_counts import LearnedCounts

_NUMBERS_PENALTY = 4.0
_COPIED_PENALTY = 4.0
_MIN_DEVIATION = 0.05
"""Minimum deviation in `ScoreBaseline`, for stores in which all pairs have nearly the same score."""
_DEVIATION_PER_MAD = 1.4826
"""Standard deviation of a normal distribution in units of its median absolute deviation."""
_NO_DIGITS = re.compile(r"\D+")


class ScoreBaseline(NamedTuple):
    """(median, deviation) of evidence and of log-probability per token over a sample of pairs."""

    evidence: tuple[float, float]
    log_probability: tuple[float, float]


def make_baseline(evidence: Sequence[float], log_probability: Sequence[float]) -> ScoreBaseline:
    """Return the medians and deviations of scores, which are robust against outliers."""

    def median_and_deviation(values: Sequence[float]) -> tuple[float, float]:
        median = float(np.median(values))
        deviation = _DEVIATION_PER_MAD * float(np.median(np.abs(np.array(values) - median)))
        return median, max(deviation, _MIN_DEVIATION)

    return ScoreBaseline(median_and_deviation(evidence), median_and_deviation(log_probability))


def doubt(
    baseline: ScoreBaseline, evidence: float, log_probability: float, source: Sequence[str], target: Sequence[str]
) -> float:
    """Return the larger deviation of a pair below the medians, in deviations, plus penalties for noise.

    Different numbers on the two sides, and words copied from one side to the other, are penalized.
    """
    deviation = max(
        (baseline.evidence[0] - evidence) / baseline.evidence[1],
        (baseline.log_probability[0] - log_probability) / baseline.log_probability[1],
    )
    source_digits, target_digits = ({_NO_DIGITS.sub("", word) for word in words} - {""} for words in (source, target))
    differing_numbers = source_digits != target_digits
    return deviation + _NUMBERS_PENALTY * differing_numbers + _COPIED_PENALTY * _copied_share(source, target)


def _copied_share(source: Sequence[str], target: Sequence[str]) -> float:
    # Only words with letters count. The share is relative to the side with fewer different words.
    source_words, target_words = (
        {word.lower() for word in words if any(map(str.isalpha, word))} for words in (source, target)
    )
    return len(source_words & target_words) / (min(len(source_words), len(target_words)) or 1)


_RIDGE = 1.0
_MAX_NEWTON_STEPS = 25
_MIN_TRAINING_WORDS = 5
_MAX_TRAINING_WORDS = 100_000
"""Maximum number of training words per class, selected at even intervals."""


Classifier = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float]
"""Mean and deviation of the features of one side, weights, and prior log-odds, as in `Classifiers`."""


def train(
    original: NDArray[np.float64], replaced: NDArray[np.float64], report: Callable[[], object] = lambda: None
) -> Classifier | None:
    """Train a classifier of replaced words on features, float64[words, FEATURES]. None for too few words."""
    if min(len(original), len(replaced)) < _MIN_TRAINING_WORDS:
        return None
    original, replaced = (rows[:: 1 + len(rows) // _MAX_TRAINING_WORDS] for rows in (original, replaced))
    examples = np.vstack([original, replaced])
    mean, deviation = examples.mean(axis=0), examples.std(axis=0) + 1e-9
    scaled = np.clip((examples - mean) / deviation, -kernels.MAX_FEATURE, kernels.MAX_FEATURE)
    first, second = np.triu_indices(scaled.shape[1])
    rows = np.hstack([scaled, np.minimum(scaled, 0), scaled[:, first] * scaled[:, second], np.ones((len(scaled), 1))])
    labels = np.concatenate([np.zeros(len(original)), np.ones(len(replaced))])
    ridge = np.full(rows.shape[1], _RIDGE)
    ridge[-1] = 1e-6
    weights = np.zeros(rows.shape[1])
    for _ in range(_MAX_NEWTON_STEPS):
        report()
        log_odds = np.clip(rows @ weights, -30, 30)
        probability = 1 / (1 + np.exp(-log_odds))
        gradient = rows.T @ (labels - probability) - ridge * weights
        hessian = (rows * (probability * (1 - probability))[:, None]).T @ rows + np.diag(ridge)
        step = np.linalg.solve(hessian, gradient)
        weights += step
        if np.abs(step).max() < 1e-6:
            break
    return mean, deviation, weights, float(np.log(len(replaced) / len(original)))


def stack_classifiers(classifiers: tuple[Classifier | None, Classifier | None]) -> Classifiers:
    """Stack the classifiers of both sides into arrays. The prior is NaN for an untrained side."""
    untrained = np.zeros(FEATURES), np.ones(FEATURES), np.zeros(kernels.EXPANDED), np.nan
    return Classifiers(*map(np.array, zip(*(classifier or untrained for classifier in classifiers), strict=True)))


def corrupt(
    words: NDArray[np.int32], tokens: NDArray[np.int32], random: np.random.Generator
) -> tuple[NDArray[np.int32], list[int]]:
    """Replace about a fifth of the words by random other `tokens`. Returns the words and the positions."""
    corrupted = words.copy()
    positions = []
    for position in random.permutation(len(words))[: max(1, round(len(words) / 5))].tolist():
        for word in tokens[random.integers(len(tokens), size=8)].tolist():
            if word != corrupted[position]:
                corrupted[position] = word
                positions.append(position)
                break
    return corrupted, positions


EXACT_WORD_PAIRS = 350
"""Maximum product of a pair's lengths for an exact score. Longer pairs are cut and get a lower bound."""
_MIN_PROBABILITY = 0.5
"""Minimum probability of a link that is reported."""
MAX_WORDS = 1_000
_BASELINE_PAIRS = 200
BATCH_SIZE, SMALL_BATCH_SIZE = 200, 20
"""Maximum pairs per kernel call, and a smaller limit so that a daemon can stop between calls."""
_MAX_CELLS = 20_000
"""Maximum sum of source words times target words per call, because a call cannot be interrupted."""


def batches(rows: Sequence[PairRow], limit: int) -> Iterator[list[PairRow]]:
    """Yield the pairs in batches of up to `limit` pairs. Batches of long pairs are smaller."""
    batch: list[PairRow] = []
    cells = 0
    for row in rows:
        size = (row.source.count(" ") + 1) * (row.target.count(" ") + 1)
        if batch and (len(batch) == limit or cells + size > _MAX_CELLS):
            yield batch
            batch, cells = [], 0
        batch.append(row)
        cells += size
    if batch:
        yield batch


StoredScore = tuple[PairScore, float | None]
"""Score of a stored pair, and the mean natural log-probability of its derivation's rules, if any."""


class Scorer:
    """Scorer of pairs under a store's grammar. Thread-safe."""

    def __init__(self, learned: LearnedCounts, report: Phases = lambda *_: None) -> None:
        self.learned = learned
        self._free_scratches: list[tuple[ScorerCapacities, ScorerScratch]] = []
        self._classifiers = stack_classifiers((self._train_classifier(0, report), self._train_classifier(1, report)))
        self._baseline = ScoreBaseline((0.0, 1.0), (0.0, 1.0))
        scores: list[PairScore] = []
        for pairs in batches(learned.examples[:_BASELINE_PAIRS], SMALL_BATCH_SIZE):
            report("computing typical scores", len(scores), _BASELINE_PAIRS)
            scores += [score for score, _ in self.score_stored(pairs)]
        log_probabilities = [score.log_probability for score in scores]
        self._baseline = make_baseline([score.evidence for score in scores], log_probabilities)

    def score_stored(self, rows: Sequence[PairRow]) -> list[StoredScore]:
        """Score stored pairs without each pair's own contributions: derivation, links and words."""
        pairs = self.learned.load_pairs(rows)
        scored = self._run_kernels(pairs)
        derivations = _nan_to_none(scored.numbers[:, kernels.DERIVATION])
        texts = [(row.source.split(" "), row.target.split(" ")) for row in rows]
        return list(zip(self._make_scores(pairs, scored, texts), derivations, strict=True))

    def score(self, texts: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[PairScore]:
        """Score pairs that are not stored. Each side must have 1 to `MAX_WORDS` words."""
        pairs = self.learned.load_texts(texts)
        return self._make_scores(pairs, self._run_kernels(pairs), texts)

    def derivation_log_probabilities(self, rows: Sequence[PairRow]) -> list[float | None]:
        """Return the mean log-probability of each derivation's rules, without the pair's own counts, or None."""
        log_probabilities = np.empty(len(rows))
        pairs = self.learned.load_pairs(rows)
        capacities, scratch = self._borrow_scratch(pairs)
        kernels.weigh_derivations(pairs, self.learned.rules, scratch, log_probabilities)
        self._free_scratches.append((capacities, scratch))
        return _nan_to_none(log_probabilities)

    def _borrow_scratch(self, pairs: PairsToScore) -> tuple[ScorerCapacities, ScorerScratch]:
        """Remove scratch memory from `_free_scratches`, or allocate it. Callers append it after use."""
        firsts = pairs.source_first, pairs.target_first, pairs.own_source_first, pairs.own_target_first
        longest = max(int(np.diff(first).max(initial=1)) for first in firsts)
        links = int(np.diff(pairs.link_first).max(initial=1))
        try:
            capacities, scratch = self._free_scratches.pop()
        except IndexError:
            capacities, scratch = ScorerCapacities(0, 0, 1 << 12, 1 << 14), None
        if scratch is None or longest > capacities.longest or links > capacities.links:
            longest, links = max(longest, capacities.longest), max(links, capacities.links)
            capacities = capacities._replace(longest=longest, links=links)
            scratch = self._make_scratch(capacities)
        return capacities, scratch

    def _make_scratch(self, capacities: ScorerCapacities) -> ScorerScratch:
        learned = self.learned
        return kernels.make_scorer_scratch(learned.rules, learned.lexicon, capacities, EXACT_WORD_PAIRS)

    def _run_kernels(self, pairs: PairsToScore) -> ScoreResults:
        number = len(pairs.source_first) - 1
        links = int((np.diff(pairs.source_first) * np.diff(pairs.target_first)).sum())
        numbers, misfits = np.empty((number, kernels.RESULT_SIZE)), np.empty((number, 2, 2))
        scored = ScoreResults(numbers, misfits, np.empty((links, 2), np.int32), np.empty(links))
        capacities, scratch = self._borrow_scratch(pairs)
        model = self.learned.rules, self.learned.lexicon, self._classifiers, EXACT_WORD_PAIRS, _MIN_PROBABILITY
        done, written = 0, 0
        while True:
            done, written = kernels.score_pairs(done, pairs, *model, scratch, scored, written)
            if done == number:
                break
            missing = int(scratch.dense.sizes[NEEDED])
            padding = {"matches": 2 * missing} if missing > 0 else {"rules": -2 * missing}
            capacities = capacities._replace(**padding)
            scratch = self._make_scratch(capacities)
        self._free_scratches.append((capacities, scratch))
        return scored

    def _make_scores(
        self, pairs: PairsToScore, scored: ScoreResults, texts: Sequence[tuple[Sequence[str], Sequence[str]]]
    ) -> list[PairScore]:
        tokens = np.diff(pairs.source_first) + np.diff(pairs.target_first)
        numbers = scored.numbers
        ends = np.cumsum(numbers[:, kernels.LINKS]).astype(np.int64).tolist()
        columns = zip(
            tokens.tolist(),
            (numbers[:, kernels.LOG_PROBABILITY] / tokens).tolist(),
            ((numbers[:, kernels.LOG_PROBABILITY] - numbers[:, kernels.INDEPENDENT]) / tokens).tolist(),
            np.minimum(numbers[:, kernels.UNSEEN] / tokens, 1.0).tolist(),
            numbers[:, kernels.PIECES].astype(np.int64).tolist(),
            scored.misfits.tolist(),
            [0, *ends],
            ends,
            texts,
            strict=False,
        )
        links_found = list(map(Link, *scored.links[: ends[-1]].T.tolist(), scored.probabilities[: ends[-1]].tolist()))
        return [
            PairScore(
                size, doubt(self._baseline, evidence, log_probability, *sides), log_probability, evidence, unseen,
                pieces, pieces == 1, _misfit(*source), _misfit(*target), tuple(links_found[first:last]),
            )
            for size, log_probability, evidence, unseen, pieces, (source, target), first, last, sides in columns
        ]  # fmt: skip

    def _train_classifier(self, side: int, report: Phases) -> Classifier | None:
        learned = self.learned
        random = np.random.default_rng([learned.settings.seed, side])
        original, corrupted = [], []
        report_progress = partial(report, "computing word statistics", side, 2)
        for rows in batches(learned.examples, BATCH_SIZE):
            report_progress()
            pairs = learned.load_pairs(rows)
            original.append(self._features(pairs, side))
            words, first = (pairs.target, pairs.target_first) if side else (pairs.source, pairs.source_first)
            changed, replaced = words.copy(), np.zeros(len(words), np.bool_)
            for begin, end in pairwise(first.tolist()):
                changed[begin:end], positions = corrupt(words[begin:end], learned.token_ids[side], random)
                replaced[[begin + position for position in positions]] = True
            pairs = pairs._replace(target=changed) if side else pairs._replace(source=changed)
            corrupted.append(self._features(pairs, side)[replaced])
        none = np.empty((0, FEATURES))
        return train(np.concatenate([none, *original]), np.concatenate([none, *corrupted]), report_progress)

    def _features(self, pairs: PairsToScore, side: int) -> NDArray[np.float64]:
        features = np.empty((int((pairs.target_first if side else pairs.source_first)[-1]), FEATURES))
        longest = max(int(np.diff(firsts).max(initial=1)) for firsts in (pairs.source_first, pairs.target_first))
        facts = make_facts(longest, int(np.diff(pairs.link_first).max(initial=1)))
        kernels.list_features(pairs, self.learned.lexicon, side, facts, features)
        return features


def _nan_to_none(values: NDArray[np.float64]) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]


def _misfit(position: float, log_odds: float) -> Misfit | None:
    return None if math.isnan(log_odds) else Misfit(int(position), log_odds)


_MIN_CHANGE = 0.5
"""Change of the mean log-probability of a derivation's rules above which a pair is rescored."""


def save_scores(store: Store, scorer: Scorer, rows: Sequence[PairRow], scores: Sequence[StoredScore]) -> None:
    """Write the scores of the pairs `rows` to the store, with the position of the scorer's counts."""
    state = scorer.learned.position, now()
    store.save_scores([ScoreRow(row.id, *state, *score) for row, score in zip(rows, scores, strict=True)])


def find_due(store: Store, scorer: Scorer, rows: Sequence[PairRow]) -> Iterator[PairRow]:
    """Yield pairs known to the scorer that have no score, or whose rules have changed a lot since scoring."""
    stored = {score.pair_id: score for score in store.scores_by_id([row.id for row in rows])}
    for row, log_probability in zip(rows, scorer.derivation_log_probabilities(rows), strict=True):
        if row.id > scorer.learned.last_pair:
            continue
        if score := stored.get(row.id):
            earlier = score.derivation_log_probability
            if earlier is None or log_probability is None:
                is_due = earlier is not log_probability
            else:
                is_due = abs(log_probability - earlier) > _MIN_CHANGE
        if score is None or is_due:
            yield row
