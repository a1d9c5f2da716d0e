"""Draws Figure 5 of [CFGŠ14]: log-likelihood against sweeps, top-down sampling beside Metropolis-Hastings.

python -m hierogram.tools.convergence corpus.zh corpus.en align.gdfa --figure figure5.png --csv figure5.csv
"""

import csv
from pathlib import Path
from typing import Annotated

import typer

from hierogram.tools.measures.results import Corpus, measured
from hierogram.tools.measures.sampling import measure_curves

Curves = dict[str, list[tuple[int, float, float]]]


def write_csv(curves: Curves, path: Path) -> None:
    """One line for each method and sweep: seconds of sampling so far and natural-log likelihood."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["method", "sweep", "seconds", "log_likelihood"])
        for method, points in curves.items():
            writer.writerows((method, sweep, f"{seconds:.4f}", f"{value:.3f}") for sweep, seconds, value in points)


def draw(curves: Curves, path: Path, title: str) -> None:
    """Both curves against sweeps and against sampling time, as PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(11, 4.2), sharey=True)
    for panel, column, label in ((panels[0], 0, "sweeps"), (panels[1], 1, "sampling time, s")):
        for (method, points), style in zip(curves.items(), ("-", "--"), strict=False):
            panel.plot([point[column] for point in points], [point[2] for point in points], style, label=method)
        panel.set_xlabel(label)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("log-likelihood")
    panels[0].legend(loc="lower right")
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main(
    source: Annotated[Path, typer.Argument(exists=True, dir_okay=False)],
    target: Annotated[Path, typer.Argument(exists=True, dir_okay=False)],
    alignment: Annotated[Path, typer.Argument(exists=True, dir_okay=False)],
    figure: Annotated[Path, typer.Option(help="PNG to write.")] = Path("convergence.png"),
    table: Annotated[Path, typer.Option("--csv", help="Table to write.")] = Path("convergence.csv"),
    pairs: Annotated[int | None, typer.Option(min=1, help="Only the first so many pairs.")] = None,
    threads: Annotated[int, typer.Option(min=1)] = 2,
    seed: int = 1,
) -> None:
    """Sample a bitext by both methods, 100 sweeps each, and draw log-likelihood against sweeps and time."""
    corpus = Corpus(str(source), str(target), str(alignment), pairs, seed, threads)
    curves: Curves = measured("curves", measure_curves, corpus).figures
    write_csv(curves, table)
    draw(curves, figure, "Dirichlet process, α = 100, every level from the first sweep")
    for method, points in curves.items():
        print(f"{method}: {points[0][2]:,.0f} → {points[-1][2]:,.0f} in {points[-1][1]:.1f} s of sampling")


if __name__ == "__main__":
    typer.run(main)
