"""Measurements for `python -m hierogram.tools.lab bench`, and measurement programs."""
