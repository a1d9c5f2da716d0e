"""Alignment, forests, rules, rule models, samplers, decoding and scores.

Only numerics, without SQL, clock or logging. Only `compiled` uses files: it caches compiled kernels.
"""
