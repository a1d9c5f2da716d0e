"""Rules and derivations for people: which pairs use a rule, how a derivation hangs together."""
