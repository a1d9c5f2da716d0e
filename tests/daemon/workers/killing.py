"""A cluster of Ray whose workers are killed at certain calls; importing this module imports Ray."""

import os
import signal
from collections import Counter
from typing import Any

from hierogram.daemon.workers.options import Workers
from hierogram.daemon.workers.ray_cluster import RayCluster


class KillingCluster(RayCluster):
    """Kills the process of a worker right after it was called, at the calls of a method that have these numbers."""

    def __init__(self, at: dict[str, tuple[int, ...]]) -> None:
        super().__init__(Workers(2), 1)
        self._at = at
        self._calls: Counter[str] = Counter()
        self.killed = 0

    def call(self, worker: int, method: str, *arguments: object) -> Any:
        """Call a method; see the class."""
        self._calls[method] += 1
        process = self.process(worker) if self._calls[method] in self._at.get(method, ()) else None
        called = super().call(worker, method, *arguments)
        if process is not None:
            os.kill(process, signal.SIGKILL)
            self.killed += 1
        return called
