"""All rule counts of a store as arrays, read at the speed of the driver."""

import sqlite3

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from hierogram.storage.connection import POSTGRES
from hierogram.storage.records import RuleCounts

_QUERY = "SELECT key_high, key_low, count, length, source_terminals, target_terminals FROM rules WHERE count > 0"
_FIELDS = ("key_high", "key_low", "count", "length", "source_terminals", "target_terminals")
_WIDTHS = (8, 8, 8, 4, 4, 4)

# COPY's binary form: a header, then each row as its number of fields and each field after its width.
_COPY_HEADER_BYTES = 19
_COPY_TRAILER_BYTES = 2
_COPY_ROW = np.dtype(
    [("fields", ">i2")]
    + [
        part
        for name, width in zip(_FIELDS, _WIDTHS, strict=True)
        for part in ((f"{name}_width", ">i4"), (name, f">i{width}"))
    ]
)
_ROW = np.dtype([(name, f"<i{width}") for name, width in zip(_FIELDS, _WIDTHS, strict=True)])


def rule_counts(connection: Connection) -> RuleCounts:
    """Every rule with a positive count, in the order of the table."""
    rows = _from_postgres(connection) if connection.dialect.name == POSTGRES else _from_sqlite(connection)
    keys = np.empty((len(rows), 2), dtype=np.uint64)
    keys[:, 0] = rows["key_high"].astype(np.int64).view(np.uint64)
    keys[:, 1] = rows["key_low"].astype(np.int64).view(np.uint64)
    return RuleCounts(
        keys=keys,
        counts=rows["count"].astype(np.int64),
        lengths=rows["length"].astype(np.int32),
        source_terminals=rows["source_terminals"].astype(np.int32),
        target_terminals=rows["target_terminals"].astype(np.int32),
    )


def _from_sqlite(connection: Connection) -> NDArray[np.void]:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    cursor = driver.execute(_QUERY)
    rows: NDArray[np.void] = np.fromiter(cursor, dtype=_ROW)
    cursor.close()
    return rows


def _from_postgres(connection: Connection) -> NDArray[np.void]:
    import psycopg

    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    with (
        driver.cursor() as cursor,
        cursor.copy(f"COPY ({_QUERY}) TO STDOUT (FORMAT BINARY)".encode()) as copy,
    ):
        data = b"".join(copy)
    return np.frombuffer(
        data,
        dtype=_COPY_ROW,
        offset=_COPY_HEADER_BYTES,
        count=(len(data) - _COPY_HEADER_BYTES - _COPY_TRAILER_BYTES) // _COPY_ROW.itemsize,
    )
