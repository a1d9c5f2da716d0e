"""Case mappings by language, and the case of each word within the sentences of a corpus."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hierogram.daemon.text.languages import base_language

SENTENCE_BREAKS = frozenset(".!?…:;。！？\"'“”‘’«»„(-–—`")
"""A sentence may begin after a token that ends in one of these characters."""
_MIN_FORM_SHARE = 0.05
"""Minimum share of a form in a word's uses, and of capitals at the beginning of sentences. Rarer ones are errors."""
_MIN_CAPITALIZED_SHARE = 0.15
"""Share of capitalized words above which nouns are capitalized. German news has 0.31, English 0.08."""
_NOUN_LANGUAGES = frozenset(("bar", "de", "gsw", "ksh", "lb", "nds", "pdc", "pfl", "stq"))
_DOTTED_I = frozenset(("az", "crh", "gag", "tr"))
"""Languages in which `i` and `ı` are different letters, each with its own capital."""
_DUTCH = frozenset(("af", "nl"))
_DUTCH_CLITIC = re.compile(r"['’‘`][a-z]")
"""Dutch words such as `'t`, which are never capitalized: the next word of a sentence is capitalized instead."""
_MIN_SENTENCES = 50
"""Minimum number of sentences for detecting that sentences begin without capitals."""
_GREEK = re.compile(r"[\u0370-\u03ff\u1f00-\u1fff]")
_ACCENTS = str.maketrans("", "", "\u0300\u0301\u0313\u0314\u0342")
_MIN_WORDS = 1_000
"""Minimum number of words within sentences for detecting that nouns are capitalized."""
_ENDS = re.compile(r"[.!?…。！？؟।።։]\W*$")


@dataclass(frozen=True, slots=True)
class Casing:
    """Case rules of a language, and the forms of words within the sentences of a corpus."""

    forms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Forms by lowercase word, most frequent first. Contains only words with a capital somewhere in the corpus."""
    language: str = ""
    nouns: bool = False
    """True if common nouns are capitalized, as in German."""
    capital_fragments: bool = True
    """True if a text without a final punctuation mark, such as a heading, begins with a capital."""
    capital_sentences: bool = True
    """True if a sentence begins with a capital. Some orthographies have no capitals."""

    def mid_sentence(self, word: str) -> str:
        """Return the usual form of a word within sentences. Known forms and words without forms are unchanged."""
        forms = self.forms.get(self.lower(word))
        return word if not forms or word in forms else forms[0]

    def lower(self, word: str) -> str:
        """Return a word in lowercase."""
        if self.language in _DOTTED_I:
            word = word.replace("I", "ı").replace("İ", "i")
        return word.lower()

    def upper(self, word: str) -> str:
        """Return a word in capitals. Letters without case, such as Georgian letters, are unchanged."""
        if self.language in _DOTTED_I:
            word = word.replace("i", "İ")
        if _GREEK.search(word):
            # Greek capitals have no accents.
            word = unicodedata.normalize("NFC", unicodedata.normalize("NFD", word).translate(_ACCENTS))
        return "".join(letter.upper() if is_cased(letter) else letter for letter in word)

    def capitalize(self, word: str) -> str:
        """Return a word with its first letter capitalized. Words such as `3rd` and `iPhone` are unchanged."""
        first_letter = next((k for k, letter in enumerate(word) if _begins_word(letter)), len(word))
        letter, rest = word[first_letter : first_letter + 1], word[first_letter + 1 :]
        if not letter or not is_cased(letter) or is_mixed(word):
            return word
        if self.language in _DOTTED_I and letter == "i":
            return f"{word[:first_letter]}İ{rest}"
        if self.language in _DUTCH and word[first_letter : first_letter + 2] == "ij":
            return f"{word[:first_letter]}IJ{rest[1:]}"
        return word[:first_letter] + letter.title() + rest

    def uncapitalize(self, word: str) -> str:
        """Return a word in lowercase if only its first letter is a capital, else unchanged."""
        small = self.lower(word)
        return small if word == self.capitalize(small) else word

    def is_never_capitalized(self, word: str) -> bool:
        """Check if a word is never capitalized, such as Dutch `'t`."""
        return self.language in _DUTCH and _DUTCH_CLITIC.fullmatch(word) is not None


NO_CASING = Casing()
"""Casing of an unknown language without a corpus."""


def default_casing(language: str | None) -> Casing:
    """Return the casing of a language without a corpus."""
    base = base_language(language or "")
    return Casing(language=base, nouns=base in _NOUN_LANGUAGES)


def learn_casing(sentences: Iterable[str], language: str | None = None) -> Casing:
    """Learn casing from tokenized sentences. Words that may begin a sentence are not counted."""
    casing = default_casing(language)
    lines = [sentence for sentence in sentences if sentence]
    anywhere = {word for line in lines for word in line.split(" ")}
    beginning = {word for word in anywhere if word[-1:] in SENTENCE_BREAKS}
    pairs = (pair for line in lines for pair in pairwise(line.split(" ")))
    within = Counter(word for before, word in pairs if before not in beginning)
    capitals: dict[bool, list[bool]] = {False: [], True: []}
    for line in lines:
        if letter := first_cased(line):
            capitals[_ENDS.search(line) is not None].append(not letter.islower())
    fragments, complete = capitals[False], capitals[True]
    return replace(
        casing,
        forms=_forms(casing, anywhere, within),
        nouns=casing.nouns or _capitalizes_nouns(within),
        capital_fragments=2 * sum(fragments) >= len(fragments),
        capital_sentences=len(complete) < _MIN_SENTENCES or sum(complete) > _MIN_FORM_SHARE * len(complete),
    )


def learn_rule_casing(words: Sequence[str], within: Sequence[int], language: str | None = None) -> Casing:
    """Learn casing from rules. `within` counts each word's occurrences that cannot begin a sentence."""
    casing = default_casing(language)
    counts = {word: count for word, count in zip(words, within, strict=True) if count}
    return replace(casing, forms=_forms(casing, set(words), counts))


def _forms(casing: Casing, anywhere: set[str], within: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    capital = {small for word in anywhere if (small := casing.lower(word)) != word}
    counted_forms: dict[str, list[tuple[int, str]]] = {}
    for word, count in within.items():
        if (small := casing.lower(word)) in capital:
            counted_forms.setdefault(small, []).append((-count, word))
    # A word that occurs only at the beginning of sentences is lowercase if it begins any sentence in lowercase.
    forms: dict[str, tuple[str, ...]] = {small: (small,) for small in capital & anywhere}
    for small, counted in counted_forms.items():
        total = sum(count for count, _ in counted)
        forms[small] = tuple(word for count, word in sorted(counted) if count <= _MIN_FORM_SHARE * total)
    return forms


def _capitalizes_nouns(within: Mapping[str, int]) -> bool:
    cased = [(word, count) for word, count in within.items() if len(word) > 1 and is_cased(word[0])]
    capital = sum(count for word, count in cased if is_capital(word))
    total = sum(count for word, count in cased if is_lower(word) or is_capital(word))
    return total >= _MIN_WORDS and capital > _MIN_CAPITALIZED_SHARE * total


def is_cased(letter: str) -> bool:
    """Check if a letter has a capital and a lowercase form that texts distinguish."""
    # Exclude Georgian, whose capitals are a style of print, and Cherokee, which is written in capitals only.
    cherokee = "\u13a0" <= letter <= "\u13ff" or "\uab70" <= letter <= "\uabbf"
    return letter.lower() != letter.title() and not cherokee and not "\u1c90" <= letter <= "\u1cbf"


def is_upper(word: str) -> bool:
    """Check if a word has capitals and no lowercase letters."""
    cased = [letter for letter in word if letter.isalpha() and is_cased(letter)]
    return bool(cased) and all(letter.isupper() for letter in cased)


def is_lower(word: str) -> bool:
    """Check if a word has lowercase letters and no capitals."""
    cased = [letter for letter in word if letter.isalpha() and is_cased(letter)]
    return bool(cased) and all(letter.islower() for letter in cased)


def is_capital(word: str) -> bool:
    """Check if a word begins with a capital and is not in capitals. A single capital letter also counts."""
    first = first_cased(word)
    return bool(first) and not first.islower() and (len(word) == 1 or not is_upper(word))


def is_mixed(word: str) -> bool:
    """Check if a word, or its part beside a hyphen or apostrophe, has a capital after a lowercase first letter."""
    parts = (part for part in re.split("[-'’‘·]", word) if part[:1].islower())
    return any(letter.isupper() and is_cased(letter) for part in parts for letter in part)


def _begins_word(letter: str) -> bool:
    """Check if a character can begin a word: letters and digits, but not modifier letters such as ʻ."""
    return letter.isalnum() and unicodedata.category(letter) != "Lm"


def first_cased(text: str) -> str:
    """Return the first letter or digit of a text if it has case, else an empty string."""
    first = next((letter for letter in text if _begins_word(letter)), "")
    return first if first and is_cased(first) else ""


def all_capital(words: Sequence[str]) -> bool:
    """Check if all words with letters and without digits are in capitals, and two or more have several letters."""
    letter_words = [word for word in words if any(map(str.isalpha, word)) and not any(map(str.isdigit, word))]
    long = [word for word in letter_words if sum(map(str.isalpha, word)) > 1]
    return len(long) > 1 and all(map(is_upper, letter_words))
