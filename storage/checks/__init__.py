"""Integrity checks of a store's tables, and its repair."""
