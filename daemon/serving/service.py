"""The daemon: a store, and loops that ingest, sample, export and serve."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from hierogram.daemon.configuration import Configuration, load_configuration
from hierogram.daemon.exceptions import DaemonError, ShutdownTimeoutError, UsageError
from hierogram.daemon.exports.exporting import Published
from hierogram.daemon.exports.options import ExportJob
from hierogram.daemon.exports.schedule import check_configured_jobs, configure_jobs, correct_next_runs, run_due
from hierogram.daemon.extensions import extensions
from hierogram.daemon.files import printable
from hierogram.daemon.learning.alignment.text_aligner import warm_up as warm_up_aligner
from hierogram.daemon.learning.kinds.kind import (
    ChainConfig,
    EmptyCounts,
    LoadedBatch,
    State,
    StoredSamples,
    SweepRequest,
    find_kind,
)
from hierogram.daemon.learning.lease import holding_lease
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.memory import limit_malloc_arenas, trim_malloc
from hierogram.daemon.serving.logs import Log, open_log
from hierogram.daemon.serving.sampling import SamplingLoop
from hierogram.daemon.serving.signals import Signals, exit_after, install_signal_handlers, notify, watchdog_seconds
from hierogram.daemon.serving.spool import SpoolLoop
from hierogram.daemon.serving.supervision import (
    DaemonStatus,
    HealthRegistry,
    Heartbeat,
    Loop,
    StopFlag,
    StoreLoop,
    Supervisor,
)
from hierogram.daemon.serving.webhooks import WebhookLoop
from hierogram.samplers.compiled.jit import cache_folder
from hierogram.samplers.grammar.columns import empty_blobs
from hierogram.samplers.grammar.kinds import PAIRS, find_grammar_kind
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.samplers.synchronous.sweeps import Blocks
from hierogram.storage.exceptions import StoreError, StoreUnavailableError
from hierogram.storage.records.operations import LOOP_FAILED, NewEvent
from hierogram.storage.records.settings import Settings

_CHECK_SECONDS = 1.0
_TRIM_SECONDS = 30.0
_CHANGE_TIMEOUT_SECONDS = 30.0
"""Seconds for which a request waits until the sampling loop has applied its change."""
_POLL_SECONDS = 0.1
_CLEANUP_SECONDS = 2.0
"""Additional seconds to release the lease, close the store and end threads after the loops stopped."""
_TIMEOUT_EXIT_CODE = 3
_FIXED_SECTIONS = ("store", "daemon")
"""Configuration sections that a running daemon cannot change."""

_SCHEDULE_SECONDS = 1.0
_CLOCK_CHECK_SECONDS = 60.0
"""Seconds between checks for next runs that were computed while the clock was ahead."""


class ScheduleLoop(StoreLoop):
    """Loop that runs the export jobs of the configuration and of `hierogram export`."""

    name = "schedule"
    sections = frozenset({"exports", "timezone"})

    def prepare(self, configuration: Configuration) -> None:
        """Raise `UsageError`, with the name of the key, if a configured job cannot run."""
        check_configured_jobs(self._store, configured_jobs(configuration))

    def run(self, stop: StopFlag, beat: Heartbeat) -> None:
        """Run due jobs until `stop` is set; see `Loop.run`."""
        self._store.close_abandoned_exports()
        beat.progress()
        configure_jobs(self._store, configured_jobs(self._configuration()))
        checked_at = float("-inf")
        while not stop.is_set():
            if time.monotonic() - checked_at >= _CLOCK_CHECK_SECONDS:
                for job in correct_next_runs(self._store):
                    self._log.warning("next run corrected, the clock was ahead", job=job)
                checked_at = time.monotonic()
            run_due(self._store, self._log_run, lambda *_: beat(), stop.is_set)
            beat.ok()
            stop.wait(_SCHEDULE_SECONDS)

    def _log_run(self, job: str, published: Published | None, error: Exception | None) -> None:
        if published is None:
            self._log.error("export failed", job=job, error=str(error))
        else:
            result = "export unchanged" if published.unchanged else "exported"
            self._log.info(result, job=job, rules=published.manifest.rules, folder=str(published.folder))


def configured_jobs(configuration: Configuration) -> list[ExportJob]:
    """Return the export jobs of a configuration, each with a time zone."""
    zone = configuration.timezone
    return [replace(job, timezone=zone if job.timezone is None else job.timezone) for job in configuration.exports]


class Daemon:
    """The daemon of a store. Other threads may call `status`, `withdraw` and `correct`."""

    def __init__(
        self, store: GrammarStore, configuration: Configuration, log: Log, *make_loops: "Callable[[Daemon], Loop]"
    ) -> None:
        self.grammar_store = store
        self.store = store.store
        self.configuration = configuration
        self.health = HealthRegistry()
        self.log = log
        self._started = time.monotonic()
        self._stopping = threading.Event()
        self.stopping = self._stopping.is_set
        """Callback that returns True during shutdown, when long requests must end."""
        self.lease_problem: str | None = None
        """Reason why the lease could not be renewed at the last attempt, or None."""
        loops: list[Loop] = [
            make_loop(store.store, lambda: self.configuration, self.health, log)
            for make_loop in (SpoolLoop, SamplingLoop, ScheduleLoop, WebhookLoop)
        ]
        loops += [loop for extension in extensions() for loop in extension.loops(self)]
        loops += [make_loop(self) for make_loop in make_loops]
        self.supervisor = Supervisor(loops, configuration.daemon, self._record_failure)

    def _record_failure(self, name: str, error: BaseException, pause: float | None) -> None:
        log = self.log.bind(loop=name)
        # Messages of these errors are written for users and need no traceback.
        trace = None if isinstance(error, DaemonError | StoreError) else error
        if pause is None:
            log.error("loop stopped", error=str(error), exc_info=trace)
        else:
            log.warning("loop failed, restarting", error=str(error), pause=pause, exc_info=trace)
        # Record only the first failure in a row, which has the shortest pause, and the last one. An unavailable store
        # can record nothing.
        in_between = pause is not None and pause > self.configuration.daemon.pause_seconds
        if not in_between and not isinstance(error, StoreUnavailableError):
            detail = {"loop": name, "error": printable(str(error) or type(error).__name__)}
            with suppress(StoreError):
                self.store.record_event(NewEvent(LOOP_FAILED, detail=detail))

    def record_lease(self, problem: str | None) -> None:
        """Record the reason why the lease was not renewed, or None after a renewal."""
        if problem and not self.lease_problem:
            self.log.warning("the lease on the store was not renewed", error=problem)
        self.lease_problem = problem

    def status(self) -> DaemonStatus:
        """Return the state of the daemon, without a database query."""
        health, degraded = self.health, self.supervisor.problem() or self.lease_problem
        uptime, loops = time.monotonic() - self._started, self.supervisor.health()
        return DaemonStatus(loops, health.lag(), degraded, health.log_likelihood, uptime, health.spool)

    def withdraw(self, pair_ids: Sequence[int]) -> list[int]:
        """Request the withdrawal of pairs, wait for up to 30 seconds, and return the ids that existed."""
        requested = self.store.request_withdrawals(pair_ids)
        self._wait_for(lambda: not (requested and self.store.pairs_by_id(requested)))
        return requested

    def correct(self, pair_id: int, links: KnownLinks, origin: str) -> bool | None:
        """Replace a pair's human links. Returns True if re-aligned in time, None if the pair is unknown."""
        if not self.store.set_human_links(pair_id, links, origin):
            return None
        return self._wait_for(lambda: self.store.is_corrected(pair_id))

    def _wait_for(self, done: Callable[[], bool]) -> bool:
        """Poll `done` until it returns True, the timeout expires or the daemon stops. Returns the last result."""
        deadline = time.monotonic() + _CHANGE_TIMEOUT_SECONDS
        while not (result := done()) and time.monotonic() < deadline and not self.stopping():
            time.sleep(_POLL_SECONDS)
        return result

    def reconfigure(self, configuration: Configuration) -> list[str]:
        """Apply a configuration, and return the names of restarted loops. If this fails, the old one remains."""
        before = self.configuration
        changed = {name for name, value in configuration if getattr(before, name) != value}
        configuration = configuration.model_copy(update={name: getattr(before, name) for name in _FIXED_SECTIONS})
        _check_files(configuration)
        self.supervisor.prepare(configuration, frozenset(changed))
        for name in changed.intersection(_FIXED_SECTIONS):
            self.log.warning("this change takes effect after a restart of the daemon", key=name)
        self.configuration = configuration
        if "log" in changed:
            self.log = open_log(configuration.log)
        return self.supervisor.restart(frozenset(changed))

    def stop(self) -> None:
        """Stop the loops. Raises `ShutdownTimeoutError` if a loop does not end within the grace period."""
        self._stopping.set()
        late = self.supervisor.stop(self.configuration.daemon.grace_seconds)
        if late:
            limit = f"{self.configuration.daemon.grace_seconds:g} s (grace_seconds)"
            effect = "their uncommitted work is rolled back, and repeated after the next start"
            raise ShutdownTimeoutError(f"loops did not stop within {limit}: {', '.join(late)}; {effect}")


def serve(
    store: GrammarStore,
    configuration: Configuration,
    file: Path | None,
    overrides: dict[str, object],
    *make_loops: Callable[[Daemon], Loop],
) -> None:
    """Run the daemon until a signal or a failed loop ends it. SIGHUP reloads `file` with `overrides`."""
    limit_malloc_arenas()
    log = open_log(configuration.log)
    service = Daemon(store, configuration, log, *make_loops)
    with holding_lease(store.store, "hierogram serve", report=service.record_lease):
        with _name_file_in_errors(file):
            _check_files(configuration)
            service.supervisor.prepare(configuration)
        prepare_kernels(store.settings(), log, http=configuration.http.enabled)
        signals = install_signal_handlers()
        signals.starting = False
        for batch in service.store.close_abandoned_batches():
            log.warning("closed the batch of a terminated reader", batch=batch)
        service.supervisor.start()
        notify("READY=1")
        folder = configuration.spool.folder
        log.info("daemon started", store=service.store.url, spool=None if folder is None else str(folder))
        try:
            _watch(service, signals, file, overrides)
        finally:
            notify("STOPPING=1")
            exit_after(service.configuration.daemon.grace_seconds + _CLEANUP_SECONDS, _TIMEOUT_EXIT_CODE)
            signals.restore_default_handlers()
            service.log.info("daemon stopping")
            service.stop()
        service.log.info("daemon stopped")


def _check_files(configuration: Configuration) -> None:
    for extension in extensions():
        extension.check(configuration)


@contextmanager
def _name_file_in_errors(file: Path | None) -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        raise UsageError(str(error) if file is None else f"{file}: {error}") from error


def _watch(service: Daemon, signals: Signals, file: Path | None, overrides: dict[str, object]) -> None:
    watchdog = watchdog_seconds()
    trimmed_at = time.monotonic()
    while not signals.end:
        service.supervisor.check()
        if watchdog:
            notify("WATCHDOG=1")
        if time.monotonic() - trimmed_at >= _TRIM_SECONDS:
            trim_malloc()
            trimmed_at = time.monotonic()
        if signals.reload:
            signals.reload = False
            _reload(service, file, overrides)
        signals.sleep(min(_CHECK_SECONDS, watchdog or _CHECK_SECONDS))


def _reload(service: Daemon, file: Path | None, overrides: dict[str, object]) -> None:
    notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
    try:
        configuration = load_configuration(file, **overrides)
        with _name_file_in_errors(file):
            names = service.reconfigure(configuration)
        service.log.info("configuration reloaded", restarted=names)
    except DaemonError as error:
        service.log.error("configuration not reloaded", error=str(error))
    notify("READY=1")


_QUIET_SECONDS = 1.0
_SECONDS_PER_LINE = 5.0


def prepare_kernels(settings: Settings, log: Log, *, http: bool) -> None:
    """Compile or load the kernels of sampling and, with `http`, of requests. Logs slow compilation."""
    started = time.monotonic()
    done = threading.Event()

    def log_progress() -> None:
        pause, text = _QUIET_SECONDS, "not ready: compiling the samplers for this machine (once)"
        while not done.wait(pause):
            log.info(text, kernels=_count_kernels(), seconds=round(time.monotonic() - started))
            pause, text = _SECONDS_PER_LINE, "not ready: still compiling the samplers"

    reporter = threading.Thread(target=log_progress, name="log-compilation", daemon=True)
    reporter.start()
    try:
        loaded, state = warm_up(settings)
        grammar_kind = find_grammar_kind(settings.grammar)
        if http and grammar_kind.input_kind == PAIRS:
            warm_up_aligner()
        for extension in extensions() if http else ():
            extension.warm_up(grammar_kind, loaded, state)
    finally:
        done.set()
        reporter.join()
    if time.monotonic() - started > _QUIET_SECONDS:
        log.info("samplers ready", kernels=_count_kernels(), seconds=round(time.monotonic() - started))


def _count_kernels() -> int:
    return sum(1 for _ in cache_folder().rglob("*.nbc"))


def warm_up(settings: Settings) -> tuple[LoadedBatch, State]:
    """Compile the kernels of sampling on a small pair in memory. Returns the loaded pair and its state."""
    kind = find_kind(settings)
    loaded = kind.load([kind.example], settings)
    all_pairs, averages = np.ones(loaded.batch.size, np.bool_), loaded.read_averages(empty_blobs(loaded.batch.size))
    # Run both sweep schemes, exact and in blocks, because each has its own kernels.
    for blocks in (None, Blocks(1, 1)):
        chain = kind.chain(EmptyCounts(settings, (2, 2)), ChainConfig(blocks=blocks))
        state = kind.draw_initial_state(loaded, settings, all_pairs, None)
        chain.add_pairs(loaded, state, ~all_pairs)
        request = SweepRequest(np.ones(loaded.batch.size, np.int64), all_pairs, all_pairs)
        state, _ = chain.sweep(loaded)(state, averages, request, lambda _: None)
        chain.log_likelihood()
        chain.close()
    state = loaded.decode(loaded.encode(state))
    loaded.rule_deltas(None, StoredSamples(state, loaded.write_averages(averages)))
    return loaded, state
