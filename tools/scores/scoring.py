"""Scores of pairs: their probability under all derivations of the learned grammar, mixed with a base distribution.

docs/model.md, section 8, has the equations.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.progress import Phases
from hierogram.samplers.charts.dense import NEEDED
from hierogram.samplers.scores.lexicon import FEATURES, make_facts
from hierogram.samplers.scores.scorer import (
    DERIVATION,
    FACTS,
    INDEPENDENT,
    LINKS,
    LOG_PROBABILITY,
    PIECES,
    UNSEEN,
    Scored,
    ScoredPairs,
    ScorerCapacities,
    ScorerScratch,
    list_features,
    make_scorer_scratch,
    score_pairs,
    weigh_derivations,
)
from hierogram.storage.database.transactions import now
from hierogram.storage.records import PairRow
from hierogram.storage.records.pairs import Link, Misfit, PairScore, ScoreRow
from hierogram.storage.store import Store
from hierogram.tools.scores.learned_counts import LearnedCounts
from hierogram.tools.scores.misfits import Classifier, corrupt, learn, stack_classifiers

_DIFFERENT_NUMBERS = 4.0
_COPIED = 4.0
_MIN_DEVIATION = 0.05
_OF_NORMAL = 1.4826
"""Standard deviation of a normal distribution in units of its median absolute deviation."""
_DIGITS = re.compile(r"\D+")


class ScoreBaseline(NamedTuple):
    """Median and deviation of evidence and log-probability over a sample of pairs."""

    evidence: tuple[float, float]
    log_probability: tuple[float, float]


def make_baseline(evidence: Sequence[float], log_probability: Sequence[float]) -> ScoreBaseline:
    """Return the medians and deviations of these values. Medians are robust against outliers."""
    baselines = []
    for values in (evidence, log_probability):
        middle = float(np.median(values))
        spread = _OF_NORMAL * float(np.median(np.abs(np.array(values) - middle)))
        baselines.append((middle, max(spread, _MIN_DEVIATION)))
    return ScoreBaseline(*baselines)


def doubt(
    baseline: ScoreBaseline, evidence: float, log_probability: float, source: Sequence[str], target: Sequence[str]
) -> float:
    """Return the doubt of a pair: deviations of its scores from the sample, and differences between its texts."""
    minimum = max(
        (baseline.evidence[0] - evidence) / baseline.evidence[1],
        (baseline.log_probability[0] - log_probability) / baseline.log_probability[1],
    )
    return minimum + _DIFFERENT_NUMBERS * (_numbers(source) != _numbers(target)) + _COPIED * _copied(source, target)


def _numbers(words: Sequence[str]) -> set[str]:
    return {digits for word in words if (digits := _DIGITS.sub("", word))}


def _copied(source: Sequence[str], target: Sequence[str]) -> float:
    """Return the share of copied words: words with letters of the shorter side that are also on the other side."""
    source_words, target_words = _with_letters(source), _with_letters(target)
    return len(source_words & target_words) / (min(len(source_words), len(target_words)) or 1)


def _with_letters(words: Sequence[str]) -> set[str]:
    return {word.lower() for word in words if any(map(str.isalpha, word))}


EXACT_WORD_PAIRS = 350
"""Maximum product of a pair's lengths for a score without cuts."""
_MIN_PROBABILITY = 0.5
"""Minimum probability of a link that is reported."""
MAX_WORDS = 1_000
"""Maximum words of a side."""
_SAMPLE = 200
"""Number of pairs in the sample for `ScoreBaseline`."""
SCORED_AT_ONCE = 200
"""Pairs per call of the kernels."""
SCORED_BETWEEN_RESTS = 20
"""Pairs per call in a daemon, which must be able to stop soon."""
_MAX_CELLS = 20_000
"""Maximum source words times target words per call, because a call cannot be interrupted."""


def batches(rows: Sequence[PairRow], limit: int) -> Iterator[list[PairRow]]:
    """Yield the pairs in batches of at most `limit` pairs, and fewer long ones."""
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


class StoredScore(NamedTuple):
    """Score of a stored pair, and the mean log-probability of its derivation's rules, or None without a derivation."""

    score: PairScore
    derivation_log_probability: float | None


class Scorer:
    """Scorer of pairs under a store's grammar. Thread-safe."""

    def __init__(
        self, learned: LearnedCounts, report: Phases = lambda *_: None, *, exact: int = EXACT_WORD_PAIRS
    ) -> None:
        self.learned = learned
        self._exact = exact
        self._spaces: list[tuple[ScorerCapacities, ScorerScratch]] = []
        self._classifiers = stack_classifiers((self._learn(0, report), self._learn(1, report)))
        self._usual = ScoreBaseline((0.0, 1.0), (0.0, 1.0))
        scores: list[PairScore] = []
        for pairs in batches(learned.examples[:_SAMPLE], SCORED_BETWEEN_RESTS):
            report("computing typical scores", len(scores), _SAMPLE)
            scores += [scored.score for scored in self.score_stored(pairs)]
        self._usual = make_baseline([score.evidence for score in scores], [score.log_probability for score in scores])

    def score_stored(self, rows: Sequence[PairRow]) -> list[StoredScore]:
        """Return the scores of stored pairs without each pair's own contributions: derivation, links and words."""
        pairs = self.learned.pairs_of(rows)
        scored = self._scored(pairs)
        derivations = map(_number_or_none, scored.numbers[:, DERIVATION].tolist())
        texts = [(row.source.split(" "), row.target.split(" ")) for row in rows]
        return list(map(StoredScore, self._summed_up(pairs, scored, texts), derivations))

    def score(self, texts: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[PairScore]:
        """Return the scores of pairs that are not stored. Each side has 1 to `MAX_WORDS` words."""
        pairs = self.learned.pairs_of_texts(texts)
        return self._summed_up(pairs, self._scored(pairs), texts)

    def derivations(self, rows: Sequence[PairRow]) -> list[float | None]:
        """Return the mean log-probability of each derivation's rules under the other pairs' counts, or None.

        Rules that no other pair uses count as the rarest ones.
        """
        log_probabilities = np.empty(len(rows))
        pairs = self.learned.pairs_of(rows)
        sizes, space = self._take(pairs)
        weigh_derivations(pairs, self.learned.rules, space, log_probabilities)
        self._spaces.append((sizes, space))
        return list(map(_number_or_none, log_probabilities.tolist()))

    def _take(self, pairs: ScoredPairs) -> tuple[ScorerCapacities, ScorerScratch]:
        firsts = pairs.source_first, pairs.target_first, pairs.own_source_first, pairs.own_target_first
        longest = max(int(np.diff(first).max(initial=1)) for first in firsts)
        links = int(np.diff(pairs.link_first).max(initial=1))
        try:
            sizes, space = self._spaces.pop()
        except IndexError:
            sizes, space = ScorerCapacities(0, 0, 1 << 12, 1 << 14), None
        if space is None or longest > sizes.longest or links > sizes.links:
            sizes = sizes._replace(longest=max(longest, sizes.longest), links=max(links, sizes.links))
            space = self._space(sizes)
        return sizes, space

    def _space(self, sizes: ScorerCapacities) -> ScorerScratch:
        return make_scorer_scratch(self.learned.rules, self.learned.lexicon, sizes, self._exact)

    def _scored(self, pairs: ScoredPairs) -> Scored:
        number = len(pairs.source_first) - 1
        links = int((np.diff(pairs.source_first) * np.diff(pairs.target_first)).sum())
        scored = Scored(
            np.empty((number, FACTS)), np.empty((number, 2, 2)), np.empty((links, 2), np.int32), np.empty(links)
        )
        sizes, space = self._take(pairs)
        model = self.learned.rules, self.learned.lexicon, self._classifiers, self._exact, _MIN_PROBABILITY
        done, written = 0, 0
        while True:
            done, written = score_pairs(done, pairs, *model, space, scored, written)
            if done == number:
                break
            lacking = int(space.room.sizes[NEEDED])
            padding = {"seats": 2 * lacking} if lacking > 0 else {"rules": -2 * lacking}
            sizes = sizes._replace(**padding)
            space = self._space(sizes)
        self._spaces.append((sizes, space))
        return scored

    def _summed_up(
        self, pairs: ScoredPairs, scored: Scored, texts: Sequence[tuple[Sequence[str], Sequence[str]]]
    ) -> list[PairScore]:
        tokens = np.diff(pairs.source_first) + np.diff(pairs.target_first)
        numbers = scored.numbers
        ends = np.cumsum(numbers[:, LINKS]).astype(np.int64).tolist()
        columns = zip(
            tokens.tolist(),
            (numbers[:, LOG_PROBABILITY] / tokens).tolist(),
            ((numbers[:, LOG_PROBABILITY] - numbers[:, INDEPENDENT]) / tokens).tolist(),
            np.minimum(numbers[:, UNSEEN] / tokens, 1.0).tolist(),
            numbers[:, PIECES].astype(np.int64).tolist(),
            scored.misfits.tolist(),
            [0, *ends],
            ends,
            texts,
            strict=False,
        )
        every = list(map(Link, *scored.links[: ends[-1]].T.tolist(), scored.probabilities[: ends[-1]].tolist()))
        return [
            PairScore(
                size, doubt(self._usual, evidence, log_probability, *sides), log_probability, evidence, unseen, pieces,
                pieces == 1, _misfit(*source), _misfit(*target), tuple(every[first:last]),
            )
            for size, log_probability, evidence, unseen, pieces, (source, target), first, last, sides in columns
        ]  # fmt: skip

    def _learn(self, side: int, report: Phases) -> Classifier | None:
        """Train the misfit classifier of a side on stored pairs with replaced words."""
        learned = self.learned
        random = np.random.default_rng([learned.settings.seed, side])
        original, changed = [], []

        def report_progress() -> None:
            report("computing word statistics", side, 2)

        for rows in batches(learned.examples, SCORED_AT_ONCE):
            report_progress()
            pairs = learned.pairs_of(rows)
            original.append(self._features(pairs, side))
            words, first = (pairs.target, pairs.target_first) if side else (pairs.source, pairs.source_first)
            spoiled = words.copy()
            replaced = np.zeros(len(words), np.bool_)
            for begin, end in zip(first.tolist(), first[1:].tolist(), strict=False):
                spoiled[begin:end], positions = corrupt(words[begin:end], learned.tokens[side], random)
                replaced[[begin + position for position in positions]] = True
            pairs = pairs._replace(target=spoiled) if side else pairs._replace(source=spoiled)
            changed.append(self._features(pairs, side)[replaced])
        none = np.empty((0, FEATURES))
        return learn(np.concatenate([none, *original]), np.concatenate([none, *changed]), report_progress)

    def _features(self, pairs: ScoredPairs, side: int) -> NDArray[np.float64]:
        first = pairs.target_first if side else pairs.source_first
        features = np.empty((int(first[-1]), FEATURES))
        longest = max(
            int(np.diff(first_words).max(initial=1)) for first_words in (pairs.source_first, pairs.target_first)
        )
        facts = make_facts(longest, int(np.diff(pairs.link_first).max(initial=1)))
        list_features(pairs, self.learned.lexicon, side, facts, features)
        return features


def _number_or_none(number: float) -> float | None:
    return None if math.isnan(number) else number


def _misfit(position: float, odds: float) -> Misfit | None:
    return None if math.isnan(odds) else Misfit(int(position), odds)


_CHANGED = 0.5
"""Minimum change of the mean log-probability of a derivation's rules for rescoring a pair."""


def scored_texts(
    scorer: Scorer, lines: Sequence[tuple[int, list[str], list[str]]]
) -> list[tuple[int, str, str, PairScore | None, str | None]]:
    """Return for each pair its number, its sides, and its score, or the reason for a missing score."""
    problems = [_problem(source, target) for _, source, target in lines]
    sound = [line for line, problem in zip(lines, problems, strict=True) if problem is None]
    scores = iter(scorer.score([(source, target) for _, source, target in sound]) if sound else [])
    return [
        (number, " ".join(source), " ".join(target), None if problem else next(scores), problem)
        for (number, source, target), problem in zip(lines, problems, strict=True)
    ]


def _problem(source: Sequence[str], target: Sequence[str]) -> str | None:
    """Return the reason why a pair cannot be scored, or None."""
    if not source or not target:
        return "a side is empty"
    if max(len(source), len(target)) > MAX_WORDS:
        return f"a side exceeds {MAX_WORDS:,} words"
    return None


def keep_scores(store: Store, scorer: Scorer, rows: Sequence[PairRow], scores: Sequence[StoredScore]) -> None:
    """Write scores of stored pairs to the store."""
    moment = now()
    position = scorer.learned.position
    score_rows = [ScoreRow(row.id, position, moment, *score) for row, score in zip(rows, scores, strict=True)]
    store.save_scores(score_rows)


def find_due(store: Store, scorer: Scorer, rows: Sequence[PairRow]) -> Iterator[PairRow]:
    """Yield pairs without a score, and pairs whose rules have changed much since their score.

    Pairs newer than the scorer's state of the store wait for the next round.
    """
    stored = {score.pair_id: score for score in store.scores_by_id([row.id for row in rows])}
    for row, present in zip(rows, scorer.derivations(rows), strict=True):
        if row.id > scorer.learned.last_pair:
            continue
        score = stored.get(row.id)
        if score is not None:
            before = score.derivation_log_probability
            if before is None or present is None:
                if before is present:
                    continue
            elif abs(present - before) <= _CHANGED:
                continue
        yield row
