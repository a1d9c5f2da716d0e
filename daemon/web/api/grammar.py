"""Rules, pairs and derivations to look at, and the withdrawal of a pair."""

import dataclasses
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query
from starlette.responses import JSONResponse, Response

from hierogram.daemon.exceptions import DrawingError
from hierogram.daemon.grammar.options import RuleQuery
from hierogram.daemon.scoring.records import score_of
from hierogram.daemon.web.api.records import (
    DerivationAnswer,
    PairAnswer,
    RuleAnswer,
    RulesAnswer,
    RuleUseAnswer,
    ScoreAnswer,
)
from hierogram.daemon.web.protocol.problems import ProblemError
from hierogram.daemon.web.protocol.service import Service
from hierogram.samplers.grammar.numbers import ONE_USE
from hierogram.storage.options import constraints
from hierogram.storage.records import PairRow, RuleRow

SVG = "image/svg+xml"

_LARGEST_ID = (1 << 63) - 1
_NO_NUL = r"^[^\x00]+$"
_CURSOR = r"^[0-9]{1,18}\t[^\x00\t]*\t[^\x00\t]*$"
"""Uses, source and target of a page's last rule: whatever has this form is a place among the rules."""

PairId = Annotated[int, Path(ge=1, le=_LARGEST_ID, description="Number of the pair.")]
_SIDE = {"max_length": 10_000, "pattern": _NO_NUL}
SourceSide = Annotated[str | None, Query(**_SIDE, **constraints(RuleQuery, "source"))]
TargetSide = Annotated[str | None, Query(**_SIDE, **constraints(RuleQuery, "target"))]
Limit = Annotated[int, Query(le=1_000, **constraints(RuleQuery, "limit"))]
Word = Annotated[str, Query(max_length=1_024, pattern=_NO_NUL)]

_MISSING: dict[int | str, dict[str, object]] = {404: {"description": "There is no such pair."}}


def grammar_routes(service: Service) -> APIRouter:
    """The routes of this module."""
    router = APIRouter(prefix="/v1", tags=["grammar"])

    @router.get("/rules", responses={409: {"description": "Nothing is learned yet."}})
    def rules(
        source: SourceSide = RuleQuery.source,
        target: TargetSide = RuleQuery.target,
        containing: Annotated[list[Word] | None, Query(max_length=10, description="Words on either side.")] = None,
        limit: Limit = RuleQuery.limit,
        cursor: Annotated[
            str | None, Query(max_length=100_000, pattern=_CURSOR, description="`next` of the page before.")
        ] = None,
        drawn: Annotated[bool, Query(description="Uses in the present derivations, not expected ones.")] = False,
    ) -> RulesAnswer:
        """Rules with these sides or words (all rules, where none are given), most often used first."""
        after = None if cursor is None else _read_cursor(cursor, drawn)
        words = containing or ()
        found = service.store.find_rules(source, target, words=words, limit=limit + 1, after=after, drawn=drawn)
        if not found and not service.store.status().rules:
            raise ProblemError(HTTPStatus.CONFLICT, "nothing is learned yet: GET /v1/status says how far sampling is")
        page = found[:limit]
        return RulesAnswer(
            rules=[_rule(row) for row in page], next=_cursor(page[-1], drawn) if len(found) > limit else None
        )  # fmt: skip

    @router.get("/pairs/{pair_id}", responses=_MISSING)
    def pair(pair_id: PairId) -> PairAnswer:
        """A stored pair."""
        found = service.store.find_pair(pair_id)
        if found is None:
            raise _missing(pair_id)
        return PairAnswer(**found._asdict())

    @router.get(
        "/pairs/{pair_id}/derivation",
        response_model=DerivationAnswer,
        responses={**_MISSING, 200: {"content": {SVG: {}}}, 409: {"description": "It has no derivation yet."}},
    )
    def derivation(pair_id: PairId, accept: Annotated[str, Header()] = "") -> Response:
        """The pair's present derivation: JSON, or a picture of both trees where the client asks for image/svg+xml."""
        wants_picture = SVG in accept and "application/json" not in accept
        return _picture(service, pair_id) if wants_picture else _as_json(service, pair_id)

    @router.get(
        "/pairs/{pair_id}/derivation.svg",
        response_class=Response,
        responses={**_MISSING, 200: {"content": {SVG: {}}}, 409: {"description": "It has no derivation yet."}},
    )
    def picture(pair_id: PairId) -> Response:
        """The pair's present derivation as a picture: the source tree above the target tree, numbers in common."""
        return _picture(service, pair_id)

    @router.get("/pairs/{pair_id}/score", responses={**_MISSING, 409: {"description": "It is not scored yet."}})
    def score(pair_id: PairId) -> ScoreAnswer:
        """How probable the pair is under what the store has learned, as the store keeps it."""
        found = service.store.scores_by_id([pair_id])
        if not found:
            if service.store.find_pair(pair_id) is None:
                raise _missing(pair_id)
            raise ProblemError(HTTPStatus.CONFLICT, f"pair {pair_id} is not scored yet")
        [row] = found
        told = dataclasses.asdict(score_of(row))
        return ScoreAnswer(pair=pair_id, position=row.position, scored_at=row.scored_at, **told)

    @router.delete(
        "/pairs/{pair_id}",
        status_code=204,
        responses={**_MISSING, 202: {"description": "It leaves as soon as sampling can see to it."}},
    )
    def withdraw(pair_id: PairId) -> Response:
        """Take a pair out, and all that it counts in the grammar."""
        if pair_id not in service.withdraw([pair_id]):
            raise _missing(pair_id)
        left = service.store.find_pair(pair_id) is None
        return Response(status_code=HTTPStatus.NO_CONTENT if left else HTTPStatus.ACCEPTED)

    return router


def _missing(pair_id: int) -> ProblemError:
    return ProblemError(HTTPStatus.NOT_FOUND, f"there is no pair {pair_id}")


def _rule(row: RuleRow) -> RuleAnswer:
    return RuleAnswer(**{name: getattr(row, name) for name in RuleAnswer.model_fields})


def _cursor(row: RuleRow, drawn: bool) -> str:
    uses = row.count if drawn else round(row.expected_uses * ONE_USE)
    return f"{uses}\t{row.source}\t{row.target}"


def _read_cursor(cursor: str, drawn: bool) -> tuple[float, str, str]:
    uses, source, target = cursor.split("\t")
    return int(uses) / (1 if drawn else ONE_USE), source, target


def _row(service: Service, pair_id: int) -> PairRow:
    rows = service.store.pairs_by_id([pair_id])
    if not rows:
        raise _missing(pair_id)
    if rows[0].current is None:
        raise ProblemError(HTTPStatus.CONFLICT, f"pair {pair_id} has no derivation yet: it waits to be sampled")
    return rows[0]


def _picture(service: Service, pair_id: int) -> Response:
    from hierogram.daemon.grammar.derivations import derivation_of
    from hierogram.daemon.grammar.drawing import draw

    row = _row(service, pair_id)
    try:
        drawn = draw(derivation_of(row, service.store.settings()))
    except DrawingError as error:
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"pair {pair_id}: {error}") from error
    return Response(drawn, media_type=SVG, headers={"Vary": "Accept"})


def _as_json(service: Service, pair_id: int) -> Response:
    from hierogram.daemon.grammar.derivations import derivation_of

    row = _row(service, pair_id)
    uses = [
        RuleUseAnswer(
            source=use.source,
            target=use.target,
            source_span=use.source_span,
            target_span=use.target_span,
            children=list(use.children),
        )
        for use in derivation_of(row, service.store.settings())
    ]
    answer = DerivationAnswer(pair=row.id, state=row.state, sweep=row.sweep, rules=uses)
    return JSONResponse(answer.model_dump(), headers={"Vary": "Accept"})
