"""Word alignment: Bayesian HMM models [SA16], ITG models, and symmetrization."""
