"""Progress of work: a bar with rates on a terminal, a plain line now and then elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from hierogram.samplers.compiled import LISTENERS

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

_QUIET_SECONDS = 2.0
_SECONDS_A_LINE = 10.0


class Progress:
    """Progress of a piece of work as plain lines on standard error; none for work that is soon done."""

    def __init__(self, title: str, unit: str) -> None:
        self.title = title
        self.unit = unit
        self.started = self.last = time.monotonic()
        self.pause = _QUIET_SECONDS

    def update(self, done: float, total: float | None, count: int, note: str = "", unit: str | None = None) -> None:
        """Report that work is at `done` of `total` (None: unknown), with `count` units; `note` is the rest in words.

        `unit` says what is counted in this part of the work, where that is not what the whole is counted in.
        """
        now = time.monotonic()
        if now - self.last < self.pause:
            return
        self.last = now
        self.pause = _SECONDS_A_LINE
        share = f" {100 * done / total:.0f} %," if total else ""
        rate = count / max(now - self.started, 1e-9)
        said = f"{self.title}:{share} {count:,} {unit or self.unit}, {rate:,.0f}/s{note and ', ' + note}"
        print(said, file=sys.stderr, flush=True)


class _Bar(Progress):
    """The same as a bar."""

    def __init__(self, title: str, unit: str, shown: "RichProgress") -> None:
        super().__init__(title, unit)
        self._shown = shown
        self._task = shown.add_task(title, total=None, said="")

    def update(self, done: float, total: float | None, count: int, note: str = "", unit: str | None = None) -> None:
        rate = count / max(time.monotonic() - self.started, 1e-9)
        said = f"{count:,} {unit or self.unit}  {rate:,.0f}/s  {note}"
        self._shown.update(self._task, completed=done, total=total, said=said)


_SILENT = ContextVar("silent", default=False)
COMMANDS = ContextVar("commands", default=False)
"""Whether the command line calls the library, so that progress is printed."""


@contextmanager
def silence() -> Iterator[None]:
    """Print no progress within, where a program calls that has a terminal of its own."""
    before = _SILENT.set(not COMMANDS.get())
    try:
        yield
    finally:
        _SILENT.reset(before)


def print_compiling() -> None:
    """Print from now on why nothing moves, when kernels are compiled that have not run on this machine before."""
    said = "compiling for this machine, which takes twenty seconds to a minute, once …"
    LISTENERS.append(lambda: print(said, file=sys.stderr, flush=True))


@contextmanager
def progress(title: str, unit: str) -> Iterator[Progress]:
    """Report a piece of work, counted in `unit`, on standard error; a bar goes away when the work is done."""
    if _SILENT.get() or not sys.stderr.isatty():
        plain = Progress(title, unit)
        if _SILENT.get():
            plain.pause = float("inf")
        yield plain
        return
    # Slow to load, and needed on a terminal alone.
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[said]}", markup=False),
        TimeRemainingColumn(),
    )
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as shown:
        yield _Bar(title, unit, shown)
