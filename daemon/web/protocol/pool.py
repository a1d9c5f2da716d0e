"""Thread pool for one kind of expensive requests, with a deadline for each request."""

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, Semaphore, create_task_group, fail_after, to_thread
from starlette.requests import Request

from hierogram.daemon.deadline import Deadline
from hierogram.daemon.exceptions import BusyError, DeadlineError

SECONDS = 30.0
"""Longest wait for a thread, and then the time limit of the work."""
_THREADS = 2
_MAX_WAITING = 16

Found = TypeVar("Found")


class WorkPool:
    """Thread pool shared by all routes that do the same kind of work."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._seconds = SECONDS
        self._turns = Semaphore(_THREADS, fast_acquire=True)
        self._threads = CapacityLimiter(_THREADS)
        self._waiting = 0

    async def run(self, work: Callable[[], Found], request: Request | None = None) -> Found:
        """Run the work, which checks its deadline, in a thread and return its result.

        The work is cancelled if the client of `request`, whose body has been read, disconnects. Raises `BusyError` if
        too many requests are waiting or this request has waited too long, `DeadlineError` if the work exceeds its
        deadline or the client disconnects, and the errors of the work.
        """
        if self._waiting >= _MAX_WAITING:
            raise BusyError(f"too many {self._what} are waiting: try again in a moment")
        found: list[Found] = []
        failed: list[Exception] = []
        deadline = Deadline(self._seconds)
        async with create_task_group() as group:

            async def watch(request: Request) -> None:
                try:
                    while (await request.receive())["type"] != "http.disconnect":
                        pass
                except Exception as error:
                    # Receiving fails if the rest of an unread body arrives too slowly.
                    failed.append(error)
                finally:
                    # Runs also if the request is cancelled: the thread continues until it checks the deadline.
                    deadline.cancel()
                group.cancel_scope.cancel()

            if request is not None:
                group.start_soon(watch, request)
            try:
                found.append(await self._in_turn(work, deadline))
            except Exception as error:
                # The task group would wrap the error in an `ExceptionGroup`.
                failed.append(error)
            group.cancel_scope.cancel()
        if failed:
            raise failed[0]
        if not found:
            raise DeadlineError("the client disconnected: request canceled")
        return found[0]

    async def _in_turn(self, work: Callable[[], Found], deadline: Deadline) -> Found:
        self._waiting += 1
        try:
            with fail_after(self._seconds):
                await self._turns.acquire()
        except TimeoutError:
            raise BusyError(f"other {self._what} were running for {self._seconds:g} s: try again") from None
        finally:
            self._waiting -= 1

        def timed() -> Found:
            deadline.restart()
            with deadline.applied():
                return work()

        try:
            return await to_thread.run_sync(timed, limiter=self._threads)
        finally:
            self._turns.release()
