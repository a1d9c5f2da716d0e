"""Lexicon: word statistics of the other pairs: frequencies, links, null links, and neighboring words.

A pair's own words, links and neighbors are subtracted. docs/model.md, section 8, has the equations.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit

_LINK_DISCOUNT = 0.5
_UNSEEN_WORD = 0.5
_MIN_RATE = 1e-6
"""Lower bound of the share of unlinked words."""
_STRENGTH = 2.0
"""Prior strength of a word's unigram probability in its probability next to a neighbor."""
FEATURES = 9
"""Number of features of a word."""


class SideCounts(NamedTuple):
    """Word counts of one side, int64[V]: tokens, linked tokens (and their sums), links, distinct link partners."""

    words: NDArray[np.int64]
    linked: NDArray[np.int64]
    links: NDArray[np.int64]
    partners: NDArray[np.int64]
    total: int
    linked_total: int


class LinkCounts(NamedTuple):
    """Link counts of word pairs in sparse rows.

    Source word f has the entries `first[f] … first[f + 1] - 1`, int64[V + 1]: target words `target` int32, counts
    `times` int32.
    """

    first: NDArray[np.int64]
    target: NDArray[np.int32]
    times: NDArray[np.int32]


class NeighborCounts(NamedTuple):
    """Counts of neighboring words of one side; sentence boundaries count as words."""

    # uint64 ascending, int32: codes of bigrams, and their counts.
    pairs: NDArray[np.uint64]
    pair_times: NDArray[np.int32]
    # The same for trigrams.
    triples: NDArray[np.uint64]
    triple_times: NDArray[np.int32]
    # The same for trigrams without the middle word.
    around: NDArray[np.uint64]
    around_times: NDArray[np.int32]
    # int32[base]: number of predecessors and successors of each word.
    before: NDArray[np.int32]
    after: NDArray[np.int32]
    # Base of the codes.
    base: int


class Lexicon(NamedTuple):
    """Statistics of words of both sides, and of links."""

    sides: tuple[SideCounts, SideCounts]
    links: LinkCounts
    neighbors: tuple[NeighborCounts, NeighborCounts]


class PairContribution(NamedTuple):
    """Contribution of one stored pair to the statistics, empty for other pairs: words and links by position, int32."""

    words: tuple[NDArray[np.int32], NDArray[np.int32]]
    links: tuple[NDArray[np.int32], NDArray[np.int32]]


class PairFacts(NamedTuple):
    """Statistics of one pair's words by side and position."""

    # float64[2, n]: unigram probability of each word.
    alone: NDArray[np.float64]
    # float64[2, n]: probability of each word without a link.
    nulls: NDArray[np.float64]
    # float64[2, n, 2]: number of links in other pairs, and of distinct partners.
    links: NDArray[np.float64]
    # float64[n, m]: link count of each word pair, and its base probability.
    linked: NDArray[np.float64]
    together: NDArray[np.float64]
    # float64[2, n, 3]: log ratios given the neighbors.
    neighbors: NDArray[np.float64]
    # int8[2, n]: own words that are linked.
    bound: NDArray[np.int8]
    # int8[links]: own links between words that no other pair links.
    gone: NDArray[np.int8]
    # float64[n]: scratch memory.
    row: NDArray[np.float64]


def make_facts(longest: int, links: int) -> PairFacts:
    """Allocate statistics for pairs of up to `longest` words per side and `links` own links."""
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


def count_neighbors(tokens: NDArray[np.int32], first: NDArray[np.int64], words: int) -> NeighborCounts:
    """Count neighboring words of sentences; sentence k is `tokens[first[k] : first[k + 1]]`, all below `words`."""
    base = words + 3
    sizes = np.diff(first)
    padded = np.full(len(tokens) + 2 * len(sizes), base - 1, np.uint64)
    padded[first[:-1] + 2 * np.arange(len(sizes))] = base - 2
    positions = np.arange(len(tokens)) + 2 * np.repeat(np.arange(len(sizes)), sizes) + 1
    padded[positions] = tokens + 1
    radix = np.uint64(base)
    left, middle, right = padded[positions - 1], padded[positions], padded[positions + 1]
    ends = positions[np.cumsum(sizes) - 1]
    pairs = np.concatenate([left * radix + middle, padded[ends] * radix + padded[ends + 1]])
    before, after = (np.bincount(side.astype(np.int64), minlength=base).astype(np.int32) for side in (left, right))
    triples, around = (left * radix + middle) * radix + right, left * radix + right
    return NeighborCounts(*_counted(pairs), *_counted(triples), *_counted(around), before, after, base)


def _counted(codes: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Return the distinct codes, ascending, and their counts."""
    distinct, times = np.unique(codes, return_counts=True)
    return distinct, times.astype(np.int32)


@njit
def _look_up(values, times, low, high, value):
    """Return the count of a value in the sorted values from low to high."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return np.int64(times[low]) if low < end and values[low] == value else np.int64(0)


@njit
def _times(codes, times, code):
    return _look_up(codes, times, 0, len(codes), code)


@njit
def linked_times(links, source, target):
    """Return the link count of two words; -1 is an unknown word."""
    if source < 0 or target < 0:
        return np.int64(0)
    return _look_up(links.target, links.times, links.first[source], links.first[source + 1], target)


@njit
def _count(words, word):
    """Return the number of occurrences of a word."""
    number = 0
    for earlier in words:
        if earlier == word:
            number += 1
    return number


@njit
def _own_links(own, source, target):
    """Return the number of the pair's own links between two words."""
    number = 0
    for k in range(len(own.links[0])):
        if own.words[0][own.links[0][k]] == source and own.words[1][own.links[1][k]] == target:
            number += 1
    return number


@njit
def mark_own_links(lexicon, own, facts):
    """Mark own linked words, and own links that no other pair has; of equal links only the first."""
    facts.bound[0, : len(own.words[0])] = 0
    facts.bound[1, : len(own.words[1])] = 0
    for k in range(len(own.links[0])):
        facts.bound[0, own.links[0][k]] = 1
        facts.bound[1, own.links[1][k]] = 1
        source, target = own.words[0][own.links[0][k]], own.words[1][own.links[1][k]]
        gone = linked_times(lexicon.links, source, target) <= _own_links(own, source, target)
        for earlier in range(k):
            if own.words[0][own.links[0][earlier]] == source and own.words[1][own.links[1][earlier]] == target:
                gone = False
        facts.gone[k] = gone


@njit
def _weigh_side(side, words, own, lexicon, facts):
    """Fill `alone`, `nulls` and `links` of one side; -1 is an unknown word."""
    counts, own_words, own_ends = lexicon.sides[side], own.words[side], own.links[side]
    # Words that no other pair contains are not in the other pairs' vocabulary.
    vocabulary, bound = len(counts.words), 0
    for k in range(len(own_words)):
        bound += facts.bound[side, k]
        first = True
        for earlier in range(k):
            first = first and own_words[earlier] != own_words[k]
        if first and own_words[k] >= 0 and counts.words[own_words[k]] <= _count(own_words, own_words[k]):
            vocabulary -= 1
    total = counts.total - len(own_words)
    rate = max(1.0 - (counts.linked_total - bound) / max(total, 1), _MIN_RATE)
    for k in range(len(words)):
        word = words[k]
        tokens, linked, links, partners = 0.0, 0.0, 0.0, 0.0
        if word >= 0:
            tokens, linked = float(counts.words[word]), float(counts.linked[word])
            links, partners = float(counts.links[word]), float(counts.partners[word])
            for earlier in range(len(own_words)):
                if own_words[earlier] == word:
                    tokens -= 1
                    linked -= facts.bound[side, earlier]
            for link in range(len(own_ends)):
                if own_words[own_ends[link]] == word:
                    links -= 1
                    partners -= facts.gone[link]
        # The statistics may be older than the pair's current links.
        tokens = max(tokens, 0.0)
        facts.alone[side, k] = (tokens + _UNSEEN_WORD) / (total + _UNSEEN_WORD * (vocabulary + 1))
        free = max(tokens - max(linked, 0.0), 0.0)
        facts.nulls[side, k] = facts.alone[side, k] * (free + rate) / (tokens + 1) / rate
        facts.links[side, k, 0] = max(links, 0.0)
        facts.links[side, k, 1] = max(partners, 0.0)


@njit
def _weigh_links(source, target, own, lexicon, facts):
    """Fill `linked` and `together`: [P(f) P(e|f) P(e) P(f|e)]^½, from other pairs' links."""
    for i in range(len(source)):
        forward = 1.0 / (facts.links[0, i, 0] + 1)
        forward_left = (_LINK_DISCOUNT * facts.links[0, i, 1] + 1) * forward
        for x in range(len(target)):
            times = linked_times(lexicon.links, source[i], target[x])
            if times > 0:
                times -= _own_links(own, source[i], target[x])
            linked = max(float(times), 0.0)
            facts.linked[i, x] = linked
            discounted = max(linked - _LINK_DISCOUNT, 0.0)
            backward = 1.0 / (facts.links[1, x, 0] + 1)
            backward_left = (_LINK_DISCOUNT * facts.links[1, x, 1] + 1) * backward
            given_source = discounted * forward + forward_left * facts.alone[1, x]
            given_target = discounted * backward + backward_left * facts.alone[0, i]
            facts.together[i, x] = np.sqrt(facts.alone[0, i] * given_source * facts.alone[1, x] * given_target)


@njit
def _around(words, k, base):
    """Return the codes of the words before, at and after position k; 0 for unknown words."""
    left = np.uint64(words[k - 1] + 1) if k > 0 else np.uint64(base - 2)
    right = np.uint64(words[k + 1] + 1) if k + 1 < len(words) else np.uint64(base - 1)
    return left, np.uint64(words[k] + 1), right


@njit
def _weigh_neighbors(side, words, own_words, counts, facts):
    """Fill `neighbors`: ln P(word | previous word, next word, both) / P(word)."""
    base = np.uint64(counts.base)
    for k in range(len(words)):
        left, middle, right = _around(words, k, counts.base)
        before = _times(counts.pairs, counts.pair_times, left * base + middle)
        after = _times(counts.pairs, counts.pair_times, middle * base + right)
        trigram = _times(counts.triples, counts.triple_times, (left * base + middle) * base + right)
        around = _times(counts.around, counts.around_times, left * base + right)
        first, last = np.int64(counts.before[left]), np.int64(counts.after[right])
        for earlier in range(len(own_words)):
            a, b, c = _around(own_words, earlier, counts.base)
            first -= a == left
            last -= c == right
            around -= a == left and c == right
            before -= a == left and b == middle
            after -= b == middle and c == right
            trigram -= a == left and b == middle and c == right
        strength = _STRENGTH * facts.alone[side, k]
        given_left = (max(before, 0) + strength) / (max(first, 0) + _STRENGTH)
        given_right = (max(after, 0) + strength) / (max(last, 0) + _STRENGTH)
        between = (max(trigram, 0) + (given_left + given_right) / 2) / (max(around, 0) + 1)
        facts.neighbors[side, k, 0] = np.log(given_left / facts.alone[side, k])
        facts.neighbors[side, k, 1] = np.log(given_right / facts.alone[side, k])
        facts.neighbors[side, k, 2] = np.log(between / facts.alone[side, k])


@njit
def weigh_words(source, target, own, lexicon, facts):
    """Fill all statistics of a pair's words."""
    mark_own_links(lexicon, own, facts)
    _weigh_side(0, source, own, lexicon, facts)
    _weigh_side(1, target, own, lexicon, facts)
    _weigh_links(source, target, own, lexicon, facts)
    _weigh_neighbors(0, source, own.words[0], lexicon.neighbors[0], facts)
    _weigh_neighbors(1, target, own.words[1], lexicon.neighbors[1], facts)


@njit
def _linked(side, word, other, facts):
    return facts.linked[other, word] if side == 1 else facts.linked[word, other]


@njit
def fill_features(side, sizes, facts, features):
    """Fill the features of each word of a side (0: source, 1: target), float64[words, 9]."""
    words, opposite_words = sizes[side], sizes[1 - side]
    unigram, opposite_unigram = facts.alone[side], facts.alone[1 - side]
    for k in range(opposite_words):
        facts.row[k] = 0.0
        for j in range(words):
            facts.row[k] += (_linked(side, j, k, facts) + opposite_unigram[k]) / (facts.links[side, j, 0] + 1)
    for j in range(words):
        mean = largest = back_largest = share = 0.0
        for k in range(opposite_words):
            linked = _linked(side, j, k, facts)
            forward = (linked + unigram[j]) / (facts.links[1 - side, k, 0] + 1)
            backward = (linked + opposite_unigram[k]) / (facts.links[side, j, 0] + 1)
            mean += forward
            largest = max(largest, forward)
            back_largest = max(back_largest, backward / opposite_unigram[k])
            share += backward / facts.row[k]
        for k in range(3):
            features[j, k] = facts.neighbors[side, j, k]
        features[j, 3] = np.log(mean / opposite_words / unigram[j])
        features[j, 4] = np.log(largest / unigram[j])
        features[j, 5] = np.log(back_largest)
        features[j, 6] = np.log(share + 0.02)
        features[j, 7] = np.log(unigram[j])
        features[j, 8] = np.log(float(words))
