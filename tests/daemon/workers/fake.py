"""A cluster within the process, whose workers are lost when a test says so."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hierogram.daemon.workers.cluster import WorkerLostError
from hierogram.daemon.workers.worker import Worker


class Called(NamedTuple):
    worker: int
    method: str
    arguments: tuple[object, ...]


@dataclass
class FakeCluster:
    """`fails` says of a call, by its number, whether the worker is lost in it, before (-1) or after (1) the work is
    done; `room` is how many workers there can be at a time."""

    wanted: int = 2
    fails: Callable[[int, str], int] = lambda number, method: 0
    room: int = 100
    living: dict[int, Worker] = field(default_factory=dict)
    started: int = 0
    calls: int = 0
    lost: int = 0

    def workers(self) -> list[int]:
        return list(self.living)

    def start(self) -> int | None:
        if len(self.living) >= self.room:
            return None
        self.started += 1
        self.living[self.started] = Worker()
        return self.started

    def share(self, value: object) -> object:
        return value

    def call(self, worker: int, method: str, *arguments: object) -> Called:
        return Called(worker, method, arguments)

    def result(self, call: Called) -> Any:
        self.calls += 1
        fate = self.fails(self.calls, call.method)
        found = None
        if call.worker not in self.living:
            raise WorkerLostError(f"{call.worker} is lost")
        if fate >= 0:
            # Between processes everything is sent as bytes.
            arguments = pickle.loads(pickle.dumps(call.arguments))
            found = pickle.loads(pickle.dumps(getattr(self.living[call.worker], call.method)(*arguments)))
        if fate:
            self.lost += 1
            del self.living[call.worker]
            raise WorkerLostError(f"{call.worker} is lost in {call.method}")
        return found

    def close(self) -> None:
        self.living.clear()
