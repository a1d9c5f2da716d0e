"""Bulk reads of rules as columns.

On Postgres, columns are read as arrays of many rows. This is four times as fast as COPY, because the driver receives
the rows of a COPY one by one.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from hierogram.samplers.grammar.columns import Texts, concatenate_texts, join_texts, split_lines
from hierogram.storage.database.connection import POSTGRES
from hierogram.storage.database.transactions import IDS_PER_BLOCK, largest_id
from hierogram.storage.records.columns import NUMBERS, RuleCounts, RuleDeltas, StoredRules

if TYPE_CHECKING:
    from psycopg import Cursor

Column = NDArray[Any]

_NUMBER_COLUMNS = {"id": "i8", "key_high": "i8", "key_low": "i8", **NUMBERS, "hiero": "i4"}
"""Columns with their dtypes: id and key, then the numeric columns in the order of `RuleDeltas`."""

_COUNT_COLUMNS = {
    name: _NUMBER_COLUMNS[name]
    for name in ("key_high", "key_low", "count", "length", "source_terminals", "target_terminals")
}

_IDS_PER_QUERY = 4_000_000

IDS_PER_RANGE = 1 << 17
"""Ids per range when reading all rules. A range takes about 30 MB of memory."""


def rule_counts(connection: Connection) -> RuleCounts:
    """Return all rules with a positive count, unordered."""
    columns = _numbers(connection, _COUNT_COLUMNS, "count > 0")
    key_high, key_low, *typed = (c.astype(kind) for c, kind in zip(columns, _COUNT_COLUMNS.values(), strict=True))
    return RuleCounts(_keys(key_high, key_low), *typed)


def stored_rules(connection: Connection, after: int, until: int) -> StoredRules:
    """Return the rules with `after` < id <= `until`, unordered."""
    ids = range(after, until, IDS_PER_BLOCK)
    if connection.dialect.name == POSTGRES:
        numbers, sources, targets = _blocks_on_postgres(connection, ids, until)
    else:
        numbers = _numbers_on_sqlite(connection, _NUMBER_COLUMNS, f"id > {after} AND id <= {until}")
        blocks = list(_sides_on_sqlite(connection, numbers[0], ids, until))
        sources = concatenate_texts([source for source, _ in blocks])
        targets = concatenate_texts([target for _, target in blocks])
    rule_ids, key_high, key_low, *columns = numbers
    typed: Iterator[Any] = (column.astype(kind) for column, kind in zip(columns, NUMBERS.values(), strict=True))
    return StoredRules(rule_ids.astype(np.int64), RuleDeltas(_keys(key_high, key_low), sources, targets, *typed))


def _keys(high: Column, low: Column) -> NDArray[np.uint64]:
    return np.stack((high, low), axis=1).astype(np.int64).view(np.uint64)


def _numbers_on_sqlite(connection: Connection, fields: dict[str, str], condition: str) -> list[Column]:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    cursor = driver.execute(f"SELECT {', '.join(fields)} FROM rules WHERE {condition} ORDER BY id")
    rows = np.fromiter(cursor, dtype=list(fields.items()))
    cursor.close()
    return [rows[name] for name in fields]


def _sides_on_sqlite(
    connection: Connection, rule_ids: Column, blocks: Sequence[int], until: int
) -> Iterator[tuple[Texts, Texts]]:
    """Yield the source and target sides of each nonempty block of ids up to `until`, in id order."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    query = "SELECT group_concat(source, char(10)), group_concat(target, char(10)) FROM rules WHERE id > ? AND id <= ?"
    for after in blocks:
        bounds = after, min(after + IDS_PER_BLOCK, until)
        first, last = np.searchsorted(rule_ids, bounds, "right").tolist()
        if first < last:
            [sides] = driver.execute(query, bounds).fetchall()
            yield _split_sides(connection, rule_ids[first:last], [(side + "\n").encode() for side in sides])


def _split_sides(connection: Connection, ids: Column, sides: Sequence[bytes]) -> tuple[Texts, Texts]:
    """Split both sides into lines, one per rule. Replaces an invalid line feed in a side by a space."""
    source, target = (split_lines(side) for side in sides)
    if source.size == target.size == len(ids):
        return source, target
    found = connection.execute(
        text("SELECT id, source, target FROM rules WHERE id >= :first AND id <= :last"),
        {"first": int(ids.min()), "last": int(ids.max())},
    )
    rows = {row.id: (row.source.replace("\n", " "), row.target.replace("\n", " ")) for row in found}
    texts = [rows[rule_id] for rule_id in ids.tolist()]
    return join_texts([side for side, _ in texts]), join_texts([side for _, side in texts])


_ARRAY_HEADER_BYTES = 20
"""Size of the header of a binary array: dimensions, nulls, type, length and lower bound, 4 bytes each."""


def _binary_cursor(connection: Connection) -> "Cursor[tuple[object, ...]]":
    import psycopg

    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver.cursor(binary=True)


def _array_elements(array: bytes | None, kind: str) -> NDArray[Any]:
    """Return the elements of a binary Postgres array with a dtype such as `i8`. NULL has no elements."""
    if array is None:
        return np.empty(0, dtype=np.int64)
    element = np.dtype([("width", ">i4"), ("value", f">{kind}")])
    elements: NDArray[Any] = np.frombuffer(array, dtype=element, offset=_ARRAY_HEADER_BYTES)["value"]
    return elements


def _values(cursor: "Cursor[tuple[object, ...]]", query: str, first: int, last: int) -> list[bytes | None]:
    """Return aggregates over the rules with `first` < id <= `last`, in the binary format of the server."""
    result = cursor.execute(f"{query} FROM rules WHERE id > %s AND id <= %s".encode(), (first, last)).pgresult
    assert result is not None
    return [result.get_value(0, n) for n in range(result.nfields)]


def _numbers_on_postgres(connection: Connection, fields: dict[str, str], condition: str) -> list[Column]:
    arrays = ", ".join(f"array_agg({name}) FILTER (WHERE {condition})" for name in fields)
    parts: list[list[Column]] = [[] for _ in fields]
    last_id = largest_id(connection, "rules")
    with _binary_cursor(connection) as cursor:
        for start in range(0, last_id, _IDS_PER_QUERY):
            values = _values(cursor, f"SELECT {arrays}", start, start + _IDS_PER_QUERY)
            for part, value, kind in zip(parts, values, fields.values(), strict=True):
                part.append(_array_elements(value, kind))
    return [np.concatenate([np.empty(0, dtype=np.int64), *part]) for part in parts]


def _numbers(connection: Connection, fields: dict[str, str], condition: str) -> list[Column]:
    postgres = connection.dialect.name == POSTGRES
    return (_numbers_on_postgres if postgres else _numbers_on_sqlite)(connection, fields, condition)


def rule_keys(connection: Connection) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return ids int64[n] and keys int64[n, 2] (high, low, signed) of all rules, unordered."""
    ids, *keys = _numbers(connection, {"id": "i8", "key_high": "i8", "key_low": "i8"}, "true")
    return ids.astype(np.int64), np.stack(keys, axis=1).astype(np.int64)


def _blocks_on_postgres(connection: Connection, blocks: Sequence[int], until: int) -> tuple[list[Column], Texts, Texts]:
    # Read numbers and sides in one query, because separate queries may return rows in different orders.
    arrays = ", ".join(f"array_agg({'hiero::int' if name == 'hiero' else name})" for name in _NUMBER_COLUMNS)
    query = f"SELECT {arrays}, string_agg(source, E'\\n'), string_agg(target, E'\\n')"
    parts: list[list[Column]] = [[] for _ in _NUMBER_COLUMNS]
    sides: list[tuple[Texts, Texts]] = []
    with _binary_cursor(connection) as cursor:
        for after in blocks:
            *values, source, target = _values(cursor, query, after, min(after + IDS_PER_BLOCK, until))
            if source is None or target is None:
                continue
            for part, value, kind in zip(parts, values, _NUMBER_COLUMNS.values(), strict=True):
                part.append(_array_elements(value, kind))
            sides.append(_split_sides(connection, parts[0][-1], [source + b"\n", target + b"\n"]))
    columns = [np.concatenate([np.empty(0, dtype=np.int64), *part]) for part in parts]
    sources, targets = ([side[k] for side in sides] for k in range(2))
    return columns, concatenate_texts(sources), concatenate_texts(targets)
