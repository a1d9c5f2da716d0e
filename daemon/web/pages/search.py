"""The pages to begin with: what the store holds, and rules that hold a word or a phrase."""

from dataclasses import asdict, replace
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from hierogram.daemon.web.pages.queries import LARGEST_ID, options
from hierogram.daemon.web.pages.rendering.texts import symbols_of
from hierogram.daemon.web.pages.rendering.view import address
from hierogram.daemon.web.pages.visit import Visit
from hierogram.samplers.grammar.kinds import SOURCE, TARGET, TWO_SIDES, notation_of
from hierogram.storage.browsing import progress, words
from hierogram.storage.browsing.phrases import Phrase, read_phrase
from hierogram.storage.browsing.reader import Look
from hierogram.storage.browsing.search import (
    MATCHES,
    ORDERS,
    Answer,
    Known,
    Place,
    Query,
    known_words,
    likely_side,
    search,
)
from hierogram.storage.options import declared

_EXAMPLES = 12
_PAGE = 20
_MOST = 200


def search_routes(visit: Visit) -> APIRouter:
    """The routes of this module."""
    router = APIRouter()

    @router.get("/")
    @router.get("/index.json")
    @router.get("/search")
    @router.get("/search.json")
    def search_page(request: Request) -> Response:
        """Rules that hold a phrase; without one, what the store holds."""
        query, given = options(request, Query, "q", "after")
        query = replace(query, limit=min(query.limit, _MOST))
        phrase = read_phrase(given.get("q", ""))
        with visit.reader.look() as look:
            status = progress.store_status(look, visit.reader.url)
            notation = notation_of(look.settings().grammar)
            content: dict[str, Any] = {
                "typed": given.get("q", ""),
                "query": asdict(query),
                "store": {"rules": status.rules, "uses": status.rule_tokens, "pairs": status.pairs},
                "corpora": progress.corpus_names(look),
                "two_sides": TWO_SIDES in notation.offers,
                "_values": {name: field.option.values for name, field in declared(Query).items()},
                "_orders": ORDERS,
                "_matches": MATCHES,
            }
            if phrase.words:
                known = known_words(look, phrase)
                if "side" not in request.query_params:
                    query = replace(query, side=likely_side(known, phrase))
                found = search(look, phrase, query, _read_place(given.get("after")))
                content |= _results(request, found, phrase, query, known) | {
                    "query": asdict(query),
                    "_symbols": lambda side: symbols_of(side, notation),
                }
            else:
                content |= _beginning(look) | {"rules": []}
            content["sql"] = look.asked
        return visit.view.answer(request, "search", content)

    return router


def _results(request: Request, found: Answer, phrase: Phrase, query: Query, known: Known) -> dict[str, Any]:
    side = query.side
    unknown = [word for word in phrase.words if word not in known.get(side, {})]
    other = TARGET if side == SOURCE else SOURCE
    here = {name: value for name, value in request.query_params.items() if name != "after"}
    after = _write_place(found.next)
    return {
        "rules": found.rules,
        "after": after,
        "unknown_words": unknown,
        "word": phrase.words[0] if phrase.is_word else None,
        "_on_other_side": bool(phrase.words) and all(word in known.get(other, {}) for word in phrase.words),
        "_other": address("/search", **here | {"side": other}),
        "_next": address("/search", **here | {"side": side, "after": after}) if after else None,
        "_continued": "after" in request.query_params,
        "_first": address("/search", **here),
    }


def _beginning(look: Look) -> dict[str, Any]:
    return {"common_words": {side: words.common_words(look, side, _EXAMPLES) for side in (SOURCE, TARGET)}}


def _write_place(place: Place | None) -> str | None:
    return None if place is None else f"{place.uses}.{place.id}.{place.probability.hex()}"


def _read_place(text: str | None) -> Place | None:
    """Where the page before ended; whatever is no such place is none."""
    try:
        uses, rule, probability = (text or "").split(".", 2)
        place = Place(float.fromhex(probability), int(uses), int(rule))
    except (ValueError, OverflowError):
        return None
    return place if max(place.uses, place.id) <= LARGEST_ID else None
