"""The SQL page: runs a SELECT statement with a time limit. Results are also available as CSV and JSON."""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import closing
from http import HTTPStatus
from threading import BoundedSemaphore

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hierogram.daemon.web.pages.rendering import HEADERS, PageContext, build_url, to_plain
from hierogram.daemon.web.protocol.access import is_cross_site
from hierogram.daemon.web.protocol.bodies import query_values
from hierogram.daemon.web.protocol.problems import ProblemError, try_later
from hierogram.daemon.web.protocol.threads import Download
from hierogram.storage.browsing.sql_runner import MAX_CELLS, SpooledResult, SqlRunner, cookbook
from hierogram.storage.exceptions import QueryError, SlowQueryError
from hierogram.storage.schema.views import relations

_MAX_CONCURRENT = 2
"""Maximum number of concurrent queries. The remaining threads serve other pages."""
_RETRY_SECONDS = 2
_SHOWN_ROWS = 500
_MAX_ROWS, _MAX_CELLS = 100_000, 100_000_000
"""High row and cell limits of a CSV or JSON result, because results are streamed from a file."""
_CHUNK_BYTES = 1 << 16


def add_sql_pages(app: FastAPI, page: PageContext, sql_runner: SqlRunner, seconds: float) -> None:
    """Add the pages `/sql`, `/sql.json` and `/sql.csv`."""
    slots = BoundedSemaphore(_MAX_CONCURRENT)
    suggestions = {"cookbook": cookbook(), "tables": relations()}

    def run(request: Request, query: str, rows: int, cells: int = MAX_CELLS) -> SpooledResult:
        if sql_runner.refusal is not None:
            raise ProblemError(HTTPStatus.FORBIDDEN, sql_runner.refusal)
        if is_cross_site(request):
            raise ProblemError(HTTPStatus.FORBIDDEN, "requests from other sites are not allowed: open /sql instead")
        if not slots.acquire(blocking=False):
            raise try_later(f"too many concurrent queries, the limit is {_MAX_CONCURRENT}", _RETRY_SECONDS)
        try:
            return sql_runner.query(query, seconds, rows, cells)
        except (QueryError, SlowQueryError) as error:
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        finally:
            slots.release()

    @app.get("/sql")
    def sql_page(request: Request) -> Response:
        query = query_values(request, "sql").get("sql", "")
        shown, problem_text, status = None, sql_runner.refusal, HTTPStatus.OK
        if query:
            try:
                with closing(run(request, query, _SHOWN_ROWS)) as result:
                    shown = {name: getattr(result, name) for name in ("rows", "columns", "more", "truncated")}
            except ProblemError as problem:
                problem_text, status = problem.detail, problem.status
                if status != HTTPStatus.UNPROCESSABLE_ENTITY and problem_text != sql_runner.refusal:
                    raise
        content = {"result": shown, "problem": problem_text, "sql": query, **suggestions, "seconds": seconds}
        content |= {f"_{kind}": build_url(f"/sql.{kind}", sql=query) for kind in ("csv", "json")}
        return page.render_html(request, "sql", content, status)

    @app.get("/sql.json")
    def as_json(request: Request) -> Response:
        query = query_values(request, "sql").get("sql", "")
        if not query:
            return JSONResponse(to_plain(suggestions), headers=HEADERS)
        result = run(request, query, _MAX_ROWS, _MAX_CELLS)
        # The result is spooled to a file, so slow clients do not use memory.
        options = {"media_type": "application/json", "headers": HEADERS}
        return Download(page.threads.downloads, _json(result), result.close, **options)

    @app.get("/sql.csv")
    def as_csv(request: Request) -> Response:
        result = run(request, query_values(request, "sql").get("sql", ""), _MAX_ROWS, _MAX_CELLS)
        headers = HEADERS | {"Content-Disposition": 'attachment; filename="result.csv"'}
        headers |= {"X-More-Rows": str(result.more), "X-Truncated-Values": str(result.truncated)}
        return Download(page.threads.downloads, _csv(result), result.close, media_type="text/csv", headers=headers)


def _json(result: SpooledResult) -> Iterator[bytes]:
    chunk = bytearray(b'{"columns":' + json.dumps(result.columns, ensure_ascii=False).encode("utf-8", "replace"))
    chunk += b',"rows":['
    for number, line in enumerate(result.lines()):
        if len(chunk) > _CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
        chunk += (b"," if number else b"") + line.rstrip(b"\n")
    yield bytes(chunk) + b'],"more":%s,"truncated":%d}' % (b"true" if result.more else b"false", result.truncated)


def _csv(result: SpooledResult) -> Iterator[bytes]:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(result.columns)
    for line in result.lines():
        if text.tell() > _CHUNK_BYTES:
            yield text.getvalue().encode("utf-8", "replace")
            text.seek(0)
            text.truncate()
        writer.writerow(json.loads(line))
    yield text.getvalue().encode("utf-8", "replace")
