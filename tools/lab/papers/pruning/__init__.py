"""Measurements of randomized pruning, for pairs and for sentences."""
