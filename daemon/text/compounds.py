"""Compounds: words made of other words, such as German *Haushaltsbehörde*.

A word is split into the smallest number of known words whose geometric mean of frequencies exceeds the frequency of
the whole word [Koehn & Knight 2003]. Among splits into that number, the highest mean wins. Between two parts, letters
may be added or dropped.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import log
from typing import NamedTuple

MIN_PART = 4
"""Minimum number of letters of a part, which excludes most function words and endings."""
_MAX_PARTS = 4
_LINKS = (("", ""), ("s", ""), ("es", ""), ("n", ""), ("en", ""), ("", "e"))
"""Changes of a known word before another part: letters that are added, and letters that are dropped from its end."""
_MIN_COUNT = 2
"""Minimum frequency of a known word. Rarer words are often names or misspelled."""


class Part(NamedTuple):
    """Part of a compound: its letters, which may include linking letters, and the known word."""

    letters: str
    word: str


class CompoundSplitter:
    """Splits lowercase words into known words."""

    def __init__(self, counts: Mapping[str, float]) -> None:
        """Store the frequencies of known lowercase words, at least 1. Only words of letters are parts."""
        self._logs = {word: log(count) for word, count in counts.items() if len(word) >= MIN_PART and word.isalpha()}

    def split(self, word: str) -> tuple[Part, ...]:
        """Return the parts of a word, at least two, or () if the word is not split."""
        if len(word) < 2 * MIN_PART or not word.isalpha():
            return ()
        best, parts = self._logs.get(word, -1.0), tuple[Part, ...]()
        # Best split of each prefix of the word, by its length: sum of the log frequencies, and parts.
        begun: dict[int, tuple[float, tuple[Part, ...]]] = {0: (0.0, ())}
        for number in range(1, _MAX_PARTS + 1):
            longer: dict[int, tuple[float, tuple[Part, ...]]] = {}
            for start, (total, before) in begun.items():
                last = word[start:]
                if before and last in self._logs and (mean := (total + self._logs[last]) / number) > best:
                    best, parts = mean, (*before, Part(last, last))
                for end in range(start + MIN_PART, len(word) - MIN_PART + 1):
                    letters = word[start:end]
                    for known in filter(self._logs.__contains__, _forms(letters)):
                        more = total + self._logs[known]
                        if end not in longer or more > longer[end][0]:
                            longer[end] = more, (*before, Part(letters, known))
            if parts:
                break
            begun = longer
        return parts

    def known_word(self, letters: str) -> str:
        """Return the most frequent known word with this form at the beginning of a compound, or ""."""
        return max(filter(self._logs.__contains__, _forms(letters)), key=self._logs.__getitem__, default="")


def _forms(letters: str) -> Iterator[str]:
    """Yield the words that may be at the beginning of a compound in this form."""
    for added, dropped in _LINKS:
        if letters.endswith(added):
            yield letters.removesuffix(added) + dropped


def count_words(lines: Iterable[str]) -> Counter[str]:
    """Count the words of letters, in lowercase."""
    return Counter(word for line in lines for word in line.lower().split() if word.isalpha())


def known_parts(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the words that may be parts of compounds, the most frequent first."""
    found = [(word, count) for word, count in counts.items() if count >= _MIN_COUNT and len(word) >= MIN_PART]
    return dict(sorted(found, key=lambda entry: (-entry[1], entry[0])))


def measure_compounds(counts: Mapping[str, int]) -> float:
    """Return the share of words, counted as often as they occur, that are compounds of other words."""
    splitter = CompoundSplitter(known_parts(counts))
    return sum(count for word, count in counts.items() if splitter.split(word)) / max(1, sum(counts.values()))
