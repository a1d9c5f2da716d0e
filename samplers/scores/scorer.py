"""Scores of pairs: their probability under all derivations of the learned grammar, mixed with a base.

Many pairs are scored per call. A long pair is cut into pieces where the fewest likely links are severed; its score is
then a lower bound, since derivations across a cut are omitted. docs/model.md, section 8, has the equations.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.dense import (
    LACKING,
    MIN_LOG_SCALE,
    MOST,
    BaseWeights,
    ChosenRules,
    DenseScratch,
    PairPiece,
    RuleSides,
    joined,
    make_dense_scratch,
    matrices_size,
    sum_piece,
)
from hierogram.samplers.charts.pairs import PairWords
from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.scores.lexicon import (
    FEATURES,
    Lexicon,
    PairContribution,
    PairFacts,
    fill_features,
    make_facts,
    weigh_words,
)

_PAIR, _NULL, _STRAIGHT, _INVERTED = 0.5, 0.05, 0.25, 0.05
"""Shares of the base's rules in the probability of any new rule; there are four rules with one word."""
_MIN_NEW = 1e-6
_MAX_SEATS = 1 << 22
"""Maximum number of seats of a chart; pieces with more are cut."""
EXPANDED = 2 * FEATURES + FEATURES * (FEATURES + 1) // 2 + 1
"""Number of weights of a classifier."""
MAX_FEATURE = 4.0
"""Clipping of standardized features, in standard deviations."""
FACTS = 6
"""Length of a row of `Scored.numbers`."""
LOG_PROBABILITY, INDEPENDENT, UNSEEN, PIECES, DERIVATION, LINKS = range(FACTS)


class KnownRules(NamedTuple):
    """R rules in use."""

    sides: RuleSides
    # int64[R], int32[R]
    uses: NDArray[np.int64]
    lengths: NDArray[np.int32]
    # bool[R]: False for rules of a large scope.
    usable: NDArray[np.bool_]
    # int32, int64: usable rules by their rarest word: source word f from `first[f]`, target word e from `first[V + e]`,
    # V source words; rules without words at the end.
    near: NDArray[np.int32]
    first: NDArray[np.int64]
    # int64[L], float64[L], float64[L], by length: uses of all rules, discounted uses of usable rules, and probability
    # of the length.
    tokens: NDArray[np.int64]
    kept: NDArray[np.float64]
    prior: NDArray[np.float64]
    # d and α of the process.
    discount: float
    strength: float
    # Whether lengths share one distribution (a Dirichlet process).
    pooled: bool


class Classifiers(NamedTuple):
    """Classifiers of words that do not belong, one per side; NaN without enough training data."""

    # float64[2, 9]: mean and deviation of the features.
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    # float64[2, 64]
    weights: NDArray[np.float64]
    # float64[2]: log-odds.
    prior: NDArray[np.float64]


class ScoredPairs(NamedTuple):
    """P pairs, and the contributions of stored ones; starts of pairs are int64[P + 1]."""

    # int32: words of both sides, -1 for unknown ones.
    source: NDArray[np.int32]
    source_first: NDArray[np.int64]
    target: NDArray[np.int32]
    target_first: NDArray[np.int64]
    # int32: words that each stored pair contributes.
    own_source: NDArray[np.int32]
    own_source_first: NDArray[np.int64]
    own_target: NDArray[np.int32]
    own_target_first: NDArray[np.int64]
    # int32: links that it contributes, by position.
    link_source: NDArray[np.int32]
    link_target: NDArray[np.int32]
    link_first: NDArray[np.int64]
    # int32: rules that it contributes (-1: deleted), and their uses.
    rule: NDArray[np.int32]
    times: NDArray[np.int32]
    rule_first: NDArray[np.int64]


class Scored(NamedTuple):
    """Results for P pairs."""

    # float64[P, 6]: natural log of the pair's probability; of its words' unigram probabilities; expected words emitted
    # by the base; number of pieces; mean log probability of the derivation's rules, NaN without a derivation; number of
    # links.
    numbers: NDArray[np.float64]
    # float64[P, 2, 2]: position and log-odds of the word of each side that belongs least.
    misfits: NDArray[np.float64]
    # int32[…, 2], float64: links of all pairs in order, and their probabilities.
    links: NDArray[np.int32]
    probabilities: NDArray[np.float64]


class ScorerScratch(NamedTuple):
    """Scratch memory of one thread.

    `source_here`, `target_here` bool[V + 1]: words of the current pair; `own_times` int32[R]; `factors` float64[L];
    `expected` float64[n, m]; `likely` int32[n, 2]; `pieces` int64[…, 4].
    """

    room: DenseScratch
    facts: PairFacts
    words: PairWords
    chosen: ChosenRules
    null: NDArray[np.float64]
    source_here: NDArray[np.bool_]
    target_here: NDArray[np.bool_]
    own_times: NDArray[np.int32]
    factors: NDArray[np.float64]
    expected: NDArray[np.float64]
    likely: NDArray[np.int32]
    pieces: NDArray[np.int64]
    features: NDArray[np.float64]


class ScorerCapacities(NamedTuple):
    """Capacities of a thread: words per side, own links per pair, usable rules per pair, and their seats."""

    longest: int
    links: int
    rules: int
    seats: int


def make_scorer_scratch(rules: KnownRules, lexicon: Lexicon, sizes: ScorerCapacities, largest: int) -> ScorerScratch:
    """Allocate scratch memory for pairs that are cut into pieces of up to `largest` word pairs."""
    longest, number = sizes.longest, sizes.rules
    facts = make_facts(longest, sizes.links)
    symbols = int(
        max(np.diff(rules.sides.source_first).max(initial=1), np.diff(rules.sides.target_first).max(initial=1))
    )
    shapes = [(n, max(1, min(longest, largest // n))) for n in range(1, longest + 1)]
    most = max(matrices_size(n, m) for n, m in [*shapes, (1, longest)])
    return ScorerScratch(
        make_dense_scratch((longest, longest), most, number, symbols, sizes.seats),
        facts,
        PairWords(
            np.zeros(longest, np.int32),
            np.zeros(longest, np.int32),
            facts.together,
            np.zeros(longest),
            np.zeros(longest),
            np.zeros(longest),
            np.zeros(longest),
        ),
        ChosenRules(np.zeros(number, np.int64), np.zeros(number)),
        np.zeros(longest),
        np.zeros(len(lexicon.sides[0].words) + 1, np.bool_),
        np.zeros(len(lexicon.sides[1].words) + 1, np.bool_),
        np.zeros(len(rules.uses), np.int32),
        np.zeros(len(rules.tokens)),
        np.zeros((longest, longest)),
        np.zeros((longest, 2), np.int32),
        np.zeros((2 * longest + 2, 4), np.int64),
        np.zeros((longest, FEATURES)),
    )


@njit
def _discounted(rules, count):
    """Return the discounted uses of a rule: n - d n^d."""
    if count <= 0:
        return 0.0
    return count - rules.discount * float(count) ** rules.discount


@njit
def _fill_factors(rules, pairs, pair, space):
    """Compute the factor, by length, from a rule's discounted uses to a probability given the other pairs' uses.

    Returns the probability of any new rule, and records the pair's own uses for `_choose`.
    """
    own, factors = space.own_times, space.factors
    first, last = pairs.rule_first[pair], pairs.rule_first[pair + 1]
    longest = len(factors)
    for length in range(longest):
        factors[length] = rules.tokens[length]
    for k in range(first, last):
        rule = pairs.rule[k]
        if rule >= 0:
            factors[rules.lengths[rule]] -= pairs.times[k]
            own[rule] += pairs.times[k]
    total = 0.0
    for length in range(longest):
        factors[length] = max(factors[length], 0.0)
        total += factors[length]
    new = 1.0
    for length in range(longest):
        uses = total if rules.pooled else factors[length]
        factors[length] = rules.prior[length] / (uses + rules.strength)
        new -= rules.kept[length] * factors[length]
    for k in range(first, last):
        rule = pairs.rule[k]
        if rule >= 0 and rules.usable[rule]:
            count = rules.uses[rule]
            less = _discounted(rules, count) - _discounted(rules, count - pairs.times[k])
            new += less * factors[rules.lengths[rule]]
    return max(new, _MIN_NEW), total


@njit
def _mean_weight(rules, pairs, pair, new, total, space):
    """Return the mean log probability of a derivation's rules given the other pairs.

    Rules that no other pair uses count as the rarest.
    """
    first, last = pairs.rule_first[pair], pairs.rule_first[pair + 1]
    rarest = new / max(total, 1.0)
    summed, uses = 0.0, 0.0
    for k in range(first, last):
        rule = pairs.rule[k]
        weight = rarest
        if rule >= 0:
            kept = _discounted(rules, rules.uses[rule] - pairs.times[k])
            weight = max(kept * space.factors[rules.lengths[rule]], rarest)
        summed += pairs.times[k] * np.log(weight)
        uses += pairs.times[k]
    return summed / uses if uses > 0 else np.nan


@njit
def _is_here(rule, sides, space):
    """Return whether a pair contains all words of a rule."""
    for k in range(sides.source_first[rule], sides.source_first[rule + 1]):
        if sides.source[k] >= 0 and not space.source_here[sides.source[k]]:
            return False
    for k in range(sides.target_first[rule], sides.target_first[rule + 1]):
        if sides.target[k] >= 0 and not space.target_here[sides.target[k]]:
            return False
    return True


@njit
def _choose_near(begin, end, rules, number, space):
    """Select the rules in a range that the pair can use, with weights from the other pairs' uses."""
    for k in range(begin, end):
        rule = rules.near[k]
        if _is_here(rule, rules.sides, space):
            kept = _discounted(rules, rules.uses[rule] - space.own_times[rule])
            weight = kept * space.factors[rules.lengths[rule]]
            if weight > 0.0:
                if number < len(space.chosen.rule):
                    space.chosen.rule[number] = rule
                    space.chosen.weight[number] = weight
                number += 1
    return number


@njit
def _choose(rules, pairs, pair, space):
    """Select all rules that a pair can use; returns their number."""
    source = pairs.source[pairs.source_first[pair] : pairs.source_first[pair + 1]]
    target = pairs.target[pairs.target_first[pair] : pairs.target_first[pair + 1]]
    for word in source:
        if word >= 0:
            space.source_here[word] = True
    for word in target:
        if word >= 0:
            space.target_here[word] = True
    words = len(space.source_here) - 1
    last = len(rules.first) - 2
    number = _choose_near(rules.first[last], rules.first[last + 1], rules, np.int64(0), space)
    for k in range(len(source)):
        word = source[k]
        if word >= 0 and not _is_before(source, k):
            number = _choose_near(rules.first[word], rules.first[word + 1], rules, number, space)
    for k in range(len(target)):
        word = target[k]
        if word >= 0 and not _is_before(target, k):
            number = _choose_near(rules.first[words + word], rules.first[words + word + 1], rules, number, space)
    for k in range(pairs.rule_first[pair], pairs.rule_first[pair + 1]):
        if pairs.rule[k] >= 0:
            space.own_times[pairs.rule[k]] = 0
    for word in source:
        if word >= 0:
            space.source_here[word] = False
    for word in target:
        if word >= 0:
            space.target_here[word] = False
    return number


@njit
def _is_before(words, k):
    first = 0
    while words[first] != words[k]:
        first += 1
    return first < k


@njit
def _scale_words(source, target, facts, words):
    """Set the words of a pair for its charts, scaled so that emissions of likely words are near 1."""
    n, m = len(source), len(target)
    for i in range(n):
        best = facts.alone[0, i] ** 2
        for x in range(m):
            best = max(best, facts.together[i, x])
        words.source[i] = source[i]
        words.source_nulls[i] = facts.nulls[0, i]
        words.source_scale[i] = 4.0 / np.sqrt(best)
    for x in range(m):
        best = facts.alone[1, x] ** 2
        for i in range(n):
            best = max(best, facts.together[i, x])
        words.target[x] = target[x]
        words.target_nulls[x] = facts.nulls[1, x]
        words.target_scale[x] = 4.0 / np.sqrt(best)


@njit
def _find_likely(n, m, facts, likely):
    """Write the mutually best links that are more probable than null. Returns their number."""
    number = 0
    for i in range(n):
        best = 0
        for x in range(1, m):
            if _ratio(i, x, facts) > _ratio(i, best, facts):
                best = x
        other = 0
        for k in range(1, n):
            if _ratio(k, best, facts) > _ratio(other, best, facts):
                other = k
        if other == i and _ratio(i, best, facts) > 1:
            likely[number, 0] = i
            likely[number, 1] = best
            number += 1
    return number


@njit
def _ratio(i, x, facts):
    return facts.together[i, x] / (facts.alone[0, i] * facts.alone[1, x])


@njit
def choose_cut(piece, likely, number):
    """Return the cut of a piece: near the middle, where the fewest likely links are severed."""
    best, source_cut, target_cut = np.inf, piece.i + 1, piece.x + 1
    for i in range(piece.i + 1, piece.j):
        for x in range(piece.x + 1, piece.y):
            parted = 0.0
            for k in range(number):
                a, b = likely[k, 0], likely[k, 1]
                if piece.i <= a < piece.j and piece.x <= b < piece.y and (a < i) != (b < x):
                    parted += 1
            source_share = (i - piece.i) / (piece.j - piece.i)
            target_share = (x - piece.x) / (piece.y - piece.x)
            parted += abs(source_share - target_share)
            parted += max(abs(source_share - 0.5), abs(target_share - 0.5))
            if parted < best:
                best, source_cut, target_cut = parted, i, x
    return source_cut, target_cut


@njit
def _put(pieces, number, i, j, x, y):
    pieces[number, 0] = i
    pieces[number, 1] = j
    pieces[number, 2] = x
    pieces[number, 3] = y


@njit
def _scale_piece(piece, factor, words):
    """Multiply the emissions of each word of a piece's longer side by a factor."""
    if piece.j - piece.i > piece.y - piece.x:
        for i in range(piece.i, piece.j):
            words.source_scale[i] *= factor
    else:
        for x in range(piece.x, piece.y):
            words.target_scale[x] *= factor


@njit
def _sum_pieces(rules, base, chosen, likely, largest, n, m, space):
    """Return the natural log of the sum over a pair's pieces without scales, the base's words, and the pieces.

    The number of pieces is 0 if seats lack room.
    """
    log_total, emitted = 0.0, 0.0
    number = 0
    _put(space.pieces, 0, 0, n, 0, m)
    waiting = 1
    while waiting > 0:
        waiting -= 1
        i, j, x, y = space.pieces[waiting]
        piece = PairPiece(i, j, x, y)
        divided = min(j - i, y - x) > 1
        if not divided or (j - i) * (y - x) <= largest:
            total, words = sum_piece(
                space.chosen, chosen, rules.sides, space.words, piece, base, space.null, space.expected, space.room
            )
            while not divided and (0 <= total <= MIN_LOG_SCALE or total >= MOST):
                # Most words of one side are null here, so the scales are off: rescale and retry.
                _scale_piece(piece, 16.0 if total <= MIN_LOG_SCALE else 1 / 16.0, space.words)
                total, words = sum_piece(
                    space.chosen, chosen, rules.sides, space.words, piece, base, space.null, space.expected, space.room
                )
            if MIN_LOG_SCALE < total < MOST:
                number += 1
                log_total += np.log(total)
                emitted += words
                continue
            if total < 0.0 and (not divided or space.room.sizes[LACKING] < _MAX_SEATS):
                return 0.0, 0.0, 0
        a, b = choose_cut(piece, space.likely, likely)
        _put(space.pieces, waiting, a, j, b, y)
        _put(space.pieces, waiting + 1, i, a, x, b)
        waiting += 2
    return log_total + (number - 1) * np.log(base.straight), emitted, number


@njit
def _list_links(pair, n, m, least, first, space, scored):
    """Write the links of at least this probability, by source word, most probable first. Returns their number."""
    number = first
    for i in range(n):
        begin = number
        for x in range(m):
            probability = min(space.expected[i, x], 1.0)
            if probability >= least:
                k = number
                while k > begin and scored.probabilities[k - 1] < probability:
                    scored.links[k, 0] = scored.links[k - 1, 0]
                    scored.links[k, 1] = scored.links[k - 1, 1]
                    scored.probabilities[k] = scored.probabilities[k - 1]
                    k -= 1
                scored.links[k, 0] = i
                scored.links[k, 1] = x
                scored.probabilities[k] = probability
                number += 1
    scored.numbers[pair, LINKS] = number - first
    return number


@njit
def misfit_odds(side, row, classifiers):
    """Return the log-odds of a replaced word: linear in features, their negative parts, pairwise products, and 1."""
    for k in range(FEATURES):
        scaled = (row[k] - classifiers.mean[side, k]) / classifiers.deviation[side, k]
        row[k] = min(max(scaled, -MAX_FEATURE), MAX_FEATURE)
    weights = classifiers.weights[side]
    total = weights[EXPANDED - 1] - classifiers.prior[side]
    place = 2 * FEATURES
    for k in range(FEATURES):
        total += weights[k] * row[k] + weights[FEATURES + k] * min(row[k], 0.0)
        for other in range(k, FEATURES):
            total += weights[place] * row[k] * row[other]
            place += 1
    return total


@njit
def _find_misfits(pair, n, m, classifiers, space, scored):
    """Find the word of each side that belongs least."""
    for side in range(2):
        words = m if side == 1 else n
        fill_features(side, (n, m), space.facts, space.features)
        for k in range(words):
            odds = misfit_odds(side, space.features[k], classifiers)
            if k == 0 or odds > scored.misfits[pair, side, 1]:
                scored.misfits[pair, side, 0] = k
                scored.misfits[pair, side, 1] = odds


@njit
def pair_contribution(pairs, pair):
    """Return the contribution of a pair to the word statistics."""
    links = slice(pairs.link_first[pair], pairs.link_first[pair + 1])
    source = slice(pairs.own_source_first[pair], pairs.own_source_first[pair + 1])
    target = slice(pairs.own_target_first[pair], pairs.own_target_first[pair + 1])
    return PairContribution(
        (pairs.own_source[source], pairs.own_target[target]), (pairs.link_source[links], pairs.link_target[links])
    )


@njit
def score_pairs(
    begin: int,
    pairs: ScoredPairs,
    rules: KnownRules,
    lexicon: Lexicon,
    classifiers: Classifiers,
    largest: int,
    least: float,
    space: ScorerScratch,
    scored: Scored,
    links: int,
) -> tuple[int, int]:
    """Score pairs from index `begin`, and write links from index `links`; returns the next indices.

    The next pair is the first one whose seats lack room, or the number of pairs.
    """
    for pair in range(begin, len(pairs.source_first) - 1):
        source = pairs.source[pairs.source_first[pair] : pairs.source_first[pair + 1]]
        target = pairs.target[pairs.target_first[pair] : pairs.target_first[pair + 1]]
        n, m = len(source), len(target)
        facts = space.facts
        weigh_words(source, target, pair_contribution(pairs, pair), lexicon, facts)
        new, total = _fill_factors(rules, pairs, pair, space)
        scored.numbers[pair, DERIVATION] = _mean_weight(rules, pairs, pair, new, total, space)
        chosen = _choose(rules, pairs, pair, space)
        if chosen > len(space.chosen.rule):
            space.room.sizes[LACKING] = -chosen
            return pair, links
        _scale_words(source, target, facts, space.words)
        likely = _find_likely(n, m, facts, space.likely)
        base = joined(
            space.chosen,
            chosen,
            rules.sides,
            BaseWeights(new * _PAIR, new * _NULL, new * _STRAIGHT, new * _INVERTED),
        )
        for i in range(n):
            space.expected[i, :m] = 0.0
        log_total, emitted, pieces = _sum_pieces(rules, base, chosen, likely, largest, n, m, space)
        if pieces == 0:
            return pair, links
        independent = 0.0
        for i in range(n):
            log_total -= np.log(space.words.source_scale[i])
            independent += np.log(facts.alone[0, i])
        for x in range(m):
            log_total -= np.log(space.words.target_scale[x])
            independent += np.log(facts.alone[1, x])
        scored.numbers[pair, LOG_PROBABILITY] = log_total
        scored.numbers[pair, INDEPENDENT] = independent
        scored.numbers[pair, UNSEEN] = emitted
        scored.numbers[pair, PIECES] = pieces
        links = _list_links(pair, n, m, least, links, space, scored)
        _find_misfits(pair, n, m, classifiers, space, scored)
    return len(pairs.source_first) - 1, links


@njit
def list_features(
    pairs: ScoredPairs, lexicon: Lexicon, side: int, facts: PairFacts, features: NDArray[np.float64]
) -> None:
    """Fill the features of all words of one side of the pairs, in order, float64[words, 9]."""
    at = 0
    for pair in range(len(pairs.source_first) - 1):
        source = pairs.source[pairs.source_first[pair] : pairs.source_first[pair + 1]]
        target = pairs.target[pairs.target_first[pair] : pairs.target_first[pair + 1]]
        weigh_words(source, target, pair_contribution(pairs, pair), lexicon, facts)
        sizes = len(source), len(target)
        fill_features(side, sizes, facts, features[at : at + sizes[side]])
        at += sizes[side]


@njit
def weigh_derivations(
    pairs: ScoredPairs, rules: KnownRules, space: ScorerScratch, log_probabilities: NDArray[np.float64]
) -> None:
    """Compute the mean log probability of the rules of each pair's derivation, float64[P]; NaN without a derivation."""
    for pair in range(len(log_probabilities)):
        new, total = _fill_factors(rules, pairs, pair, space)
        log_probabilities[pair] = _mean_weight(rules, pairs, pair, new, total, space)
        for k in range(pairs.rule_first[pair], pairs.rule_first[pair + 1]):
            if pairs.rule[k] >= 0:
                space.own_times[pairs.rule[k]] = 0
