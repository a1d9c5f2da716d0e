"""Patches of numba's internals, which only `jit` applies. Tested with numba 0.62 and 0.68."""

from functools import cache
from importlib.util import find_spec
from typing import Any

from llvmlite.binding import Linkage
from numba.core import environment, targetconfig, types
from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen

INLINED = "inlined."
"""Prefix of the qualified names of functions that are always inlined."""

# Skip optimizing and emitting inlined functions, because their callers contain the optimized code.

_libraries: Any = CPUCodeLibrary
_codegen: Any = JITCPUCodegen
_optimize = _libraries._optimize_final_module
_load = _libraries._finalize_final_module
_set_environment = _codegen.set_env
_environments: Any = environment.Environment._memo


def _is_inlined(library: Any) -> bool:
    return bool(library.name.startswith(INLINED))


def _optimize_functions(library: Any, module: Any) -> None:
    module.data_layout = library._codegen._data_layout
    if not _is_inlined(library):
        manager, builder = library._codegen._function_pass_manager()
        for function in module.functions:
            if not function.is_declaration:
                manager.run(function, builder)


def _optimize_kernel(library: Any) -> None:
    if not _is_inlined(library):
        # Make linked functions internal, so that LLVM drops unused arguments.
        for linked in library._final_module.functions:
            if not linked.is_declaration and linked.linkage == Linkage.linkonce_odr:
                linked.linkage = Linkage.internal
        _optimize(library)


def _load_kernel(library: Any) -> None:
    if _is_inlined(library):
        library._finalized = True
        return
    _load(library)
    # The kernel contains the code of its inlined functions, so it also needs their environments, which are tables of
    # Python constants.
    for variable in library._final_module.global_variables:
        constants = _environments.get(variable.name)
        if constants is not None:
            library.codegen.set_env(variable.name, constants)


def _set_defined_environment(codegen: Any, name: str, constants: Any) -> None:
    if codegen._engine.is_symbol_defined(name):
        _set_environment(codegen, name, constants)


# Cache the types of calls, because numba resolves the same calls repeatedly.

_stack: Any = targetconfig.ConfigStack
_functions: Any = types.Function
_resolve = _functions.get_call_type
_PLAIN = (types.Number, types.Boolean, types.Array, types.Record)
_resolved: dict[object, tuple[Any, Any, Any]] = {}


def _call_type(function: Any, context: Any, arguments: Any, keywords: Any) -> Any:
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


@cache
def change_compiler() -> None:
    """Patch numba's compiler for this process. Must run before the first kernel is declared."""
    _libraries._optimize_functions = _optimize_functions
    _libraries._optimize_final_module = _optimize_kernel
    _libraries._finalize_final_module = _load_kernel
    _codegen.set_env = _set_defined_environment
    _functions.get_call_type = _call_type


def _require_scipy() -> None:
    if find_spec("scipy") is None:
        raise ImportError("scipy is not installed")


@cache
def prepare_to_compile() -> None:
    """Import numba's array support and patch it. Must run before a kernel is compiled, not if loaded."""
    from numba.np import arrayobj, linalg

    algebra: Any = linalg
    ensure_blas = algebra.ensure_blas
    # Only search for scipy. Numba imports it to check for BLAS, which takes as long as importing numba itself.
    algebra.ensure_blas = _require_scipy
    from numba.np import arraymath

    math: Any = arraymath
    algebra.ensure_blas = math.ensure_blas = ensure_blas
    arrays: Any = arrayobj
    numba_index = arrays.fix_integer_index

    def index_of(context: Any, builder: Any, index_type: Any, index: Any, size: Any) -> Any:
        # Only code without reference counts (see `njit`) omits the check for negative indices.
        if context.enable_nrt:
            return numba_index(context, builder, index_type, index, size)
        return context.cast(builder, index, index_type, types.intp if index_type.signed else types.uintp)

    arrays.fix_integer_index = index_of
