"""Progress as a bar on a terminal."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeRemainingColumn


class _Bar:
    def __init__(self, progress: Progress, task: TaskID, unit: str) -> None:
        self._progress = progress
        self._task = task
        self._unit = unit
        self._started = time.monotonic()

    def update(self, done: float, total: float | None, count: int, note: str = "", unit: str | None = None) -> None:
        """See `hierogram.daemon.progress.Progress.update`."""
        rate = count / max(time.monotonic() - self._started, 1e-9)
        said = f"{count:,} {unit or self._unit}  {rate:,.0f}/s  {note}"
        self._progress.update(self._task, completed=done, total=total, said=said)


@contextmanager
def bar(title: str, unit: str) -> Iterator[_Bar]:
    """A bar on standard error that goes away when the work is done."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[said]}", markup=False),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        yield _Bar(shown, shown.add_task(title, total=None, said=""), unit)
