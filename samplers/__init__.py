"""Numerical code, without SQL, clock or logging. Only `compiled` accesses files, to cache kernels."""
