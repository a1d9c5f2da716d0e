"""A grammar under weights: the score of each rule, what it promises with its words' n-grams, its place among others.

A score is w · f. What a derivation counts comes in a fixed order: the grammar's own features, then those of `COUNTED`.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.decoding.grammar import Grammar
from hierogram.samplers.language_models.model import EMPTY, UNKNOWN, LanguageModel, score

WORDS, RULES, GLUE, UNKNOWN_WORDS, LM, LM_UNKNOWN = 0, 1, 2, 3, 4, 5
COUNTED = ("words", "rules", "glue", "unknown", "lm", "lm_unknown")
"""Features that decoding counts: target words, rules of the grammar, uses of S → S X, source words passed through, the
natural log of the language model's probability, target words that it does not know."""

LN_10 = math.log(10.0)


class Weighed(NamedTuple):
    """What a grammar's rules are worth.

    `score` float64[R]: w · f of the rule alone, its target words counted in; `ahead` float64[R]: the same and the
    n-grams within each of its runs of words, as far as they are known; `order` int32[R]: the rules of each source side,
    best first. `weights` float64[6]: those of `COUNTED`. `lm_words` int32[V]: the language model's numbers of target
    words.
    """

    score: NDArray[np.float64]
    ahead: NDArray[np.float64]
    order: NDArray[np.int32]
    weights: NDArray[np.float64]
    lm_words: NDArray[np.int32]


@njit_inline
def run_score(model, lm_words, target, first, last):
    """Natural log probability of each run of words of a target side, from no context; how many it does not know."""
    state = np.int32(EMPTY)
    total = 0.0
    unknown = 0
    for k in range(first, last):
        symbol = target[k]
        if symbol < 0:
            state = np.int32(EMPTY)
        else:
            log10, state = score(model, state, lm_words[symbol])
            total += log10
            unknown += 1 if lm_words[symbol] == UNKNOWN else 0
    return total * LN_10, unknown


@njit
def _add_words(grammar, model, weighed, first_rule, last_rule):
    weights = weighed.weights
    for rule in range(first_rule, last_rule):
        first, last = grammar.target_start[rule], grammar.target_start[rule + 1]
        words = 0
        for k in range(first, last):
            words += 1 if grammar.target[k] >= 0 else 0
        value = weighed.score[rule] + weights[RULES] + weights[WORDS] * words
        ahead = 0.0
        if model.order > 0:
            inside, unknown = run_score(model, weighed.lm_words, grammar.target, first, last)
            value += weights[LM_UNKNOWN] * unknown
            ahead = weights[LM] * inside
        weighed.score[rule] = value
        weighed.ahead[rule] = value + ahead


def weigh(grammar: Grammar, weights: NDArray[np.float64], model: LanguageModel, lm_words: NDArray[np.int32]) -> Weighed:
    """The grammar under weights float64[F + 6]: of its features, then of `COUNTED`."""
    own = grammar.features.shape[1]
    rules = grammar.rules
    weighed = Weighed(
        grammar.features @ weights[:own],
        np.empty(rules),
        np.arange(rules, dtype=np.int32),
        weights[own:].copy(),
        lm_words,
    )
    _add_words(grammar, model, weighed, 0, rules)
    _rank(grammar, weighed)
    return weighed


def _rank(grammar: Grammar, weighed: Weighed) -> None:
    """Fill `order`; of rules that promise as much the first one comes first."""
    sizes = np.diff(grammar.rule_first)
    group = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    several = np.flatnonzero(np.repeat(sizes > 1, sizes)).astype(np.int32)
    ranked = np.lexsort((-weighed.ahead[several], group[several]))
    weighed.order[several] = several[ranked]


def no_model() -> LanguageModel:
    """What stands in the place of a language model where there is none: of order 0, it is never asked."""
    from hierogram.samplers.language_models.model import NGRAM, STATE, UNIGRAM

    return LanguageModel(np.zeros(1, UNIGRAM), np.zeros(1, NGRAM), np.zeros(1, STATE), 0, EMPTY)
