"""Thread pools of the application: each kind of request has its own, which the others cannot fill."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from hierogram.daemon.web.protocol.pool import WorkPool
from hierogram.daemon.web.protocol.problems import try_later

READERS = 5
"""Threads of all other requests, which read the store for a moment."""
_CHANGES = 4
_DOWNLOAD_THREADS = 2
_MOST_DOWNLOADS = 16
_RETRY_SECONDS = 10

Found = TypeVar("Found")


class Download(StreamingResponse):
    """An answer that is made while it is sent; raises `ProblemError` if there are too many of them already.

    It has a thread only while a piece is made, so a client that reads slowly holds none.
    """

    def __init__(
        self,
        downloads: "Downloads",
        pieces: Iterator[str | bytes],
        close: Callable[[], object] = lambda: None,
        media_type: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """`close` is called when the answer has ended, complete or not."""
        super().__init__(downloads.made(pieces), headers=headers, media_type=media_type)
        self._downloads = downloads
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        try:
            with self._downloads:
                await super().__call__(scope, receive, send)
        finally:
            self._close()


class Downloads:
    """Answers that are being made while they are sent."""

    def __init__(self) -> None:
        self.threads = CapacityLimiter(_DOWNLOAD_THREADS)
        self._running = 0

    def __enter__(self) -> None:
        """Begin a download; raises `ProblemError` if there are too many."""
        if self._running >= _MOST_DOWNLOADS:
            raise try_later(f"{_MOST_DOWNLOADS} downloads are running, as many as there may be", _RETRY_SECONDS)
        self._running += 1

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._running -= 1

    async def made(self, pieces: Iterator[str | bytes]) -> AsyncIterator[str | bytes]:
        """Yield the pieces, each made in a thread."""

        def following() -> str | bytes | None:
            return next(pieces, None)

        while (piece := await to_thread.run_sync(following, limiter=self.threads)) is not None:
            yield piece


@dataclass(frozen=True)
class Threads:
    """The pools of an application; what has none of these runs in anyio's own, in up to `READERS` threads."""

    translations: WorkPool = field(default_factory=lambda: WorkPool("translations"))
    alignments: WorkPool = field(default_factory=lambda: WorkPool("alignments"))
    questions: WorkPool = field(default_factory=lambda: WorkPool("questions of language models"))
    downloads: Downloads = field(default_factory=Downloads)
    changes: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(_CHANGES))
    """Of requests that wait for the sampler, as withdrawals do."""

    async def change(self, work: Callable[[], Found]) -> Found:
        """Return the result of work that may wait for the sampler."""
        return await to_thread.run_sync(work, limiter=self.changes)
