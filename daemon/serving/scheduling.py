"""Loop that runs exports when they are due."""

import time
from dataclasses import replace

from hierogram.daemon.configuration import Configuration
from hierogram.daemon.exports.exporting import Published
from hierogram.daemon.exports.options import ExportJob
from hierogram.daemon.exports.schedule import check_configured_jobs, configure_jobs, correct_next_runs, run_due
from hierogram.daemon.serving.supervision import Heartbeat, StopFlag, StoreLoop

_PAUSE_SECONDS = 1.0
_CLOCK_CHECK_SECONDS = 60.0
"""Seconds between checks for next runs that were computed while the clock was ahead."""


class ScheduleLoop(StoreLoop):
    """Loop that runs the export jobs of the configuration and of `hierogram export`."""

    name = "schedule"
    sections = frozenset({"exports", "timezone"})

    def prepare(self, configuration: Configuration) -> None:
        """Raise `UsageError`, with the name of the key, if a configured job cannot run."""
        check_configured_jobs(self._store, configured_jobs(configuration))

    def run(self, stop: StopFlag, beat: Heartbeat) -> None:
        """Run due jobs until `stop` is set; see `Loop.run`."""
        self._store.close_abandoned_exports()
        beat.progress()
        configure_jobs(self._store, configured_jobs(self._configuration()))
        checked_at = float("-inf")
        while not stop.is_set():
            if time.monotonic() - checked_at >= _CLOCK_CHECK_SECONDS:
                for job in correct_next_runs(self._store):
                    self._log.warning("next run corrected, the clock was ahead", job=job)
                checked_at = time.monotonic()
            run_due(self._store, self._log_run, lambda *_: beat(), stop.is_set)
            beat.ok()
            stop.wait(_PAUSE_SECONDS)

    def _log_run(self, job: str, published: Published | None, error: Exception | None) -> None:
        if published is None:
            self._log.error("export failed", job=job, error=str(error))
        else:
            result = "export unchanged" if published.unchanged else "exported"
            self._log.info(result, job=job, rules=published.manifest.rules, folder=str(published.folder))


def configured_jobs(configuration: Configuration) -> list[ExportJob]:
    """Return the export jobs of a configuration, each with a time zone."""
    zone = configuration.timezone
    return [replace(job, timezone=zone if job.timezone is None else job.timezone) for job in configuration.exports]
