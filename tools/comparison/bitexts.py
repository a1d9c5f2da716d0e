"""The pairs of a snapshot as bitexts, some at a time."""

from collections.abc import Iterator

from hierogram.samplers.forests.forest import Bitext
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.tools.comparison.numbering import Numbering, to_bitext

_PAIRS_A_BITEXT = 1_000


class Bitexts:
    """The snapshot's pairs with derivations as bitexts; counts their words as they pass."""

    def __init__(self, snapshot: Snapshot, source: Numbering, target: Numbering) -> None:
        self._snapshot = snapshot
        self._source = source
        self._target = target
        self.source_words = self.target_words = 0

    def __iter__(self) -> Iterator[Bitext]:
        for rows in self._snapshot.iterate_derivations(_PAIRS_A_BITEXT):
            bitext = to_bitext(rows, self._source, self._target)
            self.source_words += len(bitext.source)
            self.target_words += len(bitext.target)
            yield bitext
