"""A scratch database for one export: DuckDB, within a bound of memory; what exceeds it goes to files.

The store's rules are loaded into it once, in the order in which they lie there; joining, ranking and sorting a grammar
is its work. Everything that is computed in it is a function of the rows alone, whatever the threads: sums are of whole
numbers, and what is written is sorted by what is unique.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from hierogram.storage.exports.snapshot import Block

if TYPE_CHECKING:
    import numpy as np
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

Blocks = Iterator[Block]
Heard = Callable[[int], None]

MEMORY = 192_000_000
"""Bound of the scratch database's memory, bytes."""

_ROOM = 2.3
"""Joining, sorting and writing at once stays in memory where that is this many times as large as what was loaded."""
_ROW_BYTES = 40
"""What a row takes beside its texts, about."""

_PART_BYTES = 1 << 23
_STREAM_ROWS = 20_000
_STREAM_BYTES = 1 << 20

# No quotes and no escapes. The first line is left out: at the beginning of a file U+FEFF would be taken for a mark.
# A name such as `language=zh` in a path is not a column.
_READ = (
    "delim='\t', quote='', escape='', comment='', new_line='\\n', header=false, skip=1, auto_detect=false,"
    " strict_mode=false, max_line_size=16777216, parallel=false, hive_partitioning=false"
)
_FIRST_LINE = b"\n"
_WRITE = "FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\n', USE_TMP_FILE false"


class Scratch:
    """The scratch database; made by `scratch`."""

    def __init__(self, connection: "DuckDBPyConnection", folder: Path, memory: int) -> None:
        self._connection = connection
        self._folder = folder
        self._memory = memory
        self._loaded = 0

    def run(self, statement: str, parameters: list[object] | None = None) -> None:
        """Run a statement."""
        self._connection.execute(statement, parameters)

    def row(self, statement: str) -> tuple[int, ...]:
        """Return the one row that a query gives."""
        found = self._connection.execute(statement).fetchone()
        assert found is not None
        return found

    def columns(self, query: str) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a query, some thousand at a time."""
        cursor = self._connection.cursor()
        cursor.execute(query)
        while rows := cursor.fetchmany(_STREAM_ROWS):
            yield rows
        cursor.close()

    def arrange(self, table: str, query: str, order: str) -> None:
        """Make a table of a query's rows in an order, in which `lines` and `numbers` then give them."""
        self.run("SET preserve_insertion_order = true")
        self.run(f"CREATE TABLE {table} AS {query} ORDER BY {order}")

    def numbers(self, table: str, names: Sequence[str]) -> "NDArray[np.float64]":
        """Return columns of numbers of an arranged table, float64[rows, names]."""
        import numpy as np

        columns = ", ".join(f"CAST({name} AS DOUBLE) AS {name}" for name in names)
        found = self._connection.execute(f"SELECT {columns} FROM {table}").fetchnumpy()
        return np.stack([np.asarray(found[name], np.float64) for name in names], axis=1)

    def stage(self, name: str, query: str, *used: str) -> None:
        """Make a step between the rules and what is written, by a name.

        Where there is room for all steps at once it is a view. Otherwise a table, and the tables that were `used` up
        go, so that no two steps share the bound of memory.
        """
        if self._loaded * _ROOM <= self._memory:
            self.run(f"CREATE VIEW {name} AS {query}")
            return
        self.run(f"CREATE TABLE {name} AS {query}")
        for table in used:
            self.run(f"DROP TABLE {table}")

    def lines(self, query: str) -> Iterator[bytes]:
        """Yield a query's one column of texts in its order, as lines, in pieces that end anywhere.

        The database writes them into a pipe while they are taken out.
        """
        with ExitStack() as stack:
            read_end, write_end = os.pipe()
            taken = stack.enter_context(open(read_end, "rb", buffering=0))
            writer = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="export"))
            # Closed before the thread is waited for, so that a reader who stops early ends the writing too.
            stack.callback(taken.close)
            written = writer.submit(self._write_lines, query, write_end)
            while piece := taken.read(_STREAM_BYTES):
                yield piece
            written.result()

    def _write_lines(self, query: str, pipe: int) -> None:
        try:
            self.run("SET preserve_insertion_order = true")
            self.run(f"COPY ({query}) TO '/dev/fd/{pipe}' ({_WRITE})")
        finally:
            os.close(pipe)

    def load(self, table: str, columns: dict[str, str], blocks: Blocks, heard: Heard | None = None) -> None:
        """Append blocks to a table (made if new) with the columns, name to type. Empty values come as NULL.

        The next part is read from the store while the last one is taken in.
        """
        made = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        self.run(f"CREATE TABLE IF NOT EXISTS {table} ({made})")
        with ThreadPoolExecutor(1, thread_name_prefix="export") as reader:
            number = 0
            waiting = reader.submit(self._write_part, blocks, number, len(columns))
            while (part := waiting.result()) is not None:
                number += 1
                waiting = reader.submit(self._write_part, blocks, number, len(columns))
                paths, reached = part
                files = (
                    f"read_csv({quoted(str(path))}, {_READ}, columns={{'{name}': '{kind}'}})"
                    for path, (name, kind) in zip(paths, columns.items(), strict=True)
                )
                # Files of one column each, put side by side.
                self.run(f"INSERT INTO {table} SELECT * FROM {' POSITIONAL JOIN '.join(files)}")
                for path in paths:
                    path.unlink()
                if heard:
                    heard(reached)

    def _write_part(self, blocks: Blocks, number: int, columns: int) -> tuple[list[Path], int] | None:
        paths = [self._folder / f"{number}.{column}" for column in range(columns)]
        size = reached = 0
        with ExitStack() as stack:
            files: list[BinaryIO] = [stack.enter_context(path.open("wb")) for path in paths]
            for file in files:
                file.write(_FIRST_LINE)
            for rows, block in blocks:
                reached = rows
                for file, column in zip(files, block, strict=True):
                    size += file.write(column.encode()) + file.write(b"\n")
                self._loaded += _ROW_BYTES * (block[0].count("\n") + 1)
                if size >= _PART_BYTES:
                    break
        self._loaded += size
        return (paths, reached) if size else None

    def insert(self, table: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Append a few thousand rows of simple values to a table, by way of files."""
        kinds = {name: kind for name, kind, *_ in self._connection.execute(f"DESCRIBE {table}").fetchall()}
        block = ["\n".join(map(str, column)) for column in zip(*rows, strict=True)]
        self.load(table, kinds, iter([(len(rows), block)]))


def quoted(value: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"


@contextmanager
def scratch(folder: Path, memory: int = MEMORY) -> Iterator[Scratch]:
    """A scratch database that keeps its files in the folder."""
    import duckdb

    spill = folder / "spill"
    spill.mkdir()
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{memory}B",
            "threads": max(1, min(2, os.cpu_count() or 1)),
            "temp_directory": str(spill),
            "preserve_insertion_order": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        },
    )
    try:
        yield Scratch(connection, folder, memory)
    finally:
        connection.close()
