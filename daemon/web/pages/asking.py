"""The page on which people ask SQL: one SELECT at a time, answered within a time limit, also as CSV and JSON."""

import csv
import io
from http import HTTPStatus
from threading import BoundedSemaphore
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hierogram.daemon.web.pages.forms import from_elsewhere
from hierogram.daemon.web.pages.queries import texts
from hierogram.daemon.web.pages.rendering.view import HEADERS, address, plain
from hierogram.daemon.web.pages.visit import Visit
from hierogram.daemon.web.protocol.problems import ProblemError, try_later
from hierogram.storage.browsing.asking import Answered, ask
from hierogram.storage.browsing.cookbook import cookbook_of, tables_of
from hierogram.storage.exceptions import QuestionError, SlowQueryError

_AT_A_TIME = 2
"""Questions that are answered at a time, so that some threads are left for other pages."""
_RETRY_SECONDS = 2
_MOST_ROWS = 100_000
"""Of an answer as CSV or JSON."""


def asking_routes(visit: Visit, seconds: float, rows: int) -> APIRouter:
    """The routes of this module."""
    router = APIRouter()
    turns = BoundedSemaphore(_AT_A_TIME)

    def answered(request: Request, question: str, limit: int) -> Answered:
        if from_elsewhere(request):
            raise ProblemError(HTTPStatus.FORBIDDEN, "this was asked by a page of another site: open /ask instead")
        if not turns.acquire(blocking=False):
            raise try_later("other questions are being answered: ask again in a moment", _RETRY_SECONDS)
        try:
            return ask(visit.reader, question, seconds, limit)
        finally:
            turns.release()

    def whole(request: Request) -> Answered:
        try:
            return answered(request, texts(request, "sql").get("sql", ""), _MOST_ROWS)
        except QuestionError as error:
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error

    @router.get("/ask")
    def ask_page(request: Request) -> Response:
        """A question and its answer; without one, the cookbook."""
        question = texts(request, "sql").get("sql", "")
        answer, trouble, status = None, None, HTTPStatus.OK
        if question:
            try:
                answer = answered(request, question, rows)
            except (QuestionError, SlowQueryError) as error:
                trouble, status = str(error), HTTPStatus.UNPROCESSABLE_ENTITY
        content: dict[str, Any] = {
            "sql": question,
            "answer": answer,
            "trouble": trouble,
            **_starting_points(visit),
            "seconds": seconds,
            "_csv": address("/ask.csv", sql=question),
            "_json": address("/ask.json", sql=question),
        }
        return visit.view.page(request, "ask", content, status)

    @router.get("/ask.json")
    def as_json(request: Request) -> Response:
        """An answer as JSON: names of columns, and rows; without a question, the cookbook."""
        if not request.query_params.get("sql"):
            return JSONResponse(plain(_starting_points(visit)), headers=HEADERS)
        return JSONResponse(whole(request)._asdict(), headers=HEADERS)

    @router.get("/ask.csv")
    def as_csv(request: Request) -> Response:
        """An answer as CSV (RFC 4180)."""
        found = whole(request)
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(found.columns)
        writer.writerows(found.rows)
        headers = HEADERS | {"Content-Disposition": 'attachment; filename="answer.csv"', "X-More-Rows": str(found.more)}
        return Response(text.getvalue().encode("utf-8", "replace"), media_type="text/csv", headers=headers)

    return router


def _starting_points(visit: Visit) -> dict[str, Any]:
    """Questions about what this store holds, and the tables and columns that can be asked."""
    with visit.reader.look() as look:
        return {"cookbook": cookbook_of(look), "tables": tables_of(look)}
