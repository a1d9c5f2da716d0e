"""Convergence diagnosis from the draws of several chains [Vehtari et al. 2021]."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.library.options import resolve_options
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.progress import Steps
from hierogram.samplers.diagnostics.convergence import FLAGS, R_HAT_LIMIT, count_verdicts, r_hat, summarize, verdicts
from hierogram.samplers.diagnostics.overlap import TOTALS, mean_overlap
from hierogram.storage.exceptions import install_extra
from hierogram.tools.diagnosis.chains import ChainDraws, run_chains
from hierogram.tools.diagnosis.options import ChainOptions

if TYPE_CHECKING:
    from hierogram.tools.keywords import ChainKeywords

_MAX_LISTED = 10
_MIN_MEAN_USES = 0.5
_MAX_R_HAT = 1e6
"""Limit of reported R-hat values, because R-hat of chains that do not move depends on rounding errors."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """Summary of a quantity over all chains. `error` is a Monte Carlo error. Undefined numbers are None."""

    name: str
    mean: float | None
    sd: float | None
    error: float | None
    r_hat: float | None
    ess_bulk: float | None
    ess_tail: float | None
    verdict: str


@dataclass(frozen=True, slots=True)
class QuantitySummary:
    """Summary of all recorded rules or links.

    `verdicts` counts the quantities with each verdict. `r_hat` contains the quantiles 0.5, 0.9 and 1, and `ess_bulk`
    the quantiles 0, 0.1 and 0.5, over the quantities that are not constant.
    """

    recorded: int
    verdicts: dict[str, int]
    r_hat: list[float | None]
    ess_bulk: list[float | None]
    largest_r_hat: list[Quantity]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Convergence diagnosis of several chains.

    `overlap` is the mean overlap of the grammars of two chains in rules, in rules used at least twice, and in uses,
    both for single draws and for means over up to eight draws (rules with a mean of at least 0.5). `ess_per_second` is
    the bulk ESS of the log-likelihood per second of sampling. `flagged` contains the totals that are not reliable.
    `links` summarizes the aligner chains.
    """

    chains: int
    draws: int
    starts: list[str]
    totals: list[Quantity]
    rules: QuantitySummary
    links: QuantitySummary
    overlap: dict[str, dict[str, float]]
    seconds: float
    ess_per_second: float | None
    flagged: list[str]


def diagnose(
    store: GrammarStore,
    *,
    options: ChainOptions | None = None,
    progress: Steps = lambda *_: None,
    **chosen: "Unpack[ChainKeywords]",
) -> Diagnosis:
    """Run several chains over the store's pairs, in memory, and return a report on their agreement.

    Options are the fields of `ChainOptions`, such as `sweeps=200`. Raises `InputError` if the store has no
    aligned pairs or trees.
    """
    return summarize_chains(run_chains(store.store, resolve_options(ChainOptions, options, chosen), progress))


def summarize_chains(chain_draws: ChainDraws) -> Diagnosis:
    """Summarize the draws of all chains: convergence of totals, rules and links, and grammar overlap."""
    names = [
        *TOTALS,
        *(f"{source} ||| {target}" for source, target in zip(chain_draws.sources, chain_draws.targets, strict=True)),
    ]
    quantities = _quantities(names, chain_draws.draws)
    totals, rules = quantities[: len(TOTALS)], quantities[len(TOTALS) :]
    overlaps = {
        "single_draws": mean_overlap(chain_draws.last)._asdict(),
        "means": mean_overlap(chain_draws.means, _MIN_MEAN_USES)._asdict(),
    }
    links = _summarize(_quantities(chain_draws.links.names, chain_draws.links.draws) if chain_draws.links.names else [])
    _, chains, draws = chain_draws.draws.shape
    likelihood = totals[0].ess_bulk
    return Diagnosis(
        chains, draws, chain_draws.starts, totals, _summarize(rules), links, overlaps,
        chain_draws.seconds + chain_draws.links.seconds,
        None if likelihood is None else likelihood / max(chain_draws.seconds, 1e-9),
        [quantity.name for quantity in totals if quantity.verdict in FLAGS],
    )  # fmt: skip


def _quantities(names: list[str], draws: NDArray[np.float64]) -> list[Quantity]:
    """Summarize quantities, given their draws float64[S, C, N] (quantities, chains, draws)."""
    summary = summarize(draws)
    r_hats = np.minimum(summary.r_hat, _MAX_R_HAT)
    columns = (summary.mean, summary.sd, summary.error, r_hats, summary.ess_bulk, summary.ess_tail)
    statistics = ([float(value) if np.isfinite(value) else None for value in column] for column in columns)
    return [Quantity(*row) for row in zip(names, *statistics, verdicts(draws, summary), strict=True)]


def _summarize(recorded: list[Quantity]) -> QuantitySummary:
    varying = [quantity for quantity in recorded if quantity.r_hat is not None]
    worst = sorted(varying, key=lambda quantity: -(quantity.r_hat or 0.0))[:_MAX_LISTED]
    return QuantitySummary(
        len(recorded),
        count_verdicts([quantity.verdict for quantity in recorded]),
        _quantiles([quantity.r_hat for quantity in varying], (0.5, 0.9, 1.0)),
        _quantiles([quantity.ess_bulk for quantity in varying], (0.0, 0.1, 0.5)),
        worst,
    )


def _quantiles(values: list[float | None], shares: tuple[float, ...]) -> list[float | None]:
    present = [value for value in values if value is not None]
    return list(np.quantile(present, shares).tolist()) if present else [None] * len(shares)


def plot_chains(chain_draws: ChainDraws, path: Path) -> None:
    """Plot traces of the totals and a histogram of R-hat. Raises `UsageError` without matplotlib."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise UsageError(f"--plot requires matplotlib: {install_extra('plot')}") from error
    mpl.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(TOTALS) + 1, figsize=(16, 3.6))
    for panel, name, chains in zip(panels, TOTALS, chain_draws.draws, strict=False):
        for start, chain in zip(chain_draws.starts, chains, strict=True):
            panel.plot(chain, linewidth=0.8, label=start)
        panel.set_title(name.replace("_", " "))
        panel.set_xlabel("draw")
    panels[0].legend(fontsize="small")
    r_hats = r_hat(chain_draws.draws[len(TOTALS) :])
    panels[-1].hist(r_hats[np.isfinite(r_hats)], bins=40)
    panels[-1].axvline(R_HAT_LIMIT, color="gray", linestyle=":")
    panels[-1].set_title("R-hat of the recorded rules")
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    pyplot.close(figure)
