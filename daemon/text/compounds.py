"""Compounds: words made of other words, such as German *Haushaltsbehörde*.

A compound is split into as few known words as possible. The geometric mean of their frequencies must exceed the
frequency of the whole word [Koehn & Knight 2003]. Among splits into equally many words, the split with the highest mean
is chosen. Between two parts, linking letters may be added or dropped.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import log
from typing import NamedTuple

MIN_PART = 4
"""Minimum number of letters of a part, which excludes most function words and endings."""
_MAX_PARTS = 4
_LINKING_LETTERS = (("", ""), ("s", ""), ("es", ""), ("n", ""), ("en", ""), ("", "e"))
"""Pairs of letters added to and dropped from the end of a known word before another part."""
_MIN_COUNT = 2
"""Minimum frequency of a known word. Rarer words are often names or misspellings."""


class Part(NamedTuple):
    """Part of a compound: its letters, including linking letters, and the known word."""

    letters: str
    word: str


class CompoundSplitter:
    """Splitter of lowercase words into known words of at least `MIN_PART` letters, given frequencies of at least 1."""

    def __init__(self, counts: Mapping[str, float]) -> None:
        self._logs = {word: log(count) for word, count in counts.items() if len(word) >= MIN_PART and word.isalpha()}

    def split(self, word: str) -> tuple[Part, ...]:
        """Return the parts of a word, at least two, or () if the word is not split."""
        if len(word) < 2 * MIN_PART or not word.isalpha():
            return ()
        best, parts = self._logs.get(word, -1.0), tuple[Part, ...]()
        # Keep only the best split of each prefix (by length), because it does not affect the rest of the word.
        prefix_splits: dict[int, tuple[float, tuple[Part, ...]]] = {0: (0.0, ())}
        for number in range(1, _MAX_PARTS + 1):
            longer: dict[int, tuple[float, tuple[Part, ...]]] = {}
            for start, (total, before) in prefix_splits.items():
                last = word[start:]
                if before and last in self._logs and (mean := (total + self._logs[last]) / number) > best:
                    best, parts = mean, (*before, Part(last, last))
                for end in range(start + MIN_PART, len(word) - MIN_PART + 1):
                    letters = word[start:end]
                    for known in filter(self._logs.__contains__, _possible_words(letters)):
                        more = total + self._logs[known]
                        if end not in longer or more > longer[end][0]:
                            longer[end] = more, (*before, Part(letters, known))
            if parts:
                break
            prefix_splits = longer
        return parts

    def known_word(self, letters: str) -> str:
        """Return the most frequent known word that compounds write as `letters`, or an empty string."""
        return max(filter(self._logs.__contains__, _possible_words(letters)), key=self._logs.__getitem__, default="")


def _possible_words(letters: str) -> Iterator[str]:
    for added, dropped in _LINKING_LETTERS:
        if letters.endswith(added):
            yield letters.removesuffix(added) + dropped


def count_words(lines: Iterable[str]) -> Counter[str]:
    """Count the words that consist of letters, in lowercase."""
    return Counter(word for line in lines for word in line.lower().split() if word.isalpha())


def known_parts(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the words that may be parts of compounds, with their frequencies, most frequent first."""
    found = [(word, count) for word, count in counts.items() if count >= _MIN_COUNT and len(word) >= MIN_PART]
    return dict(sorted(found, key=lambda entry: (-entry[1], entry[0])))


def measure_compounds(counts: Mapping[str, int]) -> float:
    """Return the share of compounds in a text, weighted by the frequency of the words."""
    splitter = CompoundSplitter(known_parts(counts))
    return sum(count for word, count in counts.items() if splitter.split(word)) / max(1, sum(counts.values()))
