"""A daemon with few descriptors, and checks of its response times, ingestion, sampling and memory."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
from tests.daemon.campaigns.daemon import Daemon, HttpFeeder, PairStream, wait_until
from tests.daemon.conftest import QUICK

from hierogram.storage.store import open_store

DESCRIPTORS = 1_024
SECONDS = 1.0
"""Maximum response time on an idle machine, under any attack."""
MAX_BYTES = 1_200_000_000


class Victim:
    """Daemon under attack. Records its faults, slowest response and peak memory."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.faults: list[str] = []
        self.slowest = 0.0
        self.most = 0
        self._feeder = HttpFeeder(PairStream("honest", 1), max_pairs=3)

    def look(self, during: str) -> None:
        """Record late or missing answers, an unhealthy status, and too much memory. Fails if the daemon ended."""
        self.daemon.check()
        for path in ("/healthz", "/v1/status"):
            began = time.monotonic()
            try:
                answer = httpx2.get(self.daemon.address(path), timeout=10 * SECONDS)
                if path == "/healthz" and answer.status_code != 200:
                    self.faults.append(f"{during}: {path}: {answer.status_code} {answer.text[:200]}")
            except httpx2.HTTPError as error:
                self.faults.append(f"{during}: {path}: {error!r}")
            took = time.monotonic() - began
            if took > SECONDS:
                self.faults.append(f"{during}: {path}: {took:.2f} s")
            self.slowest = max(self.slowest, took)
        self.most = self.peak()
        if self.most > MAX_BYTES:
            self.faults.append(f"{during}: {self.most / 1e6:,.0f} MB")

    def peak(self) -> int:
        """Return the peak memory in bytes."""
        assert self.daemon.process is not None
        text = Path(f"/proc/{self.daemon.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", text)
        assert found is not None
        return int(found[1]) * 1024

    def descriptors(self) -> int:
        assert self.daemon.process is not None
        return sum(1 for _ in Path(f"/proc/{self.daemon.process.pid}/fd").iterdir())

    def feed(self, number: int) -> None:
        """Ingest pairs, and wait until they are stored."""
        self._feeder.feed(self.daemon, number)

    def wait_until_sampled(self) -> None:
        """Wait until every pair has completed the schedule."""
        wait_until(self.daemon.settled, "all pairs are settled", pause=0.5)


@contextmanager
def victim(url: str, folder: Path, **environment: str) -> Iterator[Victim]:
    """Run a daemon with few descriptors on a new store, and always end it."""
    open_store(url, create=True, settings=QUICK).close()
    daemon = Daemon(url, folder, **environment)
    with daemon.limited(DESCRIPTORS):
        found = Victim(daemon)
        yield found
        print(f"peak {found.most / 1e6:,.0f} MB, slowest answer {found.slowest:.2f} s")
