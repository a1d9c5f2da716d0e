"""A measurement as a value: in a process of its own, kept in a file, drawn as a figure."""

import itertools
import json
import multiprocessing
import resource
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.files import appearing

Figures = dict[str, Any]
Value = TypeVar("Value")

BitextFile = Annotated[Path, typer.Argument(exists=True, dir_okay=False)]


class MeasureError(RuntimeError):
    """A measurement failed in its process."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """The bitext that is measured: three parallel files, and how many of their pairs."""

    source: str
    target: str
    alignment: str
    pairs: int | None = None
    seed: int = 1
    threads: int = 2
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> list[str]:
        """The three files."""
        return [self.source, self.target, self.alignment]

    def files(self, folder: Path) -> list[str]:
        """Return the three files cut to the number of pairs, the cut ones in the folder."""
        if self.pairs is None:
            return self.paths
        paths = []
        for k, path in enumerate(self.paths):
            cut = folder / f"{k}.txt"
            with Path(path).open("rb") as whole, cut.open("wb") as part:
                part.writelines(itertools.islice(whole, self.pairs))
            paths.append(str(cut))
        return paths


Measure = Callable[[Corpus], Figures]


def _run(measure: Measure, corpus: Corpus, answer: Connection) -> None:
    try:
        figures = measure(corpus)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        answer.send((figures | {"peak_memory_mb": round(peak / 1e6, 1)}, True))
    except BaseException:
        answer.send((traceback.format_exc(), False))
        raise


def measured(section: str, measure: Measure, corpus: Corpus) -> Figures:
    """Run a measurement in a fresh process, so that memory is its own; returns its figures and the most memory, MB.

    Raises `MeasureError`.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(measure, corpus, there), name=f"bench {section}")
    process.start()
    there.close()
    try:
        figures, went_well = here.recv()
    except EOFError as error:
        raise MeasureError(f"{section}: the measuring process ended without an answer") from error
    finally:
        process.join()
    if not went_well:
        raise MeasureError(f"{section}: {figures}")
    found: Figures = figures
    return found


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="hierogram-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def timed(work: Callable[[], Value], clock: Callable[[], float] = time.perf_counter) -> tuple[float, Value]:
    """Return the seconds that some work takes, and what it gives."""
    started = clock()
    done = work()
    return clock() - started, done


class Kept:
    """Findings of long runs: plain values by name in a JSON file, so that a run goes on where it stopped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def find(self, name: str, make: Callable[[], Value], made: Path | None = None) -> Value:
        """Return what an earlier run found, where the file that it `made` is still there; else `make` finds it."""
        if name not in self._values or (made is not None and not made.exists()):
            self._values[name] = make()
            _write_json(self._path, self._values)
        value: Value = self._values[name]
        return value


def check_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Keep what a folder's results were asked for with; raises `UsageError` where it was something else."""
    now = json.loads(json.dumps(dict(settings)))
    if not path.exists():
        _write_json(path, now)
        return
    before = json.loads(path.read_text(encoding="utf-8"))
    if before != now:
        other = ", ".join(sorted(name for name in {*before, *now} if before.get(name) != now.get(name)))
        raise UsageError(f"{path.parent} holds results that were asked for with another {other}: name another folder")


def _write_json(path: Path, values: Any) -> None:
    with appearing(path.absolute()) as file:
        file.write(json.dumps(values, indent=2, ensure_ascii=False).encode() + b"\n")


@contextmanager
def drawn(path: Path, rows: int = 1, columns: int = 1, *, size: tuple[float, float], **how: Any) -> Iterator[Any]:
    """Draw a figure of panels, inches wide and high, without a screen; it is a PNG when all went well."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(rows, columns, figsize=size, **how)
    try:
        yield panels
        figure.tight_layout()
        figure.savefig(path, dpi=120)
    finally:
        pyplot.close(figure)
