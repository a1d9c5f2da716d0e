"""Capital letters of translations: what the target side of a store says of words that do not begin a sentence."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_BEGINNING = frozenset(".!?…:;。！？\"'“”‘’«»„(-–—`")
_RARE = 0.05
"""A form that fewer of a word's uses have is taken for a slip."""


@dataclass(frozen=True, slots=True)
class Casing:
    """The forms of words within sentences, by their small letters, the most frequent one first.

    Only words are there that are somewhere written with a capital letter.
    """

    forms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def within(self, word: str) -> str:
        """Return a word as it is written within a sentence."""
        known = self.forms.get(word.lower())
        return word if not known or word in known else known[0]


_BETWEEN = "\n"
"""What stands between sentences: no token."""

NO_CASING = Casing()
"""Nothing is known of capital letters."""


def learn_casing(sentences: Iterable[str]) -> Casing:
    """Return the casing of sentences, which are tokens separated by spaces.

    A word behind a full stop, a colon or a quotation mark is not looked at, nor is the first one.
    """
    words = [word for sentence in sentences for word in (_BETWEEN, *sentence.split(" "))]
    anywhere = set(words) - {_BETWEEN}
    beginning = {word for word in anywhere if may_begin(word)} | {_BETWEEN}
    within = Counter(word for before, word in pairwise(words) if before not in beginning and word != _BETWEEN)
    capital = {word.lower() for word in anywhere if word.lower() != word}
    forms: dict[str, list[tuple[int, str]]] = {}
    for word, count in within.items():
        if (small := word.lower()) in capital:
            forms.setdefault(small, []).append((-count, word))
    return Casing({small: _usual(sorted(found)) for small, found in forms.items()})


def may_begin(before: str) -> bool:
    """Return whether a sentence may begin behind a token: behind a full stop, a colon, a quotation mark."""
    return before[-1:] in _BEGINNING


def _usual(found: list[tuple[int, str]]) -> tuple[str, ...]:
    total = sum(count for count, _ in found)
    return tuple(word for count, word in found if count <= _RARE * total)


def capitalized(word: str) -> str:
    """Return a word with its first letter as a capital one."""
    for k, letter in enumerate(word):
        if letter.isalpha():
            return word[:k] + letter.title() + word[k + 1 :]
    return word


def uncapitalized(word: str) -> str:
    """Return a word that has a capital letter at its beginning alone in small letters; any other as it is."""
    small = word.lower()
    return small if word == capitalized(small) else word


def first_cased(text: str) -> str:
    """Return the first letter of a text that is a capital or a small one, or nothing."""
    return next((letter for letter in text if letter.isupper() or letter.islower() or letter.istitle()), "")


def all_capital(words: Sequence[str]) -> bool:
    """Return whether a sentence of two words or more is written in capital letters alone."""
    long = [word for word in words if sum(map(str.isalpha, word)) > 1]
    return len(long) > 1 and all(word.isupper() for word in words if first_cased(word))
