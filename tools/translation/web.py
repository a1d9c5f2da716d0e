"""Web translation: `POST /v1/translate`, and a page with links, rules, similar pairs and corrections."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field, model_validator
from starlette.responses import JSONResponse, RedirectResponse, Response

from hierogram.daemon.exceptions import BusyError, DaemonError, DeadlineError, InputError, WrongKindError
from hierogram.daemon.web.pages.rendering import PageContext, build_url, split_symbols
from hierogram.daemon.web.protocol.access import COOKIE
from hierogram.daemon.web.protocol.bodies import (
    BODY_PROBLEMS,
    StrictBody,
    confirmed_form,
    json_body,
    query_values,
    read_json,
)
from hierogram.daemon.web.protocol.context import WebContext
from hierogram.daemon.web.protocol.problems import ProblemError, Responses, try_later
from hierogram.daemon.web.protocol.threads import WorkPool
from hierogram.samplers.grammar.rules import RuleUse
from hierogram.storage.browsing.details import count_uses
from hierogram.storage.browsing.reader import ReadTransaction
from hierogram.tools.translation.options import DecodingOptions
from hierogram.tools.translation.store_translator import StoreTranslator, check_translation_size

if TYPE_CHECKING:
    from hierogram.tools.translation.text_translator import TextTranslation, TextTranslator


class WebTranslator(StoreTranslator):
    """Translator with the grammar of the served store, shared by all request handlers."""

    def __init__(self, context: WebContext) -> None:
        options = context.configuration.section(DecodingOptions).to_translate()
        super().__init__(context.service.grammar_store, options)

    def newest(self) -> "tuple[TextTranslator, int]":
        """Return the newest translator. Raises `ProblemError` if a resource cannot be read."""
        try:
            return super().newest()
        except InputError as error:
            if isinstance(error, WrongKindError):
                raise
            raise try_later(f"[translating] of the configuration: {error}", 10) from error


MAX_SENTENCES = 100
MAX_TEXT_LENGTH = 10_000
MAX_BEST = 100
_MAX_BYTES = 1 << 22

_PROBLEMS: Responses = {
    409: {"description": "Nothing learned yet, or the rules of the store do not have two sides."},
    **BODY_PROBLEMS,
    422: {"description": "The body or a parameter is invalid, or the request is too large."},
    504: {"description": "The request takes too long. Send a smaller request."},
}


class TranslateBody(StrictBody):
    """Sentences to translate."""

    sentences: list[Annotated[str, Field(max_length=MAX_TEXT_LENGTH)]] = Field(
        max_length=MAX_SENTENCES,
        description="Sentences, or texts of several sentences. Line breaks are kept with `text` and "
        "`html`. With `tokens`, each item must be one line.",
    )
    format: Literal["text", "html", "tokens"] | None = Field(
        default=None,
        description="Format of sentences and translations. With `tokens`, translations are tokens. Default: `text` if "
        "the store tokenizes text, else `tokens`.",
    )
    tokenized: bool = Field(
        default=False, description="True if the sentences are already tokenized, with tokens separated by spaces."
    )
    markup: bool = Field(
        default=False, description='True if the sentences contain markup such as `<np translation="…">words</np>`.'
    )

    @model_validator(mode="after")
    def _check_format(self) -> "TranslateBody":
        if self.tokenized and self.format not in (None, "tokens"):
            raise ValueError(f"tokenized cannot be combined with format {self.format}")
        return self


class CandidateAnswer(BaseModel):
    """One translation of a sentence."""

    translation: str
    tokens: str = Field(description="The translation as tokens separated by spaces.")
    score: float
    features: dict[str, float] = Field(description="Nonzero features. The score is their weighted sum.")
    alignment: list[tuple[int, int]] = Field(description="Linked positions of source and target tokens.")
    derivation: list[RuleUse] = Field(description="Rules of the derivation, top-down in source order.")


class SentenceAnswer(BaseModel):
    """A sentence and its translations."""

    source: str
    translation: str = Field(
        description="The best translation, or a user's correction. A text without letters or digits is returned "
        "unchanged, except with the format `tokens`, with which a blank text gives an empty translation."
    )
    corrected: bool = Field(
        description="True if the translation is a stored correction. The candidates do not depend on it."
    )
    tokens: str = Field(description="The sentence as tokens separated by spaces.")
    parts: int = Field(description="Number of parts that were translated: sentences, or groups or parts of sentences.")
    candidates: list[CandidateAnswer] = Field(description="Translations, best first.")


class TranslateAnswer(BaseModel):
    """Translations, in the order of the sentences."""

    position: int = Field(description="Store position of the grammar that was used.")
    sentences: list[SentenceAnswer]
    advice: str | None = Field(
        description="Advice if the sentences seem to need tokenization, or to be tokenized already."
    )


def api_routes(web_translator: WebTranslator, pool: WorkPool) -> APIRouter:
    """Return the route of `POST /v1/translate`, which translates in a thread of `pool`."""
    router = APIRouter(prefix="/v1", tags=["translating"])

    def translate_sentences(body: TranslateBody, best: int) -> object:
        from hierogram.daemon.text.inspection import IN_REQUESTS, text_advice
        from hierogram.daemon.text.pipeline import UNCHANGED_TEXT
        from hierogram.tools.translation.text_translator import TOKENS, as_plain

        translator, position = web_translator.newest()
        format = TOKENS if body.tokenized else body.format or translator.default_format
        pipeline = UNCHANGED_TEXT if body.tokenized else translator.input_pipeline(format)
        translate = partial(translator.translate, format=format, best=best, markup=body.markup)
        sentences = [as_plain(translate(line, pipeline=pipeline)) for line in body.sentences]
        advice = None if body.tokenized else text_advice(pipeline.source, "sentences", body.sentences, *IN_REQUESTS)
        return {"position": position, "sentences": sentences, "advice": advice}

    @router.post(
        "/translate", response_model=TranslateAnswer, responses=_PROBLEMS, openapi_extra=json_body(TranslateBody)
    )
    async def translate(
        request: Request,
        best: Annotated[int, Query(ge=1, le=MAX_BEST, description="Maximum number of translations per sentence.")] = 1,
    ) -> Response:
        """Translate sentences with the current grammar, which follows the daemon's learning within seconds."""
        body = await read_json(request, TranslateBody, _MAX_BYTES)
        check_translation_size(body.sentences, best)
        return JSONResponse(await pool.run(lambda: translate_sentences(body, best), request))

    return router


MAX_PAGE_TEXT_LENGTH = 5_000
_SIMILAR_PAIRS = 5
_MAX_WORDS = 200
"""Maximum number of words of a text in the search for similar pairs."""
_CORRECTION_PATH = "/translate/correct"
_GLUE_SIDE = "[X,1] [X,2]"
"""Source side of the glue rule, which has no words to show."""


def page_routes(page: PageContext, web_translator: WebTranslator) -> APIRouter:
    """Return the routes of the translation page."""
    router, threads = APIRouter(), page.threads

    @router.get("/translate")
    @router.get("/translate.json")
    async def translate_page(request: Request) -> Response:
        """Return the translation form, with the translation of a given text."""
        parameters = query_values(request, "q", "corrected")
        text = parameters.get("q", "")
        content: dict[str, Any] = {
            "text": text,
            "translation": "",
            "paragraphs": [],
            "corrections": [],
            "language_model": None,
            "sql": [],
            "_problem": None,
            "_max_length": MAX_PAGE_TEXT_LENGTH,
            "_corrected": parameters.get("corrected"),
            "_correct": _CORRECTION_PATH,
            "_form_token": page.sessions.form_token(request.cookies.get(COOKIE), _CORRECTION_PATH),
            "_near": build_url("/translate/near", q=text),
        }
        if len(text) > MAX_PAGE_TEXT_LENGTH:
            content["_problem"] = f"the text has {len(text):,} characters, the limit is {MAX_PAGE_TEXT_LENGTH:,}"
        elif text.strip():
            try:
                content |= await threads.translations.run(lambda: translation_content(text), request)
            except (BusyError, DeadlineError):
                raise
            except (DaemonError, ProblemError) as error:
                content["_problem"] = error.detail if isinstance(error, ProblemError) else str(error)
        return await to_thread.run_sync(page.render, request, "translate", content)

    def translation_content(text: str) -> dict[str, Any]:
        translator, _ = web_translator.newest()
        translation = translator.translate(text, format="text")
        with page.reader.read() as transaction:
            settings = transaction.settings()
            return {
                "translation": translation.text,
                "paragraphs": _describe_paragraphs(transaction, translation),
                "corrections": [web_translator.corrections.find(item.text) for item in translation.paragraphs],
                "language_model": web_translator.language_model(),
                "_symbols": lambda side: split_symbols(side, settings),
                "sql": transaction.statements,
            }

    @router.get("/translate/near")
    @router.get("/translate/near.json")
    async def similar_pairs(request: Request) -> Response:
        """Return stored pairs that together cover most of a text."""
        text = query_values(request, "q").get("q", "")
        # Use the threads for translations, because the first use reads the whole grammar and would block other pages.
        content = await threads.translations.run(lambda: similar_content(text), request)
        return await to_thread.run_sync(page.render, request, "translate_near", content)

    def similar_content(text: str) -> dict[str, Any]:
        # Imported here because translating does not need it.
        from hierogram.tools.evidence.options import EvidenceOptions
        from hierogram.tools.evidence.retrieval import find_evidence

        translator, _ = web_translator.newest()
        words = " ".join(translator.pipeline.source.tokens(text[:MAX_PAGE_TEXT_LENGTH]).split()[:_MAX_WORDS])
        options = EvidenceOptions(pairs=_SIMILAR_PAIRS, rules=0, tokenized=True)
        with page.reader.read() as transaction:
            pairs = find_evidence(transaction, words, options).pairs if words else []
            return {
                "text": text,
                "pairs": [
                    {
                        "id": item.id,
                        "source": translator.pipeline.source.detokenize_stored(item.source),
                        "target": translator.pipeline.target.detokenize_stored(item.target),
                    }
                    for item in pairs
                ],
                "sql": transaction.statements,
                "_back": build_url("/translate", q=text),
            }

    @router.post(_CORRECTION_PATH)
    async def correct(request: Request) -> Response:
        """Store a corrected translation as a pair."""
        values = await confirmed_form(request, page.sessions)
        pair = tuple(" ".join(values.get(name, "").split()) for name in ("source", "target"))
        try:
            await threads.run_change(lambda: web_translator.corrections.put(pair[0], pair[1], "page"))
            outcome = "stored"
        except InputError:
            outcome = "refused"
        back = build_url("/translate", q=values.get("q") or pair[0], corrected=outcome)
        return RedirectResponse(back, HTTPStatus.SEE_OTHER)

    return router


def _describe_paragraphs(transaction: ReadTransaction, translation: "TextTranslation") -> list[dict[str, Any]]:
    """Return the paragraphs for the template. Keys of words are `s` or `t` and the index of the word."""
    links = translation.alignment()
    uses = translation.derivation()
    stored = count_uses(transaction, {(use.source, use.target) for use in uses})
    paragraphs = []
    for paragraph in translation.paragraphs:
        (first, last), first_target, spans = paragraph.source_span, paragraph.target_span[0], paragraph.text_spans
        paragraph_links = [(i - first, j - first_target) for i, j in links if first <= i < last]
        partners: dict[str, list[str]] = defaultdict(list)
        for i, j in paragraph_links:
            partners[f"s{i}"].append(f"t{j}")
            partners[f"t{j}"].append(f"s{i}")
        phrases = []
        for use in sorted(uses, key=lambda use: (use.source_span[0], -use.source_span[1])):
            if not first <= use.source_span[0] < last or use.source == _GLUE_SIDE:
                continue
            source = range(use.source_span[0] - first, use.source_span[1] - first)
            target = range(use.target_span[0] - first_target, use.target_span[1] - first_target)
            phrases.append(
                {
                    "text": paragraph.text[spans[source[0]][0] : spans[source[-1]][1]],
                    "translation": _join(paragraph.target_words[target.start : target.stop]),
                    "source": use.source,
                    "target": use.target,
                    "stored": (use.source, use.target) in stored,
                    "keys": " ".join([f"s{n}" for n in source] + [f"t{n}" for n in target]),
                }
            )
        between = zip([0, *(end for _, end in spans)], spans, strict=False)
        source_words = [(paragraph.text[before:start], paragraph.text[start:end]) for before, (start, end) in between]
        paragraphs.append(
            {
                "source": paragraph.text.strip(),
                "target": _join(paragraph.target_words),
                "links": paragraph_links,
                "phrases": phrases,
                "source_words": _describe_words("s", source_words, partners),
                "target_words": _describe_words("t", paragraph.target_words, partners),
            }
        )
    return paragraphs


def _join(words: Sequence[tuple[str, str]]) -> str:
    return "".join(chain.from_iterable(words)).strip()


def _describe_words(
    key_prefix: str, words: Sequence[tuple[str, str]], partners: Mapping[str, Sequence[str]]
) -> list[dict[str, str]]:
    described = []
    for n, (before, word) in enumerate(words):
        key = f"{key_prefix}{n}"
        described.append({"before": before, "text": word, "key": key, "partners": " ".join(partners.get(key, ()))})
    return described
