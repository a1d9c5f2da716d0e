"""A cluster of Ray that runs on this machine, while tests of a module need it."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def local_ray() -> Iterator[None]:
    """Within, this process has joined a cluster with room for four workers."""
    from hierogram.daemon.workers.ray_cluster import start_local

    start_local(4, 100 << 20)
    import ray

    yield
    ray.shutdown()
