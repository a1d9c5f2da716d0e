"""Scores of sentence pairs: lexicon, charts and misfits of many pairs per call."""
