"""Learning as an iterator over sweeps."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from queue import SimpleQueue

from hierogram.daemon.learning.alignment.incremental import (
    AlignReport,
    BatchWorkers,
    align_pending,
    apply_pending_corrections,
)
from hierogram.daemon.learning.learner import LearnOptions, LearnProgress
from hierogram.daemon.learning.learning import LearnReport, find_interrupted_run, resume_or_start_run
from hierogram.daemon.learning.learning import learn as learn_all
from hierogram.daemon.progress import Steps
from hierogram.storage.records import LearningRun
from hierogram.storage.store import Store


class _EndedError(Exception):
    """The caller has stopped the run, so alignment ends."""


class Learning:
    """A run of learning. Iteration performs one sweep at a time, `run` performs all of them.

    The run first aligns pairs without links. An interrupted run with the same number of `sweeps` (None: any number)
    continues, with the same result. After a `break` or Ctrl-C, the run ends after the present sweep, which is
    committed. In a notebook, a kept exception keeps the loop alive; the run then ends when the store learns again or
    closes. Between two sweeps nothing is sampled, and the store holds the last commit. `report` is set at the end of
    the run, `aligned` from the first sweep on. The iterator raises the errors of the run.

    Iteration and `run` call `align`, `sample` and `finish` in a thread. A program with its own signal handlers calls
    these three itself.
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
        """Id of the run that this object began."""
        self.aligned: AlignReport | None = None
        self.report: LearnReport | None = None

    def __iter__(self) -> Iterator[LearnProgress]:
        return self._taken(wait=True)

    def run(self, progress: Callable[[LearnProgress], None] | None = None) -> LearnReport:
        """Perform all sweeps, and return the report. `progress` is called after each sweep."""
        for sweep in self._taken(wait=False):
            if progress is not None:
                progress(sweep)
        assert self.report is not None
        return self.report

    def align(self, progress: Steps | None = None, workers: BatchWorkers | None = None) -> AlignReport:
        """Align pairs without links, and pairs with corrected links; with `workers`, in other processes.

        `progress` is called with the numbers of done and of all pairs. The run is recorded before the first pair is
        aligned.
        """
        threads = self._options.threads
        if find_interrupted_run(self._store, self._sweeps) is None:
            self._begun = resume_or_start_run(self._store, self._sweeps).id
        self.aligned = align_pending(self._store, threads, report=progress, workers=workers)
        apply_pending_corrections(self._store, threads)
        return self.aligned

    def continued(self) -> LearningRun | None:
        """Return the interrupted run that `sample` would continue, or None."""
        run = find_interrupted_run(self._store, self._sweeps)
        return None if run is None or run.id == self._begun else run

    def sample(
        self, progress: Callable[[LearnProgress], None], stop: Callable[[], bool] = lambda: False
    ) -> LearnReport:
        """Perform sweeps until `stop` returns True. If the report is `finished`, call `finish` once it is delivered.

        Until then, a repeated call returns the same report.
        """
        options = replace(self._options, report=progress, stop=stop)
        if options.chain is not None:
            # Each worker has several threads.
            options = replace(options, threads=options.threads or 1)
        self.report = learn_all(self._store, sweeps=self._sweeps, options=options, leave_unfinished=True)
        return self.report

    def finish(self) -> None:
        """Record the end of the run, after its report is delivered."""
        self._store.finish_run()

    def stop(self) -> None:
        """Stop the run after the present sweep, commit the sweep, and wait for the end. An ended run stays as it is."""
        self._stopped.set()
        self._asked.release()
        if self._thread is not None:
            self._thread.join()

    def _taken(self, wait: bool) -> Iterator[LearnProgress]:
        if self._thread is not None:
            raise RuntimeError("this run has already started: call learn() again for a new one")
        # In a thread, so that Ctrl-C cannot interrupt a sweep.
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
