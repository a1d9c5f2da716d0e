"""Numerical code, without SQL, clock or logging. Only `compiled` accesses files: it caches compiled kernels."""
