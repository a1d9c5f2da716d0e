"""Compositions: short rules of every granularity, from one tree of each pair's forest.

Each phrase of the tree yields a rule without nonterminals, and for each phrase inside it a rule in which a nonterminal
replaces the inner phrase. New text needs phrases of all granularities [Neubig et al. 2011]. Each node of the tree has
its first edge, so compositions depend only on the links.

An n-gram model of the training text predicts how often the source side of a rule occurs in new text. The count of
each n-gram excludes the occurrence that produced the rule. The model backs off to the shorter n-gram with a Dirichlet
prior of strength 1 [MacKay & Peto 1995]. Among phrases seen once, the model favors common words in a common order,
because such phrases are more likely to recur.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import find_key
from hierogram.samplers.forests.averages import encode_fragment
from hierogram.samplers.forests.derivations import Batch, empty_state, make_summary, walk_space
from hierogram.samplers.forests.forest import push_tails, view_pair
from hierogram.samplers.forests.fragments import base_powers, cumulate_hashes, summary_key
from hierogram.samplers.forests.records import Fragments
from hierogram.samplers.grammar.keys import ALL_BITS, hash_words, numbering
from hierogram.samplers.grammar.numbers import ONE_COMPOSITION
from hierogram.samplers.grammar.rules import HIERO_MAX_SOURCE_SYMBOLS, MAX_SHORT_SOURCE, unescape_terminal

ORDER = 3
"""Length in words of the longest n-grams that are counted."""
_PSEUDO_COUNT = 0.5
"""Number added to the other occurrences of each word, so that words seen once have a probability."""
_MIN_WORDS = 100_000
"""Minimum text size in words for expected occurrences, so that small stores export enough rules."""
_MIN_SLOTS, _MAX_SLOTS = 1 << 12, 1 << 24
"""Initial number of slots, and number of slots beyond which n-grams seen once are dropped."""
_SLOTS_PER_NGRAM = 1.5
_HALF_BITS = np.uint64(32)
_POWERS = base_powers(ORDER)
_SEPARATOR = "\n"
"""Separator between sides, which no symbol contains."""


class Ngrams(NamedTuple):
    """Hash table of n-gram counts in a text of `words` words, with `distinct` used slots. Free keys are 0."""

    keys: NDArray[np.uint64]
    counts: NDArray[np.uint32]
    distinct: int
    words: int


@njit_inline
def _slot_of(key, keys):
    return find_key(keys, key ^ (key >> _HALF_BITS), key)


@njit_inline
def _ngram_key(running, start, end):
    return max(running[end] - running[start] * _POWERS[end - start], np.uint64(1))


@njit_inline
def _ngram_count(running, start, end, ngrams):
    return np.float64(ngrams.counts[_slot_of(_ngram_key(running, start, end), ngrams.keys)])


@njit
def _count(offset, running, keys, counts):
    new = 0
    for sentence in range(len(offset) - 1):
        for end in range(offset[sentence] + 1, offset[sentence + 1] + 1):
            for n in range(1, min(ORDER, end - offset[sentence]) + 1):
                key = _ngram_key(running, end - n, end)
                slot = _slot_of(key, keys)
                new += np.int64(keys[slot] == np.uint64(0))
                keys[slot] = key
                counts[slot] += np.uint32(1)
    return new


@njit
def _move(keys, counts, least, new_keys, new_counts):
    moved = 0
    for k in range(len(keys)):
        if keys[k] != np.uint64(0) and counts[k] >= least:
            slot = _slot_of(keys[k], new_keys)
            new_keys[slot] = keys[k]
            new_counts[slot] = counts[k]
            moved += 1
    return moved


@njit_inline
def _log_probability(running, start, end, ngrams):
    """Return the natural log probability that a given position of a text has the words [start, end)."""
    value = 0.0
    for k in range(start, end):
        occurrences = _ngram_count(running, k, k + 1, ngrams)
        p = (max(occurrences - 1.0, 0.0) + _PSEUDO_COUNT) / ngrams.words
        for n in range(2, min(ORDER, k + 1 - start) + 1):
            context_occurrences = _ngram_count(running, k + 1 - n, k, ngrams)
            occurrences = _ngram_count(running, k + 1 - n, k + 1, ngrams)
            p = (max(occurrences - 1.0, 0.0) + p) / max(context_occurrences, 1.0)
        value += np.log(p)
    return value


@njit
def _expect(running, runs, ngrams, expected):
    """Multiply the expected occurrences of each side by the linear probability of each of its word runs."""
    for run in runs:
        side = run[0]
        expected[side] *= np.exp(_log_probability(running, run[1], run[2], ngrams))


def empty_ngrams() -> Ngrams:
    """Return empty n-gram counts."""
    return Ngrams(np.zeros(_MIN_SLOTS, np.uint64), np.zeros(_MIN_SLOTS, np.uint32), 0, 0)


def _with_room(ngrams: Ngrams, extra: int) -> Ngrams:
    """Return a table with room for `extra` n-grams. Beyond `_MAX_SLOTS`, drops n-grams seen once."""
    slots = len(ngrams.keys)
    needed = _SLOTS_PER_NGRAM * (ngrams.distinct + extra)
    if needed <= slots:
        return ngrams
    min_count = 2 if needed > _MAX_SLOTS else 1
    remaining = int(((ngrams.keys != 0) & (ngrams.counts >= min_count)).sum())
    while slots < _SLOTS_PER_NGRAM * (remaining + extra):
        slots *= 2
    keys, counts = np.zeros(slots, np.uint64), np.zeros(slots, np.uint32)
    used = _move(ngrams.keys, ngrams.counts, min_count, keys, counts)
    return ngrams._replace(keys=keys, counts=counts, distinct=used)


def add_ngrams(ngrams: Ngrams, batch: Batch) -> Ngrams:
    """Return the counts with the n-grams of a batch's source sentences added. Consumes `ngrams`."""
    ngrams = _with_room(ngrams, ORDER * len(batch.bitext.source))
    new = _count(batch.bitext.source_offset, batch.word_hashes.source, ngrams.keys, ngrams.counts)
    return ngrams._replace(distinct=ngrams.distinct + new, words=ngrams.words + len(batch.bitext.source))


def expected_occurrences(ngrams: Ngrams, sides: Iterable[str], salt: int) -> NDArray[np.float64]:
    """Return the expected occurrences of each source side in new text of the counted size, float64[m].

    If fewer than `_MIN_WORDS` words were counted, the text has `_MIN_WORDS` words. `sides` are in rule notation. `salt`
    is the salt of the word hashes. Runs of words between nonterminals are assumed to be independent.
    """
    sides = list(sides)
    numbers = numbering()
    end = numbers[_SEPARATOR]
    # Number the symbols of all sides in one pass, so that each distinct symbol is parsed once. The end of a side
    # separates runs of words like a nonterminal. A run is (side, first word, end) in the sequence of all words.
    symbols = np.array([numbers[symbol] for symbol in f" {_SEPARATOR} ".join(sides).split(" ")], np.int64)
    spelled = [None if symbol == _SEPARATOR else unescape_terminal(symbol) for symbol in numbers]
    is_word = np.array([word is not None for word in spelled])[symbols]
    side = np.cumsum(symbols == end)
    hashes = hash_words((word or "" for word in spelled), salt)[symbols[is_word]]
    begins = is_word & ~np.append(False, is_word[:-1])
    ends = is_word & ~np.append(is_word[1:], False)
    word_number = np.cumsum(is_word)
    runs = np.stack((side[begins], word_number[begins] - 1, word_number[ends]), axis=1)
    expected = np.full(len(sides), float(max(ngrams.words, _MIN_WORDS)))
    running = cumulate_hashes(hashes, hashes[:0], ALL_BITS).source
    _expect(running, runs, ngrams, expected)
    return expected


MAX_PHRASE_WORDS = 10
"""Maximum number of words of a phrase on each side [Chiang 2007]."""
_BYTES_PER_NODE = 3
"""Maximum number of bytes of the encoded variables of a node."""


@njit_inline
def _span_words(node, side):
    if side == 0:
        return np.int64(node["source_end"]) - np.int64(node["source_start"])
    return np.int64(node["target_end"]) - np.int64(node["target_start"])


@njit_inline
def _is_short(v, view):
    node = view.node[v]
    return node["free"] and _span_words(node, 0) <= MAX_PHRASE_WORDS and _span_words(node, 1) <= MAX_PHRASE_WORDS


@njit
def _list_below(v, view, stack, below):
    depth = push_tails(v, view, stack, 0)
    count = 0
    while depth > 0:
        depth -= 1
        x = np.int64(stack[depth])
        below[count] = x
        count += 1
        depth = push_tails(x, view, stack, depth)
    return count


@njit
def _bound_sizes(batch, state, work):
    compositions = 0
    size = 0
    for pair in range(len(batch.pairs)):
        view = view_pair(batch, state, pair)
        for k in range(_list_below(len(view.node) - 1, view, work.stack, work.scratch[0])):
            v = work.scratch[0, k]
            if _is_short(v, view):
                capacity = 1 + _list_below(v, view, work.stack, work.scratch[1])
                compositions += capacity
                size += _BYTES_PER_NODE * capacity * capacity
    return compositions, size


@njit_inline
def _expected(v, x, view, ngrams):
    """Return the expected occurrences of the source words of phrase v around phrase x, or all if x is v."""
    node, inner = view.node[v], view.node[x]
    end = np.int64(node["source_end"])
    first, last = (end, end) if x == v else (np.int64(inner["source_start"]), np.int64(inner["source_end"]))
    value = _log_probability(view.source_hashes, np.int64(node["source_start"]), first, ngrams)
    value += _log_probability(view.source_hashes, last, end, ngrams)
    return max(ngrams.words, _MIN_WORDS) * np.exp(value)


@njit
def _write_composition(pair, v, view, batch, work, output, used, position):
    work.registers[0]["epoch"] += 1
    make_summary(v, view, work)
    _, output.keys[used] = summary_key(work.summary, v, batch.word_hashes.key_mask)
    output.fragments.pairs[used] = pair
    output.fragments.roots[used] = v
    output.fragments.starts[used] = position
    position = encode_fragment(v, view, work.pending, output.fragments.content, position)
    output.fragments.ends[used] = position
    return position


@njit
def _compose(batch, state, nodes, below, work, ngrams, output):
    used = 0
    position = 0
    for pair in range(len(batch.pairs)):
        view = view_pair(batch, state, pair)
        for k in range(_list_below(len(view.node) - 1, view, work.stack, nodes)):
            v = nodes[k]
            if not _is_short(v, view):
                continue
            # Begin with x = v for the rule without nonterminals. Each rule has words on both sides, because phrases
            # begin and end with linked words.
            below[0] = v
            for j in range(1 + _list_below(v, view, work.stack, below[1:])):
                x = below[j]
                symbols = _span_words(view.node[v], 0)
                if x != v:
                    symbols += 1 - _span_words(view.node[x], 0)
                if symbols <= HIERO_MAX_SOURCE_SYMBOLS:
                    view.cut[x] = x != v
                    position = _write_composition(pair, v, view, batch, work, output, used, position)
                    view.cut[x] = 0
                    output.expected[used] = _expected(v, x, view, ngrams) if symbols > MAX_SHORT_SOURCE else 0.0
                    used += 1
    return used


class Compositions(NamedTuple):
    """m compositions: their fragments, and `keys` uint64[m], the low word of each rule's key.

    `expected` float64[m]: expected occurrences of each source side in new text. It is 0 for source sides of up to
    `MAX_SHORT_SOURCE` symbols, for which it is not computed.
    """

    fragments: Fragments
    keys: NDArray[np.uint64]
    expected: NDArray[np.float64]


def list_compositions(batch: Batch, ngrams: Ngrams) -> Compositions:
    """Return the compositions of a batch's pairs, each with weight `ONE_COMPOSITION`, sorted by pair.

    A rule that a pair yields several times is returned several times. Phrases have up to `MAX_PHRASE_WORDS` words per
    side and a free cut. Rules have up to `HIERO_MAX_SOURCE_SYMBOLS` source symbols. `ngrams` must include the source
    text of the pairs.
    """
    state, work = empty_state(batch.forests), walk_space(batch)
    number, size = _bound_sizes(batch, state, work)
    columns = [np.zeros(number, np.int64) for _ in range(6)]
    fragments = Fragments(np.zeros(size, np.uint8), *columns)
    output = Compositions(fragments, np.zeros(number, np.uint64), np.zeros(number))
    nodes, below = np.zeros((2, batch.max_nodes + 2), np.int64)
    used = _compose(batch, state, nodes, below, work, ngrams, output)
    fragments.weights[:] = ONE_COMPOSITION
    return Compositions(fragments.select(slice(used)), output.keys[:used], output.expected[:used])
