"""Attacks over HTTP: connections that send data, hold it back, read slowly or are reset."""

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
    """Connections that all send the same data.

    Each sends `first`, then `then` every `pause` seconds. It reads nothing unless `reads` gives a number of bytes per
    read. `half` closes its side after the first data; `resets` resets each connection immediately.
    """

    first: bytes = b""
    connections: int = 120
    then: bytes = b""
    pause: float = 0.2
    reads: int = 0
    half: bool = False
    resets: bool = False

    def run(self, port: int, during: Callable[[], None]) -> None:
        """Open the connections. Reset them, or keep them open for `SECONDS`. Call `during` repeatedly."""
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
        # Each connection has its own client address, so that no rate limit applies.
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


def http_request(
    line: str,
    *headers: str,
    body: bytes = b"",
    length: int | None = None,
    host: str = "localhost",
    version: str = "1.1",
) -> bytes:
    """Return an HTTP request. `length` overrides its Content-Length."""
    size = len(body) if length is None else length
    length_header = [f"Content-Length: {size}"] if size else []
    return "\r\n".join([f"{line} HTTP/{version}", f"Host: {host}", *headers, *length_header, "", ""]).encode() + body


_JSON = "Content-Type: application/json"
_LINES = "Content-Type: application/jsonl"
_FORM = "Content-Type: application/x-www-form-urlencoded"
_CHUNKED = "Transfer-Encoding: chunked"
_STREAM = "Accept: text/event-stream"
_LINE = json.dumps({"source": "a", "target": "b", "alignment": "0-0"}).encode() + b"\n"
_CHUNK = b"%x\r\n%b\r\n" % (len(_LINE), _LINE)
_HELLO = bytes.fromhex("16030100f1010000ed0303") + bytes(range(128)) * 2

SUCCESSFUL = {
    "form body never sent": Attack(http_request("POST /login", _FORM, length=20), 99),
    "alignment body never sent": Attack(http_request("POST /v1/align", _JSON, length=90), 99),
    "translation body never sent": Attack(http_request("POST /v1/translate", _JSON, length=90), 99),
    "links body never sent": Attack(http_request("PUT /v1/pairs/1/links", _JSON, length=90), 99),
    "thousands of silent connections": Attack(connections=3_000),
    "many concurrent streams": Attack(http_request("GET /v1/events", _STREAM), 40),
    "requests for another host": Attack(http_request("GET /v1/status", host="evil.example.org") * 20, 60),
}
"""Attacks that have brought a daemon down."""

OTHERS = {
    "dripping request head": Attack(b"GET /healthz HTTP/1.1\r\nX: ", then=b"x"),
    "dripping headers": Attack(b"GET /healthz HTTP/1.1\r\n", then=b"X: y\r\n"),
    "empty lines": Attack(b"\r\n", then=b"\r\n"),
    "header of one megabyte": Attack(b"GET / HTTP/1.1\r\nX: " + b"x" * (1 << 20), 40),
    "ten thousand headers": Attack(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000 + b"\r\n", 40),
    "URL of one megabyte": Attack(b"GET /" + b"x" * (1 << 20) + b" HTTP/1.1\r\n\r\n", 40),
    "folded headers": Attack(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: y\r\n" + b" z\r\n" * 9_000),
    "dripping chunk extensions": Attack(http_request("POST /v1/pairs", _LINES, _CHUNKED), then=b"1\r\n \r\n"),
    "dripping chunks of pairs": Attack(http_request("POST /v1/pairs", _LINES, _CHUNKED), then=_CHUNK),
    "endless chunk": Attack(http_request("POST /v1/pairs", _LINES, _CHUNKED) + b"ffffffffffffffff\r\n", then=_LINE),
    "long chunk extension": Attack(http_request("POST /v1/align", _JSON, _CHUNKED) + b"1;" + b"x" * 60_000, then=b"x"),
    "dripping trailers": Attack(http_request("POST /v1/align", _JSON, _CHUNKED) + b"0\r\n", then=b"X: y\r\n"),
    "invalid chunk size": Attack(http_request("POST /v1/pairs", _LINES, _CHUNKED) + _CHUNK + b"size\r\n", then=b"x"),
    "huge Content-Length": Attack(http_request("POST /v1/pairs", _LINES, length=1 << 62)),
    "two Content-Length headers": Attack(http_request("POST /v1/align", "Content-Length: 3", _JSON, body=b"{} {}")),
    "Content-Length with chunks": Attack(
        http_request("POST /v1/align", _CHUNKED, _JSON, body=b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n")
    ),
    "negative Content-Length": Attack(http_request("POST /v1/align", _JSON, "Content-Length: -1")),
    "many pipelined requests": Attack(http_request("GET /healthz") * 500, 60),
    "unread responses": Attack(http_request("GET /openapi.json") * 100, 60),
    "responses read byte by byte": Attack(http_request("GET /openapi.json") * 20, 60, reads=1),
    "pipelined bodies of pairs": Attack(http_request("POST /v1/pairs", _LINES, body=_LINE) * 20, 60),
    "half-closed in the head": Attack(b"GET /healthz HTTP/1.1\r\nHost:", half=True),
    "half-closed in the body": Attack(http_request("POST /v1/pairs", _LINES, length=900) + _LINE, half=True),
    "half-closed after the request": Attack(http_request("GET /v1/status"), half=True),
    "thousands of immediate resets": Attack(connections=2_000, resets=True),
    "thousands of requests with immediate resets": Attack(http_request("GET /v1/rules"), 2_000, resets=True),
    "thousands of idle keep-alive connections": Attack(http_request("GET /healthz"), 1_500),
    "WebSocket upgrades": Attack(
        http_request("GET /v1/events", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    ),
    "HTTP/2 upgrades": Attack(
        http_request("GET /", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c") + b"x" * 200
    ),
    "HTTP/2": Attack(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(300)),
    "HTTP/1.0": Attack(
        http_request("GET /healthz", "Connection: keep-alive", version="1.0"), then=b"GET / HTTP/1.0\r\n\r\n"
    ),
    "HTTP/0.9": Attack(b"GET /\r\n"),
    "TLS handshake": Attack(_HELLO, then=_HELLO),
    "arbitrary bytes": Attack(bytes(range(256)) * 40, then=bytes(range(256))),
    "Expect: 100-continue without a body": Attack(
        http_request("POST /v1/pairs", _LINES, "Expect: 100-continue", length=900)
    ),
    "GET with a missing body": Attack(http_request("GET /v1/status", length=900)),
    "unread event streams": Attack(http_request("GET /v1/events?after=0", _STREAM), 60),
    "event streams with missing bodies": Attack(http_request("GET /v1/events", _STREAM, length=900), 60),
    "event streams with immediate resets": Attack(http_request("GET /v1/events", _STREAM), 300, resets=True),
    "deep JSON": Attack(http_request("POST /v1/align", _JSON, body=b"[" * 200_000), 40),
    "long numbers": Attack(http_request("POST /v1/align", _JSON, body=b'{"pairs": ' + b"9" * 300_000 + b"}"), 40),
    "form of one megabyte": Attack(http_request("POST /login", _FORM, body=b"token=" + b"x" * (1 << 20)), 40),
    "form of many fields": Attack(http_request("POST /login", _FORM, body=b"a=b&" * 16_000), 40),
    "one idempotency key for all": Attack(
        http_request("POST /v1/pairs", _LINES, "Idempotency-Key: same", length=900) + _LINE, then=b" "
    ),
    "endless line": Attack(
        http_request("POST /v1/pairs", _LINES, length=1 << 33), 8, then=b"x" * (1 << 20), pause=0.02
    ),
    "invalid gzip bodies": Attack(http_request("POST /v1/pairs", _LINES, "Content-Encoding: gzip", body=bytes(5_000))),
    "unknown methods": Attack(
        http_request("TRACE /v1/status") + http_request("BREW /coffee") + http_request("OPTIONS *")
    ),
    "malformed URLs": Attack(http_request("GET //../%00%ff%2e%2e/?%zz=%") + http_request("GET http://x/%E2%28%A1")),
    "more data than Content-Length": Attack(
        http_request("POST /v1/align", _JSON, body=b"{}") + b"x" * 5_000, then=b"x"
    ),
    "constant metrics requests": Attack(http_request("GET /metrics") * 10, 60),
}


def all_attacks() -> Iterator[tuple[str, Attack]]:
    """Yield all attacks, successful ones first."""
    yield from SUCCESSFUL.items()
    yield from OTHERS.items()
