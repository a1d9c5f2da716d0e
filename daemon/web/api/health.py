"""Health checks, status, and metrics for Prometheus."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from anyio import CapacityLimiter, move_on_after, to_thread
from fastapi import APIRouter
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response

from hierogram.daemon.exports.schedule import JobStatus, list_jobs
from hierogram.daemon.memory import resident_bytes
from hierogram.daemon.serving.health import DaemonStatus, Lag, LoopHealth, SpoolStatus
from hierogram.daemon.web.protocol.context import WebContext
from hierogram.daemon.web.protocol.problems import Responses
from hierogram.storage.exceptions import StoreError
from hierogram.storage.records.operations import StoreStatus
from hierogram.storage.records.pairs import IngestTotals

_DURATION_BUCKETS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 600.0)


class RequestMetrics:
    """Metrics of HTTP requests and posted pairs."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "hierogram_http_requests",
            "HTTP requests by method, route and status.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "hierogram_http_request_seconds",
            "Duration of HTTP requests, until the end of the response.",
            ["route"],
            buckets=_DURATION_BUCKETS,
            registry=self.registry,
        )
        self._lines = Counter(
            "hierogram_http_lines", "Lines of posted pairs, by outcome.", ["outcome"], registry=self.registry
        )
        self.count_lines(IngestTotals())

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request and its duration."""
        method_label = method if method in ("GET", "HEAD", "POST", "DELETE") else "other"
        self._requests.labels(method_label, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def count_lines(self, totals: IngestTotals) -> None:
        """Count the lines of posted pairs."""
        self._lines.labels("accepted").inc(totals.accepted)
        self._lines.labels("duplicate").inc(totals.duplicates)
        self._lines.labels("rejected").inc(totals.rejected)


@dataclass(eq=False)
class _CurrentMetrics(Collector):
    """Collector of current metrics of the daemon, its store and its export jobs."""

    daemon: DaemonStatus
    status: StoreStatus | None
    jobs: Sequence[JobStatus]

    def collect(self) -> Iterator[Metric]:
        daemon, status = self.daemon, self.status
        lag, spool = daemon.lag, daemon.spool
        yield _gauge("hierogram_uptime_seconds", "Seconds since the daemon started.", daemon.uptime_seconds)
        yield _gauge("hierogram_degraded", "1 if the daemon is degraded.", bool(daemon.degraded))
        yield _gauge("hierogram_lag_pairs", "Pairs that are not settled yet.", lag.pairs)
        yield _by_state("hierogram_lag_pairs_by_state", "Pairs that are not settled yet, by state.", lag.states)
        yield _gauge(
            "hierogram_lag_oldest_seconds",
            "Waiting time of the oldest pair that is not settled.",
            lag.oldest_seconds or 0.0,
        )
        yield _gauge("hierogram_sweeps_per_second", "Recent pair sweeps per second.", lag.sweeps_per_second)
        yield _gauge("hierogram_spool_waiting_files", "Ready inputs and pending files in the spool.", spool.waiting)
        yield _gauge(
            "hierogram_spool_incomplete_inputs",
            "Spool inputs that wait for other files or cannot be moved.",
            len(spool.incomplete),
        )
        files = CounterMetricFamily(
            "hierogram_spool_inputs", "Spool inputs since the daemon started, by outcome.", labels=["outcome"]
        )
        files.add_metric(["done"], spool.done)
        files.add_metric(["failed"], spool.failed)
        yield files
        ages = GaugeMetricFamily(
            "hierogram_loop_age_seconds", "Seconds since the last heartbeat of a loop.", labels=["loop"]
        )
        restarts = CounterMetricFamily("hierogram_loop_restarts", "Restarts of a loop after failures.", labels=["loop"])
        for loop in daemon.loops:
            ages.add_metric([loop.name], loop.age_seconds)
            restarts.add_metric([loop.name], loop.restarts)
        yield ages
        yield restarts
        yield _gauge("hierogram_store_up", "1 if the store responds.", status is not None)
        if status is None:
            return
        yield from _export_metrics(self.jobs)
        yield _by_state("hierogram_pairs", "Stored pairs, by state.", status.pairs)
        yield _gauge("hierogram_rules_in_use", "Rules in use by the current derivations.", status.rules_in_use)
        yield _gauge("hierogram_rules_expected", "Rules with expected uses.", status.rules_expected)
        yield _gauge("hierogram_rules_stored", "Rules stored in the table rules.", status.rules_stored)
        yield _gauge("hierogram_rule_tokens", "Uses of rules in the current derivations.", status.rule_tokens)
        if status.wal_bytes is not None:
            yield _gauge(
                "hierogram_store_wal_bytes", "Size of the write-ahead log of an SQLite store.", status.wal_bytes
            )
        yield _by_state("hierogram_webhook_deliveries", "Stored webhook deliveries, by state.", status.deliveries)
        yield _gauge("hierogram_rejected_lines", "Rejected lines stored.", status.rejected_lines)
        yield _gauge(
            "hierogram_damaged_pairs",
            "Damaged pairs, which are not sampled until they are repaired.",
            status.damaged_pairs,
        )
        yield CounterMetricFamily("hierogram_sweeps", "Sweeps recorded in the store.", value=status.sweeps)
        yield CounterMetricFamily("hierogram_store_position", "Writing transactions of the store.", status.position)
        if status.last_log_likelihood is not None:
            yield _gauge(
                "hierogram_log_likelihood", "Last known log-likelihood (natural logarithm).", status.last_log_likelihood
            )


def _export_metrics(jobs: Sequence[JobStatus]) -> Iterator[Metric]:
    gauges: list[tuple[str, str, Callable[[JobStatus], float | None]]] = [
        (
            "last_success_timestamp_seconds",
            "Time at which the last version was written or confirmed as unchanged.",
            lambda job: None if job.succeeded_at is None else job.succeeded_at.timestamp(),
        ),
        (
            "next_run_timestamp_seconds",
            "Time of the next run.",
            lambda job: job.next_runs[0].timestamp() if job.next_runs else None,
        ),
        ("duration_seconds", "Duration of writing the last version.", lambda job: job.seconds),
        ("rules", "Rules in the last version.", lambda job: job.rules),
        ("bytes", "Size of the rule file of the last version.", lambda job: job.bytes),
        ("failing", "1 if the last run failed or the next run cannot succeed.", lambda job: job.error is not None),
    ]
    for name, text, read in gauges:
        metric = GaugeMetricFamily(f"hierogram_export_{name}", text, labels=["job"])
        for job in jobs:
            if (value := read(job)) is not None:
                metric.add_metric([job.name], float(value))
        yield metric
    versions = InfoMetricFamily("hierogram_export_version", "Folder of the last version.", labels=["job"])
    for job in jobs:
        if job.path is not None:
            versions.add_metric([job.name], {"version": Path(job.path).parent.name})
    yield versions
    failures = CounterMetricFamily("hierogram_export_failures", "Failed runs.", labels=["job"])
    for job in jobs:
        failures.add_metric([job.name], job.failures)
    yield failures


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=float(value))


def _by_state(name: str, text: str, states: Mapping[str, int]) -> GaugeMetricFamily:
    metric = GaugeMetricFamily(name, text, labels=["state"])
    for state, number in states.items():
        metric.add_metric([state], number)
    return metric


class StatusAnswer(BaseModel):
    """State of the daemon and its store."""

    version: str
    uptime_seconds: float
    degraded: str | None
    log_likelihood: float | None
    loops: tuple[LoopHealth, ...]
    lag: Lag
    spool: SpoolStatus
    memory_bytes: int | None = Field(description="Resident memory of the daemon process, or null if unknown.")
    store: StoreStatus | None = Field(description="Status of the store, or null if it does not respond.")
    exports: tuple[JobStatus, ...] = Field(description="Scheduled export jobs.")
    store_error: str | None


class HealthAnswer(BaseModel):
    """Result of a health check, with the reasons if it failed."""

    ok: bool
    reasons: list[str]


_STORE_TIMEOUT_SECONDS = 10.0


def _failed_loops(daemon: DaemonStatus) -> list[str]:
    return [
        f"the loop {loop.name} has not responded for {loop.age_seconds:.0f} s ({loop.error or 'no known error'})"
        for loop in daemon.loops
        if not loop.running
    ]


_Answer = TypeVar("_Answer")


def coalesced(compute: Callable[[], Awaitable[_Answer]]) -> Callable[[], Awaitable[_Answer]]:
    """Wrap an async function so that concurrent calls share one computation, which starts after all of these calls."""
    lock, started = asyncio.Lock(), 0
    computed: tuple[int, _Answer] | None = None

    async def answer() -> _Answer:
        nonlocal started, computed
        # A computation that has already started may miss changes that precede this call.
        needed = started + 1
        async with lock:
            if computed is None or computed[0] < needed:
                started += 1
                computed = started, await compute()
            return computed[1]

    return answer


def health_routes(context: WebContext, metrics: RequestMetrics) -> APIRouter:
    """Return the router of `/healthz`, `/readyz`, `/v1/status` and `/metrics`."""
    router = APIRouter(tags=["health"])
    service, max_lag = context.service, context.http.max_lag
    responses: Responses = {HTTPStatus.SERVICE_UNAVAILABLE.value: {"model": HealthAnswer}}
    # Use a separate thread, so that health checks do not wait for other requests.
    thread = CapacityLimiter(1)

    async def read_status() -> tuple[DaemonStatus, StoreStatus | None, Sequence[JobStatus], str | None]:
        problem = f"the store has not responded for {_STORE_TIMEOUT_SECONDS:.0f} s"
        with move_on_after(_STORE_TIMEOUT_SECONDS):
            try:
                status, jobs = await to_thread.run_sync(
                    lambda: (service.grammar_store.status(), list_jobs(service.store)),
                    abandon_on_cancel=True,
                    limiter=thread,
                )
                return service.status().with_states(status.pairs), status, jobs, None
            except StoreError as error:
                problem = str(error)
        return service.status(), None, (), problem

    async def render() -> bytes:
        daemon, store, jobs, _ = await read_status()
        return generate_latest(_CurrentMetrics(daemon, store, jobs)) + generate_latest(metrics.registry)

    shared_status, shared_metrics = coalesced(read_status), coalesced(render)

    def health_response(reasons: list[str]) -> Response:
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        return JSONResponse({"ok": not reasons, "reasons": reasons}, status)

    @router.get("/healthz", response_model=HealthAnswer, responses=responses)
    async def healthz() -> Response:
        """Liveness check: all loops respond."""
        return health_response(_failed_loops(service.status()))

    @router.get("/readyz", response_model=HealthAnswer, responses=responses)
    async def readyz() -> Response:
        """Readiness check.

        Passes if the loops and the store respond, the schema is current, the daemon is neither degraded nor stopping,
        and at most `max_lag` pairs are not settled.
        """
        daemon, _, _, store_error = await shared_status()
        reasons = _failed_loops(daemon)
        if daemon.degraded:
            reasons.append(daemon.degraded)
        if daemon.lag.pairs > max_lag:
            reasons.append(f"{daemon.lag.pairs:,} pairs are not settled yet, the limit is {max_lag:,} (max_lag)")
        if service.stopping():
            reasons.append("the daemon is stopping")
        if store_error:
            reasons.append(store_error)
        return health_response(reasons)

    @router.get("/v1/status")
    async def status() -> StatusAnswer:
        """Return the status of the daemon and of its store."""
        daemon, store, jobs, store_error = await shared_status()
        return StatusAnswer(
            **{field.name: getattr(daemon, field.name) for field in fields(daemon)},
            version=version("hierogram"),
            memory_bytes=resident_bytes(),
            store=store,
            exports=tuple(jobs),
            store_error=store_error,
        )

    @router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def read_metrics() -> Response:
        """Return metrics in the text format of Prometheus."""
        return Response(await shared_metrics(), media_type=CONTENT_TYPE_LATEST)

    return router
