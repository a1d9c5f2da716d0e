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
        found = _index_some(store, after, _PAIRS_PER_TRANSACTION)
        if found is None:
            break
        after = found[0]
        indexed += found[1]
        if report:
            report(indexed)
    return indexed


class IndexTurns:
    """Indexer that works in turns, in id order, and restarts after the last pair."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._after = 0
        self._complete_at = -1

    def take(self, seconds: float, stop: Callable[[], bool]) -> bool:
        """Index pairs for about `seconds`; return whether there were any."""
        until = time.monotonic() + seconds
        worked = False
        while time.monotonic() < until and not stop():
            position = self._store.position()
            if position == self._complete_at:
                break
            found = _index_some(self._store, self._after, _PAIRS_AT_ONCE)
            if found is None and self._after == 0:
                self._complete_at = position
            self._after = 0 if found is None else found[0]
            worked = worked or found is not None
        return worked


def _index_some(store: Store, after: int, limit: int) -> tuple[int, int] | None:
    """Index up to `limit` pairs above an id; return the last id and the number, or None if none is left."""
    position, rows = store.unindexed_pairs(after, limit)
    if not rows:
        return None
    settings = store.settings()
    pairs = load_stored(rows, settings)
    found = pairs.loaded.occurrences(pairs.state)
    ids = np.array([row.id for row in rows], np.int64)[found.pairs]
    keys = found.keys.view(np.int64)
    uses = zip(ids.tolist(), keys[:, 0].tolist(), keys[:, 1].tolist(), found.uses.tolist(), strict=True)
    return rows[-1].id, store.index_pairs([row.id for row in rows], position, uses, settings.key_salt)
