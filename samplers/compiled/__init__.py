"""Interface to numba: kernels and their cache, hash tables, random streams and variates."""

from collections.abc import Callable

LISTENERS: list[Callable[[], object]] = []
"""Callbacks that `jit.notify_listeners` runs once, before this process compiles its first kernel."""
