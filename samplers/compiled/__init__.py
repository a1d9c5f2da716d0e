"""The one door to numba: compiled kernels and their cache, random streams and variates."""

from collections.abc import Callable

LISTENERS: list[Callable[[], object]] = []
"""Called once, before the first kernel is compiled that the cache does not have: people wait for that."""
