"""The loop that answers HTTP: uvicorn on a socket of ours, in the thread of the loop."""

import asyncio
import fcntl
import logging
import os
import socket
import struct
import termios
import threading
from collections.abc import Callable
from math import ceil
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from hierogram.daemon.configuration import Configuration, HttpConfiguration
from hierogram.daemon.corpora.limits import Limits
from hierogram.daemon.decoding.requests import TranslateOptions
from hierogram.daemon.exceptions import ListenError
from hierogram.daemon.serving.supervision import Heart, StopFlag
from hierogram.daemon.web.app import build_app, build_browser
from hierogram.daemon.web.protocol.problems import answer, try_later
from hierogram.daemon.web.protocol.service import Service
from hierogram.storage.browsing.reader import Reader

_LOOK_SECONDS = 0.25
_BACKLOG = 128
_MOST_HEADER_BYTES = 1 << 16
_FULL_RETRY_SECONDS = 2
_BROWSING_GRACE_SECONDS = 3.0
_INT = struct.Struct("i")
_NO_LINGERING = struct.pack("ii", 1, 0)

_log = logging.getLogger(__name__)


async def _full(scope: Scope, receive: Receive, send: Send) -> None:
    problem = try_later("there are as many connections as may be (max_connections)", _FULL_RETRY_SECONDS)
    problem.headers["Connection"] = "close"
    await answer(problem)(scope, receive, send)


class PatientProtocol(H11Protocol):
    """uvicorn's protocol, with an end to its patience.

    A client has so long to begin and to end a request's head, and has to take at least so many bytes of its answers
    a second, as soon as the system does not take more for it.
    """

    slowest = 256.0
    """Bytes a second."""
    most = 100
    """Connections, and running requests, at a time; who asks beyond that is told to ask later."""

    _head: asyncio.TimerHandle | None = None
    _answer: asyncio.TimerHandle | None = None
    _own: Any = None

    def handle_events(self) -> None:
        """Gives a request that has come to the app, or to one that says that too many are here."""
        self._own = self._own or self.app
        full = len(self.connections) >= self.most or len(self.tasks) >= self.most
        self.app = _full if full else self._own
        super().handle_events()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        # Whatever the system does not take is told to `pause_writing`.
        transport.set_write_buffer_limits(high=0)
        super().connection_made(transport)
        # asyncio does so only for sockets that were made for TCP by name. Else an answer's body waits until its head is
        # acknowledged, which takes up to 40 ms.
        self._socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        super().data_received(data)
        if self._between_requests():
            self._expect_head()
        else:
            self._expect_nothing()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._expect_nothing()
        self._expect_no_reading()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._expect_no_reading()
        super().resume_writing()

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


def browse(reader: Reader, configuration: HttpConfiguration, ready: Callable[[str], None]) -> None:
    """Serves the pages of a store, without a daemon, until a signal ends it; `ready` hears the address.

    Raises `ListenError` where the address cannot be listened at.
    """
    with _listen(configuration) as listener:
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{port}/")
        server = _server(build_browser(reader, configuration), configuration, _BROWSING_GRACE_SECONDS)
        # Signals are uvicorn's here: it ends in good order, and passes them on.
        server.run(sockets=[listener])


class HttpLoop:
    """Answers HTTP for as long as the daemon runs; `address` is where, once it listens."""

    name = "http"
    sections = frozenset({"http", "intake", "translating"})

    def __init__(
        self,
        service: Service,
        configuration: Callable[[], HttpConfiguration],
        grace_seconds: float = 15.0,
        limits: Callable[[], Limits] = Limits,
        translating: Callable[[], TranslateOptions] = TranslateOptions,
    ) -> None:
        self._service = service
        self._configuration = configuration
        self._grace_seconds = grace_seconds
        self._limits = limits
        self._translating = translating
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._place: tuple[str, int] | None = None
        self.address: tuple[str, int] | None = None

    def prepare(self, configuration: Configuration) -> None:
        """Listens, for the next `run` to answer, unless it listens there already.

        Raises `ListenError`, and goes on where it is, where the address cannot be listened at.
        """
        http = configuration.http
        place = (http.host, http.port) if http.enabled else None
        if place == self._place:
            return
        listener = None if place is None else _listen(http)
        with self._lock:
            before, self._listener, self._place = self._listener, listener, place
        if before is not None:
            before.close()

    def run(self, stop: StopFlag, beat: Heart) -> None:
        """See `Loop.run`; raises `ListenError` where the address cannot be listened at."""
        configuration = self._configuration()
        if not configuration.enabled:
            while not stop.is_set():
                beat.well()
                stop.wait(_LOOK_SECONDS)
            return
        with self._lock:
            listener, self._listener = self._listener, None
        with listener or _listen(configuration) as listener:
            self.address = listener.getsockname()[:2]
            _log.info("listening at http://%s:%d", *self.address)

            def ending() -> bool:
                return stop.is_set() or self._service.stopping()

            app = build_app(self._service, configuration, self._limits(), ending, self._translating())
            asyncio.run(_answer(_server(app, configuration, self._grace_seconds), listener, stop, beat))


def _listen(configuration: HttpConfiguration) -> socket.socket:
    host = configuration.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, configuration.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # Python adds the address to the system's words; those of a name that is not found have no number of the system.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
        raise ListenError(
            f"cannot listen at {host} port {configuration.port}: {reason}: "
            "choose another with --host and --port, or in [http] of the configuration"
        ) from error


def _server(app: ASGIApp, configuration: HttpConfiguration, grace_seconds: float) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=type(
                "Protocol",
                (PatientProtocol,),
                {"slowest": configuration.min_bytes_per_second, "most": configuration.max_connections},
            ),
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            # Whoever asks would otherwise choose the address by which we count his requests.
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=ceil(configuration.client_timeout),
            timeout_graceful_shutdown=ceil(grace_seconds),
            h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
        )
    )


async def _answer(server: uvicorn.Server, listener: socket.socket, stop: StopFlag, beat: Heart) -> None:
    """Runs the server until the flag is set; the beat comes from the event loop, so it tells that that turns."""
    running: asyncio.Task[Any] = asyncio.create_task(server.serve(sockets=[listener]))
    while not running.done():
        if stop.is_set():
            server.should_exit = True
        beat.well()
        await asyncio.wait([running], timeout=_LOOK_SECONDS)
    await running
