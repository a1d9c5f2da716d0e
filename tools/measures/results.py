"""A measurement as a value, and running one in a process of its own."""

import itertools
import multiprocessing
import resource
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

Figures = dict[str, Any]


class MeasureError(RuntimeError):
    """A measurement failed in its process."""


@dataclass(frozen=True, slots=True)
class Result:
    """Figures of one section and the most memory that its process held, bytes."""

    section: str
    figures: Figures
    peak_memory: int


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
        """The three files cut to the number of pairs, the cut ones in the folder."""
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
        answer.send((figures, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
    except BaseException:
        answer.send((traceback.format_exc(), None))
        raise


def measured(section: str, measure: Measure, corpus: Corpus) -> Result:
    """Run a measurement in a fresh process, so that memory is its own; raises `MeasureError`."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(measure, corpus, there), name=f"bench {section}")
    process.start()
    there.close()
    try:
        figures, peak = here.recv()
    except EOFError as error:
        raise MeasureError(f"{section}: the measuring process ended without an answer") from error
    finally:
        process.join()
    if peak is None:
        raise MeasureError(f"{section}: {figures}")
    return Result(section, figures, peak)
