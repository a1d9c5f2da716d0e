"""Word alignment: POST /v1/align, and human link corrections of stored pairs."""

from http import HTTPStatus
from typing import Annotated, Literal

from anyio import to_thread
from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, Field
from pydantic_core import to_json
from starlette.responses import JSONResponse, Response

from hierogram.daemon.web.api.grammar import find_word_pair
from hierogram.daemon.web.protocol.bodies import BODY_PROBLEMS, JSON, PairId, StrictBody, json_body, read_json
from hierogram.daemon.web.protocol.context import WebContext
from hierogram.daemon.web.protocol.problems import PAIR_NOT_FOUND, ProblemError, describe, unknown_pair
from hierogram.samplers.grammar.kinds import PAIRS
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.exceptions import HumanLinksError

MAX_PAIRS = 100
MAX_TEXT_LENGTH = 10_000
_MAX_BYTES = 1 << 23

_PROBLEMS = BODY_PROBLEMS | describe({
    409: "The aligner has not seen any pairs yet, or the store is monolingual.",
    422: "The body is invalid, or a sentence exceeds the word limit of the store.",
    504: "The request takes too long. Send fewer pairs.",
})  # fmt: skip

_Text = Annotated[str, Field(max_length=MAX_TEXT_LENGTH)]


class PairToAlign(StrictBody):
    """A sentence and its translation."""

    source: _Text
    target: _Text


class AlignBody(StrictBody):
    """Pairs to align."""

    pairs: list[PairToAlign] = Field(max_length=MAX_PAIRS)
    tokenized: bool = Field(default=False, description="True if the texts are tokenized, with spaces between tokens.")
    symmetrization: Literal["posterior", "intersect", "union", "gd", "gdf", "gdfa"] = Field(
        default="posterior", description="Symmetrization of both directions."
    )
    min_probability: Annotated[float | None, Field(gt=0, le=1, allow_inf_nan=False)] = Field(
        default=None, description="Minimum probability of `links`. By default, `links` are the links of `alignment`."
    )


class LinkAnswer(BaseModel):
    """A link and its posterior probability, the mean of both directions."""

    source: int
    target: int
    probability: float
    forward: float = Field(description="Probability that the target word links to this source word.")
    backward: float = Field(description="Probability that the source word links to this target word.")


class WordLinkAnswer(BaseModel):
    """The most probable link of a word in one direction. The position is null for an unlinked word."""

    position: int | None
    probability: float


class AlignedAnswer(BaseModel):
    """A pair and its links, as positions counted from 0."""

    source: list[str] = Field(description="Source words, to which positions refer.")
    target: list[str]
    alignment: str = Field(description="Symmetrized links, such as `0-0 1-1`.")
    links: list[LinkAnswer] = Field(
        description="Links of `alignment`, or all links with a probability ≥ `min_probability`."
    )
    forward: list[WordLinkAnswer] = Field(description="Source word of each target word.")
    backward: list[WordLinkAnswer] = Field(description="Target word of each source word.")


class AlignAnswer(BaseModel):
    """Alignments, in the order of the pairs."""

    position: int = Field(description="Number of writing transactions of the store when the counts were read.")
    pairs: list[AlignedAnswer]
    advice: str | None = Field(description="Advice if the texts seem to need tokenization, or to be tokenized already.")


def align_routes(context: WebContext) -> APIRouter:
    """Return the router of `POST /v1/align`."""
    router = APIRouter(prefix="/v1", tags=["aligning"])

    def work(body: AlignBody) -> bytes:
        from hierogram.daemon.learning.alignment.text_aligner import as_plain

        aligner = context.service.grammar_store.aligner
        texts = [(pair.source, pair.target) for pair in body.pairs]
        prepared = aligner.prepare(texts, body.tokenized)
        position, aligned_pairs = aligner.align_texts(prepared, body.symmetrization)
        advice = None if body.tokenized else aligner.advice(texts)
        pairs = [as_plain(pair, body.min_probability) for pair in aligned_pairs]
        return to_json({"position": position, "pairs": pairs, "advice": advice})

    @router.post("/align", response_model=AlignAnswer, responses=_PROBLEMS, openapi_extra=json_body(AlignBody))
    async def align(request: Request) -> Response:
        """Align pairs with the current counts of the store's aligner. Nothing is stored."""
        body = await read_json(request, AlignBody, _MAX_BYTES)
        return Response(await context.threads.alignments.run(lambda: work(body), request), media_type=JSON)

    return router


_MAX_LINKS = 1_000
_MAX_WORDS = 1 << 15
_MAX_LINK_BYTES = 1 << 20
_ACCEPTED = PAIR_NOT_FOUND | describe({202: "Accepted. The pair will be re-aligned by the sampling loop."})
_LINK_PROBLEMS = describe({
    409: "The links are out of range or contradictory, or the store is monolingual.", 422: "The body is invalid."
})  # fmt: skip


# Accept 1.0 as the integer 1, because JSON does not distinguish them.
_WHOLE = BeforeValidator(lambda value: int(value) if isinstance(value, float) and value.is_integer() else value)
_Position = Annotated[int, Field(ge=0, lt=_MAX_WORDS), _WHOLE]
_Links = Annotated[list[Annotated[list[_Position], Field(min_length=2, max_length=2)]], Field(max_length=_MAX_LINKS)]


class LinksBody(StrictBody):
    """Corrections of a pair's links, which replace all earlier corrections of the pair."""

    fixed: _Links = Field(
        default=[], description="Links that must be present, as [source, target] positions counted from 0."
    )
    forbidden: _Links = Field(default=[], description="Links that must be absent.")
    origin: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]+$")] = Field(
        default="http", description="Author or origin of the corrections."
    )


class LinksAnswer(BaseModel):
    """A pair's alignment and the corrections of its links, as word positions counted from 0."""

    pair: int
    alignment: str
    link_probabilities: str | None = Field(
        description="Probability of each link, separated by spaces. Null if the aligner did not align the pair."
    )
    fixed: list[list[int]]
    forbidden: list[list[int]]
    applied: bool = Field(description="True if the alignment respects the corrections.")


def link_routes(context: WebContext) -> APIRouter:
    """Return the router of `/v1/pairs/{pair_id}/links`."""
    router = APIRouter(prefix="/v1/pairs/{pair_id}/links", tags=["aligning"])
    service, store = context.service, context.service.store

    def correct(pair_id: int, corrected_links: KnownLinks, origin: str) -> bool:
        grammar_kind = service.grammar_store.grammar_kind()
        if grammar_kind.input_kind != PAIRS:
            raise ProblemError(HTTPStatus.CONFLICT, f"{grammar_kind.cannot('align')}: its sentences are monolingual")
        _, word_pair = find_word_pair(service, pair_id)
        try:
            applied = service.correct(pair_id, word_pair.to_token_links(corrected_links), origin)
        except (HumanLinksError, ValueError) as error:
            is_refused = isinstance(error, HumanLinksError)
            problem = str(error) if is_refused else f"pair {pair_id}: {error}: words are counted from 0"
            raise ProblemError(HTTPStatus.CONFLICT, problem) from error
        if applied is None:
            raise unknown_pair(pair_id)
        return applied

    @router.get("", responses=PAIR_NOT_FOUND)
    def links(pair_id: PairId) -> LinksAnswer:
        """Return a pair's alignment and the corrections of its links."""
        _, word_pair = find_word_pair(service, pair_id)
        corrected_links = word_pair.to_word_links(store.human_links([pair_id]).get(pair_id, KnownLinks()))
        fixed, forbidden = (sorted(map(list, human_links)) for human_links in corrected_links)
        shown = {name: getattr(word_pair, name) for name in ("alignment", "link_probabilities")}
        applied = store.is_corrected(pair_id)
        return LinksAnswer(pair=pair_id, fixed=fixed, forbidden=forbidden, applied=applied, **shown)

    responses = _ACCEPTED | BODY_PROBLEMS | _LINK_PROBLEMS

    @router.put("", response_model=LinksAnswer, responses=responses, openapi_extra=json_body(LinksBody))
    async def put(request: Request, pair_id: PairId) -> Response:
        """Replace the corrections of a pair's links and re-align the pair.

        Corrections apply until the next PUT or DELETE.
        """
        body = await read_json(request, LinksBody, _MAX_LINK_BYTES)
        fixed, forbidden = (frozenset((s, t) for s, t in pair_links) for pair_links in (body.fixed, body.forbidden))
        applied = await context.threads.run_change(lambda: correct(pair_id, KnownLinks(fixed, forbidden), body.origin))
        answer = await to_thread.run_sync(lambda: links(pair_id))
        return JSONResponse(answer.model_dump(mode="json"), HTTPStatus.OK if applied else HTTPStatus.ACCEPTED)

    @router.delete("", status_code=204, responses=_ACCEPTED)
    async def delete(pair_id: PairId) -> Response:
        """Remove the corrections of a pair's links and re-align the pair."""
        applied = await context.threads.run_change(lambda: correct(pair_id, KnownLinks(), "http"))
        return Response(status_code=HTTPStatus.NO_CONTENT if applied else HTTPStatus.ACCEPTED)

    return router
