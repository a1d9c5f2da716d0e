"""Model of ITG derivations: rule types, emissions by Dirichlet processes, and their bases [BC10 §1].

Each of the R distinct rules of a batch has a number. The order is straight, inverted, null emissions of distinct source
words and target words, types of word pairs, then types of phrase pairs. `kind` is the type of an emission: `PAIR` (also
of phrase pairs), `SOURCE_NULL` or `TARGET_NULL`.

docs/model.md, section 7, has the equations of the model (DeNero, Bouchard-Côté & Klein 2008). P_f, P_e and the
strengths can be resampled after each sweep, given the derivations [Teh et al. 2006 §5.3; Neal 2003].
The base distribution of emissions uses IBM Model 1 in both directions [Brown et al. 1993], in which each sentence has
the empty word as an additional conditioning word.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.powers import log_rising
from hierogram.samplers.compiled.streams import advance, draw_gamma, draw_tables, mix, slice_sample, stream, uniform
from hierogram.samplers.itg.batch import BINARY_TYPES, ItgBatch, first_pair_rule, phrase_offset, phrase_type
from hierogram.samplers.itg.derivations import (
    PAIR,
    RULE_TYPES,
    SOURCE_NULL,
    TARGET_NULL,
    rule_type,
    source_words,
    target_words,
)

PAIR_STRENGTH, SOURCE_NULL_STRENGTH, TARGET_NULL_STRENGTH, SOURCE_STRENGTH, TARGET_STRENGTH = range(5)
"""Indices of strengths: α of word and phrase pairs, source nulls and target nulls; γ of P_f and P_e."""
STRENGTHS = ("pair", "source null", "target null", "source", "target")
"""Names of the strengths, by index."""

TYPE_PRIOR = 1.0
"""Parameter of the symmetric Dirichlet prior on rule types."""


@dataclass(frozen=True, slots=True)
class ItgSettings:
    """Settings of ITG sampling.

    - `slice_shape`: parameter a. An emission of probability p outside the derivation survives with probability p^a, so
      smaller values prune less.
    - `long_shape`: parameter a for pairs whose full chart needs more than `short_chart` combinations of two cells (by
      default from 41 words per side on). None: equal to `slice_shape`, as Beta slices require.
    - `strengths`: initial strengths of word and phrase pairs, source nulls, target nulls, P_f and P_e (indices
      `PAIR_STRENGTH` to `TARGET_STRENGTH`).
    - `sampled_strengths`: True if the strengths are resampled after each sweep.
    - `sampled_words`: True if P_f and P_e are resampled. Otherwise they are the relative word frequencies.
    - `phrase_end`: base probability that a phrase ends after each of its words.
    """

    slice_shape: float = 0.15
    strengths: tuple[float, float, float, float, float] = (100.0, 10.0, 10.0, 100.0, 100.0)
    sampled_strengths: bool = True
    sampled_words: bool = True
    long_shape: float | None = None
    short_chart: int = 300_000_000
    phrase_end: float = 0.8


ITERATIONS = 10
"""Number of EM iterations of Model 1."""
SMOOTHING = 0.01
"""Weight of the uniform distribution over the vocabulary in each translation probability."""


class Model1(NamedTuple):
    """Translation probabilities in both directions, linear."""

    # float64[T]: P(e | f) and P(f | e) of each type of word pairs.
    target: NDArray[np.float64]
    source: NDArray[np.float64]
    # float64[Ve], float64[Vf]: P(e | empty word) and P(f | empty word) of each word.
    null_target: NDArray[np.float64]
    null_source: NDArray[np.float64]


@njit
def _expect(batch, from_source, p, null, expected, expected_null):
    words, offset = batch.source, batch.source_offset
    if from_source:
        words, offset = batch.target, batch.target_offset
    for pair in range(len(batch.pairs)):
        width = batch.target_offset[pair + 1] - batch.target_offset[pair]
        height = batch.source_offset[pair + 1] - batch.source_offset[pair]
        # Cells are stored row by row, so the distance between cells of adjacent words depends on the direction.
        given, given_stride, step = (height, width, 1) if from_source else (width, 1, width)
        for k in range(offset[pair + 1] - offset[pair]):
            word = words[offset[pair] + k]
            first = batch.cell_offset[pair] + k * step
            mass = null[word]
            for i in range(given):
                mass += p[batch.types[first + i * given_stride]]
            expected_null[word] += null[word] / mass
            for i in range(given):
                t = batch.types[first + i * given_stride]
                expected[t] += p[t] / mass


def _train(
    batch: ItgBatch, from_source: bool, prior: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return P(emitted | given) of each type, and P(emitted | empty word) of each emitted word."""
    given, words = batch.type_target, batch.source_words
    if from_source:
        given, words = batch.type_source, batch.target_words
    prior_counts = np.zeros(len(given)) if prior is None else prior
    p, null = np.full(len(given), 1.0 / max(words, 1)) + prior_counts, np.full(words, 1.0 / max(words, 1))
    for _ in range(ITERATIONS):
        expected, expected_null = prior_counts.copy(), np.zeros(words)
        _expect(batch, from_source, p, null, expected, expected_null)
        totals = np.bincount(given, expected)
        p = expected / np.maximum(totals[given], 1e-300)
        null = expected_null / max(expected_null.sum(), 1e-300)
    smoothed = SMOOTHING / max(words, 1)
    return (1 - SMOOTHING) * p + smoothed, (1 - SMOOTHING) * null + smoothed


def train_model1(batch: ItgBatch, prior: NDArray[np.float64] | None = None) -> Model1:
    """Train Model 1 on a batch in both directions.

    `prior` float64[T] is added to the expected count of each type in each iteration, and to the initial probability.
    """
    target, null_target = _train(batch, True, prior)
    source, null_source = _train(batch, False, prior)
    return Model1(target, source, null_target, null_source)


class Base(NamedTuple):
    """Factors of the base distributions, linear."""

    # float64[R]: factor of each emission, by rule number: [P_M1(e|f) P_M1(f|e) P(lengths)]^(1/2) of word pairs and
    # phrase pairs, P_M1(f|ε)^(1/2) and P_M1(e|ε)^(1/2) of null emissions. Fixed.
    lexical: NDArray[np.float64]
    # float64[Vf], float64[Ve]: P_f(f)^(1/2) and P_e(e)^(1/2) of each word.
    source: NDArray[np.float64]
    target: NDArray[np.float64]
    # float64[5]: strengths, by `PAIR_STRENGTH` and the other indices.
    strengths: NDArray[np.float64]


class ItgCounts(NamedTuple):
    """Numbers of uses in all derivations: int32[R] by rule number, and int64[5] by rule type."""

    uses: NDArray[np.int32]
    rules: NDArray[np.int64]


@njit
def _weigh_phrases(batch, model1, lengths, lexical):
    """Write phrase pairs' lexical factors. `lengths` float64[L]: square roots of length probabilities."""
    sizes, first = batch.phrases.sizes, batch.phrases.first
    for q in range(len(sizes)):
        height, width, cell, step = np.int64(sizes[q, 0]), np.int64(sizes[q, 1]), first[q, 2], first[q, 3]
        p = 1.0
        for x in range(width):
            total = 0.0
            for i in range(height):
                total += model1.target[batch.types[cell + i * step + x]]
            p *= total / height
        for i in range(height):
            total = 0.0
            for x in range(width):
                total += model1.source[batch.types[cell + i * step + x]]
            p *= total / width
        lexical[q] = lengths[height - 1] * lengths[width - 1] * math.sqrt(p)


def make_base(batch: ItgBatch, model1: Model1, settings: ItgSettings) -> Base:
    """Return the initial base distributions, with P_f and P_e as relative word frequencies."""
    # The length of a phrase has a geometric distribution, truncated at the longest phrase.
    lengths = settings.phrase_end * (1.0 - settings.phrase_end) ** np.arange(batch.phrases.longest)
    lengths = np.sqrt(lengths / lengths.sum())
    words = lengths[0] ** 2 * np.sqrt(model1.source * model1.target)
    nulls = np.sqrt(model1.null_source), np.sqrt(model1.null_target)
    phrases = np.empty(len(batch.phrases.sizes))
    _weigh_phrases(batch, model1, lengths, phrases)
    return Base(
        np.concatenate([np.zeros(BINARY_TYPES), *nulls, words, phrases]),
        np.sqrt(np.bincount(batch.source, minlength=batch.source_words) / max(len(batch.source), 1)),
        np.sqrt(np.bincount(batch.target, minlength=batch.target_words) / max(len(batch.target), 1)),
        np.array(settings.strengths),
    )


@njit
def _phrase_mass(batch, base, number):
    q = number - first_pair_rule(batch) - len(batch.type_source)
    mass = base.strengths[PAIR_STRENGTH] * base.lexical[number]
    for at in range(batch.phrases.first[q, 0], batch.phrases.first[q, 0] + batch.phrases.sizes[q, 0]):
        mass *= base.source[batch.source[at]]
    for at in range(batch.phrases.first[q, 1], batch.phrases.first[q, 1] + batch.phrases.sizes[q, 1]):
        mass *= base.target[batch.target[at]]
    return mass


@njit_inline
def emission_mass(batch, base, kind, number):
    """Return α times the base probability of the emission with this rule number and kind, linear."""
    mass = base.strengths[kind - PAIR] * base.lexical[number]
    if kind == SOURCE_NULL:
        return mass * base.source[number - BINARY_TYPES]
    if kind == TARGET_NULL:
        return mass * base.target[number - BINARY_TYPES - batch.source_words]
    pair_type = number - first_pair_rule(batch)
    if pair_type >= len(batch.type_source):
        return _phrase_mass(batch, base, number)
    return mass * base.source[batch.type_source[pair_type]] * base.target[batch.type_target[pair_type]]


@njit_inline
def emission_range(batch, kind):
    """Return the half-open range of the rule numbers of a kind of emissions."""
    if kind == SOURCE_NULL:
        return BINARY_TYPES, BINARY_TYPES + batch.source_words
    if kind == TARGET_NULL:
        return BINARY_TYPES + batch.source_words, first_pair_rule(batch)
    return first_pair_rule(batch), first_pair_rule(batch) + len(batch.type_source) + len(batch.phrases.sizes)


@njit_inline
def rule_number(batch, pair, rule, i, x):
    """Return the number of a rule. An emission begins at source word i and target word x."""
    if rule < PAIR:
        return np.int64(rule)
    if rule == SOURCE_NULL:
        return BINARY_TYPES + np.int64(batch.source[batch.source_offset[pair] + i])
    if rule == TARGET_NULL:
        return BINARY_TYPES + batch.source_words + np.int64(batch.target[batch.target_offset[pair] + x])
    return first_pair_rule(batch) + np.int64(phrase_type(batch, pair, i, x, source_words(rule), target_words(rule)))


@njit_inline
def count_rule(batch, pair, counts, rule, i, x, change):
    """Add `change` to the counts of a rule. The arguments are as in `rule_number`."""
    counts.rules[rule_type(rule)] += change
    counts.uses[rule_number(batch, pair, rule, i, x)] += change


@njit
def count_derivation(batch, pair, nodes, length, counts, change):
    """Add `change` to the counts of each rule of a derivation, given its nodes."""
    for at in range(length):
        count_rule(batch, pair, counts, np.int64(nodes[at]["rule"]), nodes[at]["i"], nodes[at]["x"], change)


@njit_inline
def rule_mass(counts):
    """Return the denominator of rule type probabilities: the number of rule uses plus all type priors."""
    total = RULE_TYPES * TYPE_PRIOR
    for rule in range(RULE_TYPES):
        total += counts.rules[rule]
    return total


@njit
def _weigh_pair_phrases(batch, pair, base, counts, scale, weights):
    longest = batch.phrases.longest
    shapes = longest * longest - 1
    height = batch.source_offset[pair + 1] - batch.source_offset[pair]
    width = batch.target_offset[pair + 1] - batch.target_offset[pair]
    cell = batch.cell_offset[pair] * shapes
    for i in range(height):
        for x in range(width):
            for shape in range(shapes):
                pair_type = batch.phrases.types[cell]
                weights.pairs[i, x, shape + 1] = 0.0
                if pair_type >= 0:
                    number = first_pair_rule(batch) + np.int64(pair_type)
                    mass = _phrase_mass(batch, base, number)
                    weights.pairs[i, x, shape + 1] = scale * (counts.uses[number] + mass)
                cell += 1


@njit
def weigh_rules(batch, pair, base, counts, weights):
    """Set `weights` to the probabilities of a pair's rules. The counts must exclude its derivation."""
    s, t = batch.source_offset[pair], batch.target_offset[pair]
    height, width = batch.source_offset[pair + 1] - s, batch.target_offset[pair + 1] - t
    total = rule_mass(counts)
    for rule in range(RULE_TYPES):
        weights.rules[rule] = (counts.rules[rule] + TYPE_PRIOR) / total
    scale = weights.rules[PAIR] / (counts.rules[PAIR] + base.strengths[PAIR_STRENGTH])
    cell = batch.cell_offset[pair]
    for i in range(height):
        mass = base.strengths[PAIR_STRENGTH] * base.source[batch.source[s + i]]
        for x in range(width):
            number = first_pair_rule(batch) + np.int64(batch.types[cell + x])
            base_mass = mass * base.lexical[number] * base.target[batch.target[t + x]]
            weights.pairs[i, x, 0] = scale * (counts.uses[number] + base_mass)
        cell += width
    if batch.phrases.longest > 1:
        _weigh_pair_phrases(batch, pair, base, counts, scale, weights)
    scale = weights.rules[SOURCE_NULL] / (counts.rules[SOURCE_NULL] + base.strengths[SOURCE_NULL_STRENGTH])
    for i in range(height):
        number = BINARY_TYPES + np.int64(batch.source[s + i])
        weights.source_nulls[i] = scale * (counts.uses[number] + emission_mass(batch, base, SOURCE_NULL, number))
    scale = weights.rules[TARGET_NULL] / (counts.rules[TARGET_NULL] + base.strengths[TARGET_NULL_STRENGTH])
    for x in range(width):
        number = BINARY_TYPES + batch.source_words + np.int64(batch.target[t + x])
        weights.target_nulls[x] = scale * (counts.uses[number] + emission_mass(batch, base, TARGET_NULL, number))


@njit_inline
def add_rule(batch, pair, base, counts, rule, i, x):
    """Count a rule, as in `rule_number`. Returns its probability before it is counted, linear."""
    kind, number = rule_type(rule), rule_number(batch, pair, rule, i, x)
    p = (counts.rules[kind] + TYPE_PRIOR) / rule_mass(counts)
    if rule >= PAIR:
        mass = emission_mass(batch, base, kind, number)
        p *= (counts.uses[number] + mass) / (counts.rules[kind] + base.strengths[kind - PAIR])
    counts.uses[number] += 1
    counts.rules[kind] += 1
    return p


@njit_inline
def frozen_weight(weights, rule, i, x):
    """Return the weight of a rule in `weights`. The arguments are as in `rule_number`."""
    if rule < PAIR:
        return weights.rules[rule]
    if rule == SOURCE_NULL:
        return weights.source_nulls[i]
    if rule == TARGET_NULL:
        return weights.target_nulls[x]
    return weights.pairs[i, x, phrase_offset(weights.size[2], source_words(rule), target_words(rule))]


@njit
def add_sequentially(batch, pair, base, nodes, length, counts, weights):
    """Count a derivation's rules one by one. Returns its probability / the product of its frozen weights.

    The probability is given the counts before. The ratio is near 1. Weights are frozen during a draw, and ignore that
    each use makes a rule more probable. The ratio corrects this.
    """
    ratio = 1.0
    for at in range(length):
        rule, i, x = np.int64(nodes[at]["rule"]), np.int64(nodes[at]["i"]), np.int64(nodes[at]["x"])
        frozen = frozen_weight(weights, rule, i, x)
        ratio *= add_rule(batch, pair, base, counts, rule, i, x) / frozen
    return ratio


@njit
def log_likelihood(batch, base, counts):
    """Return the natural log probability of all derivations, given base distributions and strengths."""
    total = 0
    likelihood = 0.0
    for rule in range(RULE_TYPES):
        total += counts.rules[rule]
        likelihood += log_rising(TYPE_PRIOR, math.log(TYPE_PRIOR), counts.rules[rule])
    likelihood -= log_rising(RULE_TYPES * TYPE_PRIOR, math.log(RULE_TYPES * TYPE_PRIOR), total)
    for kind in (PAIR, SOURCE_NULL, TARGET_NULL):
        first, end = emission_range(batch, kind)
        for number in range(first, end):
            if counts.uses[number]:
                mass = emission_mass(batch, base, kind, number)
                likelihood += log_rising(mass, math.log(mass), counts.uses[number])
    for kind in (PAIR, SOURCE_NULL, TARGET_NULL):
        strength = base.strengths[kind - PAIR]
        likelihood -= log_rising(strength, math.log(strength), counts.rules[kind])
    return likelihood


DRAWS_PER_TABLE = 0.5
"""Draws of a word from P_f or P_e per table: 1/2, because M0 has the square roots of both."""
STRENGTH_SHAPE, STRENGTH_RATE = 1.0, 0.001
"""Shape and rate of the Gamma prior of each strength."""

_TABLES, _STRENGTHS, _WORDS = -1, -2, -3
"""Keys of random streams of variables other than derivations. They differ from the keys of pairs."""


class Tables(NamedTuple):
    """Numbers of tables of emissions in their Chinese restaurant processes, and of draws from P_f and P_e."""

    # int32[R], int64[3]: number of tables by rule number of the emission, and by kind - `PAIR`.
    numbers: NDArray[np.int32]
    totals: NDArray[np.int64]
    # float64[Vf], float64[Ve]: number of draws of each word from P_f and from P_e, a multiple of 1/2.
    source: NDArray[np.float64]
    target: NDArray[np.float64]


@njit_inline
def _add_draws(batch, kind, index, draws, tables):
    """Add draws of the words of an emission. `index` is its number among the emissions of its kind."""
    if kind == SOURCE_NULL:
        tables.source[index] += draws
    elif kind == TARGET_NULL:
        tables.target[index] += draws
    elif index < len(batch.type_source):
        tables.source[batch.type_source[index]] += draws
        tables.target[batch.type_target[index]] += draws
    else:
        q = index - len(batch.type_source)
        for at in range(batch.phrases.first[q, 0], batch.phrases.first[q, 0] + batch.phrases.sizes[q, 0]):
            tables.source[batch.source[at]] += draws
        for at in range(batch.phrases.first[q, 1], batch.phrases.first[q, 1] + batch.phrases.sizes[q, 1]):
            tables.target[batch.target[at]] += draws


@njit
def draw_all_tables(batch, base, counts, key, sweep, tables):
    """Sample the table count of each emission given the base, and sum the draws of each word."""
    tables.source[:] = 0.0
    tables.target[:] = 0.0
    tables.totals[:] = 0
    visit = stream(key, _TABLES, sweep)
    for kind in (PAIR, SOURCE_NULL, TARGET_NULL):
        first, end = emission_range(batch, kind)
        for number in range(first, end):
            tables.numbers[number] = 0
            if counts.uses[number] > 0:
                mass = emission_mass(batch, base, kind, number)
                stream_state = mix(visit + np.uint64(3 * (number - first) + kind - PAIR))
                drawn, stream_state = draw_tables(counts.uses[number], mass, stream_state)
                tables.numbers[number] = drawn
                tables.totals[kind - PAIR] += drawn
                _add_draws(batch, kind, number - first, DRAWS_PER_TABLE * drawn, tables)


@njit
def _log_process(log_strength, parameters):
    """Return ln p(ln α | tables) up to a constant. `parameters` is (tables, emissions)."""
    tables, emissions = parameters
    strength = math.exp(log_strength)
    density = (STRENGTH_SHAPE + tables) * log_strength - STRENGTH_RATE * strength
    return density + math.lgamma(strength) - math.lgamma(strength + emissions)


@njit
def _log_words(log_strength, draws):
    """Return ln p(ln γ | draws) up to a constant. `draws` float64[V] has the number of draws of each word."""
    strength = math.exp(log_strength)
    share = strength / len(draws)
    density = STRENGTH_SHAPE * log_strength - STRENGTH_RATE * strength + math.lgamma(strength)
    total = 0.0
    zero = math.lgamma(share)
    for word in range(len(draws)):
        if draws[word] > 0.0:
            density += math.lgamma(share + draws[word]) - zero
            total += draws[word]
    return density - math.lgamma(strength + total)


@njit
def draw_strengths(base, counts, tables, key, sweep):
    """Resample all strengths in `base` given the `tables` of this sweep, by slice sampling of their logs."""
    stream_state = stream(key, _STRENGTHS, sweep)
    strengths = base.strengths
    for index in range(len(tables.totals)):
        parameters = (float(tables.totals[index]), float(counts.rules[PAIR + index]))
        at, stream_state = slice_sample(_log_process, parameters, math.log(strengths[index]), stream_state)
        strengths[index] = math.exp(at)
    for index, draws in enumerate((tables.source, tables.target), SOURCE_STRENGTH):
        at, stream_state = slice_sample(_log_words, draws, math.log(strengths[index]), stream_state)
        strengths[index] = math.exp(at)


@njit
def _draw_words(strength, draws, visit, to):
    share = strength / len(draws)
    total = 0.0
    for word in range(len(draws)):
        # `draw_gamma` requires a shape >= 1, so draw with shape + 1 and correct the draw [Marsaglia & Tsang 2000 §6].
        shape = share + draws[word]
        x, stream_state = draw_gamma(shape + 1.0, mix(visit + np.uint64(word)))
        to[word] = x * (1.0 - uniform(advance(stream_state))) ** (1.0 / shape)
        total += to[word]
    for word in range(len(draws)):
        to[word] = math.sqrt(to[word] / total)


@njit
def draw_words(base, tables, key, sweep):
    """Resample P_f and P_e in `base` given the `tables` of this sweep and the strengths."""
    _draw_words(base.strengths[SOURCE_STRENGTH], tables.source, stream(key, _WORDS, sweep), base.source)
    _draw_words(base.strengths[TARGET_STRENGTH], tables.target, mix(stream(key, _WORDS, sweep)), base.target)
