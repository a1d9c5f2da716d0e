"""Word alignment: Bayesian HMM models, their chains, and symmetrisation [SA16]."""
