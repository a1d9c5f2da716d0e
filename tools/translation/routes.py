"""POST /v1/translate: translate sentences with the store's current grammar."""

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field, model_validator
from starlette.responses import JSONResponse, Response

from hierogram.daemon.web.protocol.bodies import BODY_PROBLEMS, StrictBody, json_body, read_json
from hierogram.daemon.web.protocol.problems import Responses
from hierogram.daemon.web.protocol.threads import WorkPool
from hierogram.samplers.grammar.rules import RuleUse
from hierogram.tools.translation.plain_text import check_translation_size
from hierogram.tools.translation.web import WebTranslator

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
        max_length=MAX_SENTENCES, description="Sentences, or texts of several sentences. Line breaks are kept."
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
        description="The best translation, or a user's correction. A text without words is returned unchanged, or as "
        "an empty string with the format `tokens`."
    )
    corrected: bool = Field(
        description="True if the translation is a stored correction. The candidates do not depend on it."
    )
    tokens: str = Field(description="The sentence as tokens separated by spaces.")
    parts: int = Field(description="Number of parts that were translated: sentences, or parts of long sentences.")
    candidates: list[CandidateAnswer] = Field(description="Translations, best first.")


class TranslateAnswer(BaseModel):
    """Translations, in the order of the sentences."""

    position: int = Field(description="Store position of the grammar that was used.")
    sentences: list[SentenceAnswer]
    advice: str | None = Field(description="Advice if the sentences seem to need tokenization.")


def translate_routes(shared: WebTranslator, pool: WorkPool) -> APIRouter:
    """Return the route of `POST /v1/translate`."""
    router = APIRouter(prefix="/v1", tags=["translating"])

    def work(body: TranslateBody, best: int) -> object:
        from hierogram.daemon.text.pipeline import IN_REQUESTS, UNCHANGED_TEXT, text_advice
        from hierogram.tools.translation.text_translator import TOKENS, as_plain

        translator, position = shared.newest()
        format = TOKENS if body.tokenized else body.format or translator.default_format
        pipeline = UNCHANGED_TEXT if body.tokenized else translator.input_pipeline(format)
        translate = partial(translator.translate, format=format, alternatives=best - 1, markup=body.markup)
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
        return JSONResponse(await pool.run(lambda: work(body, best), request))

    return router
