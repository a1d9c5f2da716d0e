"""Child process for untrusted input, which can be killed and has a memory limit.

The child is a new interpreter that ends with its parent. It is killed if it reports no progress, and the kernel kills
it before other processes if the machine runs out of memory. It does not inherit the environment variables
`HIEROGRAM_…`, which may be secrets. A child that has finished its work is reused.

The parent sends a request: a pickled function with its arguments. The child answers with messages: pickled pairs of a
kind and a content. The length precedes each request and message.
"""

import io
import os
import pickle
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from socket import socket, socketpair
from struct import Struct
from typing import Any, Concatenate, ParamSpec, TypeVar

from hierogram.storage.exceptions import StoreUnavailableError, WorkerProcessError

Item = TypeVar("Item")
Arguments = ParamSpec("Arguments")

KeepAlive = Callable[[], None]
"""Callback that the work must call regularly between items, or the parent considers it stalled."""

SILENCE_TIMEOUT_SECONDS = 60.0
"""Default time without a message after which a child is killed."""

_MEMORY_BYTES = 512 << 20
_MAX_MESSAGE_BYTES = 1 << 28
_MAX_RUNS = 200
"""Number of runs after which a child is replaced, in case its libraries leak memory."""
_PRIVATE_PREFIX = "HIEROGRAM_"
_POLL_SECONDS = 0.2
"""Time between two calls of `check` while the parent waits for a message."""
_ALIVE_SECONDS = 1.0
"""Minimum time between two messages of `KeepAlive`."""
_KILL_SECONDS = 5.0
_LENGTH = Struct("<Q")
_ITEM, _ALIVE, _END, _RAISED, _FAILED = range(5)
"""Kinds of messages: item, sign of life, end of the work, exception of this package, other failure."""
_PR_SET_PDEATHSIG = 1
_PACKAGE_PREFIX = f"{__name__.partition('.')[0]}."

_starter = ThreadPoolExecutor(1, "hierogram-child")
"""Thread that starts all children. It ends last, because Linux kills children of an ended thread."""


class _EndedError(WorkerProcessError):
    """The process ended before it finished its work."""


class WorkerProcess:
    """Reusable child process that runs generator functions, started by the first call. Not thread-safe."""

    def __init__(
        self,
        memory_bytes: int = _MEMORY_BYTES,
        silent_seconds: float = SILENCE_TIMEOUT_SECONDS,
        preloaded_modules: tuple[str, ...] = (),
    ) -> None:
        self._memory_bytes = memory_bytes
        self._silent_seconds = silent_seconds
        self._preloaded_modules = preloaded_modules
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket
        self._runs = 0

    @property
    def pid(self) -> int | None:
        """Process id, or None before a process is started and after `close`."""
        return None if self._process is None else self._process.pid

    def run(
        self,
        check: Callable[[], None],
        work: Callable[Concatenate[KeepAlive, Arguments], Iterator[Item]],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Generator[Item, None, None]:
        """Yield the items of `work`, a module-level function whose first argument is a `KeepAlive`.

        `check` is called several times a second while the parent waits for the child, and may raise an exception to end
        the work. Closing the generator early kills the child. Raises the exceptions of `work` that belong to this
        package, `WorkerProcessError` if the work stalls, is killed, exceeds its memory or fails otherwise, and
        `StoreUnavailableError` if no process can be started.
        """
        request = pickle.dumps((work, arguments, named), pickle.HIGHEST_PROTOCOL)
        completed = False
        was_running = self._process is not None
        try:
            try:
                self._send(request)
                kind, content = self._receive(check)
            except _EndedError:
                if not was_running:
                    raise
                # Start another process, because this process was killed while idle, for example when memory ran out.
                self.close()
                self._send(request)
                kind, content = self._receive(check)
            while kind != _END:
                if kind == _ITEM:
                    yield content
                elif kind == _RAISED:
                    error_type, message = content
                    raise error_type(message)
                elif kind == _FAILED:
                    raise WorkerProcessError(content)
                kind, content = self._receive(check)
            completed = True
        finally:
            self._runs += 1
            if not completed or self._runs >= _MAX_RUNS:
                self.close()

    def close(self) -> None:
        """Kill the process if it is running. A later `run` starts another process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        self._socket.close()
        # Do not wait longer, because a process that hangs in the kernel ends only when the kernel returns.
        with suppress(subprocess.TimeoutExpired):
            process.wait(_KILL_SECONDS)

    def start(self) -> None:
        """Start the process if it is not running. Raises `StoreUnavailableError`."""
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            self._runs = 0
            try:
                self._process = _starter.submit(self._start).result()
            except (OSError, RuntimeError) as error:
                reason = getattr(error, "strerror", None) or error
                raise StoreUnavailableError(f"cannot start a process ({reason}): try again in a moment") from error

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_PRIVATE_PREFIX)}
        # Limit arenas and threads, because the buffers of each would use up the memory limit.
        environment |= {"MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._socket, other_end = socketpair()
        with other_end:
            arguments = (other_end.fileno(), os.getpid(), self._memory_bytes, *self._preloaded_modules)
            try:
                return subprocess.Popen(
                    [sys.executable, "-P", "-c", f"from {__name__} import serve; serve{arguments}"],
                    stdin=subprocess.DEVNULL,
                    # Discard the output of libraries.
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(other_end.fileno(),),
                    # Use another process group, so that signals from a terminal reach only the parent.
                    process_group=0,
                    env=environment,
                )
            except OSError:
                self._socket.close()
                raise

    def _send(self, request: bytes) -> None:
        self.start()
        try:
            self._socket.settimeout(SILENCE_TIMEOUT_SECONDS)
            self._socket.sendall(_LENGTH.pack(len(request)) + request)
        except TimeoutError:
            raise _stalled_error(SILENCE_TIMEOUT_SECONDS) from None
        except ConnectionError:
            raise self._end_error() from None

    def _receive(self, check: Callable[[], None]) -> tuple[int, Any]:
        [length] = _LENGTH.unpack(self._receive_bytes(_LENGTH.size, check))
        if length > _MAX_MESSAGE_BYTES:
            raise WorkerProcessError(
                f"the child process sent an item of {length:,} bytes, the limit is {_MAX_MESSAGE_BYTES:,}"
            )
        kind, content = pickle.loads(self._receive_bytes(length, check))
        return kind, content

    def _receive_bytes(self, size: int, check: Callable[[], None]) -> bytearray:
        content = bytearray(size)
        remaining = memoryview(content)
        self._socket.settimeout(_POLL_SECONDS)
        last_progress = self._unstarved_time()
        while remaining:
            try:
                received = self._socket.recv_into(remaining)
            except TimeoutError:
                check()
                if self._unstarved_time() - last_progress > self._silent_seconds:
                    raise _stalled_error(self._silent_seconds) from None
                continue
            except ConnectionError:
                received = 0
            if not received:
                raise self._end_error()
            remaining = remaining[received:]
            last_progress = self._unstarved_time()
        return content

    def _unstarved_time(self) -> float:
        """Return the monotonic time minus the process's waiting time for a processor, as reported by Linux."""
        waited = 0
        # Subtract the waiting time, because a working process may wait for minutes on an overloaded machine.
        with suppress(OSError, ValueError, IndexError):
            waited = int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[1])
        return time.monotonic() - waited / 1e9

    def _end_error(self) -> _EndedError:
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_SECONDS)
        code = self._process.returncode
        killed = code is not None and code < 0
        end = f"was killed by signal {signal.Signals(-code).name}" if killed else f"exited with code {code}"
        return _EndedError(f"the child process {end}")


def _stalled_error(seconds: float) -> WorkerProcessError:
    return WorkerProcessError(f"the child process made no progress for {seconds:g} s and was killed")


def set_resource_limit(resource_type: int, limit: int) -> None:
    """Set a resource limit of this process, if the system supports it."""
    with suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource_type)
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(resource_type, (limit, limit))


def serve(descriptor: int, parent: int, memory_bytes: int, *preloaded_modules: str) -> None:
    """Run the main loop of a child: serve requests from a socket until the process `parent` ends."""
    # Ignore interrupts, write no core dump, and let the kernel kill this process first if memory runs out.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    set_resource_limit(resource.RLIMIT_CORE, 0)
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("800")
        # Ask the kernel to end this process when its parent ends.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # Exit now if the parent ended before the call of prctl.
    if os.getppid() != parent:
        os._exit(1)
    set_resource_limit(resource.RLIMIT_DATA, memory_bytes)
    for module in preloaded_modules:
        import_module(module)
    with socket(fileno=descriptor) as connection, connection.makefile("rb") as requests:
        while head := requests.read(_LENGTH.size):
            [length] = _LENGTH.unpack(head)
            _serve_request(connection, requests.read(length), memory_bytes)


def _serve_request(connection: socket, request: bytes, memory_bytes: int) -> None:
    answered_at = time.monotonic()

    def answer(kind: int, content: object = None) -> None:
        message = io.BytesIO()
        pickler = pickle.Pickler(message, pickle.HIGHEST_PROTOCOL)
        # Disable pickle's memo, because the items share no objects, and the memo takes as long as all other work.
        pickler.fast = True
        pickler.dump((kind, content))
        connection.sendall(_LENGTH.pack(message.tell()))
        connection.sendall(message.getbuffer())

    def alive() -> None:
        nonlocal answered_at
        if time.monotonic() - answered_at > _ALIVE_SECONDS:
            answer(_ALIVE)
            answered_at = time.monotonic()

    try:
        work, arguments, named = pickle.loads(request)
        for item in work(alive, *arguments, **named):
            answer(_ITEM, item)
            answered_at = time.monotonic()
    except MemoryError:
        answer(_FAILED, f"the child process exceeded {memory_bytes >> 20} MiB of memory")
    except Exception as error:
        if type(error).__module__.startswith(_PACKAGE_PREFIX):
            answer(_RAISED, (type(error), str(error)))
        else:
            answer(_FAILED, f"the child process failed: {type(error).__name__}: {error}")
    else:
        answer(_END)
