"""Error rates of aligners with several seeds: their means and spreads, corpus by corpus.

    python -m hierogram.tools.lab.error_rates gold-en-fr-hansards gold-fr-en-alibi

What is found is kept in a file, so that the same command goes on where it was interrupted.
"""

import tempfile
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from hierogram.samplers.alignment.models.registry import DEFAULT_MODEL, JOINT_MODELS, every_model
from hierogram.samplers.alignment.options import POSTERIOR, SYMMETRIZATIONS
from hierogram.tools.lab.compare_aligners import CorpusFiles, corpus_of, measure
from hierogram.tools.lab.measures.results import Kept

HEAD = "| corpus | pairs | model | links | AER: mean | least | most | precision | recall | processor seconds |"
JOINT = "itg"


def run(corpus: CorpusFiles, model: str, symmetrization: str, seed: int, threads: int) -> dict[str, float]:
    """One model with one seed on one corpus, both directions made one."""
    with tempfile.TemporaryDirectory() as folder:
        row = measure(corpus, model, seed, threads, Path(folder), symmetrization)
    if row.aer is None or row.precision is None or row.recall is None:
        raise typer.BadParameter(f"{corpus.name}: there is no gold.talp in its first folder")
    return {"pairs": row.pairs, "aer": row.aer, "precision": row.precision, "recall": row.recall,
            "seconds": row.cpu_seconds}  # fmt: skip


def main(
    corpora: Annotated[
        list[str],
        typer.Argument(metavar="FOLDER...", help="Folders with corpora and gold.talp; FOLDER+FOLDER joins two."),
    ],
    model: Annotated[
        list[str] | None,
        typer.Option(help=f"A model: {', '.join(every_model())}; may be repeated.", show_default="the default and itg"),
    ] = None,
    symmetrize: Annotated[
        list[str] | None,
        typer.Option(
            help=f"How both directions become one: {', '.join(SYMMETRIZATIONS)}; may be repeated.",
            show_default=POSTERIOR,
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds, from 1 on.")] = 5,
    threads: Annotated[int, typer.Option(min=1)] = 2,
    results: Annotated[Path, typer.Option(help="JSON with what each run found.")] = Path("error-rates.json"),
) -> None:
    """Align corpora by each model with each seed; print the mean, the least and the largest error rate."""
    kept = Kept(results)
    print(f"{HEAD}\n|{'---|' * HEAD.count(' | ')}---|", flush=True)
    # A joint model has no directions to make one: its links are decoded by their posteriors.
    ways = [
        (name, links)
        for name in model or [DEFAULT_MODEL, JOINT]
        for links in ([POSTERIOR] if name in JOINT_MODELS else symmetrize or [POSTERIOR])
    ]
    for folders in corpora:
        corpus = corpus_of(folders)
        for name, links in ways:
            runs = []
            for seed in range(1, seeds + 1):
                one = partial(run, corpus, name, links, seed, threads)
                runs.append(kept.find(f"{corpus.name}, {name}, {links}, seed {seed}", one))
            rates = [one["aer"] for one in runs]
            means = {figure: float(np.mean([one[figure] for one in runs])) for figure in runs[0]}
            print(
                f"| {corpus.name} | {means['pairs']:,.0f} | {name} | {links} | {means['aer']:.4f} | {min(rates):.4f} "
                f"| {max(rates):.4f} | {means['precision']:.4f} | {means['recall']:.4f} | {means['seconds']:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    typer.run(main)
