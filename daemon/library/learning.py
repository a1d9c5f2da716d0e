"""Learning as an iterator of its sweeps, which ends in good order however its reader does."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from queue import SimpleQueue

from hierogram.daemon.learning.alignment.incremental import AlignReport, LotWorkers, align_pending, correct_requested
from hierogram.daemon.learning.learner import LearnOptions, LearnProgress
from hierogram.daemon.learning.learning import LearnReport, run_to_continue, take_up_run
from hierogram.daemon.learning.learning import learn as learn_all
from hierogram.storage.records import LearningRun
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

    Both are `align`, `sample` and `finish` in a thread; a program that hears signals itself calls these, one by one.
    """

    def __init__(self, store: Store, sweeps: int | None, options: LearnOptions) -> None:
        self._store = store
        self._sweeps = sweeps
        self._options = options
        self._messages: SimpleQueue[LearnProgress | LearnReport | BaseException] = SimpleQueue()
        self._asked = threading.Semaphore(0)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._begun: int | None = None
        """Id of the run that began here."""
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

    def align(
        self, progress: Callable[[int, int], None] | None = None, workers: LotWorkers | None = None
    ) -> AlignReport:
        """Align the pairs that came without links, by `workers` where there are any, and those whose links people
        corrected; `progress` hears how far. The run is on record before the first pair is aligned."""
        threads = self._options.threads
        if run_to_continue(self._store, self._sweeps) is None:
            self._begun = take_up_run(self._store, self._sweeps).id
        self.aligned = align_pending(self._store, threads, report=progress, workers=workers)
        correct_requested(self._store, threads)
        return self.aligned

    def continued(self) -> LearningRun | None:
        """Return the interrupted run that `sample` would go on with; None where none was interrupted."""
        run = run_to_continue(self._store, self._sweeps)
        return None if run is None or run.id == self._begun else run

    def sample(
        self, progress: Callable[[LearnProgress], None], stop: Callable[[], bool] = lambda: False
    ) -> LearnReport:
        """Take the sweeps, until `stop` says so; `finish` is due when the report, if it is `finished`, has arrived.

        Until then, the same call returns that report again.
        """
        options = replace(self._options, report=progress, stop=stop)
        if options.chain is not None:
            # Workers have threads of their own.
            options = replace(options, threads=options.threads or 1)
        self.report = learn_all(self._store, sweeps=self._sweeps, options=options, leave_unfinished=True)
        return self.report

    def finish(self) -> None:
        """Note that the run is over, and its report known."""
        self._store.finish_run()

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
            self._messages.put(self._done(wait))
        except BaseException as error:
            self._messages.put(error)

    def _done(self, wait: bool) -> LearnReport:
        stopped = self._stopped

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
        self.align(hear_links)
        report = self.sample(hear, stopped.is_set)
        if report.finished:
            self.finish()
        return report
