"""Rate limits: token buckets for each client address."""

import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from math import ceil

from starlette.types import Scope

from hierogram.daemon.web.protocol.problems import ProblemError

_MAX_BUCKETS = 10_000

ANONYMOUS, AUTHENTICATED, HEALTH = "anonymous", "authenticated", "health"
"""Kinds of requests. Each kind has its own buckets."""


class RateLimiter:
    """Rate limiter with a token bucket for each kind of request and client address.

    A bucket gains `rate` tokens per second, up to `burst` tokens.
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._buckets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def take(self, kind: str, client: str) -> float:
        """Take a token from a bucket. Returns 0.0, or the seconds until the next token if the bucket is empty."""
        now = self._clock()
        level, since = self._buckets.pop((kind, client), (self._burst, now))
        level = min(self._burst, level + (now - since) * self._rate)
        allowed = level >= 1.0
        self._buckets[kind, client] = (level - allowed, now)
        if len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - level) / self._rate

    def check(self, kind: str, scope: Scope) -> ProblemError | None:
        """Take a token for a request. Returns a 429 problem if the bucket is empty."""
        wait_seconds = self.take(kind, scope["client"][0] if scope.get("client") else "unknown")
        if not wait_seconds:
            return None
        return ProblemError(
            HTTPStatus.TOO_MANY_REQUESTS,
            "too many requests from this address: slow down",
            {"Retry-After": str(ceil(wait_seconds))},
        )
