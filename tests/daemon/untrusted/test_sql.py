"""Clients send arbitrary SQL queries to a daemon, which keeps sampling and answers within a second in little memory.

The daemon has 1,024 descriptors. `pytest -m campaign tests/daemon/untrusted` runs it on both databases.
"""

import os
import resource
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest
from tests.conftest import create_sql_role
from tests.daemon.campaigns.daemon import Daemon, assert_consistent, wait_until
from tests.storage.building import query

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(3_600)]

MAX_MEMORY_MB = 1_200
MAX_SECONDS = 1.0
SECONDS = 3.0
"""Time limit of a query."""
ROUND = 4
"""Concurrent queries: two are answered, the other clients are told to retry."""

_ALL = "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a) SELECT"
_COLUMNS = ", ".join(f"randomblob(8000000) AS c{n}" for n in range(100))
ON_SQLITE = [
    f"{_ALL} sum(length(randomblob(8000000))) FROM a",
    f"{_ALL} sum(instr(zeroblob(8000000), zeroblob(4000000) || x'01')) FROM a",
    f"SELECT {_COLUMNS}",
    f"SELECT {_COLUMNS} FROM rules, rules AS b",
    f"{_ALL} count(*) FROM a",
    f"{_ALL} hex(zeroblob(4000000)) FROM a",
    f"{_ALL} n FROM a",
    f"{_ALL} n, randomblob(5000) FROM a",
    f"{_ALL} group_concat(hex(randomblob(3000000))) FROM a",
    f"{_ALL} max(b) FROM (SELECT n, randomblob(100000) AS b FROM a ORDER BY b)",
    f"{_ALL} count(DISTINCT randomblob(100000)) FROM a",
    "WITH RECURSIVE a(b) AS (SELECT randomblob(100000) UNION SELECT randomblob(100000) FROM a) SELECT count(*) FROM a",
    "WITH RECURSIVE a(b) AS (SELECT 'x' UNION ALL SELECT b || b FROM a) SELECT length(b) FROM a",
    f"{_ALL} json_group_array(hex(randomblob(1000000))) FROM a",
    f"{_ALL} sum(length(printf('%.*c', 7999999, 'x'))) FROM a",
    f"{_ALL} sum(length(replace(hex(zeroblob(3000000)), '00', '0'))) FROM a",
    f"{_ALL} sum(hex(zeroblob(2000000)) LIKE '%0_0_0_0_1%') FROM a",
    f"{_ALL} sum(hex(zeroblob(20000)) GLOB '*0*0*0*0*0*[1-9]*') FROM a",
    "SELECT " + "+".join(["(SELECT count(*) FROM sqlite_master a, sqlite_master b, sqlite_master c)"] * 30),
    "SELECT count(*) FROM sqlite_master a, sqlite_master b, sqlite_master c, sqlite_master d, sqlite_master e",
    "SELECT " + "(" * 900 + "1" + ")" * 900,
    "SELECT " + ", ".join(str(n) for n in range(1_990)) + f" FROM ({_ALL} n FROM a)",
    f"{_ALL} sum(n) OVER (ORDER BY randomblob(100000)) FROM a",
    f"{_ALL} zeroblob(8000000) FROM a",
    "SELECT load_extension('/lib/x86_64-linux-gnu/libc.so.6')",
    "ATTACH '/etc/passwd' AS theirs",
    "PRAGMA hard_heap_limit = 0",
    "SELECT writefile('/tmp/hierogram-theirs', 'x')",
    "SELECT fts3_tokenizer('simple', x'4141414141414141')",
    "VACUUM INTO '/tmp/hierogram-theirs'",
    "SELECT CAST(x'ff' AS TEXT)",
]
ON_POSTGRES = [
    "SELECT count(pg_advisory_lock(g)) FROM generate_series(1, 1000000) g",
    "SELECT repeat('a', 45000) FROM generate_series(1, 20000)",
    "SELECT count(pg_advisory_xact_lock(g)) FROM generate_series(1, 1000000) g",
    "SELECT count(pg_try_advisory_lock_shared(1, g::int)) FROM generate_series(1, 1000000) g",
    "SELECT query_to_xml('SELECT count(pg_advisory_lock(g)) FROM generate_series(1, 1000000) g', true, true, '')",
    "SELECT * FROM ts_stat('SELECT to_tsvector(pg_advisory_lock(1)::text)')",
    "SELECT set_config('statement_timeout', '0', false), pg_sleep(1000)",
    "SELECT set_config('client_connection_check_interval', '0', false), pg_sleep(1000)",
    "SELECT set_config('work_mem', '20GB', false), count(DISTINCT g) FROM generate_series(1, 100000000) g",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity",
    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity",
    "SELECT pg_create_physical_replication_slot('theirs', true)",
    "SELECT pg_logical_emit_message(false, 'a', repeat('b', 1000000)) FROM generate_series(1, 100000)",
    "SELECT pg_notify('all', repeat('a', 7000)) FROM generate_series(1, 1000000)",
    "SELECT lo_create(g) FROM generate_series(1, 100000) g",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_export_snapshot()",
    "SELECT pg_sleep(1000)",
    "SELECT count(*) FROM generate_series(1, 1000000000000) g",
    "SELECT g FROM generate_series(1, 1000000000) g ORDER BY random()",
    "SELECT string_agg(md5(g::text), '') FROM generate_series(1, 1000000000) g",
    "SELECT " + ", ".join(f"repeat('x', 100000) AS c{n}" for n in range(400)) + " FROM generate_series(1, 100000)",
    "SELECT " + ", ".join(str(n) for n in range(1_600)) + " FROM generate_series(1, 100000000)",
    "SELECT CAST(10 AS numeric) ^ 100000 FROM generate_series(1, 100000)",
    "SELECT factorial(20000) FROM generate_series(1, 100000)",
    "SELECT regexp_replace(repeat('ab', 100000), '(a|ab|b)*c', '') FROM generate_series(1, 100000)",
    "SELECT count(*) FROM pg_class a, pg_class b, pg_class c, pg_class d",
    "SELECT * FROM rules FOR UPDATE",
    "SELECT 1; DELETE FROM rules",
    "DO $$ BEGIN LOOP END LOOP; END $$",
    "LOCK TABLE rules IN ACCESS EXCLUSIVE MODE",
    "SELECT * FROM pg_authid",
]


@contextmanager
def attacked_daemon(url: str, folder: Path) -> Iterator[Daemon]:
    """A daemon with few descriptors, on a store with pairs that are sampled forever."""
    role = {"HIEROGRAM_HTTP__SQL_URL": found} if (found := create_sql_role(url)) else {}
    daemon = Daemon(url, folder, HIEROGRAM_HTTP__SQL_SECONDS=f"{SECONDS:g}", **role)
    with daemon.limited(descriptors=1_024):
        yield daemon


def processes(parent: int) -> list[int]:
    """Return the process and all its descendants."""
    found = [parent]
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{parent}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += processes(int(child))
    return found


def memory_mb(parent: int) -> float:
    """Return the resident memory of the process and its descendants in MiB."""
    pages = 0
    for process in processes(parent):
        with suppress(FileNotFoundError, ProcessLookupError):
            pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def status(daemon: Daemon) -> tuple[float, int]:
    """Return the response time of the status in seconds, and the number of sweeps. Fails on an error status."""
    daemon.check()
    began = time.monotonic()
    answer = httpx2.get(daemon.address("/v1/status"), timeout=60)
    assert answer.status_code == 200, answer.text
    return time.monotonic() - began, answer.json()["store"]["sweeps"]


def ask(daemon: Daemon, question: str, form: str) -> int:
    """Send a query, retry after 503, check that the response is below 64 MiB, and return its status."""
    until = time.monotonic() + 300
    while True:
        with httpx2.stream("GET", daemon.address(f"/sql{form}"), params={"sql": question}, timeout=120) as answer:
            size = sum(len(piece) for piece in answer.iter_bytes())
        if answer.status_code != 503:
            assert size < 64 << 20
            return answer.status_code
        assert time.monotonic() < until
        time.sleep(0.1)


class Watch:
    """The daemon as seen by other clients during the attack: the slowest response and peak memory."""

    def __init__(self, daemon: Daemon) -> None:
        assert daemon.process is not None
        self.daemon = daemon
        self.process = daemon.process.pid
        self.memory = 0.0
        self.slowest = 0.0

    def until_done(self, asked: list["Future[int]"]) -> None:
        while not all(future.done() for future in asked):
            self.memory = max(self.memory, memory_mb(self.process))
            took, _ = status(self.daemon)
            self.slowest = max(self.slowest, took)
            assert took < MAX_SECONDS, f"status took {took:.2f} s"
            assert self.memory < MAX_MEMORY_MB
            time.sleep(0.02)


def attack(daemon: Daemon, questions: list[str]) -> dict[str, int]:
    """Send each query in one of three formats, check that the daemon keeps sampling, and return the statuses."""
    watch = Watch(daemon)
    found: dict[str, int] = {}
    _, before = status(daemon)
    with ThreadPoolExecutor(ROUND) as pool:
        for first in range(0, len(questions), ROUND):
            some = questions[first : first + ROUND]
            asked = [
                pool.submit(ask, daemon, question, ("", ".csv", ".json")[(first + n) % 3])
                for n, question in enumerate(some)
            ]
            watch.until_done(asked)
            found |= {question: future.result() for question, future in zip(some, asked, strict=True)}
    wait_until(lambda: status(daemon)[1] > before, "sampling goes on", seconds=60)
    left = [process for process in processes(watch.process) if "untrusted_sql" in command(process)]
    assert len(left) <= 1, "only the process that waits for the next query"
    print(f"slowest status response {watch.slowest:.2f} s, peak memory {watch.memory:.0f} MB")
    return found


def command(process: int) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process}/cmdline").read_text()
    return ""


def count_sessions(url: str, which: str) -> int:
    """Return the number of Postgres sessions for queries that satisfy the SQL condition `which`."""
    [(found,)] = query(url, f"SELECT count(*) FROM pg_stat_activity WHERE usename = 'hierogram_sql' AND {which}")
    return int(str(found))


def test_daemon_survives_arbitrary_queries(learned_url: str, tmp_path: Path) -> None:
    questions = ON_SQLITE if learned_url.startswith("sqlite") else ON_POSTGRES
    with attacked_daemon(learned_url, tmp_path) as daemon:
        found = attack(daemon, questions)
        assert set(found.values()) <= {200, 422, 503}, found
        assert ask(daemon, "SELECT count(*) FROM rules", ".json") == 200
        if not learned_url.startswith("sqlite"):
            held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
            assert query(learned_url, held) == [(0,)]
            assert query(learned_url, "SELECT count(*) FROM pg_replication_slots") == [(0,)]
            wait_until(
                lambda: count_sessions(learned_url, "state <> 'idle'") == 0, "the queries have ended", seconds=10
            )
        daemon.end()
    assert_consistent(learned_url)


def test_unread_answers_of_forty_clients_take_little_memory(learned_url: str, tmp_path: Path) -> None:
    much = (
        f"{_ALL} n, hex(zeroblob(2000)) FROM a"
        if learned_url.startswith("sqlite")
        else "SELECT g, repeat('ab', 2000) FROM generate_series(1, 100000) g"
    )
    with attacked_daemon(learned_url, tmp_path) as daemon, ThreadPoolExecutor(4) as pool:
        watch = Watch(daemon)
        opened: list[httpx2.Client] = []

        def open_one(number: int) -> int:
            client = httpx2.Client(timeout=300)
            opened.append(client)
            until = time.monotonic() + 600
            form = (".csv", ".json")[number % 2]
            while True:
                request = client.build_request("GET", daemon.address(f"/sql{form}"), params={"sql": much})
                answer = client.send(request, stream=True)
                if answer.status_code != 503:
                    return answer.status_code
                answer.close()
                assert time.monotonic() < until
                time.sleep(0.2)

        asked = [pool.submit(open_one, number) for number in range(40)]
        watch.until_done(asked)
        assert {future.result() for future in asked} <= {200, 422}
        print(f"slowest status response {watch.slowest:.2f} s, peak memory {watch.memory:.0f} MB")
        for client in opened:
            client.close()
        daemon.end()


def test_the_query_process_ends_if_the_daemon_is_killed(learned_url: str, tmp_path: Path) -> None:
    """HIEROGRAM_TEST_KILLS overrides the number of kills."""
    slow = ON_SQLITE[0] if learned_url.startswith("sqlite") else "SELECT pg_sleep(1000)"
    for _ in range(int(os.environ.get("HIEROGRAM_TEST_KILLS", "100"))):
        with attacked_daemon(learned_url, tmp_path) as daemon, ThreadPoolExecutor(2) as pool:
            assert daemon.process is not None
            parent = daemon.process.pid

            def endless() -> None:
                with suppress(httpx2.TransportError, AssertionError):
                    while True:
                        ask(daemon, slow, ".json")

            asked = [pool.submit(endless) for _ in range(2)]

            def answering(parent: int = parent) -> list[int]:
                return [process for process in processes(parent) if "untrusted_sql" in command(process)]

            born = wait_until(lambda: len(found := answering()) >= 2 and found, "queries run")
            daemon.kill()
            children = tuple(born)
            wait_until(lambda children=children: not any(map(command, children)), "its children end", seconds=3)
            for future in asked:
                future.result()
            if not learned_url.startswith("sqlite"):
                wait_until(lambda: count_sessions(learned_url, "true") == 0, "its queries end", seconds=5)
