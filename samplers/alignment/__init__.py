"""Word alignment: Bayesian HMM models [SA16] and ITG models, their chains, and symmetrization."""
