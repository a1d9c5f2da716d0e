"""The loop that runs what is due at certain times."""

from hierogram.daemon.serving.supervision import Heart, StopFlag

_LOOK_SECONDS = 1.0


class Scheduling:
    """Runs jobs at their times; there is nothing yet that could be scheduled."""

    name = "schedule"
    sections: frozenset[str] = frozenset()

    def run(self, stop: StopFlag, beat: Heart) -> None:
        """See `Loop.run`."""
        while not stop.is_set():
            beat.well()
            stop.wait(_LOOK_SECONDS)
