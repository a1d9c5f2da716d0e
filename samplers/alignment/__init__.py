"""Word alignment: Bayesian HMM models, their chains, and symmetrization [SA16]."""
