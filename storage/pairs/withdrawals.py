"""Withdrawal of pairs with their derivations, counts and words, in one transaction."""

from collections.abc import Sequence

from sqlalchemy import select

from hierogram.storage.database.settings import read_grammar_kind
from hierogram.storage.database.transactions import StoreAccess, WriteTransaction, upsert
from hierogram.storage.exceptions import StoreError
from hierogram.storage.pairs.pairs import is_undamaged
from hierogram.storage.pairs.vocabulary import count_pair_words, count_words
from hierogram.storage.records.pairs import PairRow
from hierogram.storage.schema.tables import corpora, ingest_batches, sentence_pairs, withdrawals

_STAGED_PAIRS = "FROM staged_ids AS s JOIN sentence_pairs ON sentence_pairs.id = s.id"


class Withdrawals(StoreAccess):
    """Requests to withdraw pairs."""

    def request_withdrawals(self, pair_ids: Sequence[int]) -> list[int]:
        """Request withdrawals by the process that holds the lease. Returns the given ids that are stored, sorted."""
        with self._writing() as transaction:
            return request(transaction, pair_ids)

    def pending_withdrawals(self, limit: int) -> list[int]:
        """Return up to `limit` ids of undamaged pairs with a pending withdrawal, sorted."""
        with self._reading() as connection:
            pending = select(withdrawals.c.pair_id).where(
                withdrawals.c.done_at.is_(None), is_undamaged(withdrawals.c.pair_id)
            )
            return list(connection.scalars(pending.order_by(withdrawals.c.pair_id).limit(limit)))

    def select_pairs(
        self, *, corpus: str | None = None, origin: str | None = None, external_ids: Sequence[str] = ()
    ) -> list[int]:
        """Return the sorted ids of the pairs that satisfy all given conditions."""
        with self._reading() as connection:
            pair = sentence_pairs.c
            query = select(pair.id).order_by(pair.id)
            if corpus is not None:
                query = query.where(pair.corpus_id.in_(select(corpora.c.id).where(corpora.c.name == corpus)))
            if origin is not None:
                query = query.where(
                    pair.batch_id.in_(select(ingest_batches.c.id).where(ingest_batches.c.origin == origin))
                )
            if external_ids:
                query = query.where(pair.external_id.in_(external_ids))
            return list(connection.scalars(query))


def request(transaction: WriteTransaction, pair_ids: Sequence[int]) -> list[int]:
    """Request the withdrawal of pairs. Returns the given ids that are stored, sorted."""
    transaction.stage_ids(set(pair_ids))
    transaction.execute(
        upsert(withdrawals, f"SELECT s.id, corpus_id, batch_id, :moment, NULL {_STAGED_PAIRS} WHERE true", {}),
        moment=transaction.loader.moment(),
    )
    return sorted(transaction.execute(f"SELECT s.id {_STAGED_PAIRS}").scalars())


def withdraw(transaction: WriteTransaction, rows: Sequence[PairRow]) -> None:
    """Delete pairs. Raises `StoreError` if a pair was deleted or resampled since it was read."""
    request(transaction, [row.id for row in rows])
    sweeps = dict(transaction.execute(f"SELECT s.id, sweep {_STAGED_PAIRS}").all())
    for row in rows:
        if sweeps.get(row.id) != row.sweep:
            raise StoreError(f"pair {row.id} was sampled or withdrawn by another process since it was read: try again")
        transaction.state.count_pairs(row.state, -1)
    transaction.execute(
        f"UPDATE corpora SET pairs = pairs - d.number FROM (SELECT corpus_id, count(*) AS number {_STAGED_PAIRS}"
        " GROUP BY corpus_id) AS d WHERE d.corpus_id = corpora.id"
    )
    transaction.delete_staged(
        "damaged_pairs", "rule_pairs", "indexed_pairs", "derivations", "pair_positions", "schedule_restarts",
        "human_links", "link_corrections", "pair_scores",
    )  # fmt: skip
    transaction.delete_staged("sentence_pairs", column="id")
    transaction.execute(
        "UPDATE withdrawals SET done_at = :moment WHERE pair_id IN (SELECT id FROM staged_ids)",
        moment=transaction.loader.moment(),
    )
    from hierogram.storage.pairs.pair_words import unindex_pairs

    sources, targets = [row.source for row in rows], [row.target for row in rows]
    unindex_pairs(transaction, [row.id for row in rows], sources)
    grammar_kind = read_grammar_kind(transaction.connection)
    count_words(transaction, count_pair_words(grammar_kind, sources, targets), -1)
