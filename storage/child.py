"""A process of its own for work on what strangers give, so that the work can be killed and its memory bounded.

`Child.run` calls a generator function in a fresh interpreter and hands over what it yields, one item after the other.
The child has a limit of memory, is killed where it gives no sign of life, is the first to go where the machine has no
memory left, and ends with its parent, whatever ends that. It does not see the variables of the environment that are for
the daemon alone. A child that did its work well does the next one, too.
"""

import io
import os
import pickle
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from struct import Struct
from typing import IO, Any, BinaryIO, Concatenate, ParamSpec, TypeVar

from hierogram.storage.exceptions import ChildError, StoreUnavailableError

Item = TypeVar("Item")
Given = ParamSpec("Given")

SignOfLife = Callable[[], None]
"""To be called often by what a child does: says to its parent that the work goes on."""

MEMORY_BYTES = 512 << 20
SILENT_SECONDS = 60.0

_MOST_MESSAGE_BYTES = 1 << 28
_PIPE_BYTES = 1 << 20
_RUNS = 200
"""A child makes room for a fresh one after so many pieces of work."""
_SECRETS = "HIEROGRAM_"
"""Beginning of the names of variables of the environment that are for the daemon alone."""
_LOOK_SECONDS = 0.2
_SIGN_SECONDS = 1.0
_KILL_SECONDS = 5.0
_LENGTH = Struct("<Q")
_ITEM, _SIGN, _END, _REFUSED, _FAILED = range(5)
_PR_SET_PDEATHSIG = 1
_OWN = f"{__name__.partition('.')[0]}."
"""Beginning of the modules whose errors come over as they are."""

_starter = ThreadPoolExecutor(1, "hierogram-child")
"""Starts all children: Linux ends a child with the thread that has started it, and this one ends last."""


class _EndedError(ChildError):
    """The process has ended before its work."""


class Child:
    """A process that works for this one; started when there is work, to be used by one thread at a time.

    It loads the modules `loads` when it starts.
    """

    def __init__(
        self, memory_bytes: int = MEMORY_BYTES, silent_seconds: float = SILENT_SECONDS, loads: tuple[str, ...] = ()
    ) -> None:
        self._memory = memory_bytes
        self._silent = silent_seconds
        self._loads = loads
        self._process: subprocess.Popen[bytes] | None = None
        self._runs = 0

    @property
    def pid(self) -> int | None:
        """Its process, where there is one."""
        return None if self._process is None else self._process.pid

    def run(
        self,
        wait: Callable[[], None],
        work: Callable[Concatenate[SignOfLife, Given], Iterator[Item]],
        *given: Given.args,
        **named: Given.kwargs,
    ) -> Generator[Item, None, None]:
        """Yield what `work` yields: a function of a module, which gets a sign of life to call before what is given.

        `wait` is called several times a second while nothing comes; what it raises ends the work. Closing the generator
        early kills the child. Raises what `work` raises of this program's own errors, `ChildError` where the work
        stands still, is killed, takes too much memory, or fails otherwise, and `StoreUnavailableError` where no process
        can be started.
        """
        request = pickle.dumps((work, given, named), pickle.HIGHEST_PROTOCOL)
        well = False
        was_there = self._process is not None
        try:
            try:
                self._send(request, wait)
                kind, content = self._message(wait)
            except _EndedError:
                if not was_there:
                    raise
                # It was ended while it waited, as where memory was short, and takes no work with it.
                self.close()
                self._send(request, wait)
                kind, content = self._message(wait)
            while kind != _END:
                if kind == _ITEM:
                    yield content
                elif kind == _REFUSED:
                    name, message = content
                    raise name(message)
                elif kind == _FAILED:
                    raise ChildError(content)
                kind, content = self._message(wait)
            well = True
        finally:
            self._runs += 1
            if not well or self._runs >= _RUNS:
                self.close()

    def close(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        # What hangs in the kernel, on a disk that does not answer, goes when it can.
        with suppress(subprocess.TimeoutExpired):
            process.wait(_KILL_SECONDS)

    def start(self) -> subprocess.Popen[bytes]:
        """Start the process, if there is none; raises `StoreUnavailableError`."""
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            self._runs = 0
            try:
                self._process = _starter.submit(self._start).result()
            except (OSError, RuntimeError) as error:
                why = getattr(error, "strerror", None) or error
                raise StoreUnavailableError(f"no process can be started ({why}): try again in a moment") from error
            for stream in (self._process.stdin, self._process.stdout):
                assert stream is not None
                os.set_blocking(stream.fileno(), False)
        return self._process

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_SECRETS)}
        arguments = (os.getpid(), self._memory, *self._loads)
        return subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {__name__} import serve; serve{arguments}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            pipesize=_PIPE_BYTES if sys.platform == "linux" else -1,
            # Signals of a terminal, and of what ends a group of processes, are for the parent.
            process_group=0,
            env=environment
            | {
                # An arena or a buffer for each thread would be memory that the work has not got.
                "MALLOC_ARENA_MAX": "1",
                "OPENBLAS_NUM_THREADS": "1",
                "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
            },
        )

    def _send(self, request: bytes, wait: Callable[[], None]) -> None:
        stdin = self.start().stdin
        assert stdin is not None
        content = memoryview(_LENGTH.pack(len(request)) + request)
        try:
            self._move(stdin, select.POLLOUT, content, os.write, wait)
        except BrokenPipeError:
            raise self._died() from None

    def _message(self, wait: Callable[[], None]) -> tuple[int, Any]:
        [length] = _LENGTH.unpack(self._bytes(_LENGTH.size, wait))
        if length > _MOST_MESSAGE_BYTES:
            raise ChildError(f"reading gave {length:,} bytes at once, over {_MOST_MESSAGE_BYTES:,}")
        kind, content = pickle.loads(self._bytes(length, wait))
        return kind, content

    def _bytes(self, size: int, wait: Callable[[], None]) -> bytearray:
        assert self._process is not None
        assert self._process.stdout is not None
        content = bytearray(size)
        self._move(
            self._process.stdout, select.POLLIN, memoryview(content), lambda pipe, left: os.readv(pipe, [left]), wait
        )
        return content

    def _move(
        self,
        pipe: IO[bytes],
        readiness: int,
        missing: memoryview,
        move: Callable[[int, memoryview], int],
        wait: Callable[[], None],
    ) -> None:
        """Reads or writes all bytes; raises `ChildError` where none go through for too long, or the process ends."""
        poll = select.poll()
        poll.register(pipe, readiness)
        heard = time.monotonic()
        while missing:
            if not poll.poll(_LOOK_SECONDS * 1000):
                wait()
                if time.monotonic() - heard > self._silent:
                    raise ChildError(f"reading stood still for {self._silent:g} s and was ended")
                continue
            with suppress(BlockingIOError):
                moved = move(pipe.fileno(), missing)
                if not moved:
                    raise self._died()
                missing = missing[moved:]
                heard = time.monotonic()

    def _died(self) -> _EndedError:
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_SECONDS)
        code = self._process.returncode
        how = f"by signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"with code {code}"
        return _EndedError(f"the process that read it ended {how}")


def limit(what: int, most: int) -> None:
    """Take a limit of the system upon this process; one that the system does not have is left out."""
    with suppress(OSError, ValueError):
        _, hard = resource.getrlimit(what)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def serve(parent: int, memory: int, *loads: str) -> None:
    """Do what the process `parent` asks on standard input, until that ends; what a child runs."""
    _be_first_to_go()
    end_with(parent)
    limit(resource.RLIMIT_DATA, memory)
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb", 0)
    # What a library prints is no answer.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for module in loads:
        import_module(module)
    while head := requests.read(_LENGTH.size):
        [length] = _LENGTH.unpack(head)
        _work(answers, requests.read(length), memory)


def end_with(parent: int) -> None:
    """Has the kernel end this process when its parent ends, where the kernel does such things."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # It may have ended before.
    if os.getppid() != parent:
        os._exit(1)


def _be_first_to_go() -> None:
    """Has the kernel take this process first where memory runs out; signals for its parent's group are not for it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    limit(resource.RLIMIT_CORE, 0)
    if sys.platform == "linux":
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
            score.write("800")


def _work(answers: BinaryIO, request: bytes, memory: int) -> None:
    last = time.monotonic()

    def answer(kind: int, content: object = None) -> None:
        message = io.BytesIO()
        pickler = pickle.Pickler(message, pickle.HIGHEST_PROTOCOL)
        # Columns of texts have nothing twice, and to look that up takes as long as all the rest.
        pickler.fast = True
        pickler.dump((kind, content))
        _write(answers, message.getvalue())

    def alive() -> None:
        nonlocal last
        if time.monotonic() - last > _SIGN_SECONDS:
            answer(_SIGN)
            last = time.monotonic()

    try:
        work, given, named = pickle.loads(request)
        for item in work(alive, *given, **named):
            answer(_ITEM, item)
            last = time.monotonic()
    except MemoryError:
        answer(_FAILED, f"reading took more than {memory >> 20} MiB of memory (reader_memory_bytes)")
    except Exception as error:
        if type(error).__module__.startswith(_OWN):
            answer(_REFUSED, (type(error), str(error)))
        else:
            answer(_FAILED, f"reading failed: {type(error).__name__}: {error}")
    else:
        answer(_END)


def _write(stream: Any, message: bytes) -> None:
    view = memoryview(_LENGTH.pack(len(message)) + message)
    while view:
        view = view[stream.write(view) :]
