"""Baseline samplers of the papers."""
