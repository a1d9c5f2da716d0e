"""Readers: writes are refused by the database, slow statements are canceled, and statements are shown as SQL."""

import time

import pytest
from tests.storage.building import commit, delta, query

from hierogram.storage.browsing.reader import Reader, inline_parameters, literal
from hierogram.storage.database.connection import is_read_only
from hierogram.storage.exceptions import SlowQueryError, StoreMissingError, StoreUnavailableError
from hierogram.storage.store import Store

ENDLESS = "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a) SELECT count(*) FROM a"


@pytest.fixture
def reader(store: Store, store_url: str) -> Reader:
    commit(store, [], [delta("la maison", "the house", 4, 8), delta("ne [X,1] pas", "not [X,1]", 2)])
    return Reader(store_url)


@pytest.mark.parametrize("statement", ["DELETE FROM rules", "UPDATE store_state SET position = 0"])
def test_readers_cannot_write(reader: Reader, store_url: str, statement: str) -> None:
    with reader, pytest.raises(StoreUnavailableError), reader.read() as transaction:
        transaction.rows(statement)
    assert query(store_url, "SELECT count(*) FROM rules") == [(2,)]


@pytest.mark.database("sqlite")
def test_the_engine_of_a_reader_is_reported_as_read_only(reader: Reader) -> None:
    with reader:
        assert is_read_only(reader.engine)


def test_a_slow_statement_is_canceled(reader: Reader) -> None:
    began = time.monotonic()
    with reader:
        with pytest.raises(SlowQueryError, match=r"canceled after 0\.3 s"), reader.read(0.3) as transaction:
            transaction.rows(ENDLESS)
        assert time.monotonic() - began < 10
        # The connection can be used for the next statement.
        with reader.read() as transaction:
            assert transaction.row("SELECT 1 AS one") == (1,)


def test_a_reader_requires_an_existing_store(store_url: str) -> None:
    with pytest.raises(StoreMissingError):
        Reader(store_url)


def test_statements_are_shown_as_runnable_sql(reader: Reader) -> None:
    odd = "d'un \\ :side %s ' OR '1' = '1"
    with reader:
        with reader.read() as transaction:
            assert transaction.rows("SELECT :word AS said, :number AS n", word=odd, number=7) == [(odd, 7)]
            [shown] = transaction.statements
        with reader.read() as transaction:
            assert transaction.connection.exec_driver_sql(
                shown.replace("%", "%%") if transaction.postgres else shown
            ).all() == [(odd, 7)]
    assert literal("a'b") == "'a''b'"
    assert inline_parameters("SELECT CAST(1 AS int)::text, :a", {"a": 1}) == "SELECT CAST(1 AS int)::text, 1"
