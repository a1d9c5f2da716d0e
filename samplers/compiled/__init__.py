"""Interface to numba: compiled kernels and their cache, random streams and variates."""

from collections.abc import Callable

LISTENERS: list[Callable[[], object]] = []
"""Callbacks that run once before the first kernel that is not in the cache is compiled."""
