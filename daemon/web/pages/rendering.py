"""From what pages say to HTML or JSON: texts, linked words, templates, addresses, numbers."""

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from datetime import date, datetime
from hashlib import sha256
from http import HTTPStatus
from importlib.metadata import version
from importlib.resources import files
from math import log2
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from hierogram.daemon.web.protocol.service import Service
from hierogram.daemon.web.protocol.sessions import COOKIE, Sessions
from hierogram.samplers.grammar.kinds import FRAGMENTS, Notation
from hierogram.samplers.grammar.rules import parse_side
from hierogram.storage.browsing.reader import Reader

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
    """Return whether a program asks: by the address, or by what it accepts."""
    return request.url.path.endswith(JSON_ENDING)


def wants_page(request: Request) -> bool:
    """Return whether a browser asks."""
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
    """Describe the site itself: the store, whether pairs may be taken out, whether a browser has to enter."""

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
        """Return whether the browser has shown the token, and may leave."""
        return self.sessions.needed and self.sessions.good(request.cookies.get(COOKIE))


_RIGHT_TO_LEFT = ("R", "AL")
_PICTURES = 0x2400
"""Of the first 32 control characters there are pictures, from this letter on."""
_UNSEEN = ("Cc", "Cs", "Cn")
"""Control characters, halves of letters, and what is no letter."""
_COLOURS = 6


class Symbol(NamedTuple):
    """A symbol of a rule's side: a word, or a nonterminal by its number and the colour that it has on both sides."""

    text: str
    number: int | None = None

    @property
    def colour(self) -> int:
        """From 1 on."""
        return ((self.number or 1) - 1) % _COLOURS + 1


def direction(text: str) -> str:
    """`rtl` where the first letter with a direction is read from right to left, else `ltr`."""
    for letter in text:
        kind = unicodedata.bidirectional(letter)
        if kind in _RIGHT_TO_LEFT:
            return "rtl"
        if kind == "L":
            return "ltr"
    return "ltr"


def is_side(text: str) -> bool:
    """Return whether the text is in the notation of a rule's side, so that a rule may have it."""
    try:
        parse_side(text)
    except ValueError:
        return False
    return True


def symbols_of(side: str, notation: Notation) -> list[Symbol]:
    """The symbols of a rule's side; a fragment of a tree is one, and so is what is no side of a rule."""
    if FRAGMENTS in notation.offers or not is_side(side):
        return [Symbol(side)]
    return [Symbol("", part) if isinstance(part, int) else Symbol(part) for part in parse_side(side)]


def visible(text: str) -> str:
    """The text with a picture in the place of each control character; what marks directions stays, and is isolated."""
    if text.isprintable():
        return text
    return "".join(_picture(letter) if unicodedata.category(letter) in _UNSEEN else letter for letter in text)


def _picture(letter: str) -> str:
    code = ord(letter)
    if code < 32:
        return chr(_PICTURES + code)
    return "\u2421" if code == 127 else "\ufffd"


def short(text: str, most: int = 40) -> str:
    """The text, cut where it is longer."""
    return text if len(text) <= most else text[: most - 1] + "…"


def width(text: str) -> float:
    """About how wide a text is, in ems."""
    return sum(_letter_width(letter) for letter in text)


def _letter_width(letter: str) -> float:
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.05
    return 0.68 if letter.isupper() or letter in "mwMW—…%@" else 0.56


class Word(NamedTuple):
    """A word of a sentence: its key (`s3`, `t0`), the keys of those it is linked to, and whether it is marked."""

    text: str
    key: str
    partners: str
    marked: bool = False


class Sentences(NamedTuple):
    """Both sides of a pair."""

    source: list[Word]
    target: list[Word]


class Linked(Protocol):
    """A pair with texts and links."""

    @property
    def source(self) -> str:
        """Words, separated by one space."""

    @property
    def target(self) -> str:
        """Words, separated by one space."""

    @property
    def alignment(self) -> str:
        """Links, `i-j`."""


def links_of(alignment: str) -> list[tuple[int, int]]:
    """The links of a Pharaoh line."""
    return [(int(i), int(j)) for i, _, j in (link.partition("-") for link in alignment.split())]


def sentences(pair: Linked) -> Sentences:
    """The words of both sides; those of `source_words` and `target_words` are marked, where the pair has these."""
    of_source: dict[int, list[str]] = {}
    of_target: dict[int, list[str]] = {}
    for i, j in links_of(pair.alignment):
        of_source.setdefault(i, []).append(f"t{j}")
        of_target.setdefault(j, []).append(f"s{i}")
    marked_source = frozenset(getattr(pair, "source_words", ()))
    marked_target = frozenset(getattr(pair, "target_words", ()))
    return Sentences(
        [
            Word(word, f"s{n}", " ".join(of_source.get(n, ())), n in marked_source)
            for n, word in enumerate(pair.source.split(" "))
        ],
        [
            Word(word, f"t{n}", " ".join(of_target.get(n, ())), n in marked_target)
            for n, word in enumerate(pair.target.split(" "))
        ],
    )


@dataclass(frozen=True, slots=True)
class PageContext:
    """A store that is looked at."""

    reader: Reader
    view: View
    service: Service | None
