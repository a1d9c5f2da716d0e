"""How long work tells of itself: a bar with rates on a terminal, a plain line now and then elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

_QUIET_SECONDS = 2.0
_SECONDS_A_LINE = 10.0


class Progress(Protocol):
    """What is told of a piece of work."""

    def update(self, done: float, total: float | None, count: int, note: str = "", unit: str | None = None) -> None:
        """The work is at `done` of `total` (None: unknown); `count` units are done, `note` is the rest in words.

        `unit` says what is counted in this part of the work, where that is not what the whole is counted in.
        """


class _Lines:
    """Progress as plain lines on standard error; nothing for work that is soon done."""

    def __init__(self, title: str, unit: str) -> None:
        self.title = title
        self.unit = unit
        self.started = self.last = time.monotonic()
        self.pause = _QUIET_SECONDS

    def update(self, done: float, total: float | None, count: int, note: str = "", unit: str | None = None) -> None:
        """See `Progress.update`."""
        now = time.monotonic()
        if now - self.last < self.pause:
            return
        self.last = now
        self.pause = _SECONDS_A_LINE
        share = f" {100 * done / total:.0f} %," if total else ""
        print(f"{self.title}:{share} {_counted(count, unit or self.unit, now - self.started)}{note and ', ' + note}",
              file=sys.stderr, flush=True)  # fmt: skip


def _counted(count: int, unit: str, seconds: float) -> str:
    return f"{count:,} {unit}, {count / max(seconds, 1e-9):,.0f}/s"


class _Bar:
    def __init__(self, progress: "RichProgress", task: "TaskID", unit: str) -> None:
        self._progress = progress
        self._task = task
        self._unit = unit
        self._started = time.monotonic()

    def update(self, done: float, total: float | None, count: int, note: str = "", unit: str | None = None) -> None:
        """See `Progress.update`."""
        rate = count / max(time.monotonic() - self._started, 1e-9)
        said = f"{count:,} {unit or self._unit}  {rate:,.0f}/s  {note}"
        self._progress.update(self._task, completed=done, total=total, said=said)


@contextmanager
def _bar(title: str, unit: str) -> Iterator[_Bar]:
    """A bar on standard error that goes away when the work is done."""
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
        yield _Bar(shown, shown.add_task(title, total=None, said=""), unit)


@contextmanager
def progress(title: str, unit: str) -> Iterator[Progress]:
    """Progress of one piece of work, counted in `unit`, on standard error."""
    if not sys.stderr.isatty():
        yield _Lines(title, unit)
        return
    with _bar(title, unit) as shown:
        yield shown
