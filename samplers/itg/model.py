"""Model of ITG derivations: rule types, Dirichlet process emissions, and their base distributions [BC10 §1].

docs/model.md, section 7, has the equations (DeNero, Bouchard-Côté & Klein 2008). Base distributions and strengths are
resampled after each sweep given the derivations [Teh et al. 2006 §5.3; Neal 2003].
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, mix, stream, uniform
from hierogram.samplers.compiled.variates import draw_gamma, slice_sample
from hierogram.samplers.itg.batch import ItgBatch, phrase_offset, phrase_type
from hierogram.samplers.itg.derivations import (
    PAIR,
    RULE_TYPES,
    SOURCE_NULL,
    TARGET_NULL,
    rule_type,
    source_words,
    target_words,
)
from hierogram.samplers.itg.model1 import Model1

PAIR_STRENGTH, SOURCE_NULL_STRENGTH, TARGET_NULL_STRENGTH, SOURCE_STRENGTH, TARGET_STRENGTH = range(5)
"""Indices of the strengths: α of the processes of word pairs, source nulls and target nulls; γ of P_f and P_e."""
STRENGTHS = ("pair", "source null", "target null", "source", "target")

TYPE_PRIOR = 1.0
"""Parameter of the symmetric Dirichlet prior on rule types."""


@dataclass(frozen=True, slots=True)
class ItgSettings:
    """Settings of ITG sampling.

    Attributes
    ----------
    slice_shape
        a of the Beta(a, 1) distribution of slice variables outside the derivation; smaller values prune less.
    long_shape
        a for pairs whose full chart needs more than `short_chart` products (41 words per side); None: as `slice_shape`.
    strengths, sampled_strengths
        Initial strengths, and whether they are resampled after each sweep.
    sampled_words
        True if P_f and P_e are resampled; otherwise they stay the relative word frequencies.
    phrase_end
        Probability in the base distribution that a phrase ends after each word.
    """

    slice_shape: float = 0.15
    strengths: tuple[float, float, float, float, float] = (100.0, 10.0, 10.0, 100.0, 100.0)
    sampled_strengths: bool = True
    sampled_words: bool = True
    long_shape: float | None = None
    short_chart: int = 300_000_000
    phrase_end: float = 0.8


class Base(NamedTuple):
    """Parts of the base distributions, linear."""

    # float64[T]: [P_M1(e|f) P_M1(f|e)]^(1/2) of each type; for phrase pairs times the root of the probability of their
    # lengths. Fixed.
    lexical: NDArray[np.float64]
    # float64[Vf], float64[Ve]: P_M1(f|ε)^(1/2) and P_M1(e|ε)^(1/2). Fixed.
    null_source: NDArray[np.float64]
    null_target: NDArray[np.float64]
    # float64[Vf], float64[Ve]: roots of P_f and P_e, resampled after each sweep.
    source: NDArray[np.float64]
    target: NDArray[np.float64]
    # float64[5]: resampled after each sweep.
    strengths: NDArray[np.float64]


class ItgCounts(NamedTuple):
    """Rule counts.

    `pairs` int32[T] includes phrase pairs; `source_nulls` int32[Vf], `target_nulls` int32[Ve], `rules` int64[5].
    """

    pairs: NDArray[np.int32]
    source_nulls: NDArray[np.int32]
    target_nulls: NDArray[np.int32]
    rules: NDArray[np.int64]


@njit
def _weigh_phrases(batch, model1, lengths, lexical):
    """Write the lexical part of each phrase pair; `lengths` float64[L] are roots of length probabilities.

    All words of the other side generate each word with equal probability.
    """
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


def _lexical(batch: ItgBatch, model1: Model1, settings: ItgSettings) -> NDArray[np.float64]:
    """Return the lexical part of every type; lengths are geometric, truncated at the longest phrase."""
    lengths = settings.phrase_end * (1.0 - settings.phrase_end) ** np.arange(batch.phrases.longest)
    lengths = np.sqrt(lengths / lengths.sum())
    words = len(batch.type_source)
    lexical = np.empty(batch.emitted_types)
    lexical[:words] = lengths[0] ** 2 * np.sqrt(model1.source * model1.target)
    _weigh_phrases(batch, model1, lengths, lexical[words:])
    return lexical


def make_base(batch: ItgBatch, model1: Model1, settings: ItgSettings) -> Base:
    """Return the initial base distributions, with P_f and P_e equal to relative word frequencies."""
    return Base(
        _lexical(batch, model1, settings),
        np.sqrt(model1.null_source),
        np.sqrt(model1.null_target),
        np.sqrt(np.bincount(batch.source, minlength=batch.source_words) / max(len(batch.source), 1)),
        np.sqrt(np.bincount(batch.target, minlength=batch.target_words) / max(len(batch.target), 1)),
        np.array(settings.strengths),
    )


def empty_counts(batch: ItgBatch) -> ItgCounts:
    """Return counts of zero."""
    return ItgCounts(
        np.zeros(batch.emitted_types, np.int32),
        np.zeros(batch.source_words, np.int32),
        np.zeros(batch.target_words, np.int32),
        np.zeros(RULE_TYPES, np.int64),
    )


@njit
def _phrase_mass(batch, base, of_type):
    q = of_type - len(batch.type_source)
    mass = base.strengths[PAIR_STRENGTH] * base.lexical[of_type]
    for at in range(batch.phrases.first[q, 0], batch.phrases.first[q, 0] + batch.phrases.sizes[q, 0]):
        mass *= base.source[batch.source[at]]
    for at in range(batch.phrases.first[q, 1], batch.phrases.first[q, 1] + batch.phrases.sizes[q, 1]):
        mass *= base.target[batch.target[at]]
    return mass


@njit_inline
def pair_mass(batch, base, of_type):
    """Return α M0 of a type."""
    if of_type >= len(batch.type_source):
        return _phrase_mass(batch, base, of_type)
    return (
        base.strengths[PAIR_STRENGTH]
        * base.lexical[of_type]
        * base.source[batch.type_source[of_type]]
        * base.target[batch.type_target[of_type]]
    )


@njit_inline
def source_null_mass(base, word):
    """Return α times the base probability of a source word's null emission."""
    return base.strengths[SOURCE_NULL_STRENGTH] * base.null_source[word] * base.source[word]


@njit_inline
def target_null_mass(base, word):
    """Return α times the base probability of a target word's null emission."""
    return base.strengths[TARGET_NULL_STRENGTH] * base.null_target[word] * base.target[word]


@njit_inline
def count_rule(batch, pair, counts, rule, i, x, change):
    """Add `change` to the counts of one rule; an emission begins at source word i and target word x."""
    counts.rules[rule_type(rule)] += change
    if rule == PAIR:
        width = batch.target_offset[pair + 1] - batch.target_offset[pair]
        counts.pairs[batch.types[batch.cell_offset[pair] + i * width + x]] += change
    elif rule == SOURCE_NULL:
        counts.source_nulls[batch.source[batch.source_offset[pair] + i]] += change
    elif rule == TARGET_NULL:
        counts.target_nulls[batch.target[batch.target_offset[pair] + x]] += change
    elif rule > TARGET_NULL:
        counts.pairs[phrase_type(batch, pair, i, x, source_words(rule), target_words(rule))] += change


@njit
def count_derivation(batch, pair, nodes, length, counts, change):
    """Add `change` to the counts of each rule of a pair's derivation."""
    for at in range(length):
        count_rule(batch, pair, counts, np.int64(nodes[at]["rule"]), nodes[at]["i"], nodes[at]["x"], change)


@njit
def _weigh_pair_phrases(batch, pair, base, counts, scale, weights):
    """Set the weights of a pair's phrase pairs, 0 beyond its ends; `scale` is the normalizer of the process."""
    longest = batch.phrases.longest
    shapes = longest * longest - 1
    height = batch.source_offset[pair + 1] - batch.source_offset[pair]
    width = batch.target_offset[pair + 1] - batch.target_offset[pair]
    cell = batch.cell_offset[pair] * shapes
    for i in range(height):
        for x in range(width):
            for shape in range(shapes):
                of_type = batch.phrases.types[cell]
                weights.phrases[i, x, shape] = 0.0
                if of_type >= 0:
                    weights.phrases[i, x, shape] = scale * (counts.pairs[of_type] + _phrase_mass(batch, base, of_type))
                cell += 1


@njit
def weigh_rules(batch, pair, base, counts, weights):
    """Set the probabilities of all rules of a pair under the current counts."""
    s, t = batch.source_offset[pair], batch.target_offset[pair]
    height, width = batch.source_offset[pair + 1] - s, batch.target_offset[pair + 1] - t
    total = 0.0
    for rule in range(RULE_TYPES):
        total += counts.rules[rule] + TYPE_PRIOR
    for rule in range(RULE_TYPES):
        weights.rules[rule] = (counts.rules[rule] + TYPE_PRIOR) / total
    scale = weights.rules[PAIR] / (counts.rules[PAIR] + base.strengths[PAIR_STRENGTH])
    cell = batch.cell_offset[pair]
    for i in range(height):
        mass = base.strengths[PAIR_STRENGTH] * base.source[batch.source[s + i]]
        for x in range(width):
            of_type = batch.types[cell + x]
            base_mass = mass * base.lexical[of_type] * base.target[batch.target[t + x]]
            weights.pairs[i, x] = scale * (counts.pairs[of_type] + base_mass)
        cell += width
    if batch.phrases.longest > 1:
        _weigh_pair_phrases(batch, pair, base, counts, scale, weights)
    scale = weights.rules[SOURCE_NULL] / (counts.rules[SOURCE_NULL] + base.strengths[SOURCE_NULL_STRENGTH])
    for i in range(height):
        word = batch.source[s + i]
        weights.source_nulls[i] = scale * (counts.source_nulls[word] + source_null_mass(base, word))
    scale = weights.rules[TARGET_NULL] / (counts.rules[TARGET_NULL] + base.strengths[TARGET_NULL_STRENGTH])
    for x in range(width):
        word = batch.target[t + x]
        weights.target_nulls[x] = scale * (counts.target_nulls[word] + target_null_mass(base, word))


@njit
def copy_emissions(weights, to, n, m):
    """Copy the weights of n source and m target words."""
    for i in range(n):
        to.source_nulls[i] = weights.source_nulls[i]
        for x in range(m):
            to.pairs[i, x] = weights.pairs[i, x]
            for place in range(weights.phrases.shape[2]):
                to.phrases[i, x, place] = weights.phrases[i, x, place]
    for x in range(m):
        to.target_nulls[x] = weights.target_nulls[x]


@njit_inline
def add_rule(batch, pair, base, counts, rule, i, x):
    """Add one rule to the counts (an emission at words i and x); returns its probability before the addition."""
    total = RULE_TYPES * TYPE_PRIOR
    for other in range(RULE_TYPES):
        total += counts.rules[other]
    of_rule = counts.rules[rule_type(rule)]
    p = (of_rule + TYPE_PRIOR) / total
    if rule == PAIR:
        width = batch.target_offset[pair + 1] - batch.target_offset[pair]
        of_type = batch.types[batch.cell_offset[pair] + i * width + x]
        p *= (counts.pairs[of_type] + pair_mass(batch, base, of_type)) / (of_rule + base.strengths[PAIR_STRENGTH])
        counts.pairs[of_type] += 1
    elif rule == SOURCE_NULL:
        word = batch.source[batch.source_offset[pair] + i]
        p *= counts.source_nulls[word] + source_null_mass(base, word)
        p /= of_rule + base.strengths[SOURCE_NULL_STRENGTH]
        counts.source_nulls[word] += 1
    elif rule == TARGET_NULL:
        word = batch.target[batch.target_offset[pair] + x]
        p *= counts.target_nulls[word] + target_null_mass(base, word)
        p /= of_rule + base.strengths[TARGET_NULL_STRENGTH]
        counts.target_nulls[word] += 1
    elif rule > TARGET_NULL:
        of_type = phrase_type(batch, pair, i, x, source_words(rule), target_words(rule))
        p *= (counts.pairs[of_type] + pair_mass(batch, base, of_type)) / (of_rule + base.strengths[PAIR_STRENGTH])
        counts.pairs[of_type] += 1
    counts.rules[rule_type(rule)] += 1
    return p


@njit_inline
def frozen_weight(weights, rule, i, x):
    """Return the weight of one rule; an emission begins at source word i and target word x."""
    if rule == PAIR:
        return weights.pairs[i, x]
    if rule == SOURCE_NULL:
        return weights.source_nulls[i]
    if rule > TARGET_NULL:
        return weights.phrases[i, x, phrase_offset(weights.size[2], source_words(rule), target_words(rule))]
    return weights.target_nulls[x] if rule == TARGET_NULL else weights.rules[rule]


@njit
def add_sequentially(batch, pair, base, nodes, length, counts, weights):
    """Add a derivation's rules to the counts one by one; returns P(derivation | rest) over the product of weights.

    The ratio is near 1. It corrects for frozen weights, which ignore that each use makes a rule more probable.
    """
    ratio = 1.0
    for at in range(length):
        rule, i, x = np.int64(nodes[at]["rule"]), np.int64(nodes[at]["i"]), np.int64(nodes[at]["x"])
        frozen = frozen_weight(weights, rule, i, x)
        ratio *= add_rule(batch, pair, base, counts, rule, i, x) / frozen
    return ratio


@njit
def _log_rising(count, mass):
    """Return ln of the rising factorial mass (mass + 1) … of `count` factors."""
    return math.lgamma(mass + count) - math.lgamma(mass) if count > 0 else 0.0


@njit
def log_likelihood(batch, base, counts):
    """Return ln P of all derivations given the base distributions and strengths."""
    total = 0
    likelihood = 0.0
    for rule in range(RULE_TYPES):
        total += counts.rules[rule]
        likelihood += _log_rising(counts.rules[rule], TYPE_PRIOR)
    likelihood -= _log_rising(total, RULE_TYPES * TYPE_PRIOR)
    for of_type in range(len(counts.pairs)):
        likelihood += _log_rising(counts.pairs[of_type], pair_mass(batch, base, of_type))
    for word in range(len(counts.source_nulls)):
        likelihood += _log_rising(counts.source_nulls[word], source_null_mass(base, word))
    for word in range(len(counts.target_nulls)):
        likelihood += _log_rising(counts.target_nulls[word], target_null_mass(base, word))
    likelihood -= _log_rising(counts.rules[PAIR], base.strengths[PAIR_STRENGTH])
    likelihood -= _log_rising(counts.rules[SOURCE_NULL], base.strengths[SOURCE_NULL_STRENGTH])
    return likelihood - _log_rising(counts.rules[TARGET_NULL], base.strengths[TARGET_NULL_STRENGTH])


SHARE = 0.5
"""Number of draws from P_f or P_e that one table counts as."""
STRENGTH_SHAPE, STRENGTH_RATE = 1.0, 0.001
"""Gamma prior of every strength."""

_TABLES, _STRENGTHS, _WORDS = -1, -2, -3
"""Keys of random streams, distinct from the keys of pairs."""


class Tables(NamedTuple):
    """Numbers of tables, and their draws from the word distributions."""

    # int32[T]
    pairs: NDArray[np.int32]
    # int32[Vf], int32[Ve]
    source_nulls: NDArray[np.int32]
    target_nulls: NDArray[np.int32]
    # float64[Vf], float64[Ve]: draws from P_f and P_e, multiples of 1/2.
    source: NDArray[np.float64]
    target: NDArray[np.float64]


def make_tables(types: int, source_words: int, target_words: int) -> Tables:
    """Return table counts of zero."""
    return Tables(
        np.zeros(types, np.int32), np.zeros(source_words, np.int32), np.zeros(target_words, np.int32),
        np.zeros(source_words), np.zeros(target_words),
    )  # fmt: skip


@njit_inline
def _draw_table_count(count, mass, random):
    """Sample the number of tables that `count` customers of one dish occupy; returns (tables, stream state)."""
    tables = 1 if count > 0 else 0
    for seated in range(1, count):
        random = advance(random)
        if uniform(random) * (mass + seated) < mass:
            tables += 1
    return tables, random


@njit
def draw_tables(batch, base, counts, key, sweep, tables):
    """Reseat the customers of every dish given the base distributions."""
    tables.source[:] = 0.0
    tables.target[:] = 0.0
    visit = stream(key, _TABLES, sweep)
    for of_type in range(len(counts.pairs)):
        tables.pairs[of_type] = 0
        if counts.pairs[of_type] > 0:
            random = mix(visit + np.uint64(3 * of_type))
            number, random = _draw_table_count(counts.pairs[of_type], pair_mass(batch, base, of_type), random)
            tables.pairs[of_type] = number
            if of_type < len(batch.type_source):
                tables.source[batch.type_source[of_type]] += SHARE * number
                tables.target[batch.type_target[of_type]] += SHARE * number
            else:
                q = of_type - len(batch.type_source)
                for at in range(batch.phrases.first[q, 0], batch.phrases.first[q, 0] + batch.phrases.sizes[q, 0]):
                    tables.source[batch.source[at]] += SHARE * number
                for at in range(batch.phrases.first[q, 1], batch.phrases.first[q, 1] + batch.phrases.sizes[q, 1]):
                    tables.target[batch.target[at]] += SHARE * number
    for word in range(len(counts.source_nulls)):
        random = mix(visit + np.uint64(3 * word + 1))
        number, random = _draw_table_count(counts.source_nulls[word], source_null_mass(base, word), random)
        tables.source_nulls[word] = number
        tables.source[word] += SHARE * number
    for word in range(len(counts.target_nulls)):
        random = mix(visit + np.uint64(3 * word + 2))
        number, random = _draw_table_count(counts.target_nulls[word], target_null_mass(base, word), random)
        tables.target_nulls[word] = number
        tables.target[word] += SHARE * number


@njit
def _log_process(log_strength, parameters):
    """Return ln p(ln α | tables) up to a constant; `parameters` are tables and customers."""
    tables, customers = parameters
    strength = math.exp(log_strength)
    density = (STRENGTH_SHAPE + tables) * log_strength - STRENGTH_RATE * strength
    return density + math.lgamma(strength) - math.lgamma(strength + customers)


@njit
def _log_words(log_strength, draws):
    """Return ln p(ln γ | draws from P) up to a constant; `draws` float64[V] counts each word."""
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
def _draw_strength(strengths, of, tables, customers, random):
    number = 0
    for dish in range(len(tables)):
        number += tables[dish]
    parameters = (float(number), float(customers))
    at, random = slice_sample(_log_process, parameters, math.log(strengths[of]), random)
    strengths[of] = math.exp(at)
    return random


@njit
def _draw_word_strength(strengths, of, draws, random):
    at, random = slice_sample(_log_words, draws, math.log(strengths[of]), random)
    strengths[of] = math.exp(at)
    return random


@njit
def draw_strengths(base, counts, tables, key, sweep):
    """Resample all strengths given the tables, by univariate slice sampling of their logarithms."""
    random = stream(key, _STRENGTHS, sweep)
    strengths, rules = base.strengths, counts.rules
    random = _draw_strength(strengths, PAIR_STRENGTH, tables.pairs, rules[PAIR], random)
    random = _draw_strength(strengths, SOURCE_NULL_STRENGTH, tables.source_nulls, rules[SOURCE_NULL], random)
    random = _draw_strength(strengths, TARGET_NULL_STRENGTH, tables.target_nulls, rules[TARGET_NULL], random)
    random = _draw_word_strength(strengths, SOURCE_STRENGTH, tables.source, random)
    _draw_word_strength(strengths, TARGET_STRENGTH, tables.target, random)


@njit
def _draw_words(strength, draws, visit, to):
    share = strength / len(draws)
    total = 0.0
    for word in range(len(draws)):
        # Gamma variate of scale 1 and any shape [Marsaglia & Tsang 2000 §6].
        shape = share + draws[word]
        x, random = draw_gamma(shape + 1.0, mix(visit + np.uint64(word)))
        to[word] = x * (1.0 - uniform(advance(random))) ** (1.0 / shape)
        total += to[word]
    for word in range(len(draws)):
        to[word] = math.sqrt(to[word] / total)


@njit
def draw_words(base, tables, key, sweep):
    """Resample P_f and P_e given the tables and strengths."""
    _draw_words(base.strengths[SOURCE_STRENGTH], tables.source, stream(key, _WORDS, sweep), base.source)
    _draw_words(base.strengths[TARGET_STRENGTH], tables.target, mix(stream(key, _WORDS, sweep)), base.target)
