"""The loop that answers HTTP: uvicorn on a socket of ours, in the thread of the loop."""

import asyncio
import fcntl
import logging
import re
import resource
import select
import socket
import struct
import termios
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from math import ceil
from typing import Any

import h11
import uvicorn
from anyio import CancelScope
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from hierogram.daemon.configuration import Configuration, HttpConfiguration, extension_sections
from hierogram.daemon.exceptions import DaemonError
from hierogram.daemon.serving.supervision import Heartbeat, StopFlag
from hierogram.daemon.text.rejections import Limits
from hierogram.daemon.web.app import build_app, build_browser
from hierogram.daemon.web.protocol.problems import ProblemError, answer, try_later
from hierogram.daemon.web.protocol.service import Service
from hierogram.storage.browsing.reader import Reader

_LOOK_SECONDS = 0.25
_BACKLOG = 4096
_A_TURN = 16
_BEYOND = 32
"""Connections beyond those that may be: they hear that they shall come later, and a few ask whether we live."""
_KEPT_BACK = 256
"""Descriptors that no connection takes: the store's, the spool's, those of exports and workers."""
_ALIVE = "/healthz"
_ASKING = ("GET", "HEAD")
_ENDING_RETRY_SECONDS = 5
_MOST_HEADER_BYTES = 1 << 16
_MOST_HEADERS = 256
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_BETWEEN_SECONDS = 0.1
"""Before the next of requests that came in one piece is looked at: no client sends hundreds of them without hearing."""
_FULL_RETRY_SECONDS = 2
_BROWSING_GRACE_SECONDS = 3.0
_INT = struct.Struct("i")
_NO_LINGERING = struct.pack("ii", 1, 0)

_log = logging.getLogger(__name__)


async def _full(scope: Scope, receive: Receive, send: Send) -> None:
    problem = try_later("there are as many running requests as may be (max_connections)", _FULL_RETRY_SECONDS)
    problem.headers["Connection"] = "close"
    await answer(problem)(scope, receive, send)


class PatientProtocol(H11Protocol):
    """uvicorn's protocol, with an end to its patience.

    A request has one deadline, from its first byte to the last of its body: the client's timeout, and longer only for
    as long as the body comes faster than `slowest`. A client also has so long to begin, and has to take at least so
    many bytes of its answers a second, as soon as the system does not take more for it.

    Where there are more connections than `most`, the one that has kept us waiting for its client's next byte the
    longest has to leave, in the middle of a body too. So those who ask are answered whatever others hold open.
    """

    slowest = 256.0
    """Bytes a second."""
    most = 100
    """Connections, and running requests, at a time; who asks beyond that is answered that he shall ask later."""
    running: set["PatientProtocol"]
    """Connections, open or not, whose requests are being answered; of one server."""

    _head: asyncio.TimerHandle | None = None
    _answer: asyncio.TimerHandle | None = None
    _own: Any = None
    _began: float | None = None
    """When the first byte of the request came, in seconds of the loop's clock; None before."""
    _heard = 0.0
    """When anything came."""
    _body: asyncio.Timeout | None = None
    """The deadline of the body that is waited for, if one is."""
    _refusal: ProblemError | None = None
    """Why the rest of the request is not waited for."""
    _asking: CancelScope | None = None
    """The request that is being answered, if it only asks: nobody needs the answer once its client has left."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        # Whatever the system does not take is told to `pause_writing`.
        transport.set_write_buffer_limits(high=0)
        super().connection_made(transport)
        self._own, self.app = self.app, self._answer_in_time
        self._heard = self.loop.time()
        # asyncio does so only for sockets that were made for TCP by name. Else an answer's body waits until its head is
        # acknowledged, which takes up to 40 ms.
        self._socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._expect_head()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._heard = self.loop.time()
        if self._between_requests() and self._began is None:
            self._began = self._heard
        super().data_received(data)
        if self._between_requests():
            self._expect_head()
        else:
            self._expect_nothing()

    def handle_events(self) -> None:
        """Look at what has come; a head of very many headers is refused before each of them is taken apart."""
        if self.conn.their_state is h11.IDLE:
            head = _END_OF_HEAD.split(self.conn.trailing_data[0], maxsplit=1)[0]
            if head.count(b"\n") > _MOST_HEADERS:
                self.send_400_response(f"more than {_MOST_HEADERS} headers")
                return
        super().handle_events()

    def on_response_complete(self) -> None:
        """Go on with the connection's next request: later, where it has come before this answer was sent."""
        waiting = self.conn.their_state is h11.DONE and bool(self.conn.trailing_data[0])
        if waiting and not self.transport.is_closing():
            self.loop.call_later(_BETWEEN_SECONDS, super().on_response_complete)
        else:
            super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._expect_nothing()
        self._expect_no_reading()
        super().connection_lost(exc)
        if self._asking is not None:
            self._asking.cancel()

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._expect_no_reading()
        super().resume_writing()

    def shutdown(self) -> None:
        """Ends in good order: an answer is finished, the rest of a body is not waited for."""
        self._refuse(try_later("the daemon is stopping: send the rest to the next one", _ENDING_RETRY_SECONDS))
        super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Answers what is not HTTP; where an answer has begun, none can, and the connection ends."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()
        if not self._between_requests():
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    async def _answer_in_time(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Has the app answer a request, whose body comes in time or not at all; or says that too many are here."""
        cycle = self.cycle
        patience, size = float(self.timeout_keep_alive), 0
        # With what its head took; what the app does between two looks at the body is not the client's time.
        waited = self.loop.time() - (self._began or self._heard)
        self._began = None
        coming, started = True, False

        async def receive_in_time() -> Message:
            nonlocal coming, size, waited
            if coming and self._refusal is not None and cycle.more_body:
                return self._no_more(started)
            if not coming:
                return await receive()
            since = self.loop.time()
            try:
                async with asyncio.timeout(min(patience, patience + size / self.slowest - waited)) as self._body:
                    message = await receive()
            except TimeoutError:
                seconds = waited + self.loop.time() - since
                slow = f"the client is too slow: {size} bytes of the body came in {seconds:.0f} s; see client_timeout"
                problem = ProblemError(HTTPStatus.REQUEST_TIMEOUT, slow, {"Connection": "close"})
                self._refusal = self._refusal or problem
                return self._no_more(started)
            finally:
                self._body = None
                waited += self.loop.time() - since
            size += len(message.get("body", b""))
            coming = message["type"] == "http.request" and bool(message.get("more_body"))
            return message

        async def send_on(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        # Whoever starts daemons again asks whether this one lives, also while it has more to do than it can.
        full = self._running() >= self.most and scope["path"] != _ALIVE
        self.running.add(self)
        try:
            with CancelScope() as scope_of_request:
                if scope["method"] in _ASKING:
                    self._asking = scope_of_request
                await (_full if full else self._own)(scope, receive_in_time, send_on)
        finally:
            self._asking = None
            self.running.discard(self)

    def _no_more(self, started: bool) -> Message:
        """Ends a body that is not waited for: raises why, or is as if the client had left, if the answer has begun."""
        assert self._refusal is not None
        if started:
            return {"type": "http.disconnect"}
        raise self._refusal

    def _refuse(self, problem: ProblemError) -> None:
        """Has the request hear, if its body is still coming, that the rest is not waited for."""
        problem.headers["Connection"] = "close"
        self._refusal = problem
        if self._body is not None and not self._body.expired():
            self._body.reschedule(self.loop.time())

    def _running(self) -> int:
        """Requests that are being answered, but for those that end because their bodies are not waited for.

        Those of clients that have left count, too: they still take threads, and connections to the store.
        """
        return sum(one._refusal is None for one in self.running)

    def _all(self) -> "list[PatientProtocol]":
        return [one for one in self.connections if isinstance(one, PatientProtocol)]

    def _make_room(self) -> None:
        """Has a connection leave if there are too many: the one that waits for its client longest, or the new one."""
        here = [one for one in self._all() if one._refusal is None and not one.transport.is_closing()]
        if len(here) <= self.most:
            return
        waiting = [one for one in here if one is not self and (one._between_requests() or one._body is not None)]
        if len(self.connections) > self.most + _BEYOND and (not waiting or len(here) < len(self.connections)):
            self.transport.abort()
        elif waiting:
            slowest = min(waiting, key=lambda one: one._heard)
            if slowest._between_requests():
                slowest.transport.close()
            else:
                slowest._refuse(try_later("others need the connection, and the body came too slowly", 2))

    def _expect_reading(self) -> None:
        self._answer = self.loop.call_later(self.timeout_keep_alive, self._look_at_reading, self._unread())

    def _expect_no_reading(self) -> None:
        if self._answer is not None:
            self._answer.cancel()
            self._answer = None

    def _unread(self) -> int:
        """Bytes of answers that the client's side has not acknowledged."""
        # The system takes more only when a third of what it holds is gone, so that it has to be asked too.
        held = fcntl.ioctl(self._socket().fileno(), termios.TIOCOUTQ, bytes(_INT.size))
        return self.transport.get_write_buffer_size() + int(_INT.unpack(held)[0])

    def _socket(self) -> socket.socket:
        connection: socket.socket = self.transport.get_extra_info("socket")
        return connection

    def _look_at_reading(self, unread: int) -> None:
        if unread - self._unread() < self.timeout_keep_alive * self.slowest:
            self._answer = None
            # With a reset, since the system would keep what it has taken for as long as it lasts.
            self._socket().setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING)
            self.transport.abort()
        else:
            self._expect_reading()

    def _between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _expect_head(self) -> None:
        if self._head is None and not self.transport.is_closing():
            self._head = self.loop.call_later(self.timeout_keep_alive, self._give_up)

    def _expect_nothing(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _give_up(self) -> None:
        self._head = None
        if self._between_requests():
            self.transport.close()


class _Listener(socket.socket):
    """A socket to listen at that leaves descriptors for the store and the spool: no connection takes the last ones.

    The system gives each new descriptor the lowest number that is free. So a connection whose number is high says how
    many are taken, by whomever, and is closed at once.
    """

    room = 1 << 30
    _taken = 0

    def accept(self) -> tuple[socket.socket, Any]:
        """See `socket.socket.accept`; connections for which there is no descriptor to spare are closed.

        Few are taken in one turn of the event loop: of thousands that come at once, the first would have to make room
        for the last before what they ask is looked at.
        """
        self._taken += 1
        if self._taken > _A_TURN:
            self._taken = 0
            raise BlockingIOError
        for _ in range(_BACKLOG):
            connection, address = super().accept()
            if connection.fileno() < self.room and not _has_left(connection):
                return connection, address
            connection.close()
        raise ConnectionAbortedError("no connection that could be kept")


def _has_left(connection: socket.socket) -> bool:
    """Return whether a client has reset its connection, and so hears no answer."""
    poll = select.poll()
    poll.register(connection, 0)
    return any(found & (select.POLLERR | select.POLLHUP) for _, found in poll.poll(0))


def _room() -> int:
    """Numbers of descriptors that connections may have: all that a process may open but for those kept back."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 30 if limit == resource.RLIM_INFINITY else limit - min(_KEPT_BACK, limit // 2)


def browse(store: str, configuration: HttpConfiguration, ready: Callable[[str, str], None]) -> None:
    """Serves the pages of a store, without a daemon, until a signal ends it; `ready` hears its URL and the address.

    Raises `DaemonError` where the address cannot be listened at, and what `Reader` raises.
    """
    with Reader(store) as reader, _bound(configuration) as listener:
        server = _server(build_browser(reader, configuration), configuration, _BROWSING_GRACE_SECONDS)
        listener.listen(_BACKLOG)
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        ready(reader.url, f"http://{shown}:{port}/")
        # Signals are uvicorn's here: it ends in good order, and passes them on.
        server.run(sockets=[listener])


class HttpLoop:
    """Answers HTTP for as long as the daemon runs; `address` is where, once it listens."""

    name = "http"
    sections = frozenset({"http", "intake", *extension_sections()})

    def __init__(
        self,
        service: Service,
        configuration: Callable[[], HttpConfiguration],
        grace_seconds: float = 15.0,
        limits: Callable[[], Limits] = Limits,
        sections: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self._service = service
        self._configuration = configuration
        self._grace_seconds = grace_seconds
        self._limits = limits
        self._extension_sections = sections
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._place: tuple[str, int] | None = None
        self.address: tuple[str, int] | None = None

    def prepare(self, configuration: Configuration) -> None:
        """Bind the address for the next `run`, which listens and answers, unless it is bound already.

        Until then connections are refused at once, and do not wait for kernels to be loaded. Raises `DaemonError`, and
        goes on where it is, where the address cannot be listened at.
        """
        http = configuration.http
        place = (http.host, http.port) if http.enabled else None
        if place == self._place:
            return
        listener = None if place is None else _bound(http)
        with self._lock:
            before, self._listener, self._place = self._listener, listener, place
        if before is not None:
            before.close()

    def run(self, stop: StopFlag, beat: Heartbeat) -> None:
        """See `Loop.run`; raises `DaemonError` where the address cannot be listened at."""
        configuration = self._configuration()
        if not configuration.enabled:
            while not stop.is_set():
                beat.well()
                stop.wait(_LOOK_SECONDS)
            return
        with self._lock:
            listener, self._listener = self._listener, None
        with listener or _bound(configuration) as listener:

            def ending() -> bool:
                return stop.is_set() or self._service.stopping()

            app = build_app(self._service, configuration, self._limits(), ending, self._extension_sections())
            listener.listen(_BACKLOG)
            self.address = listener.getsockname()[:2]
            _log.info("listening at http://%s:%d", *self.address)
            asyncio.run(_answer(_server(app, configuration, self._grace_seconds), listener, stop, beat))


def _bound(configuration: HttpConfiguration) -> socket.socket:
    host = configuration.host.strip("[]")
    listener = _Listener(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, configuration.port))
    except OSError as error:
        listener.close()
        raise DaemonError(
            f"cannot listen at {host} port {configuration.port}: {error.strerror or error}: "
            "choose another with --host and --port, or in [http] of the configuration"
        ) from error
    listener.room = _room()
    return listener


def _server(app: ASGIApp, configuration: HttpConfiguration, grace_seconds: float) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=type(
                "Protocol",
                (PatientProtocol,),
                {
                    "running": set(),
                    "slowest": configuration.min_bytes_per_second,
                    # Where descriptors are few, idle connections have to leave before none can be taken.
                    "most": min(configuration.max_connections, max(_room() - 4 * _BEYOND, 1)),
                },
            ),
            backlog=_BACKLOG,
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            # It warns of what is not HTTP, and of upgrades: any stranger could fill a disk with that.
            log_level=logging.ERROR,
            access_log=False,
            # Whoever asks would otherwise choose the address by which we count his requests.
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=ceil(configuration.client_timeout),
            timeout_graceful_shutdown=ceil(grace_seconds),
            h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
        )
    )


async def _answer(server: uvicorn.Server, listener: socket.socket, stop: StopFlag, beat: Heartbeat) -> None:
    """Runs the server until the flag is set; the beat comes from the event loop, so it tells that that turns."""
    running: asyncio.Task[Any] = asyncio.create_task(server.serve(sockets=[listener]))
    while not running.done():
        if stop.is_set():
            server.should_exit = True
        beat.well()
        await asyncio.wait([running], timeout=_LOOK_SECONDS)
    await running
