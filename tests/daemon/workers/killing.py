"""A Ray cluster whose workers are killed at given calls. Importing this module imports Ray."""

import os
import signal
from collections import Counter
from typing import Any

from hierogram.daemon.workers.options import Workers
from hierogram.daemon.workers.ray_cluster import RayCluster


class KillingCluster(RayCluster):
    """Ray cluster that kills the process of a worker right after the calls of a method with the given numbers."""

    def __init__(self, at: dict[str, tuple[int, ...]]) -> None:
        super().__init__(Workers(2), 1)
        self._at = at
        self._calls: Counter[str] = Counter()
        self.killed = 0

    def call(self, worker: int, method: str, *arguments: object) -> Any:
        self._calls[method] += 1
        is_killed = self._calls[method] in self._at.get(method, ())
        process = self.result(super().call(worker, "ready")) if is_killed else None
        called = super().call(worker, method, *arguments)
        if process is not None:
            os.kill(process, signal.SIGKILL)
            self.killed += 1
        return called
