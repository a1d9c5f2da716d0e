"""Measure stores: ingest, learning, opening, exporting."""

import time

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.exports.exporting import export
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.learning.learner import Learner, LearnOptions
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.pair_files import PairFiles
from hierogram.storage.store import Store, open_store
from hierogram.tools.lab.measures.results import Corpus, Figures, temporary_folder, time_call

_INGEST_ROUNDS = 3
_REOPENED_PAIRS = 1_000
"""Maximum number of pairs that the reopened store loads and sweeps."""


def _ingest(store: Store, paths: list[str]) -> tuple[int, float]:
    """Ingest files. Returns the number of new pairs, and seconds."""
    with PairFiles(paths) as source:
        seconds, done = time_call(lambda: ingest(store, source))
        return done.totals.accepted, seconds


def measure_ingest(corpus: Corpus) -> Figures:
    """Measure ingest in pairs per second: best of three runs on SQLite, one run on Postgres if given."""
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
            rows = store.stalest_pairs(_REOPENED_PAIRS)
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
