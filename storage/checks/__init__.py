"""Integrity checks and repair of a store's tables."""
