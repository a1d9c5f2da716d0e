"""The index of which pairs use a rule, kept up to date: only pairs sampled since the last time are counted anew."""

from collections.abc import Callable

import numpy as np

from hierogram.daemon.learning.kinds.registry import kind_of
from hierogram.samplers.grammar.columns import join_blobs
from hierogram.storage.store import Store

_PAIRS_A_TRANSACTION = 2_000


def index_support(store: Store, report: Callable[[int], None] | None = None) -> int:
    """Index every pair whose derivation is not indexed; returns how many were, `report` hears it meanwhile.

    Pairs that are sampled at the same time wait for the next call.
    """
    indexed = 0
    after = 0
    while True:
        position, rows = store.unindexed_pairs(after, _PAIRS_A_TRANSACTION)
        if not rows:
            return indexed
        settings = store.settings()
        loaded = kind_of(settings).load(rows, settings)
        found = loaded.occurrences(loaded.decode(join_blobs([row.current or b"" for row in rows])))
        ids = np.array([row.id for row in rows], np.int64)[found.pairs]
        keys = found.keys.view(np.int64)
        uses = zip(ids.tolist(), keys[:, 0].tolist(), keys[:, 1].tolist(), found.uses.tolist(), strict=True)
        indexed += store.index_pairs([row.id for row in rows], position, uses, settings.key_salt)
        after = rows[-1].id
        if report:
            report(indexed)
