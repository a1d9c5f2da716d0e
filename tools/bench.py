"""`hierogram bench`: the system's speed on a bitext, as one report that anyone can repeat."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from hierogram.daemon.commands.flags import with_options
from hierogram.storage.options import Option

SECTIONS = (
    "forests",
    "sweeps",
    "long",
    "curves",
    "schemes",
    "ingest",
    "learning",
    "absorbing",
    "starting",
    "trees",
    "itg",
    "extraction",
    "asking",
    "exporting",
    "translating",
    "pages",
    "services",
)
_DEFAULT_SECTIONS = ("forests", "sweeps", "long", "ingest", "learning", "starting")


def _measures() -> dict[str, Callable[..., dict[str, Any]]]:
    from hierogram.tools import services
    from hierogram.tools.measures import (
        exporting,
        grammars,
        itg,
        pages,
        sampling,
        starting,
        stores,
        translating,
        treebanks,
    )

    return {
        "forests": sampling.measure_forests,
        "sweeps": sampling.measure_sweeps,
        "long": sampling.measure_long_pairs,
        "curves": sampling.measure_curves,
        "schemes": sampling.measure_schemes,
        "ingest": stores.measure_ingest,
        "learning": stores.measure_learning,
        "absorbing": stores.measure_absorbing,
        "starting": starting.measure_starting,
        "trees": treebanks.measure_trees,
        "itg": itg.measure_itg,
        "extraction": grammars.measure_extraction,
        "asking": grammars.measure_asking,
        "exporting": exporting.measure_exporting,
        "translating": translating.measure_translating,
        "pages": pages.measure_pages,
        "services": services.measure_services,
    }


def _flat(figures: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for name, value in figures.items():
        if isinstance(value, dict):
            lines += _flat(value, f"{prefix}{name} ")
        elif isinstance(value, float):
            lines.append(
                (f"{prefix}{name}".replace("_", " "), f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}")
            )
        elif isinstance(value, list):
            lines.append((f"{prefix}{name}".replace("_", " "), ", ".join(str(item) for item in value[-3:])))
        else:
            lines.append((f"{prefix}{name}".replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value)))
    return lines


@dataclass(frozen=True, slots=True)
class Measured:
    """How sections are measured."""

    pairs: Annotated[int | None, Option("Only the first so many pairs, or trees.", least=1)] = None
    threads: Annotated[int, Option("Threads of the sampler.", least=1)] = 2
    seed: Annotated[int, Option("Seed of the random streams.")] = 1
    postgres: Annotated[str | None, Option("URL of an empty Postgres database, for ingest or pages.")] = None
    small: Annotated[int, Option("Pairs of the small store of the absorbing section.", least=1)] = 5_000
    large: Annotated[int, Option("Pairs of its large store.", least=1)] = 150_000
    rules: Annotated[int, Option("Rules for asking, exporting, translating and pages.", least=1)] = 1_000_000


@with_options
def bench(
    how: Measured,
    source: Annotated[
        Path | None, typer.Argument(help="Source side, a sentence a line.", exists=True, dir_okay=False)
    ] = None,
    target: Annotated[Path | None, typer.Argument(help="Target side.", exists=True, dir_okay=False)] = None,
    alignment: Annotated[
        Path | None, typer.Argument(help="Alignments, Pharaoh lines.", exists=True, dir_okay=False)
    ] = None,
    treebank: Annotated[
        Path | None, typer.Option(help="Trees in brackets, for the trees section.", exists=True, dir_okay=False)
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help=f"A section: {', '.join(SECTIONS)}; may be repeated.", show_default=", ".join(_DEFAULT_SECTIONS)
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON for programs.")] = False,
) -> None:
    """Measure forests, sweeps, ingest, learning, export and start-up on a bitext, or sweeps over a treebank.

    Each section runs in a fresh process.

    Figures are worth comparing within one run: the load of a shared machine moves all of them together.

    \b
    Example:
      hierogram bench corpus.zh corpus.en align.gdfa --only sweeps --json
      hierogram bench corpus.zh corpus.en --only itg
      hierogram bench --only trees --treebank trees.ptb --pairs 2000
    """
    from hierogram.tools.measures.machine import describe_machine, processor_times, stolen_share
    from hierogram.tools.measures.results import Corpus, measured

    chosen = tuple(only or _DEFAULT_SECTIONS)
    unknown = [name for name in chosen if name not in SECTIONS]
    if unknown:
        raise typer.BadParameter(f"no section {unknown[0]!r}; there are {', '.join(SECTIONS)}", param_hint="--only")
    alone = set(chosen) <= {"trees", "itg"}
    if ("itg" in chosen or not alone) and (source is None or target is None):
        raise typer.BadParameter("name a bitext: SOURCE TARGET, and ALIGNMENT for all sections but itg")
    if alignment is None and not alone:
        raise typer.BadParameter("name a bitext: SOURCE TARGET ALIGNMENT, or --only trees with --treebank")
    if "trees" in chosen and treebank is None:
        raise typer.BadParameter("the section trees needs a treebank", param_hint="--treebank")
    extra = {"treebank": str(treebank), "small": str(how.small), "large": str(how.large), "rules": str(how.rules)}
    if how.postgres:
        extra["postgres"] = how.postgres
    corpus = Corpus(str(source), str(target), str(alignment), how.pairs, how.seed, how.threads, extra)
    report: dict[str, Any] = {"machine": describe_machine(), "seed": how.seed, "threads": how.threads, "sections": {}}
    if not as_json:
        _say("machine", report["machine"])
    for name in chosen:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        before = processor_times()
        result = measured(name, _measures()[name], corpus)
        report["sections"][name] = {
            **result.figures,
            "peak_memory_mb": round(result.peak_memory / 1e6, 1),
            "stolen_share": stolen_share(before, processor_times()),
        }
        if not as_json:
            _say(name, report["sections"][name])
    if as_json:
        print(json.dumps(report, indent=2, ensure_ascii=False))


def _say(section: str, figures: dict[str, Any]) -> None:
    lines = _flat(figures)
    width = max(len(name) for name, _ in lines)
    print(section)
    for name, value in lines:
        print(f"  {name:<{width}}  {value}")
    print(flush=True)
