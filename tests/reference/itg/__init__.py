"""Twins of the ITG samplers."""
