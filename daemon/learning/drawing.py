"""A derivation as a picture: the source tree above the target tree, the same numbers at what belongs together."""

import unicodedata
from collections.abc import Sequence
from typing import Any

from svgling.core import TreeLayout, TreeOptions
from svgling.figure import Caption, RowByRow

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.xml_text import xml_characters
from hierogram.samplers.grammar.rules import RuleUse, number_of, parse_side

_WIDE = 2.2
"""Width of an ideograph in average glyphs."""


class _Options(TreeOptions):  # type: ignore[misc]
    """svgling's options, with room for wide letters."""

    def label_width(self, label: object) -> float:
        """Return the width in em."""
        text = str(label)
        glyphs = sum(_WIDE if unicodedata.east_asian_width(letter) in "WF" else 1.0 for letter in text)
        return float((glyphs + self.leaf_padding) / self.average_glyph_width)


def draw(uses: Sequence[RuleUse]) -> str:
    """Return the derivation as an SVG document.

    Node n is the n-th rule of the derivation on both sides, so the target tree shows in what order its parts come.
    Raises `InputError` where there is nothing to draw, or more than fits into a picture.
    """
    if not uses:
        raise InputError("the pair has no derivation yet: it waits to be sampled")
    try:
        rows = [Caption(TreeLayout(_tree(uses, side), options=_Options()), side) for side in ("source", "target")]
        picture: str = RowByRow(*rows, gridify=False).get_svg().tostring()
    except RecursionError as error:
        raise InputError("the derivation is too deep for a picture: ask for JSON") from error
    return picture


def _tree(uses: Sequence[RuleUse], side: str) -> Any:
    """Return what svgling draws: (label, *children), words that stand together in one leaf."""
    trees: list[Any] = [None] * len(uses)
    for number in reversed(range(len(uses))):
        use = uses[number]
        parts: list[Any] = []
        words: list[str] = []
        for symbol in parse_side(getattr(use, side)):
            if isinstance(symbol, str):
                words.append(xml_characters(symbol) or "\ufffd")
                continue
            if words:
                parts.append(" ".join(words))
                words = []
            parts.append(trees[use.children[number_of(symbol) - 1]])
        if words:
            parts.append(" ".join(words))
        trees[number] = (f"X{number + 1}", *parts)
    return trees[0]
