"""Links of a pair that people fix or forbid: put, looked at, taken back."""

from http import HTTPStatus
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from hierogram.daemon.web.api.json_bodies import json_body, read_json
from hierogram.daemon.web.protocol.problems import ProblemError
from hierogram.daemon.web.protocol.service import Service
from hierogram.samplers.grammar.kinds import PAIRS, notation_of
from hierogram.samplers.grammar.known_links import KnownLinks, Link
from hierogram.storage.exceptions import HumanLinksError

_LARGEST_ID = (1 << 63) - 1
_MOST_LINKS = 1_000
_MOST_WORDS = 1 << 15
_MOST_BYTES = 1 << 20
_MISSING: dict[int | str, dict[str, object]] = {404: {"description": "There is no such pair."}}
_LATER: dict[int | str, dict[str, object]] = {
    202: {"description": "It is noted; the pair is aligned again as soon as sampling can see to it."}
}

PairId = Annotated[int, Path(ge=1, le=_LARGEST_ID, description="Number of the pair.")]


def _whole(value: object) -> object:
    """To JSON, 1.0 is as good a whole number as 1."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Position = Annotated[int, Field(ge=0, lt=_MOST_WORDS), BeforeValidator(_whole)]
_Links = Annotated[list[Annotated[list[_Position], Field(min_length=2, max_length=2)]], Field(max_length=_MOST_LINKS)]


class LinksBody(BaseModel):
    """What people say of a pair's links, in place of all that they have said before."""

    model_config = ConfigDict(extra="forbid", strict=True)

    fixed: _Links = Field(default=[], description="Links that there are: [source, target] positions from 0.")
    forbidden: _Links = Field(default=[], description="Links that there are not.")
    origin: str = Field(
        default="http", min_length=1, max_length=200, pattern=r"^[^\x00]+$", description="Who or what says so."
    )


class LinksAnswer(BaseModel):
    """A pair's alignment, and what people say of its links."""

    pair: int
    alignment: str
    fixed: list[list[int]]
    forbidden: list[list[int]]
    done: bool = Field(description="Whether the alignment follows them already.")


def link_routes(service: Service) -> APIRouter:
    """The routes of this module."""
    router = APIRouter(prefix="/v1/pairs/{pair_id}/links", tags=["aligning"])

    @router.get("", responses=_MISSING)
    def links(pair_id: PairId) -> LinksAnswer:
        """The pair's alignment, and what people say of its links."""
        return _answer(service, pair_id)

    @router.put(
        "",
        response_model=LinksAnswer,
        responses={
            **_MISSING,
            **_LATER,
            409: {"description": "The pair cannot have such links, or the store has sentences of one language."},
            413: {"description": "The body is too large."},
            415: {"description": "The body is not called JSON."},
            422: {"description": "The body is wrong."},
        },
        openapi_extra=json_body(LinksBody),
    )
    async def put(request: Request, pair_id: PairId) -> Response:
        """Fix and forbid links of the pair: it is aligned again, and keeps to them until they are taken back."""
        body = await read_json(request, LinksBody, _MOST_BYTES)
        known = KnownLinks(_as_links(body.fixed), _as_links(body.forbidden))
        done = await to_thread.run_sync(lambda: _correct(service, pair_id, known, body.origin))
        answer = await to_thread.run_sync(lambda: _answer(service, pair_id))
        return JSONResponse(answer.model_dump(), HTTPStatus.OK if done else HTTPStatus.ACCEPTED)

    @router.delete("", status_code=204, responses={**_MISSING, **_LATER})
    def delete(pair_id: PairId) -> Response:
        """Take back all that people have said of the pair's links: it is aligned again without."""
        done = _correct(service, pair_id, KnownLinks(), "http")
        return Response(status_code=HTTPStatus.NO_CONTENT if done else HTTPStatus.ACCEPTED)

    return router


def _as_links(given: list[list[int]]) -> frozenset[Link]:
    return frozenset((s, t) for s, t in given)


def _correct(service: Service, pair_id: int, known: KnownLinks, origin: str) -> bool:
    notation = notation_of(service.store.settings().grammar)
    if notation.takes != PAIRS:
        raise ProblemError(HTTPStatus.CONFLICT, f"{notation.cannot('align')}: it has sentences of one language")
    try:
        done = service.correct(pair_id, known, origin)
    except HumanLinksError as error:
        raise ProblemError(HTTPStatus.CONFLICT, str(error)) from error
    if done is None:
        raise _missing(pair_id)
    return done


def _answer(service: Service, pair_id: int) -> LinksAnswer:
    pair = service.store.find_pair(pair_id)
    if pair is None:
        raise _missing(pair_id)
    known = service.store.human_links([pair_id]).get(pair_id, KnownLinks())
    return LinksAnswer(
        pair=pair_id,
        alignment=pair.alignment,
        fixed=[[s, t] for s, t in sorted(known.fixed)],
        forbidden=[[s, t] for s, t in sorted(known.forbidden)],
        done=service.store.is_corrected(pair_id),
    )


def _missing(pair_id: int) -> ProblemError:
    return ProblemError(HTTPStatus.NOT_FOUND, f"there is no pair {pair_id}: it was withdrawn, or never stored")
