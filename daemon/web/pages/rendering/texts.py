"""Texts as pages show them: the direction in which they are read, symbols of rules, letters that cannot be seen."""

import unicodedata
from typing import NamedTuple

from hierogram.samplers.grammar.kinds import FRAGMENTS, Notation
from hierogram.samplers.grammar.rules import parse_side

_RIGHT_TO_LEFT = ("R", "AL")
_PICTURES = 0x2400
"""Of the first 32 control characters there are pictures, from this letter on."""
_UNSEEN = ("Cc", "Cs", "Cn")
"""Control characters, halves of letters, and what is no letter."""
_COLOURS = 6


class Symbol(NamedTuple):
    """A symbol of a rule's side: a word, or a nonterminal by its number and the colour that it has on both sides."""

    text: str
    number: int | None = None

    @property
    def colour(self) -> int:
        """From 1 on."""
        return ((self.number or 1) - 1) % _COLOURS + 1


def direction(text: str) -> str:
    """`rtl` where the first letter with a direction is read from right to left, else `ltr`."""
    for letter in text:
        kind = unicodedata.bidirectional(letter)
        if kind in _RIGHT_TO_LEFT:
            return "rtl"
        if kind == "L":
            return "ltr"
    return "ltr"


def is_side(text: str) -> bool:
    """Whether the text is in the notation of a rule's side, so that a rule may have it."""
    try:
        parse_side(text)
    except ValueError:
        return False
    return True


def symbols_of(side: str, notation: Notation) -> list[Symbol]:
    """The symbols of a rule's side; a fragment of a tree is one, and so is what is no side of a rule."""
    if FRAGMENTS in notation.offers or not is_side(side):
        return [Symbol(side)]
    return [Symbol("", part) if isinstance(part, int) else Symbol(part) for part in parse_side(side)]


def visible(text: str) -> str:
    """The text with a picture in the place of each control character; what marks directions stays, and is isolated."""
    if text.isprintable():
        return text
    return "".join(_picture(letter) if unicodedata.category(letter) in _UNSEEN else letter for letter in text)


def _picture(letter: str) -> str:
    code = ord(letter)
    if code < 32:
        return chr(_PICTURES + code)
    return "\u2421" if code == 127 else "\ufffd"


def short(text: str, most: int = 40) -> str:
    """The text, cut where it is longer."""
    return text if len(text) <= most else text[: most - 1] + "…"


def width(text: str) -> float:
    """About how wide a text is, in ems."""
    return sum(_letter_width(letter) for letter in text)


def _letter_width(letter: str) -> float:
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.05
    return 0.68 if letter.isupper() or letter in "mwMW—…%@" else 0.56
