"""Browser sessions, rate limits and metrics of HTTP requests, and middleware that applies them."""

import asyncio
import hmac
import secrets
import time
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from math import ceil
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from pydantic import SecretStr
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hierogram.daemon.configuration import is_loopback
from hierogram.daemon.web.protocol.problems import API_PREFIXES, HEALTH_PATHS, TM_PREFIX, ProblemError, problem_response

LOGIN_PATH, STATIC_PREFIX = "/login", "/static/"
"""Path of the login page, and path prefix of static files. Neither needs a token."""

COOKIE = "hierogram"
"""Name of the session cookie."""
SESSION_SECONDS = 12 * 3600
"""Seconds until a session cookie expires."""


def is_cross_site(request: Request) -> bool:
    """Check if a page of another origin sent the request, by its headers Sec-Fetch-Site and Origin."""
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return True
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != request.headers.get("host", "")


class Sessions:
    """Issuer of signed session cookies and form tokens. Without a configured token, the key is random."""

    def __init__(self, token: SecretStr | None, clock: Callable[[], float] = time.time) -> None:
        self._token = token.get_secret_value().encode() if token is not None else None
        self._key = hmac.digest(self._token or secrets.token_bytes(32), b"hierogram pages", "sha256")
        self._clock = clock
        self.required = token is not None
        """True if a token is configured, so that requests must be authenticated."""

    def is_token(self, token: str) -> bool:
        """Check if a text is the configured token. Returns False if no token is configured."""
        return self._token is not None and hmac.compare_digest(token.encode("utf-8", "replace"), self._token)

    def make_cookie(self) -> str:
        """Return the value of a new session cookie, which is valid for `SESSION_SECONDS`."""
        content = f"{secrets.token_urlsafe(16)}.{int(self._clock()) + SESSION_SECONDS}"
        return f"{content}.{self._sign('cookie', content)}"

    def is_valid(self, cookie: str | None) -> bool:
        """Check if the cookie has a valid signature and has not expired."""
        content, _, signature = (cookie or "").rpartition(".")
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), self._sign("cookie", content).encode()):
            return False
        return int(content.rpartition(".")[2]) > self._clock()

    def form_token(self, cookie: str | None, action: str) -> str:
        """Return the CSRF token of a form, bound to its action and the browser's cookie."""
        return self._sign("form", f"{action}\n{cookie or ''}")

    def is_form_valid(self, token: str, cookie: str | None, action: str) -> bool:
        """Check the CSRF token of a form."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.form_token(cookie, action).encode())

    def _sign(self, purpose: str, content: str) -> str:
        return hmac.new(self._key, f"{purpose}\n{content}".encode("utf-8", "replace"), sha256).hexdigest()


_MAX_BUCKETS = 10_000

ANONYMOUS, AUTHENTICATED, HEALTH = "anonymous", "authenticated", "health"
"""Kinds of requests. Each kind has its own buckets."""


class RateLimiter:
    """Token buckets by kind of request and client address. A bucket gains `rate` tokens/s up to `burst`."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._buckets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def take(self, kind: str, client: str) -> float:
        """Take a token from a bucket. Returns 0.0, or the seconds until the next token if the bucket is empty."""
        now = self._clock()
        level, since = self._buckets.pop((kind, client), (self._burst, now))
        level = min(self._burst, level + (now - since) * self._rate)
        allowed = level >= 1.0
        self._buckets[kind, client] = (level - allowed, now)
        if len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - level) / self._rate

    def check(self, kind: str, scope: Scope) -> ProblemError | None:
        """Take a token for a request. Returns a 429 problem if the bucket is empty, else None."""
        wait_seconds = self.take(kind, scope["client"][0] if scope.get("client") else "unknown")
        if not wait_seconds:
            return None
        headers = {"Retry-After": str(ceil(wait_seconds))}
        return ProblemError(HTTPStatus.TOO_MANY_REQUESTS, "too many requests from this address: slow down", headers)


_DURATION_BUCKETS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 600.0)


class RequestMetrics:
    """Metrics of HTTP requests."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        text, labels = "HTTP requests by method, route and status.", ["method", "route", "status"]
        self._requests = Counter("hierogram_http_requests", text, labels, registry=self.registry)
        text, name = "Duration of HTTP requests, until the end of the response.", "hierogram_http_request_seconds"
        self._seconds = Histogram(name, text, ["route"], buckets=_DURATION_BUCKETS, registry=self.registry)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request and its duration. `route` is the path template, or `none`."""
        method_label = method if method in ("GET", "HEAD", "POST", "PUT", "DELETE") else "other"
        self._requests.labels(method_label, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)


class ProtocolApp(NamedTuple):
    """ASGI application for another protocol.

    `handles` returns True if a request belongs to the protocol. `refuse` renders a refusal in the protocol's format. If
    it is given, the application must authenticate requests itself, because the body of a POST request may contain the
    token as an API key, and apply the `RateLimiter` to POST requests without a token in the header. `lifespan` returns
    a context manager that is open while the server runs.
    """

    handles: Callable[[Scope], bool]
    app: ASGIApp
    refuse: Callable[[ProblemError], Response] | None = None
    lifespan: Callable[[], AbstractAsyncContextManager[None]] | None = None


_DISCARD_SECONDS = 3.0
"""Seconds for which the rest of a body is received and discarded after an early response."""
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
}


@dataclass(eq=False)
class Guard:
    """Middleware that authenticates requests, limits their rate, counts them, and sets response headers.

    Each of `protocols` handles its own requests, `pages` the other requests outside the API, and `app` all others.
    """

    app: ASGIApp
    rate_limiter: RateLimiter
    metrics: RequestMetrics
    sessions: Sessions
    pages: ASGIApp | None = None
    protocols: Sequence[ProtocolApp] = ()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application, or respond with the reason for a refusal."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status, headers = HTTPStatus.INTERNAL_SERVER_ERROR.value, Headers(scope=scope)
        has_more = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        protocol = next((protocol for protocol in self.protocols if protocol.handles(scope)), None)
        refuse = protocol and protocol.refuse
        app = self.app
        if protocol is not None:
            app = protocol.app
        elif self.pages is not None and not scope["path"].startswith(API_PREFIXES):
            app = self.pages

        async def receive_part() -> Message:
            nonlocal has_more
            message = await receive()
            has_more = message["type"] == "http.request" and bool(message.get("more_body"))
            return message

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                response_headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    response_headers.setdefault(name, value)
            if message["type"] == "http.response.body" and not message.get("more_body") and has_more:
                # Discard the rest of the body, so that clients get an early response.
                await send({**message, "more_body": True})
                with suppress(TimeoutError):
                    async with asyncio.timeout(_DISCARD_SECONDS):
                        while has_more:
                            await receive_part()
                message = {"type": "http.response.body"}
            await send(message)

        try:
            refusal = self._refusal(scope, refuse is not None)
            if refusal is None:
                await app(scope, receive_part, send_with_headers)
            elif (
                refusal.status == HTTPStatus.UNAUTHORIZED
                and scope["method"] == "GET"
                and not scope["path"].startswith(API_PREFIXES)
                and "text/html" in headers.get("accept", "")
            ):
                # Show browsers the login form, because users cannot add the token to the header.
                query = scope["query_string"].decode("latin-1")
                address = f"{scope['path']}?{query}" if query else scope["path"]
                redirect = RedirectResponse(f"{LOGIN_PATH}?{urlencode({'next': address})}", HTTPStatus.SEE_OTHER)
                await redirect(scope, receive_part, send_with_headers)
            else:
                await (refuse or problem_response)(refusal)(scope, receive_part, send_with_headers)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self.metrics.count(scope["method"], route, status, time.perf_counter() - started)

    def _refusal(self, scope: Scope, authenticates_itself: bool) -> ProblemError | None:
        """Return the reason to refuse a request, or None. Takes a token of the rate limit."""
        headers, path = Headers(scope=scope), scope["path"]
        if not self.sessions.required:
            # Protect against DNS rebinding: a web page whose host name resolves to this machine must not read the store
            # through a browser. Check before the rate limit, so that such requests do not use the quota of local
            # clients.
            host = headers.get("host", "")
            if ":" in host and not host.endswith("]"):
                host = host.rpartition(":")[0]
            if not is_loopback(host):
                reason = "this server has no token, so it accepts only requests to localhost or 127.0.0.1"
                detail = f"{reason}, got host {host!r}: set a token to allow other hosts"
                return ProblemError(HTTPStatus.MISDIRECTED_REQUEST, detail)
        authenticated = self.sessions.required and self._is_authenticated(scope)
        if authenticates_itself and not authenticated and scope["method"] == "POST":
            # The application applies the rate limit after it has read the API key in the body, because requests with
            # and without a valid key are counted separately.
            return None
        kind = HEALTH if path in HEALTH_PATHS else AUTHENTICATED if authenticated else ANONYMOUS
        limited = self.rate_limiter.check(kind, scope)
        if limited is not None or authenticated or authenticates_itself or not self.sessions.required:
            return limited
        if path in HEALTH_PATHS or path == LOGIN_PATH or path.startswith(STATIC_PREFIX):
            return None
        detail = "authentication required: send the header `Authorization: Bearer TOKEN`"
        return ProblemError(HTTPStatus.UNAUTHORIZED, detail, {"WWW-Authenticate": 'Bearer realm="hierogram"'})

    def _is_authenticated(self, scope: Scope) -> bool:
        headers, path = Headers(scope=scope), scope["path"]
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.sessions.is_token(credentials.strip()):
            return True
        if scheme.lower() == "basic" and path.startswith(TM_PREFIX):
            with suppress(ValueError):
                _, _, password = b64decode(credentials.strip(), validate=True).decode().partition(":")
                if self.sessions.is_token(password):
                    return True
        # API clients send the token with every request. Browsers have a cookie, which is valid only for pages.
        return not path.startswith(API_PREFIXES) and self.sessions.is_valid(HTTPConnection(scope).cookies.get(COOKIE))
