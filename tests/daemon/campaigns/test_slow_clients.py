"""Pages are answered in time and memory stays bounded during attacks by slow clients."""

from collections.abc import Iterator
from itertools import product

import pytest
from tests.daemon.campaigns.slow_clients import LIMIT_SECONDS, MAX_BYTES, Target, make_store, target

pytestmark = [pytest.mark.campaign, pytest.mark.database("sqlite"), pytest.mark.timeout(3_600)]

_PAIRS = 2_000
_ATTACKS = (
    "unread translation memory",
    "unread streams",
    "translations",
    "translations whose clients leave",
)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("slow")
    url = f"sqlite:///{folder / 'demo.db'}"
    make_store(url, _PAIRS)
    with target(url, folder) as attacked_daemon:
        yield attacked_daemon


@pytest.mark.parametrize(
    ("name", "connections"),
    [*product(_ATTACKS, (16,)), ("everything", 16), *product(_ATTACKS, (90,)), ("everything", 40)],
)
def test_pages_are_answered_in_time_and_memory_is_bounded_during_an_attack(
    attacked: Target, name: str, connections: int
) -> None:
    measured = attacked.measure(name, connections, 20.0)
    print(f"{name}, {connections} connections: {measured.line()}")
    assert not measured.failures
    assert measured.percentile(99) <= LIMIT_SECONDS
    assert measured.bytes <= MAX_BYTES
