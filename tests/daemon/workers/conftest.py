"""A cluster of Ray that runs on this machine, one for the whole session."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    """Within, this process has joined a cluster with room for four workers; it ends with the session."""
    from hierogram.daemon.workers.ray_cluster import start_local

    start_local(4, 100 << 20)
    import ray

    yield
    ray.shutdown()
