"""Where pairs came from."""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from hierogram.storage.records import PairPlace
from hierogram.storage.schema.tables import corpora, ingest_batches, sentence_pairs

_IDS_A_QUERY = 1_000


def places(connection: Connection, pair_ids: Sequence[int]) -> dict[int, PairPlace]:
    """Where the pairs with these ids came from, by id; ids without a pair are left out."""
    found = {}
    wanted = sorted(set(pair_ids))
    statement = (
        select(sentence_pairs.c.id, sentence_pairs.c.external_id, corpora.c.name, ingest_batches.c.origin)
        .join(corpora, corpora.c.id == sentence_pairs.c.corpus_id)
        .join(ingest_batches, ingest_batches.c.id == sentence_pairs.c.batch_id)
    )
    for start in range(0, len(wanted), _IDS_A_QUERY):
        chunk = wanted[start : start + _IDS_A_QUERY]
        for row in connection.execute(statement.where(sentence_pairs.c.id.in_(chunk))):
            found[row.id] = PairPlace(row.external_id, row.name, row.origin)
    return found
