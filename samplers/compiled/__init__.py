"""Interface to numba: kernels and their cache, hash tables, random streams and variates."""

from collections.abc import Callable

LISTENERS: list[Callable[[], object]] = []
"""Callbacks to run once, before the first compilation of a kernel that is not cached."""
