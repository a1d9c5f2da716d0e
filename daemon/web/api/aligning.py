"""Word alignment: POST /v1/align, and human link corrections of stored pairs."""

from http import HTTPStatus
from typing import Annotated, Literal

from anyio import to_thread
from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import to_json
from starlette.responses import JSONResponse, Response

from hierogram.daemon.text.segments import InWords
from hierogram.daemon.web.protocol.bodies import JSON, PairId, json_body, read_json
from hierogram.daemon.web.protocol.pool import WorkPool
from hierogram.daemon.web.protocol.problems import ProblemError, no_pair
from hierogram.daemon.web.protocol.service import Service
from hierogram.daemon.web.protocol.threads import Threads
from hierogram.samplers.grammar.kinds import PAIRS
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.exceptions import HumanLinksError

MOST_PAIRS = 100
MOST_LETTERS = 10_000
_MOST_BYTES = 1 << 23

_PROBLEMS: dict[int | str, dict[str, object]] = {
    409: {"description": "The aligner has seen no pair yet, or the store has sentences of one language."},
    413: {"description": "The body is too large."},
    415: {"description": "The body is not called JSON."},
    422: {"description": "The body is wrong, or a sentence has more words than the store takes."},
    504: {"description": "It takes too long: send fewer pairs at once."},
}

_Text = Annotated[str, Field(max_length=MOST_LETTERS)]


class PairToAlign(BaseModel):
    """A sentence and its translation."""

    model_config = ConfigDict(extra="forbid", strict=True)

    source: _Text
    target: _Text


class AlignBody(BaseModel):
    """Pairs to align."""

    model_config = ConfigDict(extra="forbid", strict=True)

    pairs: list[PairToAlign] = Field(max_length=MOST_PAIRS)
    tokenized: bool = Field(
        default=False, description="The texts are tokens separated by spaces: leave them as they are."
    )
    symmetrization: Literal["posterior", "intersect", "union", "gd", "gdf", "gdfa"] = Field(
        default="posterior", description="How both directions become one alignment."
    )
    least: float | None = Field(
        default=None,
        gt=0,
        le=1,
        allow_inf_nan=False,
        description="Give `links` of at least this probability, whatever `alignment` is.",
    )


class LinkAnswer(BaseModel):
    """A link and its posterior probability, the mean of both directions."""

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


def align_routes(service: Service, pool: WorkPool) -> APIRouter:
    """Return the router of POST /v1/align."""
    router = APIRouter(prefix="/v1", tags=["aligning"])

    def work(body: AlignBody) -> bytes:
        from hierogram.daemon.learning.alignment.answering import as_plain

        aligner = service.store.aligner
        texts = [(pair.source, pair.target) for pair in body.pairs]
        prepared = aligner.prepared(texts, body.tokenized)
        position, found = aligner.answer(prepared, body.symmetrization)
        advice = None if body.tokenized else aligner.advice(texts)
        return to_json(
            {"position": position, "pairs": [as_plain(pair, body.least) for pair in found], "advice": advice}
        )

    @router.post("/align", response_model=AlignAnswer, responses=_PROBLEMS, openapi_extra=json_body(AlignBody))
    async def align(request: Request) -> Response:
        """Align pairs by what the store's aligner has learned until now; nothing is stored."""
        body = await read_json(request, AlignBody, _MOST_BYTES)
        return Response(await pool.run(lambda: work(body), request), media_type=JSON)

    return router


_MOST_LINKS = 1_000
_MOST_WORDS = 1 << 15
_MOST_LINK_BYTES = 1 << 20
_MISSING: dict[int | str, dict[str, object]] = {404: {"description": "There is no such pair."}}
_LATER: dict[int | str, dict[str, object]] = {
    202: {"description": "It is noted; the pair is aligned again as soon as sampling can see to it."}
}


# JSON does not distinguish 1.0 from the integer 1.
_Position = Annotated[
    int,
    Field(ge=0, lt=_MOST_WORDS),
    BeforeValidator(lambda value: int(value) if isinstance(value, float) and value.is_integer() else value),
]
_Links = Annotated[list[Annotated[list[_Position], Field(min_length=2, max_length=2)]], Field(max_length=_MOST_LINKS)]


class LinksBody(BaseModel):
    """Links of a pair that people fix and forbid, in place of all that they have said before."""

    model_config = ConfigDict(extra="forbid", strict=True)

    fixed: _Links = Field(default=[], description="Links that there are: [source, target] positions from 0.")
    forbidden: _Links = Field(default=[], description="Links that there are not.")
    origin: str = Field(
        default="http", min_length=1, max_length=200, pattern=r"^[^\x00]+$", description="Who or what says so."
    )


class LinksAnswer(BaseModel):
    """A pair's alignment, and what people say of its links; links are of words."""

    pair: int
    alignment: str
    fixed: list[list[int]]
    forbidden: list[list[int]]
    done: bool = Field(description="Whether the alignment follows them already.")


def link_routes(service: Service, threads: Threads) -> APIRouter:
    """Return the router for a pair's links."""
    router = APIRouter(prefix="/v1/pairs/{pair_id}/links", tags=["aligning"])
    store = service.store.store

    def correct(pair_id: int, known: KnownLinks, origin: str) -> bool:
        notation = service.store.notation()
        if notation.takes != PAIRS:
            raise ProblemError(HTTPStatus.CONFLICT, f"{notation.cannot('align')}: it has sentences of one language")
        pair = store.find_pair(pair_id)
        if pair is None:
            raise no_pair(pair_id)
        own = InWords(store.settings().bpe_merges).pair(pair.source, pair.target)
        try:
            done = service.correct(pair_id, own.of_tokens(known), origin)
        except HumanLinksError as error:
            raise ProblemError(HTTPStatus.CONFLICT, str(error)) from error
        except ValueError as error:
            problem = f"pair {pair_id}: {error}: words are counted from 0"
            raise ProblemError(HTTPStatus.CONFLICT, problem) from error
        if done is None:
            raise no_pair(pair_id)
        return done

    @router.get("", responses=_MISSING)
    def links(pair_id: PairId) -> LinksAnswer:
        """The pair's alignment, and what people say of its links."""
        pair = store.find_pair(pair_id)
        if pair is None:
            raise no_pair(pair_id)
        own = InWords(store.settings().bpe_merges).pair(pair.source, pair.target, pair.alignment)
        known = own.known(store.human_links([pair_id]).get(pair_id, KnownLinks()))
        return LinksAnswer(
            pair=pair_id,
            alignment=own.alignment,
            fixed=sorted(map(list, known.fixed)),
            forbidden=sorted(map(list, known.forbidden)),
            done=store.is_corrected(pair_id),
        )

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
        body = await read_json(request, LinksBody, _MOST_LINK_BYTES)
        fixed, forbidden = (frozenset((s, t) for s, t in some) for some in (body.fixed, body.forbidden))
        done = await threads.change(lambda: correct(pair_id, KnownLinks(fixed, forbidden), body.origin))
        answer = await to_thread.run_sync(lambda: links(pair_id))
        return JSONResponse(answer.model_dump(mode="json"), HTTPStatus.OK if done else HTTPStatus.ACCEPTED)

    @router.delete("", status_code=204, responses={**_MISSING, **_LATER})
    async def delete(pair_id: PairId) -> Response:
        """Remove the pair's fixed and forbidden links, and align it again without them."""
        done = await threads.change(lambda: correct(pair_id, KnownLinks(), "http"))
        return Response(status_code=HTTPStatus.NO_CONTENT if done else HTTPStatus.ACCEPTED)

    return router
