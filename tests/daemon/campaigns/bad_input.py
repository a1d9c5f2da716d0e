"""Feeders of invalid files, lines, requests and connections. They count the expected rejections."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, cycle
from typing import Any

import httpx2
from tests.daemon.campaigns.daemon import NO_TIMEOUT, Daemon, PairStream, wait_until
from tests.daemon.untrusted.files_attacks import EITHER, INGESTED, MOVED_ASIDE, attack_path, attacks
from tests.daemon.untrusted.requests_attacks import all_attacks

from hierogram.daemon.files import printable
from hierogram.daemon.text.rejections import (
    EMPTY_LINE,
    EMPTY_SIDE,
    FIELD_COUNT,
    INVALID_UTF8,
    LINE_TOO_LONG,
    LINK_OUT_OF_RANGE,
    MALFORMED_JSON,
    MALFORMED_LINK,
    MISSING_FIELD,
    NUL_BYTE,
    TOO_LONG,
    WRONG_TYPE,
)

REPEATED_BYTES = 4 << 20
"""Maximum size of a file that is sent more than once."""
CONNECTIONS = 20
"""Maximum number of connections of an attack. Leaves connections for other clients."""

BAD_LINES = {
    EMPTY_LINE: b"",
    EMPTY_SIDE: b"la maison ||| ||| 0-0",
    FIELD_COUNT: b"a ||| b ||| 0-0 ||| c",
    MALFORMED_LINK: b"a ||| b ||| one-two",
    LINK_OUT_OF_RANGE: b"a ||| b ||| 0-7",
    NUL_BYTE: b"a\0b ||| c ||| 0-0",
    INVALID_UTF8: b"caf\xe9 ||| coffee ||| 0-0",
    TOO_LONG: b"a " * 300 + b"||| b ||| 0-0",
    LINE_TOO_LONG: b"a" * (1 << 20) + b" ||| b ||| 0-0",
}
"""Rejected lines by reason."""

BAD_OBJECTS = {
    MALFORMED_JSON: b'{"source": "a", "target"',
    MISSING_FIELD: b'{"source": "a"}',
    WRONG_TYPE: b'{"source": 1, "target": "b"}',
    EMPTY_SIDE: b'{"source": " ", "target": "b"}',
    LINK_OUT_OF_RANGE: b'{"source": "a", "target": "b", "alignment": "3-0"}',
    MALFORMED_LINK: b'{"source": "a", "target": "b", "alignment": "0:0"}',
}
"""Rejected JSON lines by reason."""


@dataclass
class FileFeeder:
    """Feeder that spools all kinds of untrusted files and checks the folder that each is moved to."""

    stream: PairStream
    failed: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    ingested: int = 0

    def __post_init__(self) -> None:
        kinds = list(attacks())
        self._attacks = chain(((attack, True) for attack in kinds), ((attack, False) for attack in cycle(kinds)))

    def feed(self, daemon: Daemon, number: int) -> None:
        attack, is_first = next(self._attacks)
        path = attack_path(daemon.spool, attack.name)
        part = path.parent / f".attack-{number}"
        part.parent.mkdir(parents=True, exist_ok=True)
        attack.make(part)
        if not is_first and part.lstat().st_size > REPEATED_BYTES:
            part.unlink()
            return
        part.rename(path)
        wait_until(lambda: not os.path.lexists(path), f"{path!r} is moved", seconds=NO_TIMEOUT)
        destinations = {
            fate: attack_path(daemon.spool / folder, attack.name)
            for fate, folder in ((INGESTED, "done"), (MOVED_ASIDE, "failed"))
        }
        [fate] = [fate for fate, moved in destinations.items() if os.path.lexists(moved)]
        moved = destinations[fate]
        if attack.fate not in (fate, EITHER):
            self.unexpected.append(f"{attack.name!r}: {fate}")
        moved.unlink()
        if fate == INGESTED:
            self.ingested += 1
            return
        [reason] = moved.parent.glob("*.reason")
        assert reason.read_text().strip()
        reason.unlink()
        self.failed.append(printable(moved.name))
        self._wait_for_reports(daemon)

    def _wait_for_reports(self, daemon: Daemon) -> None:
        """Wait until the metric and the page show the number of failed files."""
        total = len(self.failed)
        sample = 'hierogram_spool_inputs_total{outcome="failed"}'
        wait_until(lambda: metric(daemon, sample) == total, f"{self.failed[-1]} is counted")
        text = f"{total:,} in total, in the folder <code>failed/</code>"
        wait_until(lambda: text in page(daemon), f"{self.failed[-1]} is on the page")


@dataclass
class LineFeeder:
    """Feeder that spools files with some invalid lines, which the daemon must reject."""

    stream: PairStream
    rejected: Counter[str] = field(default_factory=Counter)

    def feed(self, daemon: Daemon, number: int) -> None:
        lines = [line.encode() for line in self.stream.lines(20)]
        reasons = self.stream.random.sample(sorted(BAD_LINES), self.stream.random.randint(1, len(BAD_LINES)))
        # The first line determines the format.
        content = [*lines[:1], *(BAD_LINES[reason] for reason in reasons), *lines[1:]]
        name = f"{self.stream.name}-{number}.pipes"
        part = daemon.spool / f"{name}.part"
        part.write_bytes(b"".join(line + b"\n" for line in content))
        part.rename(daemon.spool / name)
        wait_until((daemon.spool / "done" / name).exists, f"{name} is done", seconds=NO_TIMEOUT)
        self.rejected.update(reasons)


@dataclass
class RequestFeeder:
    """Feeder that posts pairs with some invalid lines, then a request that the daemon must refuse."""

    stream: PairStream
    rejected: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._refused = cycle(refused_requests())

    def feed(self, daemon: Daemon, number: int) -> None:
        sides = [line.split(" ||| ") for line in self.stream.lines(20)]
        lines = [json.dumps({"source": a, "target": b, "alignment": c}).encode() for a, b, c in sides]
        reasons = self.stream.random.sample(sorted(BAD_OBJECTS), self.stream.random.randint(1, len(BAD_OBJECTS)))
        body = b"".join(line + b"\n" for line in (*lines, *(BAD_OBJECTS[reason] for reason in reasons)))
        key = f"{self.stream.name}-{number}"
        answer = self._send(daemon, ("POST", "/v1/pairs", json_lines_request(body, key), ()))
        counts = answer.json()
        assert (counts["accepted"], counts["duplicates"], counts["rejected"]) == (len(lines), 0, len(reasons)), counts
        assert counts["reasons"] == dict.fromkeys(reasons, 1)
        self.rejected.update(reasons)
        method, path, _, expected = request = next(self._refused)
        if path == "/v1/pairs?again":
            request = method, "/v1/pairs", json_lines_request(b"{}\n", key), expected
        refusal = self._send(daemon, request)
        assert refusal.status_code in expected, (method, path, refusal.status_code, refusal.text[:200])
        assert refusal.headers["content-type"] == "application/problem+json", (path, refusal.headers)
        assert refusal.json()["detail"] or refusal.json()["title"], path
        self.statuses[refusal.status_code] += 1

    def _send(self, daemon: Daemon, request: tuple[str, str, dict[str, Any], tuple[int, ...]]) -> httpx2.Response:
        """Send a request, and retry while an attack holds all connections."""
        method, path, keywords, expected = request
        return daemon.request(method, path, retried={409, 429, 503} - {*expected}, **keywords)


def json_lines_request(body: bytes, key: str | None = None, **headers: str) -> dict[str, object]:
    """Return the keywords of a request with JSON lines. `key` is its idempotency key."""
    all_headers = {"Content-Type": "application/jsonl", **headers} | ({"Idempotency-Key": key} if key else {})
    return {"content": body, "headers": all_headers}


def refused_requests() -> Iterator[tuple[str, str, dict[str, Any], tuple[int, ...]]]:
    """Yield requests that must be refused, with their expected statuses."""
    pair = b'{"source": "refused", "target": "refused"}\n'
    plain: dict[str, object] = {"content": b"{", "headers": {"Content-Type": "application/json"}}
    yield "POST", "/v1/pairs", json_lines_request(b""), (422,)
    yield "POST", "/v1/pairs", json_lines_request(b"[" + pair.strip() + b"]"), (422,)
    yield "POST", "/v1/pairs", json_lines_request(b"\x1f\x8b" + pair), (422,)
    yield "POST", "/v1/pairs", json_lines_request(pair, **{"Content-Encoding": "gzip"}), (415,)
    yield "POST", "/v1/pairs", {"content": pair, "headers": {"Content-Type": "text/plain"}}, (415,)
    yield "POST", "/v1/pairs?corpus=a&corpus=b", json_lines_request(pair), (400,)
    yield "POST", "/v1/pairs?unknown=1", json_lines_request(pair), (400,)
    yield "POST", "/v1/pairs?languages=french", json_lines_request(pair), (422,)
    yield "POST", "/v1/pairs", json_lines_request(pair, "k" * 5_000), (422,)
    yield "POST", "/v1/pairs?again", {}, (422,)
    yield "POST", "/v1/translate", plain, (422,)
    yield "POST", "/v1/translate?best=1000", {"json": {"sentences": ["a"]}}, (422,)
    yield "POST", "/v1/translate", {"json": {"sentences": ["a"] * 101}}, (422,)
    yield "POST", "/v1/translate", {"json": {"sentences": "a"}}, (422,)
    yield "POST", "/v1/align", {"json": {"pairs": [{"source": "a"}]}}, (422,)
    yield "GET", "/v1/events?after=soon", {}, (422,)
    yield "GET", "/v1/rules?limit=-1", {}, (422,)
    yield "GET", "/v1/pairs/99999999999999999999", {}, (404, 422)
    yield "GET", "/v1/pairs/-1", {}, (404, 422)
    yield "DELETE", "/v1/pairs/987654321", {}, (404,)
    yield "PUT", "/v1/pairs/1/links", {"json": {"fixed": [[900, 900]]}}, (404, 409)
    yield "GET", "/v1/nothing", {}, (404,)
    yield "PATCH", "/v1/pairs", {}, (405,)
    yield "GET", "/v1/status", {"headers": {"Host": "grammar.example.org"}}, (400, 403, 421)


@dataclass
class ConnectionFeeder:
    """Feeder that runs attacks over HTTP with up to `CONNECTIONS` connections."""

    stream: PairStream
    attacks: int = 0

    def __post_init__(self) -> None:
        self._attacks = cycle(all_attacks())

    def feed(self, daemon: Daemon, number: int) -> None:
        _, attack = next(self._attacks)
        replace(attack, connections=min(attack.connections, CONNECTIONS)).run(daemon.port, daemon.check)
        self.attacks += 1


def metric(daemon: Daemon, sample: str) -> float | None:
    """Return the value of a sample of `/metrics`, given with its labels, or None if it does not exist."""
    text = wait_for_page(daemon, "/metrics")
    return next((float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(sample + " ")), None)


def page(daemon: Daemon) -> str:
    return wait_for_page(daemon, "/now")


def wait_for_page(daemon: Daemon, path: str) -> str:
    """Return the text of a page, and retry while an attack holds all connections."""

    def answered() -> httpx2.Response | None:
        daemon.check()
        answer = daemon.get(path)
        return answer if answer is not None and answer.status_code == 200 else None

    text: str = wait_until(answered, f"{path} is answered").text
    return text
