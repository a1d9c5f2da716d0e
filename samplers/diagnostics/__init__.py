"""Diagnostics of chains: convergence, effective sample sizes, Monte Carlo errors, grammar overlap."""
