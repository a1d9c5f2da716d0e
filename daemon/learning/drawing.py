"""Drawing of a derivation: the source tree above the target tree, with equal node numbers."""

import unicodedata
from collections.abc import Sequence
from xml.sax.saxutils import escape

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.xml_text import xml_characters
from hierogram.samplers.grammar.rules import RuleUse, parse_side

_SIZE = 16
_GLYPH, _WIDE_GLYPH = 9.0, 16.0
"""Widths of a letter and of a wide (East Asian) character, in pixels."""
_GAP = 16.0
_LEVEL = 48.0
"""Height of a tree level, in pixels."""


def draw(uses: Sequence[RuleUse]) -> str:
    """Return the derivation as an SVG document of two trees with shared node numbers."""
    if not uses:
        raise InputError("the pair has no derivation yet: it is waiting for sampling")
    top, widest, groups = 0.0, 0.0, []
    for side in ("source", "target"):
        width, height, elements = _tree(uses, side)
        groups.append(f'<g transform="translate(0 {top:g})">{"".join(elements)}</g>')
        top += height + _LEVEL
        widest = max(widest, width)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{widest:g}" height="{top:g}" viewBox="0 0 {widest:g} {top:g}" '
        f'font-family="sans-serif" font-size="{_SIZE}" text-anchor="middle">{"".join(groups)}</svg>'
    )


def _tree(uses: Sequence[RuleUse], side: str) -> tuple[float, float, list[str]]:
    parts = [_parts(use, side) for use in uses]
    # A rule's children follow it in the list of uses.
    widths = [0.0] * len(uses)
    for number in reversed(range(len(uses))):
        below = sum(widths[part] if isinstance(part, int) else _width(part) for part in parts[number])
        widths[number] = max(below, _width(f"X{number + 1}"))
    lefts, levels, depth = [0.0] * len(uses), [1] * len(uses), 0
    elements = []
    for number, below_rule in enumerate(parts):
        level, middle = levels[number], lefts[number] + widths[number] / 2
        elements.append(_text(middle, level, f"X{number + 1}"))
        below = sum(widths[part] if isinstance(part, int) else _width(part) for part in below_rule)
        left = middle - below / 2
        for part in below_rule:
            if isinstance(part, int):
                lefts[part], levels[part] = left, level + 1
                wide = widths[part]
            else:
                wide = _width(part)
                elements.append(_text(left + wide / 2, level + 1, part))
            y = level * _LEVEL
            elements.append(
                f'<line x1="{middle:g}" y1="{y + 6:g}" x2="{left + wide / 2:g}" y2="{y + _LEVEL - _SIZE:g}" '
                'stroke="currentColor"/>'
            )
            left += wide
            depth = max(depth, level + 1)
    return widths[0], (depth + 0.5) * _LEVEL, elements


def _parts(use: RuleUse, side: str) -> list[int | str]:
    parts: list[int | str] = []
    for symbol in parse_side(getattr(use, side)):
        if isinstance(symbol, int):
            parts.append(use.children[symbol - 1])
        elif parts and isinstance(parts[-1], str):
            parts[-1] += f" {symbol}"
        else:
            parts.append(symbol)
    return parts


def _width(text: str) -> float:
    return _GAP + sum(_WIDE_GLYPH if unicodedata.east_asian_width(letter) in "WF" else _GLYPH for letter in text)


def _text(x: float, level: int, text: str) -> str:
    return f'<text x="{x:g}" y="{level * _LEVEL:g}">' + escape(xml_characters(text) or "\ufffd") + "</text>"
