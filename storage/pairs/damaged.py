"""Pairs that were set aside because their derivation, samples, links or texts are damaged."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, delete, func, select, text

from hierogram.storage.database.loading import staged_ids
from hierogram.storage.database.transactions import StoreAccess, WriteTransaction, now
from hierogram.storage.events.feed import append
from hierogram.storage.records.operations import PAIRS_DAMAGED, NewEvent
from hierogram.storage.records.pairs import DamagedPair
from hierogram.storage.schema.tables import damaged_pairs, sentence_pairs


class DamagedPairs(StoreAccess):
    """Pairs that are excluded from sampling, withdrawal and alignment until `hierogram repair` has rebuilt them."""

    def set_aside(self, pairs: Sequence[DamagedPair]) -> list[DamagedPair]:
        """Set pairs aside. Returns the stored pairs that were not set aside before."""
        with self._writing() as transaction:
            transaction.loader.stage(staged_ids, sorted((pair_id,) for pair_id in {pair.id for pair in pairs}))
            is_damaged = select(damaged_pairs.c.pair_id).where(damaged_pairs.c.pair_id == sentence_pairs.c.id)
            stored = select(sentence_pairs.c.id).join(staged_ids, staged_ids.c.id == sentence_pairs.c.id)
            new = set(transaction.connection.scalars(stored.where(~is_damaged.exists())))
            added = [pair for pair in pairs if pair.id in new]
            moment = transaction.loader.moment(now())
            transaction.loader.insert(
                damaged_pairs, ("pair_id", "reason", "found_at"), [(*pair, moment) for pair in sorted(added)]
            )
            if added:
                first = min(added)
                detail = {"pair": first.id, "reason": first.reason}
                append(transaction, [NewEvent(PAIRS_DAMAGED, count=len(added), detail=detail)])
            return added

    def damaged_pairs(self, limit: int | None = None) -> list[DamagedPair]:
        """Return up to `limit` pairs that are set aside, by id."""
        with self._reading() as connection:
            query = select(damaged_pairs.c.pair_id, damaged_pairs.c.reason).order_by(damaged_pairs.c.pair_id)
            return [DamagedPair(*row) for row in connection.execute(query.limit(limit))]


def is_sound(pair_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that a pair is not set aside."""
    return ~select(damaged_pairs.c.pair_id).where(damaged_pairs.c.pair_id == pair_id).exists()


def release_damaged(transaction: WriteTransaction) -> None:
    """Mark the pairs of `staged_ids` as sound again."""
    transaction.connection.execute(text("DELETE FROM damaged_pairs WHERE pair_id IN (SELECT id FROM staged_ids)"))


def release_all_damaged(transaction: WriteTransaction) -> int:
    """Mark all pairs as sound again; returns the number of pairs that were set aside."""
    number = transaction.connection.scalar(select(func.count()).select_from(damaged_pairs)) or 0
    transaction.connection.execute(delete(damaged_pairs))
    return number
