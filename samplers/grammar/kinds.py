"""Grammar kinds of a store: rule notations and capabilities. Higher layers depend only on this table."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hierogram.samplers.exceptions import SamplerError
from hierogram.samplers.grammar.numbers import MAX_ITG_SIDE_LENGTH, MAX_SIDE_LENGTH
from hierogram.samplers.grammar.rules import unescape_terminal
from hierogram.samplers.grammar.settings import ITG, SYNCHRONOUS, TREES

SOURCE, TARGET = "source", "target"
"""Names of the two sides of a pair or rule in tables and vocabularies."""

TWO_SIDES = "rules of two languages"
"""Capability: the sides of a rule are texts of two languages, with numbered nonterminals."""
LINKS = "links of words"
"""Capability: the words of a rule's two sides are linked."""
TRANSLATION = "rules that translate"
"""Capability: decoders can use the rules with two non-empty sides."""
FRAGMENTS = "fragments of trees"
"""Capability: a rule's target side is a tree fragment, its source side the label of the fragment's root."""


PAIRS, PARSES = "sentence pairs", "trees"
"""Input of a store: sentence pairs, or sentences with trees or packed forests."""


@dataclass(frozen=True, slots=True)
class WordPlace:
    """Side of a rule that contains words of the vocabulary of side `vocabulary`.

    `word` returns the word of a symbol, or None for other symbols. Symbols are separated by one space.
    """

    side: str
    vocabulary: str
    word: Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Notation:
    """Grammar kind; `kind` is its name in `Settings.grammar`.

    `holds`: content of its stores, for messages (`a store of trees`). `takes`: their input, PAIRS or PARSES.
    `pair_words`, `rule_words`: sides of a stored pair, and of a rule, that contain words. `offers`: capabilities that
    exports and commands check. `linked`: whether a pair needs word links before it is learned. `longest`: maximum words
    of a side.
    """

    kind: str
    holds: str
    takes: str
    pair_words: tuple[str, ...]
    rule_words: tuple[WordPlace, ...]
    offers: frozenset[str]
    linked: bool = True
    longest: int = MAX_SIDE_LENGTH

    def words_of_rule(self, source: str, target: str) -> Iterator[tuple[str, str]]:
        """Yield (side of the vocabulary, word) for each word of a rule."""
        for word_place in self.rule_words:
            for symbol in (source if word_place.side == SOURCE else target).split(" "):
                if (word := word_place.word(symbol)) is not None:
                    yield word_place.vocabulary, word

    @property
    def one(self) -> str:
        """Singular name of an input, for messages and pages: `pair` or `tree`."""
        return "pair" if self.takes == PAIRS else "tree"

    @property
    def many(self) -> str:
        """Plural name of the inputs: `pairs` or `trees`."""
        return f"{self.one}s"

    def cannot(self, what: str) -> str:
        """Return the message `a store of trees cannot …`."""
        return f"a store of {self.holds} cannot {what}"


def fragment_word(piece: str) -> str | None:
    """Return the word in a space-separated piece of a fragment, or None for a label, which begins with a bracket."""
    return None if piece.startswith("(") else piece.rstrip(")")


NOTATIONS: dict[str, Notation] = {
    SYNCHRONOUS: Notation(
        SYNCHRONOUS,
        "sentence pairs",
        PAIRS,
        (SOURCE, TARGET),
        (WordPlace(SOURCE, SOURCE, unescape_terminal), WordPlace(TARGET, TARGET, unescape_terminal)),
        frozenset({TWO_SIDES, LINKS, TRANSLATION}),
    ),
    # The target side of a stored tree is the tree, the source side its words.
    TREES: Notation(
        TREES,
        "trees",
        PARSES,
        (SOURCE,),
        (WordPlace(TARGET, SOURCE, fragment_word),),
        frozenset({FRAGMENTS}),
    ),
    # A word without a translation has a rule with an empty other side.
    ITG: Notation(
        ITG,
        "ITG rules",
        PAIRS,
        (SOURCE, TARGET),
        (WordPlace(SOURCE, SOURCE, unescape_terminal), WordPlace(TARGET, TARGET, unescape_terminal)),
        frozenset({TWO_SIDES, TRANSLATION}),
        linked=False,
        longest=MAX_ITG_SIDE_LENGTH,
    ),
}
"""Grammar kinds by name."""


def find_notation(kind: str) -> Notation:
    """Return the kind with this name. Raises `SamplerError`."""
    if kind not in NOTATIONS:
        raise SamplerError(f"unknown kind of grammar {kind!r}: expected {', '.join(NOTATIONS)}")
    return NOTATIONS[kind]
