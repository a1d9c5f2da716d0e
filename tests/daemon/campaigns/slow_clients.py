"""Attacks by clients that do not read their answers, or whose requests take long, and their effect on pages.

    python -m tests.daemon.campaigns.slow_clients [--store URL] [--attack NAME] [--connections 40] [--seconds 20]

Prints the response times of pages and the peak memory during each attack. Without `--store`, a store of the demo's
pairs is learned first, which takes some minutes.
"""

import argparse
import json
import re
import selectors
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from threading import Event, Thread
from urllib.parse import quote

import httpx2
import numpy as np
from tests.daemon.campaigns.daemon import Daemon
from tests.daemon.untrusted.requests_attacks import http_request

from hierogram.daemon.learning.alignment.incremental import align_pending
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.memory_input import MemoryPairs
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import open_store
from hierogram.tools.demo.data import read_verses

PAGES = (
    "/",
    "/search?q={word}",
    "/word?token={word}",
    "/pairs/17",
    "/now",
    "/v1/rules?limit=5",
    "/v1/evidence?source={word}",
    "/v1/pairs/17/derivation",
    "/v1/status",
    "/healthz",
)
"""Pages that other clients request during an attack."""
LIMIT_SECONDS = 2.0
"""Limit of the 99th percentile of the response times, on a machine with two cores and no other work."""
MAX_BYTES = 900_000_000

_JSON = "Content-Type: application/json"
_EVENTS = "Accept: text/event-stream"
_MCP = "Accept: application/json, text/event-stream"


@dataclass(frozen=True)
class Attack:
    """Requests that many connections send in turn.

    Clients read at most the status line. If `disconnects_after` is set, they reconnect after that many seconds.
    """

    requests: Sequence[bytes]
    disconnects_after: float | None = None


def _get(path: str, *headers: str) -> bytes:
    return http_request(f"GET {path}", *headers)


def _post(path: str, body: object, *headers: str) -> bytes:
    return http_request(f"POST {path}", _JSON, *headers, body=json.dumps(body).encode())


def _tool(name: str, **arguments: object) -> bytes:
    call = {"name": name, "arguments": arguments}
    return _post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}, _MCP)


def attacks(words: Sequence[str], languages: tuple[str, str]) -> dict[str, Attack]:
    """Return the attacks on a store with these frequent source words and these languages."""

    def text(letters: int) -> str:
        return (" ".join(words) + " ") * (letters // (len(" ".join(words)) + 1) + 1)

    source, target = languages
    long, query = text(6_600)[:6_600], quote(text(400)[:400])
    everything = quote("SELECT * FROM word_rules")
    translations = [
        _post("/v1/translate?best=25", {"sentences": [text(9_000)[:9_000]]}),
        _post("/translate", {"q": text(9_000)[:9_000], "source": source, "target": target, "alternatives": 20}),
        _get(f"/translate?q={quote(text(4_000)[:4_000])}", "Accept: text/html"),
        _tool("translate", text=long, alternatives=20),
        _post("/v1/translate?best=100", {"sentences": [text(25)[:25]] * 90}),
    ]
    streams = [
        _get("/v1/memory.tmx"),
        _get(f"/sql.csv?sql={everything}"),
        _get(f"/sql.json?sql={everything}"),
        _get("/v1/events?after=0", _EVENTS),
    ]
    large = [
        _get("/v1/rules?limit=1000"),
        _get("/v1/events?after=0&limit=1000"),
        _get("/openapi.json"),
        _get(f"/sql?sql={everything}"),
        _get(f"/v1/evidence?source={query}&pairs=50&rules=500"),
        _post("/v1/align", {"pairs": [{"source": text(500)[:500], "target": text(500)[:500]}] * 50}),
        _get("/metrics"),
    ]
    slow = [
        _get(f"/search?q={query}"),
        _get(f"/translate/near?q={quote(text(4_000)[:4_000])}"),
        _get(f"/tmserver/{source}/{target}/unit/{query}?min_similarity=0&max_candidates=50"),
        _get(f"/v1/evidence?source={query}"),
        _post("/detect", {"q": text(9_999)[:9_999]}),
        _get("/sql?sql=" + quote("SELECT count(*) FROM rules a, rules b, rules c")),
        _get("/rule/pairs?source=%5BX%2C1%5D+%5BX%2C2%5D&target=%5BX%2C1%5D+%5BX%2C2%5D"),
        _tool("evidence", sentence=text(800)[:800], characters=4_000),
        _tool("concordance", phrase=words[0], limit=200),
        _tool("terms", limit=200),
        _tool("align", source=text(800)[:800], target=text(800)[:800]),
        _post("/v1/align", {"pairs": [{"source": text(700)[:700], "target": text(700)[:700]}] * 20}),
    ]
    return {
        "nothing": Attack([]),
        "unread translation memory": Attack(streams[:1]),
        "unread streams": Attack(streams),
        "unread large answers": Attack(large),
        "translations": Attack(translations),
        "translations whose clients leave": Attack(translations, disconnects_after=0.5),
        "slow requests": Attack(slow),
        "slow requests whose clients leave": Attack(slow, disconnects_after=0.5),
        "everything": Attack(streams + large + translations + slow, disconnects_after=5.0),
    }


class _Attackers:
    """Thread that opens the connections of an attack, each from its own address."""

    def __init__(self, port: int, attack: Attack, connections: int) -> None:
        self._port, self._attack = port, attack
        self._stop = Event()
        self.statuses: Counter[str] = Counter()
        self._thread = Thread(target=self._run, args=(connections,), daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self, connections: int) -> None:
        requests = self._attack.requests
        sent, open_since = 0, {}
        with selectors.DefaultSelector() as ready:
            while not self._stop.is_set():
                while requests and len(open_since) < connections:
                    connection = self._connect(sent, requests[sent % len(requests)])
                    open_since[connection] = time.monotonic()
                    ready.register(connection, selectors.EVENT_READ)
                    sent += 1
                for key, _ in ready.select(0.1):
                    connection = key.fileobj
                    assert isinstance(connection, socket.socket)
                    # Only the status line is read; the connection is then watched for its end.
                    self.statuses[self._status(connection)] += 1
                    ready.unregister(connection)
                for connection in [each for each, since in open_since.items() if self._is_over(each, since)]:
                    del open_since[connection]
                    with suppress(KeyError):
                        ready.unregister(connection)
                    connection.close()
        for connection in open_since:
            connection.close()

    def _is_over(self, connection: socket.socket, since: float) -> bool:
        limit = self._attack.disconnects_after
        return (limit is not None and time.monotonic() - since > limit) or _ended(connection)

    def _connect(self, number: int, request: bytes) -> socket.socket:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.bind((f"127.1.{number // 250 % 250}.{1 + number % 250}", 0))
        connection.settimeout(5.0)
        with suppress(OSError):
            connection.connect(("127.0.0.1", self._port))
            connection.sendall(request)
        connection.setblocking(False)
        return connection

    @staticmethod
    def _status(connection: socket.socket) -> str:
        try:
            return connection.recv(12)[9:].decode("latin-1") or "closed"
        except OSError:
            return "reset"


def _ended(connection: socket.socket) -> bool:
    """Check if the server has reset the connection, or has closed it after all data was read."""
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@dataclass
class Measured:
    """Response times in seconds by page, failed requests, attackers' statuses, and peak memory in bytes."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    bytes: int = 0

    def percentile(self, percent: float) -> float:
        return float(np.percentile([value for values in self.seconds.values() for value in values], percent))

    def line(self) -> str:
        slowest = max(self.seconds, key=lambda page: max(self.seconds[page], default=0.0))
        number = sum(map(len, self.seconds.values()))
        return (
            f"{number} pages, median {self.percentile(50):.3f} s, p99 {self.percentile(99):.2f} s, slowest"
            f" {max(self.seconds[slowest]):.2f} s ({slowest}); {self.bytes / 1e6:.0f} MB; not answered"
            f" {dict(self.failures)}; attackers got {dict(self.statuses)}"
        )


class Target:
    """Daemon under attack, and the pages that other clients request."""

    def __init__(self, daemon: Daemon, words: Sequence[str], languages: tuple[str, str]) -> None:
        self.daemon = daemon
        self._pages = [page.format(word=quote(words[0])) for page in PAGES]
        self.attacks = attacks(words, languages)

    def measure(self, name: str, connections: int, seconds: float, clients: int = 2) -> Measured:
        """Run an attack, request pages during it, and return the measurements. Fails if the daemon ended."""
        measured, stop = Measured(), Event()
        assert self.daemon.process is not None
        attackers = _Attackers(self.daemon.port, self.attacks[name], connections)
        for page in self._pages:
            measured.seconds[page] = []
        readers = [Thread(target=self._read, args=(measured, stop, number)) for number in range(clients)]
        for reader in readers:
            reader.start()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with suppress(OSError):
                measured.bytes = max(measured.bytes, anonymous_bytes(self.daemon.process.pid))
            time.sleep(0.05)
        stop.set()
        for reader in readers:
            reader.join()
        attackers.end()
        measured.statuses = attackers.statuses
        self.daemon.check()
        return measured

    def _read(self, measured: Measured, stop: Event, number: int) -> None:
        transport = httpx2.HTTPTransport(local_address=f"127.0.9.{number + 1}")
        with httpx2.Client(transport=transport, base_url=self.daemon.address(""), timeout=60) as client:
            while not stop.is_set():
                for page in self._pages:
                    began = time.perf_counter()
                    try:
                        status = client.get(page).status_code
                    except httpx2.HTTPError as error:
                        status = repr(error)
                    measured.seconds[page].append(time.perf_counter() - began)
                    if status != 200:
                        measured.failures[f"{page}: {status}"] += 1
                    if stop.is_set():
                        break
                    time.sleep(0.02)


def anonymous_bytes(process: int) -> int:
    """Return the memory of a process in bytes, without mapped files, which the system can reclaim."""
    match = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert match is not None
    return int(match[1]) * 1024


def make_store(url: str, pairs: int | None = None) -> None:
    """Create a learned store of the demo's first pairs, all by default."""
    pairs_to_add = [verse.as_input() for verse in islice(read_verses(), pairs)]
    with open_store(url, create=True, settings=Settings(languages=("grc", "en"))) as store:
        ingest(store, MemoryPairs(pairs_to_add, "demo"), "demo")
        align_pending(store)
        learn(store, sweeps=4)


@contextmanager
def target(url: str, folder: Path) -> Iterator[Target]:
    """Run a daemon on a learned store, with LibreTranslate's protocol and MCP enabled."""
    with open_store(url) as store:
        languages = store.settings().languages or ("grc", "en")
        [*pairs] = store.pairs_by_id(range(1, 200))
    frequent = Counter(word for pair in pairs for word in pair.source.split() if re.fullmatch(r"\w+", word))
    daemon = Daemon(
        url,
        folder,
        HIEROGRAM_HTTP__LIBRETRANSLATE="true",
        HIEROGRAM_HTTP__MCP="read",
        HIEROGRAM_SAMPLING__COMMIT_SECONDS="5",
    )
    with daemon.started():
        daemon.wait_until_ready()
        yield Target(daemon, [word for word, _ in frequent.most_common(40)], (languages[0], languages[1]))


def main() -> None:
    """Run the attacks that the command line names, all by default, and print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", help="URL of a learned store, which the daemon writes to.")
    parser.add_argument("--attack", action="append", help="Name of an attack to run.")
    parser.add_argument("--connections", type=int, default=40, help="Connections of an attack.")
    parser.add_argument("--seconds", type=float, default=20.0, help="Duration of an attack.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = options.store or f"sqlite:///{Path(folder) / 'demo.db'}"
        if not options.store:
            make_store(url)
        with target(url, Path(folder)) as attacked:
            for name in options.attack or attacked.attacks:
                measured = attacked.measure(name, options.connections, options.seconds)
                print(f"{name}: {measured.line()}", flush=True)


if __name__ == "__main__":
    main()
