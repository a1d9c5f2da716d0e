"""Scores of sentence pairs under the grammar that a store has learned."""
