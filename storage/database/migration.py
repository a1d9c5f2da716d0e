"""Creating, upgrading and checking the schema of a store, with Alembic."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files

from sqlalchemy import Connection, Engine, inspect, text

from hierogram.storage.database.connection import (
    POSTGRES,
    hide_password,
    make_engine,
    parse_url,
    reading,
    sqlite_file,
    writing_connection,
)
from hierogram.storage.exceptions import SchemaOutdatedError, StoreError, StoreMissingError, StoreUnavailableError
from hierogram.storage.schema.tables import REVISIONS

_LOCK = 0x68696572_6F677261
"""Key of the Postgres advisory lock held by the process that creates or upgrades a store."""


def stored_revision(connection: Connection) -> str | None:
    """Return the revision of the schema, such as `0001`, or None if the database contains no store."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if revision is None else str(revision)


def check_schema(engine: Engine) -> None:
    """Raise `StoreMissingError`, `SchemaOutdatedError`, or `StoreError` for an unknown (newer) schema."""
    url = hide_password(engine.url)
    file = sqlite_file(engine.url)
    missing = f"no store at {url}: create one with `hierogram init` or `hierogram ingest`"
    if file is not None and not file.exists():
        raise StoreMissingError(missing)
    with reading(engine) as connection:
        revision = stored_revision(connection)
    if revision is None:
        raise StoreMissingError(missing)
    if revision not in REVISIONS:
        raise StoreError(
            f"the store at {url} has schema {revision}, but this version of hierogram supports schemas up to "
            f"{REVISIONS[-1]}: use a newer version"
        )
    if revision != REVISIONS[-1]:
        raise SchemaOutdatedError(
            f"the store at {url} has schema {revision}, but this version of hierogram requires {REVISIONS[-1]}: back "
            "up the store and run `hierogram init --upgrade`"
        )


def migrate(connection: Connection) -> None:
    """Create or upgrade the schema within the connection's transaction."""
    from alembic import command
    from alembic.config import Config

    with as_file(files("hierogram.migrations")) as scripts:
        config = Config()
        config.set_main_option("script_location", str(scripts).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


@contextmanager
def migrating(engine: Engine) -> Iterator[Connection]:
    """Open a transaction that creates or changes the schema, one process at a time."""
    with writing_connection(engine) as connection:
        if engine.dialect.name == POSTGRES:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
            if encoding != "UTF8":
                raise StoreUnavailableError(
                    f"{hide_password(engine.url)}: the encoding of the database must be UTF8, got {encoding}: create "
                    "a database with ENCODING 'UTF8'"
                )
        yield connection


def upgrade(url: str) -> tuple[str, str]:
    """Upgrade the store at the URL to the current schema. Returns the revisions before and after."""
    engine = make_engine(parse_url(url))
    try:
        check_schema(engine)
        return REVISIONS[-1], REVISIONS[-1]
    except SchemaOutdatedError:
        with migrating(engine) as connection:
            before = stored_revision(connection)
            migrate(connection)
        return str(before), REVISIONS[-1]
    finally:
        engine.dispose()
