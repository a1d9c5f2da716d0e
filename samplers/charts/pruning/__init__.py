"""Randomized pruning: exact expectations of large charts from a sequence of masks."""
