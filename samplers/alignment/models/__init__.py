"""Aligner models, their registry, and the sampler that runs any of them."""
