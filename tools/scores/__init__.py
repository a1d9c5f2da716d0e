"""Scores of sentence pairs under a store's learned grammar."""
