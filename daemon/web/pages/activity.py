"""Self-refreshing page Now: backlog, arrivals, failures, exports, rule changes and learning."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from fastapi import FastAPI
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from hierogram.daemon.exports.schedule import job_statuses
from hierogram.daemon.web.pages.rendering import PageContext, format_minute
from hierogram.daemon.web.protocol.bodies import query_values
from hierogram.samplers.diagnostics.convergence import effective_size
from hierogram.samplers.grammar.settings import PAPER, SYNCHRONOUS, TREES
from hierogram.storage.browsing import progress

_Row = Mapping[str, Any]

_MAX_SWEEPS = 400
_MAX_ROWS = 8
_RECENT_PERIOD = timedelta(hours=24)
"""Maximum age of the failures counted in the summary."""


def add_activity_pages(app: FastAPI, page: PageContext) -> None:
    """Add the page `/now`."""

    @app.get("/now")
    @app.get("/now.json")
    def now_page(request: Request) -> Response:
        query_values(request)
        with page.read() as snapshot:
            transaction, settings = snapshot.transaction, snapshot.settings
            status = progress.store_status(transaction, page.reader.url)
            sweeps = progress.last_sweeps(transaction, _MAX_SWEEPS)
            latest = {name: transaction.records(sql, limit=_MAX_ROWS) for name, sql in progress.LATEST.items()}
            # Sweeps of stage 1 sample at other temperatures, so their log-likelihoods are not comparable.
            annealed = settings.grammar == TREES or (settings.grammar == SYNCHRONOUS and settings.schedule != PAPER)
            daemon = asdict(page.service.status().with_states(status.unsettled)) if page.service else None
            time = datetime.now(UTC).replace(microsecond=0)
            content: dict[str, Any] = {
                "store": asdict(status), "daemon": daemon, "sweeps": sweeps,
                "curve": _likelihood_curve(sweeps, annealed),
                "moves": [[row["id"], row["edges_moved"], row["cuts_moved"]] for row in sweeps],
                "diagnostics": _diagnostics(status.pairs, sweeps, latest["batches"], annealed),
                "annealed": annealed, **latest,
                "rejected": progress.last_rejected(transaction, _MAX_ROWS),
                "jobs": job_statuses(progress.scheduled_jobs(transaction)),
                "at": time,
                "_exported": next((row for row in latest["exports"] if row["state"] == "done"), None),
                "_failures": _failures(daemon, progress.recent_failures(transaction), time - _RECENT_PERIOD),
            }  # fmt: skip
        return page.render(request, "now", content, snapshot)


def _failures(daemon: Mapping[str, Any] | None, failures: Mapping[str, Sequence[_Row]], since: datetime) -> list[str]:
    """Return texts such as `2 failed files` for failures after `since`."""
    names = "files", "inputs", "exports"
    files, inputs, exports = (
        [row for row in failures[name] if format_minute(row["at"]) >= format_minute(since)] for name in names
    )
    counts = {
        "unresponsive loop": 0 if daemon is None else sum(not loop["running"] for loop in daemon["loops"]),
        "failed file": len(files),
        "failed input": sum(row["state"] == "failed" for row in inputs),
        "rejected line": sum(row["rejected"] for row in inputs),
        "failed export": len(exports),
    }
    return [f"{number:,} {name}{'s' * (number != 1)}" for name, number in counts.items() if number]


def _likelihood_curve(sweeps: Sequence[_Row], annealed: bool) -> list[list[float | None]]:
    """Return points `[sweep, y of stage 1 of annealing, y of other stages]`; one y is None."""
    points: list[list[float | None]] = []
    for row in sweeps:
        early = annealed and row["stage"] == 1
        for sweep, value in ((row["id"] - 1, row["log_likelihood_before"]), (row["id"], row["log_likelihood"])):
            if value is not None:
                points.append([sweep, value, None] if early else [sweep, None, value])
    return points


def _diagnostics(
    pairs: Mapping[str, int], sweeps: Sequence[_Row], batches: Sequence[_Row], annealed: bool
) -> dict[str, Any]:
    # Log-likelihoods are comparable only for the same pairs and the same temperature.
    arrived = max((row["finished_at"] or row["started_at"] for row in batches if row["accepted"]), default=None)
    comparable = [
        (row["id"], row["log_likelihood"])
        for row in sweeps
        if row["log_likelihood"] is not None
        and not (annealed and row["stage"] == 1)
        and (arrived is None or row["finished_at"] >= arrived)
    ]
    last = sweeps[-1] if sweeps else None
    burned_in = pairs["settled"] / max(1, sum(pairs.values()))
    moved = {name: last and last[name] for name in ("edges_moved", "cuts_moved")}
    return {"burned_in": burned_in, **moved, "log_likelihood": estimate_trend(comparable)}


RISING, FALLING, FLAT, SHORT = "rising", "falling", "flat", "short"
MIN_VALUES = 6
"""Minimum number of log-likelihoods for a trend. With fewer, the verdict is `SHORT`."""
_MIN_WARMUP_VALUES = 16
_MIN_ERRORS = 2.0
"""Difference of two means, in standard errors, above which a trend is rising or falling."""


class Trend(NamedTuple):
    """Trend of `values` log-likelihoods of sweeps `first` to `last`: `change` ± `error` per sweep."""

    verdict: str
    values: int
    first: int | None = None
    last: int | None = None
    change: float | None = None
    error: float | None = None


def estimate_trend(points: Sequence[tuple[int, float]]) -> Trend:
    """Estimate the trend of a chain from `(sweep, log-likelihood)` in the order of sweeps.

    The first half of 16 or more values is discarded as warm-up. The trend is the difference between the means of both
    halves of the remaining values, with errors from the effective sample sizes [Vehtari et al. 2021].
    """
    recent = points[len(points) // 2 :] if len(points) >= _MIN_WARMUP_VALUES else points
    if len(recent) < MIN_VALUES:
        return Trend(SHORT, len(recent))
    sweeps, values = np.array([sweep for sweep, _ in recent], np.float64), np.array([value for _, value in recent])
    half = len(recent) // 2
    difference = float(sweeps[-half:].mean() - sweeps[:half].mean())
    change = float(values[-half:].mean() - values[:half].mean())
    error = float(np.hypot(_monte_carlo_error(values[:half]), _monte_carlo_error(values[-half:])))
    verdict = FLAT if abs(change) <= _MIN_ERRORS * error else RISING if change > 0 else FALLING
    return Trend(verdict, len(recent), recent[0][0], recent[-1][0], change / difference, error / difference)


def _monte_carlo_error(values: NDArray[np.float64]) -> float:
    size = float(effective_size(values[None, None, :])[0])
    return float(values.std(ddof=1) / np.sqrt(size))
