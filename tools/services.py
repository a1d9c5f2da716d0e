"""What the daemon answers people and programs: milliseconds from a request to its whole answer, on this machine."""

import http.client
import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import numpy as np

from hierogram.daemon.alignment.incremental import IncrementalAligner
from hierogram.daemon.configuration import HttpConfiguration
from hierogram.daemon.corpora.ingest import ingest
from hierogram.daemon.corpora.inputs import Input
from hierogram.daemon.serving.health import Condition, Lag
from hierogram.daemon.serving.supervision import Heart
from hierogram.daemon.web.server import HttpLoop
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.store import Store, open_store
from hierogram.tools.measures.exporting import generate
from hierogram.tools.measures.pages import analyze, refuse_a_store
from hierogram.tools.measures.results import Corpus, Figures
from hierogram.tools.measures.sampling import read_rows
from hierogram.tools.measures.stores import temporary_folder

_PAIRS = 200
_TOGETHER = 50
_SENTENCES = 100
_OFTEN = 1_000_000_000
_LOOK_SECONDS = 0.01


class _Quiet:
    """A daemon that only answers: it has no pair that anyone could change."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def condition(self) -> Condition:
        return Condition((), Lag())

    def stopping(self) -> bool:
        return False

    def withdraw(self, pair_ids: Sequence[int]) -> list[int]:
        return []

    def correct(self, pair_id: int, links: KnownLinks, origin: str) -> bool | None:
        return None


@contextmanager
def _asked(store: Store) -> Iterator[http.client.HTTPConnection]:
    """A connection to a server of the store, which ends afterwards."""
    loop = HttpLoop(_Quiet(store), lambda: HttpConfiguration(port=0, max_rate=_OFTEN, max_burst=_OFTEN))
    stop = threading.Event()
    thread = threading.Thread(target=loop.run, args=(stop, Heart()))
    thread.start()
    try:
        while loop.address is None:
            time.sleep(_LOOK_SECONDS)
        host, port = loop.address
        connection = http.client.HTTPConnection(host, port)
        yield connection
        connection.close()
    finally:
        stop.set()
        thread.join()


def measure_services(corpus: Corpus) -> Figures:
    """Milliseconds a pair of `POST /v1/align`, one and fifty at a time, beside the links of the whole corpus; and those
    of `GET /v1/evidence` on a store of many rules, on SQLite, and on a named empty Postgres database.
    """
    with temporary_folder() as folder, open_store(f"sqlite:///{folder}/store.db", create=True) as store:
        with Input(corpus.files(folder)) as source:
            ingest(store, source)
        trained = IncrementalAligner(store, corpus.threads).train()
        return {"align": {"pairs_known": trained, **_measure_aligning(store)}, "evidence": _measure_evidence(corpus)}


def _measure_evidence(corpus: Corpus) -> Figures:
    figures: Figures = {}
    with temporary_folder() as folder:
        urls = {"sqlite": f"sqlite:///{folder}/rules.db"}
        if "postgres" in corpus.extra:
            urls["postgres"] = corpus.extra["postgres"]
            refuse_a_store(urls["postgres"])
        sentences = _sentences(corpus)
        for name, url in urls.items():
            made = generate(replace(corpus, extra=corpus.extra | {"store": url}))
            analyze(url)
            with open_store(url) as store, _asked(store) as connection:
                # What the first requests load and read stays in memory.
                for sentence in sentences[: len(sentences) // 5]:
                    _get(connection, sentence)
                taken = [_get(connection, sentence) for sentence in sentences]
            figures[name] = {
                "rules": made["rules"],
                "pairs": made["pairs"],
                "words": float(np.mean([sentence.count(" ") + 1 for sentence in sentences])),
                "median_ms": float(np.median(taken)),
                "95_percent_ms": float(np.percentile(taken, 95)),
            }
    return figures


def _sentences(corpus: Corpus) -> list[str]:
    """Sentences that no pair has: the first half of one of the corpus, and the second half of another."""
    draw = random.Random(corpus.seed)
    rows = read_rows(corpus)
    found = []
    for _ in range(_SENTENCES):
        first, second = (draw.choice(rows).source.split(" ") for _ in range(2))
        found.append(" ".join(first[: (len(first) + 1) // 2] + second[len(second) // 2 :]))
    return found


def _get(connection: http.client.HTTPConnection, sentence: str) -> float:
    """Milliseconds until all that is known of the sentence is there."""
    address = f"/v1/evidence?{urlencode({'source': sentence, 'tokenized': 'true'})}"
    started = time.perf_counter()
    connection.request("GET", address)
    answer = connection.getresponse()
    read: Any = answer.read()
    taken = (time.perf_counter() - started) * 1e3
    assert answer.status == 200, read
    return taken


def _measure_aligning(store: Store) -> Figures:
    rows = store.pairs(limit=_PAIRS)
    pairs = [{"source": row.source, "target": row.target} for row in rows]
    lots = [pairs[k : k + _TOGETHER] for k in range(0, len(pairs), _TOGETHER)]
    with _asked(store) as connection:
        # Kernels are loaded by the first request.
        _align(connection, pairs[:1])
        alone = [_align(connection, [pair]) for pair in pairs]
        together = [_align(connection, lot) / len(lot) for lot in lots]
    return {
        "pairs": len(pairs),
        "words_a_side": float(np.mean([row.source.count(" ") + 1 for row in rows])),
        "ms_a_pair_alone": float(np.median(alone)),
        "ms_a_pair_alone_95_percent": float(np.percentile(alone, 95)),
        "ms_a_pair_of_fifty": float(np.mean(together)),
    }


def _align(connection: http.client.HTTPConnection, pairs: list[dict[str, str]]) -> float:
    body = json.dumps({"pairs": pairs, "tokenized": True})
    started = time.perf_counter()
    connection.request("POST", "/v1/align", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    read: Any = answer.read()
    taken = (time.perf_counter() - started) * 1e3
    assert answer.status == 200, read
    return taken
