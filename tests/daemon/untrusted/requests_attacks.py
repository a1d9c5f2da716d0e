"""Attacks over HTTP: number of connections, first and repeated data of each, and bytes read."""

import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass

SECONDS = 2.0
"""Duration of an attack after all its connections are open."""

_RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Attack:
    """`connections` that all do the same.

    Each sends `first`, then `then` every `pause` seconds. It reads nothing unless `reads` gives a number of bytes per
    read. `half` closes its side after the first data; `resets` resets the connection immediately and reconnects.
    """

    first: bytes = b""
    connections: int = 120
    then: bytes = b""
    pause: float = 0.2
    reads: int = 0
    half: bool = False
    resets: bool = False

    def run(self, port: int, during: Callable[[], None]) -> None:
        """Keep all connections open for a while, and call `during` repeatedly."""
        with ExitStack() as stack:
            held = []
            for number in range(self.connections):
                connection = self._connect(port, number)
                if connection is None:
                    continue
                if self.resets:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    connection.close()
                else:
                    held.append(stack.enter_context(connection))
                if number % 500 == 499:
                    during()
            until = time.monotonic() + SECONDS
            while True:
                for connection in held:
                    with suppress(OSError):
                        if self.then:
                            connection.sendall(self.then)
                        if self.reads:
                            connection.recv(self.reads)
                during()
                if time.monotonic() > until:
                    return
                time.sleep(self.pause)

    def _connect(self, port: int, number: int) -> socket.socket | None:
        connection = socket.socket()
        # Each connects from its own address, so that no rate limit applies.
        connection.bind((f"127.0.{2 + number // 250}.{1 + number % 250}", 0))
        connection.settimeout(1.0)
        with suppress(OSError):
            connection.connect(("127.0.0.1", port))
            connection.settimeout(0.02)
            with suppress(OSError):
                connection.sendall(self.first)
                if self.half:
                    connection.shutdown(socket.SHUT_WR)
            return connection
        connection.close()
        return None


def asked(
    line: str,
    *headers: str,
    body: bytes = b"",
    length: int | None = None,
    host: str = "localhost",
    version: str = "1.1",
) -> bytes:
    """Return a request; `length` overrides its Content-Length."""
    size = len(body) if length is None else length
    told = [f"Content-Length: {size}"] if size else []
    return "\r\n".join([f"{line} HTTP/{version}", f"Host: {host}", *headers, *told, "", ""]).encode() + body


_JSON = "Content-Type: application/json"
_LINES = "Content-Type: application/jsonl"
_FORM = "Content-Type: application/x-www-form-urlencoded"
_CHUNKED = "Transfer-Encoding: chunked"
_STREAM = "Accept: text/event-stream"
_LINE = json.dumps({"source": "a", "target": "b", "alignment": "0-0"}).encode() + b"\n"
_CHUNK = b"%x\r\n%b\r\n" % (len(_LINE), _LINE)
_HELLO = bytes.fromhex("16030100f1010000ed0303") + bytes(range(128)) * 2

NAMED = {
    "a form that does not come": Attack(asked("POST /enter", _FORM, length=20), 99),
    "pairs to align that do not come": Attack(asked("POST /v1/align", _JSON, length=90), 99),
    "sentences that do not come": Attack(asked("POST /v1/translate", _JSON, length=90), 99),
    "links that do not come": Attack(asked("PUT /v1/pairs/1/links", _JSON, length=90), 99),
    "thousands that say nothing": Attack(connections=3_000),
    "streams that begin at the same moment": Attack(asked("GET /v1/events", _STREAM), 40),
    "pages of another site": Attack(asked("GET /v1/status", host="evil.example.org") * 20, 60),
}
"""Attacks that have brought a daemon down."""

OTHERS = {
    "heads that drip": Attack(b"GET /healthz HTTP/1.1\r\nX: ", then=b"x"),
    "headers that drip": Attack(b"GET /healthz HTTP/1.1\r\n", then=b"X: y\r\n"),
    "empty lines": Attack(b"\r\n", then=b"\r\n"),
    "a header of a megabyte": Attack(b"GET / HTTP/1.1\r\nX: " + b"x" * (1 << 20), 40),
    "ten thousand headers": Attack(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000 + b"\r\n", 40),
    "an address of a megabyte": Attack(b"GET /" + b"x" * (1 << 20) + b" HTTP/1.1\r\n\r\n", 40),
    "folded headers": Attack(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: y\r\n" + b" z\r\n" * 9_000),
    "chunks that drip": Attack(asked("POST /v1/pairs", _LINES, _CHUNKED), then=b"1\r\n \r\n"),
    "chunks of pairs that drip": Attack(asked("POST /v1/pairs", _LINES, _CHUNKED), then=_CHUNK),
    "a chunk without an end": Attack(asked("POST /v1/pairs", _LINES, _CHUNKED) + b"ffffffffffffffff\r\n", then=_LINE),
    "a chunk's extension": Attack(asked("POST /v1/align", _JSON, _CHUNKED) + b"1;" + b"x" * 60_000, then=b"x"),
    "trailers that drip": Attack(asked("POST /v1/align", _JSON, _CHUNKED) + b"0\r\n", then=b"X: y\r\n"),
    "sizes that are none": Attack(asked("POST /v1/pairs", _LINES, _CHUNKED) + _CHUNK + b"size\r\n", then=b"x"),
    "a body larger than any": Attack(asked("POST /v1/pairs", _LINES, length=1 << 62)),
    "two lengths": Attack(asked("POST /v1/align", "Content-Length: 3", _JSON, body=b"{} {}")),
    "a length and chunks": Attack(asked("POST /v1/align", _CHUNKED, _JSON, body=b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n")),
    "a negative length": Attack(asked("POST /v1/align", _JSON, "Content-Length: -1")),
    "many requests in one": Attack(asked("GET /healthz") * 500, 60),
    "answers that nobody reads": Attack(asked("GET /openapi.json") * 100, 60),
    "answers read a byte at a time": Attack(asked("GET /openapi.json") * 20, 60, reads=1),
    "pairs in one after the other": Attack(asked("POST /v1/pairs", _LINES, body=_LINE) * 20, 60),
    "halves of heads": Attack(b"GET /healthz HTTP/1.1\r\nHost:", half=True),
    "halves of bodies": Attack(asked("POST /v1/pairs", _LINES, length=900) + _LINE, half=True),
    "halves that wait for answers": Attack(asked("GET /v1/status"), half=True),
    "thousands that leave at once": Attack(connections=2_000, resets=True),
    "thousands that ask and leave at once": Attack(asked("GET /v1/rules"), 2_000, resets=True),
    "thousands that ask and stay": Attack(asked("GET /healthz"), 1_500),
    "upgrades": Attack(
        asked("GET /v1/events", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    ),
    "upgrades of HTTP": Attack(asked("GET /", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c") + b"x" * 200),
    "HTTP/2": Attack(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(300)),
    "HTTP/1.0": Attack(asked("GET /healthz", "Connection: keep-alive", version="1.0"), then=b"GET / HTTP/1.0\r\n\r\n"),
    "HTTP/0.9": Attack(b"GET /\r\n"),
    "encrypted": Attack(_HELLO, then=_HELLO),
    "bytes of any kind": Attack(bytes(range(256)) * 40, then=bytes(range(256))),
    "bodies announced and asked for": Attack(asked("POST /v1/pairs", _LINES, "Expect: 100-continue", length=900)),
    "bodies of those who only ask": Attack(asked("GET /v1/status", length=900)),
    "streams that nobody reads": Attack(asked("GET /v1/events?after=0", _STREAM), 60),
    "streams with bodies": Attack(asked("GET /v1/events", _STREAM, length=900), 60),
    "streams that leave at once": Attack(asked("GET /v1/events", _STREAM), 300, resets=True),
    "deep JSON": Attack(asked("POST /v1/align", _JSON, body=b"[" * 200_000), 40),
    "long numbers": Attack(asked("POST /v1/align", _JSON, body=b'{"pairs": ' + b"9" * 300_000 + b"}"), 40),
    "forms of a megabyte": Attack(asked("POST /enter", _FORM, body=b"token=" + b"x" * (1 << 20)), 40),
    "forms of many fields": Attack(asked("POST /enter", _FORM, body=b"a=b&" * 16_000), 40),
    "one key for all": Attack(asked("POST /v1/pairs", _LINES, "Idempotency-Key: same", length=900) + _LINE, then=b" "),
    "a line without an end": Attack(
        asked("POST /v1/pairs", _LINES, length=1 << 33), 8, then=b"x" * (1 << 20), pause=0.02
    ),
    "bodies said to be packed": Attack(asked("POST /v1/pairs", _LINES, "Content-Encoding: gzip", body=bytes(5_000))),
    "methods that there are not": Attack(asked("TRACE /v1/status") + asked("BREW /coffee") + asked("OPTIONS *")),
    "addresses of any kind": Attack(asked("GET //../%00%ff%2e%2e/?%zz=%") + asked("GET http://x/%E2%28%A1")),
    "more than was announced": Attack(asked("POST /v1/align", _JSON, body=b"{}") + b"x" * 5_000, then=b"x"),
    "metrics all the time": Attack(asked("GET /metrics") * 10, 60),
}
"""Other attacks."""


def all_attacks() -> Iterator[tuple[str, Attack]]:
    """Yield all attacks, successful ones first."""
    yield from NAMED.items()
    yield from OTHERS.items()
