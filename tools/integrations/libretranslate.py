"""LibreTranslate's HTTP protocol for one language pair: paths, request bodies, responses and errors."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email import message_from_bytes
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from anyio import to_thread
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from hierogram.daemon.exceptions import DaemonError, DeadlineError, InputError
from hierogram.daemon.text.languages import base_language
from hierogram.daemon.web.protocol.access import ANONYMOUS, AUTHENTICATED, RateLimiter, Sessions, is_cross_site
from hierogram.daemon.web.protocol.bodies import read_body
from hierogram.daemon.web.protocol.problems import ProblemError, make_problem
from hierogram.daemon.web.protocol.threads import ThreadPools
from hierogram.storage.exceptions import StoreError
from hierogram.tools.translation.documents import TEXT
from hierogram.tools.translation.store_translator import (
    TEXT_FORMATS,
    PlainTranslation,
    StoreTranslator,
    check_translation_size,
)

_LANGUAGE_NAMES = {
    "af": "Afrikaans", "am": "Amharic", "ar": "Arabic", "as": "Assamese", "az": "Azerbaijani", "be": "Belarusian",
    "bg": "Bulgarian", "bn": "Bengali", "bs": "Bosnian", "ca": "Catalan", "cs": "Czech", "cy": "Welsh",
    "da": "Danish", "de": "German", "el": "Greek", "en": "English", "eo": "Esperanto", "es": "Spanish",
    "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish",
    "gl": "Galician", "grc": "Ancient Greek", "gu": "Gujarati", "ha": "Hausa", "hbo": "Ancient Hebrew",
    "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian",
    "ig": "Igbo", "is": "Icelandic", "it": "Italian", "ja": "Japanese", "ka": "Georgian", "kk": "Kazakh",
    "km": "Khmer", "kn": "Kannada", "ko": "Korean", "ku": "Kurdish", "ky": "Kyrgyz", "la": "Latin", "lo": "Lao",
    "lt": "Lithuanian", "lv": "Latvian", "mg": "Malagasy", "mi": "Maori", "mk": "Macedonian", "ml": "Malayalam",
    "mn": "Mongolian", "mr": "Marathi", "ms": "Malay", "mt": "Maltese", "my": "Burmese", "nb": "Norwegian",
    "ne": "Nepali", "nl": "Dutch", "nn": "Norwegian Nynorsk", "no": "Norwegian", "ny": "Chichewa", "or": "Odia",
    "pa": "Punjabi", "pl": "Polish", "ps": "Pashto", "pt": "Portuguese", "qu": "Quechua", "ro": "Romanian",
    "ru": "Russian", "rw": "Kinyarwanda", "sd": "Sindhi", "si": "Sinhala", "sk": "Slovak", "sl": "Slovenian",
    "sm": "Samoan", "sn": "Shona", "so": "Somali", "sq": "Albanian", "sr": "Serbian", "st": "Sotho",
    "su": "Sundanese", "sv": "Swedish", "sw": "Swahili", "ta": "Tamil", "te": "Telugu", "tg": "Tajik", "th": "Thai",
    "tk": "Turkmen", "tl": "Tagalog", "tr": "Turkish", "tt": "Tatar", "ug": "Uyghur", "uk": "Ukrainian", "ur": "Urdu",
    "uz": "Uzbek", "vi": "Vietnamese", "xh": "Xhosa", "yi": "Yiddish", "yo": "Yoruba", "zh": "Chinese", "zu": "Zulu",
}  # fmt: skip
MAX_TEXT_LENGTH = 10_000
MAX_TEXTS = 100
MAX_ALTERNATIVES = 20
_MAX_BYTES = 1 << 22

_METHODS = dict.fromkeys(("/translate", "/suggest", "/detect"), "POST")
_METHODS |= dict.fromkeys(("/languages", "/frontend/settings", "/health"), "GET")
"""HTTP method of each path."""
AUTO = "auto"
"""Source language of a request that detects the language of each text."""
_CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Max-Age": "86400",
}

_log = logging.getLogger(__name__)

Parameters = Mapping[str, Any]


def is_libretranslate(scope: Scope) -> bool:
    """Check if a request belongs to this protocol. Requests that accept HTML are for the daemon's pages."""
    method = _METHODS.get(scope["path"])
    if method is None:
        return False
    if scope["method"] == "OPTIONS":
        return True
    return scope["method"] == method and "text/html" not in Headers(scope=scope).get("accept", "")


def problem_response(problem: ProblemError) -> Response:
    """Return a problem as an error response in LibreTranslate's format."""
    prefix = "Slowdown: " if problem.status == HTTPStatus.TOO_MANY_REQUESTS else ""
    return JSONResponse({"error": f"{prefix}{problem.detail}"}, problem.status, problem.headers)


def _refusal(text: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> ProblemError:
    return ProblemError(status, text)


async def _read_parameters(request: Request) -> Parameters:
    """Return the parameters in the query and in the body, a form or JSON, which takes precedence."""
    parameters: dict[str, Any] = dict(parse_qsl(str(request.url.query), keep_blank_values=True, max_num_fields=100))
    content = await read_body(request, _MAX_BYTES)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == "application/json":
            members = json.loads(content)
            if not isinstance(members, dict):
                raise _refusal("Invalid JSON format")
            return parameters | members
        if kind == "multipart/form-data":
            head = b"Content-Type: " + request.headers["content-type"].encode("latin-1") + b"\r\n\r\n"
            for part in message_from_bytes(head + content).walk():
                name = part.get_param("name", header="content-disposition")
                payload = part.get_payload(decode=True)
                if isinstance(name, str) and isinstance(payload, bytes):
                    parameters[name] = _normalize_line_ends(payload.decode())
        else:
            form = parse_qsl(content.decode(), keep_blank_values=True, errors="strict", max_num_fields=100)
            parameters |= {name: _normalize_line_ends(value) for name, value in form}
    except (ValueError, RecursionError) as error:
        raise _refusal(f"Invalid request: {error}") from error
    return parameters


def _normalize_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _required_text(parameters: Parameters, name: str) -> str:
    value = parameters.get(name)
    if not value:
        raise _refusal(f"Invalid request: missing {name} parameter")
    if not isinstance(value, str) or "\0" in value:
        raise _refusal(f"Invalid request: {name} parameter is not a text")
    if len(value) > MAX_TEXT_LENGTH:
        raise _refusal(f"Invalid request: request ({len(value)}) exceeds text limit ({MAX_TEXT_LENGTH})")
    return value


def _language_name(code: str) -> str:
    return _LANGUAGE_NAMES.get(base_language(code), code)


def _bearer_key(request: Request) -> str:
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else ""


@dataclass(frozen=True)
class _RequestHandlers:
    translator: StoreTranslator
    sessions: Sessions
    rate_limiter: RateLimiter
    threads: ThreadPools

    def check_rate(self, request: Request, kind: str = ANONYMOUS) -> None:
        """Raise `ProblemError` above the rate limit. Requests with the token in a header are already counted."""
        if not self.sessions.is_token(_bearer_key(request)):
            limited = self.rate_limiter.check(kind, request.scope)
            if limited is not None:
                raise limited

    def check_key(self, request: Request, parameters: Parameters) -> None:
        """Check the rate limit, and the key if one is required."""
        key = parameters.get("api_key") or _bearer_key(request)
        is_valid = isinstance(key, str) and self.sessions.is_token(key)
        self.check_rate(request, AUTHENTICATED if is_valid else ANONYMOUS)
        if not self.sessions.required:
            if is_cross_site(request):
                # Without this check, any web page opened on this machine could add corrections.
                raise _refusal("requests from other sites are not allowed", HTTPStatus.FORBIDDEN)
        elif not key:
            raise _refusal("Please contact the server operator to get an API key")
        elif not is_valid:
            raise _refusal("Invalid API key", HTTPStatus.FORBIDDEN)

    def languages(self) -> tuple[str, str]:
        languages = self.translator.languages()
        if not languages:
            raise _refusal(
                "the languages of the store are unknown: create the store with hierogram init --languages fr,en",
                HTTPStatus.INTERNAL_SERVER_ERROR,
            )
        return languages[0], languages[1]

    def check_languages(self, source: str, target: str) -> None:
        """Check that the store translates from `source` to `target`. Regions are ignored."""
        known = [*map(base_language, self.languages())]
        for code in (source, target):
            if base_language(code) not in known:
                raise _refusal(f"{code} is not supported")
        if [base_language(source), base_language(target)] != known:
            raise _refusal(
                f"{_language_name(target)} ({target}) is not available as a target language "
                f"from {_language_name(source)} ({source})"
            )

    async def translate(self, request: Request, parameters: Parameters) -> Response:
        query = parameters.get("q")
        if not query:
            raise _refusal("Invalid request: missing q parameter")
        texts = query if isinstance(query, list) else [query]
        if len(texts) > MAX_TEXTS:
            raise _refusal(f"Invalid request: request ({len(texts)}) exceeds text limit ({MAX_TEXTS})")
        for text in texts:
            if text != "":
                _required_text({"q": text}, "q")
        source, target = _required_text(parameters, "source"), _required_text(parameters, "target")
        try:
            alternatives = max(0, int(parameters.get("alternatives") or 0))
        except (TypeError, ValueError, OverflowError) as error:
            raise _refusal("Invalid request: alternatives parameter is not a number") from error
        if alternatives > MAX_ALTERNATIVES:
            raise _refusal(f"Invalid request: alternatives parameter must be <= {MAX_ALTERNATIVES}")
        format = parameters.get("format") or TEXT
        if format not in TEXT_FORMATS:
            raise _refusal(f"{format} format is not supported")
        try:
            check_translation_size(texts, alternatives + 1)
        except InputError as error:
            raise _refusal(f"Invalid request: {error}") from error

        def work() -> object:
            detected = [self._detections(text)[0] for text in texts] if source == AUTO else []
            codes = [result["language"] for result in detected] or [source] * len(texts)
            # A text detected as the target language is returned unchanged, as in LibreTranslate.
            unchanged = [bool(detected) and base_language(code) == base_language(target) for code in codes]
            for code in {code for code, is_unchanged in zip(codes, unchanged, strict=True) if not is_unchanged}:
                self.check_languages(code, target)
            try:
                translate = self.translator.translate
                results = [
                    PlainTranslation(text, []) if is_unchanged else translate(text, alternatives, format)
                    for text, is_unchanged in zip(texts, unchanged, strict=True)
                ]
            except DeadlineError:
                raise
            except (DaemonError, StoreError) as error:
                raise _refusal(f"Cannot translate text: {error}", HTTPStatus.INTERNAL_SERVER_ERROR) from error
            columns: dict[str, list[Any]] = {"translatedText": [result.text for result in results]}
            if detected:
                columns["detectedLanguage"] = detected
            if alternatives:
                columns["alternatives"] = [result.alternatives for result in results]
            return columns if isinstance(query, list) else {name: column[0] for name, column in columns.items()}

        return JSONResponse(await self.threads.translations.run(work, request))

    def _detections(self, text: str) -> list[dict[str, Any]]:
        """Return the languages of the store with their confidence in percent, likeliest first."""
        self.languages()
        return [{"confidence": round(100 * p, 1), "language": code} for code, p in self.translator.detect(text)]

    async def detect(self, request: Request, parameters: Parameters) -> Response:
        text = _required_text(parameters, "q")
        # Use a translation thread: the first request to a subword store counts its words, which takes long.
        return JSONResponse(await self.threads.translations.run(lambda: self._detections(text), request))

    async def suggest(self, _request: Request, parameters: Parameters) -> Response:
        text, translation = _required_text(parameters, "q"), _required_text(parameters, "s")
        source, target = _required_text(parameters, "source"), _required_text(parameters, "target")

        def work() -> object:
            self.check_languages(source, target)
            try:
                self.translator.corrections.put(text, translation, "http:suggest")
            except DaemonError as error:
                raise _refusal(f"Invalid request: {error}") from error
            return {"success": True}

        return JSONResponse(await self.threads.run_change(work))

    async def show_languages(self, _request: Request, _parameters: Parameters) -> Response:
        source, target = await to_thread.run_sync(self.languages)
        targets: list[tuple[str, list[str]]] = [(source, [target]), (target, [])]
        return JSONResponse([{"code": code, "name": _language_name(code), "targets": to} for code, to in targets])

    async def settings(self, _request: Request, _parameters: Parameters) -> Response:
        languages = await to_thread.run_sync(self.languages)
        source, target = ({"code": code, "name": _language_name(code)} for code in languages)
        return JSONResponse(
            {
                "apiKeys": self.sessions.required,
                "keyRequired": self.sessions.required,
                "charLimit": MAX_TEXT_LENGTH,
                "batchLimit": MAX_TEXTS,
                "frontendTimeout": 500,
                "suggestions": True,
                "filesTranslation": False,
                "supportedFilesFormat": [],
                "language": {"source": source, "target": target},
            }
        )

    async def health(self, _request: Request, _parameters: Parameters) -> Response:
        return JSONResponse({"status": "ok"})


def libretranslate(
    translator: StoreTranslator, sessions: Sessions, rate_limiter: RateLimiter, threads: ThreadPools
) -> Starlette:
    """Return the ASGI application of this protocol. Checks `api_key` and limits the rate of POST requests.

    Cross-origin requests are allowed only if a key is needed, because browsers send them without the user's consent.
    """
    handlers = _RequestHandlers(translator, sessions, rate_limiter, threads)
    cors = _CORS if sessions.required else {}

    def route(
        path: str, handler: Callable[[Request, Parameters], Awaitable[Response]], *, open_to_all: bool = False
    ) -> Route:
        async def respond(request: Request) -> Response:
            if request.method == "OPTIONS":
                return Response(status_code=HTTPStatus.NO_CONTENT, headers=cors)
            try:
                try:
                    parameters = await _read_parameters(request)
                except ProblemError:
                    # Also count requests with an invalid body, which have no key to check.
                    if not open_to_all:
                        handlers.check_rate(request)
                    raise
                if not open_to_all:
                    handlers.check_key(request, parameters)
                response = await handler(request, parameters)
            except ProblemError as problem:
                response = problem_response(problem)
            except Exception as error:
                response = problem_response(make_problem(request, error))
                if response.status_code == HTTPStatus.INTERNAL_SERVER_ERROR:
                    _log.exception("LibreTranslate request failed")
            response.headers.update(cors)
            return response

        return Route(path, respond, methods=[_METHODS[path], "OPTIONS"])

    return Starlette(
        routes=[
            route("/translate", handlers.translate),
            route("/suggest", handlers.suggest),
            route("/detect", handlers.detect),
            # Clients request these before they know whether a key is needed.
            route("/languages", handlers.show_languages, open_to_all=True),
            route("/frontend/settings", handlers.settings, open_to_all=True),
            route("/health", handlers.health, open_to_all=True),
        ]
    )
