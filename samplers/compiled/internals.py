"""Changes of numba's private parts: nothing else depends on how numba works inside.

Tested with numba 0.62 and 0.68, the bounds in `pyproject.toml`.
"""

from functools import cache
from importlib.util import find_spec
from typing import Any

from llvmlite.binding import Linkage
from numba.core import environment, targetconfig, types
from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen

INLINED = "inlined."
"""What the qualified names of functions begin with that are only there to be inlined."""

# Steps that are only there to be inlined are optimised and emitted as a part of their callers. To do that for
# themselves as well would be for nothing: their libraries stay as they were lowered.

_libraries: Any = CPUCodeLibrary
_codegen: Any = JITCPUCodegen
_optimise = _libraries._optimize_final_module
_load = _libraries._finalize_final_module
_set_environment = _codegen.set_env
_environments: Any = environment.Environment._memo


def _is_step(library: Any) -> bool:
    return bool(library.name.startswith(INLINED))


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


@cache
def change_compiler() -> None:
    """Change what compiles kernels, for the life of the process."""
    _libraries._optimize_functions = _optimise_functions
    _libraries._optimize_final_module = _optimise_kernel
    _libraries._finalize_final_module = _load_kernel
    _codegen.set_env = _set_known_environment
    _options.__eq__ = _equal
    _options.__hash__ = lambda options: hash(type(options))
    _functions.get_call_type = _call_type


def _is_there() -> None:
    if find_spec("scipy") is None:
        raise ImportError("scipy is not installed")


@cache
def prepare_to_compile() -> None:
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
