"""Kinds of grammar that a store can have: input, rule notation, capabilities and texts in messages."""

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
"""Capability: decoders can use the rules with two nonempty sides."""
FRAGMENTS = "fragments of trees"
"""Capability: a rule's source side is a root label, and its target side is a tree fragment."""


PAIRS, PARSES = "sentence pairs", "trees"
"""Input of a store: sentence pairs, or sentences with trees or packed forests."""


@dataclass(frozen=True, slots=True)
class WordSide:
    """Side of a rule that contains words: SOURCE or TARGET.

    `vocabulary` is the side of the pair, SOURCE or TARGET, whose vocabulary has these words. `parse_word` returns the
    word in a symbol of the rule's text, which is separated by spaces, or None if the symbol is not a word.
    """

    side: str
    vocabulary: str
    parse_word: Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class GrammarKind:
    """Input, capabilities and messages of a kind of grammar. `name` is the value of `Settings.grammar`."""

    name: str
    # Name of a store's content in messages such as `a store of trees`.
    content: str
    # Input of a store: PAIRS or PARSES.
    input_kind: str
    # Sides of a pair (SOURCE, TARGET) and sides of a rule that contain words.
    pair_words: tuple[str, ...]
    rule_words: tuple[WordSide, ...]
    # Capabilities of the rules, such as `LINKS`.
    capabilities: frozenset[str]
    # True if a pair must have word links before it is learned.
    needs_links: bool = True
    # Maximum number of words of a side.
    max_side_words: int = MAX_SIDE_LENGTH

    def words_of_rule(self, source: str, target: str) -> Iterator[tuple[str, str]]:
        """Yield the words of a rule, given the texts of its sides, as (vocabulary: SOURCE or TARGET, word)."""
        for word_side in self.rule_words:
            for symbol in (source if word_side.side == SOURCE else target).split(" "):
                if (word := word_side.parse_word(symbol)) is not None:
                    yield word_side.vocabulary, word

    @property
    def singular(self) -> str:
        """Name of an input in messages and pages: `pair` or `tree`."""
        return "pair" if self.input_kind == PAIRS else "tree"

    @property
    def plural(self) -> str:
        """Name of several inputs: `pairs` or `trees`."""
        return f"{self.singular}s"

    def cannot(self, action: str) -> str:
        """Return the message that a store of this kind cannot do an action, such as `align`."""
        return f"a store of {self.content} cannot {action}"


def _fragment_word(symbol: str) -> str | None:
    return None if symbol.startswith("(") else symbol.rstrip(")")


GRAMMAR_KINDS: dict[str, GrammarKind] = {
    SYNCHRONOUS: GrammarKind(
        SYNCHRONOUS,
        "sentence pairs",
        PAIRS,
        (SOURCE, TARGET),
        (WordSide(SOURCE, SOURCE, unescape_terminal), WordSide(TARGET, TARGET, unescape_terminal)),
        frozenset({TWO_SIDES, LINKS, TRANSLATION}),
    ),
    # A stored tree has its words as source side, and its bracket notation as target side.
    TREES: GrammarKind(
        TREES, "trees", PARSES, (SOURCE,), (WordSide(TARGET, SOURCE, _fragment_word),), frozenset({FRAGMENTS})
    ),
    # A word without a translation has a rule with an empty side.
    ITG: GrammarKind(
        ITG,
        "ITG rules",
        PAIRS,
        (SOURCE, TARGET),
        (WordSide(SOURCE, SOURCE, unescape_terminal), WordSide(TARGET, TARGET, unescape_terminal)),
        frozenset({TWO_SIDES, TRANSLATION}),
        needs_links=False,
        max_side_words=MAX_ITG_SIDE_LENGTH,
    ),
}
"""Kinds of grammar by name."""


def find_grammar_kind(name: str) -> GrammarKind:
    """Return the kind with this name. Raises `SamplerError` for an unknown name."""
    if name not in GRAMMAR_KINDS:
        raise SamplerError(f"unknown kind of grammar {name!r}: expected {', '.join(GRAMMAR_KINDS)}")
    return GRAMMAR_KINDS[name]
