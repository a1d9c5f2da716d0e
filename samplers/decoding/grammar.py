"""Decoding grammar: a packed trie of source sides, with target sides, links, features and weights.

All data are arrays, so a grammar file can be memory-mapped. Weights w determine each rule's score w · f from its
features f, an estimate that adds the weighted log probability of its words, and its rank among rules with the same
source side. A derivation has the features of the grammar, then `COUNTED_FEATURES`. A *gap* is a nonterminal of a rule.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.language_models.model import EMPTY, NGRAM, STATE, UNIGRAM, UNKNOWN, LanguageModel, score

GAP = -1
"""Symbol in the trie for all nonterminals."""
UNKNOWN_SYMBOL = -(1 << 30)
"""Symbol of a word of the input that is in no source side of the grammar."""

_RADIX = np.int64(1) << 32
_Scalar = TypeVar("_Scalar", bound=np.generic)


class RuleColumns(NamedTuple):
    """Columns of R rules, before packing."""

    # int32[s]: symbols of all source sides: word numbers, or -k for nonterminal k of a rule, from 1 in source order.
    source: NDArray[np.int32]
    # int64[R+1]: index into `source` of the first symbol of each source side.
    source_start: NDArray[np.int64]
    # The same arrays for target sides.
    target: NDArray[np.int32]
    target_start: NDArray[np.int64]
    # uint16[l, 2]: links of all rules, as (source position, target position) within the sides of the rule.
    links: NDArray[np.uint16]
    # int64[R+1]: index into `links` of the first link of each rule.
    link_start: NDArray[np.int64]
    # float64[R, F]: features of each rule.
    features: NDArray[np.float64]


class PackedGrammar(NamedTuple):
    """Packed grammar of R rules, with a trie of N nodes that are numbered by level from the root 0."""

    # int32[N+1]: node v has the children `child_first[v] + 1` to `child_first[v + 1]`.
    child_first: NDArray[np.int32]
    # int32[N-1]: symbol of the arc to node k + 1, a word or `GAP`. Children are sorted by symbol, so that by `GAP` is
    # first.
    symbol: NDArray[np.int32]
    # int32[N+1]: the source sides of rules `rule_first[v]` to `rule_first[v + 1] - 1` end at node v.
    rule_first: NDArray[np.int32]
    # Target sides of the rules, as in `RuleColumns`.
    target: NDArray[np.int32]
    target_start: NDArray[np.int64]
    # Links of the rules, as in `RuleColumns`.
    links: NDArray[np.uint16]
    link_start: NDArray[np.int64]
    # float64[R, F]: features of each rule.
    features: NDArray[np.float64]
    # int32[R]: index of each rule in the columns from which it was packed.
    number: NDArray[np.int32]

    @property
    def rules(self) -> int:
        """Number of rules."""
        return len(self.target_start) - 1

    def source_side(self, rule: int) -> list[int]:
        """Return the source symbols of a rule, as in `RuleColumns`."""
        path = []
        node = int(np.searchsorted(self.rule_first, rule, side="right")) - 1
        while node:
            path.append(int(self.symbol[node - 1]))
            node = int(np.searchsorted(self.child_first, node - 1, side="right")) - 1
        symbols = []
        gaps = 0
        for symbol in reversed(path):
            gaps += symbol < 0
            symbols.append(symbol if symbol >= 0 else -gaps)
        return symbols

    def rules_with(self, word: int) -> list[int]:
        """Return the numbers of the rules with a word on the source side, ascending."""
        rules: set[int] = set()
        nodes = (np.flatnonzero(self.symbol == word) + 1).tolist()
        while nodes:
            node = nodes.pop()
            rules.update(range(self.rule_first[node], self.rule_first[node + 1]))
            nodes += range(self.child_first[node] + 1, self.child_first[node + 1] + 1)
        return sorted(rules)

    def has_source_side(self, words: Sequence[int]) -> bool:
        """Check if words are the whole source side of a rule."""
        node = 0
        for word in words:
            children = self.symbol[self.child_first[node] : self.child_first[node + 1]]
            child = int(np.searchsorted(children, word))
            if child == len(children) or children[child] != word:
                return False
            node = int(self.child_first[node]) + child + 1
        return bool(self.rule_first[node] < self.rule_first[node + 1])

    def target_side(self, rule: int) -> list[int]:
        """Return the target symbols of a rule, as in `RuleColumns`."""
        side: list[int] = self.target[self.target_start[rule] : self.target_start[rule + 1]].tolist()
        return side

    def rule_links(self, rule: int) -> list[tuple[int, int]]:
        """Return the links of a rule, as (source position, target position) within its sides."""
        return [(int(i), int(j)) for i, j in self.links[self.link_start[rule] : self.link_start[rule + 1]]]


def scopes(columns: RuleColumns) -> NDArray[np.int32]:
    """Return the scope of each rule, int32[R] [Hopkins & Langmead 2010].

    It is the number of adjacent pairs of nonterminals on the source side, plus the number of its ends that are
    nonterminals.
    """
    gap = columns.source < 0
    sizes = np.diff(columns.source_start)
    rule = np.repeat(np.arange(len(sizes)), sizes)
    adjacent = gap[:-1] & gap[1:] & (rule[:-1] == rule[1:])
    scope = np.bincount(rule[1:][adjacent], minlength=len(sizes)).astype(np.int32)
    filled = sizes > 0
    scope[filled] += gap[columns.source_start[:-1][filled]]
    scope[filled] += gap[columns.source_start[1:][filled] - 1]
    return scope


def is_usable(columns: RuleColumns) -> NDArray[np.bool_]:
    """Return bool[R]: False for rules whose source side is empty or a single nonterminal."""
    sizes = np.diff(columns.source_start)
    usable = sizes > 0
    single = sizes == 1
    usable[single] = columns.source[columns.source_start[:-1][single]] >= 0
    return usable


def _gather_ranges(
    flat: NDArray[_Scalar], start: NDArray[np.int64], order: NDArray[np.int64]
) -> tuple[NDArray[_Scalar], NDArray[np.int64]]:
    """Concatenate the ranges of `flat` in another order. Returns the new array and each range's start."""
    sizes = np.diff(start)[order]
    begins = np.concatenate(([0], np.cumsum(sizes)))
    return flat[np.arange(begins[-1]) + np.repeat(start[:-1][order] - begins[:-1], sizes)], begins


def pack(columns: RuleColumns, chosen: NDArray[np.bool_]) -> PackedGrammar:
    """Pack the rules `chosen` bool[R], which must be usable (`is_usable`)."""
    order = np.flatnonzero(chosen)
    first, sizes = columns.source_start[:-1][order], np.diff(columns.source_start)[order]
    symbols = np.maximum(columns.source, GAP)
    node = np.zeros(len(order), np.int64)
    nodes = 1
    symbol_levels: list[NDArray[np.int32]] = []
    parents: list[NDArray[np.int64]] = []
    depth = 0
    unfinished = np.arange(len(order))
    while len(unfinished := unfinished[sizes[unfinished] > depth]):
        keys = node[unfinished] * _RADIX + (symbols[first[unfinished] + depth].astype(np.int64) - GAP)
        distinct, back = np.unique(keys, return_inverse=True)
        node[unfinished] = nodes + back.reshape(-1)
        parents.append(distinct // _RADIX)
        symbol_levels.append((distinct % _RADIX + GAP).astype(np.int32))
        nodes += len(distinct)
        depth += 1
    parent = np.concatenate([np.zeros(0, np.int64), *parents])
    child_first = np.concatenate(([0], np.cumsum(np.bincount(parent, minlength=nodes)))).astype(np.int32)
    ranked = np.argsort(node, kind="stable")
    rule_first = np.concatenate(([0], np.cumsum(np.bincount(node, minlength=nodes)))).astype(np.int32)
    order = order[ranked]
    target, target_start = _gather_ranges(columns.target, columns.target_start, order)
    links, link_start = _gather_ranges(columns.links, columns.link_start, order)
    return PackedGrammar(
        child_first,
        np.concatenate([np.zeros(0, np.int32), *symbol_levels]),
        rule_first,
        target,
        target_start,
        links,
        link_start,
        np.ascontiguousarray(columns.features[order]),
        order.astype(np.int32),
    )


@njit_inline
def gap_child(grammar, node):
    """Return the child of a node by `GAP`, or -1."""
    first = np.int64(grammar.child_first[node])
    return first + 1 if first < grammar.child_first[node + 1] and grammar.symbol[first] == GAP else -1


@njit_inline
def word_child(grammar, node, word):
    """Return the child of a node by a word, or -1."""
    low, high = np.int64(grammar.child_first[node]), np.int64(grammar.child_first[node + 1])
    while low < high:
        middle = (low + high) >> 1
        if grammar.symbol[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low + 1 if low < grammar.child_first[node + 1] and grammar.symbol[low] == word else -1


WORDS, RULES, GLUE, UNKNOWN_WORDS, LM, LM_UNKNOWN = 0, 1, 2, 3, 4, 5
COUNTED_FEATURES = ("words", "rules", "glue", "unknown", "lm", "lm_unknown")
"""Features counted by the decoder.

`words`: number of target words. `rules`: number of uses of grammar rules. `glue`: number of uses of S → S X. `unknown`:
number of source words passed through. `lm`: natural log probability under the language model. `lm_unknown`: number of
target words unknown to the language model.
"""

LN_10 = math.log(10.0)


class WeightedGrammar(NamedTuple):
    """Scores of R rules under weights."""

    # float64[R]: w · f of each rule, including its `COUNTED_FEATURES` features except the language model's probability.
    score: NDArray[np.float64]
    # float64[R]: `score` plus the weighted natural log probability of the target words. The context of a word is empty
    # at the beginning and after a nonterminal.
    estimate: NDArray[np.float64]
    # int32[R]: rule numbers, grouped by source side. Each group is in descending order of `estimate`.
    order: NDArray[np.int32]
    # float64[6]: weights of `COUNTED_FEATURES`.
    weights: NDArray[np.float64]
    # int32[V]: language-model number of each target word.
    lm_words: NDArray[np.int32]


@njit
def _add_words(grammar, model, weighed):
    weights = weighed.weights
    for rule in range(len(weighed.score)):
        words, unknown = 0, 0
        log10 = 0.0
        state = np.int32(EMPTY)
        for k in range(grammar.target_start[rule], grammar.target_start[rule + 1]):
            symbol = grammar.target[k]
            if symbol < 0:
                state = np.int32(EMPTY)
                continue
            words += 1
            if model.order > 0:
                word_log10, state = score(model, state, weighed.lm_words[symbol])
                log10 += word_log10
                unknown += 1 if weighed.lm_words[symbol] == UNKNOWN else 0
        value = weighed.score[rule] + weights[RULES] + weights[WORDS] * words + weights[LM_UNKNOWN] * unknown
        weighed.score[rule] = value
        weighed.estimate[rule] = value + weights[LM] * (log10 * LN_10)


def weigh(
    grammar: PackedGrammar, weights: NDArray[np.float64], model: LanguageModel, lm_words: NDArray[np.int32]
) -> WeightedGrammar:
    """Return the rules' scores and ranks. `weights` float64[F + 6]: grammar features, then counted ones."""
    grammar_features = grammar.features.shape[1]
    rules = grammar.rules
    weighed = WeightedGrammar(
        grammar.features @ weights[:grammar_features],
        np.empty(rules),
        np.arange(rules, dtype=np.int32),
        weights[grammar_features:].copy(),
        lm_words,
    )
    _add_words(grammar, model, weighed)
    # Sort only source sides with several rules. The sort is stable, so rules with equal estimates keep their order.
    sizes = np.diff(grammar.rule_first)
    group = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    several = np.flatnonzero(np.repeat(sizes > 1, sizes)).astype(np.int32)
    ranked = np.lexsort((-weighed.estimate[several], group[several]))
    weighed.order[several] = several[ranked]
    return weighed


def no_model() -> LanguageModel:
    """Return a model of order 0, which stands for no language model. It must not be queried."""
    return LanguageModel(np.zeros(1, UNIGRAM), np.zeros(1, NGRAM), np.zeros(1, STATE), 0, EMPTY)
