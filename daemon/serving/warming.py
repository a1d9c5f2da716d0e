"""Compiling, or loading from the cache, all kernels that the daemon needs, before anybody waits for them."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from hierogram.daemon.alignment.answering import warm_up as warm_up_answers
from hierogram.daemon.learning.kinds.kind import Drawn
from hierogram.daemon.learning.kinds.registry import kind_of
from hierogram.daemon.serving.logs import Log
from hierogram.samplers.compiled.cache import cache_folder
from hierogram.samplers.grammar.columns import no_blobs
from hierogram.samplers.grammar.kinds import PAIRS, notation_of
from hierogram.storage.records import Settings

_QUIET_SECONDS = 1.0
_SECONDS_A_LINE = 5.0


def get_ready(settings: Settings, log: Log, *, answers: bool) -> None:
    """Warms up all that sampling needs, and, for `answers` to requests, aligning; says in the log while it takes long.

    On a machine that has compiled before it is a matter of seconds, and nothing is said.
    """
    with _announced(log):
        warm_up(settings)
        if answers and notation_of(settings.grammar).takes == PAIRS:
            warm_up_answers()


@contextmanager
def _announced(log: Log) -> Iterator[None]:
    """Says that kernels are compiled, and each few seconds how many there are; nothing where it is soon done."""
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
        yield
    finally:
        done.set()
        speaker.join()
    if time.monotonic() - started > _QUIET_SECONDS:
        log.info("samplers ready", kernels=_kernels(), seconds=round(time.monotonic() - started))


def _kernels() -> int:
    """How many kernels are compiled and kept on this machine."""
    return sum(1 for _ in cache_folder().rglob("*.nbc"))


def warm_up(settings: Settings) -> None:
    """Takes one small pair through everything that is done to pairs, in memory alone."""
    loaded, state = kind_of(settings).warm_up(settings)
    averages = loaded.read_averages(no_blobs(loaded.size))
    loaded.average(averages, state, np.ones(loaded.size, np.bool_))
    state = loaded.decode(loaded.encode(state))
    loaded.rule_deltas(None, Drawn(loaded.trees(state), loaded.write_averages(averages)), settings)
