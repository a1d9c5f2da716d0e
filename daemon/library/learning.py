"""Learning as an iterator of its sweeps, which ends in good order however its reader does."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from queue import SimpleQueue

from hierogram.daemon.alignment.incremental import AlignReport, align_pending, correct_requested
from hierogram.daemon.learning.learner import LearnOptions, LearnProgress
from hierogram.daemon.learning.learning import LearnReport
from hierogram.daemon.learning.learning import learn as learn_all
from hierogram.storage.store import Store


class _EndedError(Exception):
    """Ends aligning where the reader wants no more."""


class Learning:
    """A run of learning; iterating over it takes one sweep at a time, `run` takes all of them.

    Pairs that came without links are aligned first. A run that was interrupted, and had as many `sweeps` (None: any),
    is continued to the same end. A reader that leaves the loop, or Ctrl-C, ends it after the sweep at hand, which is
    committed. An exception that a notebook keeps also keeps the loop: then it ends when the store next learns, or is
    closed. While the reader has a sweep in hand nothing is sampled, and the store holds what was last committed.
    `report` is there when it has ended, `aligned` from the first sweep on. What fails is raised by the iterator.
    """

    def __init__(self, store: Store, sweeps: int | None, options: LearnOptions) -> None:
        self._store = store
        self._sweeps = sweeps
        self._options = options
        self._messages: SimpleQueue[LearnProgress | LearnReport | BaseException] = SimpleQueue()
        self._asked = threading.Semaphore(0)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self.aligned: AlignReport | None = None
        self.report: LearnReport | None = None

    def __iter__(self) -> Iterator[LearnProgress]:
        """Take sweeps and yield what is known after each; raises what `learn` raises."""
        return self._taken(wait=True)

    def run(self, progress: Callable[[LearnProgress], None] | None = None) -> LearnReport:
        """Take all sweeps, and return what was done; `progress` hears of each."""
        for sweep in self._taken(wait=False):
            if progress is not None:
                progress(sweep)
        assert self.report is not None
        return self.report

    def stop(self) -> None:
        """End it after the sweep at hand, commit that, and wait for it; what has ended stays as it is."""
        self._stopped.set()
        self._asked.release()
        if self._thread is not None:
            self._thread.join()

    def _taken(self, wait: bool) -> Iterator[LearnProgress]:
        if self._thread is not None:
            raise RuntimeError("this learning has begun already: call learn() again")
        # Sampled in a thread, since Ctrl-C must not end a sweep in its middle.
        self._thread = threading.Thread(target=self._learn, args=(wait,), name="learn", daemon=True)
        self._thread.start()
        try:
            while True:
                self._asked.release()
                message = self._messages.get()
                if isinstance(message, BaseException):
                    raise message
                if isinstance(message, LearnReport):
                    return
                yield message
        finally:
            self.stop()

    def _learn(self, wait: bool) -> None:
        try:
            self.report = self._done(wait)
            self._messages.put(self.report)
        except BaseException as error:
            self._messages.put(error)

    def _done(self, wait: bool) -> LearnReport:
        store, threads, stopped = self._store, self._options.threads, self._stopped

        def hear_links(_done: int, _total: int) -> None:
            if stopped.is_set():
                raise _EndedError

        def hear(now: LearnProgress) -> None:
            if now.phase == "sweep":
                self._messages.put(now)
                if wait and not stopped.is_set():
                    self._asked.acquire()

        if wait:
            self._asked.acquire()
        self.aligned = align_pending(store, threads, report=hear_links)
        correct_requested(store, threads)
        return learn_all(store, sweeps=self._sweeps, options=replace(self._options, report=hear, stop=stopped.is_set))
