"""POST /v1/translate: sentences in, translations by the grammar as the store has it now."""

import threading
from typing import TYPE_CHECKING, Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from hierogram.daemon.decoding.options import TranslateOptions
from hierogram.daemon.exceptions import InputError, WrongKindError
from hierogram.daemon.web.protocol.bodies import json_body, read_json
from hierogram.daemon.web.protocol.problems import try_later
from hierogram.daemon.web.protocol.service import Service
from hierogram.samplers.grammar.rules import RuleUse

if TYPE_CHECKING:
    from hierogram.daemon.decoding.opening import Follower

MOST_SENTENCES = 100
MOST_LETTERS = 10_000
MOST_BEST = 100
_MOST_BYTES = 1 << 22
_AT_ONCE = 2
_RETRY_SECONDS = 10

_PROBLEMS: dict[int | str, dict[str, object]] = {
    409: {"description": "Nothing is learned yet, or the store's rules have one side."},
    413: {"description": "The body is too large."},
    415: {"description": "The body is not called JSON."},
    422: {"description": "The body or a parameter is wrong."},
}


class TranslateBody(BaseModel):
    """Sentences to translate."""

    model_config = ConfigDict(extra="forbid", strict=True)

    sentences: list[Annotated[str, Field(max_length=MOST_LETTERS)]] = Field(
        max_length=MOST_SENTENCES, description="Sentences; divided into tokens where the store divides text."
    )
    tokenized: bool = Field(
        default=False, description="The sentences are tokens separated by spaces: leave them as they are."
    )
    markup: bool = Field(default=False, description='Whether they hold `<np translation="…">words</np>`.')


class CandidateAnswer(BaseModel):
    """One translation of a sentence."""

    translation: str
    score: float
    features: dict[str, float] = Field(description="Those that are not 0; the score is the sum of weight times value.")
    alignment: list[tuple[int, int]] = Field(description="Linked positions of source and target words.")
    derivation: list[RuleUse] = Field(description="Rules, top-down in source order.")


class SentenceAnswer(BaseModel):
    """A sentence and its translations."""

    source: str
    translation: str = Field(description="The best one; empty where the sentence has no words.")
    parts: int = Field(description="In how many parts it was translated: several where it is too long for one.")
    candidates: list[CandidateAnswer] = Field(description="Translations, best first.")


class TranslateAnswer(BaseModel):
    """Translations, in the order of the sentences."""

    position: int = Field(description="Store position of the grammar that was used.")
    sentences: list[SentenceAnswer]
    advice: str | None = Field(description="What to do where sentences look as if they should be divided into tokens.")


def translate_routes(service: Service, options: TranslateOptions) -> APIRouter:
    """Return the routes of this module."""
    router = APIRouter(prefix="/v1", tags=["translating"])
    threads = CapacityLimiter(_AT_ONCE)
    lock = threading.Lock()
    followers: list[Follower] = []

    def work(body: TranslateBody, best: int) -> object:
        from hierogram.daemon.corpora.texts import AS_IT_IS, IN_REQUESTS, text_advice
        from hierogram.daemon.decoding.opening import Follower, equip
        from hierogram.daemon.decoding.translating import as_plain

        try:
            # All that is needed is read at the first request.
            with lock:
                if not followers:
                    followers.append(Follower(service.store, equip(options)))
            translator, position = followers[0].now()
        except WrongKindError:
            raise
        except InputError as error:
            raise try_later(f"[translating] of the configuration: {error}", _RETRY_SECONDS) from error
        texts = AS_IT_IS if body.tokenized else translator.texts
        found = [translator.translate(line, best, markup=body.markup, texts=texts) for line in body.sentences]
        side = None if body.tokenized else texts.source
        return {
            "position": position,
            "sentences": [as_plain(translation) for translation in found],
            "advice": side and text_advice(side, "sentences", body.sentences, *IN_REQUESTS),
        }

    @router.post(
        "/translate", response_model=TranslateAnswer, responses=_PROBLEMS, openapi_extra=json_body(TranslateBody)
    )
    async def translate(
        request: Request,
        best: Annotated[int, Query(ge=1, le=MOST_BEST, description="Translations of each sentence.")] = 1,
    ) -> Response:
        """Translate sentences with the grammar as it is now; what the daemon learns changes it, within seconds."""
        body = await read_json(request, TranslateBody, _MOST_BYTES)
        return JSONResponse(await to_thread.run_sync(lambda: work(body, best), limiter=threads))

    return router
