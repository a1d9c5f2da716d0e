"""Aligner models, their registry, and the sampler of the HMM models."""
