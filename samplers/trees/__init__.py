"""Tree-substitution grammars: Gibbs sampler, base distributions, and priors [CGB09]."""
