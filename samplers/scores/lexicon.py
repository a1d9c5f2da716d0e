"""Lexicon: statistics of words, links and neighboring words in all stored pairs.

A pair is scored given all other pairs, so its own words, links and neighbors are subtracted. docs/model.md, section 8,
has the equations.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit

_LINK_DISCOUNT = 0.5
"""Discount of link counts in the probability of a word given a word of the other side."""
_UNSEEN_WORD = 0.5
"""Count that is added to the tokens of each word, and of one unknown word, in unigram probabilities."""
_MIN_RATE = 1e-6
"""Minimum share of unlinked words among all words of a side."""
_STRENGTH = 2.0
"""Strength of the unigram prior in the probability of a word given its neighbors."""
FEATURES = 9
"""Number of features of a word."""


class SideCounts(NamedTuple):
    """Counts of the words of one side, int64[V].

    `words`: number of tokens of each word. `linked`: number of its linked tokens. `links`: number of its links.
    `partners`: number of distinct words that it is linked to. `total`, `linked_total`: number of all tokens and of all
    linked tokens.
    """

    words: NDArray[np.int64]
    linked: NDArray[np.int64]
    links: NDArray[np.int64]
    partners: NDArray[np.int64]
    total: int
    linked_total: int


class LinkCounts(NamedTuple):
    """Sparse counts. Source word f has `counts` for `target[first[f] : first[f + 1]]`, ascending."""

    first: NDArray[np.int64]
    target: NDArray[np.int32]
    counts: NDArray[np.int32]


class NeighborCounts(NamedTuple):
    """Counts of neighboring words of one side. The start and the end of a sentence count as words.

    The code of a sequence of words is a number in base `base` with one digit per word: word number + 1 (0 for an
    unknown word), `base` - 2 for the start of a sentence, `base` - 1 for its end.
    """

    # uint64: codes of bigrams in ascending order. int32: count of each bigram.
    bigrams: NDArray[np.uint64]
    bigram_counts: NDArray[np.int32]
    # uint64: codes of trigrams in ascending order. int32: count of each trigram.
    trigrams: NDArray[np.uint64]
    trigram_counts: NDArray[np.int32]
    # uint64: codes of trigrams without their middle word, in ascending order. int32: count of each of them.
    skip_bigrams: NDArray[np.uint64]
    skip_bigram_counts: NDArray[np.int32]
    # int32[base], int32[base]: number of tokens whose left, or right, neighbor has each digit.
    left_counts: NDArray[np.int32]
    right_counts: NDArray[np.int32]
    base: int


class Lexicon(NamedTuple):
    """Statistics of the words of both sides and of their links."""

    sides: tuple[SideCounts, SideCounts]
    links: LinkCounts
    neighbors: tuple[NeighborCounts, NeighborCounts]


class PairContribution(NamedTuple):
    """Word numbers and link positions of a stored pair, by side, int32 each. Empty for a new pair."""

    words: tuple[NDArray[np.int32], NDArray[np.int32]]
    links: tuple[NDArray[np.int32], NDArray[np.int32]]


class PairFacts(NamedTuple):
    """Word statistics of one pair, given all other pairs, in arrays with room for n words per side."""

    # float64[2, n]: unigram probability of each word.
    unigram: NDArray[np.float64]
    # float64[2, n]: probability of each word given that it is unlinked.
    nulls: NDArray[np.float64]
    # float64[2, n, 2]: number of links of each word in other pairs, and number of distinct words that it is linked to.
    links: NDArray[np.float64]
    # float64[n, n]: link count of each word pair in other pairs.
    link_counts: NDArray[np.float64]
    # float64[n, n]: probability of each word pair (source, target) under the base distribution, see `_fill_links`.
    joint: NDArray[np.float64]
    # float64[2, n, 3]: ln P(word | context) / P(word), for three contexts: previous word, next word, and both.
    neighbors: NDArray[np.float64]
    # int8[2, n]: 1 for words of the `PairContribution` that are linked in it.
    is_linked: NDArray[np.int8]
    # int8[links]: 1 for the first link of each word pair that no other pair links.
    only_own: NDArray[np.int8]
    # float64[n]: scratch memory.
    scratch: NDArray[np.float64]


def make_facts(longest: int, links: int) -> PairFacts:
    """Allocate statistics for pairs of up to `longest` words per side and `links` links."""
    return PairFacts(
        np.zeros((2, longest)),
        np.zeros((2, longest)),
        np.zeros((2, longest, 2)),
        np.zeros((longest, longest)),
        np.zeros((longest, longest)),
        np.zeros((2, longest, 3)),
        np.zeros((2, longest), np.int8),
        np.zeros(links, np.int8),
        np.zeros(longest),
    )


def count_neighbors(tokens: NDArray[np.int32], first: NDArray[np.int64], vocabulary: int) -> NeighborCounts:
    """Count the bigrams, trigrams and skip-bigrams of nonempty sentences.

    Sentence k is `tokens[first[k] : first[k + 1]]`. Tokens are word numbers below `vocabulary`, or -1.
    """
    base = vocabulary + 3
    sizes = np.diff(first)
    padded = np.full(len(tokens) + 2 * len(sizes), base - 1, np.uint64)
    padded[first[:-1] + 2 * np.arange(len(sizes))] = base - 2
    positions = np.arange(len(tokens)) + 2 * np.repeat(np.arange(len(sizes)), sizes) + 1
    padded[positions] = tokens + 1
    radix = np.uint64(base)
    left, middle, right = padded[positions - 1], padded[positions], padded[positions + 1]
    ends = positions[np.cumsum(sizes) - 1]
    bigrams = np.concatenate([left * radix + middle, padded[ends] * radix + padded[ends + 1]])
    trigrams, skip_bigrams = (left * radix + middle) * radix + right, left * radix + right
    left_counts, right_counts = (
        np.bincount(side.astype(np.int64), minlength=base).astype(np.int32) for side in (left, right)
    )
    return NeighborCounts(
        *_count_codes(bigrams), *_count_codes(trigrams), *_count_codes(skip_bigrams), left_counts, right_counts, base
    )


def _count_codes(codes: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    distinct, counts = np.unique(codes, return_counts=True)
    return distinct, counts.astype(np.int32)


@njit
def _look_up(values, counts, value):
    """Return the count of a value in ascending `values`, or 0."""
    at = np.searchsorted(values, value)
    return np.int64(counts[at]) if at < len(values) and values[at] == value else np.int64(0)


@njit
def link_count(links, source, target):
    """Return the number of links of a source and a target word, 0 if one of them is unknown (-1)."""
    if source < 0 or target < 0:
        return np.int64(0)
    row = slice(links.first[source], links.first[source + 1])
    return _look_up(links.target[row], links.counts[row], target)


@njit
def _count_own_links(own, source, target):
    number = 0
    for k in range(len(own.links[0])):
        if own.words[0][own.links[0][k]] == source and own.words[1][own.links[1][k]] == target:
            number += 1
    return number


@njit
def _mark_own_links(lexicon, own, facts):
    """Fill `is_linked` and `only_own`."""
    facts.is_linked[0, : len(own.words[0])] = 0
    facts.is_linked[1, : len(own.words[1])] = 0
    for k in range(len(own.links[0])):
        facts.is_linked[0, own.links[0][k]] = 1
        facts.is_linked[1, own.links[1][k]] = 1
        source, target = own.words[0][own.links[0][k]], own.words[1][own.links[1][k]]
        only_own = link_count(lexicon.links, source, target) <= _count_own_links(own, source, target)
        for earlier in range(k):
            if own.words[0][own.links[0][earlier]] == source and own.words[1][own.links[1][earlier]] == target:
                only_own = False
        facts.only_own[k] = only_own


@njit
def _fill_side(side, words, own, lexicon, facts):
    """Fill `unigram`, `nulls` and `links` of one side."""
    counts, own_words, own_ends = lexicon.sides[side], own.words[side], own.links[side]
    # The vocabulary excludes words that no other pair contains, so subtract them.
    vocabulary, own_linked = len(counts.words), 0
    for k in range(len(own_words)):
        own_linked += facts.is_linked[side, k]
        first, number = True, 0
        for other in range(len(own_words)):
            if own_words[other] == own_words[k]:
                first = first and other >= k
                number += 1
        if first and own_words[k] >= 0 and counts.words[own_words[k]] <= number:
            vocabulary -= 1
    total = counts.total - len(own_words)
    null_rate = max(1.0 - (counts.linked_total - own_linked) / max(total, 1), _MIN_RATE)
    for k in range(len(words)):
        word = words[k]
        tokens, linked, links, partners = 0.0, 0.0, 0.0, 0.0
        if word >= 0:
            tokens, linked = float(counts.words[word]), float(counts.linked[word])
            links, partners = float(counts.links[word]), float(counts.partners[word])
            for earlier in range(len(own_words)):
                if own_words[earlier] == word:
                    tokens -= 1
                    linked -= facts.is_linked[side, earlier]
            for link in range(len(own_ends)):
                if own_words[own_ends[link]] == word:
                    links -= 1
                    partners -= facts.only_own[link]
        # Replace negative differences by 0. They are possible if the statistics are older than the pair's links.
        tokens = max(tokens, 0.0)
        facts.unigram[side, k] = (tokens + _UNSEEN_WORD) / (total + _UNSEEN_WORD * (vocabulary + 1))
        unlinked = max(tokens - max(linked, 0.0), 0.0)
        facts.nulls[side, k] = facts.unigram[side, k] * (unlinked + null_rate) / (tokens + 1) / null_rate
        facts.links[side, k, 0] = max(links, 0.0)
        facts.links[side, k, 1] = max(partners, 0.0)


@njit
def _fill_links(source, target, own, lexicon, facts):
    """Fill `link_counts` and `joint` = [P(f) P(e|f) P(e) P(f|e)]^½ from the links of other pairs."""
    for i in range(len(source)):
        forward = 1.0 / (facts.links[0, i, 0] + 1)
        forward_left = (_LINK_DISCOUNT * facts.links[0, i, 1] + 1) * forward
        for x in range(len(target)):
            count = link_count(lexicon.links, source[i], target[x])
            if count > 0:
                count -= _count_own_links(own, source[i], target[x])
            linked = max(float(count), 0.0)
            facts.link_counts[i, x] = linked
            discounted = max(linked - _LINK_DISCOUNT, 0.0)
            backward = 1.0 / (facts.links[1, x, 0] + 1)
            backward_left = (_LINK_DISCOUNT * facts.links[1, x, 1] + 1) * backward
            given_source = discounted * forward + forward_left * facts.unigram[1, x]
            given_target = discounted * backward + backward_left * facts.unigram[0, i]
            facts.joint[i, x] = np.sqrt(facts.unigram[0, i] * given_source * facts.unigram[1, x] * given_target)


@njit
def _around(words, k, base):
    """Return the digits (see `NeighborCounts.base`) of the words before, at and after position k."""
    left = np.uint64(words[k - 1] + 1) if k > 0 else np.uint64(base - 2)
    right = np.uint64(words[k + 1] + 1) if k + 1 < len(words) else np.uint64(base - 1)
    return left, np.uint64(words[k] + 1), right


@njit
def _fill_neighbors(side, words, own_words, counts, facts):
    base = np.uint64(counts.base)
    for k in range(len(words)):
        left, middle, right = _around(words, k, counts.base)
        before = _look_up(counts.bigrams, counts.bigram_counts, left * base + middle)
        after = _look_up(counts.bigrams, counts.bigram_counts, middle * base + right)
        trigram = _look_up(counts.trigrams, counts.trigram_counts, (left * base + middle) * base + right)
        around = _look_up(counts.skip_bigrams, counts.skip_bigram_counts, left * base + right)
        first, last = np.int64(counts.left_counts[left]), np.int64(counts.right_counts[right])
        for earlier in range(len(own_words)):
            a, b, c = _around(own_words, earlier, counts.base)
            first -= a == left
            last -= c == right
            around -= a == left and c == right
            before -= a == left and b == middle
            after -= b == middle and c == right
            trigram -= a == left and b == middle and c == right
        strength = _STRENGTH * facts.unigram[side, k]
        given_left = (max(before, 0) + strength) / (max(first, 0) + _STRENGTH)
        given_right = (max(after, 0) + strength) / (max(last, 0) + _STRENGTH)
        between = (max(trigram, 0) + (given_left + given_right) / 2) / (max(around, 0) + 1)
        facts.neighbors[side, k, 0] = np.log(given_left / facts.unigram[side, k])
        facts.neighbors[side, k, 1] = np.log(given_right / facts.unigram[side, k])
        facts.neighbors[side, k, 2] = np.log(between / facts.unigram[side, k])


@njit
def fill_facts(source, target, own, lexicon, facts):
    """Fill `facts` with the statistics of a pair's words, without its contribution `own` to the lexicon."""
    _mark_own_links(lexicon, own, facts)
    _fill_side(0, source, own, lexicon, facts)
    _fill_side(1, target, own, lexicon, facts)
    _fill_links(source, target, own, lexicon, facts)
    _fill_neighbors(0, source, own.words[0], lexicon.neighbors[0], facts)
    _fill_neighbors(1, target, own.words[1], lexicon.neighbors[1], facts)


@njit
def _links_of_words(side, word, other, facts):
    return facts.link_counts[other, word] if side == 1 else facts.link_counts[word, other]


@njit
def fill_features(side, sizes, facts, features):
    """Write the features of each word of a side (0: source, 1: target) to `features` float64[words, 9].

    `sizes` are the numbers of source and target words. The features of a word w are natural logs. 0 to 2: probability
    given its left, right and both neighbors, relative to its unigram probability. 3, 4: mean and largest probability
    given a word of the other side, relative to its unigram probability. 5: largest probability of a word of the other
    side given w, relative to that word's unigram probability. 6: expected number of words of the other side that w
    generates, plus 0.02. 7: its unigram probability. 8: number of words of its side.
    """
    words, opposite_words = sizes[side], sizes[1 - side]
    unigram, opposite_unigram = facts.unigram[side], facts.unigram[1 - side]
    for k in range(opposite_words):
        facts.scratch[k] = 0.0
        for j in range(words):
            facts.scratch[k] += (_links_of_words(side, j, k, facts) + opposite_unigram[k]) / (
                facts.links[side, j, 0] + 1
            )
    for j in range(words):
        total = largest = back_largest = share = 0.0
        for k in range(opposite_words):
            linked = _links_of_words(side, j, k, facts)
            forward = (linked + unigram[j]) / (facts.links[1 - side, k, 0] + 1)
            backward = (linked + opposite_unigram[k]) / (facts.links[side, j, 0] + 1)
            total += forward
            largest = max(largest, forward)
            back_largest = max(back_largest, backward / opposite_unigram[k])
            share += backward / facts.scratch[k]
        for k in range(3):
            features[j, k] = facts.neighbors[side, j, k]
        features[j, 3] = np.log(total / opposite_words / unigram[j])
        features[j, 4] = np.log(largest / unigram[j])
        features[j, 5] = np.log(back_largest)
        features[j, 6] = np.log(share + 0.02)
        features[j, 7] = np.log(unigram[j])
        features[j, 8] = np.log(float(words))
