"""Lease on a store's grammar, held by one writer and renewed in a thread."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from hierogram.storage.exceptions import LeaseLostError, StoreError, StoreUnavailableError
from hierogram.storage.store import Store

LEASE_SECONDS = 60.0
_RENEWAL_SECONDS, _RETRY_SECONDS, _RELEASE_SECONDS = 15.0, 5.0, 5.0


@contextmanager
def holding_lease(
    store: Store, command: str, report: Callable[[str | None], None] = lambda _problem: None
) -> Iterator[None]:
    """Hold and renew the lease. `report` gets each renewal's error or None. Raises `StoreHeldError`."""
    store.take_lease(command, LEASE_SECONDS)
    stopped = threading.Event()

    def renew() -> None:
        pause = _RENEWAL_SECONDS
        while not stopped.wait(pause):
            try:
                store.renew_lease(LEASE_SECONDS)
            except StoreUnavailableError as error:
                report(str(error))
                pause = _RETRY_SECONDS
            except LeaseLostError as error:
                report(str(error))
                break
            else:
                report(None)
                pause = _RENEWAL_SECONDS
        # Ignore an unavailable database, because an unreleased lease expires by itself.
        with suppress(StoreError):
            store.release_lease()

    renewer = threading.Thread(target=renew, name="lease", daemon=True)
    renewer.start()
    try:
        yield
    finally:
        stopped.set()
        # Limit the wait, because another writer may block the release. An unreleased lease expires by itself.
        renewer.join(_RELEASE_SECONDS)
