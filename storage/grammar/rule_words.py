"""The words of rules: a number for each word of each rule, so that many of them are sorted and compared as columns.

A rule whose source side has several words also has an anchor: a negative number, made from the two of them that came
last into the vocabulary, which are rare ones as a rule. A sentence has few pairs of words, so all rules whose source
words it holds are found by the anchors that these make, and by the few source sides of one word.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.grammar.kinds import SOURCE, TWO_SIDES, Notation, WordPlace
from hierogram.samplers.grammar.uses import ONE_USE

_RULES_TAKEN_APART = 50_000
"""Rules whose sides are taken apart at a time, which bounds the memory that it takes."""

_NO_WORD, _NOT_MET = 0, -1

WordIds = Callable[[str, Iterable[str]], Mapping[str, int]]
"""The id of each of some tokens, of those of a side of the vocabulary."""


def found_by_words(counts: NDArray[np.int64], sampled: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a rule is found by its words: it is in use, or half a use of it is expected, in units of 1/`ONE_USE`."""
    found: NDArray[np.bool_] = (counts > 0) | (sampled >= ONE_USE // 2)
    return found


_MIXERS = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xFF51AFD7ED558CCD)))
_ANCHOR_BITS = 28
_HALF, _REST = np.uint64(32), np.uint64(64 - _ANCHOR_BITS)


def anchors(younger: NDArray[np.int64], older: NDArray[np.int64]) -> NDArray[np.int64]:
    """The anchors, from -2²⁸ to -1, of pairs of words by their ids; the same word twice is one that stands there twice.

    Other pairs may have the same anchor: what is found by it has to be compared.
    """
    first, second, third = _MIXERS
    mixed = younger.astype(np.uint64) * first + older.astype(np.uint64) * second
    mixed = (mixed ^ mixed >> _HALF) * third
    numbers: NDArray[np.int64] = -1 - (mixed >> _REST).astype(np.int64)
    return numbers


class RuleWords:
    """Finds the words of rules whose ids are at most `last_rule_id`; symbols that were met are remembered.

    A word and a rule are packed into one number, the rule in as many low bits as its last id has: it ascends with the
    word, then with the rule.
    """

    def __init__(self, notation: Notation, word_ids: WordIds, last_rule_id: int) -> None:
        self._places = [(place, dict[str, int]()) for place in notation.rule_words]
        self._anchored = TWO_SIDES in notation.offers
        self._word_ids = word_ids
        self._bits = last_rule_id.bit_length()

    def word_ids(self, packed: NDArray[np.int64]) -> NDArray[np.int64]:
        """The words of packed numbers."""
        return packed >> self._bits

    def rule_ids(self, packed: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rules of packed numbers."""
        ids: NDArray[np.int64] = packed & ((1 << self._bits) - 1)
        return ids

    def find(self, sides: Mapping[str, Sequence[str]], rule_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Every distinct word of each rule, and its anchor, packed, ascending; `sides` are the rules' texts by the name
        of the side.
        """
        found = [np.zeros(0, np.int64)]
        for place, known in self._places:
            texts = sides[place.side]
            for first in range(0, len(rule_ids), _RULES_TAKEN_APART):
                some = slice(first, first + _RULES_TAKEN_APART)
                found.append(self._of_side(place, known, texts[some], rule_ids[some]))
                if self._anchored and place.side == SOURCE:
                    found.append(self._anchors_of(found[-1]))
        return distinct(np.concatenate(found))

    def _anchors_of(self, packed: NDArray[np.int64]) -> NDArray[np.int64]:
        """The anchors, packed, of rules with these words of the source side, packed."""
        if not len(packed):
            return packed
        words = self.word_ids(packed)
        bits = int(words.max()).bit_length()
        by_rule = np.sort(self.rule_ids(packed) << bits | words)
        rules, words = by_rule >> bits, by_rule & ((1 << bits) - 1)
        last = np.flatnonzero(np.append(rules[1:] != rules[:-1], True))
        # The next word before it that differs; the word itself, where there is none but it stands there twice.
        changes = np.append(True, by_rule[1:] != by_rule[:-1])
        firsts = np.maximum.accumulate(np.where(changes, np.arange(len(by_rule)), 0))[last]
        others = np.maximum(firsts - 1, 0)
        differs = (firsts > 0) & (rules[others] == rules[last])
        several = differs | (firsts < last)
        younger = words[last][several]
        older = np.where(differs, words[others], words[last])[several]
        numbers: NDArray[np.int64] = anchors(younger, older) << self._bits | rules[last][several]
        return numbers

    def _of_side(
        self, place: WordPlace, known: dict[str, int], texts: Sequence[str], rule_ids: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        symbols = " ".join(texts).split(" ")
        words = np.fromiter(map(known.get, symbols, repeat(_NOT_MET)), np.int64, len(symbols))
        unmet = np.flatnonzero(words == _NOT_MET).tolist()
        if unmet:
            met = {symbol: place.word(symbol) for symbol in dict.fromkeys(symbols[k] for k in unmet)}
            ids = self._word_ids(place.vocabulary, (token for token in met.values() if token is not None))
            known.update((symbol, _NO_WORD if token is None else ids[token]) for symbol, token in met.items())
            words[unmet] = [known[symbols[k]] for k in unmet]
        spaces = np.fromiter(map(str.count, texts, repeat(" ")), np.int64, len(texts))
        there = words != _NO_WORD
        rules = np.repeat(rule_ids, spaces + 1)
        packed: NDArray[np.int64] = words[there] << self._bits | rules[there]
        return packed


def distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The different numbers, ascending."""
    # Faster than numpy's own, which has a table of them.
    ordered: NDArray[np.int64] = np.sort(numbers)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)].astype(np.bool_)]
