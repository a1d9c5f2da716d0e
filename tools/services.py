"""What the daemon answers people and programs: milliseconds from a request to its whole answer, on this machine."""

import http.client
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

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
from hierogram.tools.measures.results import Corpus, Figures
from hierogram.tools.measures.stores import temporary_folder

_PAIRS = 200
_TOGETHER = 50
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
    """Milliseconds a pair of `POST /v1/align`, one and fifty at a time, beside the links of the whole corpus."""
    with temporary_folder() as folder, open_store(f"sqlite:///{folder}/store.db", create=True) as store:
        with Input(corpus.files(folder)) as source:
            ingest(store, source)
        trained = IncrementalAligner(store, corpus.threads).train()
        return {"align": {"pairs_known": trained, **_measure_aligning(store)}}


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
