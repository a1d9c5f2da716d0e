"""Who may ask, and how often: the door that every request goes through."""

import asyncio
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from math import ceil
from urllib.parse import urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hierogram.daemon.configuration import HttpConfiguration, is_loopback
from hierogram.daemon.web.api.health import RequestMetrics
from hierogram.daemon.web.protocol.document import OF_THE_API, OPEN_PATHS
from hierogram.daemon.web.protocol.problems import ProblemError, answer
from hierogram.daemon.web.protocol.sessions import ENTER, FILES, Sessions, cookie_of

_MOST_CLIENTS = 10_000
_DISCARD_SECONDS = 3.0
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
}


class Rates:
    """A bucket of permissions for each client address: full at first, filled again at a rate, one taken a request.

    The addresses that asked longest ago are forgotten where there are too many.
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str) -> float:
        """Takes a permission: 0.0 if there was one, else the seconds until there is one."""
        now = self._clock()
        level, since = self._buckets.pop(client, (self._burst, now))
        level = min(self._burst, level + (now - since) * self._rate)
        allowed = level >= 1.0
        self._buckets[client] = (level - allowed, now)
        if len(self._buckets) > _MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - level) / self._rate


class _Body:
    """The body of a request; what an early answer leaves unread is read after it.

    A connection that is closed before that is reset, and the client loses the answer that says what was wrong.
    """

    def __init__(self, scope: Scope, receive: Receive) -> None:
        headers = Headers(scope=scope)
        self.coming = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        self._receive = receive

    async def receive(self) -> Message:
        """The next message, as ASGI has it."""
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body"):
            self.coming = False
        return message

    async def discard(self) -> None:
        """Reads the rest and forgets it; not for long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_DISCARD_SECONDS):
                while self.coming:
                    await self.receive()


class Guard:
    """The app behind it answers only those who may ask; all answers are counted and get the same headers."""

    def __init__(
        self,
        app: ASGIApp,
        configuration: HttpConfiguration,
        metrics: RequestMetrics,
        sessions: Sessions | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._sessions = sessions
        self._token = configuration.token.get_secret_value().encode() if configuration.token else None
        self._rates = Rates(configuration.max_rate, configuration.max_burst, clock)
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = HTTPStatus.INTERNAL_SERVER_ERROR.value
        body = _Body(scope, receive)

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            if message["type"] == "http.response.body" and not message.get("more_body") and body.coming:
                await send({**message, "more_body": True})
                await body.discard()
                message = {"type": "http.response.body"}
            await send(message)

        try:
            refusal = self._refusal(scope)
            if refusal is None:
                await self._app(scope, body.receive, send_on)
            elif refusal.status == HTTPStatus.UNAUTHORIZED and self._may_enter(scope):
                place = scope["path"] + ("?" + scope["query_string"].decode("latin-1") if scope["query_string"] else "")
                door = RedirectResponse(f"{ENTER}?{urlencode({'next': place})}", HTTPStatus.SEE_OTHER)
                await door(scope, body.receive, send_on)
            else:
                await answer(refusal)(scope, body.receive, send_on)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self._metrics.count(scope["method"], route, status, time.perf_counter() - started)

    def _refusal(self, scope: Scope) -> ProblemError | None:
        headers = Headers(scope=scope)
        if self._token is None:
            # A web page whose name was made to point to this machine must not read the store through a browser, nor
            # use up what this machine's own programs may ask: so this is looked at before the rate.
            host = headers.get("host", "").rsplit(":", 1)[0] if not _bare_address(headers) else headers.get("host", "")
            if not is_loopback(host):
                return ProblemError(
                    HTTPStatus.MISDIRECTED_REQUEST,
                    f"this daemon answers for this machine only (localhost, 127.0.0.1), not for {host!r}",
                )
        client = scope["client"][0] if scope.get("client") else "unknown"
        wait = self._rates.wait(client)
        if wait:
            return ProblemError(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too many requests from this address: ask less often",
                {"Retry-After": str(ceil(wait))},
            )
        if self._token is None or self._is_open(scope["path"]):
            return None
        if not (self._shows_token(headers) or self._has_entered(scope, headers)):
            return ProblemError(
                HTTPStatus.UNAUTHORIZED,
                "a token is needed: send the header `Authorization: Bearer TOKEN`",
                {"WWW-Authenticate": 'Bearer realm="hierogram"'},
            )
        return None

    def _is_open(self, path: str) -> bool:
        return path in OPEN_PATHS or (self._sessions is not None and (path == ENTER or path.startswith(FILES)))

    def _has_entered(self, scope: Scope, headers: Headers) -> bool:
        """Return whether a browser that has shown the token asks for a page; programs show it with every request."""
        if self._sessions is None or scope["path"].startswith(OF_THE_API):
            return False
        return self._sessions.good(cookie_of(headers.get("cookie", "")))

    def _may_enter(self, scope: Scope) -> bool:
        """Return whether a browser asks for a page, and can be asked for the token."""
        if self._sessions is None or scope["path"].startswith(OF_THE_API):
            return False
        return scope["method"] == "GET" and "text/html" in Headers(scope=scope).get("accept", "")

    def _shows_token(self, headers: Headers) -> bool:
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        assert self._token is not None
        same = hmac.compare_digest(shown.strip().encode("utf-8", "surrogateescape"), self._token)
        return same and scheme.lower() == "bearer"


def _bare_address(headers: Headers) -> bool:
    """Return whether the host header has no port."""
    host = headers.get("host", "")
    return ":" not in host or host.endswith("]")
