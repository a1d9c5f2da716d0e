"""Charts of a sentence under a grammar: inside probabilities, best and drawn derivations, expectations."""
