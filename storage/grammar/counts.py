"""Bulk reads of rules as columns.

On Postgres, columns are read as arrays of many rows. This is four times as fast as COPY, because the driver receives
the rows of a COPY one by one.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from hierogram.samplers.grammar.columns import concatenate_texts, split_lines
from hierogram.storage.database.connection import POSTGRES
from hierogram.storage.database.transactions import IDS_PER_BLOCK, largest_id
from hierogram.storage.records.columns import NUMBERS, SIDES, RuleCounts, RuleDeltas, StoredRules

Column = NDArray[Any]
Block = tuple[list[Column], Sequence[bytes]]
"""Numeric columns of the rules in a range of ids, and their sides, one per line without final newline.

A line feed in a side of a damaged store is replaced by a space.
"""

_KEY_COLUMNS = {"id": "i8", "key_high": "i8", "key_low": "i8"}
_NUMBER_COLUMNS = _KEY_COLUMNS | NUMBERS
"""Columns with their dtypes: id and key, then the numeric columns in the order of `RuleDeltas`."""

_COUNT_COLUMNS = {
    name: _NUMBER_COLUMNS[name]
    for name in ("key_high", "key_low", "count", "length", "source_terminals", "target_terminals")
}

IDS_PER_RANGE = 1 << 17
"""Ids per range when reading all rules. The rules of a range take about 30 MB of memory."""


def rule_counts(connection: Connection) -> RuleCounts:
    """Return all rules with a positive count, in any order."""
    key_high, key_low, *columns = _numbers(connection, _COUNT_COLUMNS, "count > 0")
    return RuleCounts(np.stack((key_high, key_low), axis=1).view(np.uint64), *columns)


def rule_keys(connection: Connection) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the ids int64[n] and the keys int64[n, 2] (high, low, signed) of all rules, in any order."""
    ids, *keys = _numbers(connection, _KEY_COLUMNS, "true")
    return ids, np.stack(keys, axis=1)


def stored_rules(connection: Connection, after: int, until: int) -> StoredRules:
    """Return the rules with `after` < id <= `until`, in any order."""
    blocks = [
        (numbers, [split_lines(side + b"\n") for side in sides])
        for numbers, sides in _blocks(connection, range(after, until, IDS_PER_BLOCK), _NUMBER_COLUMNS, "true", SIDES)
        if len(numbers[0])
    ]
    ids, key_high, key_low, *columns = _join([numbers for numbers, _ in blocks], _NUMBER_COLUMNS)
    sources, targets = (concatenate_texts([sides[k] for _, sides in blocks]) for k in range(2))
    keys = np.stack((key_high, key_low), axis=1).view(np.uint64)
    return StoredRules(ids, RuleDeltas(keys, sources, targets, *columns))


def _numbers(connection: Connection, fields: Mapping[str, str], condition: str) -> list[Column]:
    ids = range(0, largest_id(connection, "rules"), IDS_PER_RANGE)
    return _join((numbers for numbers, _ in _blocks(connection, ids, fields, condition)), fields)


def _join(parts: Iterable[list[Column]], fields: Mapping[str, str]) -> list[Column]:
    empty = [np.empty(0, kind) for kind in fields.values()]
    return [np.concatenate(columns) for columns in zip(empty, *parts, strict=True)]


def _blocks(
    connection: Connection, ids: range, fields: Mapping[str, str], condition: str, sides: Sequence[str] = ()
) -> Iterator[Block]:
    """Yield the rules with `after` < id <= `after` + `ids.step` for each `after` of `ids`."""
    read = _blocks_on_postgres if connection.dialect.name == POSTGRES else _blocks_on_sqlite
    return read(connection, ids, fields, condition, sides)


def _blocks_on_sqlite(
    connection: Connection, ids: range, fields: Mapping[str, str], condition: str, sides: Sequence[str]
) -> Iterator[Block]:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    in_step = "FROM rules WHERE id > ? AND id <= ?"
    texts = ", ".join(f"CAST(group_concat(replace({side}, '\n', ' '), '\n') AS BLOB)" for side in sides)
    for after in ids:
        bounds = after, min(after + ids.step, ids.stop)
        found = driver.execute(f"SELECT {', '.join(fields)} {in_step} AND {condition} ORDER BY id", bounds)
        rows = np.fromiter(found, list(fields.items()))
        joined = driver.execute(f"SELECT {texts} {in_step}", bounds).fetchone() if sides else ()
        yield [rows[name] for name in fields], joined


def _blocks_on_postgres(
    connection: Connection, ids: range, fields: Mapping[str, str], condition: str, sides: Sequence[str]
) -> Iterator[Block]:
    import psycopg

    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    # Read numbers and sides in one query, because separate queries may return rows in different orders.
    aggregates = [f"array_agg({name}) FILTER (WHERE {condition})" for name in fields]
    aggregates += [f"string_agg(replace({side}, E'\\n', ' '), E'\\n')" for side in sides]
    query = f"SELECT {', '.join(aggregates)} FROM rules WHERE id > %s AND id <= %s".encode()
    with driver.cursor(binary=True) as cursor:
        for after in ids:
            result = cursor.execute(query, (after, min(after + ids.step, ids.stop))).pgresult
            assert result is not None
            values: list[Any] = [result.get_value(0, n) for n in range(result.nfields)]
            yield list(map(_array_elements, values, fields.values())), values[len(fields) :]


_ARRAY_HEADER_BYTES = 20
"""Size of the header of a binary array: dimensions, nulls, type, length and lower bound, 4 bytes each."""


def _array_elements(array: bytes | None, kind: str) -> Column:
    """Return the elements of a binary Postgres array with a dtype such as `i8`. NULL has no elements."""
    if array is None:
        return np.empty(0, kind)
    elements = np.frombuffer(array, [("width", ">i4"), ("value", f">{kind}")], offset=_ARRAY_HEADER_BYTES)
    return elements["value"]
