"""The loop of the spool, run within a test for some looks at the folder."""

from collections.abc import Callable

import structlog
from structlog.testing import capture_logs
from structlog.typing import EventDict as Told

from hierogram.daemon.configuration import Configuration, SpoolSection
from hierogram.daemon.serving.health import HealthRegistry
from hierogram.daemon.serving.spool import SpoolLoop
from hierogram.daemon.serving.supervision import Heartbeat
from hierogram.storage.store import Store


class Looks:
    """A stop flag that is set after so many looks, before each of which something happens."""

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


def run(store: Store, looks: Looks, **section: object) -> tuple[list[Told], HealthRegistry]:
    """What is logged, and what others may see in the end."""
    health = HealthRegistry()
    configuration = Configuration(spool=SpoolSection.model_validate(section))
    with capture_logs() as said:
        intake = SpoolLoop(store, lambda: configuration, health, structlog.stdlib.get_logger())
        intake.prepare(configuration)
        intake.run(looks, Heartbeat())
    return said, health


def nothing() -> None:
    pass
