"""Alignment within the daemon: new pairs before they are sampled, all again while nothing else is to be done."""

import time
from collections import Counter
from collections.abc import Sequence

from hierogram.daemon.alignment.correcting import correct
from hierogram.daemon.alignment.incremental import IncrementalAligner
from hierogram.daemon.configuration import Configuration
from hierogram.daemon.learning.learner import Learner
from hierogram.daemon.serving.logs import Log
from hierogram.daemon.serving.supervision import Heart, StopFlag
from hierogram.storage.records import Correction
from hierogram.storage.store import Store

_REJUVENATED_AT_ONCE = 1_000
_TELL_SECONDS = 60.0


class _EndedError(Exception):
    """The daemon ends: what is being aligned is left to the next start."""


class Aligning:
    """The aligner of a running daemon; the learner's rules follow where derivations are made anew."""

    def __init__(
        self, store: Store, learner: Learner, configuration: Configuration, stop: StopFlag, beat: Heart, log: Log
    ) -> None:
        self._section = configuration.alignment
        self._store = store
        self._threads = configuration.sampling.threads or None
        self._aligner = IncrementalAligner(store, self._threads, self._section.train)
        self._learner = learner
        self._stop = stop
        self._beat = beat
        self._log = log
        self._gone_over = Counter[str]()
        self._told = time.monotonic()

    def align_new(self) -> int:
        """Align pairs that came without an alignment, some at once; how many."""
        try:
            pairs = self._aligner.align_new(self._section.pairs_at_once, self._go_on)
        except _EndedError:
            return 0
        if pairs:
            self._log.info("pairs aligned", pairs=pairs)
        return pairs

    def rejuvenate(self) -> list[int]:
        """Go over some alignments again; the ids of the pairs whose derivations begin anew."""
        try:
            done = self._aligner.rejuvenate(_REJUVENATED_AT_ONCE, self._go_on, 1 + self._section.passes)
        except _EndedError:
            return []
        self._gone_over.update(pairs=done.pairs, changed=done.changed)
        # Told when all have been gone over, and now and then before.
        if self._gone_over["pairs"] and (not done.pairs or time.monotonic() - self._told >= _TELL_SECONDS):
            self._log.info("alignments gone over again", **self._gone_over)
            self._gone_over.clear()
            self._told = time.monotonic()
        if not done.pairs:
            return []
        if done.rebuilt is None:
            return []
        done.rebuilt.change(self._learner.chain)
        return [row.id for row in done.rebuilt.before.rows]

    def correct(self, pending: Sequence[Correction]) -> None:
        """Make the alignments of pairs keep to what people say of their links; no open batch may hold them."""
        for rebuilt in correct(self._store, pending, self._threads):
            rebuilt.change(self._learner.chain)
        self._log.info("pairs corrected", pairs=len(pending))

    def _go_on(self, _done: int, _total: int) -> None:
        self._beat()
        if self._stop.is_set():
            raise _EndedError
