"""Diagnosis: what the draws of several chains say of each other [Vehtari et al. 2021]."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import UsageError, install_extra
from hierogram.samplers.diagnostics.convergence import FLAGS, R_HAT_LIMIT, count_flags, r_hat, summarize, verdicts
from hierogram.samplers.diagnostics.overlap import mean_overlap
from hierogram.samplers.diagnostics.watching import TOTALS
from hierogram.tools.diagnosis.chains import Draws

_SHOWN = 10
_HALF_A_USE = 0.5
_LARGEST = 1e6
Figure = float | None
"""A number, None where there is none."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity of the chains: mean and standard deviation of its draws, the Monte Carlo standard error of the mean,
    rank-normalized split R-hat, bulk and tail effective sample sizes, and the verdict."""

    name: str
    mean: Figure
    sd: Figure
    error: Figure
    r_hat: Figure
    ess_bulk: Figure
    ess_tail: Figure
    verdict: str


@dataclass(frozen=True, slots=True)
class Many:
    """The watched rules, or links, together: how many have which verdict; quantiles 0.5, 0.9, 1 of R-hat, and 0, 0.1,
    0.5 of the effective sample size, over those that are not constant; those that agree least."""

    watched: int
    verdicts: dict[str, int]
    r_hat: list[Figure]
    ess_bulk: list[Figure]
    least: list[Quantity]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Agreement of chains: totals, watched rules and links, overlaps of grammars, what a second of sampling brings.

    `overlap` has, for grammars of single draws and of means over eight draws (rules with a mean of 0.5 and more), the
    shares of rules, of rules used twice, and of uses that two chains have in common on average. `overhead` is the
    share of the time that was not sampling. `flagged` names totals that cannot be trusted. `links` are of chains of the
    aligner: how often each has a link.
    """

    chains: int
    draws: int
    starts: list[str]
    totals: list[Quantity]
    rules: Many
    links: Many
    overlap: dict[str, dict[str, float]]
    seconds: float
    overhead: float
    ess_per_second: Figure
    flagged: list[str]


def diagnose(taken: Draws) -> Diagnosis:
    """Return the diagnosis of chains."""
    started = time.perf_counter()
    names = [*TOTALS, *(f"{source} ||| {target}" for source, target in zip(taken.sources, taken.targets, strict=True))]
    found = _quantities(names, taken.draws)
    totals, rules = found[: len(TOTALS)], found[len(TOTALS) :]
    overlaps = {
        "single_draws": mean_overlap(taken.last)._asdict(),
        "means": mean_overlap(taken.means, _HALF_A_USE)._asdict(),
    }
    links = _together(_quantities(taken.links.names, taken.links.draws) if taken.links.names else [])
    seconds = taken.seconds + taken.links.seconds
    overhead = taken.overhead + taken.links.overhead + time.perf_counter() - started
    _, chains, draws = taken.draws.shape
    likelihood = totals[0].ess_bulk
    return Diagnosis(
        chains, draws, taken.starts, totals, _together(rules), links, overlaps, seconds,
        overhead / max(overhead + seconds, 1e-9),
        None if likelihood is None else likelihood / max(taken.seconds, 1e-9),
        [one.name for one in totals if one.verdict in FLAGS],
    )  # fmt: skip


def _figure(value: float) -> Figure:
    """Return the value; R-hat of chains that each stay at a value of their own is as large as rounding makes it."""
    return min(float(value), _LARGEST) if np.isfinite(value) or value == np.inf else None


def _quantities(names: list[str], draws: NDArray[np.float64]) -> list[Quantity]:
    summary = summarize(draws)
    columns = (summary.mean, summary.sd, summary.error, summary.r_hat, summary.ess_bulk, summary.ess_tail)
    figures = ([_figure(value) for value in column] for column in columns)
    return [Quantity(*row) for row in zip(names, *figures, verdicts(draws, summary), strict=True)]


def _together(watched: list[Quantity]) -> Many:
    moving = [one for one in watched if one.r_hat is not None]
    least = sorted(moving, key=lambda one: -(one.r_hat or 0.0))[:_SHOWN]
    return Many(
        len(watched),
        count_flags([one.verdict for one in watched]),
        _quantiles([one.r_hat for one in moving], (0.5, 0.9, 1.0)),
        _quantiles([one.ess_bulk for one in moving], (0.0, 0.1, 0.5)),
        least,
    )


def _quantiles(values: list[Figure], shares: tuple[float, ...]) -> list[Figure]:
    known = [value for value in values if value is not None]
    return list(np.quantile(known, shares).tolist()) if known else [None] * len(shares)


def as_columns(one: Quantity) -> tuple[str, ...]:
    """Return a quantity for people: mean, error, R-hat, effective sizes, verdict."""
    return (
        f"{_shown(one.mean, 1)} ± {_shown(one.error, 1)}",
        _shown(one.r_hat, 3),
        _shown(one.ess_bulk, 0),
        _shown(one.ess_tail, 0),
        one.verdict,
        one.name,
    )


def _shown(value: Figure, digits: int) -> str:
    return "none" if value is None else f"{value:,.{digits}f}"


def draw_chains(taken: Draws, path: Path) -> None:
    """Draw a panel for each total, a line for each chain, and how R-hat is spread over rules; as PNG.

    Raises `UsageError` where matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise UsageError(f"--plot needs matplotlib: {install_extra('plot')}") from error
    mpl.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(TOTALS) + 1, figsize=(16, 3.6))
    for panel, name, chains in zip(panels, TOTALS, taken.draws, strict=False):
        for start, chain in zip(taken.starts, chains, strict=True):
            panel.plot(chain, linewidth=0.8, label=start)
        panel.set_title(name.replace("_", " "))
        panel.set_xlabel("draw")
    panels[0].legend(fontsize="small")
    found = r_hat(taken.draws[len(TOTALS) :])
    panels[-1].hist(found[np.isfinite(found)], bins=40)
    panels[-1].axvline(R_HAT_LIMIT, color="gray", linestyle=":")
    panels[-1].set_title("R-hat of the watched rules")
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    pyplot.close(figure)
