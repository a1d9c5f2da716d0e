"""Postgres URLs: valid and invalid parameters, settings of transactions, and connections through a pooler."""

from collections.abc import Callable
from contextlib import closing
from urllib.parse import quote

import pytest
from sqlalchemy import make_url, text
from tests.conftest import create_sql_role
from tests.pgbouncer import CONNECTIONS
from tests.storage.building import commit, delta, integrity, query, read_counts
from tests.storage.database.writers import WRITERS, run_concurrently
from tests.storage.rows import rule_rows

from hierogram.storage.browsing.reader import Reader
from hierogram.storage.browsing.sql_runner import SqlRunner
from hierogram.storage.database.backup import postgres_commands
from hierogram.storage.database.connection import hide_password, make_engine, parse_url, reading, writing_connection
from hierogram.storage.database.postgres import connection_arguments, transaction_settings
from hierogram.storage.exceptions import StoreUrlError
from hierogram.storage.store import open_store

HOST = "postgresql://me@host/grammar"


@pytest.fixture
def database(one_database: str) -> str:
    """URL of an empty Postgres database."""
    query(one_database, 'DROP SCHEMA IF EXISTS public, news, "Other News" CASCADE')
    query(one_database, "CREATE SCHEMA public")
    return one_database


def with_parameters(url: str, **parameters: str) -> str:
    return make_url(url).update_query_dict(parameters).render_as_string(hide_password=False)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("sslmod=require", "unknown parameter 'sslmod'"),
        ("autocommit=1", "unknown parameter 'autocommit'"),
        ("cache_mb=64", "unknown parameter 'cache_mb'"),
        ("replication=database", "replication is not supported"),
        ("client_encoding=latin1", "client_encoding is always utf8"),
        ("connect_timeout=5&connect_timeout=6", "'connect_timeout' occurs 2 times"),
        ("prepare_threshold=often", "or 0 to prepare no statements, got 'often'"),
        ("prepare_threshold=-1", "must be the number of executions before a statement is prepared"),
        ("options=search_path", "must be settings such as -c search_path=news, got 'search_path'"),
        ("options=-c", "must be settings"),
        ("options=-c%20foo", "must be settings .* got '-c foo'"),
        ("options=-d%205", "must be settings .* got '-d'"),
        ("options=-ctimezone%3DEurope/Rome", "timezone is always UTC"),
        ("options=--TimeZone%3DEurope/Rome", "timezone is always UTC"),
    ],
)
def test_a_wrong_parameter_is_refused_in_one_line(query: str, message: str) -> None:
    with pytest.raises(StoreUrlError, match=message) as raised:
        parse_url(f"{HOST}?{query}")
    assert "\n" not in str(raised.value)


def test_an_unknown_parameter_of_an_sqlite_url_is_refused() -> None:
    with pytest.raises(StoreUrlError, match=r"unknown parameter 'mode'.*cache_mb"):
        parse_url("sqlite:///x.db?mode=ro")


@pytest.mark.parametrize(
    ("query", "threshold"),
    [("", None), ("prepare_threshold=0", None), ("prepare_threshold=None", None), ("prepare_threshold=5", 5)],
)
def test_statements_are_prepared_only_if_the_url_requests_it(query: str, threshold: int | None) -> None:
    assert connection_arguments(parse_url(f"{HOST}?{query}"))["prepare_threshold"] == threshold


def test_parameters_of_the_url_replace_the_defaults() -> None:
    defaults = connection_arguments(parse_url(HOST))
    assert (defaults["application_name"], defaults["connect_timeout"]) == ("hierogram", "30")
    given = connection_arguments(
        parse_url(f"{HOST}?application_name=mine&connect_timeout=3&sslmode=require&tcp_user_timeout=9")
    )
    assert given == defaults | {
        "application_name": "mine", "connect_timeout": "3", "sslmode": "require", "tcp_user_timeout": "9"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("", {}),
        ("-csearch_path=news", {"search_path": "news"}),
        ("-c search_path=news,public -c work_mem=64MB", {"search_path": "news,public", "work_mem": "64MB"}),
        ("--lock-timeout=5s  --jit=on", {"lock_timeout": "5s", "jit": "on"}),
        (r'-csearch_path="Other\ News"', {"search_path": '"Other News"'}),
        (r"-c my.setting=a\\b=c", {"my.setting": r"a\b=c"}),
    ],
)
def test_options_in_a_postgres_url_are_parsed_like_the_server_parses_them(options: str, found: dict[str, str]) -> None:
    own = {"timezone": "UTC", "jit": "off", "lock_timeout": "300s"}
    assert transaction_settings(parse_url(f"{HOST}?options={quote(options)}")) == own | found


def test_passwords_in_parameters_and_invalid_urls_are_not_shown() -> None:
    url = parse_url(f"{HOST}?password=secret&sslpassword=secret&sslmode=require")
    assert hide_password(url) == f"{HOST}?sslmode=require"
    with pytest.raises(StoreUrlError) as raised:
        parse_url("postgresqll://me:secret@host/grammar")
    assert "secret" not in str(raised.value)


def test_backup_commands_use_only_parameters_of_libpq() -> None:
    assert "prepare" not in "".join(postgres_commands(f"{HOST}?prepare_threshold=5&sslmode=require", "x"))


@pytest.mark.parametrize("schema", ["news", '"Other News"'])
@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "pooled"])
def test_each_search_path_has_a_separate_store(
    database: str, pooler: Callable[[str], str], schema: str, pooled: bool
) -> None:
    query(database, f"CREATE SCHEMA {schema}")
    options = f"-csearch_path={schema}".replace(" ", "\\ ")
    plain = pooler(database) if pooled else database
    other = with_parameters(plain, options=options)
    for url, rules in ((plain, 1), (other, 2)):
        with open_store(url, create=True) as store:
            commit(store, [], [delta(f"word {n}", "rule", 1) for n in range(rules)])
    for url, rules in ((plain, 1), (other, 2)):
        with open_store(url) as store, Reader(url) as reader, reader.read() as look:
            assert len(read_counts(store)) == rules
            assert look.row("SELECT count(*) FROM rules") == (rules,)
    assert query(database, f"SELECT count(*) FROM {schema}.rules") == [(2,)]


@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "pooled"])
def test_settings_apply_to_every_transaction_and_not_beyond(
    database: str, pooler: Callable[[str], str], pooled: bool
) -> None:
    url = pooler(database) if pooled else database
    engines = [make_engine(parse_url(url)), make_engine(parse_url(with_parameters(url, options="-c jit=on")))]
    names = ("timezone", "lock_timeout", "jit")
    for _ in range(3):
        for engine, jit in zip(engines, ("off", "on"), strict=True):
            for open_one in (reading, writing_connection):
                with open_one(engine) as connection:
                    shown = [connection.execute(text(f"SHOW {name}")).scalar_one() for name in names]
                assert shown == ["UTC", "5min", jit]
    for engine in engines:
        engine.dispose()


def test_a_store_can_be_used_through_a_pooler(database: str, pooler: Callable[[str], str]) -> None:
    url = pooler(database)
    with open_store(url, create=True) as store:

        def work(number: int) -> None:
            with open_store(url) as own:
                for n in range(8):
                    commit(own, [], [delta("shared word", "rule", 1), delta(f"of{number} s{n}", "rule word", 1)])
                    assert own.status().rules_in_use > n
                    with own.snapshot() as snapshot:
                        assert len(list(rule_rows(snapshot))) > n

        assert WRITERS > CONNECTIONS
        run_concurrently(work)
        assert integrity(store) == []
        assert read_counts(store)["shared word", "rule"] == (WRITERS * 8, 0)
    with open_store(database) as store:
        assert store.position() == WRITERS * 8


def test_sql_queries_of_clients_run_through_a_pooler(database: str, pooler: Callable[[str], str]) -> None:
    open_store(database, create=True).close()
    role = create_sql_role(database)
    assert role is not None
    with closing(SqlRunner(pooler(database), pooler(role))) as asker:
        for n in range(8):
            assert asker.query(f"SELECT {n}, count(*), current_user FROM rules", 10, 5).rows == [
                [n, 0, "hierogram_sql"]
            ]
        shown = asker.query("SELECT current_setting('timezone'), current_setting('statement_timeout')", 10, 5).rows
        assert shown == [["UTC", "10s"]]
