"""The migrations make the schema of the code, can be taken back, and know what they do not know."""

import re

import pytest
from sqlalchemy import inspect, text
from tests.storage.building import commit, delta, ingest, pair, pairs_of, query, update

from hierogram.storage.database import migration
from hierogram.storage.database.connection import make_engine, parse_url, writing_connection
from hierogram.storage.exceptions import SchemaOutdatedError, SchemaTooNewError, StoreMissingError
from hierogram.storage.records import RejectedLine
from hierogram.storage.schema.tables import REVISIONS, metadata
from hierogram.storage.schema.views import view_statements
from hierogram.storage.store import Store, open_store, upgrade


def schema_of(url: str) -> list[str]:
    """Everything that defines the schema, in the database's own words and a canonical order."""
    if url.startswith("sqlite"):
        ours = "name NOT IN ('alembic_version', 'sqlite_stat1')"
        rows = query(url, f"SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND {ours}")
        return sorted(re.sub(r"\s+", " ", str(row[0])).replace(" ,", ",").replace('"', "") for row in rows)
    catalogue = [
        "SELECT table_name, column_name, data_type, collation_name, is_nullable, column_default"
        " FROM information_schema.columns WHERE table_schema = 'public'",
        "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'",
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = 'public'::regnamespace",
        "SELECT viewname, definition FROM pg_views WHERE schemaname = 'public'",
        "SELECT relname, reloptions::text FROM pg_class WHERE relnamespace = 'public'::regnamespace",
    ]
    rows = [row for statement in catalogue for row in query(url, statement)]
    return sorted(str(row) for row in rows if "alembic_version" not in str(row))


def make_from_metadata(url: str) -> None:
    engine = make_engine(parse_url(url))
    with writing_connection(engine) as connection:
        metadata.create_all(connection)
        for statement in view_statements(engine.dialect.name):
            connection.exec_driver_sql(statement)
    engine.dispose()


def test_migrations_make_the_schema_of_the_code(store: Store, store_url: str, request: pytest.FixtureRequest) -> None:
    if store_url.startswith("sqlite"):
        other = store_url.replace("store.db", "other.db")
    else:
        other = request.getfixturevalue("make_database")()
    make_from_metadata(other)
    migrated = schema_of(store_url)
    assert migrated == schema_of(other)
    assert len(migrated) > 25


def test_down_and_up_again(store: Store, store_url: str) -> None:
    before = schema_of(store_url)
    engine = make_engine(parse_url(store_url))
    with writing_connection(engine) as connection:
        migration.migrate_down(connection)
    with engine.connect() as connection:
        assert inspect(connection).get_table_names() == ["alembic_version"]
        assert inspect(connection).get_view_names() == []
    with pytest.raises(StoreMissingError):
        open_store(store_url)
    with writing_connection(engine) as connection:
        migration.migrate(connection)
    engine.dispose()
    assert schema_of(store_url) == before


def test_the_code_knows_every_revision_in_order() -> None:
    from importlib.resources import as_file, files

    from alembic.script import ScriptDirectory

    with as_file(files("hierogram.migrations")) as scripts:
        directory = ScriptDirectory(str(scripts), recursive_version_locations=True)
        revisions = [script.revision for script in directory.walk_revisions()]
    assert tuple(reversed(revisions)) == REVISIONS


def test_a_newer_store_is_refused_untouched(store: Store, store_url: str) -> None:
    commit(store, [], [delta("a", "x", 1)])
    query(store_url, "UPDATE alembic_version SET version_num = '9999'")
    for attempt in (open_store, upgrade, lambda url: open_store(url, create=True)):
        with pytest.raises(SchemaTooNewError, match="9999, which this version of hierogram does not know"):
            attempt(store_url)
    assert query(store_url, "SELECT count(*) FROM rules") == [(1,)]


def test_an_older_store_asks_to_be_upgraded(store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "REVISIONS", (*REVISIONS, "next"))
    for create in (False, True):
        with pytest.raises(SchemaOutdatedError, match="hierogram init --upgrade"):
            open_store(store_url, create=create)


def test_upgrading_the_latest_schema_changes_nothing(store: Store, store_url: str) -> None:
    commit(store, [], [delta("a", "x", 1)])
    assert upgrade(store_url) == (REVISIONS[-1], REVISIONS[-1])
    assert store.find_rules("a", drawn=True)[0].count == 1


def test_upgrading_needs_a_store(store_url: str) -> None:
    with pytest.raises(StoreMissingError):
        upgrade(store_url)


def test_a_store_that_is_made_in_vain_leaves_nothing(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("interrupted")

    with monkeypatch.context() as patched:
        patched.setattr("hierogram.storage.store.create_state", fail)
        with pytest.raises(RuntimeError, match="interrupted"):
            open_store(store_url, create=True)
    with pytest.raises(StoreMissingError):
        open_store(store_url)
    with open_store(store_url, create=True) as store:
        assert store.position() == 0


def test_an_old_store_keeps_what_it_holds(store: Store, store_url: str) -> None:
    ingest(store, [pair("a b", "x", "0-0"), pair("c", "y", ""), pair("d", "z")])
    commit(store, [update(1, b"one", state="settled", sweep=70), update(2, b"two")], [delta("a b", "x", 1)])
    before = store.pairs()
    engine = make_engine(parse_url(store_url))
    with writing_connection(engine) as connection:
        migration.migrate_down(connection, "0002")
    engine.dispose()
    with pytest.raises(SchemaOutdatedError, match="hierogram init --upgrade"):
        open_store(store_url)
    assert upgrade(store_url) == ("0002", REVISIONS[-1])
    with open_store(store_url) as upgraded:
        # What they averaged is in a form that cannot be read: they average again.
        assert upgraded.pairs() == [row._replace(expected_uses=row.expected_uses and b"") for row in before]
        assert [row.aligned_by for row in before] == ["given"] * 3
        assert upgraded.integrity() == []


def test_an_old_stores_rejected_lines_are_rows_of_their_own(store: Store, store_url: str) -> None:
    batch = store.begin_ingest("c", "file", "bars")
    bad = [RejectedLine(number, "empty-line", f"line {number}", b"") for number in (1, 3, 5)]
    store.add_pairs(batch, pairs_of([]), bad)
    store.finish_ingest(batch)
    engine = make_engine(parse_url(store_url))
    with writing_connection(engine) as connection:
        migration.migrate_down(connection, "0010")
    engine.dispose()
    assert upgrade(store_url) == ("0010", REVISIONS[-1])
    kept = "SELECT line, last_line, reason, message FROM rejected_lines ORDER BY id"
    assert query(store_url, kept) == [(n, n, "empty-line", f"line {n}") for n in (1, 3, 5)]
    with open_store(store_url) as upgraded:
        assert upgraded.status().rejected == 3
        assert upgraded.integrity() == []
        assert (upgraded.settings().languages, upgraded.settings().tokenize, upgraded.settings().case) == (
            (),
            False,
            "kept",
        )


def test_an_old_stores_expected_rules_are_found_by_their_words(store: Store, store_url: str) -> None:
    ingest(store, [pair("a b", "x y", "0-0")])
    commit(store, [], [delta("a b", "x", 0, 3000), delta("a [X,1]", "[X,1] y", 0, 2000), delta("b", "y", 1)])
    engine = make_engine(parse_url(store_url))
    with writing_connection(engine) as connection:
        migration.migrate_down(connection, "0017")
        connection.execute(text("DELETE FROM rule_words WHERE rule_id IN (SELECT id FROM rules WHERE count = 0)"))
    engine.dispose()
    assert upgrade(store_url) == ("0017", REVISIONS[-1])
    with open_store(store_url) as upgraded:
        assert [rule.source for rule in upgraded.find_rules(words=["a"])] == ["a b"]
        assert upgraded.integrity() == []
