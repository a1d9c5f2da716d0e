"""Command that learns a grammar: learn."""

import signal
import sys
import time
from dataclasses import asdict
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Self

import typer

from hierogram.daemon.cli.common import interruptible, open_chosen_store, plural, print_json, print_note
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.progress import Progress, progress
from hierogram.daemon.shared_options import SWEEPS, AsJson, ProcessThreads
from hierogram.daemon.workers.options import WorkerOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from hierogram.daemon.learning.alignment.incremental import AlignReport
    from hierogram.daemon.learning.learner import LearnProgress
    from hierogram.daemon.learning.learning import LearnReport
    from hierogram.daemon.library.learning import Learning
    from hierogram.samplers.grammar.kinds import GrammarKind


@with_options
def learn(
    context: typer.Context,
    worker_options: WorkerOptions,
    sweeps: Annotated[int | None, SWEEPS] = None,
    threads: ProcessThreads = None,
    as_json: AsJson = False,
) -> None:
    """Learn the grammar: burn in new pairs, then sample all pairs.

    Pairs without an alignment are aligned first. An interrupted run is continued if it had the same --sweeps, or if
    --sweeps is not given. SIGTERM and Ctrl-C stop the run after the current sweep and its commit.

    With --workers, processes on this machine or on a cluster sample the pairs (requires the extra `cluster`). The
    result does not depend on the number of workers or on lost workers.
    """
    workers, blocks = worker_options.parsed()
    from hierogram.daemon.learning.learner import LearnOptions
    from hierogram.daemon.workers.chain import start_workers
    from hierogram.samplers.synchronous.sweeps import Blocks

    with (
        open_chosen_store(context) as opened,
        # Start the workers before installing signal handlers, because Ray installs its own.
        start_workers(opened.store, workers, threads or 1) as make_chain,
    ):
        block_sizes = None if blocks is None else Blocks(*blocks)
        options = LearnOptions(threads, blocks=block_sizes, make_chain=make_chain)
        learning, kind = opened.learn(sweeps, options=options), opened.grammar_kind()
        with interruptible("committed alignments are kept: run the command again to continue"):
            aligned = align_pending(learning)
        if not as_json:
            print_aligned(aligned)
        run = learning.resumed_run()
        if run is not None and run.is_complete:
            print_note(
                f"the interrupted run had completed all of its {plural(run.sweeps, 'sweep')}: showing its result; run "
                "the command again to start a new run"
            )
        elif run is not None:
            total_sweeps = plural(run.sweeps, "sweep")
            print_note(f"continuing an interrupted run: {run.sweeps_done:,} of {total_sweeps} done")
        with StopSignals() as stop:
            with progress("learn", kind.plural) as bar:
                learned = learning.sample(learning_progress(bar), lambda: stop.number > 0)
            if learned.finished:
                stop.ignore()
                if as_json:
                    print_json({**asdict(learned), "aligned": asdict(aligned)})
                else:
                    print_learned(learned, kind)
                sys.stdout.flush()
                learning.finish()
    if not learned.finished:
        print_note("hierogram: interrupted, completed sweeps are kept: run the command again to continue")
        # Shells use the same exit codes: 130 after SIGINT, 143 after SIGTERM.
        raise typer.Exit(128 + stop.number)


def align_pending(learning: "Learning") -> "AlignReport":
    """Align the pairs without an alignment, with a progress bar."""
    with progress("align", "pairs") as bar:
        return learning.align(bar.update)


def print_aligned(report: "AlignReport") -> None:
    """Print the number of aligned pairs and the time, or nothing if no pair was aligned."""
    if report.pairs:
        realigned = f", {plural(report.realigned, 'pair')} re-aligned" if report.realigned else ""
        print(f"{plural(report.pairs, 'pair')} aligned in {report.seconds:.1f} s{realigned}")


def learning_progress(bar: Progress) -> "Callable[[LearnProgress], None]":
    """Return a progress callback for the steps of learning."""

    def report(step: "LearnProgress") -> None:
        likelihood = "" if step.log_likelihood is None else f", log-likelihood {step.log_likelihood:,.0f}"
        note = f"sweep {step.sweep}, stage {step.stage}{likelihood}"
        bar.update(step.done, step.total, step.done, note, "pair sweeps")

    return report


def print_learned(report: "LearnReport", kind: "GrammarKind") -> None:
    """Print the speed of a run, and the log-likelihood, rules in use and uses of rules before and after the run."""
    rate = report.pair_sweeps / max(report.sampling_seconds, 1e-9)
    parts = f" ({report.burn_in:,} of burn-in, {report.sweeps - report.burn_in:,} after it)" if report.burn_in else ""
    print(
        f"{plural(report.pairs, kind.singular)}, {plural(report.sweeps, 'sweep')}{parts} in {report.seconds:.1f} s "
        f"({rate:,.0f} {kind.plural}/s while sampling)"
    )
    print(f"  log-likelihood {report.log_likelihood_before:>14,.0f} → {report.log_likelihood_after:,.0f}")
    print(f"  rules in use   {report.rules_in_use_before:>14,} → {report.rules_in_use_after:,}")
    print(f"  uses of rules  {report.tokens_before:>14,} → {report.tokens_after:,}")


_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_DUPLICATE_SECONDS = 0.2
"""Seconds after the first signal in which further signals are ignored, because timeout(1) sends two."""


class StopSignals:
    """Context manager that records SIGINT or SIGTERM as `number`. A second signal ends the process."""

    def __init__(self) -> None:
        self.number = 0
        self._received_at = 0.0

    def __enter__(self) -> Self:
        self._handlers = {number: signal.signal(number, self._record) for number in _STOP_SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def ignore(self) -> None:
        """Ignore signals until the process ends, because a process killed by a signal reports failure."""
        self._handlers.clear()
        for number in _STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def _record(self, number: int, _frame: FrameType | None) -> None:
        if not self.number:
            self.number, self._received_at = number, time.monotonic()
            print_note("hierogram: finishing and committing the current sweep; interrupt again to stop at once")
        elif time.monotonic() - self._received_at > _DUPLICATE_SECONDS:
            # Use the default handler, which ends the process. The database rolls back the uncommitted sweep.
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
