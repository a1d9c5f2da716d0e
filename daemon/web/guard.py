"""Who may ask, and how often: the door that every request goes through."""

import asyncio
import time
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from math import ceil
from urllib.parse import urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hierogram.daemon.configuration import HttpConfiguration, is_loopback
from hierogram.daemon.web.api.health import RequestMetrics
from hierogram.daemon.web.context import ProtocolApp
from hierogram.daemon.web.protocol.document import MEMORY, OF_THE_API, OPEN_PATHS
from hierogram.daemon.web.protocol.problems import ProblemError, answer
from hierogram.daemon.web.protocol.sessions import COOKIE, ENTER, FILES, Sessions

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
        """Take a permission; return 0.0 if there was one, else the seconds until there is one."""
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
        """Return the next message, as ASGI has it."""
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body"):
            self.coming = False
        return message

    async def discard(self) -> None:
        """Read the rest and forget it; not for long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_DISCARD_SECONDS):
                while self.coming:
                    await self.receive()


def _password(shown: str) -> str:
    """Return the password of HTTP's basic authentication; empty where it is not that."""
    try:
        return b64decode(shown.strip(), validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


class Guard:
    """The app behind it answers only those who may ask; all answers are counted and get the same headers."""

    def __init__(
        self,
        app: ASGIApp,
        configuration: HttpConfiguration,
        metrics: RequestMetrics,
        sessions: Sessions,
        protocols: Sequence[ProtocolApp] = (),
    ) -> None:
        """Guard `app`; the `protocols` check the keys of their requests themselves."""
        self._app = app
        self._protocols = protocols
        self._sessions = sessions
        self._rates = Rates(configuration.max_rate, configuration.max_burst)
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
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
            elif (
                refusal.status == HTTPStatus.UNAUTHORIZED
                and scope["method"] == "GET"
                and not scope["path"].startswith(OF_THE_API)
                and "text/html" in Headers(scope=scope).get("accept", "")
            ):
                # A browser asks for a page, and can be asked for the token.
                place = scope["path"] + ("?" + scope["query_string"].decode("latin-1") if scope["query_string"] else "")
                door = RedirectResponse(f"{ENTER}?{urlencode({'next': place})}", HTTPStatus.SEE_OTHER)
                await door(scope, body.receive, send_on)
            else:
                protocol = self._protocol(scope)
                refuse = protocol.refuse if protocol and protocol.refuse else answer
                await refuse(refusal)(scope, body.receive, send_on)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self._metrics.count(scope["method"], route, status, time.perf_counter() - started)

    def _protocol(self, scope: Scope) -> ProtocolApp | None:
        return next((one for one in self._protocols if one.handles(scope)), None)

    def _refusal(self, scope: Scope) -> ProblemError | None:
        headers, path = Headers(scope=scope), scope["path"]
        if not self._sessions.needed:
            # A web page whose name was made to point to this machine must not read the store through a browser, nor
            # use up what this machine's own programs may ask: so this is looked at before the rate.
            host = headers.get("host", "")
            if ":" in host and not host.endswith("]"):
                host = host.rpartition(":")[0]
            if not is_loopback(host):
                return ProblemError(
                    HTTPStatus.MISDIRECTED_REQUEST,
                    f"this daemon answers for this machine only (localhost, 127.0.0.1), not for {host!r}",
                )
        wait = self._rates.wait(scope["client"][0] if scope.get("client") else "unknown")
        if wait:
            return ProblemError(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too many requests from this address: ask less often",
                {"Retry-After": str(ceil(wait))},
            )
        if self._protocol(scope):
            return None
        if not self._sessions.needed or path in OPEN_PATHS or path == ENTER or path.startswith(FILES):
            return None
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._sessions.right(shown.strip()):
            return None
        if scheme.lower() == "basic" and path.startswith(MEMORY) and self._sessions.right(_password(shown)):
            return None
        # Programs show the token with every request; a browser that has shown it has a cookie, which is for pages.
        cookie = HTTPConnection(scope).cookies.get(COOKIE)
        if not path.startswith(OF_THE_API) and self._sessions.good(cookie):
            return None
        return ProblemError(
            HTTPStatus.UNAUTHORIZED,
            "a token is needed: send the header `Authorization: Bearer TOKEN`",
            {"WWW-Authenticate": 'Bearer realm="hierogram"'},
        )
