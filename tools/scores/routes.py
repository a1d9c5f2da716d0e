"""Route of a stored pair's score."""

from dataclasses import dataclass, fields
from datetime import datetime
from http import HTTPStatus

from fastapi import APIRouter

from hierogram.daemon.web.protocol.bodies import PairId
from hierogram.daemon.web.protocol.context import Service
from hierogram.daemon.web.protocol.problems import ProblemError, unknown_pair
from hierogram.storage.records.pairs import PairScore


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreAnswer(PairScore):
    """Score of a pair under the grammar of the store at `position`. docs/scores.md explains the fields."""

    pair: int
    position: int
    scored_at: datetime


def score_routes(service: Service) -> APIRouter:
    """Return the route of `GET /v1/pairs/{pair_id}/score`."""
    router = APIRouter(prefix="/v1", tags=["grammar"])
    store = service.store

    @router.get(
        "/pairs/{pair_id}/score",
        responses={
            404: {"description": "Pair not found."}, 409: {"description": "The pair has not been scored yet."}
        },
    )  # fmt: skip
    def score(pair_id: PairId) -> ScoreAnswer:
        """Return the stored score of a pair."""
        rows = store.scores_by_id([pair_id])
        if not rows:
            if store.find_pair(pair_id) is None:
                raise unknown_pair(pair_id)
            raise ProblemError(HTTPStatus.CONFLICT, f"pair {pair_id} has not been scored yet")
        [row] = rows
        values = {field.name: getattr(row.score, field.name) for field in fields(PairScore)}
        return ScoreAnswer(pair=pair_id, position=row.position, scored_at=row.scored_at, **values)

    return router
