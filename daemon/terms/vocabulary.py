"""The words of a side as numbers: with their case, without it, and what they may be in a term."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Hashes = NDArray[np.uint64]

_FEW = 50
"""A word that occurs no more often than this is not common, however small the corpus."""
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


def mixed(values: Hashes) -> Hashes:
    """Values whose bits all depend on all bits of those given (the last steps of SplitMix64)."""
    values = (values ^ (values >> _SHIFTS[0])) * _FACTORS[0]
    values = (values ^ (values >> _SHIFTS[1])) * _FACTORS[1]
    return values ^ (values >> _SHIFTS[2])


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of a side, by number.

    `folded` has for each word the number of the first one that differs in case alone. `values` are random numbers that
    words have their share of a phrase's hash by, equal for words that differ in case alone. `ends`: a term may begin
    and end with the word; `inside`: the word may stand in one. `counts`: how often the word occurs, in any case.
    """

    tokens: list[str]
    numbers: dict[str, int]
    folded: Numbers
    values: Hashes
    ends: Flags
    inside: Flags
    counts: Numbers

    def total(self) -> int:
        """The number of words in the side's texts."""
        return int(self.counts[np.unique(self.folded)].sum())

    def text(self, words: Sequence[int]) -> str:
        """The words with these numbers; negative numbers are left out."""
        return " ".join(self.tokens[word] for word in words if word >= 0)


def make_vocabulary(counted: Sequence[tuple[str, int]], common: float) -> Vocabulary:
    """The words of a side with their counts; above the share `common` of all a word ends no term.

    Words without a letter or digit stand in no term, and one without a letter ends none.
    """
    tokens = [token for token, _ in counted]
    first: dict[str, int] = {}
    folded = np.fromiter((first.setdefault(token.lower(), k) for k, token in enumerate(tokens)), np.int64, len(tokens))
    counts = np.zeros(len(tokens), np.int64)
    np.add.at(counts, folded, [count for _, count in counted])
    rare = counts <= max(common * counts.sum(), _FEW)
    letters = np.fromiter((any(map(str.isalpha, token)) for token in tokens), np.bool_, len(tokens))
    inside = np.fromiter((any(map(str.isalnum, token)) for token in tokens), np.bool_, len(tokens))
    numbers = {token: k for k, token in enumerate(tokens)}
    values = mixed((folded.astype(np.uint64) + np.uint64(1)) * _STEP)
    return Vocabulary(tokens, numbers, folded, values, rare[folded] & letters, inside, counts[folded])
