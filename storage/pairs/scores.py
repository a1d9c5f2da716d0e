"""Scores of pairs, kept beside them."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, Select, select, text

from hierogram.storage.database.loading import staged_scores
from hierogram.storage.database.transactions import Writing
from hierogram.storage.records.scores import ScoreRow
from hierogram.storage.schema.score_tables import pair_scores

_COLUMNS = ScoreRow._fields


def keep(writing: Writing, rows: Sequence[ScoreRow]) -> None:
    """Keeps scores in place of those that pairs had before; pairs that are gone get none."""
    moment = writing.loader.moment
    # At most one score a pair, in the order of the table.
    by_pair = {row.pair_id: (*row[:2], moment(row.scored_at), *row[3:]) for row in rows}
    writing.loader.stage(staged_scores, (by_pair[pair_id] for pair_id in sorted(by_pair)))
    columns = ", ".join(_COLUMNS)
    changes = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[1:])
    writing.connection.execute(
        text(
            f"INSERT INTO pair_scores ({columns})"
            f" SELECT {', '.join(f's.{name}' for name in _COLUMNS)} FROM staged_scores AS s"
            " JOIN sentence_pairs AS p ON p.id = s.pair_id WHERE true"
            f" ON CONFLICT (pair_id) DO UPDATE SET {changes}"
        )
    )


def scores_by_id(connection: Connection, ids: Collection[int]) -> list[ScoreRow]:
    """The scores of those of the pairs that have one, in id order."""
    if not ids:
        return []
    # Few at a time, and mostly one after the other: a range of the index holds them all.
    chosen = set(ids)
    found = _rows(connection, _wanted().where(pair_scores.c.pair_id.between(min(chosen), max(chosen))))
    return [row for row in found if row.pair_id in chosen]


def scores_after(connection: Connection, after_id: int, limit: int) -> list[ScoreRow]:
    """Scores of pairs with an id above `after_id`, in id order."""
    return _rows(connection, _wanted().where(pair_scores.c.pair_id > after_id).limit(limit))


def _wanted() -> Select[Any]:
    return select(*(pair_scores.c[name] for name in _COLUMNS)).order_by(pair_scores.c.pair_id)


def _rows(connection: Connection, statement: Select[Any]) -> list[ScoreRow]:
    return [ScoreRow(*row) for row in connection.execute(statement)]
