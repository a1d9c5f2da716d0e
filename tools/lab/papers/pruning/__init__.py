"""Randomized pruning, measured: of pairs and of sentences."""
