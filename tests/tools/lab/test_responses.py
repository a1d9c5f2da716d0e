"""The measurement of response times fails if its server cannot run."""

import threading

import pytest

from hierogram.daemon.exceptions import DaemonError
from hierogram.storage.store import Store
from hierogram.tools.lab.measures import responses


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_measurement_fails_if_the_server_thread_dies(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise DaemonError("cannot listen")

    monkeypatch.setattr(responses.HttpLoop, "run", fail)
    threads = threading.active_count()
    with pytest.raises(RuntimeError, match="the HTTP server ended"), responses._serve(store):
        pass
    assert threading.active_count() == threads
