"""Layout of the drawing of a pair: derivation trees of both sides, with the links between their words.

Lengths are in pixels. The source tree is above its words, the target tree below its words. A rule has the same number
in both trees.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from hierogram.daemon.learning.derivations import terminal_positions
from hierogram.daemon.web.pages.rendering import ShownWord, color_number, direction, truncate, visible
from hierogram.samplers.grammar.kinds import SOURCE, TARGET
from hierogram.samplers.grammar.rules import RuleUse
from hierogram.storage.records.pairs import parse_links

_EM, _GAP, _LEVEL_HEIGHT, _MARGIN, _WORD_HEIGHT = 15.0, 20.0, 42.0, 24.0, 22.0
_MAX_WORD_LENGTH = 28


def lay_out_trees(uses: Sequence[RuleUse], sides: Mapping[str, Sequence[ShownWord]], alignment: str) -> dict[str, Any]:
    """Return the layout of the trees of a derivation and of the links between their words.

    `words` are (x, y of the baseline's middle, text, word), `nodes` (x, y, number of the rule from 1, color, rule),
    `branches` SVG paths, and `arcs` SVG paths with the keys of the linked words. An empty derivation has no trees.
    """
    offsets_by_side = {side: _word_offsets(words) for side, words in sides.items()}
    widths = {side: offsets[-1][1] if offsets else 0.0 for side, offsets in offsets_by_side.items()}
    total_width = max(widths.values()) + 2 * _MARGIN
    # One pass is enough, because children follow their parents in `uses`.
    levels = [0] * len(uses)
    for index, use in enumerate(uses):
        for child in use.children:
            levels[child] = levels[index] + 1
    depth = (max(levels) + 1) * _LEVEL_HEIGHT if uses else 0.0
    baselines = {SOURCE: _MARGIN + depth + _WORD_HEIGHT}
    baselines[TARGET] = baselines[SOURCE] + min(220.0, 70.0 + total_width / 16) + _WORD_HEIGHT
    height = baselines[TARGET] + (depth if sides[TARGET] else 0.0) + _MARGIN
    centers: dict[str, list[float]] = {}
    for side, words in sides.items():
        xs = [middle + (total_width - widths[side]) / 2 for middle, _ in offsets_by_side[side]]
        rtl = direction(" ".join(word.text for word in words)) == "rtl"
        centers[side] = [round(total_width - x if rtl else x, 1) for x in xs]
    nodes: list[tuple[float, float, int, int, str]] = []
    branches: list[str] = []
    trees = [(SOURCE, _MARGIN, _LEVEL_HEIGHT, baselines[SOURCE] - _WORD_HEIGHT)]
    if any(use.target_span[1] for use in uses):
        trees.append((TARGET, height - _MARGIN, -_LEVEL_HEIGHT, baselines[TARGET] + 8.0))
    for side, root_y, level_height, words_y in trees:
        xs = centers[side]
        positions = [
            (round((xs[start] + xs[max(start, end - 1)]) / 2, 1) if xs else 0.0, root_y + level * level_height)
            for use, level in zip(uses, levels, strict=True)
            for start, end in [use.source_span if side == SOURCE else use.target_span]
        ]
        for number, (use, (x, y)) in enumerate(zip(uses, positions, strict=True), 1):
            nodes.append((x, y, number, color_number(number), f"{use.source} ||| {use.target}"))
            ends = [positions[child] for child in use.children]
            ends += [(xs[n], words_y) for n in terminal_positions(use, list(uses), side)]
            branches += [_curve((x, y), end) for end in ends]
    arc_end_y = baselines[TARGET] - _WORD_HEIGHT + 4.0
    return {
        "width": round(total_width),
        "height": round(height),
        "words": [
            (x, baselines[side], truncate(visible(word.text), _MAX_WORD_LENGTH), word)
            for side, words in sides.items()
            for word, x in zip(words, centers[side], strict=True)
        ],
        "nodes": nodes,
        "branches": branches,
        "arcs": [
            (
                _curve((centers[SOURCE][i], baselines[SOURCE] + 6.0), (centers[TARGET][j], arc_end_y)),
                f"{sides[SOURCE][i].key} {sides[TARGET][j].key}",
            )
            for i, j in parse_links(alignment)
            if i < len(sides[SOURCE]) and j < len(sides[TARGET])
        ],
    }


def _width(text: str) -> float:
    """Estimate the width of a text in ems."""
    ems = 0.0
    for letter in text:
        if unicodedata.combining(letter) or unicodedata.category(letter) in ("Mn", "Me", "Cf"):
            continue
        if unicodedata.east_asian_width(letter) in "WF":
            ems += 1.05
        else:
            ems += 0.68 if letter.isupper() or letter in "mwMW—…%@" else 0.56
    return ems


def _word_offsets(words: Sequence[ShownWord]) -> list[tuple[float, float]]:
    offsets, end = [], 0.0
    for word in words:
        word_width = _width(truncate(visible(word.text), _MAX_WORD_LENGTH)) * _EM + _GAP
        offsets.append((end + word_width / 2, end + word_width))
        end += word_width
    return offsets


def _curve(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x, y), (to_x, to_y) = start, end
    middle = round((y + to_y) / 2, 1)
    return f"M{x:g} {y:g}C{x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {to_y:g}"
