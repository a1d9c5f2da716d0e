"""Derivations of charts, enumerated in plain Python."""
