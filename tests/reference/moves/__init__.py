"""Moves besides sweeps of single variables."""
