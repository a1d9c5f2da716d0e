"""The page of a rule (expected uses over time, competing rules, pairs), and the page of a word."""

from math import log2
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from hierogram.daemon.text.word_view import WordView
from hierogram.daemon.web.pages.rendering import PageContext, PageSnapshot, build_url, is_side, sentences
from hierogram.daemon.web.protocol.bodies import invalid_value, query_values, whole_number
from hierogram.samplers.grammar.kinds import PAIRS, SOURCE, TARGET, TWO_SIDES, GrammarKind
from hierogram.storage.browsing import details, words
from hierogram.storage.browsing.search import Phrase, most_used_rules
from hierogram.storage.pairs.vocabulary import similar_words
from hierogram.storage.records.pairs import PairRow, parse_links

_MAX_COMPETING_RULES = 12
_MAX_PAIRS = 10
_MAX_RENDERINGS = 200
_SHOWN_RENDERINGS = 15
_MAX_RULES = 200
_SHOWN_RULES = 12
_MAX_COLLOCATES = 24
_MAX_LINES = 8


def add_rule_pages(app: FastAPI, page: PageContext) -> None:
    """Add the pages `/rule`, `/rule/pairs` and `/word`."""

    @app.get("/rule")
    @app.get("/rule.json")
    def rule_page(request: Request) -> Response:
        parameters = query_values(request, "source", "target")
        source, target = parameters.get("source", ""), parameters.get("target", "")
        with page.read() as snapshot:
            transaction, word_view = snapshot.transaction, snapshot.word_view
            rule = details.find_rule(transaction, source, target)
            history: list[dict[str, Any]] = []
            if rule is not None:
                history = details.read_rule_history(transaction, rule.id)
                history.append({"day": "now", "expected_uses": rule.expected_uses})
            content: dict[str, Any] = {"source": source, "target": target, "rule": rule, "history": history}
            content["rivals"] = {
                side: details.find_competing_rules(transaction, side, text, _MAX_COMPETING_RULES)
                for side, text in ((SOURCE, source), (TARGET, target))
            }
            content["two_sides"] = TWO_SIDES in snapshot.grammar_kind.capabilities
            content["_sides"] = word_view.side(source), word_view.side(target)
        return page.render(request, "rule", content, snapshot)

    @app.get("/rule/pairs")
    @app.get("/rule/pairs.json")
    def pairs_of_rule(request: Request) -> Response:
        # Import here, because other pages do not need the compiler.
        from hierogram.daemon.learning.derivations import ConcordancePage, concordance

        parameters = query_values(request, "source", "target", "after")
        source, target = parameters.get("source", ""), parameters.get("target", "")
        with page.read() as snapshot:
            transaction, word_view = snapshot.transaction, snapshot.word_view
            rule = details.find_rule(transaction, source, target)
            start = whole_number(parameters.get("after", "")) or 0
            # Search also for valid rules that are not stored yet, because a pair may already use them.
            rule_id, is_valid = (rule.id if rule else None), is_side(source) and is_side(target)
            if rule or is_valid:
                concordance_page = concordance(transaction, rule_id, source, target, start, _MAX_PAIRS)
            else:
                concordance_page = ConcordancePage([], None, True, 0, 0)
            shown = {}
            for line in concordance_page.lines:
                pair = word_view.pair(line.source, line.target, line.alignment)
                on_source = {pair.source_word_indices[n] for n in line.source_positions}
                on_target = {pair.target_word_indices[n] for n in line.target_positions}
                shown[line.id] = sentences(*pair[:3], {SOURCE: on_source, TARGET: on_target})
            content = {"source": source, "target": target, **concordance_page._asdict(), "_sentences": shown}
            content |= {"_sides": (word_view.side(source), word_view.side(target)), "_after": start}
            content["_next"] = build_url("/rule/pairs", source=source, target=target, after=concordance_page.next)
        return page.render(request, "rule_pairs", content, snapshot)

    @app.get("/word")
    @app.get("/word.json")
    def word_page(request: Request) -> Response:
        parameters = query_values(request, "side", "token")
        side, token = parameters.get("side", SOURCE), parameters.get("token", "")
        if side not in (SOURCE, TARGET):
            raise invalid_value("side", f"must be {SOURCE} or {TARGET}")
        with page.read() as snapshot:
            content = _word_content(snapshot, side, token)
        return page.render(request, "word", content, snapshot)


def _word_content(snapshot: PageSnapshot, side: str, token: str) -> dict[str, Any]:
    transaction, _, grammar_kind, word_view = snapshot
    two_sides = TWO_SIDES in grammar_kind.capabilities
    parts = word_view.parts(side == TARGET, token)
    phrase = Phrase(tuple(parts.split(" ")))
    count = words.count_word(transaction, side, parts)
    renderings = details.find_competing_rules(transaction, side, phrase.side(), _MAX_RENDERINGS) if two_sides else []
    containing = most_used_rules(transaction, phrase, side, _MAX_RULES)
    rows = words.pairs_containing(transaction, side, parts, _MAX_LINES) if count else []
    lines = [_concordance_line(row, side, token, grammar_kind, word_view) for row in rows]
    shown = {}
    for line in lines:
        marked = {SOURCE: line["source_positions"], TARGET: line["target_positions"]}
        shown[line["id"]] = sentences(line["source"], line["target"], line["alignment"], marked)
    total = sum(rule.probability for rule in renderings)
    shares = [rule.probability / total for rule in renderings if rule.probability]
    perplexity = float(2 ** -sum(share * log2(share) for share in shares)) if shares else None
    return {
        "side": side, "token": token, "count": count,
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
        "_sentences": shown,
    }  # fmt: skip


def _concordance_line(
    row: PairRow, side: str, token: str, grammar_kind: GrammarKind, word_view: WordView
) -> dict[str, Any]:
    """Return a pair in whole words, with the positions of `token` and of its linked words."""
    # In a store of trees, the target of a pair is the bracket notation of the tree, not a text.
    bilingual = grammar_kind.input_kind == PAIRS
    pair = word_view.pair(row.source, row.target if bilingual else "", row.alignment if bilingual else "")
    links = parse_links(pair.alignment)
    on_target = side == TARGET and bilingual
    words_of_side = (pair.target if on_target else pair.source).split(" ")
    positions = [n for n, word in enumerate(words_of_side) if word == token]
    linked = sorted({i for i, j in links if j in positions} if on_target else {j for i, j in links if i in positions})
    sides = (linked, positions) if on_target else (positions, linked)
    line = {"id": row.id, "source": pair.source, "target": pair.target, "alignment": pair.alignment}
    return line | {"source_positions": sides[0], "target_positions": sides[1]}
