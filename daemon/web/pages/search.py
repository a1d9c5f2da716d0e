"""The start page: an overview of the store, and a search for rules that contain a word or phrase."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from math import isfinite
from typing import Any, get_args

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.text.pipeline import make_pipeline
from hierogram.daemon.text.word_view import WordView
from hierogram.daemon.web.pages.rendering import PageContext, PageSnapshot, build_url
from hierogram.daemon.web.protocol.bodies import MAX_ID, invalid_value, query_values, whole_number
from hierogram.samplers.grammar.kinds import FRAGMENTS, SOURCE, TARGET, TWO_SIDES
from hierogram.samplers.grammar.numbers import ONE_USE
from hierogram.storage.browsing import progress, search
from hierogram.storage.browsing.search import PagePosition, Phrase, Query
from hierogram.storage.browsing.words import count_word
from hierogram.storage.options import OptionError, OptionField, check
from hierogram.storage.pairs.vocabulary import similar_words

_MAX_RULES = 200
_MAX_UNKNOWN = 3
"""Maximum number of unknown words with suggestions of similar words."""
_MAX_LABELS = 60


def add_search_pages(app: FastAPI, page: PageContext) -> None:
    """Add the pages `/` and `/search`."""

    @app.get("/")
    @app.get("/index.json")
    @app.get("/search")
    @app.get("/search.json")
    def search_page(request: Request) -> Response:
        """Return the rules that match a query. Without a query, return an overview of the store."""
        query, parameters = _parse_query(request)
        phrase = search.read_phrase(parameters.get("q", ""))
        with page.read() as snapshot:
            transaction, grammar_kind = snapshot.transaction, snapshot.grammar_kind
            status = progress.store_status(transaction, page.reader.url)
            phrase = _tokenize(snapshot, phrase)
            content: dict[str, Any] = {
                "typed": parameters.get("q", ""),
                "has_query": bool(phrase.words),
                "query": asdict(query),
                "store": {name: getattr(status, name) for name in ("rules_in_use", "rule_tokens", "pairs")},
                "corpora": [name for (name,) in transaction.rows("SELECT name FROM corpora ORDER BY name", False)],
                "two_sides": TWO_SIDES in grammar_kind.capabilities,
                "_values": {name: field.option.values for name, field in OptionField.of(Query).items()},
            }
            if phrase.words:
                content |= _results(snapshot, phrase, query, parameters)
            else:
                labels = search.known_labels(transaction) if FRAGMENTS in grammar_kind.capabilities else []
                content |= {"rules": [], "known_labels": labels[:_MAX_LABELS]}
        return page.render(request, "search", content, snapshot)


def _parse_query(request: Request) -> tuple[Query, dict[str, str]]:
    """Return the search query, and all nonempty parameters. Raises `ProblemError`."""
    fields = OptionField.of(Query)
    parameters = query_values(request, *fields, "q", "after")
    values: dict[str, Any] = {name: value for name, value in parameters.items() if name in fields}
    for name, value in values.items():
        if int in (fields[name].type, *get_args(fields[name].type)):
            values[name] = whole_number(value)
            if values[name] is None:
                raise invalid_value(name, f"must be a whole number from 0 to {MAX_ID:,}, got {value[:40]!r}")
    query = Query(**values)
    try:
        check(query)
    except OptionError as error:
        raise invalid_value(error.option, error.reason) from error
    return replace(query, limit=min(query.limit, _MAX_RULES)), parameters


def _tokenize(snapshot: PageSnapshot, phrase: Phrase) -> Phrase:
    """Tokenize words that occur on no side, by the tokenizer of the first side on which the tokens occur."""
    transaction, settings, _, word_view = snapshot
    if not settings.tokenize:
        return phrase
    try:
        pipeline = make_pipeline(settings).with_whole_words()
    except UsageError:
        # The tokenizer's package may be missing on a machine that only browses stores.
        return phrase

    def occurs(side: str, words: Sequence[str]) -> bool:
        return search.phrase_occurs(transaction, side, _split_words(Phrase(tuple(words)), word_view, side == TARGET))

    parts: list[str | None] = []
    for word in phrase.parts:
        found: Sequence[str | None] = [word]
        if word is not None and not any(occurs(side, [word]) for side in (SOURCE, TARGET)):
            for side, tokenizer in ((SOURCE, pipeline.source), (TARGET, pipeline.target)):
                if occurs(side, tokens := tokenizer.tokens(word).split(" ")):
                    found = tokens
                    break
        parts += found
    return Phrase(tuple(parts))


def _split_words(phrase: Phrase, word_view: WordView, is_target: bool) -> Phrase:
    groups = ([None] if word is None else word_view.parts(is_target, word).split(" ") for word in phrase.parts)
    return Phrase(tuple(part for parts in groups for part in parts))


def _results(snapshot: PageSnapshot, phrase: Phrase, query: Query, parameters: Mapping[str, str]) -> dict[str, Any]:
    transaction, settings, grammar_kind, word_view = snapshot
    phrases = {side: _split_words(phrase, word_view, side == TARGET) for side in (SOURCE, TARGET)}
    if "side" not in parameters:
        query = replace(query, side=search.guess_side(transaction, phrases))
    side = query.side
    results = search.search(transaction, phrases[side], query, _parse_cursor(parameters.get("after")))
    two_sides = TWO_SIDES in grammar_kind.capabilities
    vocabulary = side if two_sides else grammar_kind.rule_words[0].vocabulary
    other = TARGET if side == SOURCE else SOURCE
    repeated = {name: value for name, value in parameters.items() if name != "after"}
    words_as_typed = {word: word for word in phrase.words}
    after = _format_cursor(results.next)
    missing = results.unknown
    if settings.word_parts:
        # A word is unknown if one of its subwords is unknown.
        parts = {word: _split_words(Phrase((word,)), word_view, side == TARGET).words for word in phrase.words}
        missing = tuple(word for word in phrase.words if not set(results.unknown).isdisjoint(parts[word]))
    readings = [word_view.line(reading.typed()) for reading in results.readings]
    # If the word is unknown, link to its most likely spelling with other accents or case.
    words = [] if missing or results.labels else [*phrase.words[:1]]
    words += [search.read_phrase(reading).words[0] for reading in readings]
    if words and not count_word(transaction, vocabulary, word_view.parts(side == TARGET, words[0])):
        words = words[1:]
    unknown = missing[:_MAX_UNKNOWN]
    if not results.rules and not missing and phrase.is_word and not results.labels:
        unknown = phrase.words
    return {
        "query": asdict(query), "rules": results.rules, "after": after, "readings": readings,
        "unknown_words": list(missing),
        "similar_words": {word: similar_words(transaction.connection, vocabulary, word) for word in unknown},
        "labels": list(results.labels),
        "word": words[0] if phrase.is_word and words else None,
        "_replacement": lambda word, candidate: build_url(
            "/search", **repeated | {"q": phrase.replace_words({**words_as_typed, word: candidate}).typed()}
        ),
        "_reading": lambda variant: build_url("/search", **repeated | {"q": variant}),
        "_exact": results.exact,
        "_on_other_side": two_sides and search.phrase_occurs(transaction, other, phrases[other]),
        "_other": build_url("/search", **repeated | {"side": other}),
        "_next": build_url("/search", **repeated | {"side": side, "after": after}) if after else None,
        "_continued": "after" in parameters, "_first": build_url("/search", **repeated),
    }  # fmt: skip


def _format_cursor(position: PagePosition | None) -> str | None:
    if position is None:
        return None
    return f"{round(position.uses * ONE_USE)}.{position.id}.{position.respelled:d}.{position.probability.hex()}"


def _parse_cursor(text: str | None) -> PagePosition | None:
    """Return the position after which a page begins, or None for an invalid cursor."""
    try:
        uses, rule, spelling, probability = (text or "").split(".", 3)
        position = PagePosition(float.fromhex(probability), int(uses) / ONE_USE, int(rule), spelling == "1")
    except (ValueError, OverflowError):
        return None
    return position if isfinite(position.probability) and max(abs(position.uses), abs(position.id)) <= MAX_ID else None
