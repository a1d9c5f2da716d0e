"""Command that runs SQL queries: sql."""

import csv
import io
import json
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from hierogram.daemon.cli.common import interruptible, open_chosen_store, plural, print_json, print_note, print_table
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.files import atomic_write
from hierogram.daemon.shared_options import LIMIT, OUTPUT, AsJson
from hierogram.storage.options import Option

if TYPE_CHECKING:
    from hierogram.storage.browsing.sql_runner import SpooledResult

_TIMEOUT_SECONDS = 3600.0
_STANDARD_OUTPUT = "-"
_SUFFIXES = (".csv", ".json", ".parquet")


@with_options
def sql(
    context: typer.Context,
    query: Annotated[
        str | None,
        Option(
            "A SELECT, or several separated by semicolons. Default: standard input.", metavar="SQL", positional=True
        ),
    ] = None,
    limit: Annotated[int | None, LIMIT] = None,
    as_json: AsJson = False,
    output: Annotated[str, OUTPUT] = _STANDARD_OUTPUT,
) -> None:
    """Run read-only SQL queries on the store.

    Prints a table to a terminal, tab-separated values elsewhere, or a list of objects with --json. The suffix of the
    output file must be .csv, .json or .parquet. See docs/sql.md for example queries, and `SELECT * FROM catalog` for
    all tables and columns.
    """
    suffix = Path(output).suffix
    to_file = output != _STANDARD_OUTPUT
    if to_file and suffix not in _SUFFIXES:
        raise UsageError(f"{output}: unknown suffix: expected {', '.join(_SUFFIXES)}")
    if to_file and as_json:
        raise UsageError("--json and --output are mutually exclusive")
    statements = split_statements(sys.stdin.read() if query is None or query == "-" else query)
    if not statements:
        raise UsageError("no query: give a SELECT as the argument or on standard input")
    if to_file and len(statements) > 1:
        raise UsageError(f"--output requires exactly one query, got {len(statements)}")
    with interruptible("the query was canceled"), open_chosen_store(context) as opened:
        for number, statement in enumerate(statements):
            with closing(opened.open_query_result(statement, limit=limit, seconds=_TIMEOUT_SECONDS)) as result:
                if to_file:
                    rows = write_result(result, Path(output))
                    print_note(f"{output}: {plural(rows, 'row')}")
                elif as_json:
                    print_json(list(_dictionaries(result)))
                else:
                    if number:
                        print()
                    _print_result(result)
                if result.more and limit is not None:
                    print_note(f"only the first {plural(limit, 'row')} (--limit)")
                if result.truncated:
                    print_note(f"{plural(result.truncated, 'long value')} truncated to 10,000 characters")


def split_statements(text: str) -> list[str]:
    """Return the SQL statements of a text, without their semicolons."""
    statements, current = [], ""
    for part in text.split(";"):
        current += part
        # Semicolons in literals and comments do not end a statement.
        if sqlite3.complete_statement(current + ";"):
            statements.append(current)
            current = ""
        else:
            current += ";"
    statements.append(current.removesuffix(";"))
    return [statement.strip() for statement in statements if statement.strip()]


def write_result(result: "SpooledResult", path: Path) -> int:
    """Write the rows to a .csv, .json or .parquet file atomically, and return their number."""
    with atomic_write(path) as file:
        if path.suffix == ".parquet":
            _write_parquet(result, file)
        else:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
            if path.suffix == ".csv":
                writer = csv.writer(text)
                writer.writerow(result.columns)
                writer.writerows(map(json.loads, result.lines()))
            else:
                objects = (json.dumps(row, ensure_ascii=False) for row in _dictionaries(result))
                text.write("[")
                text.writelines(f"{',' if number else ''}\n{row}" for number, row in enumerate(objects))
                text.write("\n]\n")
            text.detach()
    return sum(1 for _ in result.lines())


def _dictionaries(result: "SpooledResult") -> Iterator[dict[str, object]]:
    return (dict(zip(result.columns, json.loads(line), strict=True)) for line in result.lines())


def _write_parquet(result: "SpooledResult", file: BinaryIO) -> None:
    import duckdb

    columns = ", ".join('"' + column.replace('"', '""') + '"' for column in result.columns)
    with tempfile.TemporaryDirectory() as folder, closing(duckdb.connect()) as connection:
        lines, parquet = Path(folder, "rows.json"), Path(folder, "rows.parquet")
        with lines.open("w", encoding="utf-8") as rows:
            # Write a first row with every column, so that an empty result also has columns. It is skipped below.
            rows.write(json.dumps(dict.fromkeys(result.columns)) + "\n")
            for row in _dictionaries(result):
                rows.write(json.dumps(row, ensure_ascii=False) + "\n")
        # Derive the column types from all rows, because a later row may contain a value of another type.
        content = f"read_json('{lines}', format = 'newline_delimited', sample_size = -1)"
        connection.sql(f"SELECT {columns} FROM {content} OFFSET 1").write_parquet(str(parquet), compression="zstd")
        with parquet.open("rb") as source:
            shutil.copyfileobj(source, file)


def _print_result(result: "SpooledResult") -> None:
    rows = result.rows
    numeric = [
        k
        for k in range(len(result.columns))
        if any(row[k] is not None for row in rows) and all(isinstance(row[k], int | float | None) for row in rows)
    ]
    print_table(result.columns, [[_format_cell(cell) for cell in row] for row in rows], numeric)


def _format_cell(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.6g}"
    # Escape tabs and line breaks, because they would look like the next cell or row.
    return str(cell).replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
