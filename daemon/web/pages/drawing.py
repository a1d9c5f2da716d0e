"""Layout of a pair's pictures: two derivation trees with the links between them, and the links as a grid.

Lengths are in pixels. The source tree grows down to its words, the target tree up to its words. A rule has the same
number in both trees.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from hierogram.daemon.learning.derivations import terminal_positions
from hierogram.daemon.web.pages.rendering import ShownWord, color_number, direction, truncate, visible, width
from hierogram.samplers.grammar.kinds import SOURCE, TARGET
from hierogram.samplers.grammar.rules import RuleUse
from hierogram.storage.records.pairs import parse_links

_EM = 15.0
_GAP = 20.0
_STEP = 42.0
_MARGIN = 24.0
_WORD_HEIGHT = 22.0
_MAX_WORD_LENGTH = 28
_CELL, _SMALL_CELL = 20.0, 12.0
_MANY_WORDS = 60
_MAX_LABEL_LENGTH = 18


Point = tuple[float, float]


def picture(uses: Sequence[RuleUse], sides: Mapping[str, Sequence[ShownWord]], alignment: str) -> dict[str, Any]:
    """Return the layout of the trees of a derivation and of the links between their words.

    `words` are (x, y of the baseline's middle, text, word), `nodes` (x, y, number of the rule from 1, color, rule),
    `branches` SVG paths, and `arcs` SVG paths with the keys of the linked words. An empty derivation has no trees.
    """
    along = {side: _along(words) for side, words in sides.items()}
    widths = {side: spans[-1][1] if spans else 0.0 for side, spans in along.items()}
    total_width = max(widths.values()) + 2 * _MARGIN
    # Children follow their parents in `uses`.
    levels = [0] * len(uses)
    for index, use in enumerate(uses):
        for child in use.children:
            levels[child] = levels[index] + 1
    depth = (max(levels) + 1) * _STEP if uses else 0.0
    feet = {SOURCE: _MARGIN + depth + _WORD_HEIGHT}
    feet[TARGET] = feet[SOURCE] + min(220.0, 70.0 + total_width / 16) + _WORD_HEIGHT
    height = feet[TARGET] + (depth if sides[TARGET] else 0.0) + _MARGIN
    centres: dict[str, list[float]] = {}
    for side, words in sides.items():
        xs = [middle + (total_width - widths[side]) / 2 for middle, _ in along[side]]
        rtl = direction(" ".join(word.text for word in words)) == "rtl"
        centres[side] = [round(total_width - x if rtl else x, 1) for x in xs]
    nodes: list[tuple[float, float, int, int, str]] = []
    branches: list[str] = []
    # Nodes are above the source words and below the target words. Each tree has the y of its root, the step between
    # levels, and the y at which branches meet the words.
    trees = [(SOURCE, _MARGIN, _STEP, feet[SOURCE] - _WORD_HEIGHT)]
    if any(use.target_span[1] for use in uses):
        trees.append((TARGET, height - _MARGIN, -_STEP, feet[TARGET] + 8.0))
    for side, root, step, foot in trees:
        spots = [
            (_middle(centres[side], use.source_span if side == SOURCE else use.target_span), root + level * step)
            for use, level in zip(uses, levels, strict=True)
        ]
        for number, (use, (x, y)) in enumerate(zip(uses, spots, strict=True), 1):
            nodes.append((x, y, number, color_number(number), f"{use.source} ||| {use.target}"))
            ends = [spots[child] for child in use.children]
            ends += [(centres[side][n], foot) for n in terminal_positions(use, list(uses), side)]
            branches += [_curve((x, y), end) for end in ends]
    return {
        "width": round(total_width),
        "height": round(height),
        "words": [
            (x, feet[side], truncate(visible(word.text), _MAX_WORD_LENGTH), word)
            for side, words in sides.items()
            for word, x in zip(words, centres[side], strict=True)
        ],
        "nodes": nodes,
        "branches": branches,
        "arcs": [
            (
                _curve(
                    (centres[SOURCE][i], feet[SOURCE] + 6.0), (centres[TARGET][j], feet[TARGET] - _WORD_HEIGHT + 4.0)
                ),
                f"{sides[SOURCE][i].key} {sides[TARGET][j].key}",
            )
            for i, j in parse_links(alignment)
            if i < len(sides[SOURCE]) and j < len(sides[TARGET])
        ],
    }


def grid(uses: Sequence[RuleUse], sides: Mapping[str, Sequence[ShownWord]], alignment: str) -> dict[str, Any]:
    """Return the links of a pair as grid cells, and the `phrases` as (x, y, width, height, color)."""
    rows, columns = (
        [truncate(visible(word.text), _MAX_LABEL_LENGTH) for word in sides[side]] for side in (SOURCE, TARGET)
    )
    cell = _SMALL_CELL if max(len(rows), len(columns)) > _MANY_WORDS else _CELL
    size = min(cell - 2.0, 13.0)
    label_width = max(map(width, rows), default=0.0) * size + 14.0
    top = max(map(width, columns), default=0.0) * size + 14.0
    return {
        "width": round(label_width + len(columns) * cell + 4.0),
        "height": round(top + len(rows) * cell + 4.0),
        "left": round(label_width, 1),
        "top": round(top, 1),
        "cell": cell,
        "rows": rows,
        "columns": columns,
        "links": [(i, j, f"{sides[SOURCE][i].key} {sides[TARGET][j].key}") for i, j in parse_links(alignment)],
        "phrases": [
            (
                label_width + use.target_span[0] * cell,
                top + use.source_span[0] * cell,
                (use.target_span[1] - use.target_span[0]) * cell,
                (use.source_span[1] - use.source_span[0]) * cell,
                color_number(number),
            )
            for number, use in enumerate(uses, 1)
        ],
    }


def _along(words: Sequence[ShownWord]) -> list[Point]:
    spans = []
    end = 0.0
    for word in words:
        wide = width(truncate(visible(word.text), _MAX_WORD_LENGTH)) * _EM + _GAP
        spans.append((end + wide / 2, end + wide))
        end += wide
    return spans


def _middle(centres: Sequence[float], span: tuple[int, int]) -> float:
    start, end = span
    return round((centres[start] + centres[max(start, end - 1)]) / 2, 1) if centres else 0.0


def _curve(start: Point, end: Point) -> str:
    (x, y), (to_x, to_y) = start, end
    middle = round((y + to_y) / 2, 1)
    return f"M{x:g} {y:g}C{x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {to_y:g}"
