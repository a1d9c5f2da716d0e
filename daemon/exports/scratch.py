"""A scratch database for one export: DuckDB, within a bound of memory; what exceeds it goes to files.

The store's rules are loaded into it once, in the order in which they lie there; joining, ranking and sorting a grammar
is its work. Everything that is computed in it is a function of the rows alone, whatever the threads: sums are of whole
numbers, and what is written is sorted by what is unique.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Blocks = Iterator[tuple[int, str]]
Heard = Callable[[int], None]

MEMORY = "208MB"
"""Bound of the scratch database's memory."""

_PART_BYTES = 1 << 24
_STREAM_ROWS = 20_000
_TAB = "\t"


class Scratch:
    """The scratch database; made by `scratch`."""

    def __init__(self, connection: "DuckDBPyConnection", folder: Path) -> None:
        self._connection = connection
        self._folder = folder

    def run(self, statement: str, parameters: list[object] | None = None) -> None:
        """Runs a statement."""
        self._connection.execute(statement, parameters)

    def row(self, statement: str) -> tuple[int, ...]:
        """The one row that a query gives."""
        found = self._connection.execute(statement).fetchone()
        assert found is not None
        return found

    def columns(self, query: str) -> Iterator[list[tuple[object, ...]]]:
        """The rows of a query, some thousand at a time."""
        cursor = self._connection.cursor()
        cursor.execute(query)
        while rows := cursor.fetchmany(_STREAM_ROWS):
            yield rows
        cursor.close()

    def texts(self, query: str) -> Iterator[list[str]]:
        """The first column of a query's rows, some thousand at a time."""
        for rows in self.columns(query):
            yield [row[0] for row in rows]  # type: ignore[misc]

    def load(self, table: str, columns: dict[str, str], blocks: Blocks, heard: Heard | None = None) -> None:
        """Appends blocks of tab-separated lines to a table (made if new) with the columns, name to type.

        The next part is read from the store while the last one is taken in.
        """
        made = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        self.run(f"CREATE TABLE IF NOT EXISTS {table} ({made})")
        read = ", ".join(f"'{name}': '{kind}'" for name, kind in columns.items())
        with ThreadPoolExecutor(1, thread_name_prefix="export") as reader:
            number = 0
            waiting = reader.submit(self._write_part, blocks, number)
            while (part := waiting.result()) is not None:
                number += 1
                waiting = reader.submit(self._write_part, blocks, number)
                path, reached = part
                self.run(
                    f"INSERT INTO {table} SELECT * FROM read_csv({quoted(str(path))}, delim='\t', quote='', escape='',"
                    " comment='', new_line='\\n', header=false, auto_detect=false, strict_mode=false,"
                    f" max_line_size=16777216, columns={{{read}}})"
                )
                path.unlink()
                if heard:
                    heard(reached)

    def _write_part(self, blocks: Blocks, number: int) -> tuple[Path, int] | None:
        path = self._folder / f"{number}.tsv"
        size = reached = 0
        with path.open("wb") as file:
            for reached, lines in blocks:  # noqa: B007
                size += file.write(lines.encode())
                if size >= _PART_BYTES:
                    break
        return (path, reached) if size else None

    def insert(self, table: str, rows: list[tuple[object, ...]]) -> None:
        """Appends a few thousand rows of simple values to a table, by way of a file."""
        lines = "".join(_TAB.join(map(str, row)) + "\n" for row in rows)
        kinds = {name: kind for name, kind, *_ in self._connection.execute(f"DESCRIBE {table}").fetchall()}
        self.load(table, kinds, iter([(len(rows), lines)]))


def quoted(value: str) -> str:
    """A text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"


@contextmanager
def scratch(folder: Path, memory: str = MEMORY) -> Iterator[Scratch]:
    """A scratch database that keeps its files in the folder."""
    import duckdb

    spill = folder / "spill"
    spill.mkdir()
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": memory,
            "threads": max(1, min(2, os.cpu_count() or 1)),
            "temp_directory": str(spill),
            "preserve_insertion_order": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        },
    )
    try:
        yield Scratch(connection, folder)
    finally:
        connection.close()
