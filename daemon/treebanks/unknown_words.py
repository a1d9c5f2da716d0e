"""Classes of unknown words by how they look, and rare words put in their place.

The classes are those that the Stanford and Berkeley parsers share (signature 5 of their English lexicons): letter case,
with the beginning of the sentence apart, digits, hyphens, and a dozen endings; about fifty occur in a treebank.
"""

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from hierogram.daemon.treebanks.trees import Tree, with_words, words_of

UNKNOWN = "UNK"

_ENDINGS = ("ed", "ing", "ion", "er", "est", "ly", "ity", "y", "al")
_SHORTEST_WITH_ENDING = 5
_SHORTEST_PLURAL = 3


def word_class(word: str, position: int, known: Container[str]) -> str:
    """The class of an unknown word at a position of its sentence, from 0; `known` are the words that have no class."""
    capitals = sum(letter.isupper() or letter.istitle() for letter in word)
    lower = any(letter.islower() for letter in word)
    digit = any(letter.isdigit() for letter in word)
    dash = "-" in word
    found = UNKNOWN
    if word[0].isupper() or word[0].istitle():
        if position == 0 and capitals == 1:
            found += "-INITC"
            if word.lower() in known:
                found += "-KNOWNLC"
        else:
            found += "-CAPS"
    elif not word[0].isalpha() and capitals:
        found += "-CAPS"
    elif lower:
        found += "-LC"
    if digit:
        found += "-NUM"
    if dash:
        found += "-DASH"
    return found + _ending(word.lower(), dash or (digit and capitals > 0))


def _ending(word: str, plural_only: bool) -> str:
    if word.endswith("s") and len(word) >= _SHORTEST_PLURAL:
        return "" if word[-2] in "siu" else "-s"
    if plural_only or len(word) < _SHORTEST_WITH_ENDING:
        return ""
    return next((f"-{ending}" for ending in _ENDINGS if word.endswith(ending)), "")


def coarser(found: str) -> str | None:
    """The class without its last feature; None after the class of all unknown words."""
    return found.rpartition("-")[0] or None


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words that stand for themselves; all others stand for their class."""

    known: frozenset[str]

    def of(self, word: str, position: int) -> str:
        """The word, or its class."""
        return word if word in self.known else word_class(word, position, self.known)

    def in_words(self, words: Sequence[str]) -> list[str]:
        """The words of a sentence, each that is not known replaced by its class."""
        return [self.of(word, position) for position, word in enumerate(words)]

    def in_tree(self, tree: Tree) -> Tree:
        """The tree with every word that is not known replaced by its class."""
        replaced = iter(self.in_words(words_of(tree)))
        return with_words(tree, lambda _: next(replaced))


def vocabulary_of(trees: Iterable[Tree], rare: int, besides: Iterable[str] = ()) -> Vocabulary:
    """The words seen more than `rare` times in the trees, and those `besides`."""
    return vocabulary_of_sentences((words_of(tree) for tree in trees), rare, besides)


def vocabulary_of_sentences(sentences: Iterable[Iterable[str]], rare: int, besides: Iterable[str] = ()) -> Vocabulary:
    """The words seen more than `rare` times in the sentences, and those `besides`."""
    counts = Counter(word for words in sentences for word in words)
    return Vocabulary(frozenset(word for word, count in counts.items() if count > rare) | frozenset(besides))
