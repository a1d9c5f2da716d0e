"""Charts of sentences and pairs under a grammar: inside and outside sums, best and drawn derivations, expectations."""
