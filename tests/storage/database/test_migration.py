"""Migrations create the schema of the code. Stores of other revisions are refused."""

import re

import pytest
from sqlalchemy import inspect
from tests.storage.building import commit, delta, query

from hierogram.storage.database import migration
from hierogram.storage.database.connection import make_engine, parse_url
from hierogram.storage.exceptions import SchemaOutdatedError, StoreError, StoreMissingError
from hierogram.storage.schema.tables import REVISIONS, metadata
from hierogram.storage.schema.views import VIEWS
from hierogram.storage.store import Store, open_store, upgrade


def read_schema(url: str) -> list[str]:
    """Return the definitions of the schema as the database reports them, sorted."""
    if url.startswith("sqlite"):
        ours = "name NOT IN ('alembic_version', 'sqlite_stat1')"
        rows = query(url, f"SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND {ours}")
        return sorted(re.sub(r"\s+", " ", str(row[0])).replace(" ,", ",").replace('"', "") for row in rows)
    catalog = [
        "SELECT table_name, column_name, data_type, collation_name, is_nullable, column_default"
        " FROM information_schema.columns WHERE table_schema = 'public'",
        "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'",
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = 'public'::regnamespace",
        "SELECT viewname, definition FROM pg_views WHERE schemaname = 'public'",
        "SELECT relname, reloptions::text FROM pg_class WHERE relnamespace = 'public'::regnamespace",
    ]
    rows = [row for statement in catalog for row in query(url, statement)]
    return sorted(str(row) for row in rows if "alembic_version" not in str(row))


def test_migrations_create_the_tables_and_views_of_the_code(store: Store, store_url: str) -> None:
    engine = make_engine(parse_url(store_url))
    with engine.connect() as connection:
        found = inspect(connection)
        assert sorted(found.get_view_names()) == sorted(VIEWS)
        assert sorted(found.get_table_names()) == sorted([*metadata.tables, "alembic_version"])
    engine.dispose()
    # The inspector omits indexes of expressions.
    made = "\n".join(read_schema(store_url))
    assert [
        index.name for table in metadata.tables.values() for index in table.indexes if f"{index.name}" not in made
    ] == []


def test_migrations_set_details_that_the_table_definitions_omit(store: Store, store_url: str) -> None:
    assert query(store_url, "SELECT id, last_event_id, max_events FROM event_state") == [(1, 0, 100_000)]
    if store_url.startswith("sqlite"):
        statistics = query(store_url, "SELECT idx, stat FROM sqlite_stat1 WHERE tbl = 'rules' ORDER BY idx")
        assert statistics == [("rules_by_source", "1048576 131072 4"), ("rules_by_target", "1048576 131072 4")]
    else:
        column_storage = (
            "SELECT attstorage FROM pg_attribute WHERE attrelid = 'rule_key_runs'::regclass AND attname = 'content'"
        )
        assert query(store_url, column_storage) == [("e",)]


def test_the_code_lists_every_revision_in_order() -> None:
    from importlib.resources import as_file, files

    from alembic.script import ScriptDirectory

    with as_file(files("hierogram.migrations")) as scripts:
        directory = ScriptDirectory(str(scripts))
        revisions = [script.revision for script in directory.walk_revisions()]
    assert tuple(reversed(revisions)) == REVISIONS


def test_a_newer_store_is_refused_and_unchanged(store: Store, store_url: str) -> None:
    commit(store, [], [delta("a", "x", 1)])
    query(store_url, "UPDATE alembic_version SET version_num = '9999'")
    for attempt in (open_store, upgrade, lambda url: open_store(url, create=True)):
        with pytest.raises(StoreError, match="9999, but this version of hierogram supports"):
            attempt(store_url)
    assert query(store_url, "SELECT count(*) FROM rules") == [(1,)]


def test_an_older_store_requires_an_upgrade(store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "REVISIONS", (*REVISIONS, "next"))
    for create in (False, True):
        with pytest.raises(SchemaOutdatedError, match="hierogram init --upgrade"):
            open_store(store_url, create=create)


def test_upgrading_the_latest_schema_changes_nothing(store: Store, store_url: str) -> None:
    commit(store, [], [delta("a", "x", 1)])
    assert upgrade(store_url) == (REVISIONS[-1], REVISIONS[-1])
    assert store.find_rules("a", current_sample=True)[0].count == 1


def test_upgrading_requires_an_existing_store(store_url: str) -> None:
    with pytest.raises(StoreMissingError):
        upgrade(store_url)


def test_a_failed_creation_leaves_no_store(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("interrupted")

    with monkeypatch.context() as patched:
        patched.setattr("hierogram.storage.store.StoreState", fail)
        with pytest.raises(RuntimeError, match="interrupted"):
            open_store(store_url, create=True)
    with pytest.raises(StoreMissingError):
        open_store(store_url)
    with open_store(store_url, create=True) as store:
        assert store.position() == 0
