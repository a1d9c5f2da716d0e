"""Rules and their counts: commits, keys, history, queries."""
