"""The spool loop alone, on a store and a folder, in a process that tests kill."""

import sys
import threading
from pathlib import Path

import structlog

from hierogram.daemon.configuration import Configuration, SpoolSection
from hierogram.daemon.serving.spool import SpoolLoop
from hierogram.daemon.serving.supervision import HealthRegistry, Heartbeat
from hierogram.storage.store import open_store


def main() -> None:
    url, folder = sys.argv[1:]
    configuration = Configuration(spool=SpoolSection(folder=Path(folder), poll_seconds=0.05))
    with open_store(url) as store:
        store.close_abandoned_batches()
        intake = SpoolLoop(store, lambda: configuration, HealthRegistry(), structlog.stdlib.get_logger())
        intake.prepare(configuration)
        intake.run(threading.Event(), Heartbeat())


if __name__ == "__main__":
    main()
