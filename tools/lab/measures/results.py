"""Shared parts of measurements: input files, processes, daemons, cached results, tables and figures."""

import csv
import http.client
import itertools
import json
import multiprocessing
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import typer

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.files import atomic_write

Figures = dict[str, Any]
"""Results of a measurement by name. Nested results are dictionaries."""
Value = TypeVar("Value")

BitextFile = Annotated[Path, typer.Argument(exists=True, dir_okay=False)]
"""Argument of a command: an existing file of source sentences, target sentences or links."""

_TIMEOUT_SECONDS = 300.0
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


@dataclass(frozen=True, slots=True)
class Corpus:
    """Input files of the measurements, and the options of `BenchOptions`."""

    source: str
    target: str
    alignment: str
    pairs: int | None = None
    seed: int = 1
    threads: int = 2
    treebank: str | None = None
    rules: int = 1_000_000
    postgres: str | None = None

    @property
    def paths(self) -> list[str]:
        """Paths of source, target and alignment."""
        return [self.source, self.target, self.alignment]

    def files(self, folder: Path) -> list[str]:
        """Return `paths`, or if `pairs` is set, the paths of copies in the folder with only the first pairs."""
        if self.pairs is None:
            return self.paths
        paths = []
        for k, path in enumerate(self.paths):
            cut = folder / f"{k}.txt"
            with Path(path).open("rb") as file, cut.open("wb") as part:
                part.writelines(itertools.islice(file, self.pairs))
            paths.append(str(cut))
        return paths


Measure = Callable[[Corpus], Figures]
"""Measurement of one section of the benchmark."""


def peak_mb() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def processor_seconds(processes: int) -> float:
    """Return processor seconds of this process (`RUSAGE_SELF`) or finished children (`RUSAGE_CHILDREN`)."""
    usage = resource.getrusage(processes)
    return usage.ru_utime + usage.ru_stime


def run_module(
    module: str, *arguments: str, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """Run a Python module in a new process and return its output. Raises `RuntimeError` if it fails."""
    command = [sys.executable, "-m", module, *arguments]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"{module} {' '.join(arguments)}: exit code {ran.returncode}: {ran.stderr[-1000:]}")
    return ran.stdout


def run_in_process(work: Callable[..., Value], *arguments: Any) -> Value:
    """Call a function in a new process and return the result. All must be picklable."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def _with_peak(measure: Measure, corpus: Corpus) -> Figures:
    return measure(corpus) | {"peak_memory_mb": round(peak_mb(), 1)}


def measure_in_process(measure: Measure, corpus: Corpus) -> Figures:
    """Run a measurement in a new process. Returns figures and peak memory in MB."""
    return run_in_process(_with_peak, measure, corpus)


@contextmanager
def serving(configuration: str, *arguments: str, folder: Path) -> Iterator[str]:
    """Run a daemon in the folder and yield its address. The configuration must contain `port = 0`.

    Raises `RuntimeError` if the daemon does not start.
    """
    (folder / "serve.toml").write_text(configuration)
    command = [sys.executable, "-m", "hierogram.daemon.cli.main", *arguments, "serve", "--config", "serve.toml"]
    log_file, until = folder / "serve.log", time.monotonic() + _TIMEOUT_SECONDS
    with log_file.open("w") as log, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process:
        try:
            while not (match := _ADDRESS.search(log_file.read_text())):
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"the daemon did not start: {log_file.read_text()}")
                time.sleep(0.1)
            yield match.group()
        finally:
            process.terminate()


def post(url: str, path: str, body: Any) -> Any:
    """Post a JSON body to a daemon and return the response. Raises `RuntimeError` for an error response."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_TIMEOUT_SECONDS)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    if answer.status >= http.client.BAD_REQUEST:
        raise RuntimeError(f"POST {path}: status {answer.status}: {content.decode()}")
    return json.loads(content)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a temporary folder. Errors when it is deleted are ignored."""
    with tempfile.TemporaryDirectory(prefix="hierogram-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def time_call(work: Callable[[], Value], clock: Callable[[], float] = time.perf_counter) -> tuple[float, Value]:
    """Call a function and return the seconds on the clock and the result."""
    started = clock()
    done = work()
    return clock() - started, done


class ResultCache:
    """Cache of named results in a JSON file, so that an interrupted run can continue."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def get_or_make(self, name: str, make: Callable[[], Value], file: Path | None = None) -> Value:
        """Return the cached result. If the result or `file` is missing, call `make` and cache its result."""
        if name not in self._values or (file is not None and not file.exists()):
            self._values[name] = make()
            write_json(self._path, self._values)
        value: Value = self._values[name]
        return value


def check_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Write the settings of results to a file. Raises `UsageError` if the file has other settings."""
    now = json.loads(json.dumps(dict(settings)))
    if not path.exists():
        write_json(path, now)
        return
    before = json.loads(path.read_text(encoding="utf-8"))
    if before != now:
        differing = ", ".join(sorted(name for name in {*before, *now} if before.get(name) != now.get(name)))
        raise UsageError(f"{path.parent} contains results with other values of {differing}: name another folder")


def select_spaced(items: Sequence[Value], number: int) -> Sequence[Value]:
    """Return `number` evenly spaced items, or all items if there are fewer."""
    return items if len(items) <= number else [items[k * len(items) // number] for k in range(number)]


def markdown_table(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table. All columns except the first are right-aligned."""
    lines = (f"| {' | '.join(row)} |" for row in (columns, *rows))
    return "\n".join([next(lines), f"|---|{'---:|' * (len(columns) - 1)}", *lines])


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Iterable[Any]], delimiter: str = ",") -> None:
    """Write a CSV file with column names in the first line."""
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([columns, *rows])


def write_json(path: Path, values: Any) -> None:
    """Write values to a JSON file atomically."""
    with atomic_write(path.absolute()) as file:
        file.write(json.dumps(values, indent=2, ensure_ascii=False).encode() + b"\n")


@contextmanager
def save_figure(
    path: Path, rows: int = 1, columns: int = 1, *, size: tuple[float, float], **options: Any
) -> Iterator[Any]:
    """Yield the panels of a new figure, and save the figure as PNG. `size` is in inches."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(rows, columns, figsize=size, **options)
    try:
        yield panels
        figure.tight_layout()
        figure.savefig(path, dpi=120)
    finally:
        pyplot.close(figure)
