"""Middleware for authentication and rate limits."""

import asyncio
import time
from base64 import b64decode
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from urllib.parse import urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hierogram.daemon.configuration import is_loopback
from hierogram.daemon.web.api.health import RequestMetrics
from hierogram.daemon.web.protocol.context import ProtocolApp
from hierogram.daemon.web.protocol.document import API_PREFIXES, HEALTH_PATHS, MEMORY_PREFIX
from hierogram.daemon.web.protocol.problems import ProblemError, problem_response
from hierogram.daemon.web.protocol.rates import ANONYMOUS, AUTHENTICATED, HEALTH, RateLimiter
from hierogram.daemon.web.protocol.sessions import COOKIE, LOGIN_PATH, STATIC_PREFIX, Sessions

_DISCARD_SECONDS = 3.0
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
}


class _RequestBody:
    """Request body. Discards the unread rest after an early response, so that clients get the response."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        headers = Headers(scope=scope)
        self.has_more = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        self._receive = receive

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body"):
            self.has_more = False
        return message

    async def discard(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_DISCARD_SECONDS):
                while self.has_more:
                    await self.receive()


class Guard:
    """Middleware that authenticates requests, limits their rate, counts them, and sets response headers.

    `protocols` render refusals in their own format, and authenticate their requests themselves. They also limit the
    rate of POST requests whose headers contain no token, because the bodies may contain it.
    """

    def __init__(
        self,
        app: ASGIApp,
        rate_limiter: RateLimiter,
        metrics: RequestMetrics,
        sessions: Sessions,
        protocols: Sequence[ProtocolApp] = (),
    ) -> None:
        self._app = app
        self._protocols = protocols
        self._sessions = sessions
        self._rate_limiter = rate_limiter
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application, or respond with the reason for a refusal."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = HTTPStatus.INTERNAL_SERVER_ERROR.value
        body = _RequestBody(scope, receive)
        protocol = next((protocol for protocol in self._protocols if protocol.handles(scope)), None)

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            if message["type"] == "http.response.body" and not message.get("more_body") and body.has_more:
                await send({**message, "more_body": True})
                await body.discard()
                message = {"type": "http.response.body"}
            await send(message)

        try:
            refusal = self._refusal(scope, protocol is not None)
            if refusal is None:
                await self._app(scope, body.receive, send_with_headers)
            elif (
                refusal.status == HTTPStatus.UNAUTHORIZED
                and scope["method"] == "GET"
                and not scope["path"].startswith(API_PREFIXES)
                and "text/html" in Headers(scope=scope).get("accept", "")
            ):
                # Show browsers the login form, because users cannot add the token to the header.
                address = scope["path"] + (
                    "?" + scope["query_string"].decode("latin-1") if scope["query_string"] else ""
                )
                redirect = RedirectResponse(f"{LOGIN_PATH}?{urlencode({'next': address})}", HTTPStatus.SEE_OTHER)
                await redirect(scope, body.receive, send_with_headers)
            else:
                refuse = protocol.refuse if protocol and protocol.refuse else problem_response
                await refuse(refusal)(scope, body.receive, send_with_headers)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self._metrics.count(scope["method"], route, status, time.perf_counter() - started)

    def _refusal(self, scope: Scope, is_protocol: bool) -> ProblemError | None:
        headers, path = Headers(scope=scope), scope["path"]
        if not self._sessions.required:
            # Protect against DNS rebinding: a web page whose host name resolves to this machine must not read the store
            # through a browser. Check before the rate limit, so that such requests do not use the quota of local
            # clients.
            host = headers.get("host", "")
            if ":" in host and not host.endswith("]"):
                host = host.rpartition(":")[0]
            if not is_loopback(host):
                return ProblemError(
                    HTTPStatus.MISDIRECTED_REQUEST,
                    "this server has no token, so it accepts only requests to localhost or 127.0.0.1, got host "
                    f"{host!r}: set a token to allow other hosts",
                )
        authenticated = self._sessions.required and self._is_authenticated(scope)
        if is_protocol and not authenticated and scope["method"] == "POST":
            # The application applies the rate limit after it has read the API key in the body, because requests with
            # and without a valid key are counted separately.
            return None
        kind = HEALTH if path in HEALTH_PATHS else AUTHENTICATED if authenticated else ANONYMOUS
        limited = self._rate_limiter.check(kind, scope)
        # Applications of protocols authenticate their own requests.
        if limited is not None or authenticated or is_protocol or not self._sessions.required:
            return limited
        if path in HEALTH_PATHS or path == LOGIN_PATH or path.startswith(STATIC_PREFIX):
            return None
        return ProblemError(
            HTTPStatus.UNAUTHORIZED,
            "authentication required: send the header `Authorization: Bearer TOKEN`",
            {"WWW-Authenticate": 'Bearer realm="hierogram"'},
        )

    def _is_authenticated(self, scope: Scope) -> bool:
        headers, path = Headers(scope=scope), scope["path"]
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._sessions.is_token(credentials.strip()):
            return True
        if scheme.lower() == "basic" and path.startswith(MEMORY_PREFIX):
            with suppress(ValueError):
                _, _, password = b64decode(credentials.strip(), validate=True).decode().partition(":")
                if self._sessions.is_token(password):
                    return True
        # API clients send the token with every request. Browsers have a cookie, which is valid only for pages.
        return not path.startswith(API_PREFIXES) and self._sessions.is_valid(HTTPConnection(scope).cookies.get(COOKIE))
