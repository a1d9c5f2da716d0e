"""Nearly valid inputs: lines, files and requests with random changes."""

import gzip
import json
from collections.abc import Callable
from random import Random

import zstandard
from tests.daemon.conftest import LINES

_BYTES = (
    b"\0", b"\r", b"\t", b"\x0b", b"\x1c", b"\x85", b"\xa0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
    b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xc2\xa0", b" ", b"  ", b"|||", b" ||| ", b"-", b"0", b"9999999999", b"-1-0",
    b"\\", b'"', b"\\u0000", b"\\ud800", b"\\n", b"{", b"}", b"[", b"]", b",", b":", b"null", b"1e999", b"NaN",
    b"[X,1]", b"'; DROP TABLE rules; --", b"<b>&amp;", b"%s%n", "世界".encode(), "e\u0301".encode(), b"\n",
)  # fmt: skip

_VALUES: tuple[object, ...] = (
    None, True, 0, -1, 1.5, 10**400, "", " ", "a", "a\nb", "a\0b", "\ud800", [], [[0, 0]], [[0]], [[0, 0, 0]],
    [[0, -1]], [["0", "0"]], [[0, 10**30]], [[[[]]]], {}, {"a": 1}, "0-0", "0-0 0-0", "0-0 7-7", "0:0", "x" * 1_100,
    "w " * 250,
)  # fmt: skip


def good_line(random: Random) -> bytes:
    """Return a valid delimited line."""
    return random.choice(LINES).replace("maison", f"maison{random.randrange(300)}").encode()


def good_object(random: Random) -> bytes:
    """Return a pair as a line of JSON. In about 30 % of the lines, one member has a random value, often invalid."""
    source, target, alignment = good_line(random).decode().split(" ||| ")
    links: object = alignment
    if random.random() < 0.3:
        links = [[int(position) for position in link.split("-")] for link in alignment.split()]
    value: dict[str, object] = {"source": source, "target": target, "alignment": links}
    if random.random() < 0.2:
        value["id"] = random.choice((random.randrange(200), f"id-{random.randrange(200)}"))
    if random.random() < 0.3:
        value[random.choice(("source", "target", "alignment", "id", "more"))] = random.choice(_VALUES)
    return json.dumps(value, ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")


def mutated(data: bytes, random: Random) -> bytes:
    """Return the data with up to five changes: bytes inserted, deleted, replaced, repeated, cut off or moved."""
    for _ in range(random.choice((0, 0, 1, 1, 1, 2, 5))):
        place = random.randrange(len(data) + 1)
        end = place + random.randrange(8)
        match random.randrange(6):
            case 0:
                data = data[:place] + random.choice(_BYTES) + data[place:]
            case 1:
                data = data[:place] + data[end:]
            case 2:
                data = data[:place] + bytes(random.randrange(256) for _ in range(end - place)) + data[end:]
            case 3:
                data = data[:place] + data[place:end] * random.choice((2, 3, 40)) + data[end:]
            case 4:
                data = data[:place]
            case _:
                other = random.randrange(len(data) + 1)
                data = data[min(place, other) :] + data[: min(place, other)]
    return data


def mutated_lines(make: Callable[[Random], bytes], number: int, random: Random) -> bytes:
    """Return `number` lines or more, as a change may insert a line feed."""
    return b"".join(
        mutated(make(random), random) + random.choice((b"\n", b"\n", b"\n", b"\r\n")) for _ in range(number)
    )


def lines_in(data: bytes) -> int:
    """Count line feeds, plus one if data remain after the last."""
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


def compressed(data: bytes, random: Random) -> bytes:
    """Return the data unchanged, or compressed and possibly damaged."""
    match random.randrange(4):
        case 0:
            return gzip.compress(data)
        case 1:
            return zstandard.compress(data)
        case 2:
            return mutated(gzip.compress(data), random)
        case _:
            return data


REQUEST = (
    b"POST /v1/pairs?corpus=a HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/jsonl\r\n"
    b"Idempotency-Key: k\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
)
REQUESTS = (
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    b"GET /v1/rules?source=a&limit=3&cursor=abc HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
    b"GET /v1/rules?containing=maison&containing=the HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\n\r\n",
    b"GET /v1/pairs/1/derivation HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nConnection: close\r\n\r\n",
    b"DELETE /v1/pairs/77777 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    b"POST /v1/pairs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/jsonl\r\nTransfer-Encoding: chunked\r\n"
    b'Connection: close\r\n\r\n12\r\n{"source": "a", "t\r\n16\r\narget":"b","alignment"\r\n8\r\n:"0-0"}\n\r\n0\r\n\r\n',
)


def request(random: Random) -> bytes:
    """Return a random request with random changes, which may truncate it or make its Content-Length wrong."""
    if random.random() < 0.3:
        body = mutated_lines(good_object, random.randrange(4), random)
        return mutated(REQUEST % (len(body) + random.choice((0, 0, 0, -1, 1, 5))), random) + body
    return mutated(random.choice(REQUESTS), random)
