"""A Ray cluster on this machine for the tests of a module."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def local_ray() -> Iterator[None]:
    """Join this process to a cluster with four processors."""
    from hierogram.daemon.workers.ray_cluster import start_local

    start_local(4, 100 << 20)
    import ray

    yield
    ray.shutdown()
