"""Thread pools of the application. Each kind of request has its own pool, so no kind can starve another."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from hierogram.daemon.web.protocol.pool import WorkPool
from hierogram.daemon.web.protocol.problems import try_later

READERS = 5
"""Threads for all other requests, which are short reads of the store."""
_CHANGES = 4
_DOWNLOAD_THREADS = 2
_MAX_DOWNLOADS = 16
_RETRY_SECONDS = 10

Found = TypeVar("Found")


class Download(StreamingResponse):
    """Streaming response that uses a thread only while a piece is generated. Raises `ProblemError` if too many run."""

    def __init__(
        self,
        downloads: "Downloads",
        pieces: Iterator[str | bytes],
        close: Callable[[], object] = lambda: None,
        media_type: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Create the response; `close` is called when it ends, complete or not."""
        super().__init__(downloads.stream(pieces), headers=headers, media_type=media_type)
        self._downloads = downloads
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        try:
            with self._downloads:
                await super().__call__(scope, receive, send)
        finally:
            self._close()


class Downloads:
    """Downloads in progress and their threads."""

    def __init__(self) -> None:
        self.threads = CapacityLimiter(_DOWNLOAD_THREADS)
        self._running = 0

    def __enter__(self) -> None:
        if self._running >= _MAX_DOWNLOADS:
            raise try_later(f"too many downloads, the limit is {_MAX_DOWNLOADS}", _RETRY_SECONDS)
        self._running += 1

    def __exit__(self, *_: object) -> None:
        self._running -= 1

    async def stream(self, pieces: Iterator[str | bytes]) -> AsyncIterator[str | bytes]:
        """Yield the pieces, each generated in a thread."""

        def following() -> str | bytes | None:
            return next(pieces, None)

        while (piece := await to_thread.run_sync(following, limiter=self.threads)) is not None:
            yield piece


@dataclass(frozen=True)
class Threads:
    """Thread pools of an application. Other requests run in anyio's default pool of `READERS` threads."""

    translations: WorkPool = field(default_factory=lambda: WorkPool("translations"))
    alignments: WorkPool = field(default_factory=lambda: WorkPool("alignments"))
    questions: WorkPool = field(default_factory=lambda: WorkPool("MCP requests"))
    downloads: Downloads = field(default_factory=Downloads)
    changes: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(_CHANGES))
    """Limiter of requests that wait for the sampler, such as withdrawals."""

    async def change(self, work: Callable[[], Found]) -> Found:
        """Run work that may wait for the sampler in a thread, and return its result."""
        return await to_thread.run_sync(work, limiter=self.changes)
