"""Counts of rules, the probabilities that follow from them, and rules as text."""
