"""Objects shared by routes, pages and protocols, and the types with which extensions add their own."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from fastapi import APIRouter
from starlette.responses import Response
from starlette.types import ASGIApp, Scope

from hierogram.daemon.configuration import Configuration
from hierogram.daemon.web.protocol.problems import ProblemError
from hierogram.daemon.web.protocol.rates import Rates
from hierogram.daemon.web.protocol.sessions import Sessions
from hierogram.daemon.web.protocol.threads import Threads

if TYPE_CHECKING:
    from hierogram.daemon.serving.service import Daemon


Service: TypeAlias = "Daemon"
"""The daemon behind the HTTP server. Its module is not imported, because pages without a daemon need no compiler."""
Shared = TypeVar("Shared")


class WebContext:
    """The daemon, its configuration, and the objects that routes, pages and protocols of one server share."""

    def __init__(self, service: Service, configuration: Configuration, stopping: Callable[[], bool]) -> None:
        self.service = service
        self.configuration = configuration
        self.http = configuration.http
        self.sessions = Sessions(self.http.token)
        self.rates = Rates(self.http.max_rate, self.http.max_burst)
        self.threads = Threads()
        self.stopping = stopping
        """Callback that returns True when the server stops and long requests must end."""
        self._shared: dict[Callable[..., Any], Any] = {}

    def shared(self, make: "Callable[[WebContext], Shared]") -> Shared:
        """Return the object that `make` builds for this server. It is built once."""
        if make not in self._shared:
            self._shared[make] = make(self)
        value: Shared = self._shared[make]
        return value


class Page(NamedTuple):
    """Router of a page and its entry in the navigation."""

    name: str
    path: str
    title: str
    router: APIRouter


class ProtocolApp(NamedTuple):
    """ASGI application for another protocol.

    `handles` returns True if a request belongs to the protocol. `refuse`, optional, renders a refusal of the guard in
    the protocol's format. Such an application applies the `Rates` to `POST` requests itself, because their API keys
    are in their bodies. `lifespan`, optional, is a context manager that is open while the server runs.
    """

    handles: Callable[[Scope], bool]
    app: ASGIApp
    refuse: Callable[[ProblemError], Response] | None = None
    lifespan: Callable[[], AbstractAsyncContextManager[None]] | None = None
