"""Write transactions, bulk loading, and reads of the settings and the state of a store.

Bulk changes are SQL statements over staging tables (temporary tables, whose content `Loader.stage` replaces), nearly
all the same on both databases. Rows are loaded by multi-row INSERT on SQLite and by COPY on Postgres.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Self, get_type_hints

from sqlalchemy import ColumnElement, Connection, CursorResult, Engine, Executable, Select, select, text
from sqlalchemy.schema import Column, CreateTable, MetaData, Table
from sqlalchemy.types import Double, Integer, LargeBinary

from hierogram.samplers.grammar.kinds import SOURCE, TARGET, GrammarKind, find_grammar_kind
from hierogram.storage.database.connection import POSTGRES, hide_password, is_read_only, reading, writing_connection
from hierogram.storage.exceptions import StoreError, WriteConflictError
from hierogram.storage.records.columns import KeyRun
from hierogram.storage.records.operations import StoreState
from hierogram.storage.records.settings import LearnedSettings, Settings
from hierogram.storage.schema import tables
from hierogram.storage.schema.tables import MOMENT, SERIAL, TEXT, on_postgres, store_state
from hierogram.storage.schema.tables import settings as stored_settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

Row = Sequence[object]

_ROWS_PER_STATEMENT = 1000
_CACHED_STATEMENTS = 128
_VALUES_PER_QUERY = 10_000
_CACHED_WORDS = 1_000_000
"""Maximum number of cached words of a side. Beyond it, only the last transaction's words are kept."""

IDS_PER_BLOCK = 4_096
"""Ids per block of rows that are read as one value. It must stay below SQLite's maximum value size."""

_staging = MetaData()


def _staged(name: str, /, **columns: Any) -> Table:
    staging_columns = (Column(column, kind) for column, kind in columns.items())
    return on_postgres(Table(name, _staging, *staging_columns, prefixes=["TEMPORARY"]), "on_commit", "DELETE ROWS")


def _staged_like(name: str, table: Table) -> Table:
    return _staged(name, **{column.name: column.type for column in table.columns})


staged_words = _staged("staged_words", n=Integer, side=TEXT, token=TEXT)
staged_vocabulary = _staged("staged_vocabulary", word_id=SERIAL, count=SERIAL)
staged_progress = _staged(
    "staged_progress", pair_id=SERIAL, current=LargeBinary, averages=LargeBinary, state=TEXT, stage=Integer,
    sweep=SERIAL, expected_sweep=SERIAL, checksum=SERIAL,
)  # fmt: skip
staged_alignments = _staged("staged_alignments", pair_id=SERIAL, alignment=TEXT, link_probabilities=TEXT)
staged_links = _staged(
    "staged_links", pair_id=SERIAL, forward=LargeBinary, backward=LargeBinary, sweep=SERIAL, expected_sweep=SERIAL
)
staged_lexicon = _staged_like("staged_lexicon", tables.aligner_lexicon)
staged_word_counts = _staged_like("staged_word_counts", tables.aligner_words)
staged_jumps = _staged_like("staged_jumps", tables.aligner_jumps)
staged_counts = _staged(
    "staged_counts", rule_id=SERIAL, count=SERIAL, expected_uses=Double, expected_uses_variance=Double,
    minimal_uses=SERIAL,
)  # fmt: skip
staged_ids = _staged("staged_ids", id=SERIAL)
staged_rule_words = _staged_like("staged_rule_words", tables.rule_words)
staged_pair_words = _staged_like("staged_pair_words", tables.pair_words)
staged_keys = _staged("staged_keys", rule_id=SERIAL, key_high=SERIAL, key_low=SERIAL)
staged_history = _staged_like("staged_history", tables.rule_history)
staged_uses = _staged("staged_uses", pair_id=SERIAL, rule_id=SERIAL, key_high=SERIAL, key_low=SERIAL, uses=SERIAL)
staged_scores = _staged_like("staged_scores", tables.pair_scores)


class Loader:
    """Bulk loader for SQLite tables. Inserts rows within the transaction of a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._driver: Any = connection.connection.driver_connection

    def insert(self, table: Table, rows: Iterable[Row]) -> None:
        """Add rows with values for all columns of the table, in order. Times must be results of `moment`."""
        columns = table.columns.keys()
        max_rows = self._driver.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // len(columns)
        block_size = min(_ROWS_PER_STATEMENT, max_rows)
        # Insert several rows per statement, because other threads of the process can run during a statement. With
        # OR FAIL, SQLite keeps no copies of pages to undo a failed statement. The transaction is undone anyway.
        insert = f"INSERT OR FAIL INTO {table.name} ({', '.join(columns)}) VALUES "
        marks = f"({', '.join('?' * len(columns))})"
        insert_block = f"{insert}{', '.join([marks] * block_size)}"
        rows = iter(rows)
        while len(block := list(islice(rows, block_size))) == block_size:
            self._driver.execute(insert_block, list(chain.from_iterable(block))).close()
        self._driver.executemany(f"{insert}{marks}", block).close()

    def stage(self, table: Table, rows: Iterable[Row]) -> None:
        """Replace the content of a staging table by rows with values for all columns, in order."""
        with self._replacing(table):
            self.insert(table, rows)

    @contextmanager
    def _replacing(self, table: Table) -> Iterator[None]:
        self._connection.execute(CreateTable(table, if_not_exists=True))
        self._driver.execute(f"DELETE FROM temp.{table.name}").close()
        yield

    def stage_columns(self, table: Table, columns: Sequence["NDArray[Any]"]) -> None:
        """Replace the content of a staging table by numeric columns, one array for each column of the table."""
        self.stage(table, zip(*(column.tolist() for column in columns), strict=True))

    def moment(self, when: datetime | None = None) -> object:
        """Convert a UTC time, by default the current time, to a value of a timestamp column for `insert`."""
        return MOMENT.process_bind_param(when or now(), self._connection.dialect)


class PostgresLoader(Loader):
    """Bulk loader for Postgres tables, which uses COPY."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._staged: set[str] = set()

    def insert(self, table: Table, rows: Iterable[Row]) -> None:
        """Add rows with values for all columns of the table, in order."""
        with self._copying(table) as (copy, types):
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)

    def stage_columns(self, table: Table, columns: Sequence["NDArray[Any]"]) -> None:
        """Replace the content of a staging table by numeric columns, a dozen times as fast as by rows."""
        import numpy as np

        with self._replacing(table), self._copying(table) as (copy, types):
            fields = [("columns", ">i2")]
            for n, kind in enumerate(types):
                fields += [(f"width {n}", ">i4"), (f"value {n}", _WIRE_TYPES[kind])]
            rows = np.empty(len(columns[0]), np.dtype(fields))
            rows["columns"] = len(types)
            for n, column in enumerate(columns):
                rows[f"width {n}"] = rows.dtype[f"value {n}"].itemsize
                rows[f"value {n}"] = column
            copy.write(_COPY_SIGNATURE + rows.tobytes() + _COPY_TRAILER)

    @contextmanager
    def _copying(self, table: Table) -> Iterator[tuple[Any, list[str]]]:
        """Open a binary COPY into the table. Yields the COPY and the names of the columns' types."""
        dialect = self._connection.dialect
        types = [column.type.compile(dialect).partition(" COLLATE")[0].lower() for column in table.columns]
        statement = f"COPY {table.name} ({', '.join(table.columns.keys())}) FROM STDIN (FORMAT BINARY)"
        with self._driver.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            yield copy, types

    @contextmanager
    def _replacing(self, table: Table) -> Iterator[None]:
        self._connection.execute(CreateTable(table, if_not_exists=True))
        if table.name in self._staged:
            self._connection.exec_driver_sql(f"TRUNCATE {table.name}")
        self._staged.add(table.name)
        yield
        # Update the planner's statistics, because a wrong estimate turns a few lookups into a table scan.
        self._connection.exec_driver_sql(f"ANALYZE {table.name}")


def largest_id(connection: Connection, table: str, column: str = "id") -> int:
    """Return the largest value of an id column, or 0 if the table is empty."""
    number: int = connection.execute(text(f"SELECT coalesce(max({column}), 0) FROM {table}")).scalar_one()
    return number


def in_array(connection: Connection, parameter: str) -> str:
    """Return SQL that tests if the column before it equals an element of an `array_parameter`."""
    array = "= ANY(:{})" if connection.dialect.name == POSTGRES else "IN (SELECT value FROM json_each(:{}))"
    return array.format(parameter)


def array_parameter(connection: Connection, values: Iterable[Any]) -> object:
    """Return values as a query parameter for `in_array`."""
    return list(values) if connection.dialect.name == POSTGRES else json.dumps(list(values))


def rows_with(
    connection: Connection, statement: Select[tuple[Any, ...]], column: ColumnElement[Any], values: Iterable[Any]
) -> Iterator[Any]:
    """Yield the rows of an unordered statement whose `column` has one of the values, by column."""
    remaining = iter(sorted(set(values)))
    while chunk := list(islice(remaining, _VALUES_PER_QUERY)):
        yield from connection.execute(statement.where(column.in_(chunk)).order_by(column))


def read_rows(
    connection: Connection, statement: str | Executable, parameters: Mapping[str, object] | None = None
) -> list[tuple[Any, ...]]:
    """Return the rows of a statement. Times and booleans of SQLite are not converted."""
    executed = connection.execute(_parse(statement) if isinstance(statement, str) else statement, parameters)
    # Read from the cursor of the driver, because rows of SQLAlchemy would slow down a commit of known rules by a third.
    assert executed.cursor is not None
    return list(executed.cursor.fetchall())


_parse = lru_cache(maxsize=_CACHED_STATEMENTS)(text)


_WIRE_TYPES = {"bigint": ">i8", "integer": ">i4", "double precision": ">f8"}
_COPY_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_TRAILER = b"\xff\xff"


_STATE = select(*(column for column in store_state.columns if column.name != "id"))


def read_state(connection: Connection, *, lock: bool = False) -> StoreState:
    """Return the row of `store_state`. With `lock`, other writers wait until this transaction ends."""
    row = connection.execute(_STATE.with_for_update() if lock else _STATE).one()
    return StoreState(*row)


_SETTINGS = select(stored_settings.c.name, stored_settings.c.value)


def write_settings(connection: Connection, settings: Settings) -> None:
    """Insert the settings of a new store, one row each, with JSON values."""
    rows = [{"name": name, "value": json.dumps(value)} for name, value in asdict(settings).items()]
    connection.execute(stored_settings.insert(), rows)


def read_settings(connection: Connection) -> Settings:
    """Return the settings. Raises `StoreError` if a row is missing, is not JSON or has the wrong type."""
    stored = dict(connection.execute(_SETTINGS).all())
    return Settings(**{name: _setting(stored, name, value_type) for name, value_type in _FIELD_TYPES.items()})


_FIELD_TYPES: dict[str, Any] = get_type_hints(Settings)

_JSON_TYPES = {
    str: (str, "a string"),
    bool | None: (bool | None, "true, false or null"),
    float: (int | float, "a number"),
    int: (int, "a whole number"),
    tuple[str, ...]: (list, "a list of strings"),
}


def write_learned(connection: Connection, learned: LearnedSettings) -> None:
    """Write the learned settings. Raises `WriteConflictError` if they are set to other values."""
    stored = read_settings(connection)
    # The first tokenized text sets `word_parts` and `orthographies` together, and `orthographies` is then not empty.
    is_unset = {"languages": not stored.languages, "tokenize": stored.tokenize is None}
    for name, value in learned.items():
        can_set = is_unset.get(name, not stored.orthographies)
        # Treat None like False, because a store keeps tokens until the first text with signs of running text.
        if not can_set and (value or None) != (getattr(stored, name) or None):
            raise WriteConflictError(f"another input has set {name} of the store: ingest this input again")
        if can_set and value is not None:
            is_named = stored_settings.c.name == name
            connection.execute(stored_settings.update().where(is_named).values(value=json.dumps(value)))


def _setting(stored: dict[str, str], name: str, value_type: Any) -> Any:
    if name not in stored:
        raise StoreError(
            f"table settings: {name} is missing: use the version of hierogram that created this store, or restore a "
            "backup"
        )
    try:
        value: Any = json.loads(stored[name])
    except ValueError as error:
        raise StoreError(f"table settings: {name} is not JSON: {stored[name]!r}: restore a backup") from error
    json_type, type_name = _JSON_TYPES[value_type]
    fits = isinstance(value, json_type) and (value_type == bool | None or not isinstance(value, bool))
    if not fits or (isinstance(value, list) and not all(isinstance(part, str) for part in value)):
        raise StoreError(f"table settings: {name} must be {type_name}, got {value!r}: restore a backup")
    return tuple(value) if isinstance(value, list) else float(value) if value_type is float else value


def read_grammar_kind(connection: Connection) -> GrammarKind:
    """Return the kind of the store's grammar. Raises `SamplerError` if this version does not support it."""
    stored = dict(connection.execute(_SETTINGS.where(stored_settings.c.name == "grammar")).all())
    return find_grammar_kind(_setting(stored, "grammar", str))


Words = dict[str, dict[str, int]]
"""Ids of words by side and token."""


def _empty_words() -> Words:
    return {SOURCE: {}, TARGET: {}}


@dataclass(slots=True)
class WriteTransaction:
    """Transaction that holds the store's lock. At its end, `state` is written with the next position.

    If `changes_grammar` is set, this position also becomes the grammar position, because the content of exports may
    have changed. `seen_words` were cached before the transaction, `new_words` were read or added by it. `key_runs` are
    cached runs, see `hierogram.storage.grammar.key_index`. `watched` are the rules with changed uses that
    `before_commit` reports: source, target, expected uses and the variance of their error, by id.
    """

    connection: Connection
    loader: Loader
    state: StoreState
    seen_words: Words
    key_runs: dict[int, KeyRun]
    new_words: Words = field(default_factory=_empty_words)
    before_commit: "Callable[[WriteTransaction], None] | None" = None
    watched: dict[int, tuple[str, str, float, float]] = field(default_factory=dict)
    changes_grammar: bool = False

    def execute(self, statement: str, /, **values: object) -> "CursorResult[*tuple[Any, ...]]":
        """Execute SQL text with parameters `:name`."""
        return self.connection.execute(text(statement), values)

    def stage_ids(self, ids: Iterable[int]) -> None:
        """Replace the content of `staged_ids`."""
        self.loader.stage(staged_ids, ((number,) for number in sorted(ids)))

    def delete_staged(self, *tables: str, column: str = "pair_id") -> None:
        """Delete the rows of these tables whose `column` is in `staged_ids`."""
        for table in tables:
            self.execute(f"DELETE FROM {table} WHERE {column} IN (SELECT id FROM staged_ids)")


def upsert(table: Table, rows: str, changes: Mapping[str, str] | None = None) -> str:
    """Return the statement that inserts rows, given as SELECT or VALUES of all columns of the table.

    If a row with the same key is stored, `changes` assigns SQL expressions to its columns. By default, the new values
    replace all other columns. Empty `changes` keep the stored row. A SELECT must have a WHERE clause, because SQLite
    would otherwise read ON CONFLICT as the condition of a join.
    """
    keys, names = table.primary_key.columns.keys(), table.columns.keys()
    if changes is None:
        changes = {name: f"excluded.{name}" for name in names if name not in keys}
    assignments = ", ".join(f"{name} = {value}" for name, value in changes.items())
    action = f"DO UPDATE SET {assignments}" if assignments else "DO NOTHING"
    return f"INSERT INTO {table.name} ({', '.join(names)}) {rows} ON CONFLICT ({', '.join(keys)}) {action}"


class StoreAccess:
    """Base of the parts of a store: engine, cached rows, and token of the lease, if taken."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        # Cache committed rows that never change: ids of words, and runs of the key index by id.
        self._words = _empty_words()
        self._key_runs: dict[int, KeyRun] = {}
        self._lease: str | None = None
        self.url = hide_password(engine.url)
        self.read_only = is_read_only(engine)

    def close(self) -> None:
        """Close the store's connections. Waits for a checkpoint in progress."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def settings(self) -> Settings:
        """Return the settings given when the store was created, and the settings learned from its first text."""
        with self._reading() as connection:
            return read_settings(connection)

    def position(self) -> int:
        """Return the store position, which increases with each change of pairs, rules or events."""
        with self._reading() as connection:
            return read_state(connection).position

    def _reading(self) -> AbstractContextManager[Connection]:
        return reading(self.engine)

    @contextmanager
    def _writing(self, *, durable: bool = True) -> Iterator[WriteTransaction]:
        with writing_connection(self.engine, durable=durable) as connection:
            state = read_state(connection, lock=True)
            loader = (PostgresLoader if connection.dialect.name == POSTGRES else Loader)(connection)
            transaction = WriteTransaction(connection, loader, state, self._words, dict(self._key_runs))
            yield transaction
            if transaction.before_commit is not None:
                transaction.before_commit(transaction)
            state.position += 1
            if transaction.changes_grammar:
                state.grammar_position = state.position
            connection.execute(store_state.update().values(**asdict(state)))
        for side, ids in transaction.new_words.items():
            if len(self._words[side]) + len(ids) > _CACHED_WORDS:
                self._words[side] = {}
            self._words[side].update(ids)
        self._key_runs = transaction.key_runs


def now() -> datetime:
    """Return the time in UTC, in whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)


def new_id(result: CursorResult[tuple[object, ...]]) -> int:
    """Return the id that the database has assigned to the row of an INSERT."""
    key = result.inserted_primary_key
    assert key is not None
    return int(key[0])
