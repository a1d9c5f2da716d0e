"""Requests and open connections of untrusted clients do not stop other requests or sampling, and memory stays small."""

import resource
from pathlib import Path

import pytest
from tests.daemon.untrusted.requests_attacks import all_attacks
from tests.daemon.untrusted.requests_victim import DESCRIPTORS, victim

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(3_600)]


@pytest.fixture(autouse=True)
def many_descriptors() -> None:
    """Raise the descriptor limit of this process, which runs all attackers."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 8_192), most))


def test_daemon_answers_and_samples_during_attacks_over_http(store_url: str, tmp_path: Path) -> None:
    most = 0
    with victim(store_url, tmp_path) as daemon:
        for number, (name, attack) in enumerate(all_attacks()):

            def during(name: str = name) -> None:
                nonlocal most
                daemon.look(name)
                most = max(most, daemon.descriptors())

            attack.run(daemon.daemon.port, during)
            daemon.feed(number)
        daemon.wait_until_sampled()
        assert not daemon.faults, "\n".join(daemon.faults)
        # Some descriptors must remain for other clients.
        assert most < DESCRIPTORS - 200
        daemon.daemon.end()
