"""Measure stores: ingest, learning, opening, adding pairs, exporting."""

import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.exports.exporting import export
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.learning.learner import Learner, LearnOptions
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.reading import Input
from hierogram.storage.records.pairs import NewPairs
from hierogram.storage.store import Store, open_store
from hierogram.tools.lab.measures.results import Corpus, Figures, temporary_folder, time_call
from hierogram.tools.lab.measures.sampling import read_rows

_INGEST_ROUNDS = 3
_ABSORBED = 1_000
_ABSORB_ROUNDS = 5
_WARMING = 100
_PAIRS_PER_CHUNK = 5_000
_SECONDS_PER_LIKELIHOOD = 60.0
"""Seconds between two computations of the likelihood, as in the daemon."""


def _ingest(store: Store, paths: list[str]) -> tuple[int, float]:
    with Input(paths) as source:
        seconds, done = time_call(lambda: ingest(store, source))
        return done.totals.accepted, seconds


def measure_ingest(corpus: Corpus) -> Figures:
    """Measure pairs per second from files to a committed store: best of three runs on SQLite, one run on Postgres."""
    figures: Figures = {}
    with temporary_folder() as folder:
        paths = corpus.files(folder)
        urls = [("sqlite", f"sqlite:///{folder}/ingest{k}.db") for k in range(_INGEST_ROUNDS)]
        if corpus.postgres:
            urls.append(("postgres", corpus.postgres))
        for name, url in urls:
            with open_store(url, create=True) as store:
                pairs, seconds = _ingest(store, paths)
                if not pairs:
                    raise UsageError(f"{store.url} already contains these pairs: name an empty database")
            if name not in figures or seconds < figures[name]["seconds"]:
                figures[name] = {"pairs": pairs, "seconds": seconds, "pairs_per_second": pairs / seconds}
    return figures


def measure_learning(corpus: Corpus) -> Figures:
    """Measure a whole run on SQLite: ingest, learning with commits, reopening the store, and an export."""
    with temporary_folder() as folder:
        path = folder / "learn.db"
        with open_store(f"sqlite:///{path}", create=True) as store:
            pairs, ingest_seconds = _ingest(store, corpus.files(folder))
            done = learn(store, options=LearnOptions(corpus.threads))
        started = time.perf_counter()
        with open_store(f"sqlite:///{path}") as store, Learner(store, LearnOptions(corpus.threads)) as learner:
            rows = store.stalest_pairs(_ABSORBED)
            batch = learner.open(rows)
            opening = time.perf_counter() - started
            learner.sweep(batch, batch.sweeps + 1)
            status = store.status()
            options = ExportOptions(max_scope=99, current_sample=True)
            export_seconds, manifest = time_call(lambda: export(store, folder / "grammar", options))
        return {
            "pairs": pairs,
            "ingest_seconds": ingest_seconds,
            "learn_seconds": done.seconds,
            "sampling_seconds": done.sampling_seconds,
            "rules_in_store": status.rules_in_use,
            "open_until_first_sweep_seconds": opening,
            "store_bytes": sum(f.stat().st_size for f in folder.glob("learn.db*")),
            "export_rules": manifest.rules,
            "export_rules_per_second": manifest.rules / export_seconds,
        }


def _rename_words(text: str, copy: int) -> str:
    """Return a copy of a text. A third of the words are changed to words that are specific to the copy's number."""
    if copy == 0:
        return text
    return " ".join(word if zlib.crc32(word.encode()) % 3 else f"{word}·{copy}" for word in text.split(" "))


def _pairs(corpus: Corpus, first: int, last: int) -> NewPairs:
    """Return pairs `first` to `last` - 1 of a sequence: the corpus, then renamed copies of the corpus."""
    rows = read_rows(corpus)
    numbers = range(first, last)
    chosen = [rows[number % len(rows)] for number in numbers]
    copies = [number // len(rows) for number in numbers]
    sources = [_rename_words(row.source, copy) for row, copy in zip(chosen, copies, strict=True)]
    targets = [_rename_words(row.target, copy) for row, copy in zip(chosen, copies, strict=True)]
    return NewPairs(
        sources,
        targets,
        [row.alignment for row in chosen],
        [source.count(" ") + 1 for source in sources],
        [target.count(" ") + 1 for target in targets],
        numbers,
        list(map(str, numbers)),
        [0] * len(numbers),
    )


def _store_pairs(store: Store, pairs: NewPairs) -> None:
    batch = store.begin_ingest("bench", "bench", "memory")
    for first in range(0, len(pairs), _PAIRS_PER_CHUNK):
        store.add_pairs(batch, pairs.at(range(len(pairs))[first : first + _PAIRS_PER_CHUNK]))
    store.finish_ingest(batch)


def _absorb(store: Store, learner: Learner, pairs: NewPairs) -> float:
    """Store new pairs and sample them through burn-in. Returns the seconds."""
    started = time.perf_counter()
    _store_pairs(store, pairs)
    rows = store.pairs(states=["waiting"], limit=len(pairs))
    batch = learner.open(rows)
    learner.sweep(batch, np.full(len(rows), learner.schedule.burn_in))
    return time.perf_counter() - started


def measure_absorbing(corpus: Corpus) -> Figures:
    """Measure the seconds to add 1,000 pairs to a small and to a large store. Each round adds the same pairs to both.

    Each store has just learned its pairs, like the store of a running daemon. After half of the rounds, a new small
    store replaces the first, so that the small store remains small. `ratio` compares sums over rounds, and
    `ratio_of_medians` compares medians.
    """
    sizes = {"small": corpus.small, "large": corpus.large}
    figures: Figures = {"sizes": sizes, "seconds": {name: [] for name in sizes}}
    with temporary_folder() as folder:
        # Compile missing kernels now, so that the first round does not include compilation.
        with _learned(f"sqlite:///{folder}/warm.db", corpus, _WARMING) as (store, learner):
            _absorb(store, learner, _pairs(corpus, _WARMING, 2 * _WARMING))
        _absorb_in_turn(folder, corpus, figures)
    figures["ratio"] = sum(figures["seconds"]["large"]) / sum(figures["seconds"]["small"])
    medians = {name: float(np.median(seconds)) for name, seconds in figures["seconds"].items()}
    figures["ratio_of_medians"] = medians["large"] / medians["small"]
    return figures


def _absorb_in_turn(folder: Path, corpus: Corpus, figures: Figures) -> None:
    """Add new pairs alternately to small stores and a large store, and record the seconds in the figures."""
    fresh = max(corpus.small, corpus.large)
    with _learned(f"sqlite:///{folder}/large.db", corpus, corpus.large) as large:
        figures["rules_large"] = large[0].status().rules_in_use
        for half in range(2):
            with _learned(f"sqlite:///{folder}/small{half}.db", corpus, corpus.small) as small:
                figures["rules_small"] = small[0].status().rules_in_use
                for k in range(half * _ABSORB_ROUNDS, (half + 1) * _ABSORB_ROUNDS):
                    pairs = _pairs(corpus, fresh + k * _ABSORBED, fresh + (k + 1) * _ABSORBED)
                    for name, (store, learner) in (("small", small), ("large", large)):
                        figures["seconds"][name].append(_absorb(store, learner, pairs))


@contextmanager
def _learned(url: str, corpus: Corpus, size: int) -> Iterator[tuple[Store, Learner]]:
    """Yield a store of `size` pairs after one sweep, and its learner."""
    with open_store(url, create=True) as store:
        for first in range(0, size, _PAIRS_PER_CHUNK * 4):
            _store_pairs(store, _pairs(corpus, first, min(first + _PAIRS_PER_CHUNK * 4, size)))
        with Learner(store, LearnOptions(corpus.threads, likelihood_seconds=_SECONDS_PER_LIKELIHOOD)) as learner:
            while rows := store.pairs(states=["waiting"], limit=4 * _PAIRS_PER_CHUNK):
                batch = learner.open(rows)
                learner.sweep(batch, batch.sweeps + 1)
            yield store, learner
