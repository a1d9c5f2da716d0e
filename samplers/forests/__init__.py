"""Forests and the derivations chosen in them, as flat arrays."""
