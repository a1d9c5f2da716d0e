"""From what a page says to HTML or JSON: templates, addresses, numbers."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from datetime import date, datetime
from hashlib import sha256
from http import HTTPStatus
from importlib.metadata import version
from importlib.resources import files
from math import log2
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from hierogram.daemon.web.pages.rendering.texts import direction, short, visible
from hierogram.daemon.web.protocol.sessions import COOKIE, Sessions

JSON_ENDING = ".json"

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Accept, Cookie",
}
"""Of every page."""

STATIC = (
    "icon.svg", "style.css", "pages.js", "vendor/htmx.min.js", "vendor/uPlot.iife.min.js", "vendor/uPlot.min.css",
)  # fmt: skip


def static_content(name: str) -> bytes:
    """A file that pages load, one of `STATIC`."""
    return files("hierogram.daemon.web.pages").joinpath("static", *name.split("/")).read_bytes()


def address(path: str, **values: object) -> str:
    """An address with a query; values that are None are left out."""
    query = urlencode({name: value for name, value in values.items() if value is not None})
    return f"{path}?{query}" if query else path


def wants_json(request: Request) -> bool:
    """Whether a program asks: by the address, or by what it accepts."""
    return request.url.path.endswith(JSON_ENDING)


def wants_page(request: Request) -> bool:
    """Whether a browser asks."""
    return not wants_json(request) and "text/html" in request.headers.get("accept", "")


def plain(value: Any) -> Any:
    """A value as JSON has it: records become objects, times texts."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    return value


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.0f}"


def _mean(value: float) -> str:
    """Expected uses: whole numbers from 100 on, else two digits or one decimal."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _probability(value: float) -> str:
    return "1" if value == 1 else f"{value:.2f}" if value >= 0.005 else f"{value:.0e}".replace("e-0", "e-")


def _bits(value: float) -> str:
    return f"{-log2(value) + 0.0:.1f}" if value > 0 else "–"


def _moment(value: Any) -> str:
    """A time, UTC, to the minute."""
    return "–" if value is None else str(value)[:16].replace("T", " ")


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("hierogram.daemon.web.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., Any]] = {
        "number": _number, "probability": _probability, "bits": _bits, "mean": _mean, "moment": _moment,
        "visible": visible, "short": short,
    }  # fmt: skip
    made.filters |= filters
    digests = {name: sha256(static_content(name)).hexdigest()[:12] for name in STATIC}
    made.globals |= {
        "address": address,
        "direction": direction,
        "static": lambda name: f"/static/{name}?v={digests[name]}",
        "version": version("hierogram"),
    }
    return made


@dataclass(frozen=True, slots=True)
class Nature:
    """What pages say of the site itself: the store, whether pairs may be taken out, whether a browser has to enter."""

    store: str
    writes: bool
    asks: bool
    live: bool


class View:
    """Renders what pages say."""

    def __init__(self, nature: Nature, sessions: Sessions) -> None:
        self.nature = nature
        self.sessions = sessions
        self._templates = _environment()

    def answer(
        self, request: Request, name: str, content: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK
    ) -> Response:
        """The page of a name, or the same as JSON. What begins with an underscore is for the page alone."""
        if wants_json(request):
            told = {key: plain(value) for key, value in content.items() if not key.startswith("_")}
            return JSONResponse(told, status, HEADERS)
        return self.page(request, name, content, status)

    def page(
        self, request: Request, name: str, content: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK
    ) -> HTMLResponse:
        """The page of a name."""
        path = request.url.path
        twin = address(f"{path.rstrip('/') or '/index'}{JSON_ENDING}", **dict(request.query_params))
        html = self._templates.get_template(f"{name}.html").render(
            content, here=name, nature=self.nature, twin=twin, entered=self.entered(request)
        )
        # A lone half of a letter cannot be sent; no stored text has one, but a query may.
        return HTMLResponse(html.encode("utf-8", "replace"), status, HEADERS)

    def entered(self, request: Request) -> bool:
        """Whether the browser has shown the token, and may leave."""
        return self.sessions.needed and self.sessions.good(request.cookies.get(COOKIE))
