"""The one door to numba: compiled kernels and their cache, random streams and variates."""
