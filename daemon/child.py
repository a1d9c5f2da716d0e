"""A process of its own for work on what strangers give, so that the work can be killed and its memory bounded.

`Child.run` calls a generator function in a fresh interpreter and hands over what it yields, one item after the other.
The child has a limit of memory, is killed where it gives no sign of life, is the first to go where the machine has no
memory left, and ends with its parent, whatever ends that. A child that did its work well does the next one, too.
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
from contextlib import suppress
from struct import Struct
from typing import IO, Any, BinaryIO, Concatenate, ParamSpec, TypeVar

from hierogram.daemon.exceptions import ChildError, ChildUnavailableError, DaemonError
from hierogram.daemon.files import readable

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
_LOOK_SECONDS = 0.2
_SIGN_SECONDS = 1.0
_KILL_SECONDS = 5.0
_LENGTH = Struct("<Q")
_ITEM, _SIGN, _END, _REFUSED, _FAILED = range(5)
_PR_SET_PDEATHSIG = 1


class Child:
    """A process that works for this one; started when there is work, to be used by one thread at a time."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES, silent_seconds: float = SILENT_SECONDS) -> None:
        self._memory = memory_bytes
        self._silent = silent_seconds
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
        early kills the child. Raises what `work` raises of `DaemonError`, `ChildError` where the work stands still, is
        killed, takes too much memory, or fails otherwise, and `ChildUnavailableError` where no process can be started.
        """
        request = pickle.dumps((work, given, named, self._memory), pickle.HIGHEST_PROTOCOL)
        well = False
        try:
            self._send(request, wait)
            while True:
                [length] = _LENGTH.unpack(self._bytes(_LENGTH.size, wait))
                if length > _MOST_MESSAGE_BYTES:
                    raise ChildError(f"reading gave {length:,} bytes at once, over {_MOST_MESSAGE_BYTES:,}")
                kind, content = pickle.loads(self._bytes(length, wait))
                if kind == _ITEM:
                    yield content
                elif kind == _END:
                    well = True
                    return
                elif kind == _REFUSED:
                    name, message = content
                    raise name(message)
                elif kind == _FAILED:
                    raise ChildError(content)
        finally:
            self._runs += 1
            if not well or self._runs >= _RUNS:
                self.close()

    def close(self) -> None:
        """End the process."""
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

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            self._runs = 0
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", f"from {__name__} import serve; serve({os.getpid()})"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    bufsize=0,
                    pipesize=_PIPE_BYTES if sys.platform == "linux" else -1,
                    # Signals of a terminal, and of what ends a group of processes, are for the parent.
                    process_group=0,
                    env=os.environ
                    | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                )
            except OSError as error:
                raise ChildUnavailableError(
                    f"no process can be started to read files in: {error.strerror or error}"
                ) from error
            for stream in (self._process.stdin, self._process.stdout):
                assert stream is not None
                os.set_blocking(stream.fileno(), False)
        return self._process

    def _send(self, request: bytes, wait: Callable[[], None]) -> None:
        stdin = self._started().stdin
        assert stdin is not None
        content = memoryview(_LENGTH.pack(len(request)) + request)
        try:
            self._move(stdin, select.POLLOUT, content, os.write, wait)
        except BrokenPipeError:
            raise self._died() from None

    def _bytes(self, size: int, wait: Callable[[], None]) -> bytearray:
        assert self._process is not None
        assert self._process.stdout is not None
        content = bytearray(size)
        stdout, missing = self._process.stdout, memoryview(content)
        self._move(stdout, select.POLLIN, missing, lambda pipe, missing: os.readv(pipe, [missing]), wait)
        return content

    def _move(
        self,
        pipe: IO[bytes],
        readiness: int,
        missing: memoryview,
        move: Callable[[int, memoryview], int],
        wait: Callable[[], None],
    ) -> None:
        """Read or write all bytes; raises `ChildError` where none go through for too long, or the process ends."""
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

    def _died(self) -> ChildError:
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_SECONDS)
        code = self._process.returncode
        how = f"by signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"with code {code}"
        return ChildError(f"the process that read it ended {how}")


def serve(parent: int) -> None:
    """Do what the process `parent` asks on standard input, until that ends; what a child runs.

    The kernel ends this process when its parent ends, and takes it first where memory runs out.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
            score.write("800")
    # It may have ended before.
    if os.getppid() != parent:
        os._exit(1)
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb", 0)
    # What a library prints is no answer.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    while head := requests.read(_LENGTH.size):
        [length] = _LENGTH.unpack(head)
        _work(answers, requests.read(length))


def _work(answers: BinaryIO, request: bytes) -> None:
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

    memory = 0
    try:
        work, given, named, memory = pickle.loads(request)
        resource.setrlimit(resource.RLIMIT_DATA, (memory, resource.getrlimit(resource.RLIMIT_DATA)[1]))
        for item in work(alive, *given, **named):
            answer(_ITEM, item)
            last = time.monotonic()
    except DaemonError as error:
        answer(_REFUSED, (type(error), readable(str(error))))
    except MemoryError:
        answer(_FAILED, f"reading took more than {memory >> 20} MiB of memory (reader_memory_bytes)")
    except Exception as error:
        answer(_FAILED, readable(f"reading failed: {type(error).__name__}: {error}"))
    else:
        answer(_END)


def _write(stream: Any, message: bytes) -> None:
    view = memoryview(_LENGTH.pack(len(message)) + message)
    while view:
        view = view[stream.write(view) :]
