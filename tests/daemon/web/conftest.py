"""A service without loops, and its clients."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

import pytest
from fastapi import applications
from starlette.testclient import TestClient
from tests.conftest import CopyStore, LastingStore, create_sql_role, make_new
from tests.daemon.conftest import learned_store_maker

from hierogram.daemon.configuration import HttpConfiguration, configuration_type
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.serving.supervision import DaemonStatus, Lag, LoopHealth
from hierogram.daemon.text.lines import DEFAULT_LIMITS, InputLimits
from hierogram.daemon.web.application import build_app
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.store import Store, open_store


class FakeService:
    """A service that answers like a daemon, with a status set by tests."""

    def __init__(self, store: Store) -> None:
        self.grammar_store = GrammarStore(store)
        self.configuration = configuration_type()()
        self.daemon_status = DaemonStatus(
            (LoopHealth("ingest", 0.5, 60.0), LoopHealth("resample", 1.0, 60.0)), Lag(0, None, 0.0)
        )
        self.ends = False
        self.withdrawn: list[int] = []
        self.leaves = True

    @property
    def store(self) -> Store:
        return self.grammar_store.store

    def status(self) -> DaemonStatus:
        return self.daemon_status

    def change(self, **values: object) -> None:
        self.daemon_status = replace(self.daemon_status, **values)

    def stopping(self) -> bool:
        return self.ends

    def withdraw(self, pair_ids: Sequence[int]) -> list[int]:
        there = [row.id for row in self.store.pairs_by_id(pair_ids)]
        self.withdrawn += there
        if self.leaves:
            from hierogram.daemon.learning.learner import withdraw_all

            withdraw_all(self.store, there, lambda _done: None)
        return there

    def correct(self, pair_id: int, links: KnownLinks, origin: str) -> bool | None:
        if not self.store.set_human_links(pair_id, links, origin):
            return None
        if self.leaves:
            from hierogram.daemon.learning.alignment.incremental import apply_pending_corrections

            apply_pending_corrections(self.store)
        return self.store.is_corrected(pair_id)


@pytest.fixture(scope="session", autouse=True)
def shared_openapi() -> Iterator[None]:
    """Build the OpenAPI document once. It is the same for every app, and building it takes longer than most tests."""
    gather = applications.get_openapi
    made: list[bytes] = []

    def get_openapi(**values: object) -> object:
        if not made:
            made.append(pickle.dumps(gather(**values)))
        return pickle.loads(made[0])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(applications, "get_openapi", get_openapi)
        yield


Connect = Callable[..., TestClient]


@pytest.fixture
def service(store: Store) -> FakeService:
    return FakeService(store)


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Function that creates a client of a service, optionally with its own configuration."""
    with ExitStack() as stack:

        def make(
            service: FakeService, host: str = "127.0.0.1", limits: InputLimits = DEFAULT_LIMITS, **values: object
        ) -> TestClient:
            role = {"sql_url": create_sql_role(service.store.engine.url)}
            http, intake = HttpConfiguration(**(role | values)), limits
            app = build_app(service, configuration_type()(http=http, intake=intake))
            client = TestClient(app, f"http://{host}", raise_server_exceptions=False)
            return stack.enter_context(client)

        yield make


@pytest.fixture
def client(service: FakeService, connect: Connect) -> TestClient:
    """A client of a service on an empty store. Parametrized by database."""
    return connect(service)


@pytest.fixture
def learned_client(learned: Store, connect: Connect) -> TestClient:
    """A client of a service on a learned store. Parametrized by database."""
    return connect(FakeService(learned))


@pytest.fixture(scope="session")
def shared_clients() -> Iterator[Callable[[str], TestClient]]:
    """Function that returns a shared client of an unchanging store, because creating an application is slow."""
    made: dict[str, TestClient] = {}
    with ExitStack() as stack:

        def client(url: str) -> TestClient:
            if url not in made:
                store = stack.enter_context(open_store(url))
                asked = HttpConfiguration(sql_url=create_sql_role(url), max_rate=1e6, max_burst=10**6)
                app = build_app(FakeService(store), configuration_type()(http=asked))
                opened = TestClient(app, "http://127.0.0.1", raise_server_exceptions=False)
                made[url] = stack.enter_context(opened)
            made[url].cookies.clear()
            return made[url]

        yield client


@pytest.fixture
def reading_url(lasting_store: LastingStore, copy_store: CopyStore, tmp_path_factory: pytest.TempPathFactory) -> str:
    """URL of a learned store shared by tests that change nothing. Parametrized by database."""
    make = learned_store_maker(tmp_path_factory)
    return lasting_store("learned, to read", lambda url: copy_store("learned", url, make))


@pytest.fixture
def reading_client(reading_url: str, shared_clients: Callable[[str], TestClient]) -> TestClient:
    """A shared client of the learned store."""
    return shared_clients(reading_url)


@pytest.fixture
def empty_client(
    lasting_store: LastingStore, copy_store: CopyStore, shared_clients: Callable[[str], TestClient]
) -> TestClient:
    """A client of an empty store, shared by tests that store nothing. Parametrized by database."""
    return shared_clients(lasting_store("new, to read", lambda url: copy_store("new", url, make_new)))
