"""The only door to numba: `njit` with a cache that notices every edit.

Numba's own cache looks at the file of a kernel but not at the modules that the kernel calls. So compiled
code is kept in a per-user folder named by a digest of all samplers' sources and the versions of numba and
Python; any edit starts a fresh folder. Where the folder cannot be written, kernels are compiled for the process.
"""

import hashlib
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from os import environ
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast
from uuid import uuid4

import numba
from llvmlite import ir
from llvmlite.binding import Linkage
from numba.core import caching, cgutils, environment, targetconfig, types
from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen
from numba.core.runtime.nrt import rtsys
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])

_PACKAGE = "hierogram.samplers."


def digest_of(root: Path) -> str:
    """Digest of all sources below a folder, sub-packages too, and of the versions that compile them."""
    digest = hashlib.blake2b(digest_size=10)
    digest.update(f"numba {numba.__version__} python {sys.version_info[:3]}".encode())
    for source in sorted(root.rglob("*.py")):
        digest.update(source.relative_to(root).as_posix().encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()


@cache
def _source_digest() -> str:
    return digest_of(Path(str(files(_PACKAGE.rstrip(".")))))


def cache_folder() -> Path:
    """The folder of compiled kernels for these very sources; HIEROGRAM_CACHE moves its parent."""
    base = environ.get("HIEROGRAM_CACHE") or environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "hierogram" / "kernels" / _source_digest()


_caching: Any = caching
_compile: Any = numba.njit


def _is_there() -> None:
    if find_spec("scipy") is None:
        raise ImportError("there is no scipy")


@cache
def _prepare_to_compile() -> None:
    """Import what numba compiles arrays with, and change what has to be different; a kept kernel needs none of it."""
    from numba.np import arrayobj, linalg

    algebra: Any = linalg
    look_for_blas = algebra.ensure_blas
    # To know whether there is linear algebra numba imports scipy, which takes as long as importing numba itself.
    algebra.ensure_blas = _is_there
    from numba.np import arraymath

    math: Any = arraymath
    algebra.ensure_blas = math.ensure_blas = look_for_blas
    arrays: Any = arrayobj
    count_from_either_end = arrays.fix_integer_index

    def index_of(context: Any, builder: Any, index_type: Any, index: Any, size: Any) -> Any:
        """An index as machine code: no kernel counts from an array's end, so none has to ask whether it does."""
        if context.enable_nrt:
            return count_from_either_end(context, builder, index_type, index, size)
        return context.cast(builder, index, index_type, types.intp if index_type.signed else types.uintp)

    # Without reference counts (see `njit`) only our kernels are compiled; all other code keeps Python's meaning of -1.
    arrays.fix_integer_index = index_of


class _Locator(_caching.UserProvidedCacheLocator):  # type: ignore[misc]
    """Our folder, which is made when the first kernel is kept and may as well be one that can only be read."""

    def __init__(self, function: Any, path: str) -> None:
        self._py_file = path
        self._lineno = function.__code__.co_firstlineno
        # Two checkouts with the same sources share their kernels; what tests compile has a path of its own.
        ours = function.__module__.startswith(_PACKAGE)
        place = function.__module__.removeprefix(_PACKAGE) if ours else self.get_suitable_cache_subpath(path)
        self._cache_path = str(cache_folder() / place)

    @classmethod
    def from_function(cls, function: Any, path: str) -> "_Locator":
        return cls(function, path)


class _Kept(_caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class CacheFile(_caching.IndexDataCacheFile):  # type: ignore[misc]
    """Where the compiled signatures of a function are kept."""

    def _data_name(self, number: int) -> str:
        """The name of a file that no other process gives: two that compile at once would both give the next number.

        One would then find the other's kernel, for other types, under its own signature.
        """
        return cast("str", self._data_name_pattern.format(number=uuid4().int))


class _Cache(_caching.FunctionCache):  # type: ignore[misc]
    _impl_class = _Kept

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._cache_file = CacheFile(self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp())

    def load_overload(self, signature: Any, target: Any) -> Any:
        """A kernel that was kept; None, too, where the folder cannot be read.

        Before it looks, numba makes ready all that it needs to compile, which takes longer than to import numba; it
        does so again when it compiles, and what is kept needs no more of it than the runtime.
        """
        rtsys.initialize(target)
        kept = None
        with suppress(OSError), self._guard_against_spurious_io_errors():
            kept = self._load_overload(signature, target)
        if kept is None:
            _prepare_to_compile()
        return kept

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep a kernel, or leave it at having compiled it."""
        with suppress(OSError):
            super().save_overload(signature, compiled)


def _kernel(function: Function, **options: Any) -> Function:
    compiled = _compile(nogil=True, error_model="numpy", **options)(function)
    compiled._cache = _Cache(function)
    return cast("Function", compiled)


def is_kept(kernel: Callable[..., Any]) -> bool:
    """Whether the cache has the kernel compiled for this machine's processor, whatever its arguments' types."""
    known: Any = kernel
    processor = known.targetctx.codegen().magic_tuple()
    with suppress(OSError):
        return any(key[1] == processor for key in known._cache._cache_file._load_index())
    return False


def njit(function: Function) -> Function:
    """Compile a kernel that allocates nothing, without the GIL; errors follow C: indices and divisors are not checked.

    An index below 0 is an error too, it does not count from the end.

    The kernel runs without numba's reference counts, which cost more than the arithmetic in small functions; so the
    compiler refuses a kernel that would create an array.
    """
    return _kernel(function, _nrt=False)


def njit_allocating(function: Function) -> Function:
    """As `njit`, for what runs outside sweeps and may create arrays."""
    return _kernel(function)


@cache
def _alone(function: Function) -> Function:
    return njit(function)


_INLINED = "inlined."


def njit_inline(function: Function) -> Function:
    """As `njit`, always inlined into its callers' machine code: for the steps of a kernel.

    Called from Python it is compiled once more, as a kernel of its own.
    """
    named = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    named.__qualname__ = _INLINED + function.__qualname__
    named.__module__ = function.__module__
    step = _compile(
        nogil=True, error_model="numpy", _nrt=False, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True
    )(named)
    # There is no machine code behind the step's signatures, so Python must find none.
    step._insert = lambda *overload: None
    step._compile_for_args = lambda *arguments: _alone(function)
    return cast("Function", step)


# Steps that are only there to be inlined are optimised and emitted as a part of their callers. To do that for
# themselves as well would be for nothing: their libraries stay as they were lowered.

_libraries: Any = CPUCodeLibrary
_codegen: Any = JITCPUCodegen
_optimise = _libraries._optimize_final_module
_load = _libraries._finalize_final_module
_set_environment = _codegen.set_env
_environments: Any = environment.Environment._memo


def _is_step(library: Any) -> bool:
    return bool(library.name.startswith(_INLINED))


def _optimise_functions(library: Any, module: Any) -> None:
    module.data_layout = library._codegen._data_layout
    if not _is_step(library):
        manager, builder = library._codegen._function_pass_manager()
        for function in module.functions:
            if not function.is_declaration:
                manager.run(function, builder)


def _optimise_kernel(library: Any) -> None:
    """Optimise a kernel with what is linked into it, which is its own: arguments that none uses are dropped."""
    if not _is_step(library):
        for linked in library._final_module.functions:
            if not linked.is_declaration and linked.linkage == Linkage.linkonce_odr:
                linked.linkage = Linkage.internal
        _optimise(library)


def _load_kernel(library: Any) -> None:
    """Make machine code, and give the steps in it their environments, as numba does with what the cache has."""
    if _is_step(library):
        library._finalized = True
        return
    _load(library)
    for variable in library._final_module.global_variables:
        known = _environments.get(variable.name)
        if known is not None:
            library.codegen.set_env(variable.name, known)


def _set_known_environment(codegen: Any, name: str, known: Any) -> None:
    if codegen._engine.is_symbol_defined(name):
        _set_environment(codegen, name, known)


_libraries._optimize_functions = _optimise_functions
_libraries._optimize_final_module = _optimise_kernel
_libraries._finalize_final_module = _load_kernel
_codegen.set_env = _set_known_environment


# Numba asks for the same types again and again, and compares all options of a compilation each time it does.

_options: Any = targetconfig.TargetConfig
_stack: Any = targetconfig.ConfigStack
_functions: Any = types.Function
_alike = _options.__eq__
_resolve = _functions.get_call_type
_PLAIN = (types.Number, types.Boolean, types.Array, types.Record)
_resolved: dict[object, tuple[Any, Any, Any]] = {}


def _equal(options: Any, other: Any) -> Any:
    if type(options) is type(other) and options._values == other._values:
        return True
    return _alike(options, other)


def _call_type(function: Any, context: Any, arguments: Any, keywords: Any) -> Any:
    """The signature of a call of one of numba's own functions, looked up once for the same types and options."""
    if keywords or not all(isinstance(argument, _PLAIN) for argument in arguments):
        return _resolve(function, context, arguments, keywords)
    key = id(function), id(context), tuple(arguments), _stack.top_or_none()
    if key in _resolved:
        _, signature, implementation = _resolved[key]
        function._impl_keys[signature.args] = implementation
    else:
        signature = _resolve(function, context, arguments, keywords)
        _resolved[key] = function, signature, function._impl_keys[signature.args]
    return signature


_options.__eq__ = _equal
_options.__hash__ = lambda options: hash(type(options))
_functions.get_call_type = _call_type


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


__all__ = ["CacheFile", "cache_folder", "is_kept", "njit", "njit_allocating", "njit_inline", "prefetch", "take_turn"]
