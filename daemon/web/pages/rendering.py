"""Rendering of pages as HTML or JSON: templates, formats of numbers, words with links, URLs."""

import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import date, datetime
from functools import cache
from hashlib import sha256
from http import HTTPStatus
from importlib.metadata import version
from importlib.resources import files
from math import log2
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlencode

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from hierogram.daemon.exports.schedule import format_time
from hierogram.daemon.extensions import extensions
from hierogram.daemon.text.word_view import CONTINUATION, WordView
from hierogram.daemon.web.protocol.access import COOKIE, Sessions
from hierogram.daemon.web.protocol.context import Service
from hierogram.daemon.web.protocol.threads import ThreadPools
from hierogram.samplers.grammar.kinds import FRAGMENTS, SOURCE, TARGET, GrammarKind, find_grammar_kind
from hierogram.samplers.grammar.rules import parse_side
from hierogram.storage.browsing.reader import Reader, ReadTransaction
from hierogram.storage.browsing.sql_runner import SqlRunner
from hierogram.storage.records.pairs import parse_links
from hierogram.storage.records.settings import Settings

JSON_SUFFIX = ".json"

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Accept, Cookie",
}

STATIC = (
    "icon.svg", "style.css", "pages.js", "vendor/htmx.min.js", "vendor/uPlot.iife.min.js", "vendor/uPlot.min.css",
)  # fmt: skip


@cache
def static_content(name: str) -> bytes:
    """Return the content of a static file, one of `STATIC`."""
    return files("hierogram.daemon.web.pages").joinpath("static", *name.split("/")).read_bytes()


def build_url(path: str, **values: object) -> str:
    """Return a URL with the percent-encoded `values` as its query. Values of None are omitted."""
    query = urlencode({name: value for name, value in values.items() if value is not None})
    return f"{path}?{query}" if query else path


def to_plain(value: Any) -> Any:
    """Convert a value to JSON types: dataclasses and NamedTuples to objects, times to ISO 8601 strings."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return to_plain(value._asdict())
    if is_dataclass(value) and not isinstance(value, type):
        return to_plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    return value


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.0f}"


def _decimal(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _probability(value: float) -> str:
    if value in (0, 1):
        return f"{value:.0f}"
    return f"{value:.2f}" if value >= 0.005 else f"{value:.0e}".replace("e-0", "e-")


def _bits(value: float) -> str:
    return f"{-log2(value) + 0.0:.1f}" if value > 0 else "–"


def format_minute(value: Any) -> str:
    """Format a UTC time to the minute. SQLite returns times as text."""
    return "–" if value is None else str(value)[:16].replace("T", " ")


def _environment() -> Environment:
    packages = ["hierogram.daemon.web.pages", *filter(None, (extension.templates for extension in extensions()))]
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": _number, "probability": _probability, "bits": _bits, "decimal": _decimal, "moment": format_minute,
        "zoned": format_time, "visible": visible, "short": truncate,
    }  # fmt: skip
    digests = {name: sha256(static_content(name)).hexdigest()[:12] for name in STATIC}
    environment.globals |= {"build_url": build_url, "direction": direction, "version": version("hierogram")}
    environment.globals["static"] = lambda name: f"/static/{name}?v={digests[name]}"
    return environment


class PageSnapshot(NamedTuple):
    """Consistent state of the store for one page, valid within `PageContext.read`."""

    transaction: ReadTransaction
    settings: Settings
    grammar_kind: GrammarKind
    word_view: WordView


@dataclass(eq=False)
class PageContext:
    """Renderer of the pages of a site, with the objects that the pages share.

    Without a daemon (`service`), pages are read-only. Without a `sql_runner`, the site has no SQL page.
    """

    reader: Reader
    sessions: Sessions
    threads: ThreadPools
    sql_runner: SqlRunner | None
    service: "Service | None" = None
    navigation: list[tuple[str, str, str]] = field(default_factory=list)
    """Name, path and title of each page that extensions add."""
    _templates: Environment = field(default_factory=_environment, init=False)

    @contextmanager
    def read(self) -> Iterator[PageSnapshot]:
        """Yield a consistent state of the store."""
        with self.reader.read() as transaction:
            settings = transaction.settings()
            grammar_kind = find_grammar_kind(settings.grammar)
            yield PageSnapshot(transaction, settings, grammar_kind, WordView(settings.word_parts))

    def render(
        self, request: Request, name: str, content: Mapping[str, Any], snapshot: PageSnapshot | None = None
    ) -> Response:
        """Render a page as HTML. If the path ends in `.json`, return JSON without keys that begin with `_`.

        A `snapshot` adds its SQL statements. Templates also get the noun for inputs (`pair` or `tree`), and a function
        that splits rule sides into symbols.
        """
        if snapshot is not None:
            kind = snapshot.grammar_kind
            content = {**content, "sql": snapshot.transaction.statements, "_unit": kind.singular, "_units": kind.plural}
            content["_symbols"] = lambda side: split_symbols(side, snapshot.settings)
        if request.url.path.endswith(JSON_SUFFIX):
            values = {key: to_plain(value) for key, value in content.items() if not key.startswith("_")}
            return JSONResponse(values, headers=HEADERS)
        return self.render_html(request, name, content)

    def render_html(
        self, request: Request, name: str, content: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK
    ) -> HTMLResponse:
        """Return the page of the template `name` with security headers."""
        path = request.url.path
        json_url = build_url(f"{path.rstrip('/') or '/index'}{JSON_SUFFIX}", **dict(request.query_params))
        signed_in = self.sessions.required and self.sessions.is_valid(request.cookies.get(COOKIE))
        template = self._templates.get_template(f"{name}.html")
        html = template.render(content, page_name=name, page=self, json_url=json_url, signed_in=signed_in)
        # Replace lone surrogates, which UTF-8 cannot encode.
        return HTMLResponse(html.encode("utf-8", "replace"), status, HEADERS)


_INVISIBLE = ("Cc", "Cs", "Cn")
"""Unicode categories of control characters, surrogates and unassigned code points."""
_NUMBER_OF_COLORS = 6


def color_number(number: int) -> int:
    """Return the color of an item. Colors and items are numbered from 1."""
    return (number - 1) % _NUMBER_OF_COLORS + 1


class Symbol(NamedTuple):
    """Symbol of a rule side: a word, a part of a word (`is_part`), or the number of a nonterminal."""

    text: str
    number: int | None = None
    is_part: bool = False

    @property
    def color(self) -> int:
        """Color number, from 1."""
        return color_number(self.number or 1)


def direction(text: str) -> str:
    """Return `rtl` if the first character with a strong direction is right-to-left, else `ltr`."""
    for letter in text:
        kind = unicodedata.bidirectional(letter)
        if kind in ("L", "R", "AL"):
            return "ltr" if kind == "L" else "rtl"
    return "ltr"


def is_side(text: str) -> bool:
    """Check if the text is a rule side in the store's notation, such as `la [X,1] de`."""
    with suppress(ValueError):
        parse_side(text)
        return True
    return False


def split_symbols(side: str, settings: Settings) -> list[Symbol]:
    """Return the symbols of a rule side, with subwords joined. A tree fragment or invalid side is one."""
    if FRAGMENTS in find_grammar_kind(settings.grammar).capabilities or not is_side(side):
        return [Symbol(side)]

    def make_symbol(part: str | int) -> Symbol:
        if isinstance(part, int):
            return Symbol("", part)
        has_parts = bool(settings.word_parts) and part != CONTINUATION
        return Symbol(part, is_part=has_parts and CONTINUATION in (part[0], part[-1]))

    return list(map(make_symbol, WordView(settings.word_parts).symbols(parse_side(side))))


def visible(text: str) -> str:
    """Replace control characters, surrogates and unassigned code points with control pictures or `�`."""

    def picture(letter: str) -> str:
        if unicodedata.category(letter) not in _INVISIBLE:
            return letter
        code = ord(letter)
        # The block Control Pictures begins at U+2400.
        return chr(0x2400 + code) if code < 32 else "\u2421" if code == 127 else "\ufffd"

    return text if text.isprintable() else "".join(map(picture, text))


def truncate(text: str, limit: int = 40) -> str:
    """Truncate the text to `limit` characters, including an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


class ShownWord(NamedTuple):
    """Word of a sentence with its key (`s3`, `t0`), the keys of linked words, and a highlight (`marked`)."""

    text: str
    key: str
    partners: str
    marked: bool = False


def sentences(
    source: str, target: str, alignment: str, marked: Mapping[str, Collection[int]] = MappingProxyType({})
) -> dict[str, list[ShownWord]]:
    """Return the words of a pair by side. `marked` are positions of highlighted words by side."""
    partners: dict[str, dict[int, list[str]]] = {SOURCE: defaultdict(list), TARGET: defaultdict(list)}
    for i, j in parse_links(alignment):
        partners[SOURCE][i].append(f"t{j}")
        partners[TARGET][j].append(f"s{i}")
    return {
        side: [
            ShownWord(word, f"{side[0]}{n}", " ".join(partners[side].get(n, ())), n in marked.get(side, ()))
            for n, word in enumerate(text.split(" "))
            if text
        ]
        for side, text in ((SOURCE, source), (TARGET, target))
    }
