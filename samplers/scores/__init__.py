"""Scores of sentence pairs: word statistics, probabilities under the grammar, and words that do not fit their pair."""
