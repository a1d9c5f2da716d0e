"""The SQL page: runs one SELECT at a time within a time limit. Results are also available as CSV and JSON."""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import closing
from http import HTTPStatus
from threading import BoundedSemaphore
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hierogram.daemon.web.pages.forms import texts
from hierogram.daemon.web.pages.rendering import HEADERS, PageContext, address, plain
from hierogram.daemon.web.protocol.problems import ProblemError, try_later
from hierogram.daemon.web.protocol.sessions import is_cross_site
from hierogram.daemon.web.protocol.threads import Download, Downloads
from hierogram.storage.browsing.cookbook import described_relations, fill_cookbook
from hierogram.storage.browsing.sql_runner import MAX_CELLS, SpooledResult, SqlRunner
from hierogram.storage.exceptions import QueryError, SlowQueryError

_AT_PER_TIME = 2
"""Concurrent queries; the other threads remain free for other pages."""
_RETRY_SECONDS = 2
_SHOWN_ROWS = 500
"""Rows of a result on the page."""
_MAX_ROWS = 100_000
"""Row limit of a CSV or JSON result."""
_MAX_CELLS = 100_000_000
"""Cell limit of a CSV or JSON result, which is streamed in pieces and never in memory as a whole."""
_PIECE = 1 << 16
"""Size in bytes of a streamed piece."""


def sql_routes(page: PageContext, sql_runner: SqlRunner, seconds: float, downloads: Downloads) -> APIRouter:
    """Return the router for the SQL page."""
    router = APIRouter()
    turns = BoundedSemaphore(_AT_PER_TIME)

    def run(request: Request, question: str, rows: int, cells: int = MAX_CELLS) -> SpooledResult:
        if sql_runner.refusal is not None:
            raise ProblemError(HTTPStatus.FORBIDDEN, sql_runner.refusal)
        if is_cross_site(request):
            raise ProblemError(HTTPStatus.FORBIDDEN, "requests from other sites are not allowed: open /ask instead")
        if not turns.acquire(blocking=False):
            raise try_later("other queries are running: try again in a moment", _RETRY_SECONDS)
        try:
            return sql_runner.query(question, seconds, rows, cells)
        except (QueryError, SlowQueryError) as error:
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        finally:
            turns.release()

    def whole(request: Request) -> SpooledResult:
        return run(request, texts(request, "sql").get("sql", ""), _MAX_ROWS, _MAX_CELLS)

    @router.get("/ask")
    def ask_page(request: Request) -> Response:
        """Show a query and its result, or the cookbook without a query."""
        question = texts(request, "sql").get("sql", "")
        shown, trouble, status = None, sql_runner.refusal, HTTPStatus.OK
        if question:
            try:
                with closing(run(request, question, _SHOWN_ROWS)) as answer:
                    shown = {name: getattr(answer, name) for name in ("rows", "columns", "more", "cut")}
            except ProblemError as problem:
                trouble, status = problem.detail, problem.status
                if status != HTTPStatus.UNPROCESSABLE_ENTITY and trouble != sql_runner.refusal:
                    raise
        content = {
            "answer": shown,
            "trouble": trouble,
            "sql": question,
            **_starting_points(page),
            "seconds": seconds,
            "_csv": address("/ask.csv", sql=question),
            "_json": address("/ask.json", sql=question),
        }
        return page.html(request, "ask", content, status)

    @router.get("/ask.json")
    def as_json(request: Request) -> Response:
        """Return columns and rows as JSON, or the cookbook if no query is given."""
        if not request.query_params.get("sql"):
            return JSONResponse(plain(_starting_points(page)), headers=HEADERS)
        answer = whole(request)
        # The result is in a file, so a slow reader uses no memory.
        return Download(downloads, _json(answer), answer.close, "application/json", HEADERS)

    @router.get("/ask.csv")
    def as_csv(request: Request) -> Response:
        """Return the result as CSV (RFC 4180)."""
        answer = whole(request)
        headers = HEADERS | {
            "Content-Disposition": 'attachment; filename="answer.csv"',
            "X-More-Rows": str(answer.more),
            "X-Cut-Values": str(answer.cut),
        }
        return Download(downloads, _csv(answer), answer.close, "text/csv", headers)

    return router


def _json(answer: SpooledResult) -> Iterator[bytes]:
    piece = bytearray(b'{"columns":' + json.dumps(answer.columns, ensure_ascii=False).encode("utf-8", "replace"))
    piece += b',"rows":['
    for number, line in enumerate(answer.lines()):
        if len(piece) > _PIECE:
            yield bytes(piece)
            piece.clear()
        piece += (b"," if number else b"") + line.rstrip(b"\n")
    yield bytes(piece) + b'],"more":%s,"cut":%d}' % (b"true" if answer.more else b"false", answer.cut)


def _csv(answer: SpooledResult) -> Iterator[bytes]:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(answer.columns)
    for line in answer.lines():
        if text.tell() > _PIECE:
            yield text.getvalue().encode("utf-8", "replace")
            text.seek(0)
            text.truncate()
        writer.writerow(json.loads(line))
    yield text.getvalue().encode("utf-8", "replace")


def _starting_points(page: PageContext) -> dict[str, Any]:
    with page.reader.read() as transaction:
        return {"cookbook": fill_cookbook(transaction), "tables": described_relations()}
