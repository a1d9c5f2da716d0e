"""Objects shared by routes, pages and protocols, and types that extensions return."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from fastapi import APIRouter

from hierogram.daemon.configuration import Configuration
from hierogram.daemon.web.protocol.access import RateLimiter, Sessions
from hierogram.daemon.web.protocol.threads import ThreadPools

if TYPE_CHECKING:
    from hierogram.daemon.serving.service import Daemon


Service: TypeAlias = "Daemon"
"""The daemon. Import it only for types, so that `hierogram browse` does not load the compiler."""
Shared = TypeVar("Shared")


class WebContext:
    """Daemon, configuration, and other objects that routes, pages and protocols of a server share."""

    def __init__(self, service: Service, configuration: Configuration, stopping: Callable[[], bool]) -> None:
        self.service = service
        self.configuration = configuration
        self.http = configuration.http
        self.sessions = Sessions(self.http.token)
        self.rate_limiter = RateLimiter(self.http.max_rate, self.http.max_burst)
        self.threads = ThreadPools()
        self.stopping = stopping
        """Callback that returns True when long requests must end, because the server stops."""
        self._shared: dict[Callable[..., Any], Any] = {}

    def shared(self, make: "Callable[[WebContext], Shared]") -> Shared:
        """Return the result of `make`, which is called once per server."""
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
