"""The daemon put together: its store, its loops, and what others may ask of it."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from hierogram.daemon.configuration import Configuration, load_configuration
from hierogram.daemon.exceptions import DaemonError, LateError, UsageError
from hierogram.daemon.extensions import extensions
from hierogram.daemon.files import readable
from hierogram.daemon.learning.alignment.answering import warm_up as warm_up_answers
from hierogram.daemon.learning.kinds.kind import Drawn, Loaded, State, TrialOptions
from hierogram.daemon.learning.kinds.registry import kind_of
from hierogram.daemon.learning.learner import holding_lease
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.memory import give_back, share_arenas
from hierogram.daemon.serving.health import Condition, HealthRegistry
from hierogram.daemon.serving.logs import Log, open_log
from hierogram.daemon.serving.sampling import SamplingLoop
from hierogram.daemon.serving.scheduling import ScheduleLoop
from hierogram.daemon.serving.signals import (
    READY,
    STOPPING,
    WATCHDOG,
    Signals,
    end_within,
    heed_signals,
    notify,
    watchdog_seconds,
)
from hierogram.daemon.serving.spool import SpoolLoop
from hierogram.daemon.serving.supervision import Loop, Supervisor
from hierogram.daemon.serving.webhooks import WebhookLoop
from hierogram.samplers.compiled.cache import cache_folder
from hierogram.samplers.grammar.columns import no_blobs
from hierogram.samplers.grammar.kinds import PAIRS, notation_of
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.samplers.synchronous.sweeps import Blocks
from hierogram.storage.exceptions import StoreError, StoreUnavailableError
from hierogram.storage.records import Settings
from hierogram.storage.records.operations import LOOP_FAILED, NewEvent
from hierogram.storage.store import Store

_LOOK_SECONDS = 1.0
_GIVE_BACK_SECONDS = 30.0
_WITHDRAWAL_SECONDS = 30.0
_LOOK_AGAIN_SECONDS = 0.1
_UNWINDING_SECONDS = 2.0
"""After the loops: the claim on the store is given back, the store is closed, threads of libraries end."""
LATE = 3
"""Exit code where the daemon's end takes too long, as where a loop ends it."""
_FIXED = ("store", "daemon")
"""Sections that a running daemon cannot change."""


class Daemon:
    """A running daemon; every method may be called from any thread.

    `doors` makes the loops by which others reach the daemon, over HTTP for one, from the daemon that they belong to.
    """

    def __init__(
        self, store: GrammarStore, configuration: Configuration, log: Log, doors: "Doors | None" = None
    ) -> None:
        self.store = store
        self.configuration = configuration
        self.health = HealthRegistry()
        self.log = log
        self._started = time.monotonic()
        self._stopping = False
        self.lease_trouble: str | None = None
        shared: tuple[Store, Callable[[], Configuration]] = store.store, lambda: self.configuration
        loops: list[Loop] = [
            SpoolLoop(*shared, self.health, log),
            SamplingLoop(*shared, self.health, log),
            ScheduleLoop(*shared, log),
            WebhookLoop(*shared, log),
        ]
        loops += [loop for one in extensions() if one.loops for loop in one.loops(self)]
        self.supervisor = Supervisor(
            [*loops, *(doors(self) if doors else ())], configuration.daemon, self._note_failure
        )

    def _note_failure(self, name: str, error: BaseException, pause: float | None) -> None:
        log = self.log.bind(loop=name)
        # What was raised on purpose says all in its message.
        trace = None if isinstance(error, DaemonError | StoreError) else error
        if pause is None:
            log.error("loop ended", error=str(error), exc_info=trace)
        else:
            log.warning("loop failed, starts again", error=str(error), pause=pause, exc_info=trace)
        # Only the first failure in a row, with the shortest pause, and the last. A store that is gone records nothing.
        in_between = pause is not None and pause > self.configuration.daemon.pause_seconds
        if not in_between and not isinstance(error, StoreUnavailableError):
            detail = {"loop": name, "error": readable(str(error) or type(error).__name__)}
            with suppress(StoreError):
                self.store.store.note_event(NewEvent(LOOP_FAILED, detail=detail))

    def note_lease(self, trouble: str | None) -> None:
        """Note that the claim on the store could not be renewed (why), or was (None)."""
        if trouble and not self.lease_trouble:
            self.log.warning("the claim on the store is not renewed", error=trouble)
        self.lease_trouble = trouble

    def condition(self) -> Condition:
        """Return how the daemon is; quick, and asks no database."""
        return Condition(
            self.supervisor.health(),
            self.health.lag(),
            self.supervisor.trouble() or self.lease_trouble,
            self.health.log_likelihood,
            time.monotonic() - self._started,
            self.health.rejuvenated,
            self.health.spool,
        )

    def withdraw(self, pair_ids: Sequence[int]) -> list[int]:
        """Have the pairs and all that they count leave the store; return the ids of those that were there.

        Waits until they have left, which sampling sees to between two of its turns; where it is kept from that for
        long (the store is gone, say), they leave as soon as it can.
        """
        store = self.store.store
        found = store.request_withdrawals(pair_ids)
        self._wait_for(lambda: not (found and store.pairs_by_id(found)))
        return found

    def correct(self, pair_id: int, links: KnownLinks, origin: str) -> bool | None:
        """Put these links in place of what people have said; return whether the pair's alignment follows already.

        None where there is no such pair. Waits as `withdraw` does. Raises `HumanLinksError`.
        """
        store = self.store.store
        if not store.set_human_links(pair_id, links, origin):
            return None
        return self._wait_for(lambda: store.is_corrected(pair_id))

    def _wait_for(self, done: Callable[[], bool]) -> bool:
        """Return whether it is done by the time that nobody waits any longer."""
        until = time.monotonic() + _WITHDRAWAL_SECONDS
        while not (found := done()) and time.monotonic() < until and not self._stopping:
            time.sleep(_LOOK_AGAIN_SECONDS)
        return found

    def stopping(self) -> bool:
        """Return whether the daemon is on its way out, so that long requests should end."""
        return self._stopping

    def reconfigure(self, configuration: Configuration) -> list[str]:
        """Take another configuration and have the loops that it concerns start again; return their names.

        Raises `DaemonError`, and changes nothing, where one of them cannot have what it needs then, as a port.
        """
        before = self.configuration
        keys = type(configuration).model_fields
        changed = {name for name in keys if getattr(before, name) != getattr(configuration, name)}
        kept = {name: getattr(before, name) for name in _FIXED}
        configuration = configuration.model_copy(update=kept)
        check_files(configuration)
        self.supervisor.prepare(configuration, frozenset(changed))
        for name in changed.intersection(_FIXED):
            self.log.warning("a change of this takes effect when the daemon is started again", key=name)
        self.configuration = configuration
        if "log" in changed:
            self.log = open_log(configuration.log)
        return self.supervisor.restart(frozenset(changed))

    def stop(self) -> None:
        """Have the loops finish; raises `LateError` if one does not within the grace period."""
        self._stopping = True
        late = self.supervisor.stop(self.configuration.daemon.grace_seconds)
        if late:
            raise LateError(
                f"not done within {self.configuration.daemon.grace_seconds:g} s: {', '.join(late)}; "
                "what was not committed is rolled back, and done again after the next start"
            )


Doors = Callable[[Daemon], Sequence[Loop]]


def serve(
    store: GrammarStore,
    configuration: Configuration,
    file: Path | None,
    given: dict[str, object],
    doors: Doors | None = None,
) -> None:
    """Run the daemon until a signal ends it; `file` and `given` are what SIGHUP reads again, `doors` see `Daemon`.

    Raises `DaemonError` if a loop had to be given up or cannot have what it needs, such as a port, `LateError` if one
    does not end in time, and `StoreHeldError` if another process writes the store's grammar.
    """
    share_arenas()
    log = open_log(configuration.log)
    service = Daemon(store, configuration, log, doors)
    lease = holding_lease(store.store, "hierogram serve", configuration.daemon.lease_seconds, service.note_lease)
    with lease:
        with _naming(file):
            check_files(configuration)
            service.supervisor.prepare(configuration)
        get_ready(store.settings(), log, answers=configuration.http.enabled)
        _run(service, file, given)


def check_files(configuration: Configuration) -> None:
    """Raise `UsageError`, which names the key, if a file that the configuration names is missing."""
    for extension in extensions():
        if extension.check is not None:
            extension.check(configuration)


@contextmanager
def _naming(file: Path | None) -> Iterator[None]:
    """Put the name of the configuration file before the message of a `UsageError`."""
    try:
        yield
    except UsageError as error:
        raise UsageError(str(error) if file is None else f"{file}: {error}") from error


def _run(service: Daemon, file: Path | None, given: dict[str, object]) -> None:
    store, log = service.store, service.log
    signals = heed_signals()
    signals.starting = False
    for batch in store.store.close_abandoned_batches():
        log.warning("closed the batch of a reader that had ended", batch=batch)
    service.supervisor.start()
    notify(READY)
    folder = service.configuration.spool.folder
    log.info("daemon started", store=store.url, spool=None if folder is None else str(folder))
    try:
        _watch(service, signals, file, given)
    finally:
        notify(STOPPING)
        end_within(service.configuration.daemon.grace_seconds + _UNWINDING_SECONDS, LATE)
        signals.let_the_next_kill()
        service.log.info("daemon ends")
        service.stop()
    service.log.info("daemon ended")


def _watch(service: Daemon, signals: Signals, file: Path | None, given: dict[str, object]) -> None:
    """Look after the loops until a signal asks for the end."""
    watchdog = watchdog_seconds()
    pause = min(_LOOK_SECONDS, watchdog or _LOOK_SECONDS)
    given_back = time.monotonic()
    while not signals.end:
        service.supervisor.check()
        if watchdog:
            notify(WATCHDOG)
        if time.monotonic() - given_back >= _GIVE_BACK_SECONDS:
            give_back()
            given_back = time.monotonic()
        if signals.reload:
            signals.reload = False
            _reload(service, file, given)
        signals.sleep(pause)


def _reload(service: Daemon, file: Path | None, given: dict[str, object]) -> None:
    notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
    try:
        configuration = load_configuration(file, **given)
        with _naming(file):
            names: Sequence[str] = service.reconfigure(configuration)
    except DaemonError as error:
        service.log.error("configuration not changed", error=str(error))
    else:
        service.log.info("configuration read again", restarted=names)
    notify(READY)


_QUIET_SECONDS = 1.0
_SECONDS_A_LINE = 5.0


def get_ready(settings: Settings, log: Log, *, answers: bool) -> None:
    """Warm up all that sampling needs, and, for `answers` to requests, aligning and translating.

    The log says so while it takes long; on a machine that has compiled before it is a matter of seconds.
    """
    started = time.monotonic()
    done = threading.Event()

    def say() -> None:
        pause, text = _QUIET_SECONDS, "compiling the samplers for this machine, once; not ready yet"
        while not done.wait(pause):
            log.info(text, kernels=_kernels(), seconds=round(time.monotonic() - started))
            pause, text = _SECONDS_A_LINE, "still compiling the samplers; not ready yet"

    speaker = threading.Thread(target=say, name="say-compiling", daemon=True)
    speaker.start()
    try:
        loaded, state = warm_up(settings)
        notation = notation_of(settings.grammar)
        if answers and notation.takes == PAIRS:
            warm_up_answers()
        for extension in extensions():
            if answers and extension.warm_up:
                extension.warm_up(notation, loaded, state)
    finally:
        done.set()
        speaker.join()
    if time.monotonic() - started > _QUIET_SECONDS:
        log.info("samplers ready", kernels=_kernels(), seconds=round(time.monotonic() - started))


def _kernels() -> int:
    """Return how many kernels are compiled and kept on this machine."""
    return sum(1 for _ in cache_folder().rglob("*.nbc"))


def warm_up(settings: Settings) -> tuple[Loaded, State]:
    """Take one small pair through everything that is done to pairs, in memory alone; return it and its state."""
    kind = kind_of(settings)
    loaded = kind.load([kind.example], settings)
    # In both schemes of sweeps.
    for blocks in (None, Blocks(1, 1)):
        how = TrialOptions(settings.seed, exact=blocks is None, blocks=blocks)
        trial = kind.trial(loaded, settings, (2, 2), how)
        trial.sweep()
        trial.log_likelihood()
        trial.close()
    averages = loaded.read_averages(no_blobs(loaded.size))
    loaded.average(averages, trial.state, np.ones(loaded.size, np.bool_))
    state = loaded.decode(loaded.encode(trial.state))
    loaded.rule_deltas(None, Drawn(loaded.trees(state), loaded.write_averages(averages)), settings)
    return loaded, state
