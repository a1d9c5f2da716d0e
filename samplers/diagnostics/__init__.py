"""Diagnostics of chains: convergence, effective sample sizes, Monte Carlo errors, overlap of grammars."""
