"""Measurements of `python -m hierogram.tools.lab bench`, one module for each part of the system."""
