"""Command `python -m hierogram.tools.lab bench`: benchmarks on a bitext or treebank, by section."""

import json
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from hierogram.daemon.cli.flags import with_options
from hierogram.storage.options import Option

SECTIONS = {
    "forests": "sampling.measure_forests",
    "sweeps": "sampling.measure_sweeps",
    "ingest": "stores.measure_ingest",
    "learning": "stores.measure_learning",
    "starting": "sampling.measure_starting",
    "trees": "treebanks.measure_trees",
    "itg": "itg.measure_itg",
    "queries": "exporting.measure_queries",
    "exporting": "exporting.measure_exporting",
    "translating": "translating.measure_translating",
    "pages": "responses.measure_pages",
    "services": "responses.measure_services",
}
"""Module and function in `hierogram.tools.lab.measures` that measure each section."""
_DEFAULT_SECTIONS = ("forests", "sweeps", "ingest", "learning", "starting")


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def describe_machine() -> dict[str, str | int | float]:
    """Return the hardware, the versions of software, and the current load."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "memory_gb": round(memory / 1e9, 1),
        "load_before": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": sys.version.split()[0],
        **{name: version(name) for name in ("hierogram", "numpy", "numba", "sqlalchemy")},
    }


def _flatten(figures: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield names and formatted values of nested figures, with the names of outer figures first."""
    for key, value in figures.items():
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, dict):
            yield from _flatten(value, f"{name} ")
        elif isinstance(value, float):
            yield name, f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
        else:
            yield name, f"{value:,}" if isinstance(value, int) else str(value)


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """Options of all sections."""

    pairs: Annotated[int | None, Option("Use only the first N pairs or trees.", min=1)] = None
    threads: Annotated[int, Option("Threads of the sampler.", min=1)] = 2
    seed: Annotated[int, Option("Seed of the random streams.")] = 1
    postgres: Annotated[str | None, Option("URL of an empty Postgres database, for ingest, pages or services.")] = None
    rules: Annotated[int, Option("Maximum number of rules of a large store or grammar.", min=1)] = 1_000_000


@with_options
def bench(
    options: BenchOptions,
    source: Annotated[
        Path | None, typer.Argument(help="Source sentences, one per line.", exists=True, dir_okay=False)
    ] = None,
    target: Annotated[Path | None, typer.Argument(help="Target sentences.", exists=True, dir_okay=False)] = None,
    alignment: Annotated[
        Path | None, typer.Argument(help="Links, one Pharaoh line per pair.", exists=True, dir_okay=False)
    ] = None,
    treebank: Annotated[
        Path | None, typer.Option(help="Trees in brackets, for the section trees.", exists=True, dir_okay=False)
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Section to run: {', '.join(SECTIONS)}; may be repeated.", show_default=", ".join(_DEFAULT_SECTIONS)
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write machine-readable JSON.")] = False,
) -> None:
    """Measure the speed of Hierogram on a bitext, or of parsing on a treebank.

    Each section runs in a new process. Compare figures only within one run, because other load on the machine changes
    between runs.

    \b Example:
      python -m hierogram.tools.lab bench corpus.zh corpus.en align.gdfa --only sweeps --json
      python -m hierogram.tools.lab bench corpus.zh corpus.en --only itg
      python -m hierogram.tools.lab bench --only trees --treebank trees.ptb --pairs 2000
    """  # noqa: D301 (\b is the marker of click for text that is not wrapped)
    from hierogram.tools.lab.measures.results import Corpus, measure_in_process

    chosen = tuple(only or _DEFAULT_SECTIONS)
    unknown = [name for name in chosen if name not in SECTIONS]
    if unknown:
        raise typer.BadParameter(f"unknown section {unknown[0]!r}: expected {', '.join(SECTIONS)}", param_hint="--only")
    needs_no_alignment = set(chosen) <= {"trees", "itg"}
    if ("itg" in chosen or not needs_no_alignment) and (source is None or target is None):
        raise typer.BadParameter("expected a bitext: SOURCE TARGET ALIGNMENT (the section itg needs no ALIGNMENT)")
    if alignment is None and not needs_no_alignment:
        raise typer.BadParameter("expected a bitext: SOURCE TARGET ALIGNMENT, or --only trees with --treebank")
    if "trees" in chosen and treebank is None:
        raise typer.BadParameter("the section trees requires a treebank", param_hint="--treebank")
    corpus = Corpus(str(source), str(target), str(alignment), treebank=str(treebank), **asdict(options))
    report: dict[str, Any] = {
        "machine": describe_machine(),
        "seed": options.seed,
        "threads": options.threads,
        "sections": {},
    }
    if not as_json:
        _print_section("machine", report["machine"])
    for name in chosen:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        module, function = SECTIONS[name].split(".")
        figures = measure_in_process(getattr(import_module(f"hierogram.tools.lab.measures.{module}"), function), corpus)
        report["sections"][name] = figures
        if not as_json:
            _print_section(name, figures)
    if as_json:
        print(json.dumps(report, indent=2, ensure_ascii=False))


def _print_section(section: str, figures: dict[str, Any]) -> None:
    lines = list(_flatten(figures))
    width = max(len(name) for name, _ in lines)
    print(section)
    for name, value in lines:
        print(f"  {name:<{width}}  {value}")
    print(flush=True)
