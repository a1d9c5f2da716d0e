"""The last tenth of a corpus aligned on arrival, beside the whole aligned at once: cost and AER.

    python -m hierogram.tools.incremental_alignment gold-fr-en-alibi gold-es-en-collins200+europarl-es-en-5k

The first folder's pairs, those with manual links, come last, so that they are among those that arrive.
"""

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from hierogram.daemon.alignment.aligning import align
from hierogram.daemon.alignment.evaluation import GoldLinks, evaluate, links_of, read_gold
from hierogram.daemon.alignment.incremental import IncrementalAligner, align_pending
from hierogram.daemon.alignment.requests import Request
from hierogram.daemon.corpora.lines import read_sentences
from hierogram.samplers.alignment.options import GDFA
from hierogram.storage.records import NewPairs, Settings
from hierogram.storage.store import Store, open_store
from hierogram.tools.compare_aligners import CorpusFiles, corpus_of
from hierogram.tools.measures.results import timed

LONGEST = 361


@dataclass(frozen=True, slots=True)
class ArrivalRow:
    """One corpus. Seconds are those of processors; AER is that of the pairs that arrived and have manual links."""

    corpus: str
    pairs: int
    arrived: int
    evaluated: int
    batch_seconds: float
    arrival_seconds: float
    rejuvenation_seconds: float
    share: float
    batch_aer: float
    arrival_aer: float
    rejuvenated_aer: float


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
    # As a store makes one alignment of both directions.
    request = Request(threads=threads, symmetrization=GDFA)
    batch_seconds, batch = timed(lambda: list(align(sources, targets, request).lines()), time.process_time)

    def error(lines: Sequence[str]) -> float:
        found = [links_of(line) for line in lines[pairs - evaluated :]]
        return evaluate(gold[len(gold) - evaluated :], found).aer

    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/store.db"
        with open_store(url, create=True, settings=Settings(max_tokens=LONGEST)) as store:
            put_pairs(store, sources, targets, 0, kept)
            align_pending(store, threads)
            put_pairs(store, sources, targets, kept, pairs)
            aligner = IncrementalAligner(store, threads)
            arrival_seconds, _ = timed(lambda: aligner.align_new(pairs), time.process_time)
            arrived = [row.alignment for row in store.pairs()]
            rejuvenation_seconds, _ = timed(lambda: aligner.rejuvenate(pairs - kept), time.process_time)
            rejuvenated = [row.alignment for row in store.pairs()]
    return ArrivalRow(
        corpus.name,
        pairs,
        pairs - kept,
        evaluated,
        batch_seconds,
        arrival_seconds,
        rejuvenation_seconds,
        (arrival_seconds + rejuvenation_seconds) / batch_seconds,
        error(batch),
        error(arrived),
        error(rejuvenated),
    )


HEAD = ("corpus", "pairs", "arrived", "batch s", "arrival s", "again s", "share", "AER batch", "arrival", "again")
_LAYOUT = "{:<40.40} {:>7} {:>7} {:>8} {:>9} {:>8} {:>7} {:>9} {:>8} {:>7}"


def _cells(row: ArrivalRow) -> list[str]:
    seconds = (row.batch_seconds, row.arrival_seconds, row.rejuvenation_seconds)
    rates = (row.batch_aer, row.arrival_aer, row.rejuvenated_aer)
    known = [f"{rate:.4f}" if row.evaluated else "–" for rate in rates]
    counts = [f"{row.pairs:,}", f"{row.arrived:,}"]
    return [row.corpus, *counts, *[f"{s:.1f}" for s in seconds], f"{100 * row.share:.1f} %", *known]


def incremental(
    corpora: Annotated[
        list[str], typer.Argument(metavar="FOLDER...", help="Folders with corpora; FOLDER+FOLDER joins two.")
    ],
    threads: Annotated[int, typer.Option(min=1, help="Threads of either.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON for programs.")] = False,
) -> None:
    """Compare alignment on arrival with alignment of the whole: processors' time and AER of what arrives."""
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
