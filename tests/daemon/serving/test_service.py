"""The daemon records failures of its loops."""

import pytest
import structlog

from hierogram.daemon.configuration import Configuration
from hierogram.daemon.exceptions import DaemonError
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.serving.service import Daemon
from hierogram.storage.exceptions import StoreUnavailableError
from hierogram.storage.store import Store


@pytest.mark.database("sqlite")
def test_only_the_first_and_last_of_consecutive_failures_are_recorded_as_events(store: Store) -> None:
    configuration = Configuration()
    daemon = Daemon(GrammarStore(store), configuration, structlog.stdlib.get_logger())
    for pause in (1.0, 2.0, 4.0, None):
        daemon._record_failure("score", DaemonError(f"pause {pause}"), pause)
    daemon._record_failure("resample", StoreUnavailableError("gone"), 1.0)
    events = store.events(kinds=["loop-failed"]).events
    assert [event.detail for event in events] == [
        {"loop": "score", "error": "pause 1.0"}, {"loop": "score", "error": "pause None"}
    ]  # fmt: skip
