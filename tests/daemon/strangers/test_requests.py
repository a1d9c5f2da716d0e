"""Strangers at the door: whatever they send or hold open, the daemon answers others, samples on, and stays small."""

import resource
from pathlib import Path

import pytest
from tests.daemon.strangers.requests_attacks import all_attacks
from tests.daemon.strangers.requests_victim import DESCRIPTORS, victim

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(3_600)]


@pytest.fixture(autouse=True)
def many_descriptors() -> None:
    """Of the attackers, who are all in this process."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 8_192), most))


def test_strangers_cannot_keep_the_daemon_from_its_work(store_url: str, tmp_path: Path) -> None:
    most = 0
    with victim(store_url, tmp_path) as daemon:
        for number, (name, attack) in enumerate(all_attacks()):

            def meanwhile(name: str = name) -> None:
                nonlocal most
                daemon.look(name)
                most = max(most, daemon.descriptors())

            attack.run(daemon.daemon.port, meanwhile)
            daemon.feed(number)
        daemon.sampled_all()
        assert not daemon.faults, "\n".join(daemon.faults)
        # Some are kept back.
        assert most < DESCRIPTORS - 200
        daemon.daemon.end()
