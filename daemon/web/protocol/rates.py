"""Rate limits: token buckets for each client address."""

import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from math import ceil

from starlette.types import Scope

from hierogram.daemon.web.protocol.problems import ProblemError

_MOST_BUCKETS = 10_000

OPEN, WITH_TOKEN, HEALTH = "open", "with token", "health"
"""Kinds of requests; each has buckets of its own, which the others cannot use up."""


class Rates:
    """Token buckets of requests, one for each kind of request and client address.

    A bucket is full at first and refilled at a constant rate; a request takes one permission. When there are too many
    buckets, the one that was used longest ago is dropped.
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._buckets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def wait(self, kind: str, client: str) -> float:
        """Take a permission; return 0.0 if there was one, else the seconds until there is one."""
        now = self._clock()
        level, since = self._buckets.pop((kind, client), (self._burst, now))
        level = min(self._burst, level + (now - since) * self._rate)
        allowed = level >= 1.0
        self._buckets[kind, client] = (level - allowed, now)
        if len(self._buckets) > _MOST_BUCKETS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - level) / self._rate

    def refusal(self, kind: str, scope: Scope) -> ProblemError | None:
        """Take a permission for a request; return the problem if there was none."""
        wait = self.wait(kind, scope["client"][0] if scope.get("client") else "unknown")
        if not wait:
            return None
        return ProblemError(
            HTTPStatus.TOO_MANY_REQUESTS,
            "too many requests from this address: ask less often",
            {"Retry-After": str(ceil(wait))},
        )
