"""The activity page: backlog, learning, rejected lines and exports. It refreshes itself."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from hierogram.daemon.exports.schedule import job_statuses
from hierogram.daemon.web.pages.forms import texts
from hierogram.daemon.web.pages.rendering import PageContext
from hierogram.daemon.web.pages.trend import trend_of
from hierogram.samplers.grammar.kinds import notation_of
from hierogram.samplers.grammar.settings import PAPER, SYNCHRONOUS, TREES
from hierogram.storage.browsing import progress
from hierogram.storage.records import Settings

_Row = Mapping[str, Any]

_SWEEPS = 400
_ROWS = 8


def now_routes(page: PageContext) -> APIRouter:
    """Return the router for the activity page."""
    router = APIRouter()

    @router.get("/now")
    @router.get("/now.json")
    def now_page(request: Request) -> Response:
        """Show the work of the moment."""
        texts(request)
        with page.reader.look() as look:
            status = progress.store_status(look, page.reader.url)
            sweeps = progress.last_sweeps(look, _SWEEPS)
            batches = progress.last_batches(look, _ROWS)
            settings = look.settings()
            curve = _curve(sweeps, settings)
            content: dict[str, Any] = {
                "store": asdict(status),
                "daemon": _daemon(page, status.pairs),
                "sweeps": sweeps,
                "curve": curve,
                "moves": [[row["id"], row["edges_moved"], row["cuts_moved"]] for row in sweeps],
                "rates": [[row["id"], row["pairs"] / row["seconds"]] for row in sweeps if row["seconds"] > 0],
                "diagnostics": _diagnostics(status.pairs, sweeps, batches, settings),
                "annealed": _is_annealed(settings),
                "_many": notation_of(settings.grammar).many,
                "batches": batches,
                "rejected": progress.last_rejected(look, _ROWS),
                "damaged": progress.first_damaged(look, _ROWS),
                "failed_files": progress.last_failed_files(look, _ROWS),
                "deliveries": progress.open_deliveries(look, _ROWS),
                "exports": progress.last_exports(look, _ROWS),
                "jobs": job_statuses(progress.scheduled(look)),
                "at": datetime.now(UTC).replace(microsecond=0),
                "sql": look.asked,
            }
        return page.answer(request, "now", content)

    return router


def _is_annealed(settings: Settings) -> bool:
    """Return whether sweeps of stage 1 sample at another temperature.

    Their log-likelihoods belong to draws from other distributions and are not comparable with those of later sweeps.
    """
    return settings.grammar == TREES or (settings.grammar == SYNCHRONOUS and settings.schedule != PAPER)


def _curve(sweeps: Sequence[_Row], settings: Settings) -> list[list[float | None]]:
    """Return points of the log-likelihood curve as (sweep, value while annealed, value afterwards).

    One of the two values is None. The first sweep of a run also yields the value before it.
    """
    annealed = _is_annealed(settings)
    points: list[list[float | None]] = []
    for row in sweeps:
        early = annealed and row["stage"] == 1
        number = row["id"]
        known = ((number - 1, row["log_likelihood_before"]), (number, row["log_likelihood"]))
        points += [[at, value, None] if early else [at, None, value] for at, value in known if value is not None]
    return points


def _diagnostics(
    pairs: Mapping[str, int],
    sweeps: Sequence[_Row],
    batches: Sequence[_Row],
    settings: Settings,
) -> dict[str, Any]:
    """Return convergence diagnostics: shares of pairs burned in and of edges and cuts moved, and the trend."""
    # Log-likelihoods are comparable only for the same pairs and the same temperature.
    arrived = max((row["finished_at"] or row["started_at"] for row in batches if row["accepted"]), default=None)
    annealed = _is_annealed(settings)
    comparable = [
        (row["id"], row["log_likelihood"])
        for row in sweeps
        if row["log_likelihood"] is not None
        and not (annealed and row["stage"] == 1)
        and (arrived is None or row["finished_at"] >= arrived)
    ]
    last = sweeps[-1] if sweeps else None
    return {
        "burned_in": pairs["settled"] / max(1, sum(pairs.values())),
        "edges_moved": last and last["edges_moved"],
        "cuts_moved": last and last["cuts_moved"],
        "log_likelihood": trend_of(comparable),
    }


def _daemon(page: PageContext, pairs: dict[str, int]) -> dict[str, Any] | None:
    """Return the state of the daemon, or None without a daemon."""
    if page.service is None:
        return None
    condition = page.service.condition()
    return {
        "uptime": condition.uptime,
        "degraded": condition.degraded,
        "lag": asdict(condition.lag.by(pairs)),
        "spool": asdict(condition.spool),
        "loops": [
            {"name": loop.name, "age": loop.age, "turns": loop.turns, "restarts": loop.restarts, "error": loop.error}
            for loop in condition.loops
        ],
    }
