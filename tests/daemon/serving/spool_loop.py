"""Run the spool loop within a test, for a number of scans of the folder."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import structlog
from structlog.testing import capture_logs
from structlog.typing import EventDict as Told

from hierogram.daemon.configuration import Configuration, SpoolSection
from hierogram.daemon.serving.spool import SpoolInput, SpoolLoop, ingest_input
from hierogram.daemon.serving.supervision import HealthRegistry, Heartbeat
from hierogram.daemon.text.ingest import DEFAULT_CORPUS, IngestReport
from hierogram.daemon.text.reading import STORE_DEFAULTS
from hierogram.storage.store import Store
from hierogram.storage.worker_process import WorkerProcess


class ScanLimit:
    """A stop flag that runs one action between two scans, and is set when no action is left."""

    def __init__(self, *before: Callable[[], object]) -> None:
        self._before = list(before)
        self._ended = False

    def is_set(self) -> bool:
        return self._ended

    def wait(self, _seconds: float | None = None) -> bool:
        if self._before:
            self._before.pop(0)()
        else:
            self._ended = True
        return self._ended


def run(store: Store, limit: ScanLimit, **section: object) -> tuple[list[Told], HealthRegistry]:
    """Run the loop, and return its log and its health registry."""
    health = HealthRegistry()
    configuration = Configuration(spool=SpoolSection.model_validate(section))
    with capture_logs() as logs:
        intake = SpoolLoop(store, lambda: configuration, health, structlog.stdlib.get_logger())
        intake.prepare(configuration)
        intake.run(limit, Heartbeat())
    return logs, health


def read(
    store: Store, files: SpoolInput, check_stop: Callable[[], None] = lambda: None, **options: Any
) -> IngestReport:
    """Ingest one input with its own reader process."""
    with closing(WorkerProcess()) as reader:
        defaults = {"corpus": DEFAULT_CORPUS, "options": STORE_DEFAULTS}
        return ingest_input(store, files, reader, check_stop, **defaults | options)


def nothing() -> None:
    pass
