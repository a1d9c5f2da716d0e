"""Charts under a grammar: inside and outside sums, best and sampled derivations, expectations."""
