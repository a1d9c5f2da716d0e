"""Decorators that compile kernels, and a cache of compiled kernels that is private to the user.

Numba's cache checks the file of a kernel for changes, but not the modules that the kernel calls. The name of this
cache's folder therefore contains a digest of all sampler sources and of the versions of numba and Python. The name of
the subfolder of a kernel outside samplers/ contains a digest of that kernel's folder. Loading a cached kernel runs its
code, so other users must not be able to write to the cache folder.
"""

import hashlib
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any, TypeVar, cast
from uuid import uuid4

import numba
from numba.core import caching
from numba.core.runtime.nrt import rtsys

from hierogram.samplers.compiled import LISTENERS
from hierogram.samplers.compiled.internals import INLINED, change_compiler, prepare_to_compile

_PACKAGE = "hierogram.samplers."
_CACHE_NAME, _KERNELS = "hierogram", "kernels"
"""Folders of the cache: `kernels` in `hierogram`, which is private, in the user's cache folder."""
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_ROOT = 0

_caching: Any = caching


class UnsafeFolderError(OSError):
    """Another user owns a cache folder or can write to it, so that its kernels cannot be trusted."""


def source_digest(root: Path) -> str:
    """Return a digest of all Python files below a folder, and of the versions of numba and Python."""
    digest = hashlib.blake2b(digest_size=10)
    digest.update(f"numba {numba.__version__} python {sys.version_info[:3]}".encode())
    for source in sorted(root.rglob("*.py")):
        digest.update(source.relative_to(root).as_posix().encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()


_folder_digest = cache(source_digest)


def cache_folder() -> Path:
    """Return the cache folder for the current sources, in HIEROGRAM_CACHE, XDG_CACHE_HOME or ~/.cache."""
    base = os.environ.get("HIEROGRAM_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / _CACHE_NAME / _KERNELS / _folder_digest(Path(str(files(_PACKAGE.rstrip(".")))))


def _private_folders(folder: Path) -> list[Path]:
    """Return the folders from `hierogram` down to a folder of the cache."""
    paths = [folder, *folder.parents]
    depth = [path.name for path in paths].index(_KERNELS)
    return paths[depth + 1 :: -1]


def check_folder(folder: Path) -> None:
    """Raise `UnsafeFolderError` if another user can write to the folder or to a private folder above it."""
    for path in _private_folders(folder):
        with suppress(FileNotFoundError):
            status = path.stat()
            if status.st_uid not in (os.getuid(), _ROOT):
                raise UnsafeFolderError(f"{path} belongs to another user: set HIEROGRAM_CACHE to a folder of your own")
            if status.st_mode & _WRITABLE_BY_OTHERS:
                raise UnsafeFolderError(f"other users can write to {path}: run `chmod go-w {path}`")


def make_folder(folder: Path) -> None:
    """Create a cache folder and its parents if missing. Raises `UnsafeFolderError` like `check_folder`."""
    for path in _private_folders(folder):
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
    check_folder(folder)


@cache
def _warn(message: str) -> None:
    sys.stderr.write(f"compiled samplers cannot be cached: {message}\n")


@cache
def notify_listeners() -> None:
    """Run the `LISTENERS` on the first call in this process, and do nothing on later calls."""
    for listener in LISTENERS:
        listener()


def _is_safe(folder: str) -> bool:
    try:
        check_folder(Path(folder))
    except UnsafeFolderError as error:
        _warn(str(error))
        return False
    return True


class _Locator(_caching.UserProvidedCacheLocator):
    def __init__(self, function: Any, path: str) -> None:
        self._py_file = path
        self._lineno = function.__code__.co_firstlineno
        # The subfolder of a sampler does not depend on its path, so that checkouts with equal sources share kernels.
        subfolder = (
            function.__module__.removeprefix(_PACKAGE)
            if function.__module__.startswith(_PACKAGE)
            else f"{self.get_suitable_cache_subpath(path)}-{_folder_digest(Path(path).parent)}"
        )
        self._cache_path = str(cache_folder() / subfolder)

    @classmethod
    def from_function(cls, function: Any, path: str) -> "_Locator":
        return cls(function, path)

    def ensure_cache_path(self) -> None:
        make_folder(Path(self._cache_path))
        super().ensure_cache_path()


class _KernelCacheImpl(_caching.CompileResultCacheImpl):
    _locator_classes = (_Locator,)


class CacheFile(_caching.IndexDataCacheFile):
    """Index of a kernel's compiled signatures, and one file with machine code per signature."""

    def _data_name(self, number: int) -> str:
        # Name the file at random. Numba numbers its files, so processes that compile at the same time could write
        # different kernels to the same file.
        return cast("str", self._data_name_pattern.format(number=uuid4().int))


class _KernelCache(_caching.FunctionCache):
    _impl_class = _KernelCacheImpl

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._cache_file = CacheFile(self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp())

    def load_overload(self, signature: Any, target: Any) -> Any:
        # Initialize only numba's runtime, since initializing the compiler would take longer than importing numba.
        rtsys.initialize(target)
        loaded = None
        with suppress(OSError), self._guard_against_spurious_io_errors():
            if _is_safe(self._cache_path):
                loaded = self._load_overload(signature, target)
        if loaded is None:
            notify_listeners()
            prepare_to_compile()
        return loaded

    def save_overload(self, signature: Any, compiled: Any) -> None:
        # Ignore failures, because the kernel is already compiled in memory.
        with suppress(OSError):
            super().save_overload(signature, compiled)


def is_cached(kernel: Callable[..., Any]) -> bool:
    """Check if the cache has the kernel for this processor, compiled for at least one signature."""
    dispatcher: Any = kernel
    processor = dispatcher.targetctx.codegen().magic_tuple()
    cache_file = dispatcher._cache._cache_file
    with suppress(OSError):
        return _is_safe(dispatcher._cache._cache_path) and any(key[1] == processor for key in cache_file._load_index())
    return False


Function = TypeVar("Function", bound=Callable[..., Any])
SignalHandler = Callable[[int, FrameType | None], object]

_compile: Any = numba.njit

change_compiler()


class _DeferringHandler:
    """Signal handler that runs the previous handlers, and keeps their exceptions for later."""

    def __init__(self, handlers: dict[signal.Signals, SignalHandler]) -> None:
        self.handlers = handlers
        self.errors: list[BaseException] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        try:
            self.handlers[signal.Signals(number)](number, frame)
        except BaseException as error:
            self.errors.append(error)


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Defer exceptions of the handlers of SIGINT and SIGTERM until the block ends.

    The handlers run at once. The first of their exceptions is raised at the end of the outermost block. In other
    threads than the main thread, the block has no effect, because Python runs handlers only in the main thread.

    The compiler calls Python from C, where Python ignores exceptions, and an exception elsewhere in the compiler can
    corrupt memory.
    """
    handlers: dict[signal.Signals, SignalHandler] = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        handler = signal.getsignal(number)
        if callable(handler):
            handlers[number] = handler
    is_deferred = any(isinstance(handler, _DeferringHandler) for handler in handlers.values())
    if is_deferred or threading.current_thread() is not threading.main_thread():
        yield
        return
    deferring = _DeferringHandler(handlers)
    for number in handlers:
        signal.signal(number, deferring)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            # Keep a handler that a handler has installed.
            if signal.getsignal(number) is deferring:
                signal.signal(number, handler)
        if deferring.errors:
            raise deferring.errors[0]


def _kernel(function: Function, **options: Any) -> Function:
    compiled = _compile(nogil=True, error_model="numpy", **options)(function)
    compiled._cache = _KernelCache(function)
    compiled.compile = defer_interrupts()(compiled.compile)
    return cast("Function", compiled)


def njit(function: Function) -> Function:
    """Compile a kernel that creates no arrays and releases the GIL. Indices and divisors are not checked.

    Negative indices are invalid: they do not count from the end. The kernel runs without numba's reference counts,
    which cost more than the arithmetic of small functions. Without them, the compiler rejects code that creates arrays.
    """
    return _kernel(function, _nrt=False)


def njit_allocating(function: Function) -> Function:
    """Compile like `njit`, but allow new arrays, and negative indices from the end. Not for sweeps."""
    return _kernel(function)


_compile_callable = cache(njit)


def njit_inline(function: Function) -> Function:
    """Compile like `njit`, and inline into callers. Calls from Python use a separate kernel."""
    named = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    named.__qualname__ = INLINED + function.__qualname__
    named.__module__ = function.__module__
    inlined = _compile(
        nogil=True, error_model="numpy", _nrt=False, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True
    )(named)
    # Register no signatures for calls from Python, because inlined functions have no machine code.
    inlined._insert = lambda *overload: None
    inlined._compile_for_args = lambda *arguments: _compile_callable(function)
    return cast("Function", inlined)
