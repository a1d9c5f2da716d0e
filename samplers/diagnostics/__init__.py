"""Diagnostics of chains: convergence, effective sample sizes, Monte Carlo errors, and overlap of grammars."""
