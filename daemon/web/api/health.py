"""Health checks, status, and metrics for Prometheus."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from anyio import CapacityLimiter, move_on_after, to_thread
from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response

from hierogram.daemon.exports.schedule import JobStatus, list_jobs
from hierogram.daemon.memory import resident_bytes
from hierogram.daemon.serving.supervision import DaemonStatus, Lag, LoopHealth, SpoolStatus
from hierogram.daemon.web.protocol.access import RequestMetrics
from hierogram.daemon.web.protocol.context import WebContext
from hierogram.daemon.web.protocol.problems import Responses
from hierogram.storage.exceptions import StoreError
from hierogram.storage.records.operations import StoreStatus


@dataclass(eq=False)
class _CurrentMetrics(Collector):
    daemon: DaemonStatus
    status: StoreStatus | None
    jobs: Sequence[JobStatus]

    def collect(self) -> Iterator[Metric]:
        daemon, store = self.daemon, self.status
        lag, spool, incomplete = daemon.lag, daemon.spool, len(daemon.spool.incomplete)
        gauges: list[tuple[str, str, float | None]] = [
            ("uptime_seconds", "Seconds since the daemon started.", daemon.uptime_seconds),
            ("degraded", "1 if the daemon is degraded.", bool(daemon.degraded)),
            ("lag_pairs", "Pairs that are not settled yet.", lag.pairs),
            ("lag_oldest_seconds", "Waiting time of the oldest pair that is not settled.", lag.oldest_seconds or 0.0),
            ("sweeps_per_second", "Recent pair sweeps per second.", lag.sweeps_per_second),
            ("spool_waiting_files", "Ready inputs and pending files in the spool.", spool.waiting),
            ("spool_incomplete_inputs", "Spool inputs that wait for other files or cannot be moved.", incomplete),
            ("store_up", "1 if the store responds.", store is not None),
        ]
        if store is not None:
            gauges += [
                ("rules_in_use", "Rules in use by the current derivations.", store.rules_in_use),
                ("rules_expected", "Rules with expected uses.", store.rules_expected),
                ("rules_stored", "Rules stored in the table rules.", store.rules_stored),
                ("rule_tokens", "Uses of rules in the current derivations.", store.rule_tokens),
                ("store_wal_bytes", "Size of the write-ahead log of an SQLite store.", store.wal_bytes),
                ("rejected_lines", "Rejected lines stored.", store.rejected_lines),
                ("damaged_pairs", "Damaged pairs, which are not sampled until they are repaired.", store.damaged_pairs),
                ("log_likelihood", "Last known log-likelihood (natural logarithm).", store.last_log_likelihood),
            ]
        for name, text, value in gauges:
            if value is not None:
                yield GaugeMetricFamily(f"hierogram_{name}", text, value=float(value))
        yield _gauge("lag_pairs_by_state", "Pairs that are not settled yet, by state.", "state", lag.states)
        inputs = {"done": spool.done, "failed": spool.failed}
        yield _counter("spool_inputs", "Spool inputs since the daemon started, by outcome.", "outcome", inputs)
        ages = {loop.name: loop.age_seconds for loop in daemon.loops}
        yield _gauge("loop_age_seconds", "Seconds since the last heartbeat of a loop.", "loop", ages)
        restarts = {loop.name: loop.restarts for loop in daemon.loops}
        yield _counter("loop_restarts", "Restarts of a loop after failures.", "loop", restarts)
        if store is not None:
            yield from _export_metrics(self.jobs)
            yield _gauge("pairs", "Stored pairs, by state.", "state", store.pairs)
            yield _gauge("webhook_deliveries", "Stored webhook deliveries, by state.", "state", store.deliveries)
            yield CounterMetricFamily("hierogram_sweeps", "Sweeps recorded in the store.", value=store.sweeps)
            yield CounterMetricFamily("hierogram_store_position", "Writing transactions of the store.", store.position)


def _export_metrics(jobs: Sequence[JobStatus]) -> Iterator[Metric]:
    success = {job.name: job.succeeded_at.timestamp() for job in jobs if job.succeeded_at is not None}
    text = "Time at which the last version was written or confirmed as unchanged."
    yield _gauge("export_last_success_timestamp_seconds", text, "job", success)
    next_runs = {job.name: job.next_runs[0].timestamp() for job in jobs if job.next_runs}
    yield _gauge("export_next_run_timestamp_seconds", "Time of the next run.", "job", next_runs)
    for name, text in (
        ("seconds", "Duration of writing the last version."),
        ("rules", "Rules in the last version."),
        ("bytes", "Size of the rule file of the last version."),
    ):
        values = {job.name: getattr(job, name) for job in jobs if getattr(job, name) is not None}
        yield _gauge(f"export_{'duration_seconds' if name == 'seconds' else name}", text, "job", values)
    failing = {job.name: job.error is not None for job in jobs}
    yield _gauge("export_failing", "1 if the last run failed or the next run cannot succeed.", "job", failing)
    versions = InfoMetricFamily("hierogram_export_version", "Folder of the last version.", labels=["job"])
    for job in jobs:
        if job.path is not None:
            versions.add_metric([job.name], {"version": Path(job.path).parent.name})
    yield versions
    yield _counter("export_failures", "Failed runs.", "job", {job.name: job.failures for job in jobs})


def _labeled(
    family: type[GaugeMetricFamily | CounterMetricFamily], name: str, text: str, label: str, values: Mapping[str, float]
) -> Metric:
    metric = family(f"hierogram_{name}", text, labels=[label])
    for value_label, value in values.items():
        metric.add_metric([value_label], float(value))
    return metric


_gauge, _counter = partial(_labeled, GaugeMetricFamily), partial(_labeled, CounterMetricFamily)


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
_Answer = TypeVar("_Answer")


def coalesced(compute: Callable[[], Awaitable[_Answer]]) -> Callable[[], Awaitable[_Answer]]:
    """Wrap an async function. Concurrent calls share one computation that starts after these calls."""
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
        """Return the state of daemon, store and jobs, and the error of the store."""
        problem = f"the store has not responded for {_STORE_TIMEOUT_SECONDS:.0f} s"
        with move_on_after(_STORE_TIMEOUT_SECONDS):
            try:
                status = await to_thread.run_sync(service.grammar_store.status, abandon_on_cancel=True, limiter=thread)
                jobs = await to_thread.run_sync(list_jobs, service.store, abandon_on_cancel=True, limiter=thread)
                return service.status().with_states(status.unsettled), status, jobs, None
            except StoreError as error:
                problem = str(error)
        return service.status(), None, (), problem

    shared_status = coalesced(read_status)

    def health_response(daemon: DaemonStatus, problems: Iterable[str | None] = ()) -> Response:
        late = (loop for loop in daemon.loops if not loop.running)
        text = "the loop {} has not responded for {:.0f} s ({})"
        reasons = [text.format(loop.name, loop.age_seconds, loop.error or "no known error") for loop in late]
        reasons += filter(None, problems)
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        return JSONResponse({"ok": not reasons, "reasons": reasons}, status)

    @router.get("/healthz", response_model=HealthAnswer, responses=responses)
    async def healthz() -> Response:
        """Liveness check: all loops respond."""
        return health_response(service.status())

    @router.get("/readyz", response_model=HealthAnswer, responses=responses)
    async def readyz() -> Response:
        """Readiness check.

        Passes if the loops and the store respond, the schema is current, the daemon is neither degraded nor stopping,
        and at most `max_lag` pairs are not settled.
        """
        daemon, _, _, store_error = await shared_status()
        lag = f"{daemon.lag.pairs:,} pairs are not settled yet, the limit is {max_lag:,} (max_lag)"
        stopping = "the daemon is stopping" if service.stopping() else None
        late = lag if daemon.lag.pairs > max_lag else None
        return health_response(daemon, (daemon.degraded, late, stopping, store_error))

    @router.get("/v1/status")
    async def status() -> StatusAnswer:
        """Return the status of the daemon and of its store."""
        daemon, store, jobs, store_error = await shared_status()
        values = {field.name: getattr(daemon, field.name) for field in fields(daemon)}
        values |= {"version": version("hierogram"), "memory_bytes": resident_bytes()}
        return StatusAnswer(**values, store=store, exports=tuple(jobs), store_error=store_error)

    @router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def read_metrics() -> Response:
        """Return metrics in the text format of Prometheus."""
        daemon, store, jobs, _ = await shared_status()
        content = generate_latest(_CurrentMetrics(daemon, store, jobs)) + generate_latest(metrics.registry)
        return Response(content, media_type=CONTENT_TYPE_LATEST)

    return router
