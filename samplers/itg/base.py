"""The base distributions and strengths, drawn after each sweep given the derivations [Teh et al. 2006 §5.3; Neal 2003].

The tables of the processes are drawn from the counts; a table of a word pair or of a null is half a draw from P_f and
P_e each, since their roots are what the base has of them. So P_f and P_e are Dirichlet given the tables.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.slices import slice_sample
from hierogram.samplers.compiled.streams import advance, mix, stream, uniform
from hierogram.samplers.compiled.variates import draw_gamma
from hierogram.samplers.itg.derivations import PAIR, SOURCE_NULL, TARGET_NULL
from hierogram.samplers.itg.model import (
    PAIR_STRENGTH,
    SOURCE_NULL_STRENGTH,
    SOURCE_STRENGTH,
    TARGET_NULL_STRENGTH,
    TARGET_STRENGTH,
    pair_mass,
    source_null_mass,
    target_null_mass,
)

SHARE = 0.5
"""What a table counts as draws from P_f or P_e."""
STRENGTH_SHAPE, STRENGTH_RATE = 1.0, 0.001
"""The gamma prior of every strength."""

_TABLES, _STRENGTHS, _WORDS = -1, -2, -3
"""Names of the streams, apart from those of pairs."""


class Tables(NamedTuple):
    """Tables: `pairs` int32[T], `source_nulls` int32[Vf], `target_nulls` int32[Ve]; and the draws that they make from
    P_f and P_e, in halves: `source` float64[Vf], `target` float64[Ve].
    """

    pairs: NDArray[np.int32]
    source_nulls: NDArray[np.int32]
    target_nulls: NDArray[np.int32]
    source: NDArray[np.float64]
    target: NDArray[np.float64]


def make_tables(types: int, source_words: int, target_words: int) -> Tables:
    """No tables."""
    return Tables(
        np.zeros(types, np.int32), np.zeros(source_words, np.int32), np.zeros(target_words, np.int32),
        np.zeros(source_words), np.zeros(target_words),
    )  # fmt: skip


@njit_inline
def _tables_of(count, mass, random):
    """How many tables so many customers of one dish take: (tables, the stream's state after it)."""
    tables = 1 if count > 0 else 0
    for seated in range(1, count):
        random = advance(random)
        if uniform(random) * (mass + seated) < mass:
            tables += 1
    return tables, random


@njit
def draw_tables(batch, base, counts, key, sweep, tables):
    """Seat the customers of every dish anew, given the base distributions."""
    tables.source[:] = 0.0
    tables.target[:] = 0.0
    visit = stream(key, _TABLES, sweep)
    for of_type in range(len(counts.pairs)):
        tables.pairs[of_type] = 0
        if counts.pairs[of_type] > 0:
            random = mix(visit + np.uint64(3 * of_type))
            number, random = _tables_of(counts.pairs[of_type], pair_mass(batch, base, of_type), random)
            tables.pairs[of_type] = number
            tables.source[batch.type_source[of_type]] += SHARE * number
            tables.target[batch.type_target[of_type]] += SHARE * number
    for word in range(len(counts.source_nulls)):
        random = mix(visit + np.uint64(3 * word + 1))
        number, random = _tables_of(counts.source_nulls[word], source_null_mass(base, word), random)
        tables.source_nulls[word] = number
        tables.source[word] += SHARE * number
    for word in range(len(counts.target_nulls)):
        random = mix(visit + np.uint64(3 * word + 2))
        number, random = _tables_of(counts.target_nulls[word], target_null_mass(base, word), random)
        tables.target_nulls[word] = number
        tables.target[word] += SHARE * number


@njit
def _log_process(log_strength, parameters):
    """ln p(ln α | tables): `parameters` are tables and customers."""
    tables, customers = parameters
    strength = math.exp(log_strength)
    density = (STRENGTH_SHAPE + tables) * log_strength - STRENGTH_RATE * strength
    return density + math.lgamma(strength) - math.lgamma(strength + customers)


@njit
def _log_words(log_strength, draws):
    """ln p(ln γ | draws from P): `draws` float64[V] of each word."""
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
    """Draw the strength of one process anew; the stream's state after it."""
    number = 0
    for dish in range(len(tables)):
        number += tables[dish]
    parameters = (float(number), float(customers))
    at, random = slice_sample(_log_process, parameters, math.log(strengths[of]), random)
    strengths[of] = math.exp(at)
    return random


@njit
def _draw_word_strength(strengths, of, draws, random):
    """Draw γ of P_f or P_e anew; the stream's state after it."""
    at, random = slice_sample(_log_words, draws, math.log(strengths[of]), random)
    strengths[of] = math.exp(at)
    return random


@njit
def draw_strengths(base, counts, tables, key, sweep):
    """Draw all strengths anew given the tables, by univariate slice sampling of their logarithms."""
    random = stream(key, _STRENGTHS, sweep)
    strengths, rules = base.strengths, counts.rules
    random = _draw_strength(strengths, PAIR_STRENGTH, tables.pairs, rules[PAIR], random)
    random = _draw_strength(strengths, SOURCE_NULL_STRENGTH, tables.source_nulls, rules[SOURCE_NULL], random)
    random = _draw_strength(strengths, TARGET_NULL_STRENGTH, tables.target_nulls, rules[TARGET_NULL], random)
    random = _draw_word_strength(strengths, SOURCE_STRENGTH, tables.source, random)
    _draw_word_strength(strengths, TARGET_STRENGTH, tables.target, random)


@njit_inline
def _small_gamma(shape, random):
    """A gamma variate of scale 1 and any shape [Marsaglia & Tsang 2000 §6]."""
    x, random = draw_gamma(shape + 1.0, random)
    random = advance(random)
    return x * (1.0 - uniform(random)) ** (1.0 / shape), random


@njit
def _draw_words(strength, draws, visit, to):
    share = strength / len(draws)
    total = 0.0
    for word in range(len(draws)):
        to[word], _ = _small_gamma(share + draws[word], mix(visit + np.uint64(word)))
        total += to[word]
    for word in range(len(draws)):
        to[word] = math.sqrt(to[word] / total)


@njit
def draw_words(base, tables, key, sweep):
    """Draw P_f and P_e anew given the tables and strengths."""
    _draw_words(base.strengths[SOURCE_STRENGTH], tables.source, stream(key, _WORDS, sweep), base.source)
    _draw_words(base.strengths[TARGET_STRENGTH], tables.target, mix(stream(key, _WORDS, sweep)), base.target)
