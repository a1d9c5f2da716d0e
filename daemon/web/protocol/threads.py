"""Thread pools by kind of request, so that no kind can starve another."""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from inspect import iscoroutinefunction
from operator import itemgetter
from traceback import clear_frames
from typing import Any

from anyio import CapacityLimiter, Event, Semaphore, create_task_group, current_time, fail_after, to_thread
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from hierogram.daemon.deadline import Deadline, Result
from hierogram.daemon.exceptions import BusyError, DeadlineError
from hierogram.daemon.web.protocol.problems import try_later

WORK_SECONDS = 30.0
"""Time limit in seconds for the wait in a `WorkPool`, and again for the work itself."""
_WORK_THREADS = 2
_MAX_WAITING = 16
READER_THREADS = 5
"""Number of threads in the default pool, for all other requests, which are short reads of the store."""
_CHANGE_THREADS = 4
_DOWNLOAD_THREADS = 2
_MAX_DOWNLOADS = 16
_RETRY_SECONDS = 10
_QUEUE_FACTOR = 20.0
"""Time in which later requests may overtake a request, as a multiple of its expected duration."""
_RECENT_WEIGHT = 0.2
"""Weight of the last duration in an expected duration."""

Pieces = Iterator[str | bytes]


class WorkPool:
    """Pool of two threads for all routes that do the same work. `name` is its plural noun in messages."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._turns = Semaphore(_WORK_THREADS, fast_acquire=True)
        self._threads = CapacityLimiter(_WORK_THREADS)

    async def run(self, work: Callable[[], Result], request: Request | None = None) -> Result:
        """Run work in a thread, and return the result.

        The work must call `check_deadline` often. If the client of `request` disconnects, the work is canceled. Raises
        `BusyError` for a full queue or a long wait, and `DeadlineError` for long or canceled work.
        """
        if self._turns.statistics().tasks_waiting >= _MAX_WAITING:
            raise BusyError(f"too many {self._name} are waiting: try again in a moment")
        results: list[Result] = []
        failed: list[Exception] = []
        deadline = Deadline(WORK_SECONDS)
        async with create_task_group() as group:

            async def watch(request: Request) -> None:
                try:
                    while (await request.receive())["type"] != "http.disconnect":
                        pass
                except Exception as error:
                    # Receiving may fail, because the rest of an unread body may arrive too slowly.
                    failed.append(error)
                finally:
                    # Cancel the deadline even if the request is canceled, because the thread would continue.
                    deadline.cancel()
                group.cancel_scope.cancel()

            if request is not None:
                group.start_soon(watch, request)
            try:
                results.append(await self._in_turn(work, deadline))
            except Exception as error:
                # Some frames refer to the error, and would keep the data of the work until a garbage collection.
                clear_frames(error.__traceback__)
                # Raise the error later, because the task group would wrap it in an `ExceptionGroup`.
                failed.append(error)
            group.cancel_scope.cancel()
        if failed:
            raise failed.pop()
        if not results:
            raise DeadlineError("the client disconnected: request canceled")
        return results[0]

    async def _in_turn(self, work: Callable[[], Result], deadline: Deadline) -> Result:
        try:
            with fail_after(WORK_SECONDS):
                await self._turns.acquire()
        except TimeoutError:
            raise BusyError(f"other {self._name} were running for {WORK_SECONDS:g} s: try again") from None
        try:
            return await to_thread.run_sync(deadline.run, work, limiter=self._threads)
        finally:
            self._turns.release()


class Downloads:
    """Number of running downloads, and the threads that generate their content."""

    def __init__(self) -> None:
        self.threads = CapacityLimiter(_DOWNLOAD_THREADS)
        self.running = 0

    async def stream(self, pieces: Pieces) -> AsyncIterator[str | bytes]:
        """Yield the pieces of a download, each generated in a thread. No piece may be None."""
        while (piece := await to_thread.run_sync(next, pieces, None, limiter=self.threads)) is not None:
            yield piece


class Download(StreamingResponse):
    """Streaming response generated in threads. `close` is called at the end, even if it is interrupted."""

    def __init__(
        self, downloads: Downloads, pieces: Pieces, close: Callable[[], object] = lambda: None, **options: Any
    ) -> None:
        super().__init__(downloads.stream(pieces), **options)
        self._downloads = downloads
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response. Raises `ProblemError` (503) if too many downloads are running."""
        downloads = self._downloads
        with ExitStack() as stack:
            stack.callback(self._close)
            if downloads.running >= _MAX_DOWNLOADS:
                raise try_later(f"too many downloads, the limit is {_MAX_DOWNLOADS}", _RETRY_SECONDS)
            downloads.running += 1
            try:
                await super().__call__(scope, receive, send)
            finally:
                downloads.running -= 1


class ReadTurns:
    """Queue for the default thread pool, as a dependency of routes. Short requests overtake long requests.

    The expected duration is a running mean over requests for the same route with a query of similar length.
    """

    def __init__(self, turns: int = READER_THREADS) -> None:
        self._free = turns
        self._queue: list[tuple[float, Event]] = []
        self._expected: dict[tuple[str, int], float] = {}

    async def __call__(self, request: Request) -> AsyncIterator[None]:
        """Wait for a turn, and pass the turn on when the endpoint has returned. Coroutines need no turn."""
        route = request.scope["route"]
        if iscoroutinefunction(route.endpoint):
            yield
            return
        kind = (route.path, len(request.scope["query_string"]).bit_length())
        await self._wait(self._expected.get(kind, 0.0))
        started = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - started
            self._expected[kind] = (1 - _RECENT_WEIGHT) * self._expected.get(kind, seconds) + _RECENT_WEIGHT * seconds
            self._pass_on()

    async def _wait(self, expected: float) -> None:
        if self._free:
            self._free -= 1
            return
        turn = current_time() + _QUEUE_FACTOR * expected, Event()
        self._queue.append(turn)
        try:
            await turn[1].wait()
        except BaseException:
            if turn in self._queue:
                self._queue.remove(turn)
            else:
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        if self._queue:
            turn = min(self._queue, key=itemgetter(0))
            self._queue.remove(turn)
            turn[1].set()
        else:
            self._free += 1


class ThreadPools:
    """Thread pools of an application. Other requests run in anyio's default pool of `READER_THREADS`."""

    def __init__(self) -> None:
        self.translations = WorkPool("translations")
        self.alignments = WorkPool("alignments")
        self.mcp_requests = WorkPool("MCP requests")
        self.downloads = Downloads()
        self.read_turns = ReadTurns()
        self._changes = CapacityLimiter(_CHANGE_THREADS)

    async def run_change(self, work: Callable[[], Result]) -> Result:
        """Run work that may wait for the sampler, such as a withdrawal, in a thread. Returns the result."""
        return await to_thread.run_sync(work, limiter=self._changes)
