"""The loop of the spool, run within a test for some looks at the folder."""

from collections.abc import Callable

import structlog
from structlog.testing import capture_logs
from structlog.typing import EventDict as Told

from hierogram.daemon.configuration import Configuration, SpoolSection
from hierogram.daemon.serving.health import Board
from hierogram.daemon.serving.intake import Intake
from hierogram.daemon.serving.supervision import Heart
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


def run(store: Store, looks: Looks, **section: object) -> tuple[list[Told], Board]:
    """What is logged, and what others may see in the end."""
    board = Board()
    configuration = Configuration(spool=SpoolSection.model_validate(section))
    with capture_logs() as said:
        intake = Intake(store, lambda: configuration, board, structlog.stdlib.get_logger())
        intake.prepare(configuration)
        intake.run(looks, Heart())
    return said, board


def nothing() -> None:
    pass
