"""The page of a word: its renderings, its collocates, and its occurrences."""

from collections import defaultdict
from collections.abc import Sequence
from http import HTTPStatus
from math import log2
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from hierogram.daemon.text.segments import WordView
from hierogram.daemon.web.pages.forms import query_values
from hierogram.daemon.web.pages.rendering import PageContext, PageSnapshot, sentences
from hierogram.daemon.web.protocol.problems import ProblemError
from hierogram.samplers.grammar.kinds import PAIRS, SOURCE, TARGET, TWO_SIDES, Notation
from hierogram.storage.browsing import details, words
from hierogram.storage.browsing.details import CompetingRule
from hierogram.storage.browsing.search import Phrase, most_used_rules
from hierogram.storage.pairs.vocabulary import similar_words
from hierogram.storage.records.pairs import PairRow, parse_links
from hierogram.storage.records.parts import is_part

_RENDERINGS = 200
_SHOWN_RENDERINGS = 15
_RULES = 200
_SHOWN_RULES = 12
_COLLOCATES = 24
_COMPARED_RENDERINGS = 6
_LINES = 8
_MAX_SIMILAR = 8
_RARE = 0.1
"""Probability below which a rendering is listed as rare, unless it is the most frequent one."""


def word_routes(page: PageContext) -> APIRouter:
    """Return the router for words."""
    router = APIRouter()

    @router.get("/word")
    @router.get("/word.json")
    def word_page(request: Request) -> Response:
        """Return the page of a word."""
        parameters = query_values(request, "side", "token")
        side, token = parameters.get("side", SOURCE), parameters.get("token", "")
        if side not in (SOURCE, TARGET):
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"side: must be {SOURCE} or {TARGET}")
        with page.read() as snapshot:
            content = _content(snapshot, side, token)
        return page.render(request, "word", content, snapshot)

    return router


def _content(snapshot: PageSnapshot, side: str, token: str) -> dict[str, Any]:
    transaction, _, notation, view = snapshot
    two_sides = TWO_SIDES in notation.offers
    parts = view.parts(side == TARGET, token)
    phrase = Phrase(tuple(parts.split(" ")))
    count = words.count_word(transaction, side, parts)
    renderings = details.find_competing_rules(transaction, side, phrase.side(), _RENDERINGS) if two_sides else []
    containing = most_used_rules(transaction, phrase, side, _RULES)
    by_corpus = words.uses_by_corpus(transaction, [rule.id for rule in renderings[:_COMPARED_RENDERINGS]])
    lines = _lines(
        words.pairs_containing(transaction, side, parts, _LINES) if count else [], side, token, notation, view
    )
    # Perplexity: the number of equally probable renderings with the same entropy.
    total = sum(rule.probability for rule in renderings)
    shares = [rule.probability / total for rule in renderings if rule.probability]
    perplexity = float(2 ** -sum(share * log2(share) for share in shares)) if shares else None
    return {
        "side": side,
        "token": token,
        "count": count,
        "renderings": [_rendering(rule, side, phrase.side()) for rule in renderings[:_SHOWN_RENDERINGS]],
        "more_renderings": max(0, len(renderings) - _SHOWN_RENDERINGS),
        "perplexity": perplexity,
        "rules": [rule for rule in containing if not two_sides or getattr(rule, side) != phrase.side()][:_SHOWN_RULES],
        "collocates": words.find_collocates(transaction, side, token, containing, _COLLOCATES),
        "dispersion": words.find_distribution(transaction, side, parts),
        "lines": lines,
        "similar_words": [
            word.token
            for word in (similar_words(transaction.connection, side, token, _MAX_SIMILAR) if not count else ())
            if not is_part(word.token)
        ],
        "inconsistent": _inconsistent_renderings(renderings, side, phrase.side(), by_corpus, view),
        "_two_sides": two_sides,
        "_sentences": {
            line["id"]: sentences(
                line["source"], line["target"], line["alignment"],
                {SOURCE: line["source_positions"], TARGET: line["target_positions"]},
            )
            for line in lines
        },
    }  # fmt: skip


def _lines(rows: Sequence[PairRow], side: str, token: str, notation: Notation, view: WordView) -> list[dict[str, Any]]:
    """Return the pairs as a concordance, with the positions of the word and of the words linked to it."""
    bilingual = notation.takes == PAIRS
    lines = []
    for row in rows:
        pair = view.pair(row.source, row.target if bilingual else "", row.alignment if bilingual else "")
        links = parse_links(pair.alignment)
        text = pair.target if side == TARGET and bilingual else pair.source
        positions = [n for n, word in enumerate(text.split(" ")) if word == token]
        linked = sorted(
            {j for i, j in links if i in positions} if side == SOURCE else {i for i, j in links if j in positions}
        )
        marked = (positions, linked) if side == SOURCE or not bilingual else (linked, positions)
        lines.append(
            {
                "id": row.id,
                "source": pair.source,
                "target": pair.target,
                "alignment": pair.alignment,
                "source_positions": marked[0],
                "target_positions": marked[1],
            }
        )
    return lines


def _rendering(rule: CompetingRule, side: str, text: str) -> dict[str, Any]:
    sides = (text, rule.other) if side == SOURCE else (rule.other, text)
    return {
        "text": rule.other, "expected_uses": rule.expected_uses, "probability": rule.probability,
        "source": sides[0], "target": sides[1],
    }  # fmt: skip


def _inconsistent_renderings(
    renderings: Sequence[CompetingRule], side: str, text: str, by_corpus: Sequence[tuple[Any, ...]], view: WordView
) -> dict[str, Any]:
    if not renderings:
        return {"rare": [], "renderings": [], "corpora": []}
    text_by_rule = {rule.id: view.side(rule.other) for rule in renderings[:_COMPARED_RENDERINGS]}
    uses: dict[str, dict[int, int]] = defaultdict(dict)
    for rule_id, corpus, number in by_corpus:
        uses[corpus][rule_id] = number
    rare = [rule for rule in renderings[1:] if rule.probability < _RARE]
    return {
        "rare": [_rendering(rule, side, text) for rule in rare[-_SHOWN_RENDERINGS:][::-1]],
        "renderings": list(text_by_rule.values()),
        "corpora": [
            {"corpus": corpus, "uses": [numbers.get(rule_id, 0) for rule_id in text_by_rule],
             "preferred": text_by_rule[max(numbers, key=lambda rule_id: numbers[rule_id])]}
            for corpus, numbers in sorted(uses.items())
        ],
    }  # fmt: skip
