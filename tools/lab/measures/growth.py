"""Measure time and memory of the commands on stores of growing size.

    python -m hierogram.tools.lab.measures.growth corpus.fr corpus.en corpus.align --work growth --pairs 40000,500000

The pairs of the bitext, and concatenations of two random pairs, are shuffled. A store of N pairs contains the first N.
Each command is a separate process. The same command continues an interrupted run.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hierogram.daemon.text.lines import write_lines
from hierogram.tools.lab.measures.results import BitextFile, ResultCache, markdown_table, run_in_process

_ADDED = 300
"""Number of pairs that are added to a store after it has learned all other pairs."""
_JOINS = 5
"""Number of concatenations per pair of the bitext."""
_TABLES = {"processor": "Processor time in seconds", "clock": "Wall-clock time in seconds", "peak": "Peak memory in MB"}
"""Titles of the tables, by figure."""

AlignedPair = tuple[str, str, str]
"""Source tokens, target tokens, and links as a Pharaoh line."""


def shuffled_pairs(bitext: Sequence[AlignedPair]) -> Iterator[AlignedPair]:
    """Yield the pairs of the bitext and five times as many concatenations of two random pairs, shuffled."""
    rng = random.Random(1)
    single = [(pair,) for pair in bitext]
    joined = [tuple(rng.choices(bitext, k=2)) for _ in range(_JOINS * len(bitext))]
    parts = [*single, *joined]
    rng.shuffle(parts)
    return map(_concatenate, parts)


def _concatenate(pairs: Sequence[AlignedPair]) -> AlignedPair:
    """Concatenate pairs, and shift the links of the second pair."""
    links: list[str] = []
    source_words = target_words = 0
    for source, target, alignment in pairs:
        for link in alignment.split():
            i, j = link.split("-")
            links.append(f"{int(i) + source_words}-{int(j) + target_words}")
        source_words, target_words = source_words + source.count(" ") + 1, target_words + target.count(" ") + 1
    return " ".join(pair[0] for pair in pairs), " ".join(pair[1] for pair in pairs), " ".join(links)


def run_command(arguments: Sequence[str], folder: Path) -> dict[str, float]:
    """Run a command of `hierogram` in a folder. Returns the figures of `_TABLES`.

    Appends the output to `growth.log`. Raises `RuntimeError` if the command fails.
    """
    started = time.monotonic()
    with (folder / "growth.log").open("a") as log:
        command = [sys.executable, "-m", "hierogram", *arguments]
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"hierogram {' '.join(arguments)} failed: see {log.name}")
    seconds = time.monotonic() - started
    return {"processor": used.ru_utime + used.ru_stime, "clock": seconds, "peak": used.ru_maxrss * 1024 / 1e6}


def write_corpora(paths: Sequence[Path], folder: Path, sizes: Sequence[int]) -> None:
    """Write each size's last 300 pairs to `SIZE.added.{f,e,a}`, and the others to `SIZE.first.{f,e,a}`."""
    columns = (path.read_text(encoding="utf-8").splitlines() for path in paths)
    pairs = list(shuffled_pairs(list(zip(*columns, strict=True))))
    for size in sizes:
        for name, rows in ("first", pairs[: size - _ADDED]), ("added", pairs[size - _ADDED : size]):
            for suffix, texts in zip("fea", zip(*rows, strict=True), strict=True):
                write_lines(folder / f"{size}.{name}.{suffix}", texts)


def measure_store(folder: Path, size: int, sweeps: int, cache: ResultCache) -> Iterator[tuple[str, dict[str, float]]]:
    """Run the commands on the store of one size in order, and yield name and figures of each. Cached."""
    first, added = ([f"{size}.{name}.{suffix}" for suffix in "fea"] for name in ("first", "added"))
    steps = {
        "ingest": ["ingest", *first],
        "learn": ["learn", "--sweeps", str(sweeps)],
        f"ingest {_ADDED}": ["ingest", *added],
        f"learn {_ADDED}": ["learn", "--sweeps", "0"],
        "export": ["export", "--output", f"{size}.cdec.gz"],
        "verify": ["verify"],
    }
    for step, arguments in steps.items():
        command = ["--store", f"sqlite:///{size}.db", *arguments]
        yield step, cache.get_or_make(f"{size} {step}", partial(run_command, command, folder))


def _print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[float]]) -> None:
    cells = ([f"{value:,.1f}" if value < 10 else f"{value:,.0f}" for value in row] for row in rows)
    print(f"\n{title}:\n\n{markdown_table(columns, cells)}")


def main(
    source: BitextFile,
    target: BitextFile,
    alignment: BitextFile,
    work: Annotated[Path, typer.Option(help="Folder of stores and figures; existing ones are reused.")],
    pairs: Annotated[str, typer.Option(help="Sizes of the stores, separated by commas.")] = "40000,125000,500000",
    sweeps: Annotated[int, typer.Option(min=0, help="Sweeps after the burn-in.")] = 4,
) -> None:
    """Measure each command on stores of each size, and print tables of time and memory."""
    sizes = sorted(map(int, pairs.split(",")))
    work.mkdir(parents=True, exist_ok=True)
    # Make the corpora in another process, because the peak memory of a command includes memory of its parent process.
    run_in_process(write_corpora, [source, target, alignment], work, sizes)
    cache = ResultCache(work / "growth.json")
    figures = {size: dict(measure_store(work, size, sweeps, cache)) for size in sizes}
    for figure, title in _TABLES.items():
        rows = ([size, *(values[figure] for values in steps.values())] for size, steps in figures.items())
        _print_table(title, ["pairs", *figures[sizes[0]]], rows)
    manifests = (json.loads((work / f"{size}.cdec.gz.json").read_text(encoding="utf-8")) for size in sizes)
    rows = (
        [size, manifest["rules"], (work / f"{size}.db").stat().st_size / 1e6]
        for size, manifest in zip(sizes, manifests, strict=True)
    )
    _print_table("Sizes", ["pairs", "rules exported", "store MB"], rows)


if __name__ == "__main__":
    typer.run(main)
