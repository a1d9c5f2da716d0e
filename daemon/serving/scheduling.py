"""The loop that runs exports when it is time."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from hierogram.daemon.exceptions import DaemonError
from hierogram.daemon.serving.logs import Log
from hierogram.daemon.serving.supervision import Heartbeat, Loop, StopFlag
from hierogram.storage.store import Store

if TYPE_CHECKING:
    from hierogram.daemon.configuration import Configuration
    from hierogram.daemon.exports.exporting import Published

_LOOK_SECONDS = 1.0


class ScheduleLoop(Loop):
    """Runs the jobs of the schedule at their times, those of the configuration and those that were added."""

    name = "schedule"
    sections: frozenset[str] = frozenset({"exports"})

    def __init__(self, store: Store, configuration: "Callable[[], Configuration]", log: Log) -> None:
        self._store = store
        self._configuration = configuration
        self._log = log.bind(loop=self.name)

    def run(self, stop: StopFlag, beat: Heartbeat) -> None:
        """See `Loop.run`."""
        from hierogram.daemon.exports.schedule import ExportSchedule

        schedule = ExportSchedule(self._store, self._configuration().exports, self._tell)
        schedule.start()
        try:
            while not stop.is_set():
                if not schedule.alive():
                    raise DaemonError("the scheduler has ended by itself")
                schedule.look()
                beat.well()
                stop.wait(_LOOK_SECONDS)
        finally:
            schedule.stop()

    def _tell(self, job: str, made: "Published | None", error: Exception | None) -> None:
        if made is not None:
            self._log.info("exported", job=job, rules=made.manifest.rules, folder=str(made.folder))
        else:
            self._log.error("export failed", job=job, error=str(error))
