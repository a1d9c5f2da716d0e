"""The score of a pair: its probability under all derivations of the learned grammar, mixed with a base.

docs/model.md, section 8, has the equations.
"""

import copy
import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.scoring.learned import Learned, LearnedRules, Own, Report, Sides
from hierogram.daemon.scoring.lexicon import Both, Lexicon
from hierogram.daemon.scoring.misfits import Fit, features_of
from hierogram.daemon.scoring.records import Link, Misfit, PairScore, ScoreOptions
from hierogram.samplers.charts.pairs import ANY, PairWords, Rules, make_rules, needed
from hierogram.samplers.charts.pruning.chain import Estimate, estimate
from hierogram.samplers.charts.pruning.systems import PairSystem
from hierogram.samplers.exceptions import ChartTooLargeError
from hierogram.storage.database.transactions import now
from hierogram.storage.records import PairRow
from hierogram.storage.records.pairs import ScoreRow
from hierogram.storage.store import Store

_X1, _X2 = -1, -2
_BASE: tuple[tuple[tuple[list[int], list[int]], float], ...] = (
    (([ANY], [ANY]), 0.5),
    (([ANY, _X1], [_X1]), 0.05),
    (([_X1, ANY], [_X1]), 0.05),
    (([_X1], [ANY, _X1]), 0.05),
    (([_X1], [_X1, ANY]), 0.05),
    (([_X1, _X2], [_X1, _X2]), 0.25),
    (([_X1, _X2], [_X2, _X1]), 0.05),
)
"""Rules of the base with their probabilities; the base parses every pair."""
_BASE_WORDS = np.array([2, 1, 1, 1, 1, 0, 0])
_LARGEST = 400
"""Word pairs of the largest piece that is tried."""
_MOST_EDGES = 1 << 21
"""Edges of the largest chart, which needs some 150 MB: a piece with more is cut."""


_Piece = tuple[int, int, int, int]
"""Source words [i, j) with target words [x, y), as i, j, x, y."""


class Scorer:
    """Scores pairs under what a store has learned."""

    def __init__(self, learned: Learned, options: ScoreOptions, report: Report = lambda *_: None) -> None:
        self.learned = learned
        self._options = options
        self._lexicon = Lexicon(learned)
        self._classifiers = [self._lexicon.classifier(side, report) for side in (0, 1)]

    def with_options(self, options: ScoreOptions) -> "Scorer":
        """Return a scorer that knows the same, with other options."""
        other = copy.copy(self)
        other._options = options
        return other

    def score_stored(self, row: PairRow) -> PairScore:
        """Return the score of a stored pair; what its own derivation, links and words have added is taken out."""
        source, target = row.source.split(" "), row.target.split(" ")
        sides = self.learned.number(0, source), self.learned.number(1, target)
        return self._score(sides, Own.of(row, sides, self.learned), row.id)

    def score(self, source: list[str], target: list[str], number: int) -> PairScore:
        """Return the score of a pair that is not stored; `number` keys its random stream. Both sides have words."""
        return self._score((self.learned.number(0, source), self.learned.number(1, target)), Own.nothing(), number)

    def derivation(self, row: PairRow) -> float | None:
        """Return the mean log-probability of the rules of a stored pair's derivation, by the other pairs.

        Rules that no other pair uses count as the rarest. None where there is no derivation.
        """
        learned = self.learned
        own = learned.rules_of(row)
        numbers = [learned.rules.number.get(sides) for sides in own]
        if not numbers:
            return None
        times = np.array(list(own.values()), np.int64)
        rules = np.array(numbers, np.int64)
        lengths = np.where(rules >= 0, learned.rules.length[rules], 0)
        own_lengths = np.zeros(len(learned.tokens_by_length))
        np.add.at(own_lengths, lengths[rules >= 0], times[rules >= 0])
        factors = learned.length_factors(own_lengths)
        counts = np.where(rules >= 0, np.maximum(learned.rules.uses[rules] - times, 0), 0)
        rarest = learned.new_mass(factors) / max(float(learned.tokens_by_length.sum()), 1.0)
        weights = np.maximum(learned.discounted(counts) * factors[lengths], rarest)
        return float((times * np.log(weights)).sum() / times.sum())

    def _score(self, sides: Sides, own: Own, number: int) -> PairScore:
        lexicon = self._lexicon
        alone = lexicon.alone(sides, own)
        nulls = lexicon.nulls(sides, alone, own)
        linked = lexicon.linked(sides, own)
        together = lexicon.pairs(sides, linked, alone, own)
        chosen, weights, new = self._weights(sides, own)
        rules = _joined(self.learned.rules, chosen, weights, new)
        words = _words(sides, together, nulls)
        # Links that each of the two words prefers to all others, and that are more likely than the words apart.
        ratio = together / np.outer(alone[0], alone[1])
        sources, targets = np.arange(len(ratio)), ratio.argmax(axis=1)
        mutual = (ratio.argmax(axis=0)[targets] == sources) & (ratio[sources, targets] > 1)
        likely = np.stack([sources[mutual], targets[mutual]], axis=1).astype(np.int32)
        pieces, found = self._estimates(rules, words, likely, number)
        straight = math.log(sum(_straight(rules)))
        log_probability = sum(one.log_total for one in found) + (len(pieces) - 1) * straight - words.log_scale
        independent = float(np.log(alone[0]).sum() + np.log(alone[1]).sum())
        score = self._summed_up(found, pieces, log_probability, log_probability - independent)
        fit = lexicon.fit(sides, linked, alone, own)
        return dataclasses.replace(score, source_misfit=self._misfit(fit, 0), target_misfit=self._misfit(fit, 1))

    def _misfit(self, fit: Fit, side: int) -> Misfit | None:
        """Return the word of a side that belongs least."""
        classifier = self._classifiers[side]
        if classifier is None:
            return None
        odds = classifier.odds(features_of(fit, side))
        return Misfit(int(odds.argmax()), float(odds.max()))

    def _estimates(
        self, rules: Rules, words: PairWords, likely: NDArray[np.int32], number: int
    ) -> tuple[list[_Piece], list[Estimate]]:
        """Cut the pair until no piece has more than `_LARGEST` word pairs, or a chart of more than `_MOST_EDGES`."""
        pieces, found = [], []
        waiting = [(0, len(words.source), 0, len(words.target))]
        while waiting:
            piece = waiting.pop()
            i, j, x, y = piece
            divided = min(j - i, y - x) > 1
            if not divided or (j - i) * (y - x) <= _LARGEST:
                try:
                    one = self._estimate(rules, words, likely, piece, number, _MOST_EDGES if divided else None)
                except ChartTooLargeError:
                    pass
                else:
                    pieces.append(piece)
                    found.append(one)
                    continue
            waiting += _cut(piece, likely)
        return pieces, found

    def _estimate(
        self,
        rules: Rules,
        words: PairWords,
        likely: NDArray[np.int32],
        piece: _Piece,
        number: int,
        most_edges: int | None,
    ) -> Estimate:
        """Estimate one piece, exactly where it is small, or has so few likely links that masks would prune nothing.

        Raises `ChartTooLargeError`.
        """
        i, j, x, y = piece
        inside = (likely[:, 0] >= i) & (likely[:, 0] < j) & (likely[:, 1] >= x) & (likely[:, 1] < y)
        links = likely[inside] - np.array([i, x], np.int32)
        if (j - i) * (y - x) <= self._options.exact or 3 * len(links) < min(j - i, y - x):
            links = links[:0]
        part = PairWords(
            words.source[i:j],
            words.target[x:y],
            words.pairs[i:j, x:y],
            words.source_nulls[i:j],
            words.target_nulls[x:y],
            words.source_scale[i:j],
            words.target_scale[x:y],
        )
        system = PairSystem(rules, part, links, empty_sides=False, most_edges=most_edges)
        return estimate(system, self._options.masks, self.learned.settings.seed, number)

    def _summed_up(
        self, found: list[Estimate], pieces: list[_Piece], log_probability: float, evidence: float
    ) -> PairScore:
        tokens = pieces[-1][1] + pieces[-1][3]
        unseen, unseen_error, error = 0.0, 0.0, 0.0
        links = []
        for one, (i, j, x, y) in zip(found, pieces, strict=True):
            n, m = j - i, y - x
            mean, errors = one.features, one.feature_errors
            base = slice(n * m + n + m, n * m + n + m + len(_BASE))
            unseen += float((_BASE_WORDS * mean[base]).sum())
            unseen_error += float(((_BASE_WORDS * errors[base]) ** 2).sum())
            error += one.error**2
            together = mean[: n * m].reshape(n, m)
            links += [
                Link(i + int(a), x + int(b), min(1.0, float(together[a, b])))
                for a in range(n)
                for b in np.argsort(-together[a], kind="stable")
                if together[a, b] >= self._options.links
            ]
        return PairScore(
            tokens,
            log_probability / tokens,
            _error_or_none(math.sqrt(error) / tokens),
            evidence / tokens,
            min(1.0, unseen / tokens),
            _error_or_none(math.sqrt(unseen_error) / tokens),
            len(pieces),
            error == 0.0,
            None,
            None,
            tuple(links),
        )

    def _weights(self, sides: Sides, own: Own) -> tuple[NDArray[np.int64], NDArray[np.float64], float]:
        """Return the rules that the pair can use, their probabilities, and the probability of any new rule."""
        learned = self.learned
        rules = learned.rules
        own_lengths = np.zeros(len(learned.tokens_by_length))
        own_rules: dict[int, int] = {}
        for used, times in own.rules.items():
            rule = rules.number.get(used)
            if rule >= 0:
                own_rules[rule] = times
                own_lengths[rules.length[rule]] += times
        factors = learned.length_factors(own_lengths)
        chosen = _usable(rules, sides)
        left = np.array([own_rules.get(rule, 0) for rule in chosen.tolist()], np.int64)
        counts = np.maximum(rules.uses[chosen] - left, 0)
        weights = learned.discounted(counts) * factors[rules.length[chosen]]
        return chosen[weights > 0], weights[weights > 0], learned.new_mass(factors)


def _error_or_none(error: float) -> float | None:
    return None if math.isnan(error) else error


def _usable(rules: LearnedRules, sides: Sides) -> NDArray[np.int64]:
    """Return the rules whose words are all in the pair."""
    found = [rules.wordless]
    for side in (0, 1):
        for word in sorted(set(sides[side])):
            near = rules.by_word.get((side, word))
            if near is not None:
                found.append(near)
    near = np.concatenate(found)
    for symbols, first, words in (
        (rules.source, rules.source_first, sides[0]),
        (rules.target, rules.target_first, sides[1]),
    ):
        sizes = first[near + 1] - first[near]
        near = near[sizes <= len(words)]
        flat, begins = _sides(symbols, first, near)
        sizes = np.diff(begins)
        missing = (flat >= 0) & ~np.isin(flat, words) | (flat == ANY)
        lacking = np.bincount(np.repeat(np.arange(len(near)), sizes), missing, len(near))
        near = near[lacking == 0]
    return near


def _joined(table: LearnedRules, chosen: NDArray[np.int64], weights: NDArray[np.float64], new: float) -> Rules:
    """Return the base's rules, then the chosen ones."""
    base = make_rules([sides for sides, _ in _BASE], np.array([new * share for _, share in _BASE]), empty_sides=False)
    source, source_first = _sides(table.source, table.source_first, chosen)
    target, target_first = _sides(table.target, table.target_first, chosen)
    return Rules(
        np.concatenate([base.source, source]),
        np.concatenate([base.source_first, base.source_first[-1] + source_first[1:]]),
        np.concatenate([base.source_rest[:-1], needed(source, source_first, empty_sides=False)]),
        np.concatenate([base.target, target]),
        np.concatenate([base.target_first, base.target_first[-1] + target_first[1:]]),
        np.concatenate([base.target_rest[:-1], needed(target, target_first, empty_sides=False)]),
        np.concatenate([base.weight, weights]),
    )


def _sides(
    symbols: NDArray[np.int32], first: NDArray[np.int64], chosen: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the symbols of some rules' sides one after the other, and where each side begins."""
    sizes = first[chosen + 1] - first[chosen]
    ends = np.cumsum(sizes)
    at = np.arange(int(sizes.sum())) + np.repeat(first[chosen] - (ends - sizes), sizes)
    return symbols[at], np.concatenate(([0], ends)).astype(np.int32)


def _words(sides: Sides, pairs: NDArray[np.float64], alone: Both) -> PairWords:
    """Return the pair, its words scaled so that emissions of words that are likely are near 1."""
    best = 1 / np.sqrt(np.maximum(pairs.max(axis=1), alone[0] ** 2))
    others = 1 / np.sqrt(np.maximum(pairs.max(axis=0), alone[1] ** 2))
    return PairWords(
        np.array(sides[0], np.int32), np.array(sides[1], np.int32), pairs, alone[0], alone[1], 4 * best, 4 * others
    )


def _straight(rules: Rules) -> list[float]:
    """Return the probabilities of the rules that put two nonterminals side by side in the same order."""
    pairs = np.flatnonzero((np.diff(rules.source_first) == 2) & (np.diff(rules.target_first) == 2))
    return [
        float(rules.weight[rule])
        for rule in pairs.tolist()
        if all(
            symbols[first[rule] : first[rule + 1]].tolist() == [_X1, _X2]
            for symbols, first in ((rules.source, rules.source_first), (rules.target, rules.target_first))
        )
    ]


def _cut(piece: _Piece, likely: NDArray[np.int32]) -> tuple[_Piece, _Piece]:
    """Return the second and the first part of a piece, cut near the middle where the fewest likely links are parted."""
    i, j, x, y = piece
    source, target = np.arange(i + 1, j)[:, None], np.arange(x + 1, y)[None, :]
    inside = (likely >= (i, x)).all(axis=1) & (likely < (j, y)).all(axis=1)
    parted = np.zeros((j - i - 1, y - x - 1))
    for a, b in likely[inside]:
        parted += (a < source) != (b < target)
    share = (source - i) / (j - i), (target - x) / (y - x)
    uneven = abs(share[0] - share[1]) + np.maximum(abs(share[0] - 0.5), abs(share[1] - 0.5))
    best = int((parted + uneven).argmin())
    a, b = i + 1 + best // (y - x - 1), x + 1 + best % (y - x - 1)
    return (a, j, b, y), (i, a, x, b)


_CHANGED = 0.5
"""Rules have changed much where the mean log-probability of those that a derivation uses has moved by this."""
KEPT_AT_ONCE = 20


def keep_scores(store: Store, scorer: Scorer, scored: Sequence[tuple[PairRow, PairScore]]) -> None:
    """Have the store keep these scores of stored pairs."""
    moment = now()
    rows = []
    for row, score in scored:
        rows.append(
            ScoreRow(
                row.id,
                scorer.learned.position,
                moment,
                score.tokens,
                score.log_probability,
                score.log_probability_error,
                score.evidence,
                score.unseen,
                score.unseen_error,
                score.pieces,
                score.exact,
                *_misfit_columns(score.source_misfit),
                *_misfit_columns(score.target_misfit),
                " ".join(f"{link.source}-{link.target}:{link.probability:.3f}" for link in score.links),
                scorer.derivation(row),
            )
        )
    store.keep_scores(rows)


def due(store: Store, scorer: Scorer, rows: Sequence[PairRow]) -> Iterator[PairRow]:
    """Yield the pairs without a score, and those whose rules have changed much since they were scored.

    Pairs that are newer than what is known of the store wait for the next round.
    """
    kept = {score.pair_id: score for score in store.scores_by_id([row.id for row in rows])}
    for row in rows:
        if row.id > scorer.learned.last_pair:
            continue
        score = kept.get(row.id)
        if score is not None:
            before, present = score.derivation, scorer.derivation(row)
            if before is None or present is None:
                if before is present:
                    continue
            elif abs(present - before) <= _CHANGED:
                continue
        yield row


def _misfit_columns(misfit: Misfit | None) -> tuple[float | None, int | None]:
    return (None, None) if misfit is None else (misfit.odds, misfit.position)
