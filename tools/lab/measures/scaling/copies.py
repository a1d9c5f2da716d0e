"""Measure the memory of workers and main process with a large store, made of copies of a corpus.

    python -m hierogram.tools.lab.measures.scaling.copies corpus.zh corpus.en align.gdfa --copies 25 -o copies.csv

Copies share no words, so the number of rules is proportional to the store, more than for real text.
"""

import csv
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from hierogram.daemon.learning.learner import Learner, LearnOptions, holding_lease
from hierogram.daemon.learning.residents import read_batches
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.reading import Input
from hierogram.daemon.workers.chain import shared_chain
from hierogram.daemon.workers.options import Workers
from hierogram.daemon.workers.ray_cluster import RayCluster, ray_cluster
from hierogram.storage.records import WAITING
from hierogram.storage.store import Store, open_store
from hierogram.tools.lab.measures.results import BitextFile, Corpus, temporary_folder
from hierogram.tools.lab.measures.scaling.parts import worker_memory

_NEVER = 1e9


class MemoryUse(NamedTuple):
    """Measurement after a batch of pairs.

    Total pairs, rules in use, seconds of sampling and pairs of the batch; peak bytes so far of the main process and
    of the largest worker.
    """

    pairs: int
    rules: int
    sampling_seconds: float
    batch: int
    first_bytes: int
    worker_bytes: int


def fill(store: Store, corpus: Corpus, copies: int) -> None:
    """Store copies of the corpus: each word ends with the copy's number, the links are the same."""
    for number in range(copies):
        with temporary_folder() as folder:
            files = corpus.files(folder)
            for k, path in enumerate(files[:2]):
                files[k] = str(folder / f"copy.{k}")
                with Path(path).open(encoding="utf-8") as lines, Path(files[k]).open("w", encoding="utf-8") as output:
                    for line in lines:
                        output.write(" ".join(f"{word}_{number}" for word in line.split()) + "\n")
            with Input(files) as source:
                ingest(store, source)


def sample(store: Store, cluster: RayCluster, sweeps: int) -> Iterator[MemoryUse]:
    """Take all waiting pairs through n sweeps, batch by batch, with a commit for each."""
    options = LearnOptions(1, likelihood_seconds=_NEVER, chain=shared_chain(cluster))
    with holding_lease(store, "measures"), Learner(store, options) as learner:
        done = store.count_pairs() - store.count_pairs([WAITING])
        for rows in read_batches(store, [WAITING]):
            before = learner.sampling_seconds
            batch = learner.open(rows)
            learner.sweep(batch, batch.sweeps + sweeps)
            done += len(rows)
            yield MemoryUse(
                done,
                learner.chain.rule_types,
                learner.sampling_seconds - before,
                len(rows),
                worker_memory(os.getpid()),
                max(worker_memory(cluster.process(worker)) for worker in cluster.workers()),
            )


def main(
    source: BitextFile,
    target: BitextFile,
    alignment: BitextFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="CSV file of results for each batch.")] = Path(
        "copies.csv"
    ),
    copies: Annotated[int, typer.Option(min=1, help="Copies of the corpus.")] = 25,
    sweeps: Annotated[int, typer.Option(min=1, help="Sweeps over each batch.")] = 2,
    workers: Annotated[int, typer.Option(min=1, help="Workers of one thread each.")] = 2,
    store: Annotated[
        str | None, typer.Option(help="URL of the store, which is kept (default: a temporary file).")
    ] = None,
) -> None:
    """Sample copies of a corpus with workers, and report the memory."""
    corpus = Corpus(str(source), str(target), str(alignment), None)
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        opened = stack.enter_context(open_store(store or f"sqlite:///{folder / 'copies.db'}", create=True))
        if not opened.count_pairs():
            fill(opened, corpus, copies)
        cluster = stack.enter_context(ray_cluster(Workers(workers), 1))
        with output.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(MemoryUse._fields)
            for memory in sample(opened, cluster, sweeps):
                writer.writerow(memory)
                file.flush()
                print(
                    f"{memory.pairs:,} pairs, {memory.rules:,} rules: "
                    f"the first process {memory.first_bytes / 1e6:,.0f} MB, "
                    f"a worker {memory.worker_bytes / 1e6:,.0f} MB",
                    flush=True,
                )


if __name__ == "__main__":
    typer.run(main)
