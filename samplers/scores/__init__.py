"""Scores of sentence pairs: word statistics, grammar probabilities, and words that do not fit."""
