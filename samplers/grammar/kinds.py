"""The kinds of grammar that a store can hold: how their rules are written, and what can be done with them.

This table is all that storage, exports and commands know of a kind. What samples a kind is registered in
`hierogram.daemon.learning.kinds`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hierogram.samplers.exceptions import UnknownKindError
from hierogram.samplers.grammar.numbers import LONGEST_ITG_SIDE, LONGEST_SIDE
from hierogram.samplers.grammar.rules import terminal_of
from hierogram.samplers.grammar.settings import ITG, SYNCHRONOUS, TREES

SOURCE, TARGET = "source", "target"
"""The two sides of a pair or a rule, as tables and vocabularies name them."""

TWO_SIDES = "rules of two languages"
"""A rule's sides are texts of two languages, with numbered nonterminals."""
LINKS = "links of words"
"""The words of a rule's two sides are linked."""
TRANSLATION = "rules that translate"
"""Decoders take the rules, those of them that have words or nonterminals on both sides."""
FRAGMENTS = "fragments of trees"
"""A rule's target side is a fragment of a tree, its source side the label of its root."""


PAIRS, PARSES = "sentence pairs", "trees"
"""What is offered to a store: sentences of two languages, or sentences with their trees or packed forests."""


@dataclass(frozen=True, slots=True)
class WordPlace:
    """A side of a rule that has words: the symbols of `side` that are words belong to the `vocabulary` of a side.

    `word` says which word a symbol stands for, None for other symbols. Symbols are separated by one space.
    """

    side: str
    vocabulary: str
    word: Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Notation:
    """A kind of grammar by its name in `Settings.grammar`.

    `holds` names what is in its stores, for messages (`a store of trees`), `takes` what may be offered to them: PAIRS
    or PARSES. `pair_words` are the sides of a stored pair whose texts are words, `rule_words` the places of words in a
    rule. `offers` are the capabilities that exports and commands may ask for. `linked`: whether the words of a pair
    have to be linked before it is learned. `longest` is the most words of a side that its samplers take.
    """

    kind: str
    holds: str
    takes: str
    pair_words: tuple[str, ...]
    rule_words: tuple[WordPlace, ...]
    offers: frozenset[str]
    linked: bool = True
    longest: int = LONGEST_SIDE

    def words_of_rule(self, source: str, target: str) -> Iterator[tuple[str, str]]:
        """(side of the vocabulary, word) of every word of a rule."""
        for place in self.rule_words:
            for symbol in (source if place.side == SOURCE else target).split(" "):
                if (word := place.word(symbol)) is not None:
                    yield place.vocabulary, word

    @property
    def one(self) -> str:
        """Return what one of the things in its stores is called, for messages and pages: `pair` or `tree`."""
        return "pair" if self.takes == PAIRS else "tree"

    @property
    def many(self) -> str:
        """The same of several."""
        return f"{self.one}s"

    def cannot(self, what: str) -> str:
        """The beginning of a message: `a store of trees cannot` do what."""
        return f"a store of {self.holds} cannot {what}"


def word_of_fragment(piece: str) -> str | None:
    """The word in a piece of a fragment between two spaces; None for a label.

    What begins with a bracket is a label, and closing brackets follow a word directly.
    """
    return None if piece.startswith("(") else piece.rstrip(")")


NOTATIONS: dict[str, Notation] = {
    SYNCHRONOUS: Notation(
        SYNCHRONOUS,
        "sentence pairs",
        PAIRS,
        (SOURCE, TARGET),
        (WordPlace(SOURCE, SOURCE, terminal_of), WordPlace(TARGET, TARGET, terminal_of)),
        frozenset({TWO_SIDES, LINKS, TRANSLATION}),
    ),
    # The target side of a stored tree is the tree itself, whose words are those of the source side.
    TREES: Notation(
        TREES,
        "trees",
        PARSES,
        (SOURCE,),
        (WordPlace(TARGET, SOURCE, word_of_fragment),),
        frozenset({FRAGMENTS}),
    ),
    # A word without a translation is a rule whose other side is empty.
    ITG: Notation(
        ITG,
        "ITG rules",
        PAIRS,
        (SOURCE, TARGET),
        (WordPlace(SOURCE, SOURCE, terminal_of), WordPlace(TARGET, TARGET, terminal_of)),
        frozenset({TWO_SIDES, TRANSLATION}),
        linked=False,
        longest=LONGEST_ITG_SIDE,
    ),
}
"""The kinds by name."""


def notation_of(kind: str) -> Notation:
    """The kind with this name; raises `UnknownKindError`."""
    if kind not in NOTATIONS:
        raise UnknownKindError(f"there is no kind of grammar {kind!r}: there are {', '.join(NOTATIONS)}")
    return NOTATIONS[kind]
