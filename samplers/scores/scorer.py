"""Scores of pairs: their probability under all derivations of the learned grammar, mixed with a base.

Many pairs are scored per call. A long pair is cut into pieces where the fewest likely links are severed; its score is
then a lower bound, since derivations across a cut are omitted. docs/model.md, section 8, has the equations.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.dense import (
    MAX_TOTAL,
    MIN_TOTAL,
    NEEDED,
    BaseWeights,
    ChosenRules,
    DenseScratch,
    PairPiece,
    RuleSides,
    add_joins,
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
"""Maximum number of seats of a chart, matches of the source sides of rules; pieces with more are cut."""
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
    # int32, int64: usable rules by their rarest word: source word f from `word_start[f]`,
    # target word e from `word_start[V + e]`, V source words; rules without words at the end.
    by_rarest_word: NDArray[np.int32]
    word_start: NDArray[np.int64]
    # int64[L], float64[L], float64[L], by length: uses of all rules, discounted uses of usable rules, and probability
    # of the length.
    tokens: NDArray[np.int64]
    discounted: NDArray[np.float64]
    length_prior: NDArray[np.float64]
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
    # float64[2, 64], in the order of `misfit_odds`.
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


def make_scorer_scratch(rules: KnownRules, lexicon: Lexicon, sizes: ScorerCapacities, max_cells: int) -> ScorerScratch:
    """Allocate scratch memory for pairs that are cut into pieces of up to `max_cells` word pairs."""
    longest, number = sizes.longest, sizes.rules
    facts = make_facts(longest, sizes.links)
    symbols = int(
        max(np.diff(rules.sides.source_first).max(initial=1), np.diff(rules.sides.target_first).max(initial=1))
    )
    shapes = [(n, max(1, min(longest, max_cells // n))) for n in range(1, longest + 1)]
    max_matrices = max(matrices_size(n, m) for n, m in [*shapes, (1, longest)])
    return ScorerScratch(
        make_dense_scratch((longest, longest), max_matrices, number, symbols, sizes.seats),
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
def _fill_factors(rules, pairs, pair, scratch):
    """Compute the factor, by length, from a rule's discounted uses to a probability given the other pairs' uses.

    Returns the probability of any new rule and the uses of all rules by other pairs. Leaves the pair's own uses in
    `own_times`, for `_choose`.
    """
    own_times, factors = scratch.own_times, scratch.factors
    first, last = pairs.rule_first[pair], pairs.rule_first[pair + 1]
    longest = len(factors)
    for length in range(longest):
        factors[length] = rules.tokens[length]
    for k in range(first, last):
        rule = pairs.rule[k]
        if rule >= 0:
            factors[rules.lengths[rule]] -= pairs.times[k]
            own_times[rule] += pairs.times[k]
    total_uses = 0.0
    for length in range(longest):
        factors[length] = max(factors[length], 0.0)
        total_uses += factors[length]
    new_mass = 1.0
    for length in range(longest):
        uses = total_uses if rules.pooled else factors[length]
        factors[length] = rules.length_prior[length] / (uses + rules.strength)
        new_mass -= rules.discounted[length] * factors[length]
    for k in range(first, last):
        rule = pairs.rule[k]
        if rule >= 0 and rules.usable[rule]:
            count = rules.uses[rule]
            less = _discounted(rules, count) - _discounted(rules, count - pairs.times[k])
            new_mass += less * factors[rules.lengths[rule]]
    return max(new_mass, _MIN_NEW), total_uses


@njit
def _mean_weight(rules, pairs, pair, new_mass, total_uses, scratch):
    """Return the mean log probability of a derivation's rules; rules that no other pair uses count as the rarest."""
    first, last = pairs.rule_first[pair], pairs.rule_first[pair + 1]
    rarest = new_mass / max(total_uses, 1.0)
    summed, uses = 0.0, 0.0
    for k in range(first, last):
        rule = pairs.rule[k]
        weight = rarest
        if rule >= 0:
            discounted = _discounted(rules, rules.uses[rule] - pairs.times[k])
            weight = max(discounted * scratch.factors[rules.lengths[rule]], rarest)
        summed += pairs.times[k] * np.log(weight)
        uses += pairs.times[k]
    return summed / uses if uses > 0 else np.nan


@njit
def _contains_words(rule, sides, scratch):
    """Check if a pair contains all words of a rule."""
    for k in range(sides.source_first[rule], sides.source_first[rule + 1]):
        if sides.source[k] >= 0 and not scratch.source_here[sides.source[k]]:
            return False
    for k in range(sides.target_first[rule], sides.target_first[rule + 1]):
        if sides.target[k] >= 0 and not scratch.target_here[sides.target[k]]:
            return False
    return True


@njit
def _choose_near(begin, end, rules, number, scratch):
    """Select the rules in a range that the pair can use, with weights from the other pairs' uses."""
    for k in range(begin, end):
        rule = rules.by_rarest_word[k]
        if _contains_words(rule, rules.sides, scratch):
            discounted = _discounted(rules, rules.uses[rule] - scratch.own_times[rule])
            weight = discounted * scratch.factors[rules.lengths[rule]]
            if weight > 0.0:
                if number < len(scratch.chosen.rule):
                    scratch.chosen.rule[number] = rule
                    scratch.chosen.weight[number] = weight
                number += 1
    return number


@njit
def _choose(rules, pairs, pair, scratch):
    """Select all rules that a pair can use; returns their number."""
    source = pairs.source[pairs.source_first[pair] : pairs.source_first[pair + 1]]
    target = pairs.target[pairs.target_first[pair] : pairs.target_first[pair + 1]]
    for word in source:
        if word >= 0:
            scratch.source_here[word] = True
    for word in target:
        if word >= 0:
            scratch.target_here[word] = True
    words = len(scratch.source_here) - 1
    last = len(rules.word_start) - 2
    number = _choose_near(rules.word_start[last], rules.word_start[last + 1], rules, np.int64(0), scratch)
    for k in range(len(source)):
        word = source[k]
        if word >= 0 and not _is_repeated(source, k):
            number = _choose_near(rules.word_start[word], rules.word_start[word + 1], rules, number, scratch)
    for k in range(len(target)):
        word = target[k]
        if word >= 0 and not _is_repeated(target, k):
            number = _choose_near(
                rules.word_start[words + word], rules.word_start[words + word + 1], rules, number, scratch
            )
    for k in range(pairs.rule_first[pair], pairs.rule_first[pair + 1]):
        if pairs.rule[k] >= 0:
            scratch.own_times[pairs.rule[k]] = 0
    for word in source:
        if word >= 0:
            scratch.source_here[word] = False
    for word in target:
        if word >= 0:
            scratch.target_here[word] = False
    return number


@njit
def _is_repeated(words, k):
    """Check if word k also occurs before position k."""
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
        best_back = 0
        for k in range(1, n):
            if _ratio(k, best, facts) > _ratio(best_back, best, facts):
                best_back = k
        if best_back == i and _ratio(i, best, facts) > 1:
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
            severed = 0.0
            for k in range(number):
                a, b = likely[k, 0], likely[k, 1]
                if piece.i <= a < piece.j and piece.x <= b < piece.y and (a < i) != (b < x):
                    severed += 1
            source_share = (i - piece.i) / (piece.j - piece.i)
            target_share = (x - piece.x) / (piece.y - piece.x)
            severed += abs(source_share - target_share)
            severed += max(abs(source_share - 0.5), abs(target_share - 0.5))
            if severed < best:
                best, source_cut, target_cut = severed, i, x
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
def _sum_pieces(rules, base, chosen, likely, max_cells, n, m, scratch):
    """Return ln of a pair's scaled sum, the base's words, and the number of pieces, 0 if seats lack room."""
    log_total, emitted = 0.0, 0.0
    number = 0
    _put(scratch.pieces, 0, 0, n, 0, m)
    stacked = 1
    while stacked > 0:
        stacked -= 1
        i, j, x, y = scratch.pieces[stacked]
        piece = PairPiece(i, j, x, y)
        divisible = min(j - i, y - x) > 1
        if not divisible or (j - i) * (y - x) <= max_cells:
            while True:
                total, words = sum_piece(
                    scratch.chosen,
                    chosen,
                    rules.sides,
                    scratch.words,
                    piece,
                    base,
                    scratch.null,
                    scratch.expected,
                    scratch.room,
                )
                if divisible or not (0 <= total <= MIN_TOTAL or total >= MAX_TOTAL):
                    break
                # Most words of one side are null here, so the scales are off: rescale and retry.
                _scale_piece(piece, 16.0 if total <= MIN_TOTAL else 1 / 16.0, scratch.words)
            if MIN_TOTAL < total < MAX_TOTAL:
                number += 1
                log_total += np.log(total)
                emitted += words
                continue
            if total < 0.0 and (not divisible or scratch.room.sizes[NEEDED] < _MAX_SEATS):
                return 0.0, 0.0, 0
        a, b = choose_cut(piece, scratch.likely, likely)
        _put(scratch.pieces, stacked, a, j, b, y)
        _put(scratch.pieces, stacked + 1, i, a, x, b)
        stacked += 2
    return log_total + (number - 1) * np.log(base.straight), emitted, number


@njit
def _list_links(pair, n, m, min_probability, first, scratch, scored):
    """Write the links of at least this probability, by source word, most probable first. Returns their number."""
    number = first
    for i in range(n):
        begin = number
        for x in range(m):
            probability = min(scratch.expected[i, x], 1.0)
            if probability >= min_probability:
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
    product = 2 * FEATURES
    for k in range(FEATURES):
        total += weights[k] * row[k] + weights[FEATURES + k] * min(row[k], 0.0)
        for second in range(k, FEATURES):
            total += weights[product] * row[k] * row[second]
            product += 1
    return total


@njit
def _find_misfits(pair, n, m, classifiers, scratch, scored):
    """Find the word of each side that belongs least."""
    for side in range(2):
        words = m if side == 1 else n
        fill_features(side, (n, m), scratch.facts, scratch.features)
        for k in range(words):
            odds = misfit_odds(side, scratch.features[k], classifiers)
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
    max_cells: int,
    min_probability: float,
    scratch: ScorerScratch,
    scored: Scored,
    links: int,
) -> tuple[int, int]:
    """Score pairs from index `begin`, links from index `links`; returns the next pair (if seats lack room) and link."""
    for pair in range(begin, len(pairs.source_first) - 1):
        source = pairs.source[pairs.source_first[pair] : pairs.source_first[pair + 1]]
        target = pairs.target[pairs.target_first[pair] : pairs.target_first[pair + 1]]
        n, m = len(source), len(target)
        facts = scratch.facts
        weigh_words(source, target, pair_contribution(pairs, pair), lexicon, facts)
        new_mass, total_uses = _fill_factors(rules, pairs, pair, scratch)
        scored.numbers[pair, DERIVATION] = _mean_weight(rules, pairs, pair, new_mass, total_uses, scratch)
        chosen = _choose(rules, pairs, pair, scratch)
        if chosen > len(scratch.chosen.rule):
            scratch.room.sizes[NEEDED] = -chosen
            return pair, links
        _scale_words(source, target, facts, scratch.words)
        likely = _find_likely(n, m, facts, scratch.likely)
        base = add_joins(
            scratch.chosen,
            chosen,
            rules.sides,
            BaseWeights(new_mass * _PAIR, new_mass * _NULL, new_mass * _STRAIGHT, new_mass * _INVERTED),
        )
        for i in range(n):
            scratch.expected[i, :m] = 0.0
        log_total, emitted, pieces = _sum_pieces(rules, base, chosen, likely, max_cells, n, m, scratch)
        if pieces == 0:
            return pair, links
        independent = 0.0
        for i in range(n):
            log_total -= np.log(scratch.words.source_scale[i])
            independent += np.log(facts.alone[0, i])
        for x in range(m):
            log_total -= np.log(scratch.words.target_scale[x])
            independent += np.log(facts.alone[1, x])
        scored.numbers[pair, LOG_PROBABILITY] = log_total
        scored.numbers[pair, INDEPENDENT] = independent
        scored.numbers[pair, UNSEEN] = emitted
        scored.numbers[pair, PIECES] = pieces
        links = _list_links(pair, n, m, min_probability, links, scratch, scored)
        _find_misfits(pair, n, m, classifiers, scratch, scored)
    return len(pairs.source_first) - 1, links


@njit
def list_features(
    pairs: ScoredPairs, lexicon: Lexicon, side: int, facts: PairFacts, features: NDArray[np.float64]
) -> None:
    """Fill the features of all words of one side of the pairs, in order, float64[words, 9]."""
    first = 0
    for pair in range(len(pairs.source_first) - 1):
        source = pairs.source[pairs.source_first[pair] : pairs.source_first[pair + 1]]
        target = pairs.target[pairs.target_first[pair] : pairs.target_first[pair + 1]]
        weigh_words(source, target, pair_contribution(pairs, pair), lexicon, facts)
        sizes = len(source), len(target)
        fill_features(side, sizes, facts, features[first : first + sizes[side]])
        first += sizes[side]


@njit
def weigh_derivations(
    pairs: ScoredPairs, rules: KnownRules, scratch: ScorerScratch, log_probabilities: NDArray[np.float64]
) -> None:
    """Compute the mean log probability of the rules of each pair's derivation, float64[P]; NaN without a derivation."""
    for pair in range(len(log_probabilities)):
        new_mass, total_uses = _fill_factors(rules, pairs, pair, scratch)
        log_probabilities[pair] = _mean_weight(rules, pairs, pair, new_mass, total_uses, scratch)
        for k in range(pairs.rule_first[pair], pairs.rule_first[pair + 1]):
            if pairs.rule[k] >= 0:
                scratch.own_times[pairs.rule[k]] = 0
