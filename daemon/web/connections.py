"""Bounds on connections that uvicorn does not have: on their number, and on the time that each part of a request takes.

uvicorn bounds the time between two requests, not the time of a head, of a body, or of an answer that is not read. It
answers 503 when there are too many connections, also to a health check, and accepts more of them until no descriptor
is left. See docs/decisions/daemon.md for what other servers have.
"""

import asyncio
import re
import resource
import select
from http import HTTPStatus

import h11
from anyio import CancelScope
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from hierogram.daemon.web.protocol.document import ALIVE
from hierogram.daemon.web.protocol.problems import ProblemError, answer, try_later

_SPARE_CONNECTIONS = 32
"""Connections beyond the limit: requests that are answered with 503, and health checks."""
_RESERVED_DESCRIPTORS = 256
"""Descriptors for the store, the spool, exports and workers."""
_RETRY_SECONDS = 2
_STOPPING_RETRY_SECONDS = 5
_MOST_HEADERS = 256
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")

Address = tuple[str, int]


def connection_limit(wanted: int) -> int:
    """Return how many connections there may be: `wanted`, or fewer if the process may open few descriptors."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, limit - min(_RESERVED_DESCRIPTORS, limit // 2) - 2 * _SPARE_CONNECTIONS))


class _Exchange:
    """A request and its answer: ASGI messages with deadlines."""

    def __init__(self, gate: "Gate", transport: asyncio.Transport, receive: Receive, send: Send) -> None:
        self._gate = gate
        self._transport = transport
        self._receive = receive
        self._send = send
        self._size = 0
        self._waited = 0.0
        self._complete = False
        self._started = False
        self.body: asyncio.Timeout | None = None
        """Deadline of the part of the body that is awaited, if one is."""
        self.refusal: ProblemError | None = None
        """Why the rest of the body is not awaited."""
        self.cancel: CancelScope | None = None
        """Scope of a request that changes nothing: it is cancelled when the client leaves."""

    def refuse(self, problem: ProblemError) -> ProblemError:
        """Stop waiting for the rest of the body; return the problem that the client receives, the first one."""
        problem.headers["Connection"] = "close"
        self.refusal = self.refusal or problem
        if self.body is not None and not self.body.expired():
            self.body.reschedule(_now())
        return self.refusal

    async def receive(self) -> Message:
        """Return the next message; raises `ProblemError` if the body comes too slowly or is no longer wanted.

        If the answer has begun, no other one can be sent: then the message is that the client has left.
        """
        if self._complete:
            return await self._receive()
        patience, since = self._gate.patience, _now()
        left = min(patience, patience + self._size / self._gate.slowest - self._waited)
        try:
            # What is here already is returned in no time.
            async with asyncio.timeout(0 if self.refusal else left) as self.body:
                message = await self._receive()
        except TimeoutError:
            late = self.refusal is None
            seconds = self._waited + _now() - since
            slow = f"the body came too slowly: {self._size} bytes in {seconds:.0f} s; see client_timeout"
            refusal = self.refuse(ProblemError(HTTPStatus.REQUEST_TIMEOUT, slow))
            if not self._started:
                raise refusal from None
            if late:
                await self._abort()
            return {"type": "http.disconnect"}
        finally:
            self.body = None
            self._waited += _now() - since
        self._size += len(message.get("body", b""))
        self._complete = message["type"] != "http.request" or not message.get("more_body")
        return message

    async def send(self, message: Message) -> None:
        """Send a message; the connection ends if the client reads nothing of what was sent before."""
        self._started = True
        unsent, left = -1, self._transport.get_write_buffer_size()
        while left != unsent:
            unsent = left
            try:
                # uvicorn waits here until most has been read, and then writes, so it can be called again.
                async with asyncio.timeout(self._gate.patience):
                    return await self._send(message)
            except TimeoutError:
                left = self._transport.get_write_buffer_size()
        return await self._abort()

    async def _abort(self) -> None:
        self._transport.abort()
        # uvicorn hears of it in the next turn of the event loop; until then it would complain of the application.
        await asyncio.sleep(0)


def _now() -> float:
    return asyncio.get_running_loop().time()


class _Client:
    """A client's connection, as the gate sees it."""

    def __init__(self, transport: asyncio.Transport, now: float) -> None:
        self.transport = transport
        self.heard = now
        """When the client last sent something."""
        self.since = now
        """When the wait for a head began, or the client last read something of an answer that is sent."""
        self.unsent = 0
        self.exchange: _Exchange | None = None

    @property
    def keeps_waiting(self) -> bool:
        """Whether the client has to act next: send a head or the rest of a body, or read."""
        exchange = self.exchange
        return exchange is None or exchange.body is not None or self.transport.get_write_buffer_size() > 0

    @property
    def leaving(self) -> bool:
        """Whether the connection is about to end."""
        return self.transport.is_closing() or (self.exchange is not None and self.exchange.refusal is not None)

    def evict(self) -> None:
        """End the connection to make room for another one."""
        if self.exchange is not None and self.exchange.body is not None:
            self.exchange.refuse(try_later("the connection is needed, and the body came too slowly", _RETRY_SECONDS))
        else:
            self.transport.abort()


class Gate:
    """Application in front of another one: has deadlines for clients, and evicts the slowest when there are too many.

    A client has `patience` seconds to send a head, and to read a piece of an answer. A body has as long, and longer
    only while it comes faster than `slowest` bytes a second. If there are more than `most` connections, the one that
    has kept us waiting longest ends. Beyond `most` running requests, requests get 503, except health checks.
    """

    def __init__(self, app: ASGIApp, patience: float, slowest: float, most: int) -> None:
        self.patience = patience
        self.slowest = slowest
        self._app = app
        self._most = most
        self._clients: dict[Address, _Client] = {}
        self._running: set[_Exchange] = set()

    def enter(self, address: Address, transport: asyncio.Transport) -> _Client:
        """Register a connection; another one is evicted if there are too many now."""
        new = self._clients[address] = _Client(transport, _now())
        here = [client for client in self._clients.values() if not client.leaving]
        if len(here) > self._most:
            waiting = [client for client in here if client is not new and client.keeps_waiting]
            if waiting:
                min(waiting, key=lambda client: client.heard).evict()
            if len(self._clients) > self._most + _SPARE_CONNECTIONS:
                transport.abort()
        return new

    def leave(self, address: Address) -> None:
        """Forget a connection that has ended."""
        client = self._clients.pop(address, None)
        if client is not None and client.exchange is not None and client.exchange.cancel is not None:
            client.exchange.cancel.cancel()

    def sweep(self) -> None:
        """End connections that have waited too long for a head, or for their client to read the last answer."""
        for client in [client for client in self._clients.values() if client.exchange is None]:
            unsent = client.transport.get_write_buffer_size()
            if unsent != client.unsent:
                client.unsent, client.since = unsent, _now()
            elif _now() - client.since > self.patience:
                client.transport.abort()

    def stop(self) -> None:
        """Stop waiting for bodies; requests whose bodies are here are answered."""
        for exchange in self._running:
            exchange.refuse(try_later("the daemon is stopping: send the rest to the next one", _STOPPING_RETRY_SECONDS))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request within its deadlines."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = self._clients.get(scope["client"])
        if client is None:
            # It left before its request was looked at.
            return
        # A health check must not fail because there is much to do.
        busy = sum(one.refusal is None for one in self._running) >= self._most and scope["path"] != ALIVE
        exchange = client.exchange = _Exchange(self, client.transport, receive, send)
        self._running.add(exchange)
        try:
            with CancelScope() as cancel:
                exchange.cancel = cancel if scope["method"] in ("GET", "HEAD") else None
                await (_busy if busy else self._app)(scope, exchange.receive, exchange.send)
        finally:
            self._running.discard(exchange)
            # The next request may have come in the meantime.
            if client.exchange is exchange:
                client.exchange, client.since = None, _now()


async def _busy(scope: Scope, receive: Receive, send: Send) -> None:
    problem = try_later("too many requests are running (max_connections)", _RETRY_SECONDS)
    problem.headers["Connection"] = "close"
    await answer(problem)(scope, receive, send)


class Connection(H11Protocol):
    """A connection that enters and leaves a gate, and refuses what is expensive to parse."""

    _entered: _Client

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        if self.client is None or _was_reset(transport):
            # Nobody reads the answer, and of thousands each would take its time.
            transport.abort()
        else:
            self._entered = self._gate.enter(self.client, transport)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._entered.heard = self.loop.time()
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        super().connection_lost(exc)
        if self.client is not None:
            self._gate.leave(self.client)

    @property
    def _gate(self) -> Gate:
        assert isinstance(self.config.app, Gate)
        return self.config.app

    def handle_events(self) -> None:
        """Parse what has come, unless it is a head of very many headers: h11 takes 6 µs for each."""
        if self.conn.their_state is h11.IDLE:
            head = _END_OF_HEAD.split(self.conn.trailing_data[0], maxsplit=1)[0]
            if head.count(b"\n") > _MOST_HEADERS:
                self.send_400_response(f"more than {_MOST_HEADERS} headers")
                return
        super().handle_events()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP; the connection just ends if another answer has begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()


def _was_reset(transport: asyncio.Transport) -> bool:
    """Return whether the client has reset the connection already."""
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), 0)
    return any(found & (select.POLLERR | select.POLLHUP) for _, found in poll.poll(0))
