"""The command `diagnose`, which checks the convergence of chains."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.cli.common import PROBLEMS_FOUND, open_chosen_store, plural, print_json, print_note, print_table
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.extensions import LEARN, Command, Extension
from hierogram.daemon.progress import progress
from hierogram.daemon.shared_options import AsJson
from hierogram.storage.options import Option
from hierogram.tools.diagnosis.options import ChainOptions

if TYPE_CHECKING:
    from hierogram.tools.diagnosis.diagnosis import Diagnosis, Quantity


@with_options
def diagnose(
    context: typer.Context,
    *,
    options: ChainOptions,
    draws: Annotated[Path | None, Option("Write all draws to FILE, an archive of numpy arrays (.npz).")] = None,
    plot: Annotated[Path | None, Option("Plot the chains to an image file. Requires the extra `plot`.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check the convergence of several chains. The chains sample pairs of the store in memory.

    Chains start from very different derivations (all nodes cut, all joined, or random), with the model and schedule of
    the store, which is not changed. Exit with 1 if the log-likelihood or the number of rules or uses has not converged.
    """
    from hierogram.tools.diagnosis.chains import run_chains
    from hierogram.tools.diagnosis.diagnosis import summarize_chains

    with open_chosen_store(context) as opened, progress("diagnose", "sweeps") as bar:
        chain_draws = run_chains(opened.store, options, lambda done, total: bar.update(done, total, done))
    if draws is not None:
        chain_draws.save(draws)
    diagnosis = summarize_chains(chain_draws)
    if plot is not None:
        from hierogram.tools.diagnosis.diagnosis import plot_chains

        plot_chains(chain_draws, plot)
    if as_json:
        print_json(asdict(diagnosis))
    else:
        _print_diagnosis(diagnosis)
    if diagnosis.flagged:
        print_note(f"hierogram: the chains have not converged ({', '.join(diagnosis.flagged)}): increase --sweeps")
        raise typer.Exit(PROBLEMS_FOUND)


def _print_diagnosis(diagnosis: "Diagnosis") -> None:
    print(
        f"{plural(diagnosis.chains, 'chain')} ({', '.join(diagnosis.starts)}), {plural(diagnosis.draws, 'draw')} each"
    )
    _print_quantities(diagnosis.totals)
    for summary, name in ((diagnosis.rules, "frequent rule"), (diagnosis.links, "aligned link")):
        if not summary.recorded and summary is diagnosis.links:
            continue
        verdicts = ", ".join(f"{number:,} {verdict}" for verdict, number in summary.verdicts.items())
        print(f"{plural(summary.recorded, name)}: {verdicts or 'none'}")
        if summary.largest_r_hat and summary.r_hat[0] is not None:
            r_hat = ", ".join(f"{value:.3f}" for value in summary.r_hat if value is not None)
            sizes = ", ".join(f"{value:,.0f}" for value in summary.ess_bulk if value is not None)
            print(f"  R-hat (median, 90 %, largest) {r_hat}; bulk ESS (smallest, 10 %, median) {sizes}")
            print("worst agreement:")
            _print_quantities(summary.largest_r_hat)
    for name, shares in diagnosis.overlap.items():
        parts = ", ".join(f"{value:.0%} of {kind.replace('_', ' ')}" for kind, value in shares.items())
        print(f"overlap of two chains, {name.replace('_', ' ')}: {parts}")
    rate = ""
    if diagnosis.ess_per_second is not None:
        rate = f", {diagnosis.ess_per_second:.1f} effective draws of the log-likelihood per second"
    print(f"{diagnosis.seconds:.1f} s of sampling{rate}")


def _print_quantities(quantities: "list[Quantity]") -> None:
    def number(value: float | None, digits: int) -> str:
        return "none" if value is None else f"{value:,.{digits}f}"

    rows = [
        (f"{number(quantity.mean, 1)} ± {number(quantity.error, 1)}", number(quantity.r_hat, 3),
         number(quantity.ess_bulk, 0), number(quantity.ess_tail, 0), quantity.verdict, quantity.name)
        for quantity in quantities
    ]  # fmt: skip
    print_table(("mean", "R-hat", "bulk ESS", "tail ESS", "verdict", ""), rows, numeric=range(4))


EXTENSION = Extension(commands=[Command(LEARN, diagnose, "hierogram diagnose --pairs 2000 --plot chains.png")])
