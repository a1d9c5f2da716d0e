"""Nearly valid lines, files and requests do not crash the daemon, which counts their pairs and rejections."""

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from tests.daemon.conftest import QUICK
from tests.daemon.web.conftest import Connect, FakeService
from tests.daemon.web.mutation import compressed, good_line, good_object, lines_in, mutated_lines, request
from tests.daemon.web.running import HttpThread
from tests.storage.building import query

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.verifying import verify
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.lines import InputLimits
from hierogram.daemon.text.pair_files import PairFiles
from hierogram.daemon.text.validation import canonical_alignment, read_side
from hierogram.storage.records.pairs import IngestTotals
from hierogram.storage.store import Store, open_store

LINES = 2_000
FILES = 60
REQUESTS = 800


@pytest.fixture
def quick(store_url: str) -> Iterator[Store]:
    with open_store(store_url, create=True, settings=QUICK) as store:
        yield store


def assert_accounted_for(store: Store, url: str, totals: IngestTotals) -> None:
    """Check that the totals count all pairs and rejections, and that all pairs are valid and can be learned."""
    assert store.count_pairs() == totals.accepted
    assert store.status().rejected_lines == totals.rejected
    [kept] = query(url, "SELECT sum(last_line - line + 1) FROM rejected_lines")
    assert kept == (totals.rejected,)
    assert query(url, "SELECT count(*) FROM ingest_batches WHERE state = 'running'") == [(0,)]
    for row in store.pairs():
        sizes = []
        for text in (row.source, row.target):
            again, size = read_side(text.encode(), "stored", QUICK.max_tokens)
            assert again == text
            sizes.append(size)
        assert canonical_alignment(row.alignment.encode(), *sizes) == row.alignment
    learn(store, sweeps=0)
    assert verify(store).problems == []


@pytest.mark.slow
def test_mutated_bodies_are_answered_and_counted(quick: Store, store_url: str, connect: Connect) -> None:
    random = Random(1)
    limits = InputLimits(max_rejected_share=1.0)
    client = connect(FakeService(quick), limits=limits, max_rate=1e6, max_burst=1_000_000, max_lag=10**9)
    totals = IngestTotals()
    offered = 0
    reasons: Counter[str] = Counter()
    while offered < LINES:
        body = mutated_lines(good_object, random.choice((1, 10, 200, 2_500)), random)
        answer = client.post("/v1/pairs", content=body, headers={"Content-Type": "application/jsonl"})
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert found["lines"] == lines_in(body)
        assert sum(found["reasons"].values()) == found["rejected"]
        listed = sum(run["last_line"] - run["line"] + 1 for run in found["rejected_lines"])
        assert listed + found["more_rejected"] == found["rejected"]
        assert found["accepted"] + found["duplicates"] + found["rejected"] == found["lines"]
        totals += IngestTotals(found["accepted"], found["duplicates"], found["rejected"])
        reasons.update(found["reasons"])
        offered += found["lines"]
    assert totals.accepted > 200
    assert len(reasons) > 10
    assert_accounted_for(quick, store_url, totals)


@pytest.mark.slow
def test_mutated_files_are_stored_or_refused(quick: Store, store_url: str, tmp_path: Path) -> None:
    random = Random(2)
    totals = IngestTotals()
    refused = 0
    for number in range(FILES):
        make = random.choice((good_line, good_object))
        paths = []
        for part in range(random.choice((1, 1, 3))):
            path = tmp_path / f"{number}.{part}"
            path.write_bytes(compressed(mutated_lines(make, LINES // FILES, random), random))
            paths.append(str(path))
        before = (quick.count_pairs(), quick.status().rejected_lines)
        try:
            with PairFiles(paths) as source:
                found = ingest(quick, source).totals
        except InputError:
            refused += 1
            # Chunks before the damage are stored and counted.
            found = IngestTotals(quick.count_pairs() - before[0], 0, quick.status().rejected_lines - before[1])
        totals += found
    assert totals.accepted > 200
    assert refused > 4
    assert_accounted_for(quick, store_url, totals)


@pytest.mark.slow
def test_mutated_requests_cause_no_internal_error(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/fuzz.db", create=True, settings=QUICK) as store:
        running = HttpThread(FakeService(store), client_timeout=2.0, max_rate=1e6, max_burst=1_000_000)
        failures: list[bytes] = []
        statuses: Counter[bytes] = Counter()

        def ask(number: int) -> None:
            own = Random(number)
            for _ in range(number, REQUESTS, 8):
                sent = request(own)
                answer = _exchange(running, sent)
                status = answer[9:12]
                statuses[status] += 1
                if status.startswith(b"5") and status != b"503":
                    failures.append(sent + b"\n=> " + answer)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures[:3]
        assert statuses[b"200"] > REQUESTS // 50
        assert statuses[b"400"] > REQUESTS // 50
        assert b"200 OK" in _exchange(running, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        running.end()
        learn(store, sweeps=0)
        assert verify(store).problems == []


def _exchange(running: HttpThread, sent: bytes) -> bytes:
    """Return the server's answer to a client that sends this and nothing else."""
    received = b""
    with running.connected() as connection, suppress(OSError):
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        while block := connection.recv(65536):
            received += block
    return received
