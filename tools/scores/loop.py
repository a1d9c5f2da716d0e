"""Scoring of settled pairs by the daemon, in a loop with limited CPU time."""

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from hierogram.daemon.exceptions import NothingLearnedError
from hierogram.daemon.learning.kinds.synchronous import BackgroundCompilation, end_with_parent
from hierogram.daemon.serving.supervision import Heartbeat, Loop, StopFlag, StoppedError
from hierogram.samplers.grammar.settings import SYNCHRONOUS
from hierogram.samplers.scores.scorer import score_pairs
from hierogram.storage.records.pairs import SETTLED
from hierogram.storage.store import Store, open_store
from hierogram.tools.scores.learned_counts import LearnedCounts
from hierogram.tools.scores.options import ScoringOptions
from hierogram.tools.scores.scoring import SMALL_BATCH_SIZE, Scorer, batches, find_due, save_scores

_PAIRS_PER_READ = 500
_POLL_SECONDS = 1.0


class _Throttle:
    """Limit of the CPU time of this thread between calls of `pause`."""

    def __init__(self, cpu_share: float, stop: StopFlag, beat: Heartbeat) -> None:
        self._cpu_share, self._stop, self._beat = cpu_share, stop, beat
        self._resumed_at = time.thread_time()

    def pause(self, *_: object) -> None:
        """Pause in proportion to the CPU time since the last pause. Raises `StoppedError` if `stop` is set."""
        worked = time.thread_time() - self._resumed_at
        remaining = worked * (1 - self._cpu_share) / self._cpu_share
        # Each call follows a step of the work, so the loop has made progress.
        self._beat.progress()
        while remaining > 0 and not self._stop.is_set():
            self._beat()
            self._stop.wait(min(remaining, _POLL_SECONDS))
            remaining -= _POLL_SECONDS
        self._beat()
        if self._stop.is_set():
            raise StoppedError
        self._resumed_at = time.thread_time()


class ScoringLoop(Loop):
    """Daemon loop that scores settled pairs, and rescores pairs whose rules have changed a lot."""

    name = "score"
    sections: frozenset[str] = frozenset({"scores"})

    def __init__(self, store: Store, options: Callable[[], ScoringOptions], log: Callable[..., object]) -> None:
        self._store, self._options, self._log = store, options, log

    def run(self, stop: StopFlag, beat: Heartbeat) -> None:
        """Score due pairs whenever the store has changed, until `stop` is set; see `Loop.run`."""
        options = self._options()
        is_synchronous = self._store.settings().grammar == SYNCHRONOUS
        scored_position, next_run = -1, 0.0
        while not stop.is_set():
            position = self._store.position()
            beat.progress()
            if is_synchronous and options.share and position != scored_position and time.monotonic() >= next_run:
                try:
                    done = self._score_due_pairs(options, stop, beat)
                except StoppedError:
                    return
                if done is not None:
                    scored_position, next_run = position, time.monotonic() + options.pause_seconds
                    self._log("pairs scored", pairs=done)
            beat.ok()
            stop.wait(_POLL_SECONDS)

    def _score_due_pairs(self, options: ScoringOptions, stop: StopFlag, beat: Heartbeat) -> int | None:
        """Score due pairs. Returns their number, or None without rules or settled pairs or above `max_pairs`."""
        status = self._store.status()
        pairs = sum(status.pairs.values())
        if not status.pairs.get(SETTLED) or pairs > options.max_pairs:
            return None
        throttle = _Throttle(options.share, stop, beat)

        def wait() -> None:
            beat()
            if stop.wait(_POLL_SECONDS):
                raise StoppedError

        _compile_scores(self._store.engine.url.render_as_string(hide_password=False), wait)
        try:
            learned = LearnedCounts(self._store, throttle.pause)
        except NothingLearnedError:
            return None
        throttle.pause()
        scorer = Scorer(learned, throttle.pause)
        after = done = 0
        while rows := self._store.pairs(after, _PAIRS_PER_READ, (SETTLED,)):
            after = rows[-1].id
            due = list(find_due(self._store, scorer, rows))
            throttle.pause()
            for batch in batches(due, SMALL_BATCH_SIZE):
                save_scores(self._store, scorer, batch, scorer.score_stored(batch))
                done += len(batch)
                throttle.pause()
        return done


def _compile_scores(url: str, wait: Callable[[], None]) -> None:
    """Compile missing kernels in a child process with the store at `url`. Calls `wait` until it ends.

    If `wait` raises, the child is stopped. If the child fails, this process compiles the kernels when it calls them. A
    child is used because compilation takes about a minute, and a thread that compiles cannot be stopped.
    """
    # Pass the URL on standard input, because it may contain a password and other users can see arguments.
    compilation = BackgroundCompilation(score_pairs, "hierogram.tools.scores.loop", url.encode() + b"\n", 1)
    try:
        while compilation.process is not None and compilation.process.poll() is None:
            wait()
    finally:
        compilation.close()


def _compile() -> None:
    url = sys.stdin.buffer.readline().decode().rstrip("\n")
    threading.Thread(target=end_with_parent, daemon=True).start()
    os.nice(10)
    with open_store(url) as store, suppress(NothingLearnedError):
        Scorer(LearnedCounts(store, lambda *_: None))


if __name__ == "__main__":
    _compile()
