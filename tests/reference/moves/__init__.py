"""Moves other than sweeps of single variables."""
