"""What a store can do with its pairs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from hierogram.storage.database.access import Access
from hierogram.storage.database.connection import reading
from hierogram.storage.database.transactions import read_state, writing
from hierogram.storage.operations import requests
from hierogram.storage.pairs import pairs, scores, staleness, treebanks, withdrawals
from hierogram.storage.records import AddedPairs, LagRow, NewPairs, PairRecord, PairRow, RejectedLine, RequestRow
from hierogram.storage.records.scores import ScoreRow

Receipt = tuple[RequestRow, int | None]
"""What to record of a request, and how many of its lines were recorded before (None: it is new)."""


class Pairs(Access):
    """Sentence pairs and their words."""

    def treebank(self) -> dict[str, object] | None:
        """How the trees of a tree grammar's store are transformed, and its known words; None before the first tree."""
        with reading(self._engine) as connection:
            return treebanks.read_treebank(connection)

    def settle_treebank(self, treebank: dict[str, object]) -> dict[str, object]:
        """Settles how trees are transformed, for the store's life; returns what holds, which may have been settled."""
        with writing(self._engine, self._memory) as transaction:
            return treebanks.settle_treebank(transaction.connection, treebank)

    def vocabulary_sizes(self) -> tuple[int, int]:
        """Numbers of different source and target words."""
        with reading(self._engine) as connection:
            state = read_state(connection)
        return state.source_types, state.target_types

    def begin_ingest(self, corpus: str, origin: str, format: str) -> int:
        """Opens a batch of a corpus (made if new) for the lines of `origin`; returns the batch's id."""
        with writing(self._engine, self._memory) as transaction:
            return pairs.begin_ingest(transaction, corpus, origin, format)

    def add_pairs(
        self,
        batch_id: int,
        new_pairs: NewPairs,
        rejected: Sequence[RejectedLine] = (),
        receipt: Callable[[AddedPairs], Receipt] | None = None,
    ) -> AddedPairs:
        """Stores the pairs that are not stored yet, and keeps the rejected lines; all or nothing.

        A pair is turned down (and returned, as a rejected line) where its external id is stored with other
        content (`external-id-conflict`) or a token exceeds `pairs.MAX_TOKEN_BYTES` (`token-too-long`). `receipt`
        tells what to record of the request that brought them, in the same transaction. Raises `IngestError` where
        the batch is not open, and `RequestMovedError`.
        """
        with writing(self._engine, self._memory) as transaction:
            added = pairs.add_pairs(transaction, batch_id, new_pairs, rejected)
            if receipt:
                requests.save_request(transaction, *receipt(added))
            return added

    def finish_ingest(self, batch_id: int, error: str | None = None, receipt: Receipt | None = None) -> None:
        """Closes a batch: as done, or as failed with what went wrong; `receipt` as in `add_pairs`.

        Raises `IngestError` and `RequestMovedError`.
        """
        with writing(self._engine, self._memory) as transaction:
            pairs.finish_ingest(transaction, batch_id, error)
            if receipt:
                requests.save_request(transaction, *receipt)

    def find_request(self, key: str) -> RequestRow | None:
        """The request that was made under the key, None if there is none."""
        with reading(self._engine) as connection:
            return requests.find_request(connection, key)

    def forget_requests(self, before: datetime) -> int:
        """Forgets the requests that nobody has touched since `before`; returns how many they were."""
        with writing(self._engine, self._memory) as transaction:
            return requests.forget_requests(transaction, before)

    def pairs(self, after_id: int = 0, limit: int | None = None, states: Sequence[str] | None = None) -> list[PairRow]:
        """Pairs with an id above `after_id`, in id order, in any of `states` if given."""
        with reading(self._engine) as connection:
            return pairs.pairs_after(connection, after_id, limit, states)

    def pairs_by_id(self, ids: Sequence[int]) -> list[PairRow]:
        """The pairs with these ids, in id order; ids without a pair are left out."""
        with reading(self._engine) as connection:
            return pairs.pairs_by_id(connection, ids)

    def find_pair(self, pair_id: int) -> PairRecord | None:
        """The pair as people ask for it, None if the store does not hold it."""
        with reading(self._engine) as connection:
            return pairs.find_pair(connection, pair_id)

    def stalest_pairs(self, limit: int) -> list[PairRow]:
        """The settled pairs that were sampled longest ago, those first."""
        with reading(self._engine) as connection:
            return staleness.stalest_pairs(connection, limit)

    def count_pairs(self, states: Sequence[str] | None = None) -> int:
        """How many pairs there are, in any of `states` if given."""
        with reading(self._engine) as connection:
            return pairs.count_pairs(connection, states)

    def keep_scores(self, rows: Sequence[ScoreRow]) -> None:
        """Keeps scores in place of those that pairs had before; pairs that are gone get none."""
        with writing(self._engine, self._memory) as transaction:
            scores.keep(transaction, rows)

    def scores(self, after_id: int = 0, limit: int = 1_000) -> list[ScoreRow]:
        """Scores that are kept, of pairs with an id above `after_id`, in id order."""
        with reading(self._engine) as connection:
            return scores.scores_after(connection, after_id, limit)

    def scores_by_id(self, ids: Collection[int]) -> list[ScoreRow]:
        """The scores that are kept of these pairs, in id order."""
        with reading(self._engine) as connection:
            return scores.scores_by_id(connection, ids)

    def lag(self) -> LagRow:
        """How far sampling is behind; takes the same time whatever the store's size."""
        with reading(self._engine) as connection:
            return pairs.lag(connection)

    def request_withdrawals(self, pair_ids: Sequence[int]) -> list[int]:
        """Asks whoever writes the grammar to withdraw the pairs; returns the ids of those that are stored."""
        with writing(self._engine, self._memory) as transaction:
            return withdrawals.request(transaction, pair_ids)

    def pending_withdrawals(self, limit: int) -> list[int]:
        """Ids of pairs that were asked to leave and are still there, in their order."""
        with reading(self._engine) as connection:
            return withdrawals.pending(connection, limit)

    def choose_pairs(
        self, *, corpus: str | None = None, origin: str | None = None, external_ids: Sequence[str] = ()
    ) -> list[int]:
        """Ids of the pairs that meet all conditions given, in their order."""
        with reading(self._engine) as connection:
            return withdrawals.chosen(connection, corpus, origin, external_ids)
