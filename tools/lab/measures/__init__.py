"""Measurements of `hierogram bench`, one module for each part of the system."""
