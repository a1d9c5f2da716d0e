"""A cluster within the process, whose workers are lost on demand."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hierogram.daemon.workers.worker import Worker, WorkerLostError


@dataclass(eq=False)
class Called:
    worker: int
    method: str
    arguments: tuple[object, ...]
    found: Any = None
    lost: str = ""


@dataclass
class FakeCluster:
    """A cluster of fake workers.

    `fails` gets the number and the method of a call. It returns -1 or 1 if the worker is lost before or after the work,
    and 0 if it is not lost. `room` is the maximum number of workers.
    """

    target_workers: int = 2
    fails: Callable[[int, str], int] = lambda number, method: 0
    room: int = 100
    living: dict[int, Worker] = field(default_factory=dict)
    started: int = 0
    calls: int = 0
    called: list[Called] = field(default_factory=list)
    lost: int = 0
    queues: dict[int, list[Called]] = field(default_factory=dict)
    threads: int = 1

    def workers(self) -> list[int]:
        return list(self.living)

    def start(self) -> int | None:
        if len(self.living) >= self.room:
            return None
        self.started += 1
        self.living[self.started] = Worker()
        return self.started

    def put(self, value: object) -> object:
        return value

    def call(self, worker: int, method: str, *arguments: object) -> Called:
        call = Called(worker, method, arguments)
        self.called.append(call)
        self.queues.setdefault(worker, []).append(call)
        return call

    def result(self, call: Called) -> Any:
        # A worker performs its calls in order, and only when a result is requested.
        queue = self.queues[call.worker]
        while call in queue:
            self.run(queue.pop(0))
        if call.lost:
            raise WorkerLostError(call.lost)
        return call.found

    def run(self, call: Called) -> None:
        self.calls += 1
        fate = self.fails(self.calls, call.method)
        if call.worker not in self.living:
            call.lost = f"{call.worker} is lost"
            return
        if fate >= 0:
            # Pickle everything, as calls between processes do.
            arguments = pickle.loads(pickle.dumps(call.arguments))
            call.found = pickle.loads(pickle.dumps(getattr(self.living[call.worker], call.method)(*arguments)))
        if fate:
            self.lost += 1
            del self.living[call.worker]
            call.lost = f"{call.worker} is lost in {call.method}"

    def reference(self, call: Called) -> object:
        assert not call.lost
        return call.found

    def close(self) -> None:
        self.living.clear()
