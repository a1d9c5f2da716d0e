"""The only door to numba: `njit` with a cache that notices every edit.

Numba's own cache looks at the file of a kernel but not at the modules that the kernel calls. So compiled
code is kept in a per-user folder named by a digest of all samplers' sources and the versions of numba and
Python; any edit starts a fresh folder.
"""

import hashlib
import sys
from collections.abc import Callable
from importlib.resources import files
from os import environ
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.codegen import CPUCodeLibrary
from numba.extending import intrinsic
from numba.np import arrayobj

Function = TypeVar("Function", bound=Callable[..., Any])


def _source_digest() -> str:
    digest = hashlib.blake2b(digest_size=10)
    digest.update(f"numba {numba.__version__} python {sys.version_info[:3]}".encode())
    sources = files("hierogram.samplers")
    for entry in sorted(sources.iterdir(), key=lambda e: e.name):
        if entry.name.endswith(".py"):
            digest.update(entry.name.encode())
            digest.update(entry.read_bytes())
    return digest.hexdigest()


def cache_folder() -> Path:
    """The folder of compiled kernels for these very sources; HIEROGRAM_CACHE moves its parent."""
    base = environ.get("HIEROGRAM_CACHE") or environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "hierogram" / "kernels" / _source_digest()


_INLINED = "inlined."
_compile: Any = numba.njit
_options: Any = numba.config
_options.CACHE_DIR = str(cache_folder())


_arrays: Any = arrayobj
_counting_from_either_end = _arrays.fix_integer_index


def _index(context: Any, builder: Any, index_type: Any, index: Any, size: Any) -> Any:
    """An index as machine code: no kernel counts from an array's end, so none has to ask whether it does."""
    if context.enable_nrt:
        return _counting_from_either_end(context, builder, index_type, index, size)
    return context.cast(builder, index, index_type, types.intp if index_type.signed else types.uintp)


# Without reference counts (see `njit`) only our kernels are compiled; all other code keeps Python's meaning of -1.
_arrays.fix_integer_index = _index


def njit(function: Function) -> Function:
    """Compile a kernel that allocates nothing, without the GIL; errors follow C: indices and divisors are not checked.

    An index below 0 is an error too, it does not count from the end.

    The kernel runs without numba's reference counts, which cost more than the arithmetic in small functions; so the
    compiler refuses a kernel that would create an array.
    """
    compiled = _compile(cache=True, nogil=True, error_model="numpy", _nrt=False)(function)
    return cast("Function", compiled)


_libraries: Any = CPUCodeLibrary
_optimize = _libraries._optimize_final_module


def _optimize_once(library: Any) -> None:
    """Optimise what has been linked, unless it is only there to be inlined: its callers are optimised with it."""
    if not library.name.startswith(_INLINED):
        _optimize(library)


_libraries._optimize_final_module = _optimize_once


def njit_inline(function: Function) -> Function:
    """As `njit`, always inlined into its callers' machine code: for the steps of a kernel. Slow if called by itself."""
    function.__qualname__ = _INLINED + function.__qualname__
    compiled = _compile(cache=True, nogil=True, error_model="numpy", _nrt=False, forceinline=True)(function)
    return cast("Function", compiled)


def njit_allocating(function: Function) -> Function:
    """As `njit`, for what runs outside sweeps and may create arrays."""
    compiled = _compile(cache=True, nogil=True, error_model="numpy")(function)
    return cast("Function", compiled)


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line in which row `index` of an array begins, without waiting for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = context.make_array(signature.args[0])(context, builder, arguments[0])
        stride = cgutils.unpack_tuple(builder, rows.strides)[0]
        offset = builder.mul(stride, context.cast(builder, arguments[1], signature.args[1], types.intp))
        start = builder.ptrtoint(rows.data, stride.type)
        address = builder.inttoptr(builder.add(start, offset), cgutils.voidptr_t)
        word = cgutils.int32_t
        instruction = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, word, word, word]), "llvm.prefetch.p0"
        )
        builder.call(instruction, [address, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(array, index), generate


@intrinsic
def take_turn(typing_context: Any, counter: Any) -> Any:
    """What the first item of an int64 array was before this call made it one more, whatever other threads do."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", array.data, context.get_constant(types.int64, 1), "monotonic")

    return types.int64(counter), generate


__all__ = ["cache_folder", "njit", "njit_allocating", "njit_inline", "prefetch", "take_turn"]
