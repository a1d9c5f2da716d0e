"""Page of a pair with its texts, links, derivation, rules and score, and withdrawal of the pair."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from math import log
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from hierogram.daemon.web.pages.rendering import (
    PageContext,
    PageSnapshot,
    ShownWord,
    color_number,
    direction,
    sentences,
    truncate,
    visible,
)
from hierogram.daemon.web.protocol.access import COOKIE
from hierogram.daemon.web.protocol.bodies import PairId, confirmed_form, query_values
from hierogram.daemon.web.protocol.context import Service
from hierogram.daemon.web.protocol.problems import ProblemError, unknown_pair
from hierogram.samplers.exceptions import SamplerError
from hierogram.samplers.grammar.kinds import PAIRS, SOURCE, TARGET
from hierogram.samplers.grammar.rules import RuleUse
from hierogram.storage.browsing.details import count_uses, find_neighbors, find_pair
from hierogram.storage.records.pairs import PairRecord, parse_links


def add_pair_pages(app: FastAPI, page: PageContext) -> None:
    """Add the pages `/pairs/{pair_id}`, `/pairs/{pair_id}/withdraw` and `/withdrawn/{pair_id}`."""

    @app.get("/pairs/{pair_id:int}.json")
    @app.get("/pairs/{pair_id:int}")
    def pair_page(request: Request, pair_id: PairId) -> Response:
        query_values(request)
        with page.read() as snapshot:
            content = _content(snapshot, _require_pair(snapshot, pair_id))
        content["_can_withdraw"] = page.service is not None
        return page.render(request, "pair", content, snapshot)

    @app.get("/pairs/{pair_id:int}/withdraw")
    def withdrawal_form(request: Request, pair_id: PairId) -> Response:
        query_values(request)
        _require_daemon(page)
        with page.read() as snapshot:
            pair, unit = _require_pair(snapshot, pair_id), snapshot.grammar_kind.singular
        token = page.sessions.form_token(request.cookies.get(COOKIE), request.url.path)
        content = {"pair": pair, "unit": unit, "action": request.url.path, "form_token": token}
        return page.render_html(request, "withdraw", content)

    @app.post("/pairs/{pair_id:int}/withdraw")
    async def withdraw(request: Request, pair_id: PairId) -> Response:
        await confirmed_form(request, page.sessions)
        service = _require_daemon(page)
        if pair_id not in await page.threads.run_change(lambda: service.withdraw([pair_id])):
            raise unknown_pair(pair_id)
        return RedirectResponse(f"/withdrawn/{pair_id}", HTTPStatus.SEE_OTHER)

    @app.get("/withdrawn/{pair_id:int}")
    def withdrawn(request: Request, pair_id: PairId) -> Response:
        """Return the state of a withdrawal. Redirects to the pair's page if no withdrawal was requested."""
        query_values(request)
        with page.read() as snapshot:
            query = "SELECT done_at FROM withdrawals WHERE pair_id = :pair_id"
            requested = snapshot.transaction.row(query, False, pair_id=pair_id)
            if requested is None:
                return RedirectResponse(f"/pairs/{_require_pair(snapshot, pair_id).id}", HTTPStatus.SEE_OTHER)
        content = {"id": pair_id, "unit": snapshot.grammar_kind.singular, "pending": requested[0] is None}
        return page.render_html(request, "withdrawn", content)


def _require_daemon(page: PageContext) -> Service:
    if page.service is None:
        detail = "this server is read-only: withdrawing pairs requires a daemon (`hierogram serve`)"
        raise ProblemError(HTTPStatus.FORBIDDEN, detail)
    return page.service


def _require_pair(snapshot: PageSnapshot, pair_id: int) -> PairRecord:
    pair = find_pair(snapshot.transaction, pair_id)
    if pair is None:
        raise ProblemError(HTTPStatus.NOT_FOUND, f"{snapshot.grammar_kind.singular} {pair_id} not found")
    return pair


def _content(snapshot: PageSnapshot, pair: PairRecord) -> dict[str, Any]:
    # Import here, because other pages do not need the compiler.
    from hierogram.daemon.learning.derivations import expected_rules, read_derivation
    from hierogram.storage.pairs.pairs import pairs_by_id

    transaction, settings, grammar_kind, word_view = snapshot
    # In a store of trees, the target of a pair is the bracket notation of the tree, not a text.
    bilingual = grammar_kind.input_kind == PAIRS
    alignment = pair.alignment if bilingual else ""
    word_pair = word_view.pair(pair.source, pair.target if bilingual else "", alignment)
    sides = sentences(word_pair.source, word_pair.target, word_pair.alignment)
    # Rules and links refer to subword tokens, so draw the tokens, but highlight whole words.
    tokens = {
        side: [
            sides[side][positions[n]]._replace(text=word_view.side(symbol))
            for n, symbol in enumerate(text.split(" "))
            if text
        ]
        for side, text, positions in (
            (SOURCE, pair.source, word_pair.source_word_indices),
            (TARGET, pair.target if bilingual else "", word_pair.target_word_indices),
        )
    }
    problem = None
    try:
        [row] = pairs_by_id(transaction.connection, [pair.id])
        uses, expected = read_derivation(row, settings), expected_rules(row, settings)
    except SamplerError as error:
        uses, expected, problem = [], [], str(error)
    rules = [replace(use, source=word_view.side(use.source), target=word_view.side(use.target)) for use in uses]
    stored = count_uses(transaction, {(use.source, use.target) for use in uses})
    counts_by_rule = [stored.get((use.source, use.target), (0.0, 0)) for use in uses]
    previous, following = find_neighbors(transaction, pair.id)
    # Omit the score if a rule has not been counted, because the log of a frequency of 0 is undefined.
    score = None
    total = transaction.state().rule_tokens
    if counts_by_rule and total and all(count for _, count in counts_by_rule):
        score = sum(log(count / total) for _, count in counts_by_rule)
    return {
        "pair": pair,
        "rules": [
            {
                "number": number, "source": use.source, "target": use.target, "source_span": use.source_span,
                "target_span": use.target_span, "children": [child + 1 for child in use.children],
                "expected_uses": expected_uses, "count": count,
            }
            for number, (use, (expected_uses, count)) in enumerate(zip(uses, counts_by_rule, strict=True), 1)
        ],
        "score": score, "words": len(sides[SOURCE]) + len(sides[TARGET]), "expected": expected, "problem": problem,
        "_before": previous, "_after": following, "_sides": sides, "_bilingual": bilingual,
        "_picture": _lay_out_trees(rules, tokens, alignment),
    }  # fmt: skip


_EM, _GAP, _LEVEL_HEIGHT, _MARGIN, _WORD_HEIGHT = 15.0, 20.0, 42.0, 24.0, 22.0
_MAX_WORD_LENGTH = 28


def _lay_out_trees(uses: Sequence[RuleUse], sides: Mapping[str, Sequence[ShownWord]], alignment: str) -> dict[str, Any]:
    """Return the layout of the derivation trees of both sides, with the links between their words.

    Lengths are in pixels. The source tree is above its words, the target tree below its words. A rule has the same
    number in both trees.

    `words` are (x, y of the baseline's middle, text, word), `nodes` (x, y, number of the rule from 1, color, rule),
    `branches` SVG paths, and `arcs` SVG paths with the keys of the linked words. An empty derivation has no trees.
    """
    from hierogram.daemon.learning.derivations import terminal_positions

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
    """Return the middle and the end of each word, in pixels from the start of the line."""
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
