"""POST /v1/align: pairs in, links with their probabilities by what the store's aligner has learned."""

import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Literal

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from hierogram.daemon.exceptions import AlignerUntrainedError, InputError, WrongKindError
from hierogram.daemon.web.api.json_bodies import json_body, read_json
from hierogram.daemon.web.protocol.problems import ProblemError
from hierogram.daemon.web.protocol.service import Service

if TYPE_CHECKING:
    from hierogram.daemon.alignment.answering import AnsweringAligner

MOST_PAIRS = 100
MOST_LETTERS = 10_000
_MOST_BYTES = 1 << 23
_AT_ONCE = 2

_PROBLEMS: dict[int | str, dict[str, object]] = {
    409: {"description": "The aligner has seen no pair yet, or the store has sentences of one language."},
    413: {"description": "The body is too large."},
    415: {"description": "The body is not called JSON."},
    422: {"description": "The body is wrong, or a sentence has more words than the store takes."},
}

_Text = Annotated[str, Field(max_length=MOST_LETTERS)]


class PairToAlign(BaseModel):
    """A sentence and its translation."""

    model_config = ConfigDict(extra="forbid", strict=True)

    source: _Text
    target: _Text


class AlignBody(BaseModel):
    """What is to be aligned."""

    model_config = ConfigDict(extra="forbid", strict=True)

    pairs: list[PairToAlign] = Field(max_length=MOST_PAIRS)
    tokenized: bool = Field(
        default=False, description="The texts are tokens separated by spaces: leave them as they are."
    )
    symmetrization: Literal["intersect", "union", "gd", "gdf", "gdfa"] = Field(
        default="gdfa", description="How both directions become one alignment."
    )
    least: float | None = Field(
        default=None,
        gt=0,
        le=1,
        allow_inf_nan=False,
        description="Give `links` of at least this probability, whatever `alignment` is.",
    )


class LinkAnswer(BaseModel):
    """A link and its posterior probability; the mean of both directions is calibrated."""

    source: int
    target: int
    probability: float
    forward: float = Field(description="That the source word is the link of the target word.")
    backward: float = Field(description="That the target word is the link of the source word.")


class WordLinkAnswer(BaseModel):
    """The likeliest link of a word in one direction; no position where none is likelier."""

    position: int | None
    probability: float


class AlignedAnswer(BaseModel):
    """A pair and its links, by positions from 0."""

    source: list[str] = Field(description="The words that positions count.")
    target: list[str]
    alignment: str = Field(description="Both directions made one, as `0-0 1-1`.")
    links: list[LinkAnswer] = Field(description="Those of `alignment`, or all that are likely enough.")
    forward: list[WordLinkAnswer] = Field(description="Of each target word its source word.")
    backward: list[WordLinkAnswer] = Field(description="Of each source word its target word.")


class AlignAnswer(BaseModel):
    """Alignments, in the order of the pairs."""

    position: int = Field(description="Store position whose counts were used.")
    pairs: list[AlignedAnswer]
    advice: str | None = Field(description="What to do where texts look as if they should be divided into tokens.")


def align_routes(service: Service) -> APIRouter:
    """The routes of this module."""
    router = APIRouter(prefix="/v1", tags=["aligning"])
    threads = CapacityLimiter(_AT_ONCE)
    work = _aligning(service)

    @router.post("/align", response_model=AlignAnswer, responses=_PROBLEMS, openapi_extra=json_body(AlignBody))
    async def align(request: Request) -> Response:
        """Align pairs by what the store's aligner has learned until now; nothing is stored."""
        body = await read_json(request, AlignBody, _MOST_BYTES)
        return JSONResponse(await to_thread.run_sync(lambda: work(body), limiter=threads))

    return router


def _aligning(service: Service) -> Callable[[AlignBody], object]:
    """What aligns; it is made at the first request."""
    lock = threading.Lock()
    made: list[AnsweringAligner] = []

    def work(body: AlignBody) -> object:
        from hierogram.daemon.alignment.answering import AnsweringAligner, as_plain

        try:
            with lock:
                if not made:
                    made.append(AnsweringAligner(service.store))
            texts = [(pair.source, pair.target) for pair in body.pairs]
            prepared = texts if body.tokenized else made[0].prepared(texts)
            position, found = made[0].answer(prepared, body.symmetrization)
        except (AlignerUntrainedError, WrongKindError) as error:
            raise ProblemError(HTTPStatus.CONFLICT, str(error)) from error
        except InputError as error:
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        return {
            "position": position,
            "pairs": [as_plain(pair, body.least) for pair in found],
            "advice": None if body.tokenized else made[0].advice(texts),
        }

    return work
