"""The score of a pair: its probability under all derivations of the learned grammar, mixed with a base.

docs/model.md, section 8, has the equations.
"""

import math
from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.scoring.learned import Learned, Own, RuleTable, Sides
from hierogram.daemon.scoring.options import ScoreOptions
from hierogram.daemon.scoring.records import Link, PairScore
from hierogram.samplers.charts.pairs import ANY, Rules, Words, make_rules
from hierogram.samplers.charts.pruning.systems import PairSystem
from hierogram.samplers.charts.pruning.totals import Estimate, estimate
from hierogram.storage.records import PairRow

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
_LINK_DISCOUNT = 0.5
_UNSEEN_WORD = 0.5
_LARGEST = 400
"""Word pairs of a chart that is filled as a whole: what its edges need stays below some 100 MB."""


class _Piece(NamedTuple):
    """Source words [i, j) with target words [x, y)."""

    i: int
    j: int
    x: int
    y: int


class Scorer:
    """Scores pairs under what a store has learned."""

    def __init__(self, learned: Learned, options: ScoreOptions) -> None:
        self._learned = learned
        self._options = options
        self._totals = [float(counts.sum()) for counts in learned.word_counts]

    def score_stored(self, row: PairRow) -> PairScore:
        """The score of a stored pair; what its own derivation, links and words have added is taken out."""
        source, target = row.source.split(" "), row.target.split(" ")
        sides = self._learned.number(0, source), self._learned.number(1, target)
        return self._score(sides, Own.of(row, sides, self._learned), row.id)

    def score(self, source: list[str], target: list[str], number: int) -> PairScore:
        """The score of a pair that is not stored; `number` keys its random stream. Both sides have words."""
        return self._score((self._learned.number(0, source), self._learned.number(1, target)), Own.nothing(), number)

    def _score(self, sides: Sides, own: Own, number: int) -> PairScore:
        alone = [self._alone(k, sides[k], own) for k in (0, 1)]
        nulls = [self._nulls(k, sides[k], alone[k], own) for k in (0, 1)]
        together = self._pairs(sides, alone, own)
        chosen, weights, new = self._weights(sides, own)
        rules = _joined(self._learned.rules, chosen, weights, new)
        words = _words(sides, together, nulls)
        likely = _likely(together, alone)
        pieces = _pieces(len(sides[0]), len(sides[1]), likely)
        found = [self._estimate(rules, words, likely, piece, number) for piece in pieces]
        straight = math.log(sum(_straight(rules)))
        log_probability = sum(one.log_total for one in found) + (len(pieces) - 1) * straight - words.log_scale
        independent = float(np.log(alone[0]).sum() + np.log(alone[1]).sum())
        return self._told(found, pieces, log_probability, log_probability - independent)

    def _estimate(self, rules: Rules, words: Words, likely: NDArray[np.int32], piece: _Piece, number: int) -> Estimate:
        """One piece, exactly where it is small, or has so few likely links that masks would prune nothing."""
        i, j, x, y = piece
        inside = (likely[:, 0] >= i) & (likely[:, 0] < j) & (likely[:, 1] >= x) & (likely[:, 1] < y)
        links = likely[inside] - np.array([i, x], np.int32)
        if (j - i) * (y - x) <= self._options.exact or 3 * len(links) < min(j - i, y - x):
            links = links[:0]
        part = Words(
            words.source[i:j],
            words.target[x:y],
            words.pairs[i:j, x:y],
            words.source_nulls[i:j],
            words.target_nulls[x:y],
            words.source_scale[i:j],
            words.target_scale[x:y],
        )
        system = PairSystem(rules, part, links, empty_sides=False)
        return estimate(system, self._options.masks, self._learned.settings.seed, number)

    def _told(self, found: list[Estimate], pieces: list[_Piece], log_probability: float, evidence: float) -> PairScore:
        tokens = pieces[-1].j + pieces[-1].y
        unseen, unseen_error, error = 0.0, 0.0, 0.0
        links = []
        for one, (i, j, x, y) in zip(found, pieces, strict=True):
            n, m = j - i, y - x
            mean, errors = one.features
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
            _told_error(math.sqrt(error) / tokens),
            evidence / tokens,
            min(1.0, unseen / tokens),
            _told_error(math.sqrt(unseen_error) / tokens),
            len(pieces),
            error == 0.0,
            tuple(links),
        )

    def _alone(self, side: int, words: list[int], own: Own) -> NDArray[np.float64]:
        """The probability of each word on its own: its relative frequency in all other pairs, smoothed."""
        counts = self._learned.word_counts[side]
        less = own.words[side]
        seen = np.array([counts[word] - less[word] if word >= 0 else 0 for word in words], np.float64)
        left = self._totals[side] - less.total() + _UNSEEN_WORD * (len(counts) + 1)
        found: NDArray[np.float64] = (seen + _UNSEEN_WORD) / left
        return found

    def _pairs(self, sides: Sides, alone: list[NDArray[np.float64]], own: Own) -> NDArray[np.float64]:
        """The base's probability of each two words together, [P(f) P(e|f) P(e) P(f|e)]^½, from other pairs' links."""
        known = self._learned.links
        seen = np.array([[known[(f, e)] - own.links[(f, e)] for e in sides[1]] for f in sides[0]], np.float64)
        kept = np.maximum(seen - _LINK_DISCOUNT, 0)
        forward = self._given(0, sides[0], own)[:, None]
        backward = self._given(1, sides[1], own)[None, :]
        given_source = kept * forward[..., 0] + forward[..., 1] * alone[1][None, :]
        given_target = kept * backward[..., 0] + backward[..., 1] * alone[0][:, None]
        found: NDArray[np.float64] = np.sqrt(alone[0][:, None] * given_source * alone[1][None, :] * given_target)
        return found

    def _given(self, side: int, words: list[int], own: Own) -> NDArray[np.float64]:
        """Of each word, what its discounted links are multiplied by to make probabilities of the other side's words,
        and what is left for words without such a link, float64[words, 2]."""
        learned = self._learned
        totals, partners = learned.link_totals[side], learned.partners[side]
        less: Counter[int] = Counter()
        gone: Counter[int] = Counter()
        for link, times in own.links.items():
            less[link[side]] += times
            gone[link[side]] += learned.links[link] <= times
        found = np.zeros((len(words), 2))
        for k, word in enumerate(words):
            total = float(totals[word]) - less[word] if word >= 0 else 0.0
            types = float(partners[word]) - gone[word] if word >= 0 else 0.0
            found[k] = 1 / (total + 1), (_LINK_DISCOUNT * types + 1) / (total + 1)
        return found

    def _nulls(self, side: int, words: list[int], alone: NDArray[np.float64], own: Own) -> NDArray[np.float64]:
        """The probability of each word without a link, by how often it has none in other pairs."""
        learned = self._learned
        counts, linked = learned.word_counts[side], learned.linked_counts[side]
        rate = 1 - float(linked.sum()) / max(self._totals[side], 1)
        found = np.zeros(len(words))
        for k, word in enumerate(words):
            seen = float(counts[word]) - own.words[side][word] if word >= 0 else 0.0
            free = seen - (float(linked[word]) - own.linked[side][word] if word >= 0 else 0.0)
            found[k] = alone[k] * (free + rate) / (seen + 1) / max(rate, 1e-6)
        return found

    def _weights(self, sides: Sides, own: Own) -> tuple[NDArray[np.int64], NDArray[np.float64], float]:
        """The rules that the pair can use, their probabilities, and the probability of any new rule."""
        learned = self._learned
        rules = learned.rules
        own_lengths = np.zeros(len(learned.tokens_by_length))
        own_rules: dict[int, int] = {}
        for used, times in own.rules.items():
            if used in rules.number:
                own_rules[rules.number[used]] = times
                own_lengths[rules.length[rules.number[used]]] += times
        factors = learned.length_factors(own_lengths)
        chosen = _usable(rules, sides)
        left = np.array([own_rules.get(rule, 0) for rule in chosen.tolist()], np.int64)
        counts = np.maximum(rules.uses[chosen] - left, 0)
        weights = learned.discounted(counts) * factors[rules.length[chosen]]
        return chosen[weights > 0], weights[weights > 0], learned.new_mass(factors)


def _told_error(error: float) -> float | None:
    return None if math.isnan(error) else error


def _usable(rules: RuleTable, sides: Sides) -> NDArray[np.int64]:
    """The rules whose words are all in the pair."""
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
        sizes = first[near + 1] - first[near]
        ends = np.cumsum(sizes)
        flat = symbols[np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(first[near] - (ends - sizes), sizes)]
        missing = (flat >= 0) & ~np.isin(flat, words) | (flat == ANY)
        lacking = np.bincount(np.repeat(np.arange(len(near)), sizes), missing, len(near))
        near = near[lacking == 0]
    return near


def _joined(table: RuleTable, chosen: NDArray[np.int64], weights: NDArray[np.float64], new: float) -> Rules:
    """The base's rules, then the chosen ones."""
    sides = [sides for sides, _ in _BASE] + [
        (
            table.source[table.source_first[rule] : table.source_first[rule + 1]].tolist(),
            table.target[table.target_first[rule] : table.target_first[rule + 1]].tolist(),
        )
        for rule in chosen.tolist()
    ]
    base = np.array([new * share for _, share in _BASE])
    return make_rules(sides, np.concatenate([base, weights]), empty_sides=False)


def _words(sides: Sides, pairs: NDArray[np.float64], alone: list[NDArray[np.float64]]) -> Words:
    """The pair, its words scaled so that emissions of words that are likely are near 1."""
    best = 1 / np.sqrt(np.maximum(pairs.max(axis=1), alone[0] ** 2))
    others = 1 / np.sqrt(np.maximum(pairs.max(axis=0), alone[1] ** 2))
    return Words(
        np.array(sides[0], np.int32), np.array(sides[1], np.int32), pairs, alone[0], alone[1], 4 * best, 4 * others
    )


def _straight(rules: Rules) -> list[float]:
    """The probabilities of the rules that put two nonterminals side by side in the same order."""
    return [
        float(weight)
        for rule, weight in enumerate(rules.weight)
        if all(
            first[rule + 1] - first[rule] == 2 and symbols[first[rule] : first[rule + 1]].tolist() == [_X1, _X2]
            for symbols, first in ((rules.source, rules.source_first), (rules.target, rules.target_first))
        )
    ]


def _pieces(n: int, m: int, likely: NDArray[np.int32]) -> list[_Piece]:
    """The pair, cut until no piece has more than `_LARGEST` word pairs: where the fewest likely links are parted."""
    done, waiting = [], [_Piece(0, n, 0, m)]
    while waiting:
        i, j, x, y = piece = waiting.pop()
        if (j - i) * (y - x) <= _LARGEST or min(j - i, y - x) < 2:
            done.append(piece)
            continue
        source, target = np.arange(i + 1, j)[:, None], np.arange(x + 1, y)[None, :]
        inside = (likely >= (i, x)).all(axis=1) & (likely < (j, y)).all(axis=1)
        parted = np.zeros((j - i - 1, y - x - 1))
        for a, b in likely[inside]:
            parted += (a < source) != (b < target)
        share = (source - i) / (j - i), (target - x) / (y - x)
        uneven = abs(share[0] - share[1]) + np.maximum(abs(share[0] - 0.5), abs(share[1] - 0.5))
        best = int((parted + uneven).argmin())
        a, b = i + 1 + best // (y - x - 1), x + 1 + best % (y - x - 1)
        waiting += [_Piece(a, j, b, y), _Piece(i, a, x, b)]
    return done


def _likely(pairs: NDArray[np.float64], alone: list[NDArray[np.float64]]) -> NDArray[np.int32]:
    """Links that each of the two words prefers to all others, and that are more likely than the words apart."""
    ratio = pairs / np.outer(alone[0], alone[1])
    rows, columns = np.arange(len(pairs)), ratio.argmax(axis=1)
    mutual = (ratio.argmax(axis=0)[columns] == rows) & (ratio[rows, columns] > 1)
    return np.stack([rows[mutual], columns[mutual]], axis=1).astype(np.int32)
