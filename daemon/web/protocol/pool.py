"""Threads for one kind of expensive requests: few at a time, each with a deadline, none for a client that has left."""

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, Semaphore, create_task_group, fail_after, to_thread
from starlette.requests import Request

from hierogram.daemon.deadline import Deadline
from hierogram.daemon.exceptions import BusyError, DeadlineError

SECONDS = 30.0
"""How long a request may wait for a thread, and then how long it may work."""
_THREADS = 2
_MOST_WAITING = 16

Found = TypeVar("Found")


class WorkPool:
    """Threads that all entrances to the same kind of work share."""

    def __init__(self, what: str) -> None:
        """`what` names the work in messages, in the plural."""
        self._what = what
        self._seconds = SECONDS
        self._turns = Semaphore(_THREADS, fast_acquire=True)
        self._threads = CapacityLimiter(_THREADS)
        self._waiting = 0

    async def run(self, work: Callable[[], Found], request: Request | None = None) -> Found:
        """Return the result of the work, which checks its deadline.

        The work ends if the client of `request`, whose body has been read, leaves. Raises `BusyError` if too many
        requests wait or this one has waited too long, `DeadlineError`, and what the work raises.
        """
        if self._waiting >= _MOST_WAITING:
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
                    # Of a body that nobody needs, and that does not come.
                    failed.append(error)
                finally:
                    # Also if the request is cancelled: the thread goes on until it checks.
                    deadline.cancel()
                group.cancel_scope.cancel()

            if request is not None:
                group.start_soon(watch, request)
            try:
                found.append(await self._in_turn(work, deadline))
            except Exception as error:
                # Task groups would wrap it.
                failed.append(error)
            group.cancel_scope.cancel()
        if failed:
            raise failed[0]
        if not found:
            raise DeadlineError("the client has left: nobody needs the answer")
        return found[0]

    async def _in_turn(self, work: Callable[[], Found], deadline: Deadline) -> Found:
        self._waiting += 1
        try:
            with fail_after(self._seconds):
                await self._turns.acquire()
        except TimeoutError:
            raise BusyError(f"other {self._what} took all the time for {self._seconds:g} s: try again") from None
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
