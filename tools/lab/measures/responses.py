"""Measure the response times of a daemon's pages and services, in milliseconds."""

import http.client
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import cast

import numpy as np

from hierogram.daemon.configuration import HttpConfiguration, configuration_type
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.serving.service import Daemon
from hierogram.daemon.serving.supervision import DaemonStatus, Heartbeat, Lag
from hierogram.daemon.web.pages.rendering import build_url
from hierogram.daemon.web.server import HttpLoop
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.samplers.grammar.rules import parse_side
from hierogram.storage.browsing.reader import Reader
from hierogram.storage.database.connection import POSTGRES, make_engine, parse_url
from hierogram.storage.exceptions import StoreMissingError
from hierogram.storage.store import Store, open_store
from hierogram.tools.lab.measures.exporting import create_large_store
from hierogram.tools.lab.measures.results import Corpus, Figures, temporary_folder
from hierogram.tools.lab.measures.sampling import read_rows

_MAX_RULES = 150
"""Number of rules whose pages are measured."""
_MAX_WAIT_MS = 300.0
_UNLIMITED = HttpConfiguration(port=0, max_rate=1_000_000_000, max_burst=1_000_000_000)
"""HTTP configuration with a free port and without a limit on requests."""
_HTML = "text/html"
_SENTENCES = 100
"""Number of sentences for which evidence is measured."""
_POLL_SECONDS = 0.01
_TIMEOUT_SECONDS = 120
"""Maximum seconds without data, so that the measurement fails if the server thread dies."""


def measure_pages(corpus: Corpus) -> Figures:
    """Measure search, rule and word pages of a large store on SQLite, and on Postgres if given."""
    return {
        name: {"rules": sizes["rules"], **_measure_pages(url, corpus.seed)}
        for name, url, sizes in _large_stores(corpus)
    }


def _large_stores(corpus: Corpus) -> Iterator[tuple[str, str, Figures]]:
    """Yield name, URL and sizes of large stores: on SQLite, and on Postgres if a database is given."""
    with temporary_folder() as folder:
        urls = {"sqlite": f"sqlite:///{folder}/rules.db"}
        if corpus.postgres:
            urls["postgres"] = corpus.postgres
            with suppress(StoreMissingError), Reader(urls["postgres"]):
                raise UsageError("--postgres: the database already contains a store: name an empty database")
        for name, url in urls.items():
            sizes = create_large_store(url, corpus)
            if parse_url(url).get_backend_name() == POSTGRES:
                # Analyze the tables now, because autovacuum would do it only after a minute.
                engine = make_engine(parse_url(url)).execution_options(isolation_level="AUTOCOMMIT")
                with engine.connect() as connection:
                    connection.exec_driver_sql("VACUUM ANALYZE")
                engine.dispose()
            yield name, url, sizes


def _measure_pages(url: str, seed: int) -> Figures:
    rng = random.Random(seed)
    with Reader(url) as reader, reader.read() as transaction:
        last = transaction.row("SELECT last_rule_id FROM store_state")
        ids = ", ".join(str(rng.randrange(1, int(last[0]) + 1)) for _ in range(3 * _MAX_RULES)) if last else "0"
        rows = transaction.rows(f"SELECT source, target FROM rules WHERE id IN ({ids}) AND count > 0")
    page_requests = list(_page_requests([(row[0], row[1]) for row in rows], random.Random(seed)))
    times: dict[str, list[float]] = {}
    with open_store(url) as store, _serve(store) as connection:
        # Do not measure the first requests, which compile templates and fill the database's cache.
        for _, path in page_requests[: len(page_requests) // 10]:
            _get(connection, path, _HTML)
        for name, path in page_requests:
            times.setdefault(name, []).append(_get(connection, path, _HTML))
    all_times = [milliseconds for route_times in times.values() for milliseconds in route_times]
    return {
        name: {
            **_summary(route_times),
            "max_ms": max(route_times),
            "share_within_300_ms": float(np.mean(np.array(route_times) <= _MAX_WAIT_MS)),
        }
        for name, route_times in {**times, "all": all_times}.items()
    }


def _summary(milliseconds: list[float]) -> Figures:
    return {"median_ms": float(np.median(milliseconds)), "95th_percentile_ms": float(np.percentile(milliseconds, 95))}


def _page_requests(rules: list[tuple[str, str]], rng: random.Random) -> Iterator[tuple[str, str]]:
    """Yield kinds and paths of seven pages for each of up to 150 random rules.

    The word is on a random side of the rule. Rules without words on this side are omitted.
    """
    rules_used = 0
    for source, target in rng.sample(rules, len(rules)):
        side = rng.choice(("source", "target"))
        symbols = parse_side(source if side == "source" else target)
        words = [symbol for symbol in symbols if isinstance(symbol, str) and symbol != "_"]
        if not words:
            continue
        word = rng.choice(words)
        phrase = " ".join(symbol if isinstance(symbol, str) else "_" for symbol in symbols)
        order = rng.choice(("probability", "surprise"))
        yield "search for a word", build_url("/search", q=word, side=side)
        yield "search for a word by probability", build_url("/search", q=word, side=side, order=order)
        yield "search for a phrase", build_url("/search", q=phrase, side=side)
        yield "search for a whole side", build_url("/search", q=phrase, side=side, match="whole", order=order)
        yield "search by probability", build_url("/search", q=phrase, side=side, order=order)
        yield "rule", build_url("/rule", source=source, target=target)
        yield "word", build_url("/word", side=side, token=word)
        rules_used += 1
        if rules_used == _MAX_RULES:
            return


class _StubDaemon:
    """Stub of `Daemon` for `HttpLoop`: serves one store and changes no pairs."""

    def __init__(self, store: Store) -> None:
        self.store, self.grammar_store = store, GrammarStore(store)
        self.configuration = configuration_type()(http=_UNLIMITED)

    def status(self) -> DaemonStatus:
        return DaemonStatus((), Lag())

    def stopping(self) -> bool:
        return False

    def withdraw(self, pair_ids: Sequence[int]) -> list[int]:
        return []

    def correct(self, pair_id: int, links: KnownLinks, origin: str) -> bool | None:
        return None


@contextmanager
def _serve(store: Store) -> Iterator[http.client.HTTPConnection]:
    """Serve a store over HTTP in a thread, and yield a connection to it."""
    loop = HttpLoop(cast("Daemon", _StubDaemon(store)))
    stop = threading.Event()
    thread = threading.Thread(target=loop.run, args=(stop, Heartbeat()))
    thread.start()
    try:
        while loop.address is None:
            if not thread.is_alive():
                raise RuntimeError("the HTTP server ended before it accepted connections: see its error above")
            time.sleep(_POLL_SECONDS)
        host, port = loop.address
        connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)
        yield connection
        connection.close()
    finally:
        stop.set()
        thread.join()


def measure_services(corpus: Corpus) -> Figures:
    """Measure `GET /v1/evidence` in milliseconds on a large store, on SQLite, and on Postgres if given."""
    figures: Figures = {}
    sentences = _sentences(corpus)
    paths = [build_url("/v1/evidence", source=sentence, tokenized="true") for sentence in sentences]
    for name, url, sizes in _large_stores(corpus):
        with open_store(url) as store, _serve(store) as connection:
            # Do not measure the first requests, which load data into memory.
            for path in paths[: len(paths) // 5]:
                _get(connection, path)
            times = [_get(connection, path) for path in paths]
        figures[name] = {
            "rules": sizes["rules"],
            "pairs": sizes["pairs"],
            "words": float(np.mean([sentence.count(" ") + 1 for sentence in sentences])),
            **_summary(times),
        }
    return figures


def _sentences(corpus: Corpus) -> list[str]:
    """Return 100 new sentences: the first half of a random sentence, then the second half of another."""
    rng = random.Random(corpus.seed)
    rows = read_rows(corpus)
    sentences = []
    for _ in range(_SENTENCES):
        first, second = (rng.choice(rows).source.split(" ") for _ in range(2))
        sentences.append(" ".join(first[: (len(first) + 1) // 2] + second[len(second) // 2 :]))
    return sentences


def _get(connection: http.client.HTTPConnection, path: str, accept: str = "*/*") -> float:
    """Send a request and return the milliseconds until the complete response."""
    started = time.perf_counter()
    connection.request("GET", path, headers={"Accept": accept})
    answer = connection.getresponse()
    content = answer.read()
    milliseconds = (time.perf_counter() - started) * 1e3
    assert answer.status == 200, (path, content)
    return milliseconds
