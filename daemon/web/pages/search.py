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
from hierogram.daemon.web.pages.forms import query_options
from hierogram.daemon.web.pages.rendering import PageContext, PageSnapshot, build_url
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
from hierogram.storage.records.parts import is_part

_EXAMPLES = 12
_MAX_RULES = 200
_MAX_SIMILAR, _MAX_UNKNOWN = 8, 3
"""Similar words to suggest for each unknown word, and number of unknown words with suggestions."""
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
        """Return rules that match a query, or without a query an overview of the store."""
        query, parameters = query_options(request, Query, "q", "after")
        query = replace(query, limit=min(query.limit, _MAX_RULES))
        phrase = read_phrase(parameters.get("q", ""))
        with page.read() as snapshot:
            transaction, _, notation, view = snapshot
            status = progress.store_status(transaction, page.reader.url)
            phrase = _tokenize(snapshot, phrase)
            content: dict[str, Any] = {
                "typed": parameters.get("q", ""),
                "has_query": bool(phrase.words),
                "query": asdict(query),
                "store": {name: getattr(status, name) for name in ("rules_in_use", "rule_tokens", "pairs")},
                "corpora": progress.corpus_names(transaction),
                "two_sides": TWO_SIDES in notation.offers,
                "_values": {name: field.option.values for name, field in OptionField.of(Query).items()},
                "_orders": ORDERS,
                "_matches": MATCHES,
                "_as_typed": lambda word: Phrase((word,)).typed(),
            }
            if phrase.words:
                phrases = {side: _split_words(phrase, view, k) for k, side in enumerate((SOURCE, TARGET))}
                if "side" not in request.query_params:
                    query = replace(query, side=guess_side(transaction, phrases))
                results = search(transaction, phrases[query.side], query, _parse_cursor(parameters.get("after")))
                content |= _results(snapshot, request, results, phrase, phrases, query) | {"query": asdict(query)}
            else:
                content |= _overview(snapshot) | {"rules": []}
        return page.render(request, "search", content, snapshot)

    return router


def _tokenize(snapshot: PageSnapshot, phrase: Phrase) -> Phrase:
    transaction, settings, _, view = snapshot
    if not settings.tokenize:
        return phrase
    try:
        texts = make_pipeline(settings).to_words()
    except UsageError:
        # The tokenizer's package may be missing on a machine that only browses stores.
        return phrase

    def known(side: str, words: Sequence[str]) -> bool:
        return phrase_occurs(transaction, side, _split_words(Phrase(tuple(words)), view, side == TARGET))

    def find_tokens(word: str) -> Sequence[str]:
        if not any(known(side, [word]) for side in (SOURCE, TARGET)):
            for side, rules in ((SOURCE, texts.source), (TARGET, texts.target)):
                if known(side, tokens := rules.tokens(word).split(" ")):
                    return tokens
        return [word]

    return Phrase(tuple(part for word in phrase.parts for part in ([None] if word is None else find_tokens(word))))


def _split_words(phrase: Phrase, view: WordView, side: int) -> Phrase:
    groups = ([None] if word is None else view.parts(side, word).split(" ") for word in phrase.parts)
    return Phrase(tuple(part for parts in groups for part in parts))


def _results(
    snapshot: PageSnapshot,
    request: Request,
    results: RulePage,
    phrase: Phrase,
    phrases: Mapping[str, Phrase],
    query: Query,
) -> dict[str, Any]:
    side = query.side
    transaction, settings, notation, view = snapshot
    vocabulary = side if TWO_SIDES in notation.offers else notation.rule_words[0].vocabulary
    other = TARGET if side == SOURCE else SOURCE
    parameters = {name: value for name, value in request.query_params.items() if name != "after"}
    after = _format_cursor(results.next)
    missing = results.unknown
    if settings.word_parts:
        # A word is unknown if one of its subwords is unknown.
        parts = {word: _split_words(Phrase((word,)), view, side == TARGET).words for word in phrase.words}
        missing = tuple(word for word in phrase.words if not set(results.unknown).isdisjoint(parts[word]))
    readings = [view.line(variant.typed()) for variant in results.readings]
    # Link to the page of the word, or else of the most likely similar word.
    words = [*([] if missing or results.labels else phrase.words[:1]), *(read_phrase(r).words[0] for r in readings)]
    if words and not count_word(transaction, vocabulary, view.parts(side == TARGET, words[0])):
        words = words[1:]
    unknown = missing[:_MAX_UNKNOWN]
    if not results.rules and not missing and phrase.is_word and not results.labels:
        unknown = phrase.words
    similar = {word: similar_words(transaction.connection, vocabulary, word, _MAX_SIMILAR) for word in unknown}
    return {
        "rules": results.rules,
        "after": after,
        "readings": readings,
        "unknown_words": list(missing),
        "similar_words": {
            word: [candidate.token for candidate in candidates if not is_part(candidate.token)]
            for word, candidates in similar.items()
        },
        "labels": list(results.labels),
        "word": words[0] if phrase.is_word and words else None,
        "_replacement": lambda word, candidate: build_url(
            "/search", **parameters | {"q": phrase.with_word(word, candidate).typed()}
        ),
        "_reading": lambda variant: build_url("/search", **parameters | {"q": variant}),
        "_exact": results.exact,
        "_on_other_side": TWO_SIDES in notation.offers and phrase_occurs(transaction, other, phrases[other]),
        "_other": build_url("/search", **parameters | {"side": other}),
        "_next": build_url("/search", **parameters | {"side": side, "after": after}) if after else None,
        "_continued": "after" in request.query_params,
        "_first": build_url("/search", **parameters),
    }


def _overview(snapshot: PageSnapshot) -> dict[str, Any]:
    transaction = snapshot.transaction
    frequent = {side: words.common_words(transaction, side, _EXAMPLES) for side in (SOURCE, TARGET)}
    characteristic = words.characteristic_words(transaction, _EXAMPLES) if any(frequent.values()) else {}
    trees = FRAGMENTS in snapshot.notation.offers
    return {
        "common_words": frequent,
        "characteristic_words": {side: characteristic.get(side, []) for side in (SOURCE, TARGET)},
        "known_labels": known_labels(transaction)[:_LABELS] if trees else [],
    }


def _format_cursor(position: PagePosition | None) -> str | None:
    if position is None:
        return None
    tier = _NEAR if position.near else _EXACT
    return f"{round(position.uses * ONE_USE)}.{position.id}.{tier}.{position.probability.hex()}"


def _parse_cursor(text: str | None) -> PagePosition | None:
    """Parse the cursor of the previous page. Returns None if it is invalid."""
    try:
        uses, rule, tier, probability = (text or "").split(".", 3)
        position = PagePosition(float.fromhex(probability), int(uses) / ONE_USE, int(rule), tier == _NEAR)
    except (ValueError, OverflowError):
        return None
    is_finite = position.probability == position.probability and abs(position.probability) != float("inf")
    return position if is_finite and max(abs(position.uses), abs(position.id)) <= MAX_ID else None
