"""Diagnostics of chains: agreement, effective sample sizes, Monte Carlo errors, overlap of grammars."""
