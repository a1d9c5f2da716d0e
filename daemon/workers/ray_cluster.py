"""Workers as Ray actors, on this machine or on a cluster. Importing this module imports Ray."""

import ctypes
import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

# Ray reads these variables on import. The first turns off usage statistics, the second a warning about accelerators.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import ray
from ray import exceptions
from ray._private import ray_constants

from hierogram.daemon.exceptions import DaemonError
from hierogram.daemon.learning.kinds.synchronous import count_processors
from hierogram.daemon.workers.options import Workers
from hierogram.daemon.workers.worker import Worker, WorkerLostError

_ray: Any = ray
"""Ray without its type annotations, which are incomplete for remote classes."""
_OBJECT_BYTES = 512 << 20
"""Size of the shared object store, in bytes, of a cluster started here. Further objects spill to disk."""
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
_SIGACTION_BYTES = 512
"""Buffer size in bytes, larger than `struct sigaction` on any system."""
_SECONDS_TO_START = 120.0
_SECONDS_PER_CALL = 900.0
"""Time after which a call counts as lost with its worker. The first call may compile for some minutes."""
_CHECK_SECONDS = 5.0
"""Seconds between two checks of the cluster's nodes while a worker starts."""
_WORKER_LOST = (
    exceptions.RayActorError,
    exceptions.GetTimeoutError,
    exceptions.ObjectLostError,
    exceptions.NodeDiedError,
)
_CLUSTER_LOST = (exceptions.RaySystemError, exceptions.LocalRayletDiedError, ConnectionError)
_RESTART = "start the cluster again, and run an interrupted command again"


class RayCluster:
    """Ray workers of `threads` threads that this process starts and ends. Raises `DaemonError`."""

    def __init__(self, options: Workers, threads: int) -> None:
        self._requested = options.number
        self.threads = threads
        self._actors: dict[int, Any] = {}
        self._next_id = 0

    @property
    def target_workers(self) -> int:
        """Target number of workers: the requested number, or the number that fits on the cluster's processors."""
        if self._requested is not None:
            return self._requested
        return max(1, int(_ray.cluster_resources().get("CPU", 0) // self.threads))

    def workers(self) -> list[int]:
        """Return the ids of the workers that are not known to be lost."""
        return list(self._actors)

    def start(self) -> int | None:
        """Start another worker and wait for it. Returns its id, or None if it cannot start."""
        if self._actors and _ray.available_resources().get("CPU", 0) < self.threads:
            return None
        actor = _ray.remote(num_cpus=self.threads)(Worker).remote()
        worker, self._next_id = self._next_id, self._next_id + 1
        try:
            ready, deadline = actor.ready.remote(), time.monotonic() + _SECONDS_TO_START
            while not _ray.wait([ready], timeout=_CHECK_SECONDS)[0] and time.monotonic() < deadline:
                if not any(node["Alive"] for node in _ray.nodes()):
                    raise DaemonError(f"lost the Ray cluster: no nodes left: {_RESTART}")
            _ray.get(ready, timeout=0)
        except _WORKER_LOST:
            with suppress(Exception):
                _ray.kill(actor)
            return None
        except _CLUSTER_LOST as error:
            raise DaemonError(f"lost the Ray cluster: {error}: {_RESTART}") from error
        self._actors[worker] = actor
        return worker

    def put(self, value: object) -> Any:
        """Store a value in the cluster once, and return a reference that can be passed to many calls."""
        return _ray.put(value)

    def call(self, worker: int, method: str, *arguments: object) -> Any:
        """Start a call and return a handle for `result`. Arguments may be results of `put` or `reference`."""
        return worker, getattr(self._actors[worker], method).remote(*arguments)

    def result(self, call: Any) -> Any:
        """Wait for the result of a call. Raises its error, `WorkerLostError`, or `DaemonError`."""
        worker, reference = call
        try:
            return _ray.get(reference, timeout=_SECONDS_PER_CALL)
        except _WORKER_LOST as error:
            actor = self._actors.pop(worker, None)
            if actor is not None:
                with suppress(Exception):
                    _ray.kill(actor)
            raise WorkerLostError(f"worker {worker}: {error}") from error
        except exceptions.RayTaskError as error:
            raise error.cause or error from error
        except _CLUSTER_LOST as error:
            raise DaemonError(f"lost the Ray cluster: {error}: {_RESTART}") from error

    def reference(self, call: Any) -> Any:
        """Return a reference to the result of a call, to pass to other calls without fetching the result here."""
        return call[1]

    def close(self) -> None:
        """End all workers."""
        for actor in self._actors.values():
            with suppress(Exception):
                _ray.kill(actor)
        self._actors.clear()


@contextmanager
def ray_cluster(options: Workers, threads: int) -> Iterator[RayCluster]:
    """Join or start a Ray cluster if necessary. On exit, end the workers and a started cluster.

    Joins the cluster of `options.address` or RAY_ADDRESS. If neither an address nor a number of workers is given, joins
    the running cluster if one exists. In all other cases, starts a cluster on this machine. Raises `DaemonError`.
    """
    already_joined = _ray.is_initialized()
    with _keep_signal_handlers():
        if not already_joined:
            _join_or_start(options, threads)
    cluster = RayCluster(options, threads)
    try:
        yield cluster
    finally:
        cluster.close()
        if not already_joined:
            _ray.shutdown()


@contextmanager
def _keep_signal_handlers() -> Iterator[None]:
    # Save and restore the handlers in C, because Ray replaces them there, and its handlers abort the process.
    library = ctypes.CDLL(None)
    handlers = {number: ctypes.create_string_buffer(_SIGACTION_BYTES) for number in (signal.SIGTERM, signal.SIGINT)}
    for number, action in handlers.items():
        library.sigaction(int(number), None, action)
    try:
        yield
    finally:
        for number, action in handlers.items():
            library.sigaction(int(number), action, None)


def _join_or_start(options: Workers, threads: int) -> None:
    if options.address is not None:
        # Some clusters require the user's token. Ray does not load the token itself if it joins as a client. Older
        # versions of Ray have no tokens.
        with suppress(ImportError):
            tokens: Any = import_module("ray._private.authentication.authentication_token_setup")
            tokens.logger.setLevel(logging.ERROR)
            tokens.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
        try:
            _ray.init(options.address, **_QUIET)
        except Exception as error:
            raise DaemonError(
                f"cannot join the Ray cluster at {options.address}: {error}: check that the cluster runs"
            ) from error
        return
    if options.number is None or "RAY_ADDRESS" in os.environ:
        # Ray's address `auto` is the cluster of RAY_ADDRESS, or else a running cluster. Without RAY_ADDRESS, start a
        # cluster if no cluster is running.
        try:
            _ray.init("auto", **_QUIET)
        except ConnectionError as error:
            if "RAY_ADDRESS" in os.environ:
                raise DaemonError(
                    f"cannot join the Ray cluster at {os.environ['RAY_ADDRESS']} (RAY_ADDRESS): {error}: check that "
                    "the cluster runs"
                ) from error
        else:
            return
    start_local(count_processors() if options.number is None else options.number * threads)


def start_local(processors: int, object_bytes: int = _OBJECT_BYTES) -> None:
    """Start and join a private local cluster, which ends with this process. Raises `DaemonError`."""
    # Make Ray listen on the loopback address only. Ray reads the variable in each process that it starts, and has
    # already read it in this process, so the constant is set as well.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    constants: Any = ray_constants
    constants.ENABLE_RAY_CLUSTER = False
    try:
        # Run workers at normal priority, like threads. By default Ray lowers their priority.
        _ray.init(
            "local", num_cpus=processors, include_dashboard=False, object_store_memory=object_bytes,
            _system_config={"worker_niceness": 0}, **_QUIET,
        )  # fmt: skip
    except Exception as error:
        with suppress(Exception):
            _ray.shutdown()
        raise DaemonError(
            f"Ray cannot start on this machine: {error}: read its logs (by default in /tmp/ray/session_latest/logs)"
        ) from error
