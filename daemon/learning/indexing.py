"""Index of pairs by the rules of their current derivations.

Sampling does not update the index, because each commit would then write a row for every rule of every pair. `learn`
indexes all pairs at its end. The daemon indexes some pairs whenever it resamples settled pairs.
"""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import load_stored
from hierogram.daemon.learning.learner import ResidentBatch
from hierogram.samplers.counts.occurrences import Occurrences
from hierogram.storage.store import Store

_PAIRS_PER_INDEXING = 8_192
_PAIRS_PER_CHECK = 500
"""Number of pairs that `IncrementalIndexer` indexes between two checks of the deadline."""


def index_batch(store: Store, batch: ResidentBatch, stop: Callable[[], bool]) -> None:
    """Index the pairs of a batch, whose sweeps must be committed, without loading them again."""
    position, all_ids = store.position(), batch.ids
    uses = _list_uses(all_ids, batch.loaded.occurrences(batch.state))
    for first in range(0, len(all_ids), _PAIRS_PER_INDEXING):
        ids = all_ids[first : first + _PAIRS_PER_INDEXING].tolist()
        bounds = slice(*np.searchsorted(uses[:, 0], (ids[0], ids[-1] + 1)))
        store.index_pairs(ids, position, uses[bounds], batch.settings.key_salt)
        if stop():
            break


def index_occurrences(
    store: Store, report: Callable[[int], None] | None = None, stop: Callable[[], bool] = lambda: False
) -> int:
    """Index all pairs that are not indexed. Returns their number, and reports the number so far."""
    indexed = after_id = 0
    while not stop() and (chunk := _index_chunk(store, after_id, _PAIRS_PER_INDEXING)):
        after_id = chunk[0]
        indexed += chunk[1]
        if report:
            report(indexed)
    return indexed


class IncrementalIndexer:
    """Indexer of pairs by their rules. Calls continue after the last id, and restart at the end."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._after_id = 0
        self._complete_at = -1
        """Position of the store at which all pairs were indexed, or -1."""

    def index_for(self, seconds: float, stop: Callable[[], bool]) -> bool:
        """Index pairs for about `seconds`, or until all are indexed. Returns True if any pair was indexed."""
        deadline = time.monotonic() + seconds
        indexed_any = False
        while time.monotonic() < deadline and not stop():
            position = self._store.position()
            if position == self._complete_at:
                break
            chunk = _index_chunk(self._store, self._after_id, _PAIRS_PER_CHECK)
            if chunk is None and self._after_id == 0:
                self._complete_at = position
            self._after_id = 0 if chunk is None else chunk[0]
            indexed_any = indexed_any or chunk is not None
        return indexed_any


def _index_chunk(store: Store, after_id: int, limit: int) -> tuple[int, int] | None:
    """Index up to `limit` unindexed pairs above `after_id`. Returns (last id, number), or None."""
    position, rows = store.unindexed_pairs(after_id, limit)
    if not rows:
        return None
    settings = store.settings()
    pairs = load_stored(rows, settings)
    ids = [row.id for row in rows]
    uses = _list_uses(np.array(ids, np.int64), pairs.loaded.occurrences(pairs.state))
    return ids[-1], store.index_pairs(ids, position, uses, settings.key_salt)


def _list_uses(ids: NDArray[np.int64], occurrences: Occurrences) -> NDArray[np.int64]:
    """Return the rule uses as rows (pair id, key high, key low, uses), int64[n, 4], in pair order."""
    return np.column_stack((ids[occurrences.pairs], occurrences.keys.view(np.int64), occurrences.uses))
