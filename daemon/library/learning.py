"""Learning run as an iterator over sweeps."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import replace
from queue import SimpleQueue

from hierogram.daemon.learning.alignment.incremental import AlignReport, align_pending, apply_pending_corrections
from hierogram.daemon.learning.learner import LearnOptions, LearnProgress
from hierogram.daemon.learning.learning import LearnReport, find_interrupted_run, resume_or_start_run
from hierogram.daemon.learning.learning import learn as learn_all
from hierogram.daemon.progress import Steps
from hierogram.storage.records.grammar import LearningRun
from hierogram.storage.store import Store


class Learning:
    """Learning run. Iterate over the object for one sweep at a time, or call `run` for all sweeps.

    The run first aligns pairs without links. An interrupted run is resumed if it had the same number of `sweeps`, or if
    `sweeps` is None; the result is the same as without the interruption. A `break` or Ctrl-C ends the run after the
    current sweep, which is committed. A notebook may keep the loop alive after an exception; the run then ends when the
    store learns again or closes. Between two iterations, no pair is sampled, but the run holds the lease on the
    grammar.

    `report` is set at the end of the run, and `aligned` before the first sweep. Iteration raises the errors of the run.
    Iteration and `run` call `align`, `sample` and `finish` in a thread. Programs with their own signal handlers call
    these three methods directly.
    """

    def __init__(self, store: Store, sweeps: int | None, options: LearnOptions) -> None:
        self._store = store
        self._sweeps = sweeps
        self._options = options
        self._messages: SimpleQueue[LearnProgress | LearnReport | BaseException] = SimpleQueue()
        self._permits = threading.Semaphore(0)
        """Permits to continue. A stepwise run acquires one after each sweep."""
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self.resumed: LearningRun | None = None
        """Interrupted run that `align` found, or None."""
        self.aligned: AlignReport | None = None
        self.report: LearnReport | None = None

    def __iter__(self) -> Iterator[LearnProgress]:
        return self._iterate(stepwise=True)

    def run(self, progress: Callable[[LearnProgress], None] | None = None) -> LearnReport:
        """Perform all sweeps and return the report. Calls `progress` after each sweep."""
        for sweep in self._iterate(stepwise=False):
            if progress is not None:
                progress(sweep)
        assert self.report is not None
        return self.report

    def align(self, progress: Steps | None = None) -> AlignReport:
        """Align pairs that lack links or have corrections. Re-align if many were aligned only on arrival.

        Calls `progress(done, total)` for pairs without links.
        """
        threads = self._options.threads
        self.resumed = find_interrupted_run(self._store, self._sweeps)
        # Record the run first, so that an interrupted alignment is also resumed.
        resume_or_start_run(self._store, self._sweeps)
        self.aligned = align_pending(self._store, threads, report=progress)
        apply_pending_corrections(self._store, threads)
        return self.aligned

    def sample(
        self, progress: Callable[[LearnProgress], None], stop: Callable[[], bool] = lambda: False
    ) -> LearnReport:
        """Perform all sweeps, or stop when `stop` returns True.

        If `finished` of the report is True, save the report and then call `finish`. Until then, another call reports
        the completed run without further sweeps, unless pairs were added.
        """
        options = replace(self._options, report=progress, stop=stop)
        if options.make_chain is not None:
            # A chain of `make_chain` samples in worker processes, which have their own threads, so default to
            # one thread here.
            options = replace(options, threads=options.threads or 1)
        self.report = learn_all(self._store, sweeps=self._sweeps, options=options, leave_unfinished=True)
        return self.report

    def finish(self) -> None:
        """Record the end of the run. Call this method after saving the report."""
        self._store.finish_run()

    def stop(self) -> None:
        """Stop the run, and wait for its end. The current sweep is completed and committed."""
        self._stopped.set()
        self._permits.release()
        if self._thread is not None:
            self._thread.join()

    def _iterate(self, stepwise: bool) -> Iterator[LearnProgress]:
        if self._thread is not None:
            raise RuntimeError("this run has already started: call learn() again for a new run")
        # Learn in another thread, so that Ctrl-C cannot interrupt a sweep.
        self._thread = threading.Thread(target=self._learn, args=(stepwise,), name="learn", daemon=True)
        self._thread.start()
        try:
            while True:
                message = self._messages.get()
                if isinstance(message, BaseException):
                    raise message
                if isinstance(message, LearnReport):
                    return
                yield message
                self._permits.release()
        finally:
            self.stop()

    def _learn(self, stepwise: bool) -> None:
        def check_stopped(_done: int, _total: int) -> None:
            if self._stopped.is_set():
                raise CancelledError

        def report_sweep(step: LearnProgress) -> None:
            if step.phase == "sweep":
                self._messages.put(step)
                if stepwise and not self._stopped.is_set():
                    self._permits.acquire()

        try:
            self.align(check_stopped)
            report = self.sample(report_sweep, self._stopped.is_set)
            if report.finished:
                self.finish()
            self._messages.put(report)
        except BaseException as error:
            self._messages.put(error)
