"""Turns of the sampling loop, run by the test."""

import threading

import structlog

from hierogram.daemon.configuration import SamplingSection
from hierogram.daemon.learning.learner import Learner, LearnOptions
from hierogram.daemon.serving.sampling import SamplingTurns
from hierogram.daemon.serving.supervision import HealthRegistry, Heartbeat
from hierogram.storage.store import Store

SHORT = {"commit_seconds": 1e-6, "new_share": 1.0, "idle_share": 1.0}
"""Options of turns that take one sweep."""
OPTIONS = LearnOptions(1, likelihood_seconds=1e6)
LOG = structlog.stdlib.get_logger()


class ManualTurns:
    """A sampling loop whose turns a test runs one by one."""

    def __init__(self, store: Store, learn_options: LearnOptions = OPTIONS, **section: object) -> None:
        self.health = HealthRegistry()
        self.stop = threading.Event()
        self.heart = Heartbeat()
        self.learner = Learner(store, learn_options)
        options = SamplingSection.model_validate(section)
        self.turns = SamplingTurns(self.learner, options, self.stop, self.heart, self.health, LOG)

    def __enter__(self) -> "ManualTurns":
        return self

    def __exit__(self, *_: object) -> None:
        self.learner.chain.close()

    def settle(self) -> int:
        """Run turns until no pair is behind, and return their number."""
        number = 0
        while number == 0 or self.health.lag().pairs:
            self.turns.run_turn()
            number += 1
        return number
