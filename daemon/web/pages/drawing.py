"""Place what a pair's pictures hold: two trees that face each other, the links between, and the links as a grid.

Lengths are in pixels. The source tree grows down to its words, the target tree up to its own; rules have the same
number in both.
"""

from collections.abc import Sequence
from typing import NamedTuple

from hierogram.daemon.grammar.derivations import own_words
from hierogram.daemon.learning.kinds.kind import RuleUse
from hierogram.daemon.web.pages.rendering import Word, direction, links_of, short, visible, width
from hierogram.samplers.grammar.kinds import SOURCE, TARGET

_EM = 15.0
_GAP = 20.0
_STEP = 42.0
_MARGIN = 24.0
_WORD_HEIGHT = 22.0
_LONGEST_WORD = 28
_COLOURS = 6
_CELL, _SMALL_CELL = 20.0, 12.0
_MANY_WORDS = 60
_LONGEST_LABEL = 18


class PlacedWord(NamedTuple):
    """A word, by the middle of its foot."""

    x: float
    y: float
    text: str
    word: Word


class PlacedNode(NamedTuple):
    """A rule of a derivation: number (from 1), colour, and the rule for a tooltip."""

    x: float
    y: float
    number: int
    colour: int
    rule: str


class Curve(NamedTuple):
    """A line: its path, and the keys of what it joins (empty: part of a tree)."""

    path: str
    keys: str


class Picture(NamedTuple):
    """Two trees and the links between their words."""

    width: float
    height: float
    words: list[PlacedWord]
    nodes: list[PlacedNode]
    branches: list[Curve]
    arcs: list[Curve]


class Grid(NamedTuple):
    """Links as squares, source words beside rows, target words above columns; and the phrases of the derivation."""

    width: float
    height: float
    left: float
    top: float
    cell: float
    rows: list[str]
    columns: list[str]
    links: list[tuple[int, int]]
    phrases: list[tuple[float, float, float, float, int]]


def colour_of(number: int) -> int:
    """The colour of the rule with this number, from 1 on."""
    return (number - 1) % _COLOURS + 1


def picture(uses: Sequence[RuleUse], source: Sequence[Word], target: Sequence[Word], alignment: str) -> Picture:
    """The trees of a derivation (none, where it is empty) and the links between their words."""
    places = {SOURCE: _along(source), TARGET: _along(target)}
    widths = {side: (along[-1][1] if along else 0.0) for side, along in places.items()}
    whole = max(widths.values()) + 2 * _MARGIN
    levels = _levels(uses)
    depth = (max(levels) + 1) * _STEP if uses else 0.0
    between = min(220.0, 70.0 + whole / 16)
    source_foot = _MARGIN + depth + _WORD_HEIGHT
    target_foot = source_foot + between + _WORD_HEIGHT
    height = target_foot + (depth if target else 0.0) + _MARGIN
    centres = {
        side: [
            _across(along[n][0] + (whole - widths[side]) / 2, whole, _is_rtl(words))
            for n in range(len(words))
        ]
        for side, along, words in ((SOURCE, places[SOURCE], source), (TARGET, places[TARGET], target))
    }  # fmt: skip
    placed = [
        PlacedWord(x, foot, short(visible(word.text), _LONGEST_WORD), word)
        for words, side, foot in ((source, SOURCE, source_foot), (target, TARGET, target_foot))
        for word, x in zip(words, centres[side], strict=True)
    ]
    nodes: list[PlacedNode] = []
    branches: list[Curve] = []
    # A rule's nodes stand above the source words, and below the target words: where the root is, how levels go on, and
    # where the words are met.
    trees = [(SOURCE, _MARGIN, _STEP, source_foot - _WORD_HEIGHT)]
    if any(use.target_span[1] for use in uses):
        trees.append((TARGET, height - _MARGIN, -_STEP, target_foot + 8.0))
    for side, root, step, foot in trees:
        spots = [
            (_middle(centres[side], _span(use, side)), root + level * step)
            for use, level in zip(uses, levels, strict=True)
        ]
        for number, (use, (x, y)) in enumerate(zip(uses, spots, strict=True), 1):
            nodes.append(PlacedNode(x, y, number, colour_of(number), f"{use.source} ||| {use.target}"))
            ends = [spots[child] for child in use.children]
            ends += [(centres[side][n], foot) for n in own_words(use, list(uses), side)]
            branches += [Curve(_curve((x, y), end), "") for end in ends]
    arcs = [
        Curve(
            _curve((centres[SOURCE][i], source_foot + 6.0), (centres[TARGET][j], target_foot - _WORD_HEIGHT + 4.0)),
            f"s{i} t{j}",
        )
        for i, j in links_of(alignment)
        if i < len(source) and j < len(target)
    ]
    return Picture(round(whole), round(height), placed, nodes, branches, arcs)


def grid(uses: Sequence[RuleUse], source: Sequence[Word], target: Sequence[Word], alignment: str) -> Grid:
    """The links of a pair as a grid."""
    cell = _SMALL_CELL if max(len(source), len(target)) > _MANY_WORDS else _CELL
    rows = [short(visible(word.text), _LONGEST_LABEL) for word in source]
    columns = [short(visible(word.text), _LONGEST_LABEL) for word in target]
    size = min(cell - 2.0, 13.0)
    left = max(map(width, rows), default=0.0) * size + 14.0
    top = max(map(width, columns), default=0.0) * size + 14.0
    phrases = [
        (
            left + use.target_span[0] * cell,
            top + use.source_span[0] * cell,
            (use.target_span[1] - use.target_span[0]) * cell,
            (use.source_span[1] - use.source_span[0]) * cell,
            colour_of(number),
        )
        for number, use in enumerate(uses, 1)
    ]
    return Grid(
        round(left + len(columns) * cell + 4.0),
        round(top + len(rows) * cell + 4.0),
        round(left, 1), round(top, 1), cell, rows, columns, links_of(alignment), phrases,
    )  # fmt: skip


def _span(use: RuleUse, side: str) -> tuple[int, int]:
    return use.source_span if side == SOURCE else use.target_span


def _along(words: Sequence[Word]) -> list[tuple[float, float]]:
    """The middle of each word from the row's beginning, and where the row ends after it."""
    places = []
    end = 0.0
    for word in words:
        wide = width(short(visible(word.text), _LONGEST_WORD)) * _EM + _GAP
        places.append((end + wide / 2, end + wide))
        end += wide
    return places


def _is_rtl(words: Sequence[Word]) -> bool:
    return direction(" ".join(word.text for word in words)) == "rtl"


def _across(x: float, whole: float, rtl: bool) -> float:
    return round(whole - x if rtl else x, 1)


def _levels(uses: Sequence[RuleUse]) -> list[int]:
    """Return how far below the root each rule is; children come after their parents."""
    levels = [0] * len(uses)
    for place, use in enumerate(uses):
        for child in use.children:
            levels[child] = levels[place] + 1
    return levels


def _middle(centres: Sequence[float], span: tuple[int, int]) -> float:
    start, end = span
    return round((centres[start] + centres[max(start, end - 1)]) / 2, 1) if centres else 0.0


def _curve(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x, y), (to_x, to_y) = start, end
    middle = round((y + to_y) / 2, 1)
    return f"M{x:g} {y:g}C{x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {to_y:g}"
