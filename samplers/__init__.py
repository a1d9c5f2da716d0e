"""Alignment, forests, grammars, rule models, samplers, charts, language models, decoding, scores and diagnostics.

No SQL, clock or logging. Only `compiled` accesses files: it caches compiled kernels.
"""
