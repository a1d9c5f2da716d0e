"""The page of a word: renderings, longer rules, collocates, and occurrences."""

from math import log2
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from hierogram.daemon.text.segments import WordView
from hierogram.daemon.web.pages.forms import invalid_value, query_values
from hierogram.daemon.web.pages.rendering import PageContext, PageSnapshot, sentences
from hierogram.samplers.grammar.kinds import PAIRS, SOURCE, TARGET, TWO_SIDES, GrammarKind
from hierogram.storage.browsing import details, words
from hierogram.storage.browsing.search import Phrase, most_used_rules
from hierogram.storage.pairs.vocabulary import similar_words
from hierogram.storage.records.pairs import PairRow, parse_links

_MAX_RENDERINGS = 200
_SHOWN_RENDERINGS = 15
_MAX_RULES = 200
_SHOWN_RULES = 12
_MAX_COLLOCATES = 24
_MAX_LINES = 8


def word_routes(page: PageContext) -> APIRouter:
    """Return the router of `/word`."""
    router = APIRouter()

    @router.get("/word")
    @router.get("/word.json")
    def word_page(request: Request) -> Response:
        parameters = query_values(request, "side", "token")
        side, token = parameters.get("side", SOURCE), parameters.get("token", "")
        if side not in (SOURCE, TARGET):
            raise invalid_value("side", f"must be {SOURCE} or {TARGET}")
        with page.read() as snapshot:
            content = _content(snapshot, side, token)
        return page.render(request, "word", content, snapshot)

    return router


def _content(snapshot: PageSnapshot, side: str, token: str) -> dict[str, Any]:
    transaction, _, grammar_kind, word_view = snapshot
    two_sides = TWO_SIDES in grammar_kind.capabilities
    parts = word_view.parts(side == TARGET, token)
    phrase = Phrase(tuple(parts.split(" ")))
    count = words.count_word(transaction, side, parts)
    renderings = details.find_competing_rules(transaction, side, phrase.side(), _MAX_RENDERINGS) if two_sides else []
    containing = most_used_rules(transaction, phrase, side, _MAX_RULES)
    rows = words.pairs_containing(transaction, side, parts, _MAX_LINES) if count else []
    lines = [_concordance_line(row, side, token, grammar_kind, word_view) for row in rows]
    total = sum(rule.probability for rule in renderings)
    shares = [rule.probability / total for rule in renderings if rule.probability]
    perplexity = float(2 ** -sum(share * log2(share) for share in shares)) if shares else None
    return {
        "side": side,
        "token": token,
        "count": count,
        "renderings": [
            {"text": rule.other, "expected_uses": rule.expected_uses, "probability": rule.probability,
             "source": phrase.side() if side == SOURCE else rule.other,
             "target": rule.other if side == SOURCE else phrase.side()}
            for rule in renderings[:_SHOWN_RENDERINGS]
        ],
        "more_renderings": max(0, len(renderings) - _SHOWN_RENDERINGS),
        "perplexity": perplexity,
        "rules": [rule for rule in containing if not two_sides or getattr(rule, side) != phrase.side()][:_SHOWN_RULES],
        "collocates": words.find_collocates(transaction, side, token, containing, _MAX_COLLOCATES),
        "dispersion": words.find_distribution(transaction, side, parts),
        "lines": lines,
        "similar_words": [] if count else similar_words(transaction.connection, side, token),
        "_two_sides": two_sides,
        "_sentences": {
            line["id"]: sentences(
                line["source"], line["target"], line["alignment"],
                {SOURCE: line["source_positions"], TARGET: line["target_positions"]},
            )
            for line in lines
        },
    }  # fmt: skip


def _concordance_line(
    row: PairRow, side: str, token: str, grammar_kind: GrammarKind, word_view: WordView
) -> dict[str, Any]:
    # In a store of trees, the target of a pair is the bracket notation of the tree, not a text.
    bilingual = grammar_kind.input_kind == PAIRS
    pair = word_view.pair(row.source, row.target if bilingual else "", row.alignment if bilingual else "")
    links = parse_links(pair.alignment)
    on_target = side == TARGET and bilingual
    words_of_side = (pair.target if on_target else pair.source).split(" ")
    positions = [n for n, word in enumerate(words_of_side) if word == token]
    linked = sorted({i for i, j in links if j in positions} if on_target else {j for i, j in links if i in positions})
    return {
        "id": row.id,
        "source": pair.source,
        "target": pair.target,
        "alignment": pair.alignment,
        "source_positions": linked if on_target else positions,
        "target_positions": positions if on_target else linked,
    }
