"""Is the daemon alive, is it ready, how is it: for people, for whoever starts it again, and for Prometheus."""

from dataclasses import asdict, replace
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from anyio import move_on_after, to_thread
from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, Response

from hierogram.daemon.configuration import HttpConfiguration
from hierogram.daemon.memory import resident_bytes
from hierogram.daemon.serving.health import Condition, Lag
from hierogram.daemon.web.api.metrics import RequestMetrics, render_metrics
from hierogram.daemon.web.api.records import HealthAnswer, StatusAnswer
from hierogram.daemon.web.protocol.service import Service
from hierogram.storage.exceptions import StoreError
from hierogram.storage.records import StoreStatus

_STORE_SECONDS = 10.0


def _answer(reasons: list[str]) -> JSONResponse:
    status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
    return JSONResponse({"ok": not reasons, "reasons": reasons}, status)


def _standing_loops(condition: Condition) -> list[str]:
    return [
        f"the loop {loop.name} has not moved for {loop.age:.0f} s ({loop.error or 'no error is known'})"
        for loop in condition.loops
        if not loop.turns
    ]


async def _ask_store(service: Service) -> tuple[StoreStatus | None, str | None]:
    """What the store holds, or why it does not answer; a store that hangs is not waited for."""

    def ask() -> StoreStatus:
        service.store.check()
        return service.store.status()

    with move_on_after(_STORE_SECONDS):
        try:
            return await to_thread.run_sync(ask, abandon_on_cancel=True), None
        except StoreError as error:
            return None, str(error)
    return None, f"the store has not answered for {_STORE_SECONDS:.0f} s"


def _present_lag(condition: Condition, store: StoreStatus | None) -> Lag:
    """The lag by what the store says; where it does not answer, as sampling last knew it."""
    return condition.lag.by(store.pairs) if store else condition.lag


def health_routes(service: Service, configuration: HttpConfiguration, metrics: RequestMetrics) -> APIRouter:
    """The routes of this module."""
    router = APIRouter(tags=["health"])
    answers: dict[int | str, dict[str, Any]] = {HTTPStatus.SERVICE_UNAVAILABLE.value: {"model": HealthAnswer}}

    @router.get("/healthz", response_model=HealthAnswer, responses=answers)
    async def healthz() -> Response:
        """Alive: every loop has moved of late."""
        return _answer(_standing_loops(service.condition()))

    @router.get("/readyz", response_model=HealthAnswer, responses=answers)
    async def readyz() -> Response:
        """Ready: loops move, nothing is degraded, the store answers and has this version's schema, lag is in bounds."""
        condition = service.condition()
        reasons = _standing_loops(condition)
        if condition.degraded:
            reasons.append(condition.degraded)
        store, fault = await _ask_store(service)
        lag = _present_lag(condition, store)
        if lag.pairs > configuration.max_lag:
            reasons.append(f"{lag.pairs:,} pairs wait for sampling, over {configuration.max_lag:,}")
        if service.stopping():
            reasons.append("the daemon is stopping")
        if fault:
            reasons.append(fault)
        return _answer(reasons)

    @router.get("/v1/status", response_model=StatusAnswer)
    async def status() -> Response:
        """The daemon's loops and lag, and what the store holds."""
        condition = service.condition()
        store, fault = await _ask_store(service)
        return JSONResponse(
            {
                "version": version("hierogram"),
                "uptime": condition.uptime,
                "degraded": condition.degraded,
                "log_likelihood": condition.log_likelihood,
                "loops": [
                    {
                        "name": loop.name,
                        "age": loop.age,
                        "patience": loop.patience,
                        "turns": loop.turns,
                        "restarts": loop.restarts,
                        "error": loop.error,
                    }
                    for loop in condition.loops
                ],
                "lag": asdict(_present_lag(condition, store)),
                "spool": asdict(condition.spool),
                "memory_bytes": resident_bytes(),
                "store": asdict(store) if store else None,
                "store_error": fault,
            }
        )

    @router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def read_metrics() -> Response:
        """What Prometheus reads."""
        store, _ = await _ask_store(service)
        condition = service.condition()
        condition = replace(condition, lag=_present_lag(condition, store))
        return Response(render_metrics(metrics, condition, store), media_type=CONTENT_TYPE_LATEST)

    return router
