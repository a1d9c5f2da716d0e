"""Twins: plain-Python reference implementations of the samplers and decoders, slow and easy to check."""
