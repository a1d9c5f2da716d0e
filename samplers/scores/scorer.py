"""Scores of sentence pairs: probabilities under the learned grammar, mixed with a base distribution.

A stored pair is scored given all other pairs, so the words, links and rule uses that it contributes are subtracted. A
long pair is cut into pieces at positions that sever few likely links. Its score is then a lower bound, because
derivations across a cut are omitted. docs/model.md, section 8, has the equations.
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
    fill_facts,
    fill_features,
    make_facts,
)

_PAIR, _NULL, _STRAIGHT, _INVERTED = 0.5, 0.05, 0.25, 0.05
"""Probabilities of the rules of the base distribution, which add up to 1.

`_PAIR`: a word pair. `_NULL`: each of the four rules with a nonterminal and one word. `_STRAIGHT`, `_INVERTED`: two
nonterminals in straight or inverted order.
"""
_MIN_BASE_PROBABILITY = 1e-6
"""Minimum total probability of the rules of the base distribution."""
_MAX_MATCHES = 1 << 22
"""Maximum number of matches of source sides of rules in a chart. A piece with more matches is cut."""
EXPANDED = 2 * FEATURES + FEATURES * (FEATURES + 1) // 2 + 1
"""Number of a classifier's weights: features, min(feature, 0), products of two features, constant."""
MAX_FEATURE = 4.0
"""Maximum absolute value of a feature in standard deviations. Larger values are clipped."""
RESULT_SIZE = 6
LOG_PROBABILITY, INDEPENDENT, UNSEEN, PIECES, DERIVATION, LINKS = range(RESULT_SIZE)
"""Columns of `ScoreResults.numbers`."""


class KnownRules(NamedTuple):
    """R rules of the learned grammar, with a positive count and a length (`Rule.length`) below L."""

    sides: RuleSides
    # int64[R]: number of uses of each rule in all pairs.
    uses: NDArray[np.int64]
    # int32[R]: length of each rule.
    lengths: NDArray[np.int32]
    # bool[R]: False for rules that charts omit, because their scope is too large or they have an unknown word.
    usable: NDArray[np.bool_]
    # int32[usable rules]: usable rules, grouped by their rarest word. Rules without words are last.
    by_rarest_word: NDArray[np.int32]
    # int64[groups + 1]: index in `by_rarest_word` of the first rule of each group. Source word f has group f, and
    # target word e has group V + e, where V is the number of source words.
    word_start: NDArray[np.int64]
    # int64[L]: uses of all rules of each length.
    tokens: NDArray[np.int64]
    # float64[L]: sum of the discounted uses of all usable rules of each length.
    discounted: NDArray[np.float64]
    # float64[L]: probability of each length, 1 if `pooled`.
    length_prior: NDArray[np.float64]
    # Discount d and strength α of the Pitman-Yor process. d is 0 if `pooled`.
    discount: float
    strength: float
    # True if one distribution (a Dirichlet process) has the rules of all lengths.
    pooled: bool


class Classifiers(NamedTuple):
    """Classifiers of words that do not fit their pair, one per side. `prior` is NaN before training."""

    # float64[2, 9]: mean and standard deviation of each feature.
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    # float64[2, EXPANDED]: weights of each side's classifier.
    weights: NDArray[np.float64]
    # float64[2]: log-odds that a word was replaced in each classifier's training data.
    prior: NDArray[np.float64]


class PairsToScore(NamedTuple):
    """P sentence pairs, and what stored ones among them contribute to the lexicon and the rule counts.

    Pair p has the items `x_first[p]` to `x_first[p + 1]` - 1 of an array x. `x_first` is int64[P + 1].
    """

    # int32: words of each side, -1 for unknown words.
    source: NDArray[np.int32]
    source_first: NDArray[np.int64]
    target: NDArray[np.int32]
    target_first: NDArray[np.int64]
    # int32: words that stored pairs contribute to the lexicon, none for other pairs.
    own_source: NDArray[np.int32]
    own_source_first: NDArray[np.int64]
    own_target: NDArray[np.int32]
    own_target_first: NDArray[np.int64]
    # int32: source and target positions of links that stored pairs contribute.
    link_source: NDArray[np.int32]
    link_target: NDArray[np.int32]
    link_first: NDArray[np.int64]
    # int32: numbers of the rules in the derivations of stored pairs (-1 for a rule that the grammar no longer has), and
    # how often the pair uses each.
    rule: NDArray[np.int32]
    rule_uses: NDArray[np.int32]
    rule_first: NDArray[np.int64]


class ScoreResults(NamedTuple):
    """Results for P pairs."""

    # float64[P, RESULT_SIZE]: results by column. `LOG_PROBABILITY`: natural log of the pair's probability.
    # `INDEPENDENT`: natural log of the product of its words' unigram probabilities. `UNSEEN`: expected number of words
    # that the base distribution emits. `PIECES`: number of pieces. `DERIVATION`: mean log probability of the
    # derivation's rules, NaN without a derivation. `LINKS`: number of links.
    numbers: NDArray[np.float64]
    # float64[P, 2, 2]: position and log-odds (`misfit_odds`) of the word that fits least on each side.
    misfits: NDArray[np.float64]
    # int32[links, 2]: source position and target position of the links of all pairs, in order.
    links: NDArray[np.int32]
    # float64[links]: probability of each link.
    probabilities: NDArray[np.float64]


class ScorerScratch(NamedTuple):
    """Scratch memory of one thread.

    `null` float64[n]: scratch memory of `sum_piece`. `in_source`, `in_target` bool[V + 1]: True for words of the
    current pair. `own_uses` int32[R]: uses of each rule by the current pair. `factors` float64[L]: output of
    `_fill_factors`. `expected` float64[n, m]: expected links. `likely` int32[n, 2]: output of `_find_likely`. `pieces`
    int64[pieces, 4]: stack of pieces (i, j, x, y). `features` float64[n, FEATURES]: features of the words of one side.
    """

    dense: DenseScratch
    facts: PairFacts
    words: PairWords
    chosen: ChosenRules
    null: NDArray[np.float64]
    in_source: NDArray[np.bool_]
    in_target: NDArray[np.bool_]
    own_uses: NDArray[np.int32]
    factors: NDArray[np.float64]
    expected: NDArray[np.float64]
    likely: NDArray[np.int32]
    pieces: NDArray[np.int64]
    features: NDArray[np.float64]


class ScorerCapacities(NamedTuple):
    """Capacities of a thread: words per side, links and selected rules per pair, matches of these rules."""

    longest: int
    links: int
    rules: int
    matches: int


def make_scorer_scratch(rules: KnownRules, lexicon: Lexicon, sizes: ScorerCapacities, max_cells: int) -> ScorerScratch:
    """Allocate scratch memory for pieces of up to `max_cells` word pairs."""
    longest, number = sizes.longest, sizes.rules
    facts = make_facts(longest, sizes.links)
    numbers, weights = np.zeros((2, longest), np.int32), np.zeros((4, longest))
    symbols = int(
        max(np.diff(rules.sides.source_first).max(initial=1), np.diff(rules.sides.target_first).max(initial=1))
    )
    shapes = [(n, max(1, min(longest, max_cells // n))) for n in range(1, longest + 1)]
    max_matrices = max(matrices_size(n, m) for n, m in [*shapes, (1, longest)])
    return ScorerScratch(
        make_dense_scratch((longest, longest), max_matrices, number, symbols, sizes.matches),
        facts,
        PairWords(numbers[0], numbers[1], facts.joint, weights[0], weights[1], weights[2], weights[3]),
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
    if count <= 0:
        return 0.0
    return count - rules.discount * float(count) ** rules.discount


@njit
def _fill_factors(rules, pairs, pair, scratch):
    """Compute the factor of each length: rule probability divided by discounted uses in other pairs.

    Returns the total probability of new and unusable rules, which the base distribution gets, and the number of rule
    uses in other pairs.
    """
    factors = scratch.factors
    first, last = pairs.rule_first[pair], pairs.rule_first[pair + 1]
    longest = len(factors)
    for length in range(longest):
        factors[length] = rules.tokens[length]
    for k in range(first, last):
        rule = pairs.rule[k]
        if rule >= 0:
            factors[rules.lengths[rule]] -= pairs.rule_uses[k]
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
            less = _discounted(rules, count) - _discounted(rules, count - pairs.rule_uses[k])
            new_mass += less * factors[rules.lengths[rule]]
    return max(new_mass, _MIN_BASE_PROBABILITY), total_uses


@njit
def _mean_log_weight(rules, pairs, pair, new_mass, total_uses, scratch):
    """Return the mean log probability, with a floor, of a derivation's rules, or NaN without rules."""
    first, last = pairs.rule_first[pair], pairs.rule_first[pair + 1]
    floor = new_mass / max(total_uses, 1.0)
    summed, uses = 0.0, 0.0
    for k in range(first, last):
        rule = pairs.rule[k]
        weight = floor
        if rule >= 0:
            discounted = _discounted(rules, rules.uses[rule] - pairs.rule_uses[k])
            weight = max(discounted * scratch.factors[rules.lengths[rule]], floor)
        summed += pairs.rule_uses[k] * np.log(weight)
        uses += pairs.rule_uses[k]
    return summed / uses if uses > 0 else np.nan


@njit
def _contains_words(rule, sides, scratch):
    for k in range(sides.source_first[rule], sides.source_first[rule + 1]):
        if sides.source[k] >= 0 and not scratch.in_source[sides.source[k]]:
            return False
    for k in range(sides.target_first[rule], sides.target_first[rule + 1]):
        if sides.target[k] >= 0 and not scratch.in_target[sides.target[k]]:
            return False
    return True


@njit
def _select_in_group(group, rules, number, scratch):
    """Select a group's rules whose words are all in the pair. Returns `number` plus their number."""
    for k in range(rules.word_start[group], rules.word_start[group + 1]):
        rule = rules.by_rarest_word[k]
        if _contains_words(rule, rules.sides, scratch):
            discounted = _discounted(rules, rules.uses[rule] - scratch.own_uses[rule])
            weight = discounted * scratch.factors[rules.lengths[rule]]
            if weight > 0.0:
                if number < len(scratch.chosen.rule):
                    scratch.chosen.rule[number] = rule
                    scratch.chosen.weight[number] = weight
                number += 1
    return number


@njit
def _select_rules(rules, pairs, pair, scratch):
    """Select usable rules whose words are in a pair. Returns their number, which may exceed the capacity."""
    source = pairs.source[pairs.source_first[pair] : pairs.source_first[pair + 1]]
    target = pairs.target[pairs.target_first[pair] : pairs.target_first[pair + 1]]
    for k in range(pairs.rule_first[pair], pairs.rule_first[pair + 1]):
        if pairs.rule[k] >= 0:
            scratch.own_uses[pairs.rule[k]] += pairs.rule_uses[k]
    sides, marks = (source, target), (scratch.in_source, scratch.in_target)
    for side in range(2):
        for word in sides[side]:
            if word >= 0:
                marks[side][word] = True
    number = _select_in_group(len(rules.word_start) - 2, rules, np.int64(0), scratch)
    for side in range(2):
        first_group = 0 if side == 0 else len(scratch.in_source) - 1
        for k in range(len(sides[side])):
            word = sides[side][k]
            if word >= 0 and not _is_repeated(sides[side], k):
                number = _select_in_group(first_group + word, rules, number, scratch)
    for k in range(pairs.rule_first[pair], pairs.rule_first[pair + 1]):
        if pairs.rule[k] >= 0:
            scratch.own_uses[pairs.rule[k]] = 0
    for side in range(2):
        for word in sides[side]:
            if word >= 0:
                marks[side][word] = False
    return number


@njit
def _is_repeated(words, k):
    first = 0
    while words[first] != words[k]:
        first += 1
    return first < k


@njit
def _scale_words(source, target, facts, words):
    """Copy the words of a pair, with scale factors that make weights of likely word pairs about 16."""
    n, m = len(source), len(target)
    for i in range(n):
        best = facts.unigram[0, i] ** 2
        for x in range(m):
            best = max(best, facts.joint[i, x])
        words.source[i] = source[i]
        words.source_nulls[i] = facts.nulls[0, i]
        words.source_scale[i] = 4.0 / np.sqrt(best)
    for x in range(m):
        best = facts.unigram[1, x] ** 2
        for i in range(n):
            best = max(best, facts.joint[i, x])
        words.target[x] = target[x]
        words.target_nulls[x] = facts.nulls[1, x]
        words.target_scale[x] = 4.0 / np.sqrt(best)


@njit
def _find_likely(n, m, facts, likely):
    """Write the links that are best for both words and likelier than chance. Returns their number."""
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
            likely[number, 0], likely[number, 1] = i, best
            number += 1
    return number


@njit
def _ratio(i, x, facts):
    return facts.joint[i, x] / (facts.unigram[0, i] * facts.unigram[1, x])


@njit
def choose_cut(piece, likely, number):
    """Cut a piece near its middle, severing few of `number` likely links. Returns (source, target) cut."""
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
def _put_piece(pieces, row, i, j, x, y):
    pieces[row, 0], pieces[row, 1], pieces[row, 2], pieces[row, 3] = i, j, x, y


@njit
def _sum_in_range(rules, base, chosen_rules, piece, divisible, scratch):
    """Return the results of `sum_piece`. Rescales words until the sum of an indivisible piece is in range."""
    words = scratch.words
    while True:
        total, base_words = sum_piece(
            scratch.chosen, chosen_rules, rules.sides, words, piece, base, scratch.null, scratch.expected, scratch.dense
        )
        if divisible or not (0 <= total <= MIN_TOTAL or total >= MAX_TOTAL):
            return total, base_words
        # The total is out of range, because the scales assume linked words, but most words of the longer side are null
        # in this piece. Rescale this side and retry.
        factor = 16.0 if total <= MIN_TOTAL else 1 / 16.0
        if piece.j - piece.i > piece.y - piece.x:
            for k in range(piece.i, piece.j):
                words.source_scale[k] *= factor
        else:
            for k in range(piece.x, piece.y):
                words.target_scale[k] *= factor


@njit
def _sum_pieces(rules, base, chosen_rules, likely_links, max_cells, n, m, scratch):
    """Return (ln of the scaled sum, expected words of the base, pieces), or 0 pieces if out of memory."""
    log_total, emitted = 0.0, 0.0
    number = 0
    _put_piece(scratch.pieces, 0, 0, n, 0, m)
    stacked = 1
    while stacked > 0:
        stacked -= 1
        i, j, x, y = scratch.pieces[stacked]
        piece = PairPiece(i, j, x, y)
        divisible = min(j - i, y - x) > 1
        if not divisible or (j - i) * (y - x) <= max_cells:
            total, base_words = _sum_in_range(rules, base, chosen_rules, piece, divisible, scratch)
            if MIN_TOTAL < total < MAX_TOTAL:
                number += 1
                log_total += np.log(total)
                emitted += base_words
                continue
            if total < 0.0 and (not divisible or scratch.dense.sizes[NEEDED] < _MAX_MATCHES):
                return 0.0, 0.0, 0
        a, b = choose_cut(piece, scratch.likely, likely_links)
        _put_piece(scratch.pieces, stacked, a, j, b, y)
        _put_piece(scratch.pieces, stacked + 1, i, a, x, b)
        stacked += 2
    return log_total + (number - 1) * np.log(base.straight), emitted, number


@njit
def _list_links(pair, n, m, min_probability, first, scratch, scored):
    """Write links of at least `min_probability` by source word, best first. Returns the next link index."""
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
                scored.links[k, 0], scored.links[k, 1], scored.probabilities[k] = i, x, probability
                number += 1
    scored.numbers[pair, LINKS] = number - first
    return number


@njit
def misfit_odds(side, row, classifiers):
    """Return the log-odds that a word was replaced, at prior odds of 1. Standardizes `row` in place."""
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
    for side in range(2):
        words = m if side == 1 else n
        fill_features(side, (n, m), scratch.facts, scratch.features)
        for k in range(words):
            odds = misfit_odds(side, scratch.features[k], classifiers)
            if k == 0 or odds > scored.misfits[pair, side, 1]:
                scored.misfits[pair, side, 0], scored.misfits[pair, side, 1] = k, odds


@njit
def _pair_contribution(pairs, pair):
    links = slice(pairs.link_first[pair], pairs.link_first[pair + 1])
    source = slice(pairs.own_source_first[pair], pairs.own_source_first[pair + 1])
    target = slice(pairs.own_target_first[pair], pairs.own_target_first[pair + 1])
    return PairContribution(
        (pairs.own_source[source], pairs.own_target[target]), (pairs.link_source[links], pairs.link_target[links])
    )


@njit
def score_pairs(
    begin: int,
    pairs: PairsToScore,
    rules: KnownRules,
    lexicon: Lexicon,
    classifiers: Classifiers,
    max_cells: int,
    min_probability: float,
    scratch: ScorerScratch,
    scored: ScoreResults,
    links: int,
) -> tuple[int, int]:
    """Score pairs from index `begin` on, and write their links from index `links` on.

    Pieces have up to `max_cells` word pairs, unless one side is a single word. Links below `min_probability` are
    omitted. Returns the indices of the next pair and the next link. Stops before a pair that needs more rules or
    matches than `scratch` has room for. Then `scratch.dense.sizes[NEEDED]` is the number of matches, or minus the
    number of rules.
    """
    for pair in range(begin, len(pairs.source_first) - 1):
        source = pairs.source[pairs.source_first[pair] : pairs.source_first[pair + 1]]
        target = pairs.target[pairs.target_first[pair] : pairs.target_first[pair + 1]]
        n, m = len(source), len(target)
        facts = scratch.facts
        fill_facts(source, target, _pair_contribution(pairs, pair), lexicon, facts)
        new_mass, total_uses = _fill_factors(rules, pairs, pair, scratch)
        scored.numbers[pair, DERIVATION] = _mean_log_weight(rules, pairs, pair, new_mass, total_uses, scratch)
        chosen_rules = _select_rules(rules, pairs, pair, scratch)
        if chosen_rules > len(scratch.chosen.rule):
            scratch.dense.sizes[NEEDED] = -chosen_rules
            return pair, links
        _scale_words(source, target, facts, scratch.words)
        likely_links = _find_likely(n, m, facts, scratch.likely)
        base = add_joins(
            scratch.chosen,
            chosen_rules,
            rules.sides,
            BaseWeights(new_mass * _PAIR, new_mass * _NULL, new_mass * _STRAIGHT, new_mass * _INVERTED),
        )
        for i in range(n):
            scratch.expected[i, :m] = 0.0
        log_total, emitted, pieces = _sum_pieces(rules, base, chosen_rules, likely_links, max_cells, n, m, scratch)
        if pieces == 0:
            return pair, links
        independent = 0.0
        for i in range(n):
            log_total -= np.log(scratch.words.source_scale[i])
            independent += np.log(facts.unigram[0, i])
        for x in range(m):
            log_total -= np.log(scratch.words.target_scale[x])
            independent += np.log(facts.unigram[1, x])
        scored.numbers[pair, LOG_PROBABILITY] = log_total
        scored.numbers[pair, INDEPENDENT] = independent
        scored.numbers[pair, UNSEEN] = emitted
        scored.numbers[pair, PIECES] = pieces
        links = _list_links(pair, n, m, min_probability, links, scratch, scored)
        _find_misfits(pair, n, m, classifiers, scratch, scored)
    return len(pairs.source_first) - 1, links


@njit
def list_features(
    pairs: PairsToScore, lexicon: Lexicon, side: int, facts: PairFacts, features: NDArray[np.float64]
) -> None:
    """Fill `features` float64[words, 9] with the features of the words of one side of all pairs, in order."""
    first = 0
    for pair in range(len(pairs.source_first) - 1):
        source = pairs.source[pairs.source_first[pair] : pairs.source_first[pair + 1]]
        target = pairs.target[pairs.target_first[pair] : pairs.target_first[pair + 1]]
        fill_facts(source, target, _pair_contribution(pairs, pair), lexicon, facts)
        sizes = len(source), len(target)
        fill_features(side, sizes, facts, features[first : first + sizes[side]])
        first += sizes[side]


@njit
def weigh_derivations(
    pairs: PairsToScore, rules: KnownRules, scratch: ScorerScratch, log_probabilities: NDArray[np.float64]
) -> None:
    """Fill `log_probabilities` float64[P] with the column `DERIVATION` of each pair's results."""
    for pair in range(len(log_probabilities)):
        new_mass, total_uses = _fill_factors(rules, pairs, pair, scratch)
        log_probabilities[pair] = _mean_log_weight(rules, pairs, pair, new_mass, total_uses, scratch)
