"""Holding the lease: for as long as a command writes the grammar, nobody else may."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from hierogram.storage.exceptions import LeaseLostError, StoreError, StoreUnavailableError
from hierogram.storage.store import Store

LEASE_SECONDS = 60.0
_RENEWALS = 4
"""So many times is a claim renewed before it would lapse."""
_RELEASE_SECONDS = 5.0


@contextmanager
def holding_lease(
    store: Store,
    command: str,
    seconds: float = LEASE_SECONDS,
    report: Callable[[str | None], None] = lambda _trouble: None,
) -> Iterator[None]:
    """Within, only this store object may commit derivations; the claim is renewed by a thread.

    `report` hears what keeps the claim from being renewed, and None when it is again. A claim that is lost makes
    every commit fail with `LeaseLostError`. Raises `StoreHeldError` where someone else holds the store.
    """
    store.take_lease(command, seconds)
    ended = threading.Event()

    def keep() -> None:
        _renew(store, seconds, ended, report)
        # Where the database is gone, the claim lapses by itself, as that of a process that has ended.
        with suppress(StoreError):
            store.release_lease()

    keeper = threading.Thread(target=keep, name="lease", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ended.set()
        # Others may be writing for long; the end of this process frees the store as well.
        keeper.join(_RELEASE_SECONDS)


def _renew(store: Store, seconds: float, ended: threading.Event, report: Callable[[str | None], None]) -> None:
    while not ended.wait(seconds / _RENEWALS):
        try:
            store.renew_lease(seconds)
        except StoreUnavailableError as error:
            report(str(error))
        except LeaseLostError as error:
            report(str(error))
            return
        else:
            report(None)
