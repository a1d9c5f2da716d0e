"""Chains as a picture: the totals draw by draw, and R-hat of the watched rules."""

from pathlib import Path

import numpy as np

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.grammar.chains import Draws
from hierogram.samplers.diagnostics.convergence import r_hat
from hierogram.samplers.diagnostics.verdicts import R_HAT_LIMIT
from hierogram.samplers.diagnostics.watching import TOTALS


def draw_chains(taken: Draws, path: Path) -> None:
    """One panel for each total, a line for each chain, and how R-hat is spread over rules; as PNG.

    Raises `UsageError` where matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise UsageError("--plot needs matplotlib: pip install 'hierogram[plot]'") from error
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
