"""Index of rules by word.

The index has an entry for each word of each rule. A rule with several source words also has an anchor. This negative
number is a hash of two of the words and their distance. The two words are the words that were added to the vocabulary
last, because they are usually rare. A sentence has few word pairs, so all rules that match it are found by the anchors
of its word pairs, and by its single words.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.grammar.kinds import SOURCE, TWO_SIDES, GrammarKind, WordSide

_RULES_PER_BATCH = 50_000
"""Number of rules whose sides are split into words at once, to limit memory."""

_NO_WORD, _NOT_CACHED = 0, -1

WordIds = Callable[[str, Iterable[str]], Mapping[str, int]]
"""Function that returns the positive ids, by token, of all given tokens on a side of the vocabulary."""


def is_indexed_by_words(counts: NDArray[np.int64], expected: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return a mask of the rules to index by word: rules with a count, or with at least 0.5 expected uses."""
    is_indexed: NDArray[np.bool_] = (counts > 0) | (expected >= 0.5)
    return is_indexed


_MIXERS = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xFF51AFD7ED558CCD)))
_HALF = np.uint64(32)
_ANCHOR_BITS = 28
_ANCHOR_SHIFT = np.uint64(64 - _ANCHOR_BITS)
_MAX_DISTANCE = 8
_UNKNOWN_DISTANCE = 0


def hash_anchors(
    first: NDArray[np.int64], second: NDArray[np.int64], distances: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the anchors, from -2²⁸ to -1, of pairs of word ids.

    The first word precedes the second at the given distance in words. `_UNKNOWN_DISTANCE` is an unknown distance or a
    distance above `_MAX_DISTANCE`. Anchors may collide, so matches must be verified.
    """
    first_mixer, second_mixer, third_mixer = _MIXERS
    before, after, gap = (column.astype(np.uint64) for column in (first, second, distances))
    mixed = (before * first_mixer + gap) * second_mixer + after * first_mixer
    mixed = (mixed ^ mixed >> _HALF) * third_mixer
    numbers: NDArray[np.int64] = -1 - (mixed >> _ANCHOR_SHIFT).astype(np.int64)
    return numbers


def sentence_anchors(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sorted distinct anchors of a sentence of word ids. Unknown words have id 0."""
    positions = np.flatnonzero(words)
    before, after = np.triu_indices(len(positions), 1)
    first, second = positions[before], positions[after]
    distances = second - first
    near, gapped = distances <= _MAX_DISTANCE, distances > 1
    near_anchors = hash_anchors(words[first[near]], words[second[near]], distances[near])
    gapped_anchors = hash_anchors(
        words[first[gapped]], words[second[gapped]], np.full(int(gapped.sum()), _UNKNOWN_DISTANCE)
    )
    return distinct(np.concatenate((near_anchors, gapped_anchors)))


class RuleWords:
    """Maker of index entries for rules with ids up to `last_rule_id`. Caches the word ids of symbols.

    An entry packs a word id or anchor and a rule id into one number. The low bits hold the rule id, and their number is
    the bit length of `last_rule_id`. Entries sort by word, then by rule.
    """

    def __init__(self, grammar_kind: GrammarKind, word_ids: WordIds, last_rule_id: int) -> None:
        # Word ids of the symbols seen on each side, `_NO_WORD` for symbols that are not words.
        self._caches = [(word_side, dict[str, int]()) for word_side in grammar_kind.rule_words]
        self._anchored = TWO_SIDES in grammar_kind.capabilities
        self._word_ids = word_ids
        self._bits = last_rule_id.bit_length()

    def word_ids(self, entries: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the word ids or anchors of entries."""
        return entries >> self._bits

    def rule_ids(self, entries: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rule ids of entries."""
        ids: NDArray[np.int64] = entries & ((1 << self._bits) - 1)
        return ids

    def make_entries(self, sides: Mapping[str, Sequence[str]], rule_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sorted distinct entries of rules, given their sides by side name."""
        entries = [np.zeros(0, np.int64)]
        for word_side, words_by_symbol in self._caches:
            texts = sides[word_side.side]
            for first in range(0, len(rule_ids), _RULES_PER_BATCH):
                chunk = slice(first, first + _RULES_PER_BATCH)
                symbols, rows = self._symbols(word_side, words_by_symbol, texts[chunk])
                words = np.flatnonzero(symbols)
                entries.append(symbols[words] << self._bits | rule_ids[chunk][rows[words]])
                if self._anchored and word_side.side == SOURCE:
                    anchors, anchor_rows = _side_anchors(symbols, rows)
                    entries.append(anchors << self._bits | rule_ids[chunk][anchor_rows])
        return distinct(np.concatenate(entries))

    def _symbols(
        self, word_side: WordSide, words_by_symbol: dict[str, int], texts: Sequence[str]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the word id (`_NO_WORD` for symbols that are not words) and the row of each symbol."""
        symbols = " ".join(texts).split(" ")
        words = np.fromiter(map(words_by_symbol.get, symbols, repeat(_NOT_CACHED)), np.int64, len(symbols))
        uncached = np.flatnonzero(words == _NOT_CACHED).tolist()
        if uncached:
            new_words = {symbol: word_side.parse_word(symbol) for symbol in dict.fromkeys(symbols[k] for k in uncached)}
            ids = self._word_ids(word_side.vocabulary, (token for token in new_words.values() if token is not None))
            words_by_symbol.update(
                (symbol, _NO_WORD if token is None else ids[token]) for symbol, token in new_words.items()
            )
            words[uncached] = [words_by_symbol[symbols[k]] for k in uncached]
        spaces = np.fromiter(map(str.count, texts, repeat(" ")), np.int64, len(texts))
        return words, np.repeat(np.arange(len(texts)), spaces + 1)


def _side_anchors(symbols: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the anchors of sides with at least two word tokens, and the rows of these sides."""
    positions = np.flatnonzero(symbols)
    positions = positions[np.lexsort((positions, -symbols[positions], rows[positions]))]
    before, after = positions[:-1], positions[1:]
    repeated = np.zeros(len(positions), np.bool_)
    repeated[1:] = (rows[before] == rows[after]) & (symbols[before] == symbols[after])
    # Sort the first positions of distinct words before other positions. The anchor uses the first two of this order.
    positions = positions[np.argsort(2 * rows[positions] + repeated, kind="stable")]
    is_start = np.diff(rows[positions], prepend=-1) > 0
    starts = np.flatnonzero(is_start[:-1] & ~is_start[1:])
    pairs = np.stack([positions[starts], positions[starts + 1]])
    first, second = pairs.min(axis=0), pairs.max(axis=0)
    gaps = np.cumsum(symbols == _NO_WORD)
    distances = second - first
    distances[(gaps[first] != gaps[second]) | (distances > _MAX_DISTANCE)] = _UNKNOWN_DISTANCE
    return hash_anchors(symbols[first], symbols[second], distances), rows[first]


def distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sorted distinct numbers."""
    # Sort, because np.unique is slower: it uses a hash table.
    ordered: NDArray[np.int64] = np.sort(numbers)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)].astype(np.bool_)]
