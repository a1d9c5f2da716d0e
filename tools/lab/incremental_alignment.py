"""Alignment on arrival beside a corpus aligned at once: its last tenth, and all of it in ten batches; cost and AER.

    python -m hierogram.tools.lab.incremental_alignment gold-fr-en-alibi gold-es-en-collins200+europarl-es-en-5k

The first folder's pairs, those with manual links, come last, so that they are among the last tenth. Each of the ten
batches has every tenth pair.
"""

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from hierogram.daemon.learning.alignment.aligning import align
from hierogram.daemon.learning.alignment.evaluation import GoldLinks, evaluate, links_of, read_gold
from hierogram.daemon.learning.alignment.incremental import IncrementalAligner, align_pending
from hierogram.daemon.learning.alignment.requests import Request
from hierogram.daemon.text.lines import read_sentences
from hierogram.storage.records import NewPairs, Settings
from hierogram.storage.store import Store, open_store
from hierogram.tools.lab.compare_aligners import CorpusFiles, corpus_of
from hierogram.tools.lab.measures.results import timed

LONGEST = 361


_BATCHES = 10


@dataclass(frozen=True, slots=True)
class ArrivalRow:
    """One corpus. Seconds are those of processors.

    `batch` is the whole at once, `arrival` its last tenth, `grown` ten batches. AER of `batch` and `arrival` is that
    of the pairs of the last tenth that have manual links, of `whole` and `grown` that of all such pairs.
    """

    corpus: str
    pairs: int
    arrived: int
    evaluated: int
    batch_seconds: float
    arrival_seconds: float
    grown_seconds: float
    batch_aer: float
    arrival_aer: float
    whole_aer: float
    grown_aer: float


def read_corpus(corpus: CorpusFiles) -> tuple[list[str], list[str], list[GoldLinks]]:
    """Both sides in reverse order, and the manual links of the last pairs."""
    sides = [[line for path in paths for line in read_sentences(path)] for paths in (corpus.source, corpus.target)]
    gold = read_gold(corpus.gold) if corpus.gold is not None else []
    return sides[0][::-1], sides[1][::-1], gold[::-1]


def put_pairs(store: Store, sources: Sequence[str], targets: Sequence[str], first: int, last: int) -> None:
    """Store the pairs from `first` to before `last`, without links."""
    batch = store.begin_ingest("corpus", f"{first}", "parallel")
    source, target = ([line.split() for line in side[first:last]] for side in (sources, targets))
    number = len(source)
    pairs = NewPairs(
        list(map(" ".join, source)),
        list(map(" ".join, target)),
        [None] * number,
        list(map(len, source)),
        list(map(len, target)),
        range(first + 1, last + 1),
        list(map(str, range(first, last))),
        [0] * number,
    )
    store.add_pairs(batch, pairs)
    store.finish_ingest(batch)


def measure(corpus: CorpusFiles, threads: int) -> ArrivalRow:
    """Align the corpus at once, then its first nine tenths and the rest on arrival."""
    sources, targets, gold = read_corpus(corpus)
    pairs = len(sources)
    kept = pairs - pairs // 10
    evaluated = min(len(gold), pairs - kept)
    align(["a b", "c"], ["a b", "c"])
    request = Request(threads=threads)
    batch_seconds, batch = timed(lambda: list(align(sources, targets, request).lines()), time.process_time)

    def error(lines: Sequence[str], evaluated: int = len(gold)) -> float:
        found = [links_of(line) for line in lines[pairs - evaluated :]]
        return evaluate(gold[len(gold) - evaluated :], found).aer

    with _store() as store:
        put_pairs(store, sources, targets, 0, kept)
        align_pending(store, threads)
        put_pairs(store, sources, targets, kept, pairs)
        aligner = IncrementalAligner(store, threads)
        arrival_seconds, _ = timed(lambda: aligner.align_new(pairs), time.process_time)
        arrived = [row.alignment for row in store.pairs()]
    grown_seconds, grown = _grown(sources, targets, threads)
    return ArrivalRow(
        corpus.name,
        pairs,
        pairs - kept,
        evaluated,
        batch_seconds,
        arrival_seconds,
        grown_seconds,
        error(batch, evaluated),
        error(arrived, evaluated),
        error(batch),
        error(grown),
    )


@contextmanager
def _store() -> Iterator[Store]:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/store.db"
        with open_store(url, create=True, settings=Settings(max_tokens=LONGEST)) as store:
            yield store


def _grown(sources: Sequence[str], targets: Sequence[str], threads: int) -> tuple[float, list[str]]:
    """Let the pairs arrive in batches, which are aligned one after the other; processor seconds, and alignments."""
    order = [number for first in range(_BATCHES) for number in range(first, len(sources), _BATCHES)]
    source, target = ([side[number] for number in order] for side in (sources, targets))
    seconds = 0.0
    stored = 0
    with _store() as store:
        for first in range(_BATCHES):
            last = stored + len(range(first, len(sources), _BATCHES))
            put_pairs(store, source, target, stored, last)
            seconds += timed(lambda: align_pending(store, threads), time.process_time)[0]
            stored = last
        found = [row.alignment for row in store.pairs()]
    return seconds, [line for _, line in sorted(zip(order, found, strict=True))]


HEAD = ("corpus", "pairs", "arrived", "batch s", "arrival s", "grown s", "AER batch", "arrival", "whole", "grown")
_LAYOUT = "{:<40.40} {:>7} {:>7} {:>8} {:>9} {:>8} {:>9} {:>8} {:>7} {:>7}"


def _cells(row: ArrivalRow) -> list[str]:
    seconds = (row.batch_seconds, row.arrival_seconds, row.grown_seconds)
    rates = (row.batch_aer, row.arrival_aer, row.whole_aer, row.grown_aer)
    known = [f"{rate:.4f}" if row.evaluated else "–" for rate in rates]
    return [row.corpus, f"{row.pairs:,}", f"{row.arrived:,}", *[f"{s:.1f}" for s in seconds], *known]


def incremental(
    corpora: Annotated[
        list[str], typer.Argument(metavar="FOLDER...", help="Folders with corpora; FOLDER+FOLDER joins two.")
    ],
    threads: Annotated[int, typer.Option(min=1, help="Threads of either.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON for programs.")] = False,
) -> None:
    """Compare alignment on arrival with alignment of the whole: processors' time and AER."""
    rows = []
    if not as_json:
        print(_LAYOUT.format(*HEAD))
    for folders in corpora:
        rows.append(measure(corpus_of(folders), threads))
        if not as_json:
            print(_LAYOUT.format(*_cells(rows[-1])), flush=True)
    if as_json:
        print(json.dumps([asdict(row) for row in rows], indent=2))


if __name__ == "__main__":
    typer.run(incremental)
