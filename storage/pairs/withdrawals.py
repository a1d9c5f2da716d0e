"""Withdrawal of pairs with their derivations, counts and words, in one transaction."""

from collections.abc import Sequence

from sqlalchemy import func, select, text, update

from hierogram.storage.database.settings import read_grammar_kind
from hierogram.storage.database.transactions import (
    StoreAccess,
    WriteTransaction,
    delete_staged,
    now,
    stage_ids,
    staged_ids,
)
from hierogram.storage.exceptions import StoreError
from hierogram.storage.pairs.pairs import is_undamaged
from hierogram.storage.pairs.vocabulary import count_pair_words, count_words
from hierogram.storage.records.pairs import PairRow
from hierogram.storage.schema.tables import corpora, ingest_batches, sentence_pairs, withdrawals


class Withdrawals(StoreAccess):
    """Requests to withdraw pairs."""

    def request_withdrawals(self, pair_ids: Sequence[int]) -> list[int]:
        """Request the withdrawal of pairs by the process that holds the lease.

        Returns the given ids that are stored, sorted.
        """
        with self._writing() as transaction:
            return request(transaction, pair_ids)

    def pending_withdrawals(self, limit: int) -> list[int]:
        """Return up to `limit` ids of undamaged pairs with a pending withdrawal, sorted."""
        with self._reading() as connection:
            return list(
                connection.scalars(
                    select(withdrawals.c.pair_id)
                    .where(withdrawals.c.done_at.is_(None), is_undamaged(withdrawals.c.pair_id))
                    .order_by(withdrawals.c.pair_id)
                    .limit(limit)
                )
            )

    def select_pairs(
        self, *, corpus: str | None = None, origin: str | None = None, external_ids: Sequence[str] = ()
    ) -> list[int]:
        """Return the sorted ids of the pairs that satisfy all given conditions."""
        with self._reading() as connection:
            query = select(sentence_pairs.c.id).order_by(sentence_pairs.c.id)
            if corpus is not None:
                query = query.where(
                    sentence_pairs.c.corpus_id == select(corpora.c.id).where(corpora.c.name == corpus).scalar_subquery()
                )
            if origin is not None:
                query = query.where(
                    sentence_pairs.c.batch_id.in_(select(ingest_batches.c.id).where(ingest_batches.c.origin == origin))
                )
            if external_ids:
                query = query.where(sentence_pairs.c.external_id.in_(external_ids))
            return list(connection.scalars(query))


def request(transaction: WriteTransaction, pair_ids: Sequence[int]) -> list[int]:
    """Request the withdrawal of pairs. Returns the given ids that are stored, sorted."""
    stage_ids(transaction, set(pair_ids))
    connection = transaction.connection
    connection.execute(
        text(
            "INSERT INTO withdrawals (pair_id, corpus_id, batch_id, requested_at)"
            " SELECT p.id, p.corpus_id, p.batch_id, :moment"
            " FROM staged_ids AS s JOIN sentence_pairs AS p ON p.id = s.id WHERE true ON CONFLICT (pair_id) DO NOTHING"
        ),
        {"moment": transaction.loader.moment(now())},
    )
    stored = select(sentence_pairs.c.id).join(staged_ids, staged_ids.c.id == sentence_pairs.c.id)
    return sorted(connection.scalars(stored))


def withdraw(transaction: WriteTransaction, rows: Sequence[PairRow]) -> None:
    """Delete pairs. Raises `StoreError` if a pair was deleted or resampled since it was read."""
    connection = transaction.connection
    request(transaction, [row.id for row in rows])
    stored = connection.execute(
        select(sentence_pairs.c.id, sentence_pairs.c.sweep).join(staged_ids, staged_ids.c.id == sentence_pairs.c.id)
    )
    sweeps = {row.id: row.sweep for row in stored}
    for row in rows:
        if sweeps.get(row.id) != row.sweep:
            raise StoreError(f"pair {row.id} was sampled or withdrawn by another process since it was read: try again")
        transaction.state.count_pairs(row.state, -1)
    for corpus_id, number in connection.execute(
        select(sentence_pairs.c.corpus_id, func.count())
        .join(staged_ids, staged_ids.c.id == sentence_pairs.c.id)
        .group_by(sentence_pairs.c.corpus_id)
    ).all():
        connection.execute(update(corpora).where(corpora.c.id == corpus_id).values(pairs=corpora.c.pairs - number))
    delete_staged(
        transaction, "damaged_pairs", "rule_pairs", "indexed_pairs", "derivations", "pair_positions",
        "schedule_restarts", "human_links", "link_corrections", "pair_scores",
    )  # fmt: skip
    delete_staged(transaction, "sentence_pairs", column="id")
    connection.execute(
        text("UPDATE withdrawals SET done_at = :moment WHERE pair_id IN (SELECT id FROM staged_ids)"),
        {"moment": transaction.loader.moment(now())},
    )
    # Import the module only here, because it loads numpy, which reads do not need.
    from hierogram.storage.pairs.pair_words import unindex_pairs

    unindex_pairs(transaction, [row.id for row in rows], [row.source for row in rows])
    grammar_kind = read_grammar_kind(transaction.connection)
    words = count_pair_words(grammar_kind, [row.source for row in rows], [row.target for row in rows])
    count_words(transaction, words, -1)
