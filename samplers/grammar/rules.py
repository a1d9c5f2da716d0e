"""Rules of a synchronous grammar: sides, scope, length and text notation.

A side is a tuple of symbols. Terminals are `str`. Nonterminals are `int`, numbered from 1 in source order. The notation
`la [X,1] de ||| the [X,1] of` is also used by cdec and Joshua. A terminal that looks like a nonterminal or begins with
a backslash is escaped by a backslash. The text of an empty side is empty.
"""

import re
from dataclasses import dataclass
from itertools import pairwise

from hierogram.samplers.exceptions import RuleNotationError

Symbol = str | int
Side = tuple[Symbol, ...]

NONTERMINAL = r"\[X,[1-9][0-9]*\]"
"""Regular expression for a nonterminal in a rule's text."""

_NUMBERED = r"\[X,([1-9][0-9]*)\]\Z"
_NONTERMINAL = re.compile(_NUMBERED)
_NEEDS_ESCAPE = re.compile(rf"\\|{_NUMBERED}")

Span = tuple[int, int]
"""Half-open range of word positions, from 0."""

HIERO_MAX_NONTERMINALS = 2
HIERO_MAX_SOURCE_SYMBOLS = 5
MAX_SHORT_SOURCE = 3
"""Maximum number of symbols of a short source side. Compositions with one must occur at least twice."""


def split_line(text: str) -> list[str]:
    """Split a line at spaces and tabs only, after removing carriage returns at its end."""
    if "\t" in text or "\r" in text:
        text = text.rstrip("\r").replace("\t", " ")
    tokens = text.split(" ")
    return [token for token in tokens if token] if "" in tokens else tokens


def nonterminal(number: int) -> str:
    """Return the text of a nonterminal in a rule."""
    return f"[X,{number}]"


def escape_terminal(token: str) -> str:
    """Return the token escaped for a rule's text."""
    return "\\" + token if _NEEDS_ESCAPE.match(token) else token


def unescape_terminal(symbol: str) -> str | None:
    """Return the token written as a symbol of a rule's text. None for a nonterminal or an empty symbol."""
    if symbol.startswith("\\"):
        return symbol[1:]
    return None if not symbol or _NONTERMINAL.match(symbol) else symbol


def render_side(side: Side) -> str:
    """Return a side as text, with symbols joined by one space."""
    return " ".join(nonterminal(s) if isinstance(s, int) else escape_terminal(s) for s in side)


def parse_side(text: str) -> Side:
    """Parse the text of a side. Inverse of `render_side`. Raises `RuleNotationError` if a symbol is empty."""
    if not text:
        return ()
    symbols: list[Symbol] = []
    for token in text.split(" "):
        if not token:
            raise RuleNotationError(f"empty symbol in rule side {text!r}: symbols are separated by one space")
        match = _NONTERMINAL.match(token)
        if match:
            symbols.append(int(match.group(1)))
        else:
            symbols.append(token[1:] if token.startswith("\\") else token)
    return tuple(symbols)


@dataclass(frozen=True, slots=True)
class RuleUse:
    """Use of a rule in a derivation, with its spans in both sentences.

    Sides are texts in the notation of the store's kind of grammar. `children` has, for each nonterminal 1, 2, …, the
    index of its use in the list of the derivation's uses.
    """

    source: str
    target: str
    source_span: Span
    target_span: Span
    children: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """Synchronous rule X → ⟨source, target⟩. Rules are equal if both sides are equal."""

    source: Side
    target: Side

    @classmethod
    def parse(cls, text: str) -> "Rule":
        """Parse `source ||| target`. Raises `RuleNotationError` if the notation or numbering is invalid."""
        sides = text.split(" ||| ")
        if len(sides) != 2:
            raise RuleNotationError(f"expected a rule `source ||| target`, got {text!r}")
        rule = cls(parse_side(sides[0]), parse_side(sides[1]))
        numbers = [s for s in rule.source if isinstance(s, int)]
        is_bijective = numbers == sorted(s for s in rule.target if isinstance(s, int))
        if numbers != list(range(1, len(numbers) + 1)) or not is_bijective:
            raise RuleNotationError(
                f"nonterminals must be numbered 1, 2, … in source order, once on each side: {text!r}"
            )
        return rule

    def __str__(self) -> str:
        return f"{render_side(self.source)} ||| {render_side(self.target)}"

    @property
    def scope(self) -> int:
        """Pairs of adjacent source nonterminals, plus 1 for each end of the source side with a nonterminal.

        Matching a rule of scope k in n words takes O(n^k) time [Hopkins & Langmead 2010; CFGŠ14 §5.2].
        """
        is_nonterminal = [isinstance(s, int) for s in self.source]
        adjacent = sum(a and b for a, b in pairwise(is_nonterminal))
        return adjacent + sum(is_nonterminal[:1]) + sum(is_nonterminal[-1:])

    @property
    def nonterminals(self) -> int:
        """Number of nonterminals, which is the same on both sides."""
        return sum(isinstance(s, int) for s in self.source)

    @property
    def source_terminals(self) -> int:
        """Number of terminals on the source side."""
        return len(self.source) - self.nonterminals

    @property
    def target_terminals(self) -> int:
        """Number of terminals on the target side."""
        return len(self.target) - self.nonterminals

    @property
    def length(self) -> int:
        """Number of terminals on both sides plus scope [CFGŠ14 §5.2]."""
        return self.source_terminals + self.target_terminals + self.scope
