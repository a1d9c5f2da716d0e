"""SQL queries from clients run in a child process with read-only access and limits on time, memory and results."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest
from tests.conftest import create_sql_role
from tests.processes import is_running
from tests.storage.building import commit, delta, query

from hierogram.storage.browsing import sql_runner
from hierogram.storage.browsing.sql_runner import SpooledResult, SqlRunner
from hierogram.storage.database import untrusted_sql
from hierogram.storage.exceptions import QueryError, SlowQueryError, StoreUnavailableError
from hierogram.storage.store import Store

ENDLESS = "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a)"
WRITES = [
    "DELETE FROM rules",
    "UPDATE rules SET count = 0",
    "INSERT INTO corpora (name, pairs, created_at) VALUES ('x', 0, '2026-01-01')",
    "CREATE TABLE mine (a integer)",
    "DROP TABLE rules",
    "SELECT 1; DELETE FROM rules",
    "SELECT 1) AS result(c0); COMMIT; DELETE FROM rules; --",
    "COMMIT",
    "ROLLBACK; DELETE FROM rules",
    "WITH gone AS (DELETE FROM rules RETURNING id) SELECT * FROM gone",
    "PRAGMA query_only = OFF",
    "PRAGMA hard_heap_limit = 0",
    "PRAGMA journal_mode = DELETE",
    "ATTACH 'other.db' AS other",
    "VACUUM INTO 'other.db'",
    "SELECT load_extension('other.so')",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SELECT nextval('corpora_id_seq')",
    "SET TRANSACTION READ WRITE",
    "COPY rules TO '/tmp/hierogram-rules'",
    "DO $$ BEGIN DELETE FROM rules; END $$",
    "EXPLAIN ANALYZE DELETE FROM rules",
    "SELECT * FROM rules FOR UPDATE",
    "SELECT * INTO mine FROM rules",
    "LISTEN all_that_happens",
    "SELECT pg_notify('somebody', 'something')",
    "SELECT lo_create(0)",
    "SELECT query_to_xml('DELETE FROM rules', true, true, '')",
]


@pytest.fixture
def runner(store: Store, store_url: str) -> Iterator[SqlRunner]:
    commit(store, [], [delta("la maison", "the house", 4, 8), delta("ne [X,1] pas", "not [X,1]", 2)])
    with closing(SqlRunner(store_url, create_sql_role(store_url))) as made:
        yield made


def on_sqlite(url: str) -> bool:
    return url.startswith("sqlite")


def plain(answer: SpooledResult) -> tuple[list[str], list[list[object]], bool, int]:
    with answer.file:
        return answer.columns, [list(row) for row in answer.rows], answer.more, answer.truncated


@pytest.mark.slow
def test_writes_are_refused_by_the_database(runner: SqlRunner, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # With Postgres a child process takes a quarter of a second to start, so only the first query runs in one. The other
    # queries run in the test process.
    within = [] if on_sqlite(store_url) else WRITES[1:]
    for statement in WRITES if on_sqlite(store_url) else WRITES[:1]:
        with pytest.raises(QueryError, match=r"only SELECT|database error"):
            runner.query(statement, 5.0, 10)
    monkeypatch.setattr(untrusted_sql, "_limit_process", lambda _seconds: None)
    for statement in within:
        connection = runner._connect, runner._settings
        with pytest.raises(QueryError, match=r"only SELECT|database error"):
            list(untrusted_sql.run_query(lambda: None, None, *connection, statement, 5.0, 10, 100, own_role=False))
    assert query(store_url, "SELECT count(*), sum(count) FROM rules") == [(2, 6)]


@pytest.mark.slow
def test_a_slow_query_is_canceled(runner: SqlRunner) -> None:
    for statement in (f"{ENDLESS} SELECT count(*) FROM a", f"{ENDLESS} SELECT * FROM a WHERE n < 0"):
        began = time.monotonic()
        with pytest.raises(SlowQueryError, match=r"canceled after 0\.3 s"):
            runner.query(statement, 0.3, 10)
        assert time.monotonic() - began < 30
    assert plain(runner.query("SELECT 1 AS one", 5.0, 10)) == (["one"], [[1]], False, 0)


@pytest.mark.parametrize(
    ("sqlite", "postgres"),
    [
        (f"{ENDLESS} SELECT sum(length(randomblob(8000000))) FROM a", "SELECT pg_sleep(60)"),
        (
            "SELECT instr(zeroblob(8000000), zeroblob(4000000) || x'01')",
            "SELECT count(*) FROM generate_series(1, 100000000000) g",
        ),
    ],
)  # fmt: skip
def test_one_step_of_the_database_cannot_exceed_the_time_limit(
    runner: SqlRunner, store_url: str, sqlite: str, postgres: str
) -> None:
    began = time.monotonic()
    with pytest.raises(SlowQueryError):
        runner.query(sqlite if on_sqlite(store_url) else postgres, 0.5, 10)
    assert time.monotonic() - began < 20


@pytest.mark.slow
def test_a_query_beyond_the_memory_limit_is_refused_and_a_large_result_is_cut(
    runner: SqlRunner, store_url: str
) -> None:
    if on_sqlite(store_url):
        columns = ", ".join(f"randomblob(8000000) AS c{n}" for n in range(100))
        with pytest.raises(QueryError, match="the query exceeds its memory limit: select fewer"):
            runner.query(f"SELECT {columns}", 20.0, 10)
    columns, rows, more, cut = plain(
        runner.query(
            f"{ENDLESS} SELECT hex(zeroblob(22500)) FROM a"
            if on_sqlite(store_url)
            else "SELECT repeat('a', 45000) FROM generate_series(1, 20000)",
            60.0, 100_000, 10_000_000,
        )
    )  # fmt: skip
    assert more
    assert len(columns) == 1
    # The rows fit the maximum size of a result. If they reach it, cut values are not counted.
    assert 1_500 < len(rows) <= sql_runner.MAX_BYTES // 10_000
    assert cut in (0, len(rows))


@pytest.mark.slow
def test_a_query_result_has_columns_rows_and_a_truncation_flag(runner: SqlRunner) -> None:
    question = " SELECT source, count, count * 0.5 AS half, NULL AS no FROM rules ORDER BY id -- so ;"
    assert plain(runner.query(question, 5, 10)) == (
        ["source", "count", "half", "no"],
        [["la maison", 4, 2.0, None], ["ne [X,1] pas", 2, 1.0, None]],
        False, 0,
    )  # fmt: skip
    assert plain(runner.query("SELECT id FROM rules ORDER BY id", 5, 1))[1:3] == ([[1]], True)
    assert plain(runner.query("SELECT source AS a, target AS a FROM rules WHERE source LIKE 'la%'", 5, 1))[:2] == (
        ["a", "a"], [["la maison", "the house"]],
    )  # fmt: skip
    # Two rows have six values. With a limit of four values, the second row is omitted.
    assert plain(runner.query("SELECT id, id, id FROM rules", 5, 10, 4))[2]


def test_values_of_every_kind_are_returned(runner: SqlRunner, store_url: str) -> None:
    if on_sqlite(store_url):
        asked = "9223372036854775807, -1.5, 9e999, 'é\u2028😀', x'00ff', NULL, ''"
        found = [9223372036854775807, -1.5, "inf", "é\u2028😀", "\\x00ff", None, ""]
    else:
        asked = (
            "9223372036854775807, -1.5, CAST('inf' AS float8), 'é\u2028😀', CAST('\\x00ff' AS bytea), NULL, '', true,"
            " CAST(10 AS numeric) ^ 30, CAST('NaN' AS numeric), DATE '2024-05-01', TIMESTAMP '2024-05-01 10:00',"
            " TIMESTAMPTZ '2024-05-01 10:00+02', ARRAY[1, 2], CAST('{\"a\": 1}' AS json), INTERVAL '1 day'"
        )
        found = [
            9223372036854775807, -1.5, "inf", "é\u2028😀", "\\x00ff", None, "", True, 10**30, "nan", "2024-05-01",
            "2024-05-01 10:00:00", "2024-05-01 08:00:00+00:00", "{1,2}", '{"a": 1}', "1 day",
        ]  # fmt: skip
    assert plain(runner.query(f"SELECT {asked}", 5, 1))[1] == [found]


def test_long_values_are_cut_and_counted(runner: SqlRunner, store_url: str) -> None:
    sqlite = on_sqlite(store_url)
    [[text, blob]] = (answer := plain(runner.query(
        "SELECT hex(zeroblob(20000)), zeroblob(20000)" if sqlite
        else "SELECT repeat('00', 20000), CAST(repeat('a', 20000) AS bytea)", 5, 10,
    )))[1]  # fmt: skip
    assert text == "0" * untrusted_sql.MAX_VALUE_LENGTH + "…"
    assert (len(str(blob)), str(blob)[:2], str(blob)[-1]) == (untrusted_sql.MAX_VALUE_LENGTH + 1, "\\x", "…")
    assert answer[3] == 2
    if not sqlite:
        # The number has more digits than are converted to an integer.
        [[number]] = plain(runner.query("SELECT CAST(10 AS numeric) ^ 50000", 5, 10))[1]
        assert str(number) == "1" + "0" * (untrusted_sql.MAX_VALUE_LENGTH - 1) + "…"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("", "empty query"), (" ; ", "empty query"), ("SELEC", "database error"), ("x" * 10_001, "the limit is 10,000"),
        ("SELECT '\0'", "a NUL character"), ("SELECT absent FROM rules", r"absent.* \(SELECT \* FROM catalog lists"),
        ("SELECT * FROM grammar", r"grammar.* \(SELECT \* FROM catalog lists .*relations\.md"),
    ],
)  # fmt: skip
def test_invalid_queries_are_rejected(runner: SqlRunner, statement: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        runner.query(statement, 5.0, 10)


def open_descriptors() -> set[tuple[str, str]]:
    """Return the open descriptors of this process with their targets, except descriptors of `store.db` files."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        # The descriptor of the listing itself is already closed.
        with suppress(FileNotFoundError):
            found.add((name, os.readlink(f"/proc/self/fd/{name}")))
    # Omit the files of the store, which opens and closes them in the background to copy its log.
    return {(name, file) for name, file in found if "store.db" not in file}


@pytest.mark.slow
def test_queries_leave_no_process_or_descriptor(runner: SqlRunner) -> None:
    runner.query("SELECT 1", 5, 1).close()
    before = open_descriptors()
    for statement, error in (
        ("SELECT 1", None),
        ("SELEC", QueryError),
        (f"{ENDLESS} SELECT count(*) FROM a", SlowQueryError),
    ):
        for _ in range(3):
            if error is None:
                runner.query(statement, 0.2, 1).close()
            else:
                with pytest.raises(error):
                    runner.query(statement, 0.2, 1)
    # Descriptors of other code may have been closed in the meantime.
    assert len(open_descriptors()) <= len(before)
    runner.close()
    assert children(os.getpid()) == []


@pytest.mark.slow
def test_many_concurrent_queries_are_answered(runner: SqlRunner) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(lambda n: plain(runner.query(f"SELECT {n}", 30, 1))[1], range(8))
        assert list(answers) == [[[n]] for n in range(8)]


def test_failure_to_start_a_process_is_reported(runner: SqlRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    runner.close()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(StoreUnavailableError, match="cannot start a process"):
        runner.query("SELECT 1", 5, 1)


def test_a_killed_idle_process_is_replaced(runner: SqlRunner) -> None:
    for _ in range(2):
        assert plain(runner.query("SELECT 1", 30, 1))[1] == [[1]]
        for child in children(os.getpid()):
            if "untrusted_sql" in Path(f"/proc/{child}/cmdline").read_text():
                os.kill(child, signal.SIGKILL)


def test_the_child_process_has_a_memory_limit_and_no_secrets_in_its_environment(
    runner: SqlRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.close()
    monkeypatch.setenv("HIEROGRAM_HTTP__TOKEN", "what-nobody-may-see")
    child = runner._make_child()
    child.start()
    try:
        limits = Path(f"/proc/{child.pid}/limits")
        until = time.monotonic() + 30
        while f"{untrusted_sql.MEMORY_MB << 20}" not in limits.read_text():
            assert time.monotonic() < until
            time.sleep(0.02)
        assert "nobody-may-see" not in Path(f"/proc/{child.pid}/environ").read_text()
    finally:
        child.close()


@pytest.mark.slow
def test_queries_end_with_their_client(runner: SqlRunner, store_url: str) -> None:
    """If the client process is killed during a query, its child and its Postgres statement end."""
    slow = (
        f"{ENDLESS} SELECT sum(length(randomblob(8000000))) FROM a" if on_sqlite(store_url) else "SELECT pg_sleep(99)"
    )
    program = (
        "import sys; from hierogram.storage.browsing.sql_runner import SqlRunner;"
        " print(flush=True); SqlRunner(sys.argv[1], sys.argv[2] or None).query(sys.argv[3], 90, 1)"
    )
    arguments = [sys.executable, "-c", program, store_url, create_sql_role(store_url) or "", slow]
    parent = subprocess.Popen(arguments, stdout=subprocess.PIPE)
    try:
        until = time.monotonic() + 60
        while not (born := children(parent.pid)) or not busy(born[0], store_url):
            assert time.monotonic() < until
            time.sleep(0.05)
    finally:
        parent.kill()
        parent.communicate()
    until = time.monotonic() + 3
    while any(map(is_running, born)) or (not on_sqlite(store_url) and list_sessions(store_url)):
        assert time.monotonic() < until
        time.sleep(0.05)


def children(parent: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{parent}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return [child for child in found if "untrusted_sql" in Path(f"/proc/{child}/cmdline").read_text()]


def busy(process: int, store_url: str) -> bool:
    """Check if a child process is running its query: by its processor time on SQLite, by its session on Postgres."""
    if not on_sqlite(store_url):
        return bool(list_sessions(store_url))
    used = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11]
    return int(used) >= 40


def list_sessions(store_url: str) -> list[tuple[object, ...]]:
    active = "SELECT pid FROM pg_stat_activity WHERE usename = 'hierogram_sql' AND state = 'active'"
    return query(store_url, f"{active} AND query LIKE 'FETCH%'")


ATTACKS = [
    "SELECT count(pg_advisory_lock(g)) FROM generate_series(1, 1000000) g",
    "SELECT count(pg_advisory_xact_lock(g)) FROM generate_series(1, 1000000) g",
    "SELECT count(pg_try_advisory_lock_shared(1, g)) FROM generate_series(1, 1000000) g",
    "SELECT query_to_xml('SELECT pg_advisory_lock(1)', true, true, '')",
    "SELECT * FROM ts_stat('SELECT to_tsvector(pg_advisory_lock(1)::text)')",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity",
    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity",
    "SELECT set_config('statement_timeout', '0', false)",
    "SELECT set_config('work_mem', '20GB', false)",
    "SELECT set_config('role', 'postgres', false)",
    "SELECT pg_create_physical_replication_slot('theirs')",
    "SELECT pg_create_logical_replication_slot('theirs', 'pgoutput')",
    "SELECT pg_drop_replication_slot('ours')",
    "SELECT pg_logical_emit_message(false, 'a', repeat('b', 1000000))",
    "SELECT pg_export_snapshot()",
    "SELECT pg_notify('all', repeat('a', 7000))",
    "SELECT lo_from_bytea(0, 'a')",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_read_binary_file('PG_VERSION')",
    "SELECT pg_ls_dir('/')",
    "SELECT pg_stat_file('PG_VERSION')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT pg_reload_conf()",
    "SELECT pg_switch_wal()",
    "SELECT pg_stat_reset()",
    "SELECT pg_promote()",
    "SELECT * FROM pg_authid",
    "SELECT * FROM pg_shadow",
    "SELECT setval('corpora_id_seq', 1)",
]


@pytest.fixture
def role(store: Store, store_url: str) -> str:
    if on_sqlite(store_url):
        return ""
    return create_sql_role(store_url) or ""


@pytest.mark.database("postgres")
def test_the_documented_role_may_not_execute_dangerous_statements(role: str) -> None:
    """The role lacks the privileges, so the statements fail even outside a read-only transaction."""
    with psycopg.connect(role, autocommit=True, options="-c default_transaction_read_only=off") as connection:
        for statement in ATTACKS:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)


def test_the_documented_role_reads_the_whole_store(store: Store, store_url: str, role: str) -> None:
    tables = (
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%'"
        if on_sqlite(store_url)
        else "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    )
    with closing(SqlRunner(store_url, role or None)) as runner:
        names = query(store_url, tables)
        assert len(names) > 20
        runner.query(" UNION ALL ".join(f"SELECT count(*) FROM {name}" for (name,) in names), 60, 100).close()


def test_postgres_queries_require_a_separate_role(store: Store, store_url: str, role: str) -> None:
    if on_sqlite(store_url):
        assert SqlRunner(store_url, "postgresql://nobody@nowhere/x").refusal is None
        return
    runner = SqlRunner(store_url)
    assert runner.refusal == sql_runner._NO_SQL_URL
    with pytest.raises(QueryError, match="sql_url"):
        runner.query("SELECT 1", 5, 1)
    # The store's own role is a superuser here. Another role is refused while it may execute `pg_notify`.
    with closing(SqlRunner(store_url, store_url)) as own, pytest.raises(QueryError, match="is a superuser"):
        own.query("SELECT 1", 5, 1)
    with psycopg.connect(store_url, autocommit=True) as connection:
        connection.execute("GRANT EXECUTE ON FUNCTION pg_notify(text, text) TO hierogram_sql")
    try:
        with closing(SqlRunner(store_url, role)) as loose, pytest.raises(QueryError, match="may execute pg_notify"):
            loose.query("SELECT 1", 5, 1)
    finally:
        with psycopg.connect(store_url, autocommit=True) as connection:
            connection.execute("REVOKE EXECUTE ON FUNCTION pg_notify(text, text) FROM hierogram_sql")
    for wrong in ("postgresql://a:secret@[::1/x", "sqlite:///x.db"):
        refusal = SqlRunner(store_url, wrong).refusal
        assert refusal == sql_runner._WRONG_SQL_URL
    nowhere = SqlRunner(store_url, "postgresql://nobody:secret@127.0.0.1:9/x")
    with closing(nowhere), pytest.raises(QueryError) as raised:
        nowhere.query("SELECT 1", 5, 1)
    assert "secret" not in str(raised.value)


def test_the_script_lists_the_checked_functions() -> None:
    script = (Path(__file__).parents[3] / "packaging" / "postgres" / "sql_role.sql").read_text()
    assert f"'{untrusted_sql.FORBIDDEN_FUNCTIONS}'" in script
