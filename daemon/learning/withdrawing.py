"""Withdrawal: pairs leave the store with all that they count, some thousand in a transaction."""

from collections.abc import Callable, Iterator, Sequence

from hierogram.daemon.alignment.links.stored import withdrawal_of
from hierogram.daemon.learning.residents import ResidentBatch
from hierogram.storage.records import PairRow, Settings
from hierogram.storage.store import Store

PAIRS_A_TRANSACTION = 2_000


def withdraw(store: Store, rows: list[PairRow], settings: Settings) -> ResidentBatch | None:
    """Take the pairs out of the store, in one transaction; returns those of them that had a derivation.

    The caller holds the lease, or nobody does. Raises what `Store.withdraw` raises.
    """
    derived = [row for row in rows if row.current is not None]
    batch = ResidentBatch.of(derived, settings) if derived else None
    store.withdraw(rows, batch.leaving() if batch else None, withdrawal_of(store, [row.id for row in rows]))
    return batch


def in_transactions(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """The ids, as many at a time as leave together."""
    for first in range(0, len(ids), PAIRS_A_TRANSACTION):
        yield ids[first : first + PAIRS_A_TRANSACTION]


def withdraw_all(store: Store, ids: Sequence[int], report: Callable[[int], None]) -> int:
    """Take the pairs with these ids out of a store that nobody else writes to; returns how many there were."""
    settings = store.settings()
    withdrawn = 0
    for done, some in enumerate(in_transactions(ids)):
        rows = store.pairs_by_id(some)
        withdraw(store, rows, settings)
        withdrawn += len(rows)
        report(done * PAIRS_A_TRANSACTION + len(some))
    return withdrawn


def withdraw_requested(store: Store) -> None:
    """Take out of the store the pairs that someone asked to leave while nobody could see to it."""
    settings = store.settings()
    while ids := store.pending_withdrawals(PAIRS_A_TRANSACTION):
        withdraw(store, store.pairs_by_id(ids), settings)
