"""Starting the workers that are asked for; neither Ray nor the samplers are imported before that."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from hierogram.daemon.exceptions import WorkersError
from hierogram.daemon.workers.options import Workers

if TYPE_CHECKING:
    from hierogram.daemon.learning.kinds.kind import Chain, Means
    from hierogram.storage.records import Settings
    from hierogram.storage.store import Store


def check_workers(settings: "Settings") -> None:
    """Raises `WorkersError` where Ray is not installed, or workers cannot sample such a store."""
    if find_spec("ray") is None:
        raise WorkersError("workers need Ray: pip install 'hierogram[cluster]'")
    from hierogram.daemon.workers.chain import check_shareable

    check_shareable(settings)


@contextmanager
def workers_of(
    store: "Store", chosen: Workers | None, threads: int
) -> "Iterator[Callable[[Store, Means], Chain] | None]":
    """Within, the workers run; what makes a chain that they sample, or None where none are asked for."""
    if chosen is None:
        yield None
        return
    check_workers(store.settings())
    from hierogram.daemon.workers.chain import shared_chain
    from hierogram.daemon.workers.ray_cluster import ray_cluster

    with ray_cluster(chosen, threads) as cluster:
        yield shared_chain(cluster)
