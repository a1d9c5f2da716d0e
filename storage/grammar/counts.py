"""All rule counts of a store as arrays, read at the speed of the driver."""

import sqlite3

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from hierogram.storage.database.connection import POSTGRES
from hierogram.storage.database.transactions import read_state
from hierogram.storage.records import RuleCounts

_FIELDS = {
    "key_high": 8,
    "key_low": 8,
    "count": 8,
    "length": 4,
    "source_terminals": 4,
    "target_terminals": 4,
}
"""Columns in the order of the query, with their bytes."""

_ROW = np.dtype([(name, f"i{width}") for name, width in _FIELDS.items()])

# Postgres sends an array as a header (dimensions, nulls, type, length, lower bound), then each element after
# its width. One array for many rules costs a quarter of COPY, which has the driver receive every row by itself.
_ARRAY_HEADER_BYTES = 20
_IDS_PER_QUERY = 4_000_000


def rule_counts(connection: Connection) -> RuleCounts:
    """Every rule with a positive count, in no particular order."""
    columns = _from_postgres(connection) if connection.dialect.name == POSTGRES else _from_sqlite(connection)
    key_high, key_low, counts, lengths, source_terminals, target_terminals = columns
    return RuleCounts(
        keys=np.stack((key_high, key_low), axis=1).astype(np.int64).view(np.uint64),
        counts=counts.astype(np.int64),
        lengths=lengths.astype(np.int32),
        source_terminals=source_terminals.astype(np.int32),
        target_terminals=target_terminals.astype(np.int32),
    )


def _from_sqlite(connection: Connection) -> list[NDArray[np.signedinteger]]:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    cursor = driver.execute(f"SELECT {', '.join(_FIELDS)} FROM rules WHERE count > 0")
    rows = np.fromiter(cursor, dtype=_ROW)
    cursor.close()
    return [rows[name] for name in _FIELDS]


def _from_postgres(connection: Connection) -> list[NDArray[np.signedinteger]]:
    import psycopg

    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    arrays = ", ".join(f"array_agg({name})" for name in _FIELDS)
    query = f"SELECT {arrays} FROM rules WHERE count > 0 AND id > %s AND id <= %s"
    parts: list[list[NDArray[np.signedinteger]]] = [[] for _ in _FIELDS]
    last_id = read_state(connection).last_rule_id
    for start in range(0, last_id, _IDS_PER_QUERY):
        with driver.cursor(binary=True) as cursor:
            result = cursor.execute(query.encode(), (start, start + _IDS_PER_QUERY)).pgresult
            assert result is not None
            for n, width in enumerate(_FIELDS.values()):
                parts[n].append(_elements(result.get_value(0, n), width))
    return [np.concatenate([np.empty(0, dtype=np.int64), *part]) for part in parts]


def _elements(array: bytes | None, width: int) -> NDArray[np.signedinteger]:
    if array is None:
        return np.empty(0, dtype=np.int64)
    element = np.dtype([("width", ">i4"), ("value", f">i{width}")])
    elements: NDArray[np.signedinteger] = np.frombuffer(array, dtype=element, offset=_ARRAY_HEADER_BYTES)["value"]
    return elements
