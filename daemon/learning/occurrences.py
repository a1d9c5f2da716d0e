"""Index from rules to the pairs that use them, built from derivations.

Sampling does not update it, because each commit would then write a row for every rule of every pair. `learn` indexes
all pairs at its end, the daemon some pairs in each turn of settled pairs.
"""

import time
from collections.abc import Callable

import numpy as np

from hierogram.daemon.learning.kinds.stored import load_stored
from hierogram.storage.store import Store

_PAIRS_PER_TRANSACTION = 2_000
_PAIRS_AT_ONCE = 500
"""Number of pairs between two checks of the clock in a turn."""


def index_occurrences(
    store: Store, report: Callable[[int], None] | None = None, stop: Callable[[], bool] = lambda: False
) -> int:
    """Index every pair whose current derivation is not indexed; return (and `report`) their number."""
    indexed = after = 0
    while not stop():
        chunk = _index_chunk(store, after, _PAIRS_PER_TRANSACTION)
        if chunk is None:
            break
        after = chunk[0]
        indexed += chunk[1]
        if report:
            report(indexed)
    return indexed


class IncrementalIndexer:
    """Indexer that works in turns, in id order, and restarts after the last pair."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._after = 0
        self._complete_at = -1

    def index_for(self, seconds: float, stop: Callable[[], bool]) -> bool:
        """Index pairs for about `seconds`; return whether there were any."""
        deadline = time.monotonic() + seconds
        indexed_any = False
        while time.monotonic() < deadline and not stop():
            position = self._store.position()
            if position == self._complete_at:
                break
            chunk = _index_chunk(self._store, self._after, _PAIRS_AT_ONCE)
            if chunk is None and self._after == 0:
                self._complete_at = position
            self._after = 0 if chunk is None else chunk[0]
            indexed_any = indexed_any or chunk is not None
        return indexed_any


def _index_chunk(store: Store, after: int, limit: int) -> tuple[int, int] | None:
    """Index up to `limit` pairs above an id; return the last id and the number, or None after the last pair."""
    position, rows = store.unindexed_pairs(after, limit)
    if not rows:
        return None
    settings = store.settings()
    pairs = load_stored(rows, settings)
    occurrences = pairs.loaded.occurrences(pairs.state)
    ids = np.array([row.id for row in rows], np.int64)[occurrences.pairs]
    keys = occurrences.keys.view(np.int64)
    uses = zip(ids.tolist(), keys[:, 0].tolist(), keys[:, 1].tolist(), occurrences.uses.tolist(), strict=True)
    return rows[-1].id, store.index_pairs([row.id for row in rows], position, uses, settings.key_salt)
