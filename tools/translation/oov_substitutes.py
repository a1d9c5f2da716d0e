"""Substitutes for unknown words: the parts of a compound, or a known word with similar spelling.

A known word that differs only in capital letters or accents (*καὶ* and *καί*) is preferred. A capitalized word after a
word or a comma is a name, which has no other substitutes. In a language that capitalizes nouns, it may be a noun: a
similar word must then be capitalized and differ only in its ending, and neither may be a word of the target language.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from hierogram.daemon.text.segments import CompoundSegmenter
from hierogram.storage.records.parts import is_part
from hierogram.tools.translation.casing import NO_CASING, Casing, first_cased, is_word

_MIN_SHARED_LETTERS = 4
"""Minimum sum of the lengths of the common prefix and the common suffix of two words."""
_AFFIX = 3
"""Length of the prefixes and suffixes that index the known words."""


def _common_prefix_length(first: str, second: str) -> int:
    differences = (k for k, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    return next(differences, min(len(first), len(second)))


def shared_letters(first: str, second: str) -> int:
    """Return the total length of the common prefix and suffix of two words, without overlap."""
    prefix = _common_prefix_length(first, second)
    longest = min(len(first), len(second)) - prefix
    return prefix + _common_prefix_length(first[: -longest - 1 : -1], second[: -longest - 1 : -1])


def _remove_accents(word: str) -> str:
    """Remove accents, Hebrew points and Arabic vowel marks, but keep marks that are letters, such as ु."""
    classes = [(letter, unicodedata.combining(letter)) for letter in unicodedata.normalize("NFD", word)]
    # Points and vowel marks have the combining classes 10 to 36, marks around letters 200 and above.
    bare = "".join(letter for letter, number in classes if number < 200 and not 10 <= number <= 36)
    return unicodedata.normalize("NFC", bare)


def is_capitalized_within_sentence(word: str, before: str) -> bool:
    """Check if a word is capitalized after the token `before`, a word or a comma: it is a noun or a name."""
    return first_cased(word).isupper() and (before == "," or is_word(before))


@dataclass(eq=False)
class SubstituteFinder:
    """Index of known words that replace unknown words: those with `numbers` in `standalone`. Thread-safe.

    `frequencies` contains the frequency of each number. If `min_similarity` is 0, only compounds are replaced.
    """

    numbers: Mapping[str, int]
    standalone: Collection[int]
    frequencies: Sequence[float]
    min_similarity: float
    casing: Casing = NO_CASING
    target_words: Collection[str] = ()

    def __post_init__(self) -> None:
        # Words by lowercase form.
        self._folded: dict[str, str] = {}
        # Lowercase forms by their form without accents.
        self._accented: dict[str, str] = {}
        # Lowercase forms by prefix (`abc-`) and suffix (`-abc`).
        self._by_affix: dict[str, list[str]] = defaultdict(list)
        for word, number in self.numbers.items():
            is_whole_word = any(map(str.isalpha, word)) and not any(map(str.isdigit, word)) and not is_part(word)
            if number in self.standalone and is_whole_word:
                folded = self.casing.lower(word)
                # Prefer the lowercase form, which is usually more frequent.
                if folded not in self._folded or word == folded:
                    self._folded[folded] = word
        counts = {folded: self.frequencies[self.numbers[word]] for folded, word in self._folded.items()}
        self._compounds = CompoundSegmenter(counts)
        # Iterate by ascending frequency, so that the most frequent of words that differ only in accents is stored last.
        for folded in sorted(counts, key=counts.__getitem__) if self.min_similarity else ():
            if not folded.isascii():
                self._accented[_remove_accents(folded)] = folded
            if len(folded) >= _MIN_SHARED_LETTERS:
                for key in {f"{folded[:_AFFIX]}-", f"-{folded[-_AFFIX:]}"}:
                    self._by_affix[key].append(folded)
        self.known = {folded: self.numbers[word] for folded, word in self._folded.items()}
        """Numbers of the words that can replace others, by their lowercase forms."""
        self._found: dict[tuple[str, bool], tuple[int, ...]] = {}

    def find(self, word: str, before: str = "") -> tuple[int, ...]:
        """Return the numbers of the known words that replace an unknown word after the word `before`, or ()."""
        folded = self.casing.lower(word)
        if self.min_similarity:
            bare = _remove_accents(folded)
            for same in (folded, bare, self._accented.get(bare, bare)):
                if same in self.known:
                    return (self.known[same],)
        noun = is_capitalized_within_sentence(word, before)
        if noun and (not self.casing.nouns or word in self.target_words):
            return ()
        if (folded, noun) not in self._found:
            if words := [*self._compounds.split(folded)]:
                words[:-1] = map(self._compounds.known_word, words[:-1])
            else:
                words = self._similar(folded, noun)
            self._found[folded, noun] = tuple(map(self.known.__getitem__, words))
        return self._found[folded, noun]

    def _similar(self, folded: str, noun: bool) -> list[str]:
        """Return the lowercase form of the most similar known word, or an empty list."""
        if len(folded) < _MIN_SHARED_LETTERS or any(map(str.isdigit, folded)):
            return []
        affixes = f"{folded[:_AFFIX]}-", f"-{folded[-_AFFIX:]}"
        candidates = {candidate for affix in affixes for candidate in self._by_affix.get(affix, ())}
        similar: list[tuple[float, int, str]] = []
        for candidate in candidates:
            known_word = self._folded[candidate]
            if noun and (not first_cased(known_word).isupper() or known_word in self.target_words):
                continue
            prefix = _common_prefix_length(folded, candidate)
            shared = prefix if noun else shared_letters(folded, candidate)
            similarity = shared / max(len(folded), len(candidate))
            min_similarity = self.min_similarity if prefix >= _AFFIX else (1 + self.min_similarity) / 2
            if shared >= _MIN_SHARED_LETTERS and similarity >= min_similarity:
                similar.append((similarity, shared, candidate))
        return [max(similar)[2]] if similar else []
