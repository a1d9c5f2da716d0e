"""The links that a store keeps of its pairs, and what leaves and what is counted with them."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.alignment.links.prior_counts import BothCounts, enter_counts
from hierogram.samplers.alignment.bitext import Direction, Side, make_direction, read_side
from hierogram.samplers.alignment.prior_counts import counts_of_links
from hierogram.storage.records import AlignerChange, LinkRow, PairRow
from hierogram.storage.store import Store

_LINK = np.dtype("<i2")

Links = tuple[NDArray[np.int16], NDArray[np.int16]]
"""Forward and backward."""


class Texts(NamedTuple):
    """Both sides of some pairs, and both directions between them."""

    source: Side
    target: Side
    directions: tuple[Direction, Direction]

    @classmethod
    def of(cls, rows: Sequence[PairRow | LinkRow]) -> "Texts":
        """The sides of the pairs."""
        source, target = read_side(row.source for row in rows), read_side(row.target for row in rows)
        return cls(source, target, (make_direction(target, source), make_direction(source, target)))

    def counts(self, links: Links, weight: NDArray[np.int64]) -> BothCounts:
        """The counts that both directions' links cause, pairs weighted."""
        forward, backward = self.directions
        return (
            counts_of_links(forward.sides, links[0], weight, len(forward.conditioning.vocabulary)),
            counts_of_links(backward.sides, links[1], weight, len(backward.conditioning.vocabulary)),
        )

    def blobs(self, links: Links) -> list[tuple[bytes, bytes]]:
        """Both directions' links of each pair, as the store keeps them."""
        columns = []
        for direction, of_direction in zip(self.directions, links, strict=True):
            whole, bounds = of_direction.astype(_LINK).tobytes(), (2 * direction.sides.emitted_offset).tolist()
            columns.append([whole[start:stop] for start, stop in pairwise(bounds)])
        return list(zip(columns[0], columns[1], strict=True))


def read_blobs(rows: Sequence[LinkRow]) -> Links:
    """Both directions' links of pairs, one after the other."""
    forward = np.frombuffer(b"".join(row.forward or b"" for row in rows), _LINK)
    backward = np.frombuffer(b"".join(row.backward or b"" for row in rows), _LINK)
    return forward.astype(np.int16), backward.astype(np.int16)


def withdrawal_of(store: Store, ids: Sequence[int]) -> AlignerChange:
    """What leaves the aligner with the pairs: to be written in the transaction that deletes them."""
    rows = store.links_by_id(ids)
    change = AlignerChange(withdrawn=[row.id for row in rows])
    if rows:
        texts = Texts.of(rows)
        counts = texts.counts(read_blobs(rows), np.full(len(rows), -1, np.int64))
        enter_counts(change, counts, texts.source, texts.target)
    return change


def count_links(rows: Sequence[LinkRow], change: AlignerChange) -> None:
    """Count the stored links of the pairs into a change, for a recount; keys may come more than once."""
    texts = Texts.of(rows)
    counts = texts.counts(read_blobs(rows), np.ones(len(rows), np.int64))
    enter_counts(change, counts, texts.source, texts.target)
