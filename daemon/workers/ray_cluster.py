"""Workers as actors of Ray, on this machine or on a cluster of them."""

import ctypes
import logging
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

# Set before Ray is imported, which reads it then: it would send figures to its makers otherwise.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import ray
from ray import exceptions
from ray._private import ray_constants

from hierogram.daemon.exceptions import ClusterLostError, DaemonError
from hierogram.daemon.learning.kinds.compiling import processors
from hierogram.daemon.workers.options import Workers
from hierogram.daemon.workers.worker import Worker, WorkerLostError

_ray: Any = ray
"""Ray's own annotations say less than is true of remote classes."""
_OBJECT_BYTES = 512 << 20
"""Memory for what is shared between processes, of a cluster that is started here; what is more goes to disk."""
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
_CONFIG = {
    # Else they would have the processors only when nobody else wants them, which threads do not do.
    "worker_niceness": 0
}
"""Of a cluster that is started here."""
_SIGACTION_BYTES = 512
"""More than any system needs to say what becomes of a signal."""
_SECONDS_TO_START = 120.0
_SECONDS_A_CALL = 900.0
"""A worker that needs longer for a call is taken for lost; the first one may compile for some minutes."""
_SECONDS_A_LOOK = 5.0
"""Seconds from one look to the next how many processors the cluster has, and whether any of its machines is left."""
_LOST = (exceptions.RayActorError, exceptions.GetTimeoutError, exceptions.ObjectLostError, exceptions.NodeDiedError)
_GONE = (exceptions.RaySystemError, exceptions.LocalRayletDiedError, ConnectionError)
"""Where Ray itself does not answer."""


class RayCluster:
    """The workers of one process, which end with it; each has so many `threads`."""

    def __init__(self, workers: Workers, threads: int, on_this_machine: bool = False) -> None:
        self._number = workers.number
        self.threads = threads
        self._on_this_machine = on_this_machine
        self._actors: dict[int, Any] = {}
        self._next = 0
        self._looked = float("-inf")
        self._seen = 1

    @property
    def wanted(self) -> int:
        """Return how many there should be: as were asked for, or as the cluster's processors can run."""
        if self._number is not None:
            return self._number
        if time.monotonic() - self._looked > _SECONDS_A_LOOK:
            self._looked = time.monotonic()
            self._seen = max(1, int(_ray.cluster_resources().get("CPU", 0) // self.threads))
        return self._seen

    @property
    def crowded(self) -> bool:
        """Return whether the cluster was started on this machine, and its workers take all processors."""
        return self._on_this_machine and self.wanted * self.threads >= processors()

    def workers(self) -> list[int]:
        """Return the numbers of the workers that there are, none of which is known to be lost."""
        return list(self._actors)

    def process(self, worker: int) -> int:
        """Return the number of a worker's process on its machine."""
        return int(self.result(self.call(worker, "ready")))

    def start(self) -> int | None:
        """Start one more worker; None where no processor is free for it."""
        if self._actors and _ray.available_resources().get("CPU", 0) < self.threads:
            return None
        actor = _ray.remote(num_cpus=self.threads)(Worker).remote()
        worker, self._next = self._next, self._next + 1
        try:
            self._await(actor.ready.remote())
        except _LOST:
            with suppress(Exception):
                _ray.kill(actor)
            return None
        except _GONE as error:
            raise ClusterLostError(f"the cluster is lost: {error}") from error
        self._actors[worker] = actor
        return worker

    @staticmethod
    def _await(ready: Any) -> None:
        """Wait until a worker has started; raises what Ray does, and `ClusterLostError`."""
        until = time.monotonic() + _SECONDS_TO_START
        while not _ray.wait([ready], timeout=_SECONDS_A_LOOK)[0] and time.monotonic() < until:
            if not any(node["Alive"] for node in _ray.nodes()):
                raise ClusterLostError("the cluster is lost: no machine of it is left")
        _ray.get(ready, timeout=0)

    def share(self, value: object) -> Any:
        """Put a value, for calls of many workers, into the store of objects that all machines of the cluster have."""
        return _ray.put(value)

    def call(self, worker: int, method: str, *arguments: object) -> Any:
        """Call a method of a worker; what was shared can be among the arguments."""
        return worker, getattr(self._actors[worker], method).remote(*arguments)

    def result(self, call: Any) -> Any:
        """Return what the call gave; raises what it raised, or `WorkerLostError`: the worker is none any more."""
        worker, reference = call
        try:
            return _ray.get(reference, timeout=_SECONDS_A_CALL)
        except _LOST as error:
            actor = self._actors.pop(worker, None)
            if actor is not None:
                with suppress(Exception):
                    _ray.kill(actor)
            raise WorkerLostError(f"worker {worker}: {error}") from error
        except exceptions.RayTaskError as error:
            raise error.cause or error from error
        except _GONE as error:
            raise ClusterLostError(f"the cluster is lost: {error}") from error

    def first(self, calls: Sequence[Any]) -> Any:
        """Return a call that has ended, of several; the first one where none has for long."""
        try:
            ended, _ = _ray.wait([reference for _, reference in calls], timeout=_SECONDS_A_CALL)
        except _GONE as error:
            raise ClusterLostError(f"the cluster is lost: {error}") from error
        return next((call for call in calls if call[1] in ended), calls[0])

    def shared(self, call: Any) -> Any:
        """Return what a call gave, for calls of many; machines get it from the one on which the worker is."""
        return call[1]

    def close(self) -> None:
        """End all workers."""
        for actor in self._actors.values():
            with suppress(Exception):
                _ray.kill(actor)
        self._actors.clear()


@contextmanager
def ray_cluster(workers: Workers, threads: int) -> Iterator[RayCluster]:
    """Workers on the cluster that is named, on one that runs on this machine, or else on processors of this one.

    Raises `DaemonError` where the named one cannot be reached. A cluster that this process has joined before is used.
    """
    joined = _ray.is_initialized()
    with _own_signals():
        started = not joined and _join(workers, threads)
    cluster = RayCluster(workers, threads, on_this_machine=started)
    try:
        yield cluster
    finally:
        cluster.close()
        if not joined:
            _ray.shutdown()


@contextmanager
def _own_signals() -> Iterator[None]:
    """Within, it does not change who hears of SIGTERM and SIGINT.

    Ray takes them over, in whatever thread it is started, and aborts the process three seconds after the signal.
    """
    library = ctypes.CDLL(None)
    kept = {number: ctypes.create_string_buffer(_SIGACTION_BYTES) for number in (signal.SIGTERM, signal.SIGINT)}
    for number, action in kept.items():
        library.sigaction(int(number), None, action)
    try:
        yield
    finally:
        for number, action in kept.items():
            library.sigaction(int(number), action, None)


def _join(workers: Workers, threads: int) -> bool:
    """Join the cluster; return whether it was started for that, on this machine."""
    if workers.address is not None:
        # Have this user's token sent along: without it, clusters that ask for one do not answer. Ray does so
        # wherever a cluster is joined in another way than as a client. Older versions know no tokens.
        with suppress(ImportError):
            tokens: Any = import_module("ray._private.authentication.authentication_token_setup")
            tokens.logger.setLevel(logging.ERROR)
            tokens.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
        try:
            _ray.init(workers.address, **_QUIET)
        except Exception as error:
            raise DaemonError(f"there is no Ray cluster at {workers.address}: {error}") from error
        return False
    if workers.number is None or "RAY_ADDRESS" in os.environ:
        # One that runs already.
        try:
            _ray.init("auto", **_QUIET)
        except ConnectionError as error:
            if "RAY_ADDRESS" in os.environ:
                raise DaemonError(f"there is no Ray cluster at RAY_ADDRESS: {error}") from error
        else:
            return False
    start_local(processors() if workers.number is None else workers.number * threads)
    return True


def start_local(processors: int, object_bytes: int = _OBJECT_BYTES) -> None:
    """Start a cluster on this machine that nobody else can reach, and that ends with this process; join it.

    Raises `DaemonError` where it does not start.
    """
    # Ray would listen on all addresses. It reads this when it is imported, and in each process that it starts.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    constants: Any = ray_constants
    constants.ENABLE_RAY_CLUSTER = False
    try:
        _ray.init(
            "local", num_cpus=processors, include_dashboard=False, object_store_memory=object_bytes,
            _system_config=_CONFIG, **_QUIET,
        )  # fmt: skip
    except Exception as error:
        with suppress(Exception):
            _ray.shutdown()
        raise DaemonError(f"Ray does not start on this machine; try again when it is less busy: {error}") from error
