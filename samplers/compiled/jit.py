"""Decorators that compile kernels."""

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any, TypeVar, cast

import numba

from hierogram.samplers.compiled.cache import KernelCache
from hierogram.samplers.compiled.internals import INLINED, change_compiler

Function = TypeVar("Function", bound=Callable[..., Any])

_compile: Any = numba.njit

change_compiler()


def _kernel(function: Function, **options: Any) -> Function:
    compiled = _compile(nogil=True, error_model="numpy", **options)(function)
    compiled._cache = KernelCache(function)
    return cast("Function", compiled)


def njit(function: Function) -> Function:
    """Compile a kernel that allocates nothing and releases the GIL; indices and divisors are not checked.

    Negative indices are invalid: they do not count from the end. The kernel runs without numba's reference counts,
    which cost more than the arithmetic of small functions; so the compiler rejects a kernel that creates an array.
    """
    return _kernel(function, _nrt=False)


def njit_allocating(function: Function) -> Function:
    """Compile like `njit`, for code outside sweeps that may create arrays."""
    return _kernel(function)


@cache
def _alone(function: Function) -> Function:
    return njit(function)


def njit_inline(function: Function) -> Function:
    """Compile like `njit`, and inline the function into its callers. Calls from Python use a kernel of its own."""
    named = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    named.__qualname__ = INLINED + function.__qualname__
    named.__module__ = function.__module__
    step = _compile(
        nogil=True, error_model="numpy", _nrt=False, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True
    )(named)
    # Signatures of inlined functions have no machine code, so Python must not find them.
    step._insert = lambda *overload: None
    step._compile_for_args = lambda *arguments: _alone(function)
    return cast("Function", step)
