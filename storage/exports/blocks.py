"""Whole tables as text, some thousand rows at a time: what exports read.

A block is a text for each column, a value a line, put together by the database itself: to Python, one value a column. A
million rows as tuples cost Python more than everything that an export does with them, and hold its lock meanwhile.
"""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, select, text

from hierogram.storage.database.connection import POSTGRES, SQLITE
from hierogram.storage.database.transactions import read_state
from hierogram.storage.schema.tables import corpora

Block = tuple[int, Sequence[str]]
"""The rows of all blocks up to this one, and its columns, a value a line; the last line has no end."""

_IDS_A_BLOCK = 4_096
"""Few enough that a block of the longest rules stays below SQLite's limit for one value."""

PAIR_COLUMNS = ("source", "target", "alignment")
"""Columns of `pair_blocks`."""


def rule_blocks(connection: Connection, columns: Sequence[str], *, sampled: bool) -> Iterator[Block]:
    """The columns of all rules in use, then the count, or, `sampled`, expected uses in units of 1/`ONE_USE`."""
    count = "sampled_count" if sampled else "count"
    last = read_state(connection).last_rule_id
    return _blocks(connection, "rules", (*columns, count), last, f"AND {count} > 0")


def pair_blocks(connection: Connection, corpus_id: int | None = None) -> Iterator[Block]:
    """`PAIR_COLUMNS` of all aligned pairs, or of those of a corpus; blocks as in `rule_blocks`."""
    last = read_state(connection).last_pair_id
    only = "" if corpus_id is None else f" AND corpus_id = {int(corpus_id)}"
    return _blocks(connection, "sentence_pairs", PAIR_COLUMNS, last, f"AND state <> 'unaligned'{only}")


TERM_COLUMNS = ("id", "corpus_id", "day", "source", "target", "alignment")
"""Columns of `dated_pair_blocks`; `day` counts from 1970-01-01."""

_DAYS = {
    POSTGRES: "CAST(extract(epoch FROM date_trunc('day', added_at AT TIME ZONE 'UTC')) / 86400 AS bigint)",
    SQLITE: "CAST(julianday(date(added_at)) - 2440587.5 AS integer)",
}


def dated_pair_blocks(connection: Connection, corpus_id: int | None = None) -> Iterator[Block]:
    """`TERM_COLUMNS` of all aligned pairs, or of those of a corpus; blocks as in `rule_blocks`."""
    last = read_state(connection).last_pair_id
    only = "" if corpus_id is None else f" AND corpus_id = {int(corpus_id)}"
    day = _DAYS[connection.dialect.name]
    columns = [day if name == "day" else name for name in TERM_COLUMNS]
    return _blocks(connection, "sentence_pairs", columns, last, f"AND state <> 'unaligned'{only}")


def corpus_number(connection: Connection, name: str) -> int | None:
    """The id of the corpus with the name; None where there is none."""
    return connection.scalar(select(corpora.c.id).where(corpora.c.name == name))


def _blocks(connection: Connection, table: str, columns: Sequence[str], last: int, condition: str) -> Iterator[Block]:
    # Each column by itself, since putting columns together row by row takes longer than all else here. No column has
    # NULLs, which would be left out.
    postgres = connection.dialect.name == POSTGRES
    joined = (
        f"string_agg(CAST({name} AS text), '\n')" if postgres else f"group_concat({name}, '\n')" for name in columns
    )
    statement = text(f"SELECT {', '.join(joined)} FROM {table} WHERE id > :after AND id <= :until {condition}")
    rows = 0
    for after in range(0, last, _IDS_A_BLOCK):
        until = min(after + _IDS_A_BLOCK, last)
        [block] = connection.execute(statement, {"after": after, "until": until})
        if block[0] is not None:
            rows += str(block[0]).count("\n") + 1
            yield rows, block
