"""A daemon in its own process, which tests kill and restart, and feeders that send it pairs."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any, Protocol

import httpx2
from tests.daemon.conftest import QUICK
from tests.processes import is_running

from hierogram.daemon.learning.verifying import verify
from hierogram.daemon.serving.service import warm_up
from hierogram.storage.exceptions import StoreUnavailableError
from hierogram.storage.store import open_store

COMMAND = (sys.executable, "-m", "hierogram")
TIMEOUT = 300.0
"""Timeout in seconds for any single step on a busy machine."""
NO_TIMEOUT = float("inf")
"""Timeout of a feeder, because the daemon may be killed repeatedly. `Feeding.finish` limits the total time."""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_until(condition: Callable[[], Any], what: str, seconds: float = TIMEOUT, pause: float = 0.05) -> Any:
    """Call `condition` repeatedly until its result is true, and return the result. Fails after `seconds`."""
    until = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < until, f"{what}: not within {seconds:.0f} s"
        time.sleep(pause)
    return result


def worker_process_ids(process: int) -> list[int]:
    """Return the ids of a daemon's worker processes, which read files and run SQL queries."""
    ids = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            # Ignore children that end while they are read.
            with suppress(OSError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == process and b"hierogram.storage.worker_process" in (folder / "cmdline").read_bytes():
                    ids.append(int(folder.name))
    return ids


class Daemon:
    """`hierogram serve` on a store, with a spool and a port. Commits often, so that kills interrupt commits."""

    def __init__(self, url: str, folder: Path, **environment: str) -> None:
        # A daemon that is killed while it compiles the samplers would start compiling from the beginning each time.
        warm_up(QUICK)
        self.url = url
        self.spool = folder / "spool"
        self.port = free_port()
        self.log = folder / "daemon.log"
        self.environment = os.environ | {
            "HIEROGRAM_STORE": url,
            "HIEROGRAM_SPOOL__FOLDER": str(self.spool),
            "HIEROGRAM_SPOOL__POLL_SECONDS": "0.05",
            "HIEROGRAM_SAMPLING__COMMIT_SECONDS": "0.1",
            "HIEROGRAM_SAMPLING__THREADS": "1",
            "HIEROGRAM_HTTP__PORT": str(self.port),
            "HIEROGRAM_HTTP__MAX_RATE": "1000",
            "HIEROGRAM_HTTP__MAX_BURST": "1000",
            "HIEROGRAM_LOG__FORMAT": "json",
            **environment,
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*COMMAND, "serve"], env=self.environment, stderr=log, stdout=log)

    def address(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def get(self, path: str) -> httpx2.Response | None:
        """Return the daemon's response, or None if it does not answer."""
        with suppress(httpx2.TransportError):
            return httpx2.get(self.address(path), timeout=TIMEOUT)
        return None

    def request(
        self, method: str, path: str, retried: Collection[int] = (429, 503), **keywords: Any
    ) -> httpx2.Response:
        """Send a request until the daemon answers with a status that is not `retried`."""

        def answered() -> httpx2.Response | None:
            with suppress(httpx2.TransportError):
                answer = httpx2.request(method, self.address(path), timeout=TIMEOUT, **keywords)
                return None if answer.status_code in retried else answer
            return None

        answer: httpx2.Response = wait_until(answered, f"{path} is answered", seconds=NO_TIMEOUT)
        return answer

    def listening(self) -> bool:
        self.check()
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1.0):
            return True
        return False

    def wait_until_listening(self) -> None:
        wait_until(self.listening, "the daemon listens")

    def unready_reasons(self) -> list[str]:
        """Return the reasons why the daemon is not ready, which the status code must match. Empty if ready."""
        self.check()
        answer = self.get("/readyz")
        if answer is None:
            return ["no answer"]
        assert answer.status_code == (200 if answer.json()["ok"] else 503)
        reasons: list[str] = answer.json()["reasons"]
        return reasons

    def wait_until_ready(self) -> None:
        """Wait until the kernels are loaded and the store is available. On a timeout, fail with the reasons."""
        reasons: list[str] = []

        def is_ready() -> bool:
            reasons[:] = self.unready_reasons()
            return not reasons

        try:
            wait_until(is_ready, "the daemon is ready", pause=0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}: {reasons}; {self.log.read_text()[-3000:]}") from error

    def check(self) -> None:
        """Fail if the daemon has ended by itself."""
        assert self.process is not None
        assert self.process.poll() is None, f"the daemon ended: {self.log.read_text()[-3000:]}"

    def kill(self) -> None:
        """Kill the daemon, and check that its worker processes end too."""
        assert self.process is not None
        self.check()
        workers = worker_process_ids(self.process.pid)
        self.process.kill()
        assert self.process.wait(TIMEOUT) == -signal.SIGKILL
        wait_until(lambda: not any(map(is_running, workers)), "its worker processes end")

    def kill_workers(self) -> bool:
        """Kill the daemon's worker processes. Returns False if there were none."""
        assert self.process is not None
        workers = worker_process_ids(self.process.pid)
        for worker in workers:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        return bool(workers)

    def end(self) -> None:
        """Terminate the daemon, and check that it exits cleanly."""
        assert self.process is not None
        self.check()
        self.process.terminate()
        assert self.process.wait(TIMEOUT) == 0, self.log.read_text()[-3000:]

    def limit_files(self, size: int) -> None:
        """Limit the size of the daemon's files, as if the disk were full."""
        assert self.process is not None
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def settled(self) -> bool:
        """Check if every stored pair has completed the schedule. Fails if the daemon ended."""
        self.check()
        answer = self.get("/v1/status")
        store = answer.json()["store"] if answer is not None and answer.status_code == 200 else None
        return store is not None and sum(store["pairs"].values()) == store["pairs"]["settled"]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the daemon inside the context, wait until it listens, and always end it."""
        with self.started():
            self.wait_until_listening()
            yield

    @contextmanager
    def limited(self, descriptors: int) -> Iterator[None]:
        """Run the daemon with few descriptors inside the context, wait until it is ready, and always end it."""
        with self.started():
            assert self.process is not None
            resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (descriptors, descriptors))
            self.wait_until_ready()
            yield

    @contextmanager
    def started(self) -> Iterator[None]:
        """Start the daemon inside the context, and always end it."""
        self.start()
        try:
            yield
        finally:
            if self.process is not None and self.process.poll() is None:
                self.process.kill()
                self.process.wait()


def assert_consistent(url: str) -> None:
    """Check that `verify` finds no problems, waiting for a server that is still starting."""

    def is_consistent() -> bool:
        try:
            with open_store(url) as store:
                assert verify(store).problems == []
        except StoreUnavailableError:
            return False
        return True

    wait_until(is_consistent, "verify")


def stored_lines(url: str) -> list[str]:
    with open_store(url) as store:
        return [f"{row.source} ||| {row.target} ||| {row.alignment}" for row in store.pairs()]


class PairStream:
    """Endless stream of distinct pairs that share words and rules, with or without links."""

    def __init__(self, name: str, seed: int, links: bool = True) -> None:
        self.name = name
        self.links = links
        self.random = Random(f"{name} {seed}")
        self.number = 0
        self.sent_pairs: list[str] = []

    def lines(self, max_pairs: int) -> list[str]:
        """Return 1 to `max_pairs` pairs as lines `source ||| target ||| links`, or without links."""
        sent_pairs = [self._line() for _ in range(self.random.randint(1, max_pairs))]
        self.sent_pairs += sent_pairs
        return sent_pairs

    def _line(self) -> str:
        self.number += 1
        words = [self.random.randrange(12) for _ in range(self.random.randint(1, 6))]
        source = " ".join([f"{self.name}{self.number}", *(f"s{word}" for word in words)])
        target = " ".join([*(f"t{word}" for word in reversed(words)), f"{self.name}{self.number}"])
        if not self.links:
            return f"{source} ||| {target}"
        size = len(words) + 1
        links = " ".join(f"{k}-{size - 1 - k}" for k in range(size))
        return f"{source} ||| {target} ||| {links}"


class Feeder(Protocol):
    """Sender of pairs. `feed` returns when they are stored, even if the daemon is killed until then."""

    stream: PairStream

    def feed(self, daemon: Daemon, number: int) -> None: ...


@dataclass
class SpoolFeeder:
    """Feeder that puts files into the spool and waits until they are in `done/`."""

    stream: PairStream
    max_pairs: int = 20

    def feed(self, daemon: Daemon, number: int) -> None:
        name = f"{self.stream.name}-{number}.pipes"
        part = daemon.spool / f"{name}.part"
        daemon.spool.mkdir(exist_ok=True)
        part.write_text("".join(line + "\n" for line in self.stream.lines(self.max_pairs)))
        part.rename(daemon.spool / name)
        wait_until((daemon.spool / "done" / name).exists, f"{name} is done", seconds=NO_TIMEOUT)
        assert not (daemon.spool / "failed" / name).exists()


@dataclass
class HttpFeeder:
    """Feeder that posts pairs with an idempotency key until they are counted, and checks that all are new."""

    stream: PairStream
    max_pairs: int = 20
    statuses: list[int] = field(default_factory=list)

    def feed(self, daemon: Daemon, number: int) -> None:
        lines = self.stream.lines(self.max_pairs)
        sides = [line.split(" ||| ") for line in lines]
        body = "".join(json.dumps({"source": a, "target": b, "alignment": c}) + "\n" for a, b, c in sides)
        headers = {"Content-Type": "application/jsonl", "Idempotency-Key": f"{self.stream.name}-{number}"}

        def answered() -> httpx2.Response | None:
            try:
                answer = httpx2.post(daemon.address("/v1/pairs"), content=body, headers=headers, timeout=TIMEOUT)
            except httpx2.TransportError:
                return None
            self.statuses.append(answer.status_code)
            assert answer.status_code in (200, 409, 429, 503), answer.text
            return answer if answer.status_code == 200 else None

        counts = wait_until(answered, "a request with pairs is answered", seconds=NO_TIMEOUT).json()
        assert [counts[name] for name in ("lines", "accepted")] == [len(lines)] * 2
        assert [counts[name] for name in ("duplicates", "rejected")] == [0, 0]


@dataclass
class CommandFeeder:
    """Feeder that runs `hierogram ingest` beside the daemon until it succeeds."""

    stream: PairStream
    max_pairs: int = 20

    def feed(self, daemon: Daemon, number: int) -> None:
        path = daemon.spool.parent / f"{self.stream.name}-{number}.pipes"
        path.write_text("".join(line + "\n" for line in self.stream.lines(self.max_pairs)))
        command = [*COMMAND, "--store", daemon.url, "ingest", str(path), "--format", "pipes"]

        def ran() -> bool:
            return subprocess.run(command, capture_output=True, timeout=TIMEOUT).returncode == 0

        wait_until(ran, "ingest", seconds=NO_TIMEOUT)


class Feeding:
    """Threads that run the feeders, one each, until `finish`."""

    def __init__(self, daemon: Daemon, feeders: list[Feeder], pause: float) -> None:
        self._daemon = daemon
        self._pause = pause
        self._stop = Event()
        self._errors: list[BaseException] = []
        self.feeders = feeders
        self._threads = [Thread(target=self._feed, args=(feeder,), daemon=True) for feeder in feeders]
        for thread in self._threads:
            thread.start()

    def _feed(self, feeder: Feeder) -> None:
        try:
            number = 0
            while not self._stop.is_set():
                feeder.feed(self._daemon, number)
                number += 1
                self._stop.wait(self._pause)
        except BaseException as error:
            self._errors.append(error)

    def check(self) -> None:
        """Fail if a feeder has failed."""
        if self._errors:
            raise self._errors[0]

    def finish(self) -> None:
        """Stop the feeders of a running daemon, wait until their pairs are stored, and fail if one failed."""
        self._stop.set()
        for thread in self._threads:
            thread.join(TIMEOUT)
            assert not thread.is_alive()
        self.check()

    def wait_for_more(self) -> None:
        """Wait until more pairs have been sent."""
        before = len(self.sent_pairs())
        wait_until(lambda: len(self.sent_pairs()) > before, "more pairs are sent")

    def sent_pairs(self) -> list[str]:
        return [line for feeder in self.feeders for line in feeder.stream.sent_pairs]


def feed_all_ways(daemon: Daemon, seed: int, pause: float) -> Feeding:
    """Send pairs through the spool, HTTP and the command line at once."""
    feeders: list[Feeder] = [
        SpoolFeeder(PairStream("spool", seed)),
        HttpFeeder(PairStream("http", seed)),
        CommandFeeder(PairStream("command", seed)),
    ]
    return Feeding(daemon, feeders, pause)


def assert_all_stored_once(daemon: Daemon, feeding: Feeding) -> None:
    """Check that every pair sent is stored once, settled and counted, and that the daemon exits cleanly."""
    feeding.finish()
    wait_until(daemon.settled, "all pairs are settled", pause=0.5)
    daemon.end()
    assert sorted(stored_lines(daemon.url)) == sorted(feeding.sent_pairs())
    assert_consistent(daemon.url)
