"""Daemon loop that scores settled pairs, and rescores them after large changes of their rules."""

import time
from collections.abc import Callable

from hierogram.daemon.exceptions import NothingLearnedError
from hierogram.daemon.serving.supervision import Heartbeat, Loop, StopFlag, StoppedError
from hierogram.samplers.grammar.settings import SYNCHRONOUS
from hierogram.storage.records import SETTLED
from hierogram.storage.store import Store
from hierogram.tools.scores.compiling import compile_scores
from hierogram.tools.scores.learned_counts import LearnedCounts
from hierogram.tools.scores.options import KeepOptions
from hierogram.tools.scores.scoring import SCORED_BETWEEN_RESTS, Scorer, batches, find_due, keep_scores

_READ_AT_ONCE = 500
_LOOK_SECONDS = 1.0
_MAX_WAIT_LENGTH = 1.0


class _Pace:
    """Limits a thread to a share of one core by rests between pieces of work."""

    def __init__(self, share: float, stop: StopFlag, beat: Heartbeat) -> None:
        self._share = share
        self._stop = stop
        self._beat = beat
        self._worked = time.thread_time()

    def rest(self, *_: object) -> None:
        """Rest in proportion to the work since the last rest. Raises `StoppedError` if the loop should end."""
        worked = time.thread_time() - self._worked
        remaining = worked * (1 - self._share) / self._share
        # Each call follows a read or write of the store, which is progress.
        self._beat.progress()
        while remaining > 0 and not self._stop.is_set():
            self._beat()
            self._stop.wait(min(remaining, _MAX_WAIT_LENGTH))
            remaining -= _MAX_WAIT_LENGTH
        self._beat()
        if self._stop.is_set():
            raise StoppedError
        self._worked = time.thread_time()


class ScoringLoop(Loop):
    """Daemon loop of scores. A round covers all settled pairs.

    A round reads the store's grammar, then scores pairs without a score, and pairs whose rules have changed much since.
    The loop uses at most a share of one core.
    """

    name = "score"
    sections: frozenset[str] = frozenset({"scores"})

    def __init__(self, store: Store, options: Callable[[], KeepOptions], log: Callable[..., object]) -> None:
        self._store = store
        self._options = options
        self._log = log

    def run(self, stop: StopFlag, beat: Heartbeat) -> None:
        """Run until `stop` is set; see `Loop.run`."""
        options = self._options()
        of_two_languages = self._store.settings().grammar == SYNCHRONOUS
        seen, next_run = -1, 0.0
        while not stop.is_set():
            position = self._store.position()
            if of_two_languages and options.share and position != seen and time.monotonic() >= next_run:
                try:
                    done = self._round(options, stop, beat)
                except StoppedError:
                    return
                if done is not None:
                    seen, next_run = position, time.monotonic() + options.pause_seconds
                    self._log("pairs scored", pairs=done)
            beat.ok()
            stop.wait(_LOOK_SECONDS)

    def _round(self, options: KeepOptions, stop: StopFlag, beat: Heartbeat) -> int | None:
        """Score all due pairs. Returns their number, or None if nothing is due or the store is too large."""
        status = self._store.status()
        pairs = sum(status.pairs.values())
        if not status.pairs.get(SETTLED) or pairs > options.max_pairs:
            return None
        pace = _Pace(options.share, stop, beat)

        def wait() -> None:
            beat()
            if stop.wait(_LOOK_SECONDS):
                raise StoppedError

        compile_scores(self._store.engine.url.render_as_string(hide_password=False), wait)
        try:
            learned = LearnedCounts(self._store, pace.rest)
        except NothingLearnedError:
            return None
        pace.rest()
        scorer = Scorer(learned, pace.rest)
        after, done = 0, 0
        while rows := self._store.pairs(after, _READ_AT_ONCE, (SETTLED,)):
            after = rows[-1].id
            due = list(find_due(self._store, scorer, rows))
            pace.rest()
            for batch in batches(due, SCORED_BETWEEN_RESTS):
                keep_scores(self._store, scorer, batch, scorer.score_stored(batch))
                done += len(batch)
                pace.rest()
        return done
