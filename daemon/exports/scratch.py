"""Temporary DuckDB database for one export or comparison, which spills to files.

Exports do not depend on the number of threads: sums are integers, and output is sorted by unique keys.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hierogram.daemon.prefetch import prefetch
from hierogram.samplers.kernel import Report
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.records.grammar import CountKind

if TYPE_CHECKING:
    import numpy as np
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from hierogram.daemon.arrow import ArrowTable
    from hierogram.samplers.grammar.columns import Texts


Blocks = Iterator["tuple[int, Sequence[str | Texts | NDArray[Any]]]"]
"""Row blocks: `(rows or pairs read so far, columns)`. A string has one text or integer per line."""

MIN_MEMORY, _MAX_MEMORY = 256_000_000, 1_000_000_000
"""Lowest and highest memory limit of the database, in bytes. The limit grows with the number of rules."""
_MEMORY_PER_RULE = 1_000

_MEMORY_PER_LOADED_BYTE = 8.0
"""Minimum ratio of the memory limit to the size of the loaded rows at which all queries run in memory."""
_NUMBER_BYTES = 15
"""Approximate size of a number in a loaded row, in bytes, including a part of the overhead per row."""

_INSERT_BYTES = 1 << 23
"""Approximate size of the rows of one INSERT, in bytes."""
_STREAM_ROWS = 20_000
_STREAM_BYTES = 1 << 20
_WRITE_OPTIONS = "FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\n', USE_TMP_FILE false"


class Scratch:
    """Temporary database, opened by `open_scratch`."""

    def __init__(self, connection: "DuckDBPyConnection", memory: int) -> None:
        self._connection = connection
        self._memory = memory
        self._loaded = 0

    def run(self, statement: str) -> None:
        """Run a statement."""
        self._connection.execute(statement)

    def row(self, statement: str) -> tuple[int, ...]:
        """Return the only row of a query."""
        row = self._connection.execute(statement).fetchone()
        assert row is not None
        return row

    def row_blocks(self, query: str) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a query in lists of up to 20,000. Other statements may run in between."""
        cursor = self._connection.cursor()
        cursor.execute(query)
        while rows := cursor.fetchmany(_STREAM_ROWS):
            yield rows
        cursor.close()

    def numeric_columns(self, table: str, names: Sequence[str]) -> "NDArray[np.float64]":
        """Return numeric columns of a table or subquery as float64[rows, columns]."""
        import numpy as np

        columns = ", ".join(f"CAST({name} AS DOUBLE) AS {name}" for name in names)
        arrays = self._connection.execute(f"SELECT {columns} FROM {table}").fetchnumpy()
        return np.stack([np.asarray(arrays[name], np.float64) for name in names], axis=1)

    def stage(self, name: str, query: str, *inputs: str) -> None:
        """Create a result as a view or, if the loaded rows are large, as a table that replaces its `inputs`."""
        if self._loaded * _MEMORY_PER_LOADED_BYTE <= self._memory:
            self.run(f"CREATE VIEW {name} AS {query}")
            return
        self.run(f"CREATE TABLE {name} AS {query}")
        for table in inputs:
            self.run(f"DROP TABLE {table}")

    def byte_blocks(self, query: str) -> Iterator[bytes]:
        """Yield the lines of a query while it runs. Read all blocks before the next statement."""
        with ExitStack() as stack:
            read_end, write_end = os.pipe()
            stream = stack.enter_context(open(read_end, "rb", buffering=0))
            writer = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="export"))
            # Close the pipe before joining the thread, so that the writer also stops if the reader stops early.
            stack.callback(stream.close)
            written = writer.submit(self._write_lines, query, write_end)
            while piece := stream.read(_STREAM_BYTES):
                yield piece
            written.result()

    def _write_lines(self, query: str, pipe: int) -> None:
        try:
            self.run("SET preserve_insertion_order = true")
            self.run(f"COPY ({query}) TO '/dev/fd/{pipe}' ({_WRITE_OPTIONS})")
        finally:
            os.close(pipe)

    def load(self, table: str, columns: dict[str, str], blocks: Blocks, progress: Report | None = None) -> None:
        """Append blocks to a table. If the table is missing, create it with `columns` (name to type)."""
        definitions = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        self.run(f"CREATE TABLE IF NOT EXISTS {table} ({definitions})")
        with closing(prefetch(_arrow_tables(blocks, columns))) as tables:
            for reached, size, rows in tables:
                self._connection.register("new_rows", rows)
                self.run(f"INSERT INTO {table} SELECT * FROM new_rows")
                self._loaded += size
                if progress:
                    progress(reached)


def _arrow_tables(blocks: Blocks, types: dict[str, str]) -> "Iterator[tuple[int, int, ArrowTable]]":
    """Join blocks to tables of a few megabytes. Yields (rows or pairs read so far, bytes, table)."""
    import numpy as np

    from hierogram.daemon.arrow import ArrowTable
    from hierogram.samplers.grammar.columns import Texts, split_lines

    size, batches = 0, []
    for reached, block in blocks:
        columns: dict[str, Texts | NDArray[Any]] = {}
        for (name, type), column in zip(types.items(), block, strict=True):
            if not isinstance(column, str):
                columns[name] = column
            elif type == "VARCHAR":
                columns[name] = split_lines(f"{column}\n".encode())
            else:
                columns[name] = np.fromstring(column, np.int64, sep="\n")
        for values in columns.values():
            size += len(values.content) - values.size if isinstance(values, Texts) else _NUMBER_BYTES * len(values)
        batches.append(columns)
        if size >= _INSERT_BYTES:
            yield reached, size, ArrowTable(*batches)
            size, batches = 0, []
    if batches:
        yield reached, size, ArrowTable(*batches)


def memory_for(rules: int) -> int:
    """Return the memory limit in bytes of an export, given the number of rules in use."""
    return min(max(MIN_MEMORY, _MEMORY_PER_RULE * rules), _MAX_MEMORY)


@contextmanager
def open_scratch(folder: Path, memory: int = MIN_MEMORY) -> Iterator[Scratch]:
    """Open an in-memory database that spills to `folder/spill`, and close it on exit."""
    import duckdb

    spill = folder / "spill"
    spill.mkdir()
    config: dict[str, Any] = {
        "memory_limit": f"{memory}B",
        "threads": max(1, min(2, os.cpu_count() or 1)),
        "temp_directory": str(spill),
        "preserve_insertion_order": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    with duckdb.connect(":memory:", config=config) as connection:
        yield Scratch(connection, memory)


SIDE_COLUMNS = {"source": "VARCHAR", "target": "VARCHAR"}
SHAPE_COLUMNS = dict.fromkeys(
    ("scope", "nonterminals", "source_terminals", "target_terminals", "minimal_uses"), "INTEGER"
)
RULE_COLUMNS = SIDE_COLUMNS | SHAPE_COLUMNS | {"uses": "BIGINT"}
"""Columns of the table `loaded` with their types, described in `hierogram.daemon.exports.formats`."""


def load_rules(scratch: Scratch, snapshot: Snapshot, count_kind: CountKind, progress: Report | None = None) -> None:
    """Create the view `rules` of the rules with uses of this kind. Their alignments are empty."""
    blocks = snapshot.rule_blocks((*SIDE_COLUMNS, *SHAPE_COLUMNS), count_kind)
    scratch.load("loaded", RULE_COLUMNS, blocks, progress)
    scratch.run(RULES_VIEW)


RULES_VIEW = "CREATE VIEW rules AS SELECT rowid AS id, '' AS alignment, * FROM loaded"
"""Statement that creates the view `rules`, which adds ids and empty alignments to the table `loaded`."""
