"""The words of rules: a number for each word of each rule, so that many of them are sorted and compared as columns."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.grammar.kinds import Notation, WordPlace
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


class RuleWords:
    """Finds the words of rules whose ids are at most `last_rule_id`; symbols that were met are remembered.

    A word and a rule are packed into one number, the rule in as many low bits as its last id has: it ascends with the
    word, then with the rule.
    """

    def __init__(self, notation: Notation, word_ids: WordIds, last_rule_id: int) -> None:
        self._places = [(place, dict[str, int]()) for place in notation.rule_words]
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
        """Every distinct word of each rule, packed, ascending; `sides` are the rules' texts by the name of the side."""
        found = [np.zeros(0, np.int64)]
        for place, known in self._places:
            texts = sides[place.side]
            for first in range(0, len(rule_ids), _RULES_TAKEN_APART):
                some = slice(first, first + _RULES_TAKEN_APART)
                found.append(self._of_side(place, known, texts[some], rule_ids[some]))
        return distinct(np.concatenate(found))

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
