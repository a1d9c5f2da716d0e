"""When pairs were last sampled, by the store's position: who has waited longest comes next."""

from sqlalchemy import Connection, text

from hierogram.storage.database.transactions import Writing
from hierogram.storage.pairs.pairs import as_rows, pair_rows
from hierogram.storage.records import SAMPLING, UNALIGNED, WAITING, PairRow
from hierogram.storage.schema.tables import resampled, sentence_pairs


def note_resampled(writing: Writing) -> None:
    """Notes the pairs of `staged_progress` as sampled at the position that this transaction makes."""
    writing.connection.execute(
        text(
            "INSERT INTO resampled (pair_id, position)"
            " SELECT pair_id, :position FROM staged_progress WHERE true ORDER BY pair_id"
            " ON CONFLICT (pair_id) DO UPDATE SET position = excluded.position"
        ),
        {"position": writing.state.position + 1},
    )


def stalest_pairs(connection: Connection, limit: int) -> list[PairRow]:
    """The settled pairs that were sampled longest ago, those first."""
    # Not "settled", as almost all pairs are: SQLite would find all of them by the index of states, and sort them.
    unsettled = (UNALIGNED, WAITING, SAMPLING)
    statement = (
        pair_rows()
        .join(resampled, resampled.c.pair_id == sentence_pairs.c.id)
        .where(sentence_pairs.c.state.not_in(unsettled))
        .order_by(resampled.c.position, resampled.c.pair_id)
        .limit(limit)
    )
    return as_rows(connection.execute(statement))
