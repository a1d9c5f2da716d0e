"""The start page with an overview of the store, and the search for rules that contain a word or phrase."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.text.segments import WordView
from hierogram.daemon.text.texts import make_pipeline
from hierogram.daemon.web.pages.forms import options
from hierogram.daemon.web.pages.rendering import PageContext, Reading, address
from hierogram.daemon.web.protocol.bodies import MAX_ID
from hierogram.samplers.grammar.kinds import FRAGMENTS, SOURCE, TARGET, TWO_SIDES
from hierogram.samplers.grammar.numbers import ONE_USE
from hierogram.storage.browsing import progress, words
from hierogram.storage.browsing.search import (
    MATCHES,
    ORDERS,
    PagePosition,
    Phrase,
    Query,
    RulePage,
    guess_side,
    known_labels,
    phrase_occurs,
    read_phrase,
    search,
)
from hierogram.storage.browsing.words import count_word
from hierogram.storage.options import OptionField
from hierogram.storage.pairs.vocabulary import similar_words
from hierogram.storage.records import is_part

_EXAMPLES = 12
_MOST = 200
_LIKE, _MISSED = 8, 3
"""Number of similar words to suggest for an unknown word, and number of unknown words with suggestions."""
_LABELS = 60
_EXACT, _NEAR = "0", "1"


def search_routes(page: PageContext) -> APIRouter:
    """Return the router for the start page and the search."""
    router = APIRouter()

    @router.get("/")
    @router.get("/index.json")
    @router.get("/search")
    @router.get("/search.json")
    def search_page(request: Request) -> Response:
        """Return rules that match a query, or an overview of the store if there is no query."""
        query, parameters = options(request, Query, "q", "after")
        query = replace(query, limit=min(query.limit, _MOST))
        phrase = read_phrase(parameters.get("q", ""))
        with page.read() as reading:
            transaction, _, notation, view = reading
            status = progress.store_status(transaction, page.reader.url)
            phrase = _in_tokens(reading, phrase)
            content: dict[str, Any] = {
                "typed": parameters.get("q", ""),
                "asked": bool(phrase.words),
                "query": asdict(query),
                "store": {"rules_in_use": status.rules_in_use, "uses": status.rule_tokens, "pairs": status.pairs},
                "corpora": progress.corpus_names(transaction),
                "two_sides": TWO_SIDES in notation.offers,
                "_values": {name: field.option.values for name, field in OptionField.of(Query).items()},
                "_orders": ORDERS,
                "_matches": MATCHES,
                "_as_typed": lambda word: Phrase((word,)).typed(),
            }
            if phrase.words:
                divided = {side: _divided(phrase, view, k) for k, side in enumerate((SOURCE, TARGET))}
                if "side" not in request.query_params:
                    query = replace(query, side=guess_side(transaction, divided))
                results = search(transaction, divided[query.side], query, _read_place(parameters.get("after")))
                content |= _results(reading, request, results, phrase, divided, query) | {"query": asdict(query)}
            else:
                content |= _beginning(reading) | {"rules": []}
        return page.answer(request, "search", content, reading)

    return router


def _in_tokens(reading: Reading, phrase: Phrase) -> Phrase:
    transaction, settings, _, view = reading
    if not settings.tokenize:
        return phrase
    try:
        texts = make_pipeline(settings).to_words()
    except UsageError:
        # The tokenizer's package may be missing where a store is only browsed.
        return phrase

    def known(side: str, words: Sequence[str]) -> bool:
        return phrase_occurs(transaction, side, _divided(Phrase(tuple(words)), view, side == TARGET))

    def tokens_of(word: str) -> Sequence[str]:
        if not any(known(side, [word]) for side in (SOURCE, TARGET)):
            for side, rules in ((SOURCE, texts.source), (TARGET, texts.target)):
                if known(side, tokens := rules.tokens(word).split(" ")):
                    return tokens
        return [word]

    return Phrase(tuple(part for word in phrase.parts for part in ([None] if word is None else tokens_of(word))))


def _divided(phrase: Phrase, view: WordView, side: int) -> Phrase:
    groups = ([None] if word is None else view.parts(side, word).split(" ") for word in phrase.parts)
    return Phrase(tuple(part for parts in groups for part in parts))


def _results(
    reading: Reading,
    request: Request,
    results: RulePage,
    phrase: Phrase,
    divided: Mapping[str, Phrase],
    query: Query,
) -> dict[str, Any]:
    side = query.side
    transaction, settings, notation, view = reading
    vocabulary = side if TWO_SIDES in notation.offers else notation.rule_words[0].vocabulary
    other = TARGET if side == SOURCE else SOURCE
    parameters = {name: value for name, value in request.query_params.items() if name != "after"}
    after = _write_place(results.next)
    missing = results.unknown
    if settings.word_parts:
        # A word is unknown if one of its subwords is unknown.
        parts = {word: _divided(Phrase((word,)), view, side == TARGET).words for word in phrase.words}
        missing = tuple(word for word in phrase.words if not set(results.unknown).isdisjoint(parts[word]))
    readings = [view.line(reading.typed()) for reading in results.readings]
    # The word itself, or else the most likely similar word.
    words = [*([] if missing or results.labels else phrase.words[:1]), *(read_phrase(r).words[0] for r in readings)]
    if words and not count_word(transaction, vocabulary, view.parts(side == TARGET, words[0])):
        words = words[1:]
    like = {word: similar_words(transaction.connection, vocabulary, word, _LIKE) for word in missing[:_MISSED]}
    if not results.rules and not missing and phrase.is_word and not results.labels:
        like = {word: similar_words(transaction.connection, vocabulary, word, _LIKE) for word in phrase.words}
    return {
        "rules": results.rules,
        "after": after,
        "readings": readings,
        "unknown_words": list(missing),
        "like_words": {
            word: [candidate.token for candidate in candidates if not is_part(candidate.token)]
            for word, candidates in like.items()
        },
        "labels": list(results.labels),
        "word": words[0] if phrase.is_word and words else None,
        "_instead": lambda word, candidate: address(
            "/search", **parameters | {"q": phrase.with_word(word, candidate).typed()}
        ),
        "_reading": lambda reading: address("/search", **parameters | {"q": reading}),
        "_exact": results.exact,
        "_on_other_side": TWO_SIDES in notation.offers and phrase_occurs(transaction, other, divided[other]),
        "_other": address("/search", **parameters | {"side": other}),
        "_next": address("/search", **parameters | {"side": side, "after": after}) if after else None,
        "_continued": "after" in request.query_params,
        "_first": address("/search", **parameters),
    }


def _beginning(reading: Reading) -> dict[str, Any]:
    transaction = reading.transaction
    frequent = {side: words.common_words(transaction, side, _EXAMPLES) for side in (SOURCE, TARGET)}
    telling = words.characteristic_words(transaction, _EXAMPLES) if any(frequent.values()) else {}
    trees = FRAGMENTS in reading.notation.offers
    return {
        "common_words": frequent,
        "characteristic_words": {side: telling.get(side, []) for side in (SOURCE, TARGET)},
        "known_labels": known_labels(transaction)[:_LABELS] if trees else [],
    }


def _write_place(position: PagePosition | None) -> str | None:
    if position is None:
        return None
    tier = _NEAR if position.near else _EXACT
    return f"{round(position.uses * ONE_USE)}.{position.id}.{tier}.{position.probability.hex()}"


def _read_place(text: str | None) -> PagePosition | None:
    """Parse the cursor of the previous page. Returns None if it is invalid."""
    try:
        uses, rule, tier, probability = (text or "").split(".", 3)
        position = PagePosition(float.fromhex(probability), int(uses) / ONE_USE, int(rule), tier == _NEAR)
    except (ValueError, OverflowError):
        return None
    sensible = position.probability == position.probability and abs(position.probability) != float("inf")
    return position if sensible and max(abs(position.uses), abs(position.id)) <= MAX_ID else None
