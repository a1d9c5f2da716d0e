"""The words of rules: a number for each word of each rule, so that many of them are sorted and compared as columns.

A rule whose source side has several words also has an anchor: a negative number, made from the two of them that came
last into the vocabulary, which are rare ones as a rule, and from how these stand to each other. A sentence has few
pairs of words, so all rules whose source side it holds are found by the anchors that these make, and by the few source
sides of one word.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.grammar.kinds import SOURCE, TWO_SIDES, Notation, WordPlace

_RULES_TAKEN_APART = 50_000
"""Rules whose sides are taken apart at a time, which bounds the memory that it takes."""

_NO_WORD, _NOT_MET = 0, -1

WordIds = Callable[[str, Iterable[str]], Mapping[str, int]]
"""The id of each of some tokens, of those of a side of the vocabulary."""


def found_by_words(counts: NDArray[np.int64], expected: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether a rule is found by its words: it is in use, or half a use of it is expected."""
    found: NDArray[np.bool_] = (counts > 0) | (expected >= 0.5)
    return found


_MIXERS = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xFF51AFD7ED558CCD)))
_ANCHOR_BITS = 28
_HALF, _REST = np.uint64(32), np.uint64(64 - _ANCHOR_BITS)
_FARTHEST = 8
_FAR = 0


def anchors(first: NDArray[np.int64], second: NDArray[np.int64], distances: NDArray[np.int64]) -> NDArray[np.int64]:
    """The anchors, from -2²⁸ to -1, of pairs of words by their ids, the first standing before the second at a distance
    in words; `_FAR` is one that is not known, or more than `_FARTHEST`.

    Other pairs may have the same anchor: what is found by it has to be compared.
    """
    one, other, last = _MIXERS
    mixed = (first.astype(np.uint64) * one + distances.astype(np.uint64)) * other + second.astype(np.uint64) * one
    mixed = (mixed ^ mixed >> _HALF) * last
    numbers: NDArray[np.int64] = -1 - (mixed >> _REST).astype(np.int64)
    return numbers


def anchors_of_sentence(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """The different anchors of sides that match a sentence of words with these ids, ascending; 0 for other words."""
    places = np.flatnonzero(words)
    before, after = np.triu_indices(len(places), 1)
    first, second = places[before], places[after]
    distances = second - first
    near, gapped = distances <= _FARTHEST, distances > 1
    return distinct(
        np.concatenate(
            [
                anchors(words[first[near]], words[second[near]], distances[near]),
                anchors(words[first[gapped]], words[second[gapped]], np.full(int(gapped.sum()), _FAR)),
            ]
        )
    )


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
                symbols, rows = self._symbols(place, known, texts[some])
                words = np.flatnonzero(symbols)
                found.append(symbols[words] << self._bits | rule_ids[some][rows[words]])
                if self._anchored and place.side == SOURCE:
                    numbers, of_rows = _anchors_of(symbols, rows)
                    found.append(numbers << self._bits | rule_ids[some][of_rows])
        return distinct(np.concatenate(found))

    def _symbols(
        self, place: WordPlace, known: dict[str, int], texts: Sequence[str]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The symbols of all texts: the ids of words, `_NO_WORD` for others; and the row of the text of each."""
        symbols = " ".join(texts).split(" ")
        words = np.fromiter(map(known.get, symbols, repeat(_NOT_MET)), np.int64, len(symbols))
        unmet = np.flatnonzero(words == _NOT_MET).tolist()
        if unmet:
            met = {symbol: place.word(symbol) for symbol in dict.fromkeys(symbols[k] for k in unmet)}
            ids = self._word_ids(place.vocabulary, (token for token in met.values() if token is not None))
            known.update((symbol, _NO_WORD if token is None else ids[token]) for symbol, token in met.items())
            words[unmet] = [known[symbols[k]] for k in unmet]
        spaces = np.fromiter(map(str.count, texts, repeat(" ")), np.int64, len(texts))
        return words, np.repeat(np.arange(len(texts)), spaces + 1)


def _anchors_of(symbols: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The anchors of sides with several words, and their rows: of the first places of the two words that came last into
    the vocabulary, or of the first two places of a word that stands there alone.
    """
    places = np.flatnonzero(symbols)
    places = places[np.lexsort((places, -symbols[places], rows[places]))]
    same_row = np.append(rows[places[1:]] == rows[places[:-1]], False)
    same_word = same_row & np.append(symbols[places[1:]] == symbols[places[:-1]], False)
    # The next place whose word or row differs.
    changes = np.where(same_word, len(places), np.arange(1, len(places) + 1))
    following = np.minimum.accumulate(changes[::-1])[::-1]
    starts = np.flatnonzero(np.append(True, ~same_row[:-1])[: len(places)])
    others = np.minimum(following[starts], len(places) - 1)
    differs = (following[starts] < len(places)) & (rows[places[others]] == rows[places[starts]])
    others = np.where(differs, others, starts + 1)
    several = differs | same_word[starts]
    pairs = np.stack([places[starts[several]], places[others[several]]])
    first, second = pairs.min(axis=0), pairs.max(axis=0)
    gaps = np.cumsum(symbols == _NO_WORD)
    distances = second - first
    distances[(gaps[first] != gaps[second]) | (distances > _FARTHEST)] = _FAR
    return anchors(symbols[first], symbols[second], distances), rows[first]


def distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The different numbers, ascending."""
    # Faster than numpy's own, which has a table of them.
    ordered: NDArray[np.int64] = np.sort(numbers)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)].astype(np.bool_)]
