"""Progress of work, as a bar on a terminal or as occasional plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hierogram.samplers.compiled import LISTENERS

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

Steps = Callable[[int, int], None]
"""Progress callback: `(steps done, steps in total)`."""
Phases = Callable[[str, int, int | None], None]
"""Progress callback: `(phase, steps done in the phase, steps in total or None if unknown)`."""

_QUIET_SECONDS = 2.0
_SECONDS_PER_LINE = 10.0


class Progress:
    """Progress in items of `unit`, as a bar on a `display`, or as plain lines after two seconds."""

    def __init__(self, title: str, unit: str, display: "RichProgress | None" = None) -> None:
        self.title = title
        self.unit = unit
        self._started = self._last_line = time.monotonic()
        self.pause = _QUIET_SECONDS
        """Seconds before the next plain line."""
        self._display = display
        if display is not None:
            self._task = display.add_task(title, total=None, text="")

    def update(
        self, done: float, total: float | None = None, count: int | None = None, note: str = "", unit: str | None = None
    ) -> None:
        """Report `done` of `total` (None if unknown), `count` units (default: `done`) and a note."""
        now = time.monotonic()
        if self._display is None and now - self._last_line < self.pause:
            return
        amount = done if count is None else count
        amounts = f"{amount:,} {unit or self.unit}", f"{amount / max(now - self._started, 1e-9):,.0f}/s"
        if self._display is not None:
            self._display.update(self._task, completed=done, total=total, text="  ".join([*amounts, note]))
            return
        self._last_line = now
        self.pause = _SECONDS_PER_LINE
        share = f" {100 * done / total:.0f} %," if total else ""
        print(f"{self.title}:{share} {', '.join(filter(None, [*amounts, note]))}", file=sys.stderr, flush=True)


_enabled = False


def show_progress() -> None:
    """Print progress and a note about compilation from now on. Only the command line calls this."""
    global _enabled
    _enabled = True
    message = "compiling the samplers for this machine (once, 20 to 60 seconds) …"
    LISTENERS.append(lambda: print(message, file=sys.stderr, flush=True))


@contextmanager
def progress(title: str, unit: str) -> Iterator[Progress]:
    """Show progress in `unit` if `show_progress` was called. A bar disappears at the end."""
    if not _enabled or not sys.stderr.isatty():
        plain = Progress(title, unit)
        if not _enabled:
            plain.pause = float("inf")
        yield plain
        return
    # Import late, because rich is slow to import and needed only on a terminal.
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[text]}", markup=False),
        TimeRemainingColumn(),
    )
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as display:
        yield Progress(title, unit, display)
