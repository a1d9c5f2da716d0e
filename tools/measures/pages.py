"""Pages of a large store: milliseconds from a request to its whole answer, by a server on this machine."""

import http.client
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from queue import SimpleQueue
from urllib.parse import urlencode, urlsplit

import numpy as np

from hierogram.daemon.configuration import HttpConfiguration
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.web.server import browse
from hierogram.samplers.grammar.rules import parse_side
from hierogram.storage.browsing.reader import Reader
from hierogram.storage.database.connection import POSTGRES, make_engine, parse_url
from hierogram.storage.exceptions import StoreMissingError
from hierogram.tools.measures.exporting import generate
from hierogram.tools.measures.results import Corpus, Figures
from hierogram.tools.measures.stores import temporary_folder

_ASKED = 150
_PATIENCE_MS = 300.0
_OFTEN = 1_000_000_000


def measure_pages(corpus: Corpus) -> Figures:
    """Searches, rule pages and word pages of a store of many rules, on SQLite, and on a named empty Postgres database.

    Rules are drawn evenly, sides and words from them: so words come as often as they stand in rules, and the most
    frequent ones, which take longest, come most.
    """
    figures: Figures = {}
    with temporary_folder() as folder:
        urls = {"sqlite": f"sqlite:///{folder}/rules.db"}
        if "postgres" in corpus.extra:
            urls["postgres"] = corpus.extra["postgres"]
            refuse_a_store(urls["postgres"])
        for name, url in urls.items():
            inner = replace(corpus, extra=corpus.extra | {"store": url})
            made = generate(inner)
            analyze(url)
            figures[name] = {"rules": made["rules"], **_ask_all(inner)}
    return figures


def analyze(url: str) -> None:
    """Has Postgres look at its tables now, as it does by itself a minute later."""
    if parse_url(url).get_backend_name() == POSTGRES:
        engine = make_engine(parse_url(url)).execution_options(isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql("VACUUM ANALYZE")
        engine.dispose()


def refuse_a_store(url: str) -> None:
    """Raises `UsageError` where the database holds a store."""
    try:
        Reader(url).close()
    except StoreMissingError:
        return
    raise UsageError("the database holds a store already: name one without")


def _ask_all(corpus: Corpus) -> Figures:
    with Reader(corpus.extra["store"]) as reader:
        chosen = _chosen_rules(reader, random.Random(corpus.seed))
        addresses: SimpleQueue[str] = SimpleQueue()
        configuration = HttpConfiguration(port=0, max_rate=_OFTEN, max_burst=_OFTEN)
        threading.Thread(target=browse, args=(reader, configuration, addresses.put), daemon=True).start()
        connection = http.client.HTTPConnection(urlsplit(addresses.get()).netloc)
        questions = list(_questions(chosen, random.Random(corpus.seed)))
        times: dict[str, list[float]] = {}
        # Templates are compiled, and what the database keeps in memory is there, after some questions.
        for _, address in questions[: len(questions) // 10]:
            _ask(connection, address)
        for name, address in questions:
            times.setdefault(name, []).append(_ask(connection, address))
    every = [taken for some in times.values() for taken in some]
    return {
        name: {
            "median_ms": float(np.median(some)),
            "95_percent_ms": float(np.percentile(some, 95)),
            "most_ms": max(some),
            "share_within_300_ms": float(np.mean(np.array(some) <= _PATIENCE_MS)),
        }
        for name, some in {**times, "all": every}.items()
    }


def _chosen_rules(reader: Reader, draw: random.Random) -> list[tuple[str, str]]:
    with reader.look() as look:
        last = look.row("SELECT last_rule_id FROM store_state")
        ids = ", ".join(str(draw.randrange(1, int(last[0]) + 1)) for _ in range(3 * _ASKED)) if last else "0"
        rows = look.rows(f"SELECT source, target FROM rules WHERE id IN ({ids}) AND count > 0")
    return [(row[0], row[1]) for row in rows]


def _questions(rules: list[tuple[str, str]], draw: random.Random) -> Iterator[tuple[str, str]]:
    """Kinds of pages and addresses, in turn: words, phrases and whole sides, in each order; rules; words."""
    asked = 0
    for source, target in draw.sample(rules, len(rules)):
        side = draw.choice(("source", "target"))
        symbols = parse_side(source if side == "source" else target)
        words = [symbol for symbol in symbols if isinstance(symbol, str) and symbol != "_"]
        if not words:
            continue
        word = draw.choice(words)
        phrase = " ".join(symbol if isinstance(symbol, str) else "_" for symbol in symbols)
        order = draw.choice(("probability", "surprise"))
        yield "search for a word", _address("/search", q=word, side=side)
        yield "search for a word by probability", _address("/search", q=word, side=side, order=order)
        yield "search for a phrase", _address("/search", q=phrase, side=side)
        yield "search for a whole side", _address("/search", q=phrase, side=side, match="whole", order=order)
        yield "search by probability", _address("/search", q=phrase, side=side, order=order)
        yield "rule", _address("/rule", source=source, target=target)
        yield "word", _address("/word", side=side, token=word)
        asked += 1
        if asked == _ASKED:
            return


def _address(path: str, **values: str) -> str:
    return f"{path}?{urlencode(values)}"


def _ask(connection: http.client.HTTPConnection, address: str) -> float:
    """Milliseconds until the whole page is there."""
    started = time.perf_counter()
    connection.request("GET", address, headers={"Accept": "text/html"})
    answer = connection.getresponse()
    answer.read()
    taken = (time.perf_counter() - started) * 1e3
    assert answer.status == 200, (address, answer.status)
    return taken
