"""Measure the costs of the parts of sampling with workers, compared with threads.

    python -m hierogram.tools.lab.measures.scaling.parts corpus.zh corpus.en align.gdfa --workers 2 -o parts.json

Sweeps of threads and of workers alternate. `hierogram.tools.lab.measures.scaling.simulating` estimates from the result
the time of sweeps on other machines.
"""

import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Annotated, TypeVar

import typer

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.learning.learner import Learner, LearnOptions, holding_lease
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.reading import Input
from hierogram.daemon.workers.chain import SharedChain, choose_blocks, shared_chain
from hierogram.daemon.workers.options import Workers
from hierogram.daemon.workers.pool import Traffic
from hierogram.daemon.workers.ray_cluster import ray_cluster
from hierogram.storage.records import SETTLED, WAITING
from hierogram.storage.store import Store, open_store
from hierogram.tools.lab.measures.results import BitextFile, Corpus, temporary_folder

Result = TypeVar("Result")


def in_turn(tasks: list[Callable[[Callable[[], None]], Result]]) -> list[Result]:
    """Return the results of tasks that alternate: each receives a function that waits for its next turn."""
    # Only the thread whose turn it is, the first in the order, reads the order.
    order, turns = deque(range(len(tasks))), [threading.Semaphore(0) for _ in tasks]

    def run(who: int) -> Result:
        def next_one() -> None:
            order.rotate(-1)
            turns[order[0]].release()
            turns[who].acquire()

        turns[who].acquire()
        try:
            return tasks[who](next_one)
        finally:
            order.popleft()
            if order:
                turns[order[0]].release()

    turns[0].release()
    with ThreadPoolExecutor(len(tasks)) as executor:
        return list(executor.map(run, range(len(tasks))))


_NEVER = 1e9


_LATER_ROUNDS, SWEEPS_PER_ROUND = 2, 10


@dataclass(frozen=True, slots=True)
class StoreSeconds:
    """Seconds of opening all pairs, of collecting and committing them, and of commits written by workers.

    Wall-clock time, and processor time of this process only.
    """

    open: float
    open_processor: float
    commit: float
    commit_processor: float
    write: float


@dataclass(frozen=True, slots=True)
class BurnIn:
    """Measurements of a burn-in.

    `sweep_seconds` of each sweep from the second on, and `count_seconds` in which the main process then updates its
    counts. Pairs per second in all of these, by wall-clock time and by the processor time of this process and its
    children. The additional seconds of the first sweep, in which kernels are loaded, workers started and pairs
    distributed. The seconds of the store, both for the first time, when all rules were new, and as the mean of two
    later rounds of ten sweeps, which reopen all pairs. Whether workers open and write the pairs; rules in use after
    the burn-in; and the traffic between workers.
    """

    pairs: int
    sweeps: int
    sweep_seconds: list[float]
    count_seconds: float
    pairs_a_second: float
    pairs_a_processor_second: float
    start_seconds: float
    first: StoreSeconds
    later: StoreSeconds
    by_workers: bool
    rules: int
    traffic: Traffic


@dataclass(frozen=True, slots=True)
class Parts:
    """Measurements of one machine, in bytes and seconds.

    `ratio` of pairs per second, workers' to threads', the median over consecutive pairs of sweeps. `changes_a_pair`:
    entries of 32 bytes in a round's changes for each resampled pair; `merge_seconds` in which a worker adds one of
    them. `round_seconds`: the median of the extra time of a round with workers. `worker_bytes`: the peak memory of a
    worker.
    """

    cores: int
    workers: int
    by_threads: BurnIn
    by_workers: BurnIn
    ratio: float
    changes_a_pair: float
    merge_seconds: float
    round_seconds: float
    worker_bytes: int


@contextmanager
def filled(corpus: Corpus, url: str | None) -> Iterator[Store]:
    """Yield a new store with the corpus, at the URL or in a temporary file."""
    with temporary_folder() as folder, open_store(url or f"sqlite:///{folder / 'parts.db'}", create=True) as store:
        if store.count_pairs():
            raise UsageError(f"{store.url} already contains pairs: name an empty database")
        with Input(corpus.files(folder)) as source:
            ingest(store, source)
        yield store


def sample(store: Store, options: LearnOptions, next_one: Callable[[], None]) -> BurnIn:
    """Take all pairs through their burn-in, pass the turn after each sweep, commit, and run further rounds alone."""
    with holding_lease(store, "measures"), Learner(store, options) as learner:
        by_workers = learner.chain.reads(store)
        sweeps = learner.schedule.burn_in
        watch = _Watch()

        def enough() -> bool:
            # After a sweep, before anything is committed.
            watch.note()
            if len(watch.clock) < sweeps:
                next_one()
                watch.resume()
                return False
            watch.resume()
            # The likelihood needs the counts.
            learner.measure()
            watch.note()
            return False

        def begin() -> None:
            next_one()
            watch.resume()

        size, first_seconds = _round(learner, WAITING, sweeps, enough, begin)
        traffic, rules = replace(_traffic(learner)), learner.chain.rule_types
        later = [
            asdict(_round(learner, SETTLED, SWEEPS_PER_ROUND, lambda: False, lambda: None)[1])
            for _ in range(_LATER_ROUNDS)
        ]
        first, *others, counting = watch.clock
        sampled = size * (sweeps - 1)
        return BurnIn(
            size,
            sweeps,
            others,
            counting,
            sampled / (sum(others) + counting),
            sampled / max(sum(watch.processors[1:]), 1e-9),
            first - sum(others) / len(others),
            first_seconds,
            StoreSeconds(**{name: mean(one[name] for one in later) for name in later[0]}),
            by_workers,
            rules,
            traffic,
        )


def _round(
    learner: Learner, state: str, sweeps: int, enough: Callable[[], bool], begin: Callable[[], None]
) -> tuple[int, StoreSeconds]:
    """Open, sweep and commit all pairs of a state; return their number and the seconds."""
    opening = time.perf_counter(), time.process_time()
    [pair_batch] = learner.iterate_batches([state])
    batch = pair_batch.open()
    opened = time.perf_counter() - opening[0], time.process_time() - opening[1]
    committing: list[float] = []

    def note() -> bool:
        ended = enough()
        committing[:] = time.perf_counter(), time.process_time(), _traffic(learner).write_seconds
        return ended

    begin()
    learner.sweep(batch, batch.sweeps + sweeps, note)
    ended = time.perf_counter(), time.process_time(), _traffic(learner).write_seconds
    clock, processor, written = (end - start for end, start in zip(ended, committing, strict=True))
    return len(batch.ids), StoreSeconds(*opened, clock, processor, written)


def _traffic(learner: Learner) -> Traffic:
    pool = learner.chain.pool if isinstance(learner.chain, SharedChain) else None
    return Traffic() if pool is None else pool.traffic


class _Watch:
    """Stopwatch between `go_on` and `note`, by wall-clock and processor time; `noted` is the last note's time."""

    def __init__(self) -> None:
        self.clock: list[float] = []
        self.processors: list[float] = []
        self.resume()

    def resume(self) -> None:
        self._processors = processor_seconds()
        self.noted = time.perf_counter()

    def note(self) -> None:
        self.clock.append(time.perf_counter() - self.noted)
        self.processors.append(processor_seconds() - self._processors)
        self.noted = time.perf_counter()


def processor_seconds() -> float:
    """Return the processor time of this process and its running descendants. 0 if the system does not report it."""
    parents, seconds = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            process = int(path.parent.name)
            parents[process] = int(fields[1])
            seconds[process] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return sum(seconds[process] for process in seconds if _is_below(process, os.getpid(), parents))


def _is_below(process: int, ancestor: int, parents: dict[int, int]) -> bool:
    while process and process != ancestor:
        process = parents.get(process, 0)
    return process == ancestor


def worker_memory(process: int) -> int:
    """Return the peak private memory of a local process in bytes, or 0; current shared memory is subtracted."""
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        return 0
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
    most, shared = (int(lines[name].split()[0]) for name in ("VmHWM", "RssShmem"))
    return (most - shared) * 1024


def measure(corpus: Corpus, workers: int, url: str | None) -> Parts:
    """Measure threads and workers alternately, each with a new store; `url` is for the workers' store."""
    with ray_cluster(Workers(workers), 1) as cluster, filled(corpus, None) as one, filled(corpus, url) as other:
        # Threads have the workers' blocks, so that both get the same samples.
        blocks = choose_blocks(one.count_pairs())
        threads = LearnOptions(workers, likelihood_seconds=_NEVER, blocks=blocks)
        shared = LearnOptions(1, likelihood_seconds=_NEVER, chain=shared_chain(cluster))
        by_threads, by_workers = in_turn([partial(sample, one, threads), partial(sample, other, shared)])
        memory = max(worker_memory(cluster.process(worker)) for worker in cluster.workers())
    traffic = by_workers.traffic
    entries = traffic.bytes / 32
    sweeps = list(zip(by_threads.sweep_seconds, by_workers.sweep_seconds, strict=True))
    return Parts(
        os.cpu_count() or 1,
        workers,
        by_threads,
        by_workers,
        median(one / other for one, other in sweeps),
        entries / (by_workers.pairs * by_workers.sweeps),
        traffic.merge_seconds / max(entries, 1),
        max(median(other - one for one, other in sweeps), 0.0) * by_workers.sweeps / max(traffic.rounds, 1),
        memory,
    )


def main(
    source: BitextFile,
    target: BitextFile,
    alignment: BitextFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="JSON file of results.")] = Path("parts.json"),
    pairs: Annotated[int | None, typer.Option(min=1, help="Use only the first N pairs.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of workers, and of threads for comparison.")] = 2,
    store: Annotated[str | None, typer.Option(help="URL of an empty Postgres database for the workers' store.")] = None,
) -> None:
    """Measure the costs of sending, merging and committing with workers, compared with threads."""
    parts = measure(Corpus(str(source), str(target), str(alignment), pairs), workers, store)
    output.write_text(json.dumps(asdict(parts), indent=2) + "\n")
    threads, shared = parts.by_threads, parts.by_workers
    print(
        f"{shared.pairs:,} pairs: {workers} threads {threads.pairs_a_second:,.0f} pairs/s, {workers} workers "
        f"{shared.pairs_a_second:,.0f} pairs/s, ratio {shared.pairs_a_second / threads.pairs_a_second:.2f}; median "
        f"ratio of consecutive sweeps {parts.ratio:.2f}"
    )
    print(
        f"threads, workers: first sweep {threads.start_seconds:.1f} s, {shared.start_seconds:.1f} s longer; updating "
        f"counts {threads.count_seconds:.2f} s, {shared.count_seconds:.2f} s; a round of workers is "
        f"{1000 * parts.round_seconds:.1f} ms longer, a worker adds an entry in {1e9 * parts.merge_seconds:.0f} ns"
    )
    by_processor = shared.pairs_a_processor_second, threads.pairs_a_processor_second
    print(
        f"pairs per second of processor time: threads {by_processor[1]:,.0f}, workers {by_processor[0]:,.0f}, ratio "
        f"{by_processor[0] / by_processor[1]:.2f}"
    )
    print(f"a round: {shared.traffic.bytes / max(shared.traffic.rounds, 1):,.0f} bytes, {shared.traffic.rounds} rounds")
    print(f"table: {shared.rules:,} rules; a worker's memory: {parts.worker_bytes / 1e6:,.0f} MB")
    for when, took in (("first", shared.first), ("later", shared.later)):
        print(
            f"{when}: opening all pairs {took.open:.1f} s ({took.open_processor:.2f} s of this process' processor), "
            f"committing {took.commit:.1f} s ({took.commit_processor:.2f} s), writing by workers {took.write:.1f} s"
        )


if __name__ == "__main__":
    typer.run(main)
