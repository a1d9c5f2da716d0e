"""Untrusted users put all kinds of files into the spool. The daemon keeps sampling and answering in little memory."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import pytest
from tests.daemon.campaigns.daemon import Daemon, assert_consistent, stored_lines, wait_until, worker_process_ids
from tests.daemon.conftest import QUICK
from tests.daemon.untrusted.files_attacks import EITHER, GOOD, INGESTED, MOVED_ASIDE, Attack, attack_path, attacks
from tests.processes import is_running
from tests.storage.building import integrity

from hierogram.storage.store import open_store
from hierogram.storage.worker_process import SILENCE_TIMEOUT_SECONDS

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(3_600)]

MAX_BYTES = 1_200_000_000
MAX_SECONDS = 1.0
DESCRIPTORS = 1_024


class Watch:
    """Thread that checks the daemon's status four times a second, and records response times and peak memory."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._end = threading.Event()
        self.slow: list[str] = []
        self.slowest = 0.0
        self.answers = 0
        self.memory = 0
        self.wrong: list[str] = []
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        assert self._daemon.process is not None
        while not self._end.wait(0.25):
            self.memory = max(self.memory, read_memory(self._daemon.process.pid))
            began = time.monotonic()
            answer = self._daemon.get("/v1/status")
            took = time.monotonic() - began
            if answer is None or answer.status_code != 200:
                self.wrong.append("no answer" if answer is None else answer.text)
                continue
            json.loads(answer.content)
            self.answers += 1
            self.slowest = max(self.slowest, took)
            if took > MAX_SECONDS:
                readers = len(worker_process_ids(self._daemon.process.pid))
                waiting = sorted(os.listdir(self._daemon.spool))[:5]
                self.slow.append(f"{took:.2f} s at answer {self.answers}, {readers} readers, spool {waiting}")

    def check(self) -> None:
        """Stop watching, and fail if a response was wrong, late or missing, or memory too high."""
        self._end.set()
        self._thread.join()
        print(f"{self.answers} responses, slowest {self.slowest:.2f} s, peak memory {self.memory >> 20} MiB")
        assert self.wrong == []
        assert self.answers > 0
        assert self.memory < MAX_BYTES
        assert self.slow == []


def read_memory(process: int) -> int:
    """Return the memory of a daemon and its worker processes in bytes, shared memory counted once."""
    total = 0
    for number in (process, *worker_process_ids(process)):
        with suppress(OSError):
            rollup = Path(f"/proc/{number}/smaps_rollup").read_text()
            found = re.search(r"^Pss: +(\d+) kB$", rollup, re.MULTILINE)
            total += 1024 * int(found[1]) if found else 0
    return total


@contextmanager
def attacked_daemon(url: str, folder: Path) -> Iterator[tuple[Daemon, Watch]]:
    """Watch a daemon with few descriptors. At the end, check that its store is consistent and that it exits cleanly."""
    open_store(url, create=True, settings=QUICK).close()
    daemon = Daemon(url, folder, HIEROGRAM_DAEMON__GRACE_SECONDS="20")
    with daemon.limited(DESCRIPTORS):
        watch = Watch(daemon)
        try:
            yield daemon, watch
        finally:
            watch.check()
        wait_until(daemon.settled, "the daemon continues to sample", pause=0.5)
        daemon.end()
    assert_consistent(url)


def drop(daemon: Daemon, name: bytes, content: bytes) -> None:
    """Write a file under a hidden name, then rename it in the spool."""
    hidden = daemon.spool / ".hidden"
    hidden.write_bytes(content)
    path = attack_path(daemon.spool, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden.rename(path)


def put(daemon: Daemon, attack: Attack) -> None:
    part = attack_path(daemon.spool, attack.name).parent / ".attack"
    part.parent.mkdir(parents=True, exist_ok=True)
    attack.make(part)
    part.rename(attack_path(daemon.spool, attack.name))


def empty(daemon: Daemon) -> bool:
    """Check if the spool contains no files to ingest. Fails if the daemon ended."""
    daemon.check()
    for place, folders, files in os.walk(os.fsencode(daemon.spool)):
        if place == os.fsencode(daemon.spool):
            folders[:] = [name for name in folders if name not in (b"done", b"failed")]
        if any(not name.startswith(b".") for name in files):
            return False
    return True


def find_fate(daemon: Daemon, attack: Attack) -> tuple[str, str]:
    """Return the fate of a file, and the reason if it was moved aside."""
    for fate, folder in ((INGESTED, "done"), (MOVED_ASIDE, "failed")):
        path = attack_path(daemon.spool / folder, attack.name)
        if os.path.lexists(path):
            reasons = [
                reason
                for reason in path.parent.glob("*.reason")
                if os.fsencode(reason.name).startswith(os.fsencode(path.name)[:200])
            ]
            return fate, "".join(reason.read_text() for reason in reasons if fate == MOVED_ASIDE)
    return "gone", ""


def test_every_file_is_ingested_or_moved_aside(store_url: str, tmp_path: Path) -> None:
    with attacked_daemon(store_url, tmp_path) as (daemon, _):
        everything = list(attacks())
        for attack in everything:
            put(daemon, attack)
        drop(daemon, b"last.bars", GOOD)
        wait_until(lambda: empty(daemon), "the spool is empty", seconds=1_800, pause=0.5)
        wrong = []
        for attack in everything:
            fate, reason = find_fate(daemon, attack)
            if attack.fate not in (fate, EITHER) or fate == "gone" or not re.search(attack.reason, reason):
                wrong.append((attack.name[:40], attack.fate, attack.reason, fate, reason[:200]))
        assert not wrong, "\n".join(map(str, wrong))
        assert os.path.lexists(daemon.spool / "done" / "last.bars")


def test_a_file_and_a_folder_may_have_the_same_name(store_url: str, tmp_path: Path) -> None:
    with attacked_daemon(store_url, tmp_path) as (daemon, _):
        for content in (GOOD, b"what\n"):
            drop(daemon, b"news", content)
            wait_until(lambda: empty(daemon), "the file is gone")
            drop(daemon, b"news/a", content)
            wait_until(lambda: empty(daemon), "the folder is empty")
            (daemon.spool / "news").rmdir()
        assert (daemon.spool / "done" / "news.1" / "a").exists()
        assert (daemon.spool / "failed" / "news.1" / "a.reason").exists()


def test_file_is_moved_aside_if_its_reader_is_killed_or_stopped_twice(store_url: str, tmp_path: Path) -> None:
    """A good file whose reader is killed once is ingested."""
    lines = b"".join(b"la maison %d ||| the house %d ||| 0-0 1-1 2-2\n" % (k, k) for k in range(400_000))
    with attacked_daemon(store_url, tmp_path) as (daemon, _):
        for number, times in ((signal.SIGKILL, 1), (signal.SIGKILL, 2), (signal.SIGSTOP, 2)):
            name = b"hit-%d-%d.bars" % (number, times)
            # Killing an idle reader would not interrupt the next file.
            wait_until(lambda: not readers(daemon), "the readers of the last file end")
            drop(daemon, name, lines)
            hit: set[int] = set()
            for _ in range(times):
                reader = another_reader(daemon, hit)
                os.kill(reader, number)
                hit.add(reader)
            wait_until(lambda: empty(daemon), "the file is gone")
            folder = "done" if times == 1 else "failed"
            assert attack_path(daemon.spool / folder, name).exists()
        reason = (daemon.spool / "failed" / f"hit-{signal.SIGSTOP:d}-2.bars.reason").read_text()
        assert f"made no progress for {SILENCE_TIMEOUT_SECONDS:g} s" in reason
    found = stored_lines(store_url)
    assert len(found) == len(set(found)) == 400_000


def another_reader(daemon: Daemon, known: set[int]) -> int:
    found: set[int] = wait_until(lambda: set(readers(daemon)) - known, "a reader")
    return found.pop()


def readers(daemon: Daemon) -> list[int]:
    assert daemon.process is not None
    return worker_process_ids(daemon.process.pid)


def test_files_that_change_during_reading_do_not_stop_the_daemon(store_url: str, tmp_path: Path) -> None:
    """Files vanish, shrink, grow or become a FIFO, and valid files arrive in between."""
    many = GOOD * 20_000
    with attacked_daemon(store_url, tmp_path) as (daemon, _):
        for turn in range(12):
            path = daemon.spool / f"change-{turn}"
            drop(daemon, os.fsencode(path.name), many)
            time.sleep(0.05 * (turn % 5))
            with suppress(FileNotFoundError):
                (Path.unlink, cut, grow, turn_into_fifo)[turn % 4](path)
            drop(daemon, b"good-%d" % turn, GOOD)
        wait_until(lambda: empty(daemon), "the spool is empty")
        assert len(list((daemon.spool / "done").glob("good-*"))) == 12


def cut(path: Path) -> None:
    os.truncate(path, 1_000)


def grow(path: Path) -> None:
    with path.open("r+b", buffering=0) as file:
        file.seek(0, os.SEEK_END)
        for _ in range(200):
            file.write(GOOD)
            time.sleep(0.01)


def turn_into_fifo(path: Path) -> None:
    fifo = path.with_name(".fifo")
    os.mkfifo(fifo)
    fifo.replace(path)


def test_a_daemon_blocked_on_a_file_ends_on_request(store_url: str, tmp_path: Path) -> None:
    with attacked_daemon(store_url, tmp_path) as (daemon, watch):
        drop(daemon, b"large.bars", GOOD * 2_000_000)
        [reader] = wait_until(lambda: readers(daemon), "a reader")
        os.kill(reader, signal.SIGSTOP)
        wait_until(lambda: watch.answers > 0, "the daemon answers while the reader is stopped")
        # From here on the daemon is not expected to answer for a while.
        watch.check()
        began = time.monotonic()
        daemon.end()
        assert time.monotonic() - began < 20
        assert not Path(f"/proc/{reader}").exists()
        daemon.start()
        daemon.wait_until_listening()
        (daemon.spool / "large.bars").unlink(missing_ok=True)


class Loop:
    """The spool loop in a separate process, without the slow start of the rest of the daemon."""

    def __init__(self, url: str, spool: Path) -> None:
        self._command = [sys.executable, "-m", "tests.daemon.untrusted.files_loop", url, str(spool)]
        self._environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}

    def start(self) -> None:
        self.process = subprocess.Popen(
            self._command, env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def kill(self) -> bool:
        """Kill the loop, and check that its reader ends too. Returns False if it had no reader."""
        found = worker_process_ids(self.process.pid)
        assert self.process.poll() is None
        self.process.kill()
        self.process.wait()
        wait_until(lambda: not any(map(is_running, found)), "its readers end")
        return bool(found)


def test_no_pair_is_lost_or_stored_twice_if_the_loop_is_killed(store_url: str, tmp_path: Path) -> None:
    """HIEROGRAM_TEST_KILLS overrides the number of kills."""
    kills = int(os.environ.get("HIEROGRAM_TEST_KILLS", "100"))
    random = Random(8)
    spool = tmp_path / "spool"
    spool.mkdir()
    open_store(store_url, create=True, settings=QUICK).close()
    loop = Loop(store_url, spool)
    expected_lines: list[str] = []
    with_readers = of_readers = 0
    loop.start()
    try:
        for number in range(kills):
            if len([path for path in spool.iterdir() if path.is_file()]) < 2:
                lines = [f"la maison {number}-{k} ||| the house {number}-{k} ||| 0-0 1-1 2-2" for k in range(30_000)]
                expected_lines += lines
                part = spool / "x.part"
                part.write_text("".join(f"{line}\n" for line in lines))
                part.rename(spool / f"{number}.bars")
            if random.random() < 0.8:
                wait_until(lambda: worker_process_ids(loop.process.pid), "a reader")
            time.sleep(random.uniform(0.0, 2.0))
            found = worker_process_ids(loop.process.pid)
            if found and random.random() < 0.2:
                of_readers += 1
                os.kill(found[0], signal.SIGKILL)
                time.sleep(random.uniform(0.0, 0.5))
            with_readers += loop.kill()
            loop.start()
        wait_until(lambda: not any(path.is_file() for path in spool.iterdir()), "the spool is empty")
        loop.kill()
    finally:
        loop.process.kill()
        loop.process.wait()
    print(f"{kills} kills, {with_readers} of them during reading, and {of_readers} kills of a reader")
    assert list((spool / "failed").iterdir()) == []
    assert sorted(stored_lines(store_url)) == sorted(expected_lines)
    with open_store(store_url) as store:
        assert integrity(store) == []
