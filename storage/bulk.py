"""Whole tables as text, a block of lines at a time: what exports read.

A row a line, columns separated by tabs, put together by the database itself. A million rows as tuples cost Python more
than everything that an export does with them, and hold its lock meanwhile; a block is one value.
"""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, select, text

from hierogram.storage.connection import POSTGRES
from hierogram.storage.schema import corpora, rules
from hierogram.storage.transactions import read_state

_IDS_A_BLOCK = 4_096
"""Few enough that a block of the longest rules stays below SQLite's limit for one value."""

RULE_COLUMNS = (
    "id",
    "source",
    "target",
    "scope",
    "nonterminals",
    "source_terminals",
    "target_terminals",
    "alignment",
)
"""Columns of `rule_blocks`, before the count; `alignment` is empty where the store does not know it."""

PAIR_COLUMNS = ("source", "target", "alignment")
"""Columns of `pair_blocks`."""


def rule_blocks(connection: Connection, *, sampled: bool) -> Iterator[tuple[int, str]]:
    """All rules with a count (over the samples, if `sampled`): in each block, how far in ids it reaches, and its lines.

    The columns are `RULE_COLUMNS` and the count.
    """
    count = "sampled_count" if sampled else "count"
    last = read_state(connection).last_rule_id
    known = (name if name in rules.c else "''" for name in RULE_COLUMNS)
    return _blocks(connection, "rules", (*known, count), last, f"AND {count} > 0")


def pair_blocks(connection: Connection, corpus_id: int | None = None) -> Iterator[tuple[int, str]]:
    """All aligned pairs, or those of a corpus, with `PAIR_COLUMNS`; blocks as in `rule_blocks`."""
    last = read_state(connection).last_pair_id
    only = "" if corpus_id is None else f" AND corpus_id = {int(corpus_id)}"
    return _blocks(connection, "sentence_pairs", PAIR_COLUMNS, last, f"AND state <> 'unaligned'{only}")


def corpus_number(connection: Connection, name: str) -> int | None:
    """The id of the corpus with the name; None where there is none."""
    return connection.scalar(select(corpora.c.id).where(corpora.c.name == name))


def _blocks(
    connection: Connection, table: str, columns: Sequence[str], last: int, condition: str
) -> Iterator[tuple[int, str]]:
    postgres = connection.dialect.name == POSTGRES
    join, letter = ("string_agg", "chr") if postgres else ("group_concat", "char")
    line = f" || {letter}(9) || ".join(columns)
    statement = text(f"SELECT {join}({line}, {letter}(10)) FROM {table} WHERE id > :after AND id <= :until {condition}")
    for after in range(0, last, _IDS_A_BLOCK):
        until = min(after + _IDS_A_BLOCK, last)
        lines = connection.scalar(statement, {"after": after, "until": until})
        if lines:
            yield until, lines + "\n"
