"""Forests and their derivations, as flat arrays."""
