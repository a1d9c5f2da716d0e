"""Soak test of the daemon: its load, samples of its resources, and their plots.

    python -m tests.daemon.campaigns.soak FOLDER docs/figures/soak.png

The command draws the samples that `test_soak.py` has written to a folder, and prints a table of results.
"""

import csv
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray
from tests.daemon.campaigns.daemon import (
    COMMAND,
    Daemon,
    Feeding,
    HttpFeeder,
    PairStream,
    SpoolFeeder,
    assert_consistent,
    stored_lines,
    wait_until,
)
from tests.daemon.campaigns.processes import descendants

from hierogram.storage.store import open_store
from hierogram.tools.lab.measures.results import save_figure

SAMPLES = 500
PAUSE = 10.0
"""Seconds between two bursts of a feeder."""
CYCLES = 6
"""Number of cycles of the reader, which holds a transaction for a third of each."""
KEEP = 3
"""Number of versions that the scheduled export keeps."""
SETTLING = 30.0
"""Seconds after a restart of the server, or after the reader's transaction, in which lag and log are not bounded."""
COLUMNS = ("seconds", "memory", "children", "descriptors", "wal", "store", "pairs", "lag", "held", "outage")
"""Columns of a sample: memory of the daemon and its children and files in MB, lag in seconds, flags 0 or 1."""

Samples = NDArray[np.void]


@dataclass
class Database:
    """Database: URL, folder and pattern of the files of its log and store, and Postgres server or None."""

    name: str
    url: str
    wal: tuple[Path, str]
    store: tuple[Path, str]
    server: Any = None

    def restart(self) -> None:
        self.server.stop()
        time.sleep(2.0)
        self.server.ensure_postgres_running()


def megabytes(files: tuple[Path, str]) -> float:
    """Return the size in MB of the files in a folder that match a pattern."""
    total = 0
    for path in files[0].glob(files[1]):
        # The database deletes files at any time.
        with suppress(OSError):
            total += path.stat().st_size
    return total / 1e6


@dataclass
class EditFeeder:
    """Feeder that withdraws some stored pairs and fixes a link of others."""

    stream: PairStream
    withdrawn: list[str] = field(default_factory=list)
    fixed: dict[int, str] = field(default_factory=dict)
    corrections: int = 0

    def feed(self, daemon: Daemon, number: int) -> None:
        random = self.stream.random
        for _ in range(random.randint(0, 6)):
            last = count_stored_pairs(daemon) + len(self.withdrawn)
            pair = random.randint(1, last) if last else 0
            answer = daemon.request("GET", f"/v1/pairs/{pair}")
            if answer.status_code == 200:
                self._edit(daemon, pair, answer.json()["source"], answer.json()["target"])

    def _edit(self, daemon: Daemon, pair: int, source: str, target: str) -> None:
        if self.stream.random.random() < 0.5:
            # A repeated request can find the pair withdrawn.
            assert daemon.request("DELETE", f"/v1/pairs/{pair}").status_code in (202, 204, 404)
            self.withdrawn.append(f"{source} ||| {target}")
            self.fixed.pop(pair, None)
        else:
            link = 0, len(target.split()) - 1
            answer = daemon.request("PUT", f"/v1/pairs/{pair}/links", json={"fixed": [link]})
            assert answer.status_code in (200, 202), answer.text
            self.fixed[pair] = "{}-{}".format(*link)
            self.corrections += 1


def count_stored_pairs(daemon: Daemon) -> int:
    store = wait_until(lambda: daemon.request("GET", "/v1/status").json()["store"], "the store is available")
    return sum(store["pairs"].values())


def run_soak(database: Database, folder: Path, seconds: float, curves: Path) -> Samples:
    """Run a daemon under a steady load, check what it has stored, and return the samples."""
    open_store(database.url, create=True).close()
    job = ("--name", "soak", "--every", "1m", "--to", str(folder / "exports"), "--keep", str(KEEP))
    subprocess.run([*COMMAND, "--store", database.url, "export", *job], check=True, capture_output=True)
    intervals = {"HIEROGRAM_SAMPLING__COMMIT_SECONDS": "5", "HIEROGRAM_SPOOL__POLL_SECONDS": "1"}
    daemon = Daemon(database.url, folder, **intervals)
    with daemon.running():
        daemon.wait_until_ready()
        edits = EditFeeder(PairStream("edits", 1))
        feeders = [
            HttpFeeder(PairStream("http", 1), max_pairs=16),
            SpoolFeeder(PairStream("spool", 1, links=False), max_pairs=16),
        ]
        feeding = Feeding(daemon, [*feeders, edits], PAUSE)
        write_samples(daemon, database, feeding, seconds, curves)
        feeding.finish()
        expected = len(feeding.sent_pairs()) - len(edits.withdrawn)
        wait_until(lambda: count_stored_pairs(daemon) == expected, "all pairs are stored")
        wait_until(daemon.settled, "all pairs are settled", pause=0.5)
        status = daemon.request("GET", "/v1/status").json()
        daemon.end()
    [job_status] = status["exports"]
    restarts = {loop["name"]: loop["restarts"] for loop in status["loops"] if loop["restarts"]}
    print(
        f"{database.name}: {len(feeding.sent_pairs()):,} pairs sent, {len(edits.withdrawn):,} withdrawn, "
        f"{edits.corrections:,} links fixed; failed exports: {job_status['failures']}; restarted loops: {restarts}"
    )
    assert database.server or (restarts, job_status["failures"]) == ({}, 0)
    assert len(list((folder / "exports").glob("soak-*"))) == KEEP
    check_pairs(database.url, feeding.sent_pairs(), edits)
    assert_consistent(database.url)
    return read_samples(curves)


def check_pairs(url: str, sent: list[str], edits: EditFeeder) -> None:
    """Check that each pair that was not withdrawn is stored once, and that fixed links are kept."""
    stored = [line.split(" ||| ") for line in stored_lines(url)]
    expected = Counter(" ||| ".join(line.split(" ||| ")[:2]) for line in sent)
    assert Counter(f"{source} ||| {target}" for source, target, _ in stored) == expected - Counter(edits.withdrawn)
    with open_store(url) as store:
        links = {row.id: (row.alignment or "").split() for row in store.pairs_by_id(sorted(edits.fixed))}
    assert not [pair for pair, link in edits.fixed.items() if link not in links[pair]]


def write_samples(daemon: Daemon, database: Database, feeding: Feeding, seconds: float, curves: Path) -> None:
    """Write samples of the daemon's resources while holding transactions and restarting the server."""
    restarts = [seconds / 3, seconds * 2 / 3] if database.server else []
    held, restarted_at, began = False, -np.inf, time.monotonic()
    with curves.open("w", newline="") as file, open_store(database.url) as store, ExitStack() as reader:
        csv.writer(file).writerow(COLUMNS)
        while (now := time.monotonic() - began) < seconds:
            daemon.check()
            feeding.check()
            if restarts and now >= restarts[0]:
                restarts.pop(0)
                database.restart()
                restarted_at = now
            if (1 <= now / seconds * CYCLES % 1 * 3 < 2) != held:
                held = not held
                reader.enter_context(store.snapshot()) if held else reader.close()
            csv.writer(file).writerow(sample(daemon, database, now, held, now - restarted_at < SETTLING))
            file.flush()
            time.sleep(max(seconds / SAMPLES, 1.0))


def sample(daemon: Daemon, database: Database, now: float, held: bool, outage: bool) -> list[float]:
    """Return the values of `COLUMNS`, with NaN for pairs and lag if the daemon cannot read its store."""
    assert daemon.process is not None
    process, children = psutil.Process(daemon.process.pid), 0
    for child in descendants(daemon.process):
        # Readers of files end at any time.
        with suppress(psutil.NoSuchProcess):
            children += child.memory_info().rss
    answer = daemon.get("/v1/status")
    status = answer.json() if answer is not None and answer.status_code == 200 else {"store": None}
    pairs, lag = np.nan, np.nan
    if status["store"]:
        pairs, lag = sum(status["store"]["pairs"].values()), status["lag"]["oldest_seconds"] or 0.0
    sizes = megabytes(database.wal), megabytes(database.store)
    resources = process.memory_info().rss / 1e6, children / 1e6, process.num_fds()
    return [round(now, 1), *resources, *sizes, pairs, lag, int(held), int(outage)]


def read_samples(path: Path) -> Samples:
    samples: Samples = np.genfromtxt(path, delimiter=",", names=True)
    return samples


def growth(samples: Samples, column: str) -> float:
    """Return the growth of a column's trend over the last three quarters of a soak, as a share of its median."""
    late = samples[samples["seconds"] > samples["seconds"][-1] / 4]
    slope = np.polyfit(late["seconds"], late[column], 1)[0]
    return float(slope * np.ptp(late["seconds"]) / np.median(late[column]))


def outside_disturbances(samples: Samples) -> Samples:
    """Return the samples outside outages and more than `SETTLING` seconds after the reader's transactions."""
    held_at = np.maximum.accumulate(np.where(samples["held"] > 0, samples["seconds"], -np.inf))
    return samples[(samples["outage"] == 0) & (samples["seconds"] - held_at > SETTLING)]


def results(samples: Samples) -> dict[str, str]:
    """Return the formatted results of a soak by name."""
    lag = samples["lag"][samples["outage"] == 0]
    pairs = np.nanmax(samples["pairs"])
    return {
        "pairs at the end": f"{pairs:,.0f}",
        "memory, median": f"{np.median(samples['memory']):.0f} MB",
        "trend of memory": f"{growth(samples, 'memory'):+.1%}",
        "descriptors, median and maximum": "{:.0f}, {:.0f}".format(
            np.median(samples["descriptors"]), samples["descriptors"].max()
        ),
        "log, maximum with and without a reader": "{:.0f} MB, {:.0f} MB".format(
            samples["wal"].max(), outside_disturbances(samples)["wal"].max()
        ),
        "store at the end, per pair": "{:.0f} MB, {:.1f} kB".format(
            samples["store"][-1], samples["store"][-1] * 1e3 / pairs
        ),
        "lag, median, 95 % and maximum": "{:.1f} s, {:.1f} s, {:.1f} s".format(*np.nanquantile(lag, [0.5, 0.95, 1.0])),
    }


def main() -> None:
    """Draw the samples of a folder and print the results."""
    folder, figure = map(Path, sys.argv[1:])
    soaks = {path.stem.removeprefix("soak-"): read_samples(path) for path in sorted(folder.glob("soak-*.csv"))}
    labels = {
        "memory": "memory, MB",
        "descriptors": "descriptors",
        "wal": "log, MB",
        "store": "store, MB",
        "lag": "lag, s",
    }
    with save_figure(figure, len(labels), len(soaks), size=(10, 8), sharex="col", squeeze=False) as panels:
        for column, (name, samples) in enumerate(soaks.items()):
            minutes = samples["seconds"] / 60
            for row, (value, label) in enumerate(labels.items()):
                panel = panels[row][column]
                panel.plot(minutes, samples[value], linewidth=0.8)
                panel.fill_between(
                    minutes, 0, 1, samples["held"] > 0, transform=panel.get_xaxis_transform(), alpha=0.15
                )
                for start in minutes[1:][np.diff(samples["outage"]) > 0]:
                    panel.axvline(start, color="red", linewidth=0.8)
                panel.set_ylim(bottom=0)
                panel.set_ylabel(label)
            panels[0][column].set_title(name)
            panels[-1][column].set_xlabel("minutes")
    columns = {name: results(samples) for name, samples in soaks.items()}
    print(f"| | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for result in next(iter(columns.values())):
        print(f"| {result} | {' | '.join(column[result] for column in columns.values())} |")


if __name__ == "__main__":
    main()
