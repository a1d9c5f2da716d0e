"""What is asked of the machines that workers run on, whatever runs them."""

from typing import Any, Protocol

Call = Any
"""A call of a worker that may not have ended yet."""
Shared = Any
"""A value that many calls take, and that is sent once."""


class WorkerLostError(Exception):
    """A worker has ended, or does not answer; what it held is gone."""


class Cluster(Protocol):
    """Starts and ends workers, and calls their methods."""

    @property
    def wanted(self) -> int:
        """How many workers there should be at present, 1 at least."""

    @property
    def crowded(self) -> bool:
        """Whether workers keep all processors of this machine busy."""

    def workers(self) -> list[int]:
        """The numbers of the workers that there are, none of which is known to be lost."""

    def start(self) -> int | None:
        """Start one more worker; None where there is no room for it."""

    def share(self, value: object) -> Shared:
        """Send a value once, for calls of many workers."""

    def call(self, worker: int, method: str, *arguments: object) -> Call:
        """Call a method of a worker; what was shared can be among the arguments."""

    def result(self, call: Call) -> Any:
        """What the call gave; raises what it raised, or `WorkerLostError`, and then the worker is none any more."""

    def shared(self, call: Call) -> Shared:
        """What a call gave, for calls of many workers; it goes from worker to worker."""

    def close(self) -> None:
        """End all workers."""
